"""Values at points are those that Xarray selects, and interpolates, at the same points."""

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from zarr.storage import StoreLike

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.spark import runtime
from frazil.spark.arrays.points import plan_sampling
from frazil.tables.columns import GroupArrays

pytestmark = pytest.mark.xdist_group("spark-arrays")

START = np.datetime64("2020-01-01", "ns")


def store(dataset: xr.Dataset, chunks: dict[str, int]) -> frazil.Repository:
    """Return a repository with a dataset."""
    repo = frazil.Repository.create(frazil.in_memory_storage())
    with repo.transaction("main", message="data") as target:
        written: StoreLike = target
        encoding = {
            name: {"chunks": [min(chunks[str(dim)], each.sizes[dim]) for dim in each.dims]}
            for name, each in dataset.data_vars.items()
        }
        dataset.to_zarr(written, consolidated=False, encoding=encoding)
    return repo


def sample(repo: frazil.Repository, points: pd.DataFrame, **options: Any) -> pd.DataFrame:
    """Return the values at points, without Spark, in the order of the column `id`."""
    rows = pa.Table.from_pandas(points, preserve_index=False)
    given = {"variables": ["v"], "given": None, "method": "nearest", "tolerance": None} | options
    arrays = GroupArrays(repo.readonly_session("main"), "/")
    plan = plan_sampling(arrays, schema=from_arrow_schema(rows.schema), **given)
    numbered = list(plan.number_chunks(rows.to_batches(max_chunksize=3)))
    found = pa.Table.from_batches(list(plan.read(numbered))).to_pandas()
    return found.sort_values("id", kind="stable", ignore_index=True)


def make_dataset(draw: Any) -> xr.Dataset:
    """Return random values with gaps on an uneven grid, ascending or not."""
    labels = st.lists(st.integers(-90, 90), min_size=1, max_size=7, unique=True)
    order = st.sampled_from([sorted, lambda each: sorted(each, reverse=True), list])
    lat, lon = (
        np.array(draw(order)(draw(labels)), draw(st.sampled_from(["f4", "i2", "f8"])))
        for _ in range(2)
    )
    time = START + np.arange(draw(st.integers(1, 5))) * np.timedelta64(6, "h")
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.normal(size=(len(time), len(lat), len(lon))).astype("f4")
    values[rng.random(values.shape) < 0.2] = np.nan
    return xr.Dataset(
        {"v": (("time", "lat", "lon"), values)}, {"time": time, "lat": lat, "lon": lon}
    )


def make_points(draw: Any) -> pd.DataFrame:
    number = st.floats(-100, 100, allow_nan=False) | st.integers(-90, 90).map(float)
    rows = draw(st.lists(st.tuples(number, number, st.integers(-5, 40)), min_size=1, max_size=9))
    lat, lon, hours = (np.array(each) for each in zip(*rows, strict=True))
    time = START + hours.astype("timedelta64[h]")
    return pd.DataFrame({"id": range(len(lat)), "lat": lat, "lon": lon, "time": time})


@given(st.data())
def test_the_nearest_values_are_those_of_xarray(data: Any) -> None:
    dataset, points = make_dataset(data.draw), make_points(data.draw)
    chunks = {dim: data.draw(st.integers(1, 4)) for dim in map(str, dataset.sizes)}
    tolerance = data.draw(st.none() | st.floats(0, 50))

    found = sample(store(dataset, chunks), points, tolerance=tolerance)

    nearest = dataset.sortby(["lat", "lon"])
    nearest = nearest.assign_coords({d: nearest[d].astype("f8") for d in ("lat", "lon")})
    at = {dim: xr.DataArray(points[dim].to_numpy(), dims="id") for dim in ("lat", "lon", "time")}
    expected = nearest.v.sel(at, method="nearest")
    if tolerance is not None:
        for dim in ("lat", "lon"):
            expected = expected.where(np.abs(expected[dim] - at[dim]) <= tolerance)
    np.testing.assert_array_equal(found.v.to_numpy(), expected.to_numpy())


