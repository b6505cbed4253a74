"""Datasets written by tasks: as Xarray would write them, in one commit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

from frazil import Repository
from frazil.errors import RefNotFoundError
from frazil.spark import Job, write

pytestmark = pytest.mark.xdist_group("spark")


def make(days: int = 10, start: str = "2020-01-01") -> xr.Dataset:
    shape = (days, 4, 6)
    values = np.random.default_rng(days).normal(size=shape).astype("f4")
    values[1, 2] = np.nan
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), values, {"units": "K"}),
            "rain": (("time", "lat", "lon"), np.arange(values.size).reshape(shape)),
            "mask": (("lat", "lon"), np.eye(4, 6, dtype=bool)),
        },
        {
            "time": np.datetime64(start, "ns") + np.arange(days) * np.timedelta64(1, "D"),
            "lat": np.linspace(-45, 45, 4),
            "lon": np.arange(6) * 60.0,
        },
        {"title": "a test"},
    )


def read(repo: Repository, group: str | None = None) -> xr.Dataset:
    store = repo.readonly_session("main").store
    opened: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, chunks=None)
    return opened.load()


CHUNKS: dict[Any, Any] = {"t2m": {"chunks": (4, 2, 6)}, "rain": {"chunks": (3, 4, 3)}}


@pytest.mark.parametrize("run_on", ["spark", "driver"])
@pytest.mark.parametrize("chunks", [None, {"time": 3, "lon": 4}], ids=["numpy", "dask"])
def test_a_dataset_is_read_back_as_it_was(
    spark: SparkSession, repo: Repository, chunks: Any, run_on: Any
) -> None:
    dataset = make()

    report = write(
        repo,
        dataset.chunk(chunks) if chunks else dataset,
        encoding=CHUNKS,
        message="data",
        job=Job(task_bytes=400, run_on=run_on),
        spark=spark,
    )

    xr.testing.assert_identical(read(repo), dataset)
    assert next(iter(repo.ancestry(branch="main"))).id == report.snapshot_id
    assert len(list(repo.ancestry(branch="main"))) == 2
    assert (report.tasks > 3) == (chunks is not None)


def test_small_work_stays_in_the_driver(spark: SparkSession, repo: Repository) -> None:
    report = write(repo, make().chunk({"time": 5}), spark=spark)

    assert report.ran_on == "driver"
    assert report.tasks == 1


def test_files_that_xarray_has_opened_are_read_by_tasks(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    dataset = make()
    dataset.to_netcdf(tmp_path / "source.nc", engine="h5netcdf")

    with xr.open_dataset(tmp_path / "source.nc", engine="h5netcdf") as lazy:
        report = write(
            repo, lazy, group="from/file", job=Job(task_bytes=400, run_on="spark"), spark=spark
        )

    xr.testing.assert_equal(read(repo, "from/file"), dataset)
    assert report.tasks >= 2


def test_a_lone_array_of_a_file_is_read_by_tasks(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    make().to_netcdf(tmp_path / "source.nc", engine="h5netcdf")

    with xr.open_dataset(tmp_path / "source.nc", engine="h5netcdf") as lazy:
        report = write(repo, lazy["t2m"], job=Job(task_bytes=400, run_on="driver"), spark=spark)

    xr.testing.assert_equal(read(repo)["t2m"], make()["t2m"])
    assert report.tasks >= 1


@pytest.mark.parametrize("chunks", [None, {"time": 3}], ids=["numpy", "dask"])
def test_appending_fills_the_last_chunk(spark: SparkSession, repo: Repository, chunks: Any) -> None:
    first, second = make(10), make(5, "2020-01-11")
    second["mask"] = first["mask"]
    write(repo, first, encoding=CHUNKS, spark=spark)
    added = second.drop_vars("mask")

    write(
        repo,
        added.chunk(chunks) if chunks else added,
        append_dim="time",
        job=Job(task_bytes=300, run_on="spark"),
        spark=spark,
    )

    expected = xr.concat([first, second], "time", data_vars="minimal")
    xr.testing.assert_equal(read(repo), expected)
    assert read(repo)["t2m"].encoding["chunks"] == (4, 2, 6)


def test_a_region_is_filled(spark: SparkSession, repo: Repository) -> None:
    dataset = make()
    write(repo, dataset, encoding=CHUNKS, spark=spark)
    patch = (dataset[["t2m"]] * 2).drop_vars(["lat", "lon", "time"])

    write(
        repo,
        patch.isel(time=slice(3, 9)).chunk({"time": 2}),
        region={"time": slice(3, 9)},
        job=Job(task_bytes=100, run_on="spark"),
        spark=spark,
    )

    expected = dataset["t2m"].values.copy()
    expected[3:9] *= 2
    np.testing.assert_array_equal(read(repo)["t2m"], expected)


def test_what_xarray_refuses_leaves_the_branch(spark: SparkSession, repo: Repository) -> None:
    first = write(repo, make(), spark=spark)

    with pytest.raises(FileExistsError):
        write(repo, make(), spark=spark)

    assert next(iter(repo.ancestry(branch="main"))).id == first.snapshot_id


def test_a_branch_that_is_not_there_is_refused(spark: SparkSession, repo: Repository) -> None:
    with pytest.raises(RefNotFoundError):
        write(repo, make(), branch="elsewhere", spark=spark)
