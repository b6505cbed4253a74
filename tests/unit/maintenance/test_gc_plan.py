"""What is garbage in a V2 repository, and whether it still is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.gc import drop_snapshots, is_older, plan_garbage, retained_logs
from tests.unit.maintenance.histories import (
    history,
    id_of,
    line,
    names_of,
    parents,
    pruned,
    snapshot,
)

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

SNAPSHOTS = [*line("root a b"), snapshot("x", "a", 3), snapshot("y", "x", 4), snapshot("z", "y", 5)]
INFO = history(SNAPSHOTS, {"main": "b"})


def ids(names: str) -> frozenset[SnapshotId]:
    return frozenset(map(id_of, names.split()))


def test_only_what_was_written_before_the_cutoff_is_older() -> None:
    created = NOON + timedelta(microseconds=5)

    assert not is_older(created, created)
    assert is_older(created, created + MICROSECOND)


def test_a_time_without_a_fraction_may_be_a_second_later() -> None:
    assert not is_older(NOON, NOON + timedelta(seconds=1) - MICROSECOND)
    assert is_older(NOON, NOON + timedelta(seconds=1))


def test_what_no_ref_leads_to_is_dropped_if_it_is_old() -> None:
    plan = plan_garbage(INFO, ids("root a b x y"))

    assert names_of(plan.dropped) == "x y"
    assert names_of(frozenset(plan.kept)) == "a b root z"


def test_who_loses_a_parent_gets_the_nearest_ancestor_that_stays() -> None:
    left = drop_snapshots(INFO, {id_of("x"), id_of("y")})

    assert parents(left) == {"root": None, "a": "root", "b": "a", "z": "a"}
    assert pruned(left, "z") == "x y"


def test_logs_of_what_stays_and_of_what_it_rests_on_are_needed() -> None:
    left = drop_snapshots(INFO, {id_of("x"), id_of("y")})

    assert names_of(retained_logs(left)) == "a b root x y z"
    assert names_of(retained_logs(drop_snapshots(left, {id_of("z")}))) == "a b root"


def test_a_tag_keeps_what_it_leads_to() -> None:
    plan = plan_garbage(replace(INFO, tags={"t": id_of("y")}), ids("root a b x y z"))

    assert names_of(plan.dropped) == "z"


def test_a_plan_holds_while_nothing_rests_on_what_shall_go() -> None:
    plan = plan_garbage(INFO, ids("x y"))
    committed = history([*SNAPSHOTS, snapshot("c", "b", 9)], {"main": "c"})

    assert plan.still_holds(INFO)
    assert plan.still_holds(committed)


@pytest.mark.parametrize(
    "now",
    [
        replace(INFO, branches={"main": id_of("b"), "new": id_of("x")}),
        replace(INFO, branches={"main": id_of("z")}),
        replace(INFO, tags={"new": id_of("y")}),
        history([*SNAPSHOTS, snapshot("flushed", "y", 9)], {"main": "b"}),
    ],
)
def test_a_plan_falls_when_something_comes_to_rest_on_what_shall_go(now: RepoInfo) -> None:
    plan = plan_garbage(INFO, ids("x y"))

    assert not plan.still_holds(now)


def test_a_plan_falls_when_a_file_that_it_took_for_garbage_is_a_snapshot_now() -> None:
    plan = plan_garbage(INFO, ids("c"))

    assert not plan.still_holds(history([*SNAPSHOTS, snapshot("c", "b", 9)], {"main": "c"}))
