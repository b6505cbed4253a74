"""Frames that are written to arrays: `frame.write.format("icechunk")`.

Spark gives a source in Python no say in which task gets which rows, so that a chunk may be in several
of them. Tasks put their rows aside, and the commit, in one process, brings them to their chunks.
`frazil.spark.write_frame` writes in tasks, and is the way for frames that are large.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from frazil.frames.options import Options
from frazil.frames.writing import commit_rows
from frazil.frames.writing.destination import Destination, check_columns, open_destination
from frazil.frames.writing.spooling import Spool, spool, unspool


@dataclass(frozen=True)
class Rows(WriterCommitMessage):
    """The rows of a task."""

    partition: int
    spool: Spool
    query: str | None = None
    """The stream that they belong to."""


def put_aside(destination: Destination, batches: Iterator[pa.RecordBatch]) -> Rows:
    """Keep the rows of this task for the commit."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    number = 0 if context is None else context.partitionId()
    return Rows(number, spool(destination.assets, batches), query)


def collect(destination: Destination, messages: list[Rows], schema: pa.Schema) -> pa.Table:
    """The rows of all tasks, in their order."""
    ordered = sorted(messages, key=lambda each: each.partition)
    return unspool(destination.assets, [each.spool for each in ordered], schema)


class FrameWriter(DataSourceArrowWriter):
    """Writes a frame as one commit."""

    def __init__(self, destination: Destination, schema: pa.Schema) -> None:
        self._destination = destination
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        """Keep the rows of a task; it may run twice, and then one of them counts."""
        return put_aside(self._destination, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write all rows."""
        place = self._destination
        table = collect(place, [each for each in messages if isinstance(each, Rows)], self._schema)
        commit_rows(place.repository, place.options, table)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: Spark calls it even after a commit that took effect, so nothing may be deleted."""


def make_writer(options: Options, schema: StructType, *, overwrite: bool) -> DataSourceArrowWriter:
    """A writer of the frame that has the schema; raises InvalidInputError where it can't be written."""
    destination = open_destination(options, overwrite=overwrite)
    arrow = to_arrow_schema(schema, timezone="UTC")
    check_columns(destination, arrow)
    return FrameWriter(destination, arrow)
