"""Upkeep of a repository in an object store, where times have no fractions and deletes can fail."""

from collections.abc import Iterator

import pytest

from frazil import Repository
from frazil.testing.object_server import ObjectServer, Refuse, Rule
from tests.repositories import dangling_files, values_of
from tests.storage.object_stores import make_s3
from tests.unit.maintenance.repositories import ALL_NATIVE, later, write, write_chunk


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def stored(request: pytest.FixtureRequest) -> Iterator[tuple[ObjectServer, Repository]]:
    """A server, and in it a repository with a commit that nothing leads to."""
    with ObjectServer() as server:
        storage = make_s3(server.url)
        repository = Repository.create(storage, ALL_NATIVE, spec_version=request.param)
        kept = write(repository, 1)
        write_chunk(repository, 0, 2)
        repository.reset_branch("main", kept)
        yield server, repository


def test_garbage_is_deleted(stored: tuple[ObjectServer, Repository]) -> None:
    _, repository = stored

    summary = repository.garbage_collect(later())

    assert (summary.snapshots_deleted, summary.chunks_deleted) == (1, 1)
    assert dangling_files(repository) == set()
    assert values_of(repository.readonly_session("main"), "numbers") == [1] * 8


def test_what_may_be_of_this_second_stays(stored: tuple[ObjectServer, Repository]) -> None:
    _, repository = stored

    first = min(each.created_at for each in repository.storage.list(""))

    summary = repository.garbage_collect(first.replace(microsecond=0))

    assert summary.bytes_deleted == 0


def test_a_store_that_forbids_deletes_is_reported(
    stored: tuple[ObjectServer, Repository],
) -> None:
    server, repository = stored
    forbidden = Refuse(403, "AccessDenied")
    server.inject([Rule(forbidden, method="POST"), Rule(forbidden, method="DELETE")])

    summary = repository.garbage_collect(later())

    assert summary.objects_failed_to_delete == 1
    assert summary.skipped_phases == ["transaction_logs", "manifests", "chunks"]
    assert "snapshots/" in summary.delete_errors[0]


def test_expiry_and_statistics(stored: tuple[ObjectServer, Repository]) -> None:
    _, repository = stored
    write_chunk(repository, 1, 3)

    repository.expire_snapshots(later())
    repository.garbage_collect(later())

    assert len(list(repository.ancestry(branch="main"))) == 2
    assert repository.chunk_storage_stats().native_bytes == sum(
        info.size_bytes for info in repository.storage.list("chunks/")
    )


@pytest.mark.parametrize(("listings", "ranges"), [(None, 1), (1, 1), (3, 2), (4, 4)])
def test_each_kind_of_files_is_listed_in_as_many_ranges_as_may_be_listed_at_once(
    stored: tuple[ObjectServer, Repository], listings: int | None, ranges: int
) -> None:
    server, repository = stored
    server.requests.clear()

    summary = repository.garbage_collect(later(), max_concurrent_listings=listings)

    listed = [each for each in server.requests if "chunks" in each.query.get("prefix", "")]
    assert len(listed) == ranges
    assert (summary.snapshots_deleted, summary.chunks_deleted) == (1, 1)
    assert dangling_files(repository) == set()
    assert values_of(repository.readonly_session("main"), "numbers") == [1] * 8
