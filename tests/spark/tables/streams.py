"""Streams of files, a batch each, that are written to a repository."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from frazil import Repository
from frazil.tables.frame_rows import STREAM

ROWS = 6
SCHEMA = "t long, x long, v double"


def put_file(folder: Path, number: int, first_x: int = 0) -> None:
    """A file with the rows of a batch: two moments by three places."""
    rows = [
        {"t": 2 * number + n // 3, "x": first_x + n % 3, "v": number + n / 10} for n in range(ROWS)
    ]
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number:05}"
    hidden.write_text("\n".join(json.dumps(row) for row in rows))
    # Files are read in the order of their times, and one that is corrected is not a new one.
    os.utime(hidden, (1.6e9 + 10 * number,) * 2)
    hidden.rename(folder / f"{number:05}.json")


def expected(count: int) -> np.ndarray[Any, Any]:
    """The values of so many batches."""
    return np.concatenate(
        [np.round(n + np.arange(ROWS) / 10, 9).reshape(2, 3) for n in range(count)]
    )


def read_files(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the files of a folder, one a batch, in two tasks."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return stream.repartition(2)


def start(frame: DataFrame, url: str, checkpoint: Path) -> StreamingQuery:
    """Write all that there is."""
    writer = frame.writeStream.format("icechunk").option("checkpointLocation", str(checkpoint))
    options = {"repo": url, "dims": "t,x", "append_dim": "t", "chunks": "t=5,x=2"}
    return writer.options(**options).trigger(availableNow=True).start()


def forget_last_commit(checkpoint: Path) -> int:
    """What Spark looks like that died between the sink's commit and its own: gives the batch."""
    commits = checkpoint / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    for each in (commits / str(last), commits / f".{last}.crc"):
        each.unlink(missing_ok=True)
    return last


def values(repo: Repository) -> np.ndarray[Any, Any]:
    """What has been written."""
    store = repo.readonly_session("main").store
    found: np.ndarray[Any, Any] = xr.open_zarr(store, consolidated=False, chunks=None).v.values
    return np.round(found, 9)


def batches(repo: Repository) -> list[int]:
    """The batches of the commits, oldest first."""
    reported = [info.metadata.get(STREAM) for info in repo.ancestry(branch="main")]
    return [each["batch"] for each in reversed(reported) if isinstance(each, dict)]
