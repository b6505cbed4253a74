"""Virtual chunks on real servers: SeaweedFS for S3, a web server for HTTP."""

import hashlib
import logging
import os
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil import Repository
from frazil.config import RepositoryConfig
from frazil.credentials import (
    HttpAccess,
    S3StaticCredentials,
    containers_credentials,
    s3_anonymous_credentials,
    s3_from_env_credentials,
    s3_refreshable_credentials,
    s3_static_credentials,
)
from frazil.errors import PermissionDeniedError, StorageError
from frazil.storage import http_store, in_memory_storage, s3_store
from frazil.virtual import VirtualChunkContainer
from tests.storage.file_server import serve_files
from tests.storage.object_stores import ACCESS_KEY, SECRET_KEY, make_s3

VALUES = np.arange(4000, dtype="<u2").reshape(40, 100)
WRONG_SECRET = "sentinel5ecret"
PREFIX = "s3://bucket/archive/"


def s3_config(url: str, *, anonymous: bool = False) -> RepositoryConfig:
    config = RepositoryConfig.default()
    store = s3_store(
        region="us-east-1", endpoint_url=url, allow_http=True, force_path_style=True,
        s3_compatible=True, anonymous=anonymous,
    )  # fmt: skip
    config.set_virtual_chunk_container(VirtualChunkContainer(PREFIX, store, "archive"))
    return config


def refer(repository: Repository, location: str, checksum: Any = None) -> None:
    """Let an array be in one object, a row a chunk."""
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=VALUES.shape, chunks=(1, 100), dtype="<u2", compressors=None
    )
    rows = np.arange(len(VALUES))
    places = np.stack([rows, np.zeros_like(rows)], axis=1)
    lengths = np.full(len(rows), 200)
    session.store.set_virtual_columns(
        "a", places, [location] * len(rows), rows * 200, lengths, checksum
    )
    session.commit("refer")


def read(repository: Repository) -> Any:
    store = repository.readonly_session("main").store
    return np.asarray(zarr.open_array(store, path="a", mode="r")[...])


def static() -> Any:
    return s3_static_credentials(access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY)


def refreshed() -> S3StaticCredentials:
    return S3StaticCredentials(ACCESS_KEY, SECRET_KEY)


@pytest.fixture(scope="module")
def archive(seaweedfs: str) -> str:
    """A server with an object that holds the values."""
    make_s3(seaweedfs, prefix="archive").put("values.bin", VALUES.tobytes())
    return seaweedfs


CREDENTIALS: dict[str, Callable[[], Any]] = {
    "static": static,
    "environment": s3_from_env_credentials,
    "refreshable": lambda: s3_refreshable_credentials(refreshed),
}


@pytest.mark.parametrize("credentials", CREDENTIALS.values(), ids=CREDENTIALS)
@pytest.mark.parametrize("location", [f"{PREFIX}values.bin", "vcc://archive/values.bin"])
def test_chunks_are_read_from_s3_with_credentials(
    archive: str, credentials: Callable[[], Any], location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    authorized = containers_credentials({PREFIX: credentials()})
    repository = Repository.create(in_memory_storage(), s3_config(archive), authorized)

    refer(repository, location)

    np.testing.assert_array_equal(read(repository), VALUES)
    assert repository.doctor().is_healthy


def test_the_etag_of_an_object_is_compared(archive: str) -> None:
    storage = make_s3(archive, prefix="archive")
    storage.put("changing.bin", VALUES.tobytes())
    authorized = containers_credentials({PREFIX: static()})
    repository = Repository.create(in_memory_storage(), s3_config(archive), authorized)
    # S3's etag of an object that was put in one piece.
    e_tag = hashlib.md5(VALUES.tobytes()).hexdigest()
    refer(repository, f"{PREFIX}changing.bin", e_tag)
    np.testing.assert_array_equal(read(repository), VALUES)

    storage.put("changing.bin", VALUES[::-1].tobytes())

    with pytest.raises(StorageError, match=r"changing\.bin.* its etag was") as caught:
        read(repository)
    assert caught.value.kind == "virtual-chunk-modified"


@pytest.mark.parametrize(
    "credentials",
    [
        s3_static_credentials(access_key_id=ACCESS_KEY, secret_access_key=WRONG_SECRET),
        s3_static_credentials(access_key_id="nobody", secret_access_key=WRONG_SECRET),
        s3_anonymous_credentials(),
    ],
    ids=["wrong secret", "unknown key", "anonymous"],
)
def test_credentials_that_do_not_fit_are_reported_without_the_secret(
    archive: str, credentials: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    authorized = containers_credentials({PREFIX: credentials})
    repository = Repository.create(in_memory_storage(), s3_config(archive), authorized)
    refer(repository, f"{PREFIX}values.bin")

    with pytest.raises(PermissionDeniedError, match=r"values\.bin") as caught:
        read(repository)

    report = repository.doctor()
    reported = [
        *traceback.format_exception(caught.value),
        caplog.text,
        repr(repository),
        str(report),
    ]
    assert WRONG_SECRET not in "".join(reported)
    assert report.containers[0].is_reachable is False
    assert "refuses these credentials" in str(caught.value)


def test_chunks_are_read_from_a_web_server(tmp_path: Path) -> None:
    (tmp_path / "values.bin").write_bytes(VALUES.tobytes())
    modified_at = datetime.fromtimestamp((tmp_path / "values.bin").stat().st_mtime, UTC)
    with serve_files(tmp_path) as url:
        config = RepositoryConfig.default()
        config.set_virtual_chunk_container(VirtualChunkContainer(f"{url}/", http_store()))
        authorized = {f"{url}/": HttpAccess}
        repository = Repository.create(in_memory_storage(), config, authorized)
        refer(repository, f"{url}/values.bin", modified_at)

        np.testing.assert_array_equal(read(repository), VALUES)

        later = time.time() + 10
        os.utime(tmp_path / "values.bin", (later, later))
        with pytest.raises(StorageError, match="unmodified since"):
            read(repository)

        (tmp_path / "values.bin").unlink()
        with pytest.raises(StorageError, match=r"values\.bin"):
            read(repository)
