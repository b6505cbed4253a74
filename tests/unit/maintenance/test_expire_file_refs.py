"""Which snapshots expire where each ref is looked at by itself."""

import pytest

from frazil.maintenance.expire import ExpiryPolicy, plan_file_expiry, plan_line
from tests.unit.maintenance.histories import SECOND, line, names_of

LINE = line("root a b c d")


def left(names: str, seconds: int) -> str:
    kept = plan_line(line(names), ExpiryPolicy(seconds * SECOND))
    return names_of(tuple(each.id for each in kept))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "d c b a root"),
        (1, "d c b a root"),
        (3, "d c root"),
        (4, "d root"),
        (99, "d root"),
    ],
)
def test_what_is_recent_is_left_and_the_first(seconds: int, expected: str) -> None:
    assert left("root a b c d", seconds) == expected


def test_a_line_of_one_is_left_alone() -> None:
    assert left("root", 99) == "root"


def test_snapshots_between_are_released() -> None:
    plan = plan_file_expiry({"main": LINE}, {}, ExpiryPolicy(3 * SECOND))

    assert names_of(plan.released) == "a b"
    assert len(plan.lines) == 1


def test_a_tip_that_is_too_old_counts_as_released_if_its_line_gets_shorter() -> None:
    tags = {"short": LINE[-2:], "long": LINE[-3:]}

    plan = plan_file_expiry({"main": LINE}, tags, ExpiryPolicy(99 * SECOND))

    assert names_of(plan.released) == "a b c d"
    assert len(plan.lines) == 2


def test_expired_refs_go_if_they_shall_but_never_main() -> None:
    branches = {"main": LINE, "old": LINE[2:], "begin": LINE[-1:]}
    tags = {"main": LINE[3:], "new": LINE}

    policy = ExpiryPolicy(4 * SECOND, deletes_branches=True, deletes_tags=True)
    plan = plan_file_expiry(branches, tags, policy)

    assert plan.branches == ("begin", "old")
    assert plan.tags == ("main",)


def test_expired_refs_stay_unless_they_shall_go() -> None:
    plan = plan_file_expiry({"old": LINE}, {"tag": LINE}, ExpiryPolicy(99 * SECOND))

    assert plan.branches == plan.tags == ()
