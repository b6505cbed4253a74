"""Virtual chunks as users of sessions meet them."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.config import RepositoryConfig
from frazil.credentials import LocalFileSystemAccess, containers_credentials
from frazil.errors import InvalidInputError, StorageError
from frazil.repository import Repository
from frazil.storage import in_memory_storage, local_filesystem_store
from frazil.virtual import VirtualChunkContainer

VALUES = np.arange(20, dtype="<i4")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "values.bin"
    path.write_bytes(b"header" + VALUES.tobytes())
    return path


def create(folder: Path, *, is_authorized: bool) -> Repository:
    prefix = f"file://{folder}/"
    container = VirtualChunkContainer(prefix, local_filesystem_store(str(folder)), "here")
    config = RepositoryConfig.default()
    config.set_virtual_chunk_container(container)
    authorized = containers_credentials({prefix: LocalFileSystemAccess} if is_authorized else {})
    return Repository.create(in_memory_storage(), config, authorized)


def refer(repository: Repository, location: str, etag: str | None = None) -> None:
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(20,), chunks=(10,), dtype="<i4", compressors=None
    )
    for number in range(2):
        session.store.set_virtual_ref(
            f"a/c/{number}", location, offset=6 + 40 * number, length=40, checksum=etag
        )
    session.commit("refer")


def read(repository: Repository) -> list[int]:
    store = repository.readonly_session("main").store
    found: list[int] = np.asarray(zarr.open_array(store, path="a", mode="r")[...]).tolist()
    return found


@pytest.mark.parametrize("location", ["file://{folder}/values.bin", "vcc://here/values.bin"])
def test_an_array_is_read_from_a_file_outside(source: Path, location: str) -> None:
    repository = create(source.parent, is_authorized=True)

    refer(repository, location.format(folder=source.parent))

    assert read(repository) == VALUES.tolist()


def test_a_file_that_changed_is_not_read(source: Path) -> None:
    repository = create(source.parent, is_authorized=True)
    refer(repository, "vcc://here/values.bin", etag="of-yesterday")

    with pytest.raises(StorageError, match="was to be of-yesterday") as caught:
        read(repository)

    assert caught.value.kind == "virtual-chunk-modified"


def test_a_missing_file_is_no_fill_value(source: Path) -> None:
    repository = create(source.parent, is_authorized=True)
    refer(repository, "vcc://here/values.bin")
    source.unlink()

    with pytest.raises(StorageError, match=r"values\.bin") as caught:
        read(repository)

    assert caught.value.kind == "virtual-chunk-fetch"


def test_nothing_is_read_without_leave(source: Path) -> None:
    repository = create(source.parent, is_authorized=False)
    refer(repository, "vcc://here/values.bin")

    with pytest.raises(InvalidInputError, match="authorize_virtual_chunk_access=") as caught:
        read(repository)

    assert caught.value.kind == "unauthorized-virtual-chunk-container"
