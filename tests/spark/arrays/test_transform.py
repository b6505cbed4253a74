"""Functions over blocks, and reductions: what numpy and Xarray get from the same data."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark import TaskContext
from pyspark.sql import SparkSession

import frazil
from frazil import Repository
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NodeNotFoundError,
    RebaseFailedError,
)
from frazil.spark import BlockOptions, Job, transform
from frazil.xarray import to_icechunk

pytestmark = pytest.mark.xdist_group("spark")

DAYS, LATS, LONS = 70, 6, 8


# Little enough that everything takes several tasks.
def small() -> Job:
    return Job(task_bytes=6000, run_on="spark")


def make() -> xr.Dataset:
    random = np.random.default_rng(11)
    t = random.normal(280, 10, (DAYS, LATS, LONS)).astype("f4")
    t[random.random(t.shape) < 0.1] = np.nan
    t[:, 1, 1] = np.nan
    packed = xr.DataArray(t.round(1), dims=("time", "lat", "lon"))
    packed.encoding = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 280.0, "_FillValue": -9999}
    return xr.Dataset(
        {
            "t": (("time", "lat", "lon"), t, {"units": "K"}),
            "packed": packed,
            "n": (("time", "lat", "lon"), random.integers(-50, 50, t.shape).astype("i2")),
            "mask": (("lat", "lon"), random.random((LATS, LONS)) < 0.5),
        },
        {
            "time": np.datetime64("2020-01-15", "ns") + np.arange(DAYS) * np.timedelta64(1, "D"),
            "lat": np.linspace(-50, 50, LATS),
            "lon": np.arange(LONS) * 45.0,
            "basin": ("lon", list("aabbccab")),
        },
        {"title": "a test"},
    )


@pytest.fixture
def filled(repo: Repository) -> Repository:
    session = repo.writable_session("main")
    chunks = {"chunks": (10, 3, 4)}
    to_icechunk(make(), session, encoding={"t": chunks, "packed": chunks, "n": chunks})
    session.commit("filled")
    return repo


def read(repo: Repository, group: str | None = None) -> xr.Dataset:
    store = repo.readonly_session("main").store
    opened: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, chunks=None)
    return opened.load()


# Maps


@pytest.mark.parametrize("run_on", ["spark", "driver"])
def test_a_function_of_aligned_arrays(spark: SparkSession, filled: Repository, run_on: Any) -> None:
    def celsius(t: xr.DataArray, mask: xr.DataArray) -> xr.DataArray:
        return (t - 273.15).where(mask)

    report = transform(
        filled,
        ["t", "/mask"],
        "celsius",
        celsius,
        attrs={"units": "C"},
        job=Job(task_bytes=6000, run_on=run_on),
        spark=spark,
    )

    found, data = read(filled), make()
    expected = (data.t - 273.15).where(data.mask).transpose("time", "lat", "lon")
    np.testing.assert_array_equal(found.celsius, expected)
    assert found.celsius.dtype == expected.dtype
    assert found.celsius.attrs == {"units": "C"}
    assert found.celsius.encoding["chunks"] == (10, 3, 4)
    assert found.attrs == {"title": "a test"}
    assert report.tasks > 3
    assert len(list(filled.ancestry(branch="main"))) == 3


def smooth(values: Any) -> Any:
    """The mean over neighbours in longitude, of which there are two on each side."""
    return sum(np.roll(values, shift, axis=2) for shift in (-2, -1, 0, 1, 2)) / 5


def test_a_halo_around_the_globe(spark: SparkSession, filled: Repository) -> None:
    transform(
        filled,
        ["t"],
        "smooth",
        smooth,
        blocks=BlockOptions(kind="numpy", halo={"lon": 2}, boundary={"lon": "wrap"}),
        spark=spark,
        job=small(),
    )

    np.testing.assert_array_equal(read(filled).smooth, smooth(make().t.values))


def test_a_halo_that_ends_with_the_data(spark: SparkSession, filled: Repository) -> None:
    def rolling(t: xr.DataArray) -> xr.DataArray:
        return t.rolling(time=5, min_periods=1).mean()

    transform(
        filled,
        ["t"],
        "rolled",
        rolling,
        blocks=BlockOptions(halo={"time": (4, 0)}),
        spark=spark,
        job=small(),
    )

    np.testing.assert_allclose(read(filled).rolled, rolling(make().t), rtol=1e-5)


def test_packed_values_are_what_xarray_reads(spark: SparkSession, filled: Repository) -> None:
    before = read(filled).packed

    transform(filled, ["packed"], "twice", lambda t: t * 2, spark=spark, job=small())

    np.testing.assert_array_equal(read(filled).twice, before * 2)
    assert np.isnan(before).any()


def test_chunks_that_were_never_written_are_read_as_fill_values(
    spark: SparkSession, filled: Repository
) -> None:
    session = filled.writable_session("main")
    array = zarr.create_array(
        session.store, name="sparse", shape=(20,), chunks=(5,), dtype="i4", fill_value=7,
        dimension_names=["x"],
    )  # fmt: skip
    array[5:10] = 1
    session.commit("sparse")

    transform(filled, ["sparse"], "negative", np.negative, spark=spark, job=small())

    assert read(filled).negative.values.tolist() == [-7] * 5 + [-1] * 5 + [-7] * 10


def test_a_dimension_that_goes_and_one_that_comes(spark: SparkSession, filled: Repository) -> None:
    def quantiles(t: xr.DataArray) -> xr.DataArray:
        found: xr.DataArray = t.fillna(0).quantile([0.25, 0.75], dim="time")
        return found

    data = make()
    template = quantiles(data.t).transpose("lat", "lon", "quantile")

    transform(
        filled,
        ["t"],
        "stats/quartiles",
        quantiles,
        template=template,
        chunks={"lat": 2},
        blocks=BlockOptions(core_dims=["time"]),
        spark=spark,
        job=small(),
    )

    found = read(filled, "stats")
    xr.testing.assert_allclose(found.quartiles, template.drop_vars("basin"))
    assert found.quartiles.encoding["chunks"] == (2, 4, 2)


def test_an_output_may_be_replaced(spark: SparkSession, filled: Repository) -> None:
    transform(filled, ["t"], "out", lambda t: t + 1, spark=spark, job=small())
    with pytest.raises(AlreadyExistsError):
        transform(filled, ["t"], "out", lambda t: t + 2, spark=spark, job=small())

    transform(
        filled,
        ["n"],
        "out",
        lambda n: n + 2,
        overwrite=True,
        encoding={"dtype": "i8", "shards": (20, 6, 4)},
        spark=spark,
        job=small(),
    )

    found = read(filled).out
    np.testing.assert_array_equal(found, make().n + 2)
    assert found.dtype == "i8"


# Reductions


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "count", "std"])
@pytest.mark.parametrize("variable", ["t", "n"])
def test_reductions_along_time(
    spark: SparkSession, filled: Repository, name: str, variable: str
) -> None:
    run_on: Any = "spark" if variable == "t" else "driver"

    report = transform(
        filled,
        [variable],
        "reduced",
        reduce=name,
        over="time",
        job=Job(task_bytes=6000, run_on=run_on),
        spark=spark,
    )

    expected = getattr(make()[variable], name)("time")
    found = read(filled).reduced
    xr.testing.assert_allclose(found.drop_vars("basin"), expected.drop_vars("basin"), rtol=1e-5)
    assert found.dtype == expected.dtype
    assert found.dims == expected.dims
    assert "pieces" in report.notes[0]


@pytest.mark.parametrize("name", ["mean", "std", "max"])
def test_a_monthly_climatology(spark: SparkSession, filled: Repository, name: str) -> None:
    transform(
        filled,
        ["t"],
        "climate/t",
        reduce=name,
        groupby="time.month",
        chunks={"month": 1},
        spark=spark,
        job=small(),
    )

    expected = getattr(make().t.groupby("time.month"), name)()
    found = read(filled, "climate")
    assert found.t.dims == ("month", "lat", "lon")
    assert found.month.values.tolist() == [1, 2, 3]
    assert found.t.encoding["chunks"] == (1, 3, 4)
    np.testing.assert_allclose(found.t, expected.transpose(*found.t.dims), rtol=1e-5)
    np.testing.assert_array_equal(found.lat, make().lat)


def test_a_zonal_mean(spark: SparkSession, filled: Repository) -> None:
    transform(
        filled,
        ["t"],
        "zonal",
        lambda t: t - 273.15,
        reduce="mean",
        over=["lon"],
        spark=spark,
        job=small(),
    )

    np.testing.assert_allclose(
        read(filled).zonal, (make().t - 273.15).mean("lon"), rtol=1e-4, atol=1e-4
    )


def test_groups_by_a_coordinate_and_over_more(spark: SparkSession, filled: Repository) -> None:
    transform(
        filled,
        ["n"],
        "basins/n",
        reduce="sum",
        groupby="basin",
        over=["time", "lon"],
        spark=spark,
        job=small(),
    )

    expected = make().n.groupby("basin").sum().sum("time")
    found = read(filled, "basins")
    assert found.basin.values.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        found.n.transpose("lat", "basin"), expected.transpose("lat", "basin")
    )


def test_everything_to_one_number(spark: SparkSession, filled: Repository) -> None:
    report = transform(
        filled,
        ["t"],
        "one",
        reduce="std",
        over=["time", "lat", "lon"],
        job=Job(task_bytes=480, run_on="driver"),
        spark=spark,
    )

    np.testing.assert_allclose(read(filled).one, make().t.std(), rtol=1e-5)
    assert "28 pieces" in report.notes[0], "more than one level of the tree"


def test_nothing_to_reduce_has_a_result(spark: SparkSession, repo: Repository) -> None:
    session = repo.writable_session("main")
    empty = xr.Dataset({"t": (("time", "x"), np.zeros((0, 3)))})
    to_icechunk(empty, session)
    session.commit("empty")

    transform(repo, ["t"], "total", reduce="sum", over="time", spark=spark)
    transform(repo, ["t"], "mean", reduce="mean", over="time", spark=spark)
    transform(repo, ["t"], "across", reduce="max", over="x", spark=spark)

    assert read(repo).total.values.tolist() == [0, 0, 0]
    assert np.isnan(read(repo)["mean"]).all()
    assert read(repo).across.shape == (0,)


def die_once_on_a_worker(folder: str, t: xr.DataArray) -> xr.DataArray:
    if TaskContext.get() is not None:
        try:
            (Path(folder) / "died").touch(exist_ok=False)
        except FileExistsError:
            return t
        os.kill(os.getpid(), signal.SIGKILL)
    return t


def test_a_reduction_survives_a_killed_worker(
    spark: SparkSession, filled: Repository, tmp_path: Path
) -> None:
    report = transform(
        filled,
        ["n"],
        "total",
        partial(die_once_on_a_worker, str(tmp_path)),
        reduce="sum",
        over="time",
        spark=spark,
        job=small(),
    )

    assert (tmp_path / "died").exists()
    assert report.retries >= 1
    np.testing.assert_array_equal(read(filled).total, make().n.sum("time"))
    assert len(list(filled.ancestry(branch="main"))) == 3


# Others at the same time


def shift_while_others_commit(folder: str, path: str, t: xr.DataArray) -> xr.DataArray:
    session = Repository.open(frazil.local_filesystem_storage(folder)).writable_session("main")
    array = zarr.open_array(session.store, path=path, mode="r+")
    if array[0, 0, 0] != 99:
        array[0, 0, 0] = 99
        session.commit("meanwhile")
    return t + 1


def test_an_output_lands_beside_what_others_commit(
    spark: SparkSession, filled: Repository, tmp_path: Path
) -> None:
    function = partial(shift_while_others_commit, str(tmp_path / "repo"), "n")

    transform(filled, ["t"], "out", function, job=Job(run_on="driver"), spark=spark)

    assert [each.message for each in filled.ancestry(branch="main")][:2] == [
        "transform out", "meanwhile",
    ]  # fmt: skip
    np.testing.assert_array_equal(read(filled).out, make().t + 1)


def test_replacing_what_others_change_is_a_conflict(
    spark: SparkSession, filled: Repository, tmp_path: Path
) -> None:
    function = partial(shift_while_others_commit, str(tmp_path / "repo"), "n")

    with pytest.raises(RebaseFailedError):
        transform(
            filled, ["t"], "n", function, overwrite=True, job=Job(run_on="driver"), spark=spark
        )

    assert next(iter(filled.ancestry(branch="main"))).message == "meanwhile"


# What can't be


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"inputs": ["none"]}, NodeNotFoundError, "none"),
        ({"inputs": []}, InvalidInputError, "no inputs"),
        ({"inputs": ["t", "n"], "function": None}, InvalidInputError, "one input"),
        ({"function": lambda t: t.mean("lat")}, InvalidInputError, "core_dims"),
        ({"function": lambda t: t.isel(lat=slice(1))}, InvalidInputError, "made 1 of the 3"),
        ({"function": lambda t: t.astype(str)}, InvalidInputError, "numbers"),
        ({"encoding": {"dtype": "i4"}}, InvalidInputError, "float32"),
        ({"over": "time"}, InvalidInputError, "reduce is not given"),
        ({"reduce": "median", "over": "time"}, InvalidInputError, "no reduction"),
        ({"reduce": "mean"}, InvalidInputError, "over=None"),
        ({"reduce": "mean", "over": "depth"}, InvalidInputError, "some of"),
        ({"reduce": "mean", "groupby": "time.colour"}, InvalidInputError, "component"),
        ({"reduce": "mean", "groupby": "basin", "output": "b"}, InvalidInputError, "another basin"),
        ({"blocks": BlockOptions(halo={"depth": 1})}, InvalidInputError, "depth"),
        ({"blocks": BlockOptions(halo={"lat": -1})}, InvalidInputError, "halo"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_makes_no_sense_is_refused_before_any_task(
    spark: SparkSession, filled: Repository, arguments: Any, error: type[Exception], text: str
) -> None:
    tip = filled.lookup_branch("main")
    given = {"function": lambda t: t, "inputs": ["t"], "output": "out", **arguments}

    with pytest.raises(error, match=text):
        transform(filled, spark=spark, **given, job=small())

    assert filled.lookup_branch("main") == tip


def test_a_group_that_xarray_cannot_open_is_named(spark: SparkSession, filled: Repository) -> None:
    session = filled.writable_session("main")
    zarr.create_array(session.store, name="bare", shape=(2,), dtype="i4")
    session.commit("no names")

    with pytest.raises(InvalidInputError, match="in the group / these arrays have none: bare"):
        transform(filled, ["t"], "out", lambda t: t, spark=spark, job=small())
