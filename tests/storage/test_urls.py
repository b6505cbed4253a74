"""Repositories by URL on real servers: SeaweedFS for S3, a web server for HTTP."""

import traceback
from itertools import count
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil.errors import PermissionDeniedError, StorageError
from frazil.testing.object_server import ObjectServer
from frazil.xarray import to_icechunk
from tests.storage.file_server import serve_files
from tests.storage.object_stores import ACCESS_KEY, SECRET_KEY

FOLDERS = count(1)
WRONG_SECRET = "sentinel5ecret"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials where programs usually have them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


def spell(server: str, folder: str, suffix: str = "", options: str = "") -> str:
    """The URL of a folder in the bucket of a server."""
    endpoint = quote(server, safe=":/")
    query = f"region=us-east-1&endpoint_url={endpoint}&allow_http=true&force_path_style=true"
    return f"s3://bucket/{folder}{suffix}?{query}{options}"


def numbers(first: int) -> xr.Dataset:
    return xr.Dataset({"number": ("place", np.arange(first, first + 4))})


def write(url: str) -> str:
    """A tagged version, and a newer one after it."""
    repository = frazil.Repository.create(frazil.storage_from_url(url))
    for first in (1, 2):
        session = repository.writable_session("main")
        to_icechunk(numbers(first), session, mode="w")
        id = session.commit(f"from {first}")
        if first == 1:
            repository.create_tag("v1", id)
    return id


def test_a_bucket_is_written_and_read_as_the_environment_says(seaweedfs: str) -> None:
    folder = f"urls/{next(FOLDERS)}"

    id = write(spell(seaweedfs, folder))

    assert frazil.open_repository(spell(seaweedfs, folder)).lookup_branch("main") == id
    session = frazil.open_session(spell(seaweedfs, folder, "@v1"))
    found = zarr.open_array(session.store, path="number")
    assert np.asarray(found[...]).tolist() == [1, 2, 3, 4]


def test_xarray_opens_a_bucket_by_url(seaweedfs: str) -> None:
    folder = f"urls/{next(FOLDERS)}"
    write(spell(seaweedfs, folder))

    newest = xr.open_dataset(f"icechunk+{spell(seaweedfs, folder)}")
    tagged = xr.open_dataset(spell(seaweedfs, folder, "@v1"), engine="frazil", chunks={})
    bare = xr.open_dataset(
        f"s3://bucket/{folder}",
        engine="frazil",
        tag="v1",
        storage_options={
            "region": "us-east-1",
            "endpoint_url": seaweedfs,
            "allow_http": True,
            "force_path_style": True,
        },
    )

    xr.testing.assert_identical(newest.load(), numbers(2))
    xr.testing.assert_identical(tagged.load(), numbers(1))
    xr.testing.assert_identical(bare.load(), numbers(1))


def test_wrong_credentials_are_reported_without_the_secret(
    seaweedfs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = f"urls/{next(FOLDERS)}"
    write(spell(seaweedfs, folder))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG_SECRET)

    with pytest.raises(PermissionDeniedError) as by_environment:
        frazil.open_repository(spell(seaweedfs, folder))
    with pytest.raises(PermissionDeniedError) as by_argument:
        frazil.open_session(
            spell(seaweedfs, folder),
            storage_options={"access_key_id": "somebody", "secret_access_key": WRONG_SECRET},
        )

    for caught in (by_environment, by_argument):
        reported = "".join(traceback.format_exception(caught.value))
        assert WRONG_SECRET not in reported
        assert "can't read 'repo': the storage refuses these credentials" in reported


def test_nobody_is_refused_where_credentials_are_wanted(seaweedfs: str) -> None:
    folder = f"urls/{next(FOLDERS)}"
    write(spell(seaweedfs, folder))

    with pytest.raises(StorageError) as caught:
        frazil.open_repository(spell(seaweedfs, folder, options="&anonymous=true"))

    assert SECRET_KEY not in "".join(traceback.format_exception(caught.value))


def test_an_anonymous_reader_shows_no_credentials() -> None:
    with ObjectServer() as server:
        id = write(spell(server.url, "folder"))
        server.requests.clear()

        session = frazil.open_session(spell(server.url, "folder", options="&anonymous"))

        assert session.snapshot_id == id
        assert server.requests
        assert all("authorization" not in each.headers for each in server.requests)


def test_a_web_server_is_read_by_url(tmp_path: Path) -> None:
    id = write(str(tmp_path / "a b"))

    with serve_files(tmp_path) as server:
        newest = frazil.open_session(f"{server}/a%20b")
        tagged = xr.open_dataset(f"icechunk+{server}/a%20b@v1")

        assert newest.snapshot_id == id
        xr.testing.assert_identical(tagged.load(), numbers(1))


@pytest.mark.parametrize("spec_version", [1, 2])
def test_versions_are_found_on_a_web_server_which_can_not_list(
    tmp_path: Path, spec_version: int
) -> None:
    repository = frazil.Repository.create(
        frazil.storage_from_url(tmp_path), spec_version=spec_version
    )
    repository.create_tag("v1", repository.lookup_branch("main"))

    with serve_files(tmp_path) as server:
        for suffix in ("@v1", "@main", f"@{repository.lookup_tag('v1')}", "?tag=v1"):
            found = frazil.open_session(f"{server}{'/' if suffix[0] == '@' else ''}{suffix}")
            assert found.snapshot_id == repository.lookup_tag("v1")
