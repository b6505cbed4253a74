"""What jobs commit is read by the official library."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

from frazil import Repository, in_memory_storage
from frazil.errors import InvalidInputError
from frazil.spark import Job, rechunk, transform, write
from frazil.spark.job import RunOn

icechunk = pytest.importorskip("icechunk")
pytestmark = pytest.mark.xdist_group("spark")


def make() -> xr.Dataset:
    values = np.arange(8 * 6 * 4, dtype="f4").reshape(8, 6, 4)
    return xr.Dataset(
        {"t": (("time", "lat", "lon"), values)},
        {"time": np.datetime64("2020-01-30", "ns") + np.arange(8) * np.timedelta64(1, "D")},
    )


def run_all(spark: SparkSession, repo: Repository, run_on: RunOn) -> None:
    write(repo, make().chunk({"time": 2}), job=Job(task_bytes=300, run_on=run_on), spark=spark)
    rechunk(
        repo, "t", (8, 2, 2), output="by_place", max_memory=600, job=Job(run_on=run_on), spark=spark
    )
    transform(
        repo,
        ["t"],
        "monthly/t",
        reduce="mean",
        groupby="time.month",
        job=Job(task_bytes=300, run_on=run_on),
        spark=spark,
    )


def test_the_official_library_reads_the_results(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    run_all(spark, repo, "spark")

    storage = icechunk.local_filesystem_storage(str(tmp_path / "repo"))
    store = icechunk.Repository.open(storage).readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks=None)
    monthly = xr.open_zarr(store, group="monthly", consolidated=False, chunks=None)
    xr.testing.assert_equal(found["t"].drop_vars("time"), make().t.drop_vars("time"))
    np.testing.assert_array_equal(found["by_place"], make().t)
    np.testing.assert_allclose(monthly["t"], make().t.groupby("time.month").mean())


def test_a_repository_in_memory_stays_in_this_process(spark: SparkSession) -> None:
    repo = Repository.create(in_memory_storage())

    run_all(spark, repo, "auto")
    with pytest.raises(InvalidInputError, match="memory"):
        rechunk(repo, "t", (8, 2, 2), job=Job(run_on="spark"), spark=spark)

    assert repo.readonly_session("main").state.view.find_node("/monthly/t") is not None