def interpolate(dataset: xr.Dataset, point: pd.Series) -> float:
    """Return the value at a point, along one dimension after another."""
    values = dataset.v.sortby(["lat", "lon"]).astype("f8")
    for dim in ("time", "lat", "lon"):
        labels = values[dim].to_numpy()
        x = np.array(point[dim])
        if dim == "time":
            labels, x = (
                each.astype("M8[us]").astype("i8") for each in (labels, x.astype("M8[us]"))
            )
        if not labels[0] <= x <= labels[-1]:
            return np.nan
        after = min(int(np.searchsorted(labels, x, "right")), len(labels) - 1)
        if labels[max(after - 1, 0)] == x or len(labels) == 1:
            values = values.isel({dim: max(after - 1, 0) if labels[max(after - 1, 0)] == x else 0})
        elif labels[after] == x:
            values = values.isel({dim: after})
        else:
            weight = (x - labels[after - 1]) / (labels[after] - labels[after - 1])
            before, later = values.isel({dim: after - 1}), values.isel({dim: after})
            values = before.drop_vars(dim) * (1 - weight) + later.drop_vars(dim) * weight
    return float(values)


@given(st.data())
def test_linear_values_are_between_those_of_the_labels_around(data: Any) -> None:
    dataset, points = make_dataset(data.draw), make_points(data.draw)
    chunks = {dim: data.draw(st.integers(1, 4)) for dim in map(str, dataset.sizes)}

    found = sample(store(dataset, chunks), points, method="linear")

    expected = [interpolate(dataset, point) for _, point in points.iterrows()]
    np.testing.assert_allclose(found.v.to_numpy(), expected, rtol=1e-5, atol=1e-6)


def globe(first: float, step: float = 1.0, count: int = 360) -> frazil.Repository:
    lon = first + step * np.arange(count)
    dataset = xr.Dataset({"v": ("lon", np.arange(count) * 1.0)}, {"lon": lon})
    dataset.lon.attrs["units"] = "degrees_east"
    return store(dataset, {"lon": 50})


def test_longitudes_match_around_the_globe() -> None:
    points = pd.DataFrame({"id": range(5), "lon": [-1.0, 359.0, 359.6, -0.4, 720.0]})

    assert sample(globe(0), points).v.tolist() == [359, 359, 0, 0, 0]
    assert sample(globe(-180), points).v.tolist() == [179, 179, 180, 180, 180]
    linear = sample(globe(0), points, method="linear").v
    np.testing.assert_allclose(linear, [359, 359, 0.4 * 359, 0.4 * 359, 0])


def test_a_region_matches_across_its_own_edge_only_if_near() -> None:
    points = pd.DataFrame({"id": range(3), "lon": [348.0, 50.0, 200.0]})
    region = globe(-10, count=51)

    assert sample(region, points).v.tolist() == [0, 50, 0]
    assert sample(region, points, tolerance=2.5).v.fillna(-1).tolist() == [0, -1, -1]
    assert sample(region, points, method="linear").v.isna().all()


def test_dimensions_without_a_column_are_kept_whole() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    dataset = xr.Dataset(
        {"v": (("time", "station", "level"), values), "w": ("station", [7, 8, 9])},
        {"station": ["a", "b", "c"], "time": [START, START + np.timedelta64(1, "D")]},
    )
    repo = store(dataset, {"time": 1, "station": 2, "level": 3})
    points = pd.DataFrame({"id": [0, 1, 2], "station": ["c", None, "a"]})

    found = sample(repo, points, variables=["v", "w"])

    assert len(found) == 3 * 8
    assert list(found.columns) == ["id", "station", "time", "level", "v", "w"]
    for number, station in ((0, 2), (2, 0)):
        rows = found[found.id == number].sort_values(["time", "level"])
        np.testing.assert_array_equal(rows.v, values[:, station].ravel())
        assert set(rows.w) == {7 + station}
    assert found[found.id == 1].v.isna().all()


