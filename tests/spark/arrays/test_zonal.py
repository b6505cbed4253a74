"""Statistics of zones are those of exactextract, which weighs cells in the same way."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
import xarray as xr
from exactextract import exact_extract
from exactextract.raster import NumPyRasterSource
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.spark import runtime
from frazil.spark.arrays.zonal import Zones, plan_zonal, read_zones
from frazil.tables.columns import GroupArrays
from tests.spark.arrays.test_points import START, make_curved, store

pytestmark = pytest.mark.xdist_group("spark-arrays")

STATISTICS = ("count", "sum", "mean", "min", "max", "std", "var")
THEIRS = dict(
    zip(STATISTICS, ("count", "sum", "mean", "min", "max", "stdev", "variance"), strict=True)
)


def compute(
    repo: frazil.Repository, zones: Zones, stats: Any = STATISTICS, **options: Any
) -> pd.DataFrame:
    """Return the statistics of zones, without Spark."""
    arrays = GroupArrays(repo.readonly_session("main"), "/")
    plan = plan_zonal(arrays, options.pop("variables", ["v"]), zones, stats, **options)
    batches = [batch for task in plan.tasks(2) for batch in plan.read(task)]
    return pa.Table.from_batches(batches, plan.schema).to_pandas()


def make_grid(seed: int, times: int, rows: int, columns: int, *, is_north_up: bool) -> xr.Dataset:
    """Return random values with gaps on a grid of degrees."""
    rng = np.random.default_rng(seed)
    values = rng.normal(10, 3, size=(times, rows, columns)).astype("f4")
    values[rng.random(values.shape) < 0.1] = np.nan
    lat = 40 + 0.5 * np.arange(rows)
    dataset = xr.Dataset(
        {"v": (("time", "lat", "lon"), values)},
        {
            "time": START + np.arange(times) * np.timedelta64(1, "D"),
            "lat": lat[::-1] if is_north_up else lat,
            "lon": 5 + 0.5 * np.arange(columns),
        },
    )
    dataset.lon.attrs["units"] = "degrees_east"
    return dataset


def make_zone(draw: Any) -> Any:
    """Return a random polygon around the grid, maybe with several parts and holes."""
    number = st.floats(0, 1)
    corners = st.lists(st.tuples(number, number), min_size=3, max_size=6)
    x, y, size = draw(st.floats(3, 9)), draw(st.floats(38, 44)), draw(st.floats(0.1, 4))
    points = np.array(draw(corners)) * size + (x, y)
    hull = shapely.convex_hull(shapely.multipoints(points))
    zone = hull if draw(st.booleans()) else shapely.make_valid(shapely.polygons(points))
    kept = [
        each for each in shapely.get_parts(zone) if each.geom_type == "Polygon" and each.area > 1e-3
    ]
    return shapely.multipolygons(kept) if kept else shapely.box(x, y, x + 1, y + 1)


@given(st.data())
def test_statistics_are_those_of_exactextract(data: Any) -> None:
    draw = data.draw
    rows, columns = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    grid = make_grid(
        draw(st.integers(0, 2**32)), draw(st.integers(1, 3)), rows, columns,
        is_north_up=draw(st.booleans()),
    )  # fmt: skip
    zones = [make_zone(draw) for _ in range(draw(st.integers(1, 4)))]
    chunks = {dim: draw(st.integers(1, 5)) for dim in map(str, grid.sizes)}

    found = compute(store(grid, chunks), read_zones(zones, "geometry"))

    assert len(found) == len(zones) * grid.sizes["time"]
    features = [
        {
            "type": "Feature",
            "id": str(n),
            "geometry": json.loads(shapely.to_geojson(zone)),
            "properties": {},
        }
        for n, zone in enumerate(zones)
    ]
    ascending = grid.sortby("lat")
    extent = {"xmin": 4.75, "xmax": 4.75 + columns / 2, "ymin": 39.75, "ymax": 39.75 + rows / 2}
    for number, time in enumerate(grid.time.to_numpy()):
        raster = NumPyRasterSource(ascending.v.to_numpy()[number, ::-1], nodata=np.nan, **extent)
        theirs = exact_extract(raster, features, [f"{each}=" + t for each, t in THEIRS.items()])
        ours = found[found.time.dt.tz_localize(None) == time].sort_values("zone")
        for feature, (_, row) in zip(theirs, ours.iterrows(), strict=True):
            for name in STATISTICS:
                mine, other = row[f"v_{name}"], feature["properties"][name]
                if row["v_count"] < 1e-9:  # a cell that is touched, or not, by a rounding error
                    continue
                np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4, err_msg=name)


def test_cells_whose_center_is_inside_count_whole() -> None:
    grid = make_grid(1, 1, 8, 8, is_north_up=True)
    zone = shapely.Polygon([(5.1, 40.1), (8.2, 40.6), (6.6, 43.2)])

    found = compute(
        store(grid, {"time": 1, "lat": 3, "lon": 3}), read_zones([zone], "geometry"), how="center"
    )

    x, y = np.meshgrid(grid.lon, grid.lat)
    inside = shapely.contains_xy(zone, x, y)
    expected = grid.v.to_numpy()[0][inside]
    assert found.v_count[0] == np.count_nonzero(~np.isnan(expected))
    np.testing.assert_allclose(found.v_mean[0], np.nanmean(expected))


def globe(first: float) -> xr.Dataset:
    lon, lat = first + np.arange(0, 360, 2.0), np.arange(-89.0, 90, 2)
    values = np.cos(np.radians(lat))[:, None] * np.where((lon + 180) % 360 < 180, 1.0, 3.0)
    dataset = xr.Dataset({"v": (("lat", "lon"), values)}, {"lat": lat, "lon": lon})
    dataset.lon.attrs["standard_name"] = "longitude"
    return dataset


def test_zones_match_around_the_globe_and_areas_are_those_of_the_sphere() -> None:
    zones = read_zones(
        {"date line": shapely.box(170, -20, 190, 20), "all": shapely.box(-180, -90, 180, 90)}, ""
    )

    for first in (-179.0, 1.0, -10.0):
        found = compute(
            store(globe(first), {"lat": 20, "lon": 33}), zones, weights="area"
        ).set_index("zone")
        np.testing.assert_allclose(found.v_count["all"], 4 * np.pi * 6_371_008.8**2)
        strip = 2 * np.sin(np.radians(20)) * np.radians(20) * 6_371_008.8**2
        np.testing.assert_allclose(found.v_count["date line"], strip)
        assert found.v_max["date line"] == found.v_max["all"]


def test_zones_are_read_from_files_and_frames(tmp_path: Path) -> None:
    shapes = [shapely.box(5, 40, 6, 41), shapely.box(7, 41, 8, 42)]
    collection = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"name": name},
                "geometry": json.loads(shapely.to_geojson(each)),
            }
            for name, each in zip("ab", shapes, strict=True)
        ],
    }
    (tmp_path / "zones.geojson").write_text(json.dumps(collection))
    table = pa.table({"name": ["a", "b"], "shape": [each.wkb for each in shapes]})
    about = {"primary_column": "shape", "columns": {"shape": {"encoding": "WKB"}}}
    pq.write_table(
        table.replace_schema_metadata({"geo": json.dumps(about)}), tmp_path / "zones.parquet"
    )
    texts = pd.DataFrame({"name": ["a", "b"], "geometry": [each.wkt for each in shapes]})

    for each, column in (
        (tmp_path / "zones.geojson", "geometry"),
        (str(tmp_path / "zones.parquet"), "geometry"),
        (collection, "geometry"),
        (table, "shape"),
        (texts, "geometry"),
    ):
        zones = read_zones(each, column)
        assert zones.rows.to_pydict() == {"name": ["a", "b"]}
        assert shapely.equals(zones.shapes, shapes).all()


def test_zones_in_another_reference_system_are_transformed() -> None:
    x, y = np.arange(500_000.0, 520_000, 1000), np.arange(5_000_000.0, 5_020_000, 1000)
    grid = xr.Dataset(
        {"v": (("y", "x"), np.arange(400.0).reshape(20, 20), {"grid_mapping": "crs"})},
        {"y": y, "x": x},
    )
    grid["crs"] = xr.Variable((), 0, {"crs_wkt": "EPSG:32631"})
    repo = store(grid, {"y": 7, "x": 7})
    # Around 3.0 E, 45.15 N, which is the origin of the grid.
    found = compute(
        repo,
        Zones(
            pa.table({"zone": [1]}),
            read_zones(["POLYGON ((3 45.2, 3.1 45.2, 3.1 45.3, 3 45.3, 3 45.2))"], "").shapes,
            "EPSG:4326",
        ),
    )

    assert found.v_count[0] == pytest.approx(
        0.1 * 0.1 * 111.1 * 111.1 * np.cos(np.radians(45.25)), rel=0.01
    )


@pytest.mark.parametrize("has_tasks", [True, False])
def test_zones_of_a_dataframe_give_a_dataframe(
    spark: SparkSession, tmp_path: Path, has_tasks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOCAL_BYTES", 0 if has_tasks else 1 << 30)
    grid = make_grid(3, 6, 20, 20, is_north_up=True)
    repo = frazil.Repository.create(
        frazil.local_filesystem_storage(str(tmp_path / "repo")),
        frazil.RepositoryConfig(inline_chunk_threshold_bytes=0),
    )
    with repo.transaction("main", message="data") as target:
        grid.to_zarr(target, consolidated=False, encoding={"v": {"chunks": [2, 5, 5]}})
    # Chunks that no zone touches are not read.
    view = repo.readonly_session("main").state.view
    for chunk in np.ndindex(3, 4, 4):
        if chunk[1:] not in ((2, 0), (2, 1), (3, 0), (3, 1)):
            ref: Any = view.find_chunk(view.get_node("/v"), chunk)
            (tmp_path / "repo" / "chunks" / str(ref.chunk_id)).unlink()
    box = shapely.box(5.25, 40.25, 8.25, 42.25)
    zones = spark.createDataFrame(
        [("inside", box.wkb), ("far", shapely.box(90, 0, 91, 1).wkb)],
        "name string, geometry binary",
    )

    found = frazil.spark.zonal(
        f"file://{tmp_path}/repo", zones, "v", stats=["mean", "count"], spark=spark
    )

    assert ("MapInArrow" in found._jdf.queryExecution().toString()) is has_tasks
    rows = found.toArrow().to_pandas().sort_values(["name", "time"])
    expected = grid.v.sel(lat=slice(42.25, 40.25), lon=slice(5.25, 8.25))
    assert list(rows.columns) == ["name", "time", "v_mean", "v_count"]
    np.testing.assert_allclose(
        rows[rows.name == "inside"].v_mean, expected.mean(["lat", "lon"]), rtol=1e-5
    )
    np.testing.assert_allclose(rows[rows.name == "inside"].v_count, expected.count(["lat", "lon"]))
    assert rows[rows.name == "far"].v_mean.isna().all()
    assert (rows[rows.name == "far"].v_count == 0).all()


def test_what_zones_can_not_be_is_refused() -> None:
    repo = store(make_grid(1, 1, 4, 4, is_north_up=True), {"time": 1, "lat": 4, "lon": 4})
    zones = read_zones([shapely.box(5, 40, 6, 41)], "geometry")

    with pytest.raises(InvalidInputError, match="zones are polygons"):
        read_zones([shapely.Point(1, 2)], "geometry")
    with pytest.raises(InvalidInputError, match="no column 'geometri': did you mean 'geometry'"):
        read_zones(pa.table({"geometry": [b""]}), "geometri")
    with pytest.raises(InvalidInputError, match="did you mean 'mean'"):
        compute(repo, zones, ["mea"])
    with pytest.raises(InvalidInputError, match="no dimension 'latt'"):
        compute(repo, zones, dims=("latt", "lon"))
    with pytest.raises(InvalidInputError, match="'v_mean' already"):
        compute(repo, Zones(pa.table({"v_mean": [1]}), zones.shapes), ["mean"])
    with pytest.raises(InvalidInputError, match="y has no coordinate, and lat, lon have several"):
        compute(store(make_curved(), {"time": 1, "y": 3, "x": 4}), zones)
