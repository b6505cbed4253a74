"""Streams: `readStream` and `writeStream` of the data source `icechunk`.

Spark 4.0 and 4.1 don't tell a source where a batch begins. Spark 4.0 has no writer of Arrow batches
for streams, but gives them to every `DataSourceArrowWriter`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.spark.tables.write_frame import Rows, arrow_schema, collect, put_aside
from frazil.tables.change_feed import (
    LATEST,
    Changes,
    Commit,
    CommitRange,
    CommitStream,
    make_feed,
    open_stream,
    plan_tasks,
)
from frazil.tables.frame_rows import Batch, Destination, commit_rows, open_destination
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        SupportsTriggerAvailableNow = object
    DataSourceStreamArrowWriter = getattr(
        datasource, "DataSourceStreamArrowWriter", DataSourceArrowWriter
    )

_SNAPSHOT = "snapshot"
STREAMED = "changes"
"""Table that can be read as a stream."""


@dataclass(frozen=True)
class Commits(InputPartition):
    """Commits that a task reads."""

    value: tuple[Commit, ...]


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader that follows a branch; sent to workers, which only call `read`."""

    def __init__(self, stream: CommitStream, feed: Changes) -> None:
        self._stream = stream
        self._feed = feed
        self._target: str | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the start offset of a query without checkpoint."""
        return {_SNAPSHOT: self._stream.initial()}

    def getDefaultReadLimit(self) -> "ReadLimit":  # noqa: N802
        """Return the limit set by `max_commits`, as a limit on files: Spark has none on commits."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles  # noqa: PLC0415

        most = self._stream.options.max_commits
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: "ReadLimit | None" = None
    ) -> dict[str, Any]:
        """Return the end offset of the next batch; the newest commit if Spark gives no start."""
        if start is None:
            return self.reportLatestOffset()
        most = getattr(limit, "max_files", None)
        return {_SNAPSHOT: self._stream.latest(start[_SNAPSHOT], most, self._target)}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the newest commit of the branch."""
        return {_SNAPSHOT: self._stream.tip()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit the query to commits that exist now."""
        self._target = self._stream.tip()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the commits of a batch, by task."""
        commits = self._stream.between(start[_SNAPSHOT], end[_SNAPSHOT])
        return [Commits(each) for each in plan_tasks(commits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of some commits."""
        if isinstance(partition, Commits):
            yield from self._feed.read(partition.value)


def make_stream_reader(options: Options, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG001
    """Return a reader of the stream that the options name."""
    if options.table != STREAMED:
        raise InvalidInputError(
            f"can't read the table {options.table!r} as a stream: only {STREAMED!r} can be one"
        )
    if "max_commits" in options.more and SupportsTriggerAvailableNow is object:
        raise InvalidInputError(
            "max_commits needs Spark 4.2 or newer: older ones don't tell a source where a batch "
            "begins; leave the option out to read all new commits in one batch"
        )
    source = open_source(options)
    now = CommitRange(source.repository, LATEST, source.session.snapshot_id)
    return ChangesStreamReader(open_stream(source), make_feed(source, now))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of a stream, one commit per batch. Spark creates a new one for each call."""

    def __init__(self, destination: Destination, schema: pa.Schema) -> None:
        self._destination = destination
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        """Spool the rows of a task. Spark uses one result if a task runs twice."""
        return put_aside(self._destination, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit all rows, unless the batch was committed before."""
        rows = [each for each in messages if isinstance(each, Rows)]
        query = next((each.query for each in rows if each.query), None)
        if query is None:
            return
        place = self._destination
        table = collect(place, rows, self._schema)
        commit_rows(place.repository, place.options, table, Batch(query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: Spark may call it even after a successful commit, so nothing may be deleted."""


def make_stream_writer(
    options: Options, schema: StructType, *, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return a writer of the batches of a stream."""
    destination = open_destination(options, overwrite=overwrite)
    return StreamWriter(destination, arrow_schema(schema))
