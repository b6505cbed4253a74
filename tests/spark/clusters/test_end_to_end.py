"""An archive of many files, on every kind of cluster that one machine can be."""

from pathlib import Path

import pytest
import xarray as xr

from tests.spark.clusters import jobs
from tests.spark.clusters.archive import FILES, expect, messages, read
from tests.spark.clusters.drivers import Driver

icechunk = pytest.importorskip("icechunk")
pytestmark = pytest.mark.xdist_group("clusters")

MODES = ["virtual", "native"]


@pytest.fixture(scope="module")
def expected(archive: Path) -> xr.Dataset:
    return expect(archive)


def read_officially(path: Path, archive: Path) -> xr.Dataset:
    storage = icechunk.local_filesystem_storage(str(path))
    access = {archive.as_uri() + "/": icechunk.credentials.LocalFileSystemAccess}
    repo = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None)
    return found.load()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["local", "local_cluster", "on_cluster"])
def test_many_files_become_what_xarray_makes_of_them(
    request: pytest.FixtureRequest,
    archive: Path,
    expected: xr.Dataset,
    tmp_path: Path,
    where: str,
    mode: str,
) -> None:
    running: Driver = request.getfixturevalue(where)
    path = tmp_path / "repo"

    report = running.call(jobs.ingest, archive, path, mode)
    again = running.call(jobs.ingest, archive, path, mode)

    assert report.metrics["files"] == FILES
    assert messages(path) == [mode]
    assert (again.snapshot_id, len(again.known)) == (None, FILES)
    xr.testing.assert_identical(read(path), expected)
    xr.testing.assert_identical(read_officially(path, archive), expected)


@pytest.mark.parametrize("where", ["local", "local_cluster", "on_cluster"])
def test_nothing_is_missing_in_these_sessions(request: pytest.FixtureRequest, where: str) -> None:
    running: Driver = request.getfixturevalue(where)

    assert running.call(jobs.find_problems) == []
