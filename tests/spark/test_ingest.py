"""Files become a version of a repository, on Spark."""

from pathlib import Path

import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from tests.spark.archives import save_archive

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3"),
]


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    """An empty repository that was told nothing of the archive."""
    return frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))


def read(repo: frazil.Repository, group: str | None = None) -> xr.Dataset:
    """The newest version, opened as somebody would who knows the containers."""
    saved = frazil.Repository.fetch_config(repo.storage)
    assert saved is not None
    prefixes = saved.virtual_chunk_containers or {}
    access = dict.fromkeys(prefixes, frazil.credentials.LocalFileSystemAccess)
    opened = frazil.Repository.open(repo.storage, authorize_virtual_chunk_access=access)
    store = opened.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False)
    return found


def expect(paths: list[Path]) -> xr.Dataset:
    return xr.open_mfdataset(
        paths, engine="netcdf4", data_vars="minimal", coords="minimal", compat="override"
    )


def test_an_archive_is_one_commit_and_equals_its_files(
    spark: SparkSession, repo: frazil.Repository, tmp_path: Path
) -> None:
    paths = save_archive(tmp_path / "archive", 40)

    report = frazil.spark.ingest(spark, f"{tmp_path}/archive/*.nc", repo, append_dim="time")

    xr.testing.assert_identical(read(repo).load(), expect(paths).load())
    newest, _ = repo.ancestry(branch="main")
    assert report.snapshot_id == newest.id
    metrics = newest.metadata["frazil_job"]
    assert metrics == report.metrics
    assert (metrics["files"], metrics["references"], metrics["retries"]) == (40, 400, 0)
    assert metrics["job_id"] == report.job_id
    assert metrics["application_id"] == spark.sparkContext.applicationId
