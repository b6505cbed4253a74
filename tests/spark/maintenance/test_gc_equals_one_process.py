"""Garbage collected by tasks is what one process would delete, object by object, whatever happened."""

import os
from datetime import date, datetime, timedelta
from typing import Any, cast

import pytest

import frazil
from frazil import GCSummary, Repository
from frazil.format.header import Dialect
from frazil.spark import MaintenancePolicy
from tests.gc_programs import World, run_programs

DEEP = "FRAZIL_DEEP" in os.environ
EXAMPLES = {Dialect.V2: 8, Dialect.V1: 4, Dialect.DRAFT: 2}


class TwoWays(World):
    """A world where garbage is collected twice: here, and by tasks in a twin of it.

    The marks of the twin are those of earlier collections, too, of which some have become stale.
    """

    def collect(self, cutoff: datetime) -> GCSummary:
        twin = self.copied()
        dry = frazil.collect_garbage(twin.repository, cutoff, dry_run=True)
        assert twin.files() == self.files()
        report = frazil.collect_garbage(twin.repository, cutoff)

        summary = super().collect(cutoff)

        assert twin.files() == self.files()
        assert dry.summary == report.summary == summary
        assert dry.found == report.found
        self._keep_marks(twin)
        return summary

    def _keep_marks(self, twin: World) -> None:
        own = {info.key for info in self.storage.list("_frazil/marks/")}
        marks = {info.key for info in twin.storage.list("_frazil/marks/")}
        self.storage.delete_many(own - marks)
        for key in marks - own:
            self.storage.put(key, twin.storage.get(key))


@pytest.mark.parametrize("dialect", EXAMPLES, ids=lambda dialect: dialect.value)
def test_tasks_delete_what_one_process_would(dialect: Dialect) -> None:
    run_programs(TwoWays, dialect, EXAMPLES[dialect] * (50 if DEEP else 1))


@pytest.mark.parametrize(
    "moment", [datetime(2100, 1, 1), date(2100, 1, 1), "2100-01-01T00:00:00Z", 0]
)
def test_no_verb_that_deletes_takes_a_time_without_a_zone(moment: Any) -> None:
    repo = Repository.create(frazil.in_memory_storage())

    with pytest.raises(TypeError, match="time zone"):
        frazil.collect_garbage(repo, moment)
    with pytest.raises(TypeError, match="time zone"):
        repo.garbage_collect(moment)
    with pytest.raises(TypeError, match="time zone"):
        repo.expire_snapshots(moment)
    with pytest.raises(TypeError, match="time zone"):
        repo.find_expired_snapshots(moment)
    with pytest.raises(TypeError, match="time zone"):
        repo.expire(now=moment or cast("Any", "now"))
    with pytest.raises(TypeError, match="time zone"):
        frazil.maintain(repo, MaintenancePolicy(garbage_age=moment))
    assert not frazil.collect_garbage(repo, timedelta(days=1)).summary.snapshots_deleted
