"""What a repository reports about its virtual chunk containers."""

from pathlib import Path

import pytest
import zarr

from frazil import Repository
from frazil.config import RepositoryConfig
from frazil.credentials import LocalFileSystemAccess
from frazil.errors import InvalidInputError, StorageError
from frazil.storage import gcs_store, in_memory_storage, local_filesystem_store, s3_store
from frazil.storage.store_config import AnyObjectStoreConfig
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.containers import is_public


def create(folder: Path, *, is_authorized: bool = True) -> Repository:
    """A repository with an array whose two chunks are in a file of the folder."""
    prefix = f"file://{folder}/"
    (folder / "values.bin").write_bytes(b"\1\2")
    config = RepositoryConfig.default()
    store = local_filesystem_store(str(folder))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store, "here"))
    authorized = {prefix: LocalFileSystemAccess} if is_authorized else {}
    repository = Repository.create(in_memory_storage(), config, authorized)
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(2,), chunks=(1,), dtype="u1", compressors=None
    )
    locations = [f"{prefix}values.bin"] * 2
    session.store.set_virtual_columns("a", [[0], [1]], locations, [0, 1], [1, 1])
    session.commit("refer")
    return repository


def test_a_container_that_can_be_read_is_well(tmp_path: Path) -> None:
    report = create(tmp_path).doctor()

    (container,) = report.containers
    assert report.is_healthy
    assert (container.is_authorized, container.is_reachable) == (True, True)
    assert container.example == f"file://{tmp_path}/values.bin"


def test_what_would_authorize_a_container_is_reported(tmp_path: Path) -> None:
    report = create(tmp_path, is_authorized=False).doctor()

    (container,) = report.containers
    assert not report.is_healthy
    assert (container.is_authorized, container.is_reachable) == (False, None)
    assert f'authorize_virtual_chunk_access={{"file://{tmp_path}/": ' in str(report)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    repository = create(tmp_path)
    (tmp_path / "values.bin").unlink()

    report = repository.doctor()

    assert report.containers[0].is_reachable is False
    assert "values.bin" in str(report.containers[0].advice)


def test_nothing_is_asked_unless_wanted(tmp_path: Path) -> None:
    repository = create(tmp_path)
    (tmp_path / "values.bin").unlink()

    assert repository.doctor(probe=False).containers[0].is_reachable is None


def test_locations_without_a_container_are_reported(tmp_path: Path) -> None:
    repository = create(tmp_path)
    session = repository.writable_session("main")
    session.store.set_virtual_columns(
        "a", [[0]], ["s3://elsewhere/x"], [0], [1], validate_containers=False
    )
    session.commit("elsewhere")

    first, second = repository.doctor().containers

    assert first.url_prefix is None
    assert "s3://elsewhere/x" in str(first.advice)
    assert second.is_healthy


def test_a_repository_without_containers_is_well() -> None:
    report = Repository.create(in_memory_storage()).doctor()

    assert report.is_healthy
    assert "none are declared" in str(report)
    assert report.to_dict() == {"is_healthy": True, "containers": []}


ANONYMOUS = s3_store(region="us-east-1", anonymous=True)


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (ANONYMOUS, True),
        (gcs_store({"skip_signature": "true"}), True),
        (s3_store(region="us-east-1"), False),
        (s3_store(region="us-east-1", anonymous=True, requester_pays=True), False),
        (s3_store(endpoint_url="http://127.0.0.1:9", allow_http=True, anonymous=True), False),
        (gcs_store(), False),
        (gcs_store({"skip_signature": "true", "base_url": "http://127.0.0.1:9"}), False),
        (local_filesystem_store("/data"), False),
    ],
)
def test_only_buckets_of_everybody_in_a_cloud_are_public(
    store: AnyObjectStoreConfig, expected: bool
) -> None:
    assert is_public(VirtualChunkContainer("s3://bucket/", store)) is expected


def test_a_public_bucket_needs_no_leave_and_another_does() -> None:
    config = RepositoryConfig.default()
    config.set_virtual_chunk_container(VirtualChunkContainer("s3://public/", ANONYMOUS))
    private = s3_store(region="us-east-1")
    config.set_virtual_chunk_container(VirtualChunkContainer("s3://private/", private))

    report = Repository.create(in_memory_storage(), config).doctor()

    found = {each.url_prefix: each.is_authorized for each in report.containers}
    assert found == {"s3://public/": True, "s3://private/": False}


def test_errors_of_reading_are_those_of_the_doctor(tmp_path: Path) -> None:
    repository = create(tmp_path, is_authorized=False)
    store = repository.readonly_session("main").store

    with pytest.raises((InvalidInputError, StorageError)) as caught:
        zarr.open_array(store, path="a", mode="r")[...]

    assert str(caught.value) == repository.doctor().containers[0].advice
