"""Repositories and their versions, opened by URL."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import frazil
from frazil.errors import (
    InvalidInputError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
)
from frazil.storage.wrappers import CountingStorage
from frazil.testing.object_server import ObjectServer


@pytest.fixture(params=[1, 2])
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> frazil.Repository:
    """One commit after the first, tagged, and a branch that has one more."""
    storage = frazil.storage_from_url(tmp_path)
    repository = frazil.Repository.create(storage, spec_version=request.param)
    first = commit(repository, "main")
    repository.create_tag("v1", first)
    repository.create_branch("feature-x", first)
    commit(repository, "feature-x")
    return repository


def commit(repository: frazil.Repository, branch: str) -> str:
    return repository.writable_session(branch).commit("a commit", allow_empty=True)


@pytest.fixture
def url(repository: frazil.Repository, tmp_path: Path) -> str:
    assert repository.storage is not None
    return f"file://{tmp_path}"


def test_a_repository_is_opened_by_its_url(repository: frazil.Repository, url: str) -> None:
    opened = frazil.open_repository(url)

    assert opened.lookup_branch("main") == repository.lookup_branch("main")


def test_a_configuration_goes_with_the_url(url: str) -> None:
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=7)

    assert frazil.open_repository(url, config).config.inline_chunk_threshold_bytes == 7
    assert frazil.open_session(url, config).config.inline_chunk_threshold_bytes == 7


def test_a_url_that_names_a_version_opens_a_session_only(url: str) -> None:
    with pytest.raises(InvalidInputError, match="which open_session reads"):
        frazil.open_repository(f"{url}@v1")


def test_a_url_without_a_version_reads_main(repository: frazil.Repository, url: str) -> None:
    session = frazil.open_session(url)

    assert session.read_only
    assert session.snapshot_id == repository.lookup_branch("main")


@pytest.mark.parametrize("query", ["?branch=feature-x", "?ref=feature-x"])
def test_a_branch_is_read(repository: frazil.Repository, url: str, query: str) -> None:
    session = frazil.open_session(f"{url}{query}")

    assert session.snapshot_id == repository.lookup_branch("feature-x")


@pytest.mark.parametrize("suffix", ["@v1", "?tag=v1", "?ref=v1"])
def test_a_tag_is_read(repository: frazil.Repository, url: str, suffix: str) -> None:
    commit(repository, "main")

    assert frazil.open_session(f"{url}{suffix}").snapshot_id == repository.lookup_tag("v1")


def test_a_snapshot_is_read(repository: frazil.Repository, url: str) -> None:
    id = repository.lookup_branch("feature-x")

    assert frazil.open_session(f"{url}@{id}").snapshot_id == id
    assert frazil.open_session(f"{url}?snapshot={id}").snapshot_id == id


def test_a_time_is_travelled_to(repository: frazil.Repository, url: str) -> None:
    before = repository.lookup_branch("main")
    moment = datetime.now(UTC).isoformat()
    commit(repository, "main")

    assert frazil.open_session(f"{url}?as_of={moment}").snapshot_id == before
    assert frazil.open_session(f"{url}@main?as_of={moment}").snapshot_id == before
    with pytest.raises(SnapshotNotFoundError):
        frazil.open_session(f"{url}?as_of=1999-12-31T23:59:59Z")


def test_a_name_of_both_a_tag_and_a_branch_is_refused(
    repository: frazil.Repository, url: str
) -> None:
    repository.create_branch("v1", commit(repository, "main"))

    with pytest.raises(InvalidInputError, match=r"say \?tag=v1 or \?branch=v1"):
        frazil.open_session(f"{url}@v1")
    assert frazil.open_session(f"{url}?tag=v1").snapshot_id == repository.lookup_tag("v1")


def test_what_is_not_there_is_reported_by_name(url: str, tmp_path: Path) -> None:
    with pytest.raises(RefNotFoundError, match="no tag, branch or snapshot 'v2'"):
        frazil.open_session(f"{url}@v2")
    with pytest.raises(SnapshotNotFoundError):
        frazil.open_session(f"{url}@VY76P925PRY57WFEK410")
    with pytest.raises(RepositoryNotFoundError):
        frazil.open_repository(tmp_path / "nothing")


def test_a_repository_in_memory_is_found_by_name_in_its_process() -> None:
    url = "memory://test_opening"
    created = frazil.Repository.create(frazil.storage_from_url(url))

    id = commit(created, "main")

    assert frazil.open_session(url).snapshot_id == id


def test_a_repository_that_does_not_exist_is_named_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFoundError) as refusal:
        frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path)))

    assert str(refusal.value) == f"the repository doesn't exist: there is none in {tmp_path}"
    for storage in (frazil.in_memory_storage(), CountingStorage(frazil.in_memory_storage())):
        with pytest.raises(RepositoryNotFoundError, match="none in this storage in memory"):
            frazil.Repository.open(storage)


def test_a_bucket_without_a_repository_is_named() -> None:
    with ObjectServer() as server:
        storage = frazil.s3_storage(
            bucket="bucket",
            prefix="some/where",
            region="us-east-1",
            endpoint_url=server.url,
            allow_http=True,
            force_path_style=True,
            access_key_id="key",
            secret_access_key="not-told",
        )
        with pytest.raises(RepositoryNotFoundError) as refusal:
            frazil.Repository.open(storage)

    assert "the repository doesn't exist" in str(refusal.value)
    assert "bucket 'bucket', prefix 'some/where'" in str(refusal.value)
    assert "not-told" not in str(refusal.value)
