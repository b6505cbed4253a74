"""A driver that writes a stream to a repository until somebody kills it, or until there is no more.

Now and then one of its tasks kills its own worker.
"""

import os
import random
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

import frazil.spark
from tests.spark.conftest import FAST_START
from tests.spark.tables.streams import SCHEMA, read_files, start


def kill_now_and_then(share: float) -> object:
    """Something for `mapInArrow` that gives its rows, or kills its worker at their end."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        is_first = context is not None and context.attemptNumber() == 0
        if is_first and random.random() < share:
            os.kill(os.getpid(), signal.SIGKILL)

    return run


def main(folder: Path, share: float) -> None:
    """Write all batches that there are."""
    config = {**FAST_START, "spark.python.daemon.module": "tests.spark.streams.daemon"}
    spark = frazil.spark.session(master="local[2,4]", config=config)
    frame = read_files(spark, folder / "files").mapInArrow(kill_now_and_then(share), SCHEMA)  # type: ignore[arg-type]
    start(frame, str(folder / "repo"), folder / "checkpoint").awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
