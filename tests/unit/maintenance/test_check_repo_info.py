"""Damages of `repo` and of what it alone knows."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from frazil.config import RepositoryConfig
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata, Value
from frazil.format.repo_info import RepoInfo, SnapshotInfo, Update
from frazil.format.v2 import repo_info_codec as encoding
from frazil.maintenance.check import check_storage
from frazil.maintenance.findings import Repair, Severity
from tests.damages import (
    ancestor,
    create_sample,
    cut,
    delete,
    find_only,
    rewrite_repo,
    tip,
    what_matters,
)


def _with_snapshot(info: RepoInfo, id: SnapshotId, **changes: object) -> RepoInfo:
    return info.with_snapshots(replace(info.snapshots[id], **changes))  # type: ignore[arg-type]


def test_a_repo_that_can_not_be_read_is_to_be_restored() -> None:
    repository = create_sample()
    cut(repository, "repo")

    (problem,) = check_storage(repository.storage).problems

    assert (problem.object, problem.repair) == ("repo", Repair.RESTORE_REPO)


def test_a_repo_that_is_gone_is_to_be_restored_where_backups_are() -> None:
    repository = create_sample()
    delete(repository, "repo")

    (problem,) = check_storage(repository.storage).problems

    assert (problem.object, problem.repair) == ("repo", Repair.RESTORE_REPO)
    assert "gone" in problem.what


def test_a_ring_of_ancestors_makes_a_repo_unreadable() -> None:
    repository = create_sample()
    newest, first = tip(repository), ancestor(repository, 3)
    rewrite_repo(repository, lambda info: _with_snapshot(info, first, parent_id=newest))

    (problem,) = check_storage(repository.storage).problems

    assert problem.repair is Repair.RESTORE_REPO
    assert "its own ancestor" in problem.what


def test_main_has_to_be_there() -> None:
    repository = create_sample()
    rewrite_repo(repository, lambda info: replace(info, branches={"dev": info.branches["main"]}))

    assert "no branch 'main'" in find_only(repository).what


def test_a_deleted_tag_is_not_there_as_well() -> None:
    repository = create_sample()
    rewrite_repo(repository, lambda info: replace(info, deleted_tags=frozenset(["v1"])))

    assert "'v1' was deleted" in find_only(repository).what


def test_a_snapshot_is_younger_than_its_parent() -> None:
    repository = create_sample()
    newest = tip(repository)
    parent_time = repository.protocol.lookup_snapshot(ancestor(repository, 1)).flushed_at
    rewrite_repo(repository, lambda info: _with_snapshot(info, newest, flushed_at=parent_time))

    problems = what_matters(check_storage(repository.storage))

    assert [each.object for each in problems] == ["repo", f"snapshots/{newest}"]
    assert "is not younger than its parent" in problems[0].what
    assert "its time is" in problems[1].what


def test_what_a_snapshot_says_of_itself_is_what_the_repo_info_says() -> None:
    repository = create_sample()
    rewrite_repo(repository, lambda info: _with_snapshot(info, tip(repository), message="another"))

    problem = find_only(repository)

    assert problem.severity is Severity.WARNING
    assert "'another'" in problem.what


def test_a_configuration_that_can_not_be_used_is_found() -> None:
    repository = create_sample()
    broken = Value({"manifest": {"splitting": {"split_sizes": "none"}}})
    rewrite_repo(repository, lambda info: replace(info, config=broken))

    (problem,) = what_matters(check_storage(repository.storage))

    assert problem.object == "repo"
    assert "configuration can't be used" in problem.what


def test_a_configuration_that_is_no_map_is_found() -> None:
    repository = create_sample()
    rewrite_repo(repository, lambda info: replace(info, config=Value([1, 2])))

    (problem,) = what_matters(check_storage(repository.storage))

    assert "configuration can't be read" in problem.what


@pytest.mark.parametrize("name", ["branches", "deleted_tags"])
def test_lists_that_are_not_in_order_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = create_sample()
    if name == "deleted_tags":
        rewrite_repo(repository, lambda info: replace(info, deleted_tags=frozenset("xy")))
        rewrite_repo(repository, lambda info: replace(info, branches={"main": tip(repository)}))
    monkeypatch.setattr(encoding, "sorted", _sort_backwards, raising=False)
    monkeypatch.setattr(encoding, "bisect_left", lambda *_: 0)
    rewrite_repo(repository, lambda info: info)

    problem = find_only(repository)

    assert problem.what.startswith(f"{name} is not in order")


def _sort_backwards(items: Iterable[Any]) -> list[Any]:
    return sorted(items, reverse=True)


def test_a_flag_is_not_on_and_off() -> None:
    repository = create_sample()
    rewrite_repo(
        repository,
        lambda info: replace(info, enabled_feature_flags=(3,), disabled_feature_flags=(3, 4)),
    )

    assert "both enabled and disabled" in find_only(repository).what


def test_metadata_can_be_read() -> None:
    repository = create_sample()
    rewrite_repo(repository, lambda info: replace(info, metadata=Metadata({"fine": 1})))

    assert what_matters(check_storage(repository.storage)) == []


# The ops log


def _with_updates(info: RepoInfo, *updates: Update) -> RepoInfo:
    return replace(info, latest_updates=updates)


def test_times_of_updates_increase() -> None:
    repository = create_sample()

    def swap(info: RepoInfo) -> RepoInfo:
        first, second, *rest = info.latest_updates
        times = (second.updated_at, first.updated_at)
        return _with_updates(
            info,
            replace(first, updated_at=times[0]),
            replace(second, updated_at=times[1]),
            *rest,
        )

    rewrite_repo(repository, swap)

    problem = find_only(repository)

    assert problem.severity is Severity.ERROR
    assert "times of updates do not increase" in problem.what


def test_an_ops_log_is_never_empty() -> None:
    repository = create_sample()
    rewrite_repo(repository, lambda info: _with_updates(info))

    assert "ops log is empty" in find_only(repository).what


def test_a_backup_that_is_gone_is_missed() -> None:
    repository = create_sample()
    gone = sorted(info.key for info in repository.storage.list("overwritten/"))[1]
    delete(repository, gone)

    problem = find_only(repository)

    assert (problem.severity, problem.object) == (Severity.WARNING, gone)


def test_a_backup_that_can_not_be_read_is_found_by_a_deep_check() -> None:
    repository = create_sample()
    damaged = sorted(info.key for info in repository.storage.list("overwritten/"))[1]
    cut(repository, damaged)

    (problem,) = what_matters(repository.check(deep=True))

    assert what_matters(repository.check()) == []
    assert (problem.severity, problem.object) == (Severity.WARNING, damaged)


def test_pages_of_the_ops_log_are_followed() -> None:
    config = RepositoryConfig(num_updates_per_repo_info_file=2)
    repository = create_sample().reopen(config)
    repository.save_config()
    for count in range(5):
        repository.set_metadata({"count": count})
    assert what_matters(repository.check()) == []
    info = repository.protocol.read_repo_info()
    gone = f"overwritten/{info.repo_before_updates}"
    delete(repository, gone)

    problem = find_only(repository)

    assert problem.object == gone
    assert "the ops log from there on" in problem.what


def test_a_page_of_the_ops_log_that_can_not_be_read_is_found() -> None:
    config = RepositoryConfig(num_updates_per_repo_info_file=2)
    repository = create_sample().reopen(config)
    repository.save_config()
    repository.set_metadata({"some": "thing"})
    damaged = f"overwritten/{repository.protocol.read_repo_info().repo_before_updates}"
    cut(repository, damaged)

    problem = find_only(repository)

    assert problem.object == damaged
    assert "page of the ops log can't be read" in problem.what


def test_a_page_that_is_too_long_is_noted() -> None:
    repository = create_sample()
    config = {"num_updates_per_repo_info_file": 2}
    rewrite_repo(repository, lambda info: replace(info, config=Value(config)))

    notes = repository.check().notes

    assert [each.what for each in notes] == ["it has 6 updates, 2 make a page"]


# Snapshots that are listed


def _lists_a_ghost(info: RepoInfo, ghost: SnapshotId) -> RepoInfo:
    base = info.snapshots[info.branches["main"]]
    return info.with_snapshots(SnapshotInfo(ghost, base.id, base.flushed_at + 1000, "flushed"))


def test_a_snapshot_that_is_listed_and_has_no_file_can_be_dropped() -> None:
    repository = create_sample()
    ghost = SnapshotId(b"never there!")
    rewrite_repo(repository, lambda info: _lists_a_ghost(info, ghost))

    problem = find_only(repository)

    assert problem.object == f"snapshots/{ghost}"
    assert problem.repair is Repair.DROP_SNAPSHOT
