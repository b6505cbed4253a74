"""Expiry in repositories of V1 and V2."""

import asyncio
from datetime import datetime

import pytest

from frazil import ReadOnlyError, RepoAvailability, Repository, RepoStatus
from tests.repositories import dangling_files, values_of
from tests.unit.maintenance.repositories import (
    keys,
    later,
    messages,
    write,
    write_chunk,
    written_at,
)


def test_old_snapshots_leave_the_history(repository: Repository) -> None:
    first = write(repository, 1)
    second = write_chunk(repository, 0, 2)
    write_chunk(repository, 1, 3)

    released = repository.expire_snapshots(written_at(repository, second))

    assert released == {first}
    assert messages(repository, branch="main") == [
        "chunk 1 is 3", "chunk 0 is 2", "Repository initialized",
    ]  # fmt: skip
    reopened = Repository.open(repository.storage)
    assert messages(reopened, branch="main") == messages(repository, branch="main")


def test_no_file_is_deleted(repository: Repository) -> None:
    write(repository, 1)
    write(repository, 2)
    before = keys(repository)

    repository.expire_snapshots(later())

    assert keys(repository) == before


def test_what_is_left_is_whole(repository: Repository) -> None:
    write(repository, 1)
    tagged = write_chunk(repository, 0, 2)
    repository.create_tag("tag", tagged)
    write_chunk(repository, 1, 3)

    repository.expire_snapshots(later())
    repository.garbage_collect(later())

    assert dangling_files(repository) == set()
    expected = [2, 2, 3, 3, 1, 1, 1, 1]
    assert values_of(repository.readonly_session("main"), "numbers") == expected
    assert values_of(repository.readonly_session(tag="tag"), "numbers") == [2, 2, *[1] * 6]


def test_the_next_commit_follows(repository: Repository) -> None:
    write(repository, 1)
    write_chunk(repository, 0, 2)

    repository.expire_snapshots(later())
    write_chunk(repository, 0, 3)

    assert messages(repository, branch="main") == [
        "chunk 0 is 3", "chunk 0 is 2", "Repository initialized",
    ]  # fmt: skip


def test_expired_refs_can_go_with_their_snapshots(repository: Repository) -> None:
    first = write(repository, 1)
    repository.create_branch("old", first)
    repository.create_tag("old", first)
    write(repository, 2)

    repository.expire_snapshots(later(), delete_expired_branches=True, delete_expired_tags=True)

    assert repository.list_branches() == {"main"}
    assert repository.list_tags() == set()


def test_an_expiry_is_logged_also_if_nothing_expires(v2_repository: Repository) -> None:
    v2_repository.expire_snapshots(later())

    kinds = [type(update.kind).__name__ for update in v2_repository.ops_log()]
    assert kinds == ["ExpirationRan", "RepoInitialized"]


def test_a_diff_across_expired_snapshots_is_whole(v2_repository: Repository) -> None:
    write(v2_repository, 1, path="a")
    write(v2_repository, 1, path="b")
    write(v2_repository, 1, path="c")
    (*_, root) = v2_repository.ancestry(branch="main")

    v2_repository.expire_snapshots(later())
    v2_repository.garbage_collect(later())

    diff = v2_repository.diff(from_snapshot_id=root.id, to_branch="main")
    assert diff.new_arrays == {"/a", "/b", "/c"}


def test_a_read_only_repository_refuses(v2_repository: Repository) -> None:
    v2_repository.set_status(RepoStatus(RepoAvailability.read_only))

    with pytest.raises(ReadOnlyError):
        v2_repository.expire_snapshots(later())


def test_a_time_without_a_zone_is_refused(repository: Repository) -> None:
    with pytest.raises(TypeError, match="time zone"):
        repository.expire_snapshots(datetime(2024, 1, 1))


def test_an_event_loop_can_wait_for_it(repository: Repository) -> None:
    first = write(repository, 1)
    write(repository, 2)

    assert first in asyncio.run(repository.expire_snapshots_async(later()))
