"""Garbage collected by tasks is what one process would delete, object by object, whatever happened."""

import os
from datetime import datetime

import pytest

from frazil import GCSummary
from frazil.format.dialect import Dialect
from frazil.spark import collect_garbage
from tests.garbage_programs import run_programs
from tests.garbage_worlds import World

DEEP = "FRAZIL_DEEP" in os.environ
EXAMPLES = {Dialect.V2: 8, Dialect.V1: 4, Dialect.DRAFT: 2}


class TwoWays(World):
    """A world where garbage is collected twice: here, and by tasks in a twin of it.

    The marks of the twin are those of earlier collections, too, of which some have become stale.
    """

    def collect(self, cutoff: datetime) -> GCSummary:
        twin = self.copied()
        dry = collect_garbage(None, twin.repository, cutoff, dry_run=True)
        assert twin.files() == self.files()
        report = collect_garbage(None, twin.repository, cutoff)

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
