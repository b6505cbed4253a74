"""The work of `benchmarks.sql`, each in a fresh process: one array, and the same cells as Parquet."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import frazil
import frazil.spark
from benchmarks.support.measuring import Figures, answer, count_processor
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, open_table
from frazil.xarray import to_icechunk

FULL = "SELECT sum(t) AS total, sum(lat) AS lats, count(*) AS cells FROM {table}"
SELECTIVE = FULL + " WHERE time >= '{start}' AND time < '{end}'"
START = np.datetime64("2000-01-01", "ns")


def make(folder: str, steps: int, height: int, width: int, chunk_steps: int) -> Figures:
    """An array of days, in chunks of whole maps, and its cells as Parquet, in about as many files."""
    values = np.random.default_rng(1).integers(0, 1000, (steps, height, width)).astype("f4") / 8
    dataset = xr.Dataset(
        {"t": (("time", "lat", "lon"), values)},
        {
            "time": START + np.arange(steps) * np.timedelta64(1, "D"),
            "lat": np.linspace(-90, 90, height),
            "lon": np.arange(width) * (360 / width),
        },
    )
    repo = frazil.Repository.create(frazil.local_filesystem_storage(f"{folder}/repo"))
    session = repo.writable_session("main")
    to_icechunk(
        dataset, session, mode="w", encoding={"t": {"chunks": (chunk_steps, height, width)}}
    )
    session.commit("days")
    spark = start_session()
    frazil.spark.read(repo, spark=spark).write.parquet(f"{folder}/parquet")
    size = sum(each.stat().st_size for each in Path(folder, "parquet").iterdir())
    return {"bytes": float(values.nbytes), "parquet_bytes": float(size)}


def ask_frazil(folder: str, start: str, end: str, *, is_first: bool) -> Figures:
    """Through `frazil.spark.sql`."""
    spark, query = start_session(), _query("t", start, end)
    if not is_first:
        start_workers(f"{folder}/repo", spark)
    figures = _timed(lambda: frazil.spark.sql(f"{folder}/repo", query, spark=spark).first())
    where = query.partition("WHERE ")[2] or None
    table: Any = open_table(open_source(Options(repo=f"{folder}/repo", where=where)))
    read, total = table.count_chunks()["t"]
    return {**figures, "chunks": float(read), "chunks_in_all": float(total)}


def ask_data_source(
    folder: str, start: str, end: str, *, is_first: bool, columns: str = ""
) -> Figures:
    """Through `format("icechunk")`, with the condition and some columns as options."""
    spark, query = start_session(), _query("cells_of_source", start, end)
    where = query.partition("WHERE ")[2]

    def ask(condition: str, text: str) -> Any:
        reader = spark.read.format("icechunk").option("repo", f"{folder}/repo")
        if columns:
            reader = reader.option("columns", columns)
        loaded = (reader.option("where", condition) if condition else reader).load()
        loaded.createOrReplaceTempView("cells_of_source")
        return spark.sql(text).first()

    if not is_first:
        ask("time < '2000-01-02'", query)
    return _timed(lambda: ask(where, query))


def ask_two_columns(folder: str, start: str, end: str, *, is_first: bool) -> Figures:
    """Through `format("icechunk")` with the columns that the query names."""
    columns = "t,lat,time" if start else "t,lat"
    return ask_data_source(folder, start, end, is_first=is_first, columns=columns)


def ask_parquet(folder: str, start: str, end: str, *, is_first: bool) -> Figures:
    """The same cells as Parquet."""
    spark, query = start_session(), _query("cells_of_parquet", start, end)
    spark.read.parquet(f"{folder}/parquet").createOrReplaceTempView("cells_of_parquet")
    if not is_first:
        spark.sql(_query("cells_of_parquet", "2000-01-01", "2000-01-02")).collect()
    return _timed(lambda: spark.sql(query).first())


def make_frazil_rows(folder: str, **_: Any) -> Figures:
    """All cells through `frazil.spark.read`, to nowhere."""
    spark = start_session()
    frame = frazil.spark.read(f"{folder}/repo", spark=spark)
    return _drop_rows(folder, frame)


def make_source_rows(folder: str, **_: Any) -> Figures:
    """All cells through `format("icechunk")`, to nowhere."""
    reader = start_session().read.format("icechunk")
    return _drop_rows(folder, reader.option("repo", f"{folder}/repo").load())


def make_parquet_rows(folder: str, **_: Any) -> Figures:
    """All cells of Parquet, to nowhere."""
    return _drop_rows(folder, start_session().read.parquet(f"{folder}/parquet"))


def _drop_rows(folder: str, frame: Any) -> Figures:
    dataset = xr.open_dataset(f"{folder}/repo", engine="frazil", chunks=None)
    frame.limit(10).collect()

    def drop() -> tuple[float, float, int]:
        frame.write.format("noop").mode("overwrite").save()
        return 0.0, 0.0, dataset["t"].size

    return _timed(drop)


def ask_pandas(folder: str, start: str, end: str, **_: bool) -> Figures:
    """Xarray and pandas, in one process, a chunk of time after the other."""

    def ask() -> tuple[float, float, int]:
        dataset = xr.open_dataset(f"{folder}/repo", engine="frazil", chunks=None)
        if start:
            dataset = dataset.sel(time=slice(start, np.datetime64(end) - np.timedelta64(1, "s")))
        total, lats, cells = 0.0, 0.0, 0
        for at in range(0, dataset.sizes["time"], 16):
            frame = dataset.isel(time=slice(at, at + 16)).to_dataframe().reset_index()
            total += float(frame["t"].astype("f8").sum())
            lats += float(frame["lat"].sum())
            cells += len(frame)
        return total, lats, cells

    return _timed(ask)


def ask_xarray_sql(folder: str, start: str, end: str, **_: bool) -> Figures:
    """xarray-sql, which asks DataFusion."""
    import xarray_sql  # noqa: PLC0415 (may not be installed)

    dataset = xr.open_dataset(f"{folder}/repo", engine="frazil", chunks={})
    context = xarray_sql.XarrayContext()
    context.from_dataset("cells", dataset, chunks={"time": 16})
    query = _query("cells", start, end)
    return _timed(lambda: tuple(context.sql(query).to_pandas().iloc[0]))


def _query(table: str, start: str, end: str) -> str:
    return (SELECTIVE if start else FULL).format(table=table, start=start, end=end)


def start_session() -> Any:
    """Start Spark on two cores."""
    config = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    spark = frazil.spark.session(master="local[2,4]", config=config)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def start_workers(url: str, spark: Any) -> None:
    """Start a worker of Python on each core, and compile an aggregate."""
    frame = frazil.spark.read(url, where="time < '2000-01-17'", target_size=1 << 20, spark=spark)
    frame.agg({"t": "sum"}).collect()


def _timed(ask: Callable[[], Any]) -> Figures:
    begin, processor = time.perf_counter(), count_processor()
    total, _, cells = ask()
    return {
        "seconds": time.perf_counter() - begin,
        "processor": count_processor() - processor,
        "total": float(total),
        "cells": float(cells),
    }


if __name__ == "__main__":
    answer(
        {
            "make": make,
            "frazil": ask_frazil,
            "data_source": ask_data_source,
            "data_source_columns": ask_two_columns,
            "frazil_rows": make_frazil_rows,
            "source_rows": make_source_rows,
            "parquet_rows": make_parquet_rows,
            "parquet": ask_parquet,
            "pandas": ask_pandas,
            "xarray_sql": ask_xarray_sql,
        }
    )
