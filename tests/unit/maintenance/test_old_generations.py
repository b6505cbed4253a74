"""Expiry, garbage and statistics in repositories of the draft and of the alphas."""

import pytest
import zarr

from frazil import FormatError, Repository, create_legacy
from frazil.format.header import Dialect
from frazil.storage.memory import MemoryStorage
from tests.repositories import dangling_files, values_of
from tests.unit.maintenance.repositories import (
    ALL_NATIVE,
    later,
    messages,
    write,
    write_chunk,
    written_at,
)

OLD = [dialect for dialect in Dialect if dialect not in (Dialect.V1, Dialect.V2)]
CAN_DELETE_TAGS = [Dialect.ALPHA_H]
FIRST = "Repository initialized"


@pytest.fixture(params=OLD, ids=lambda dialect: dialect.value)
def old_repository(request: pytest.FixtureRequest) -> Repository:
    """An empty repository of each old generation, without inline chunks."""
    storage = MemoryStorage()
    create_legacy(storage, request.param.value)
    return Repository.open(storage, ALL_NATIVE)


def open_again(repository: Repository) -> Repository:
    """The repository as another process sees it."""
    return Repository.open(repository.storage, ALL_NATIVE)


def fill(repository: Repository) -> list[str]:
    """Four commits, each of another value."""
    return [
        write(repository, 1),
        *(write_chunk(repository, at, at + 2) for at in range(3)),
    ]


def test_garbage_goes_and_the_rest_stays(old_repository: Repository) -> None:
    kept = fill(old_repository)
    old_repository.create_branch("side", kept[1])
    write_chunk(old_repository, 3, 9, branch="side")
    old_repository.reset_branch("side", kept[0])

    summary = old_repository.garbage_collect(later())

    assert (summary.snapshots_deleted, summary.chunks_deleted) == (1, 1)
    assert summary.manifests_deleted == 1
    again = open_again(old_repository)
    assert again.dialect is old_repository.dialect
    assert dangling_files(again) == set()
    assert values_of(again.readonly_session("main"), "numbers") == [2, 2, 3, 3, 4, 4, 1, 1]
    assert again.garbage_collect(later()).bytes_deleted == 0


def test_expired_snapshots_leave_the_history(old_repository: Repository) -> None:
    ids = fill(old_repository)
    old_repository.create_tag("second", ids[1])

    released = old_repository.expire_snapshots(written_at(old_repository, ids[2]))

    assert released == set(ids[:2])
    for repository in (old_repository, open_again(old_repository)):
        assert messages(repository, branch="main") == ["chunk 2 is 4", "chunk 1 is 3", FIRST]
        assert messages(repository, snapshot_id=ids[2]) == ["chunk 1 is 3", FIRST]
        assert messages(repository, tag="second") == ["chunk 0 is 2", FIRST]


def test_what_is_left_is_whole_and_goes_on(old_repository: Repository) -> None:
    fill(old_repository)

    old_repository.expire_snapshots(later())
    summary = old_repository.garbage_collect(later())
    write_chunk(old_repository, 3, 5)

    assert summary.snapshots_deleted == 3
    again = open_again(old_repository)
    assert again.dialect is old_repository.dialect
    assert dangling_files(again) == set()
    assert messages(again, branch="main") == ["chunk 3 is 5", "chunk 2 is 4", FIRST]
    assert values_of(again.readonly_session("main"), "numbers") == [2, 2, 3, 3, 4, 4, 5, 5]


def test_expired_branches_can_go(old_repository: Repository) -> None:
    ids = fill(old_repository)
    old_repository.create_branch("old", ids[0])

    old_repository.expire_snapshots(
        written_at(old_repository, ids[1]), delete_expired_branches=True
    )

    assert old_repository.list_branches() == {"main"}


def test_expired_tags_can_go_where_tags_can(old_repository: Repository) -> None:
    ids = fill(old_repository)
    old_repository.create_tag("old", ids[0])

    if old_repository.dialect in CAN_DELETE_TAGS:
        old_repository.expire_snapshots(later(), delete_expired_tags=True)
        assert old_repository.list_tags() == set()
        return
    with pytest.raises(FormatError):
        old_repository.expire_snapshots(later(), delete_expired_tags=True)
    assert len(messages(open_again(old_repository), branch="main")) == 5


def test_chunks_are_measured(old_repository: Repository) -> None:
    fill(old_repository)
    folder = "c/" if old_repository.dialect is Dialect.DRAFT else "chunks/"
    size_bytes = sum(info.size_bytes for info in old_repository.storage.list(folder))

    assert old_repository.chunk_storage_stats().native_bytes == size_bytes


def test_manifests_are_written_anew(old_repository: Repository) -> None:
    fill(old_repository)
    before = old_repository.lookup_branch("main")

    id = old_repository.rewrite_manifests("rewritten", branch="main")

    files = [{f.id for f in old_repository.list_manifest_files(each)} for each in (before, id)]
    assert files[0].isdisjoint(files[1])
    again = open_again(old_repository)
    assert values_of(again.readonly_session("main"), "numbers") == [2, 2, 3, 3, 4, 4, 1, 1]


def test_a_group_alone_has_no_manifest(old_repository: Repository) -> None:
    session = old_repository.writable_session("main")
    zarr.create_group(session.store)
    session.commit("a group")

    old_repository.rewrite_manifests("rewritten", branch="main")

    assert old_repository.garbage_collect(later()).manifests_deleted == 0
