"""Which snapshots of a V2 repository expire, and what is left of its history."""

from frazil.maintenance.expire import ExpiryPolicy, plan_expiry
from tests.unit.maintenance.histories import (
    SECOND,
    history,
    id_of,
    line,
    line_of,
    names_of,
    parents,
    pruned,
    snapshot,
)

LINE = line("root a b c d e")


def test_snapshots_from_before_the_time_are_released() -> None:
    plan = plan_expiry(history(LINE, {"main": "e"}), ExpiryPolicy(3 * SECOND))

    assert names_of(plan.released) == "a b"
    assert parents(plan.info) == {"root": None, "c": "root", "d": "c", "e": "d"}


def test_a_snapshot_of_just_that_time_stays() -> None:
    plan = plan_expiry(history(LINE, {"main": "e"}), ExpiryPolicy(2 * SECOND + 1))

    assert names_of(plan.released) == "a b"


def test_what_is_not_too_old_stays_in_the_line_also_if_a_clock_went_back() -> None:
    plan = plan_expiry(history(line_of(0, 5, 1, 2, 5), {"main": "s4"}), ExpiryPolicy(3 * SECOND))

    assert names_of(plan.released) == "s2 s3"
    assert parents(plan.info) == {"s0": None, "s1": "s0", "s4": "s1"}
    assert pruned(plan.info, "s4") == "s2 s3"


def test_who_continues_from_the_first_snapshot_keeps_the_logs_between() -> None:
    plan = plan_expiry(history(LINE, {"main": "e"}), ExpiryPolicy(3 * SECOND))

    assert pruned(plan.info, "c") == "a b"
    assert pruned(plan.info, "d") == ""


def test_logs_that_ancestors_kept_come_before_their_own() -> None:
    once = plan_expiry(history(LINE, {"main": "e"}), ExpiryPolicy(3 * SECOND))

    twice = plan_expiry(once.info, ExpiryPolicy(4 * SECOND))

    assert names_of(twice.released) == "c"
    assert pruned(twice.info, "d") == "a b c"


def test_logs_that_a_snapshot_had_come_last() -> None:
    snapshots = [*line("root a"), snapshot("b", "a", 2, "x y"), snapshot("c", "b", 3)]

    plan = plan_expiry(history(snapshots, {"main": "c"}), ExpiryPolicy(2 * SECOND))

    assert pruned(plan.info, "b") == "a x y"


def test_tips_stay_and_those_above_them_do_not_rest_on_them() -> None:
    info = history(LINE, {"main": "e", "other": "c"}, {"tag": "b"})

    plan = plan_expiry(info, ExpiryPolicy(5 * SECOND))

    assert names_of(plan.released) == "a d"
    assert parents(plan.info) == {"root": None, "b": "root", "c": "b", "e": "root"}
    assert pruned(plan.info, "e") == "a b c d"


def test_the_first_snapshot_and_the_tip_of_main_always_stay() -> None:
    policy = ExpiryPolicy(99 * SECOND, deletes_branches=True, deletes_tags=True)
    info = history(LINE, {"main": "e", "begin": "root"}, {"first": "root"})

    plan = plan_expiry(info, policy)

    assert names_of(plan.released) == "a b c d"
    assert parents(plan.info) == {"root": None, "e": "root"}
    assert (plan.info.branches, plan.info.tags) == (info.branches, info.tags)


def test_expired_branches_go_if_they_shall() -> None:
    info = history(LINE, {"main": "e", "old": "b", "new": "d"}, {"tag": "b"})

    plan = plan_expiry(info, ExpiryPolicy(3 * SECOND, deletes_branches=True))

    assert set(plan.info.branches) == {"main", "new"}
    # A tag still points there: the snapshot stays, the branch does not.
    assert names_of(plan.released) == "a"


def test_expired_tags_go_if_they_shall_and_their_names_stay_taken() -> None:
    info = history(LINE, {"main": "e"}, {"old": "b", "new": "d"})

    plan = plan_expiry(info, ExpiryPolicy(3 * SECOND, deletes_tags=True))

    assert plan.info.tags == {"new": id_of("d")}
    assert plan.info.deleted_tags == {"old"}
    assert names_of(plan.released) == "a b"


def test_snapshots_without_a_ref_expire_as_well() -> None:
    snapshots = [*LINE, snapshot("old", "a", 2), snapshot("new", "old", 5)]

    plan = plan_expiry(history(snapshots, {"main": "e"}), ExpiryPolicy(3 * SECOND))

    assert names_of(plan.released) == "a b old"
    assert parents(plan.info)["new"] == "root"
    assert pruned(plan.info, "new") == "a old"
