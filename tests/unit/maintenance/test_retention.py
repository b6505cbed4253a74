"""What the policies of branches and tags let go."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from frazil import FormatError, Repository, RetentionPolicy
from frazil.format.metadata import Metadata
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.expire import ancestors_of, plan_retention, read_policies, with_policies
from tests.repositories import create
from tests.unit.maintenance.histories import (
    SECOND,
    history,
    line,
    line_of,
    names_of,
    parents,
    pruned,
    snapshot,
)

LINE = line("root a b c d e")
NOW = 5 * SECOND


def with_retention(info: RepoInfo, **policies: RetentionPolicy) -> RepoInfo:
    """Patterns as names of arguments, `any_` for `*`."""
    named = {name.replace("any_", "*"): policy for name, policy in policies.items()}
    return replace(info, metadata=Metadata(with_policies({}, named)))


def last(count: int) -> RetentionPolicy:
    return RetentionPolicy(keep_last=count)


def seconds(count: int) -> RetentionPolicy:
    return RetentionPolicy(keep_for=timedelta(seconds=count))


def test_nothing_is_released_without_policies() -> None:
    info = history(LINE, {"main": "e"})

    assert plan_retention(info, NOW).released == frozenset()
    assert plan_retention(info, NOW).info == info


@pytest.mark.parametrize(
    ("policy", "released"),
    [
        (last(1), "a b c d"),
        (last(3), "a b"),
        (last(99), ""),
        (seconds(0), "a b c d"),
        (seconds(2), "a b"),
        (RetentionPolicy(2, timedelta(seconds=3)), "a"),
        (RetentionPolicy(), ""),
    ],
)
def test_a_branch_keeps_what_its_policy_says(policy: RetentionPolicy, released: str) -> None:
    info = with_retention(history(LINE, {"main": "e"}), main=policy)

    assert names_of(plan_retention(info, NOW).released) == released


def test_a_tip_stays_however_old_it_is() -> None:
    info = with_retention(history(LINE, {"main": "e"}), main=seconds(1))

    plan = plan_retention(info, 10**6 * SECOND)

    assert names_of(plan.released) == "a b c d"
    assert parents(plan.info) == {"root": None, "e": "root"}


def test_who_loses_a_parent_goes_on_as_in_every_expiry() -> None:
    info = with_retention(history(LINE, {"main": "e"}), main=last(2))

    plan = plan_retention(info, NOW)

    assert parents(plan.info) == {"root": None, "d": "root", "e": "d"}
    assert (pruned(plan.info, "d"), pruned(plan.info, "e")) == ("a b c", "")


def test_who_loses_a_parent_goes_on_from_what_stays_if_a_clock_went_back() -> None:
    info = with_retention(history(line_of(0, 5, 1, 2, 5), {"main": "s4"}), main=seconds(1))

    plan = plan_retention(info, NOW)

    assert names_of(plan.released) == "s2 s3"
    assert parents(plan.info) == {"s0": None, "s1": "s0", "s4": "s1"}
    assert pruned(plan.info, "s4") == "s2 s3"


@given(
    times=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    keep_last=st.none() | st.integers(1, 4),
    keep_for=st.none() | st.integers(0, 4),
    tagged=st.integers(0, 7),
)
def test_all_that_a_policy_keeps_stays_in_the_line_whatever_the_clocks_did(
    times: list[int], keep_last: int | None, keep_for: int | None, tagged: int
) -> None:
    policy = RetentionPolicy(keep_last, None if keep_for is None else timedelta(seconds=keep_for))
    before = line_of(*times)
    tag = names_of((before[tagged % len(before)].id,))
    info = history(before, {"main": names_of((before[0].id,))}, {"tag": tag})

    plan = plan_retention(with_retention(info, main=policy, tag=last(1)), NOW)

    tip = plan.info.snapshots[before[0].id]
    after = [each.id for each in (tip, *ancestors_of(plan.info.snapshots, tip))]
    for number, each in enumerate(before):
        if policy.keeps(number, timedelta(seconds=(NOW - each.flushed_at) / SECOND)):
            assert each.id in after


def test_all_policies_that_fit_a_name_are_asked() -> None:
    info = with_retention(history(LINE, {"main": "e"}), main=last(1), m_=last(9), any_=last(2))

    assert names_of(plan_retention(info, NOW).released) == "a b c"


def test_a_snapshot_stays_if_one_of_the_refs_keeps_it() -> None:
    snapshots = [*LINE, snapshot("x", "c", 4)]
    info = history(snapshots, {"main": "e", "side": "x"}, {"v1": "b"})

    plan = plan_retention(with_retention(info, main=last(1), side=last(2), v1=last(1)), NOW)

    assert names_of(plan.released) == "a d"


def test_a_ref_without_a_policy_keeps_all_that_leads_to_it() -> None:
    info = history(LINE, {"main": "e", "other": "b"}, {"tag": "c"})

    assert names_of(plan_retention(with_retention(info, main=last(1)), NOW).released) == "d"


def test_patterns_hold_for_tags_too_and_know_capital_letters() -> None:
    info = history(LINE, {"main": "a"}, {"nightly-1": "e", "Nightly-2": "c"})
    policies = {"nightly-*": last(1)}
    chosen = replace(info, metadata=Metadata(with_policies({}, policies)))

    assert names_of(plan_retention(chosen, NOW).released) == "d"


def test_what_no_ref_leads_to_is_left_to_the_garbage_collection() -> None:
    snapshots = [*LINE, snapshot("x", "c", 4)]
    info = with_retention(history(snapshots, {"main": "e"}), any_=last(1))

    plan = plan_retention(info, NOW)

    assert names_of(plan.released) == "a b c d"
    assert parents(plan.info) == {"root": None, "e": "root", "x": "root"}
    assert pruned(plan.info, "x") == "a b c"


# Through the repository


def commit_groups(repository: Repository, *paths: str) -> None:
    for path in paths:
        session = repository.writable_session("main")
        zarr.create_group(session.store, path=path)
        session.commit(f"made {path}")


def messages(repository: Repository) -> list[str]:
    return [info.message for info in repository.ancestry(branch="main")]


def test_policies_are_saved_and_replaced_whole() -> None:
    repository = create()
    repository.protect_branch("main")

    repository.set_retention({"main": last(2), "nightly-*": seconds(5)})
    assert Repository.open(repository.storage).retention() == {
        "main": last(2),
        "nightly-*": seconds(5),
    }

    repository.set_retention({"x": RetentionPolicy()})
    assert repository.retention() == {"x": RetentionPolicy()}
    repository.set_retention({})
    assert repository.retention() == {}
    assert repository.protected_branches() == {"main": None}


def test_an_expiry_by_policies_reports_what_it_released() -> None:
    repository = create()
    commit_groups(repository, "a", "b", "c")
    ids = [info.id for info in repository.ancestry(branch="main")]
    repository.set_retention({"main": last(1)})

    planned = repository.expire(dry_run=True)
    assert len(messages(repository)) == 4
    done = repository.expire()

    assert planned == done
    assert done.released_snapshots == {ids[1], ids[2]}
    assert done.kept_snapshots == 2
    assert messages(repository) == ["made c", "Repository initialized"]
    changed = repository.diff(from_snapshot_id=ids[-1], to_branch="main")
    assert {"/a", "/b", "/c"} <= changed.new_groups


def test_an_expiry_that_releases_nothing_writes_nothing() -> None:
    repository = create()
    commit_groups(repository, "a")
    before = len(list(repository.ops_log()))

    assert repository.expire().released_snapshots == set()

    assert len(list(repository.ops_log())) == before


def test_the_time_can_be_given_and_needs_a_zone() -> None:
    repository = create()
    commit_groups(repository, "a", "b")
    repository.set_retention({"*": seconds(60)})
    later = datetime.now(UTC) + timedelta(hours=1)

    assert repository.expire().released_snapshots == set()
    assert len(repository.expire(now=later).released_snapshots) == 1
    with pytest.raises(TypeError, match="time zone"):
        repository.expire(now=datetime(2020, 1, 1))


def test_repositories_before_v2_have_no_policies() -> None:
    repository = create(spec_version=1)

    with pytest.raises(FormatError, match="retention policies"):
        repository.set_retention({})
    with pytest.raises(FormatError, match="retention policies"):
        repository.expire()


def test_a_policy_that_nobody_understands_releases_nothing() -> None:
    with pytest.raises(FormatError, match="no retention policy"):
        read_policies({"__frazil": {"retention": {"main": 7}}})
