"""A stream that is written to a repository: `stream.writeStream.format("icechunk")`.

A batch is one commit, and only one: its number and its query are in the commit and in the repository,
and a batch that comes again, after a restart or because an answer was lost, is known and left out.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from frazil.frames.options import Options
from frazil.frames.writing import commit_rows
from frazil.frames.writing.destination import Destination, open_destination
from frazil.frames.writing.marks import Batch
from frazil.spark.sources.writing import Rows, collect, put_aside


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each as one commit; Spark makes a new one for each call."""

    def __init__(self, destination: Destination, schema: pa.Schema) -> None:
        self._destination = destination
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        """Keep the rows of a task; it may run twice, and then one of them counts."""
        return put_aside(self._destination, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write all rows, unless the batch is there."""
        rows = [each for each in messages if isinstance(each, Rows)]
        query = next((each.query for each in rows if each.query), None)
        if query is None:
            return
        place = self._destination
        table = collect(place, rows, self._schema)
        commit_rows(place.repository, place.options, table, Batch(query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: Spark calls it even after a commit that took effect, so nothing may be deleted."""


def make_stream_writer(
    options: Options, schema: StructType, *, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """A writer of the batches of a stream."""
    destination = open_destination(options, overwrite=overwrite)
    return StreamWriter(destination, to_arrow_schema(schema, timezone="UTC"))
