"""The work of `benchmarks.questions`: one array, and the same cells as Parquet."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import shapely
import xarray as xr

import frazil
import frazil.spark
from benchmarks.support.measuring import answer, count_processor
from benchmarks.support.sql_workloads import make, start_session, start_workers

QUERIES = {
    "climatology": "SELECT month(time) AS label, avg(t) AS mean FROM {cells} GROUP BY month(time)",
    "zonal_mean": "SELECT lat AS label, avg(t) AS mean FROM {cells} GROUP BY lat",
    "points": "SELECT sum(t) AS mean FROM {cells} c JOIN points p USING (time, lat, lon)",
    "polygons": (
        "SELECT zone, sum(mean) AS mean FROM (SELECT zone, time, avg(t) AS mean "
        "FROM {cells} c JOIN inside USING (lat, lon) GROUP BY zone, time) GROUP BY zone"
    ),
}
POINTS, ZONES = 100_000, 60


def open_dataset(folder: str) -> xr.Dataset:
    """Open the array, in chunks of Dask."""
    return xr.open_dataset(f"{folder}/repo", engine="frazil", chunks={})


def make_points(dataset: xr.Dataset) -> pd.DataFrame:
    """Return random points on labels, which Parquet can be joined by."""
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {dim: rng.choice(dataset[dim].to_numpy(), POINTS) for dim in ("time", "lat", "lon")}
    )


def make_zones() -> dict[str, Any]:
    """Return circles all over the globe."""
    rng = np.random.default_rng(3)
    places = zip(rng.uniform(10, 350, ZONES), rng.uniform(-80, 80, ZONES), strict=True)
    return {
        str(n): shapely.Point(x, y).buffer(rng.uniform(2, 9)) for n, (x, y) in enumerate(places)
    }


def find_inside(dataset: xr.Dataset) -> pd.DataFrame:
    """Return the labels of the cells whose center is in a zone."""
    lat, lon = dataset.lat.to_numpy(), dataset.lon.to_numpy()
    x, y = np.meshgrid(lon, lat)
    found = []
    for name, zone in make_zones().items():
        row, column = np.nonzero(shapely.contains_xy(zone, x, y))
        found.append(pd.DataFrame({"zone": name, "lat": lat[row], "lon": lon[column]}))
    return pd.concat(found)


def ask_frazil(folder: str, question: str) -> dict[str, Any]:
    """Ask `frazil.spark`: SQL, points and zonal."""
    spark, url = start_session(), f"{folder}/repo"
    start_workers(url, spark)
    if question == "points":
        points = make_points(open_dataset(folder))
        return timed(
            lambda: (
                frazil.spark.points(url, points, "t", spark=spark).agg({"t": "sum"}).collect()[0][0]
            )
        )
    if question == "polygons":
        zones = make_zones()
        return timed(
            lambda: (
                frazil.spark.zonal(url, zones, "t", how="center", spark=spark)
                .groupBy("zone")
                .agg({"t_mean": "sum"})
                .toArrow()
                .column(1)
            )
        )
    query = QUERIES[question].format(cells="t")
    return timed(lambda: frazil.spark.sql(url, query, spark=spark).toArrow()["mean"])


def ask_xarray(folder: str, question: str) -> dict[str, Any]:
    """Ask Xarray, whose chunks Dask computes in threads."""
    dataset = open_dataset(folder)
    if question == "points":
        points = make_points(dataset)

        def pick() -> Any:
            at = {dim: xr.DataArray(points[dim].to_numpy(), dims="point") for dim in points}
            return dataset.t.sel(at, method="nearest").sum(dtype="f8")

        return timed(pick)
    if question == "polygons":
        x, y = np.meshgrid(dataset.lon, dataset.lat)
        masks = np.stack([shapely.contains_xy(zone, x, y) for zone in make_zones().values()])
        weights = xr.DataArray(
            masks / masks.sum((1, 2))[:, None, None], dims=("zone", "lat", "lon")
        )
        return timed(lambda: xr.dot(dataset.t, weights, dim=["lat", "lon"]).sum("time", dtype="f8"))
    if question == "climatology":
        return timed(lambda: dataset.t.groupby("time.month").mean(dtype="f8", dim=...).to_numpy())
    return timed(lambda: dataset.t.mean(["time", "lon"], dtype="f8").to_numpy())


def ask_xarray_sql(folder: str, question: str) -> dict[str, Any]:
    """Ask xarray-sql, which asks DataFusion."""
    import xarray_sql  # noqa: PLC0415 (may not be installed)

    context = xarray_sql.XarrayContext()
    context.from_dataset("cells", open_dataset(folder), chunks={"time": 16})
    query = (
        QUERIES[question].format(cells="cells").replace("month(time)", "date_part('month', time)")
    )
    return timed(lambda: context.sql(query).to_pandas()["mean"])


def ask_duckdb(folder: str, question: str) -> dict[str, Any]:
    """Ask DuckDB for the cells in Parquet."""
    import duckdb  # noqa: PLC0415 (may not be installed)

    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET TimeZone = 'UTC'")
    dataset = open_dataset(folder)
    if question == "points":
        points = make_points(dataset)
        points["time"] = points["time"].dt.tz_localize("UTC")
        connection.register("points", points)
    if question == "polygons":
        connection.register("inside", find_inside(dataset))
    query = QUERIES[question].format(cells=f"read_parquet('{folder}/parquet/*.parquet')")
    return timed(lambda: connection.sql(query).df()["mean"])


def ask_parquet(folder: str, question: str) -> dict[str, Any]:
    """Ask Spark for the cells in Parquet."""
    spark = start_session()
    spark.read.parquet(f"{folder}/parquet").createOrReplaceTempView("cells")
    spark.sql("SELECT count(*) FROM cells WHERE time < '2000-01-02'").collect()
    dataset = open_dataset(folder)
    if question == "points":
        spark.createDataFrame(make_points(dataset)).createOrReplaceTempView("points")
    if question == "polygons":
        spark.createDataFrame(find_inside(dataset)).createOrReplaceTempView("inside")
    return timed(lambda: spark.sql(QUERIES[question].format(cells="cells")).toArrow()["mean"])


def timed(ask: Callable[[], Any]) -> dict[str, Any]:
    """Return the seconds and the processor time of a question, and the sorted values of its answer."""
    begin, processor = time.perf_counter(), count_processor()
    found = np.asarray(ask(), dtype=np.float64)
    seconds, processor = time.perf_counter() - begin, count_processor() - processor
    values = np.sort(found.reshape(-1)).tolist()
    return {"seconds": seconds, "processor": processor, "answer": values}


if __name__ == "__main__":
    answer(
        {
            "make": make, "frazil": ask_frazil, "xarray": ask_xarray, "xarray_sql": ask_xarray_sql,
            "duckdb": ask_duckdb, "parquet": ask_parquet,
        }
    )  # fmt: skip
