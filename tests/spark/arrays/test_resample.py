"""Arrays of coarser steps are those that Xarray resamples and coarsens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil import Repository
from frazil.errors import InvalidInputError
from tests.spark.arrays.test_points import START, store

pytestmark = pytest.mark.xdist_group("spark-arrays")


def make(seed: int, times: int, *, dtype: str = "f4", calendar: str = "standard") -> xr.Dataset:
    """Return random values at uneven hours, with a gap of days."""
    rng = np.random.default_rng(seed)
    hours = np.cumsum(rng.integers(1, 30, times)) + np.where(np.arange(times) > times // 2, 96, 0)
    if calendar == "standard":
        time: Any = START + hours * np.timedelta64(1, "h")
    else:
        units = "hours since 2001-01-15"
        time = xr.coding.times.decode_cf_datetime(hours, units, calendar)
    values = rng.normal(0, 50, (times, 7, 5)).astype(dtype)
    if dtype[0] == "f":
        values[rng.random(values.shape) < 0.3] = np.nan
    return xr.Dataset(
        {"v": (("time", "lat", "lon"), values, {"units": "K"})},
        {"time": time, "lat": np.arange(7.0), "lon": np.arange(5) * 2},
    )


def read(repo: Repository, group: str) -> xr.Dataset:
    """Return what was written."""
    found: xr.Dataset = xr.open_zarr(
        repo.readonly_session("main").store, group=group, consolidated=False
    )
    return found.load()


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_steps_are_those_of_xarray(data: Any) -> None:
    draw = data.draw
    dataset = make(
        draw(st.integers(0, 2**32)),
        draw(st.integers(1, 20)),
        dtype=draw(st.sampled_from(["f4", "f8", "i2"])),
        calendar=draw(st.sampled_from(["standard", "noleap"])),
    )
    how = draw(st.sampled_from(["mean", "sum", "min", "max", "std", "count"]))
    rule = draw(st.sampled_from(["6h", "1D", "MS", "YS"]))
    lat = draw(st.integers(1, 8))
    repo = store(dataset, {dim: draw(st.integers(1, 6)) for dim in ("time", "lat", "lon")})
    expected = dataset.v.astype("f8").resample(time=rule)
    counts = dataset.v.isel(lat=0, lon=0).astype("f8").fillna(0).resample(time=rule).count()
    if dataset.v.dtype.kind == "i" and how in ("min", "max") and not counts.fillna(0).all():
        with pytest.raises(InvalidInputError, match="steps of time without elements"):
            frazil.resample(repo, "v", "coarse/v", {"time": rule}, how=how)
        return

    frazil.resample(
        repo, "v", "daily/v", {"time": rule}, how=how, chunks={"time": draw(st.integers(1, 4))}
    )
    frazil.resample(repo, "v", "coarse/v", {"lat": lat}, how=how)

    daily, coarse = read(repo, "daily"), read(repo, "coarse")
    filled = 0.0 if how in ("sum", "count") else np.nan
    wanted = getattr(expected, how)().fillna(filled)
    np.testing.assert_allclose(daily.v, wanted, rtol=1e-4, atol=1e-3)
    assert [str(each) for each in daily.time.values] == [str(each) for each in wanted.time.values]
    padded = dataset.v.astype("f8").coarsen(lat=lat, boundary="pad")
    wanted = getattr(padded, how)().transpose(*coarse.v.dims).fillna(filled)
    np.testing.assert_allclose(coarse.v, wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(coarse.lat, wanted.lat)
    assert coarse.v.attrs == {"units": "K"}


def test_a_long_array_is_resampled_in_tasks_as_one_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    hours = START + np.arange(24 * 40) * np.timedelta64(1, "h")
    values = np.random.default_rng(0).normal(size=(len(hours), 8, 8))
    dataset = xr.Dataset({"v": (("time", "y", "x"), values)}, {"time": hours})
    repo = Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    with repo.transaction("main", message="data") as target:
        dataset.to_zarr(target, consolidated=False, encoding={"v": {"chunks": [100, 4, 4]}})
    job = frazil.spark.Job(run_on="spark")

    report = frazil.spark.resample(
        repo, "v", "daily/v", {"time": "1D", "y": 3}, chunks={"time": 7}, job=job, spark=spark
    )

    expected = dataset.v.resample(time="1D").mean().coarsen(y=3, boundary="pad").mean()
    found = read(repo, "daily")
    np.testing.assert_allclose(found.v, expected.transpose("time", "y", "x"))
    assert report.tasks > 0
    messages = [each.message for each in repo.ancestry(branch="main")]
    assert messages[:2] == ["resample v to daily/v", "data"]


def test_the_output_is_encoded_as_asked() -> None:
    dataset = make(5, 6)
    repo = store(dataset, {"time": 2, "lat": 3, "lon": 3})
    encoding = {"dtype": "float64", "shards": [2, 2, 4], "compressors": None}

    frazil.resample(
        repo, "v", "coarse/v", {"lat": 1}, chunks={"time": 2, "lat": 1, "lon": 2}, encoding=encoding
    )

    found: Any = zarr.open_array(repo.readonly_session("main").store, path="coarse/v")
    assert (found.dtype, found.shards, found.compressors) == (np.dtype("f8"), (2, 2, 4), ())
    np.testing.assert_allclose(found[...], dataset.v.transpose("time", "lat", "lon"), rtol=1e-6)
    with pytest.raises(InvalidInputError, match="encoding has only"):
        frazil.resample(repo, "v", "other/v", {"lat": 1}, encoding={"codec": 1})


@pytest.mark.parametrize(
    ("by", "options", "problem"),
    [
        ({}, {}, "by is empty"),
        ({"tim": "1D"}, {}, "no dimension 'tim'"),
        ({"lat": "1D"}, {}, "lat has no times"),
        ({"lat": 0}, {}, "1 or more elements"),
        ({"time": "1Q?"}, {}, "invalid step '1Q\\?'"),
        ({"time": "1D"}, {"how": "median"}, "no reduction"),
        ({"time": "1D"}, {"chunks": {"z": 1}}, "chunks names the dimension 'z'"),
    ],
)
def test_what_can_not_be_resampled_is_refused(by: Any, options: Any, problem: str) -> None:
    repo = store(make(1, 4), {"time": 2, "lat": 3, "lon": 3})

    with pytest.raises(InvalidInputError, match=problem):
        frazil.resample(repo, "v", "coarse/v", by, **options)

    assert len(list(repo.ancestry(branch="main"))) == 2