def test_points_come_from_a_dataframe_and_chunks_without_points_are_not_read(
    spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make_grid()
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    with repo.transaction("main", message="data") as target:
        dataset.to_zarr(target, consolidated=False, encoding={"v": {"chunks": [4, 10, 10]}})
    view = repo.readonly_session("main").state.view
    for chunk in np.ndindex(3, 3, 3):
        if chunk[1:] != (0, 1):
            ref: Any = view.find_chunk(view.get_node("/v"), chunk)
            (tmp_path / "repo" / "chunks" / str(ref.chunk_id)).unlink()
    rng = np.random.default_rng(1)
    points = pd.DataFrame(
        {
            "who": range(500),
            "name": [f"ship {number}" for number in range(500)],
            "y": rng.uniform(0, 9.4, 500),
            "x": rng.uniform(10.6, 19.4, 500),
            "time": START + rng.integers(0, 80, 500) * np.timedelta64(1, "h"),
        }
    )
    at = {"lat": points.y, "lon": points.x, "time": points.time}
    expected = dataset.v.sel(
        {dim: xr.DataArray(each, dims="p") for dim, each in at.items()}, method="nearest"
    )
    far = np.abs(expected.time.to_numpy() - points.time.to_numpy()) > np.timedelta64(1, "h")

    # The driver finds few points of this process, or they are sent with the tasks; others are shuffled.
    frames = (spark.createDataFrame(points), points, points)
    for frame, most, has_tasks in zip(frames, (0, 1 << 30, 0), (True, False, True), strict=True):
        monkeypatch.setattr(runtime, "LOCAL_BYTES", most)
        found = frazil.spark.points(
            f"file://{tmp_path}/repo",
            frame,
            "v",
            columns={"lat": "y", "lon": "x"},
            tolerance={"time": timedelta(hours=1)},
            spark=spark,
        )
        assert ("MapInArrow" in found._jdf.queryExecution().toString()) is has_tasks
        rows = found.toArrow().to_pandas().sort_values("who", ignore_index=True)
        assert list(rows.name) == list(points.name)
        np.testing.assert_array_equal(rows.v, expected.where(~far).to_numpy())


def make_grid() -> xr.Dataset:
    values = np.random.default_rng(0).normal(size=(12, 30, 30))
    labels = {"time": START + np.arange(12) * np.timedelta64(6, "h")}
    return xr.Dataset(
        {"v": (("time", "lat", "lon"), values)},
        labels | {d: np.arange(30.0) for d in ("lat", "lon")},
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "linea"}, "did you mean 'linear'"),
        ({"given": {"latt": "y"}}, "did you mean 'lat'"),
        ({"given": {"lat": "z"}}, "no column 'z'"),
        ({"tolerance": {"lat": timedelta(1)}}, "must be a number"),
        ({"tolerance": "2.5"}, "must be a number"),
        ({"tolerance": 1.0, "method": "linear"}, "leave it out"),
        ({"tolerance": {"time": 1}}, "tolerance names the dimension 'time'"),
    ],
)
def test_what_points_do_not_have_is_refused(options: dict[str, Any], problem: str) -> None:
    points = pd.DataFrame({"id": [1], "lat": [1.0], "y": [1.0]})

    with pytest.raises(InvalidInputError, match=problem):
        sample(store(make_grid(), {"time": 4, "lat": 9, "lon": 9}), points, **options)


def test_points_need_columns_of_the_right_types() -> None:
    repo = store(make_grid(), {"time": 4, "lat": 9, "lon": 9})

    with pytest.raises(InvalidInputError, match="no column of a dimension"):
        sample(repo, pd.DataFrame({"id": [1]}))
    with pytest.raises(InvalidInputError, match="'time' of the points is a string"):
        sample(repo, pd.DataFrame({"id": [1], "time": ["2020-01-01"]}))
    with pytest.raises(InvalidInputError, match="have a column 'v' already"):
        sample(repo, pd.DataFrame({"id": [1], "lat": [1.0], "v": [1.0]}))


def make_curved() -> xr.Dataset:
    """A grid whose longitudes and latitudes have two dimensions."""
    y, x = np.mgrid[0:3, 0:4]
    return xr.Dataset(
        {"v": (("time", "y", "x"), np.zeros((2, 3, 4)))},
        {
            "time": START + np.arange(2),
            "lat": (("y", "x"), 50.0 + y + x),
            "lon": (("y", "x"), 5.0 + x - y),
        },
    )


def test_coordinates_of_two_dimensions_are_refused() -> None:
    points = pd.DataFrame({"id": [1], "time": [START], "lat": [51.0], "lon": [6.0]})
    repo = store(make_curved(), {"time": 1, "y": 3, "x": 4})

    with pytest.raises(InvalidInputError, match="lat has the dimensions y, x"):
        sample(repo, points)
    assert len(sample(repo, points.assign(y=1, x=2))) == 1
