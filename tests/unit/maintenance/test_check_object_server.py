"""Checks and repairs in an object store, which is listed in many parts at a time."""

from collections.abc import Iterator

import pytest

from frazil import Repository
from frazil.format.header import Dialect
from frazil.maintenance.check import check_storage
from frazil.maintenance.findings import Orphans
from frazil.maintenance.repair import restore_repo
from frazil.testing.object_server import ObjectServer
from tests.damages import (
    ancestor,
    chunk_keys,
    create_sample,
    cut,
    delete,
    find_only,
    log_key,
    what_matters,
)
from tests.storage.object_stores import make_s3


@pytest.fixture(params=[Dialect.ALPHA_H, Dialect.V1, Dialect.V2], ids=lambda each: each.value)
def repository(request: pytest.FixtureRequest) -> Iterator[Repository]:
    """A sample in an object store."""
    with ObjectServer() as server:
        yield create_sample(request.param, make_s3(server.url))


def test_nothing_is_wrong_with_a_repository_in_an_object_store(repository: Repository) -> None:
    report = repository.check(deep=True)

    assert report.problems == ()
    assert report.counts.native_chunks == 4


def test_what_is_lost_or_lies_about_there_is_found(repository: Repository) -> None:
    repository.protocol.assets.write_chunk(b"nobody's")
    assert repository.check().orphans == (Orphans("chunks", 1, 8),)
    used = [key for key in chunk_keys(repository) if repository.storage.head(key).size_bytes > 8]

    delete(repository, used[0])

    assert {each.object for each in what_matters(repository.check())} == {used[0]}


def test_a_log_is_rebuilt_there(repository: Repository) -> None:
    key = log_key(repository, ancestor(repository, 1))
    delete(repository, key)
    assert find_only(repository).object == key

    repository.repair(repository.check())

    assert check_storage(repository.storage).problems == ()


def test_a_repo_object_is_restored_there() -> None:
    with ObjectServer() as server:
        repository = create_sample(storage=make_s3(server.url))
        cut(repository, "repo")

        restore_repo(repository.storage)

        assert what_matters(check_storage(repository.storage)) == []
