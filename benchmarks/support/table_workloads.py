"""The work of `benchmarks.tables`, each in a fresh process: an array of many references."""

import time
from typing import Any

import numpy as np
import zarr

import frazil
import frazil.spark
from benchmarks.support.measuring import Figures, answer
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, open_table

_ROWS, _COLUMNS = 25, 40
_PREFIX = "s3://archive/"
_TOTALS = (
    "count(*) AS rows", "sum(size) AS size", "count(location) AS located",
    "max(bounds['time'].upper_time) AS last",
)  # fmt: skip


def make(folder: str, references: int) -> Figures:
    """One array with coordinates, a chunk of which is a part of a file for each step of time."""
    steps = references // (_ROWS * _COLUMNS)
    store = frazil.s3_store(region="us-east-1")
    container = frazil.VirtualChunkContainer(_PREFIX, store)
    config = frazil.RepositoryConfig(virtual_chunk_containers={_PREFIX: container})
    repo = frazil.Repository.create(frazil.local_filesystem_storage(folder), config)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    sizes = {"time": steps, "lat": 2 * _ROWS, "lon": 2 * _COLUMNS}
    for name, size in sizes.items():
        units: dict[str, Any] = {"units": "hours since 2000-01-01"} if name == "time" else {}
        made: Any = group.create_array(
            name, shape=(size,), dtype="i8", dimension_names=(name,), attributes=units
        )
        made[:] = np.arange(size)
    shape, dims = tuple(sizes.values()), tuple(sizes)
    group.create_array("t", shape=shape, chunks=(1, 2, 2), dtype="f4", dimension_names=dims)
    places = np.indices((steps, _ROWS, _COLUMNS), np.uint32).reshape(3, -1).T
    files = np.array([f"{_PREFIX}model/run-{step:06}.nc" for step in range(steps)], object)
    offsets = np.arange(len(places), dtype=np.uint64) % np.uint64(1000) * np.uint64(16)
    lengths = np.full(len(places), 16, np.uint64)
    session.store.set_virtual_columns("t", places, files[places[:, 0]], offsets, lengths)
    session.commit("references")
    return {"references": float(len(places))}


def read_frame(folder: str, table: str) -> Figures:
    """Through `frazil.spark.read`."""
    spark = _start()
    return _timed(frazil.spark.read(folder, table=table, spark=spark), table)


def read_data_source(folder: str, table: str) -> Figures:
    """Through `format("icechunk")`."""
    spark = _start()
    return _timed(
        spark.read.format("icechunk").option("repo", folder).option("table", table).load(), table
    )


def read_here(folder: str, table: str) -> Figures:
    """In this process, without Spark."""
    start = time.perf_counter()
    opened = open_table(open_source(Options(repo=folder, table=table)))
    rows = sum(len(batch) for part in opened.partitions() for batch in opened.read(part))
    return {"seconds": time.perf_counter() - start, "rows": float(rows)}


def _start() -> Any:
    spark = frazil.spark.session(master="local[2]", config={"spark.ui.enabled": "false"})
    spark.range(2).count()
    return spark


def _timed(frame: Any, table: str) -> Figures:
    totals = _TOTALS if table == "chunks" else _TOTALS[:1]
    start = time.perf_counter()
    found = frame.selectExpr(*totals).first()
    return {"seconds": time.perf_counter() - start, "rows": float(found.rows)}


if __name__ == "__main__":
    answer({"make": make, "frame": read_frame, "data_source": read_data_source, "here": read_here})
