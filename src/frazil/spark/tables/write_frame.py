"""Write DataFrames to arrays: each chunk by one task, all of them in one commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructType

from frazil.arguments import refuse_unknown, verb
from frazil.repository.repository import Repository
from frazil.repository.session import ForkSession, Session
from frazil.spark.job import METRICS, CommitReport, Job
from frazil.spark.regions import TASKS_PER_SLOT
from frazil.spark.runtime import (
    count_slots,
    map_batches,
    partition_id,
    run_on_rows,
    shuffle_by_number,
)
from frazil.spark.tables.read import time_zone_of
from frazil.spark.transaction import CommitRun, committing, fresh_fork, merge_changes
from frazil.storage.memory import MemoryStorage
from frazil.tables.frame_arrays import Facts, Target, find_dims, join_facts, measure
from frazil.tables.frame_rows import (
    Batch,
    Destination,
    Done,
    Part,
    Spool,
    TaskAssignment,
    assign_tasks,
    check_columns,
    commit_rows,
    find_commit,
    finish,
    join_cells,
    open_attempt,
    open_destination,
    order_rows,
    prepare,
    retrying,
    spool,
    unspool,
    write_cells,
    write_part,
)
from frazil.tables.table_options import (
    Options,
    WriteOptions,
    find_write_branch,
    make_write_options,
)
from frazil.tables.table_source import AnyRepository, open_repository

_TASK, _ROW = "__frazil_task", "__frazil_row"
_ROWS_PER_TASK = 2_000_000
_ROW_BITS = 33


@verb(job=Job)
def write_frame(
    repo: AnyRepository,
    frame: DataFrame,
    *,
    group: str = "/",
    branch: str | None = None,
    mode: str = "append",
    replace_where: str | None = None,
    dims: Sequence[str] | None = None,
    append_dim: str | None = None,
    chunks: Mapping[str, int] | None = None,
    duplicates: str = "error",
    commit_token: str | None = None,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
) -> CommitReport:
    """Write the rows of a DataFrame to cells of a group's arrays, as one commit.

    Columns have the names of the arrays. The columns of the dimensions select the cell of a row: they
    are looked up in the arrays' coordinates. The DataFrame is computed twice, because rows are shuffled
    by chunk: cache it if it is not deterministic.

    Parameters
    ----------
    repo
        Repository, or its URL.
    frame
        Rows to write, with the session that runs the tasks.
    group
        Path of the group.
    branch
        Branch to commit to; by default the one in the URL, else main.
    mode
        `append` sets the given cells; `overwrite` also clears all others, or those where
        `replace_where` is true.
    replace_where
        Predicate on coordinates that selects the cells `overwrite` clears.
    dims
        Dimensions of new arrays. Without it, all arrays must exist.
    append_dim
        Dimension that may get new coordinates, at its end.
    chunks
        Chunk lengths of new arrays, by dimension.
    duplicates
        Policy for several rows of one cell: `error`, `first`, `last`, `sum`, `mean`, `min` or `max`.
    commit_token
        Idempotency key. If the branch has a commit with it, nothing is written.

    Returns
    -------
    CommitReport
        Result of the job, with the snapshot of the commit.

    Raises
    ------
    InvalidInputError
        If the rows can't be written; then the branch is unchanged.

    Examples
    --------
    >>> report = write_frame("s3://bucket/weather", frame, message="correct station data")
    """
    options = _make_options(
        frame, repo, branch, group=group, mode=mode, replace_where=replace_where, dims=dims,
        append_dim=append_dim, chunks=chunks, duplicates=duplicates, commit_token=commit_token,
        message=message, metadata=dict(metadata or {}),
    )  # fmt: skip
    repository, spark = open_repository(repo)[0], frame.sparkSession
    return write_rows("write_frame", repository, options, spark, lambda _: frame, job).report


def commit_batch(
    repo: AnyRepository,
    frame: DataFrame,
    batch_id: int,
    *,
    query: str,
    branch: str | None = None,
    job: Job | None = None,
    **options: Any,
) -> CommitReport:
    """Write a batch of a stream at most once, in a function called by `foreachBatch`.

    Parameters
    ----------
    repo
        Repository, or its URL.
    frame
        Rows of the batch.
    batch_id
        Number of the batch, given by Spark.
    query
        Name of the stream. It must be unique, and stay the same as long as the stream's checkpoint.
    branch
        Branch to commit to; by default the one in the URL, else main.
    job
        Job for progress and cancellation.
    **options
        Other options of `write_frame`.

    Returns
    -------
    CommitReport
        Result of the job. A batch committed before is not written again; its report has the snapshot of
        the earlier commit, unless that has expired.
    """
    refuse_unknown(options, signature(write_frame).parameters, "commit_batch")
    made = _make_options(frame, repo, branch, **options)
    repository, batch = open_repository(repo)[0], Batch(query, batch_id)
    spark = frame.sparkSession
    return write_rows("write_frame", repository, made, spark, lambda _: frame, job, batch).report


@verb()
def find_written(repo: AnyRepository, token: str, *, branch: str = "main") -> str | None:
    """Return the snapshot committed with a `commit_token`.

    Parameters
    ----------
    repo
        Repository, or its URL.
    token
        The `commit_token` of the write.
    branch
        Branch to search.

    Returns
    -------
    str or None
        Snapshot id; None if there is no such commit or it has expired.
    """
    return find_commit(open_repository(repo)[0], token, branch=branch)


def _make_options(
    frame: DataFrame, repo: AnyRepository, branch: str | None, **given: Any
) -> WriteOptions:
    ref = open_repository(repo)[1] if branch is None else None
    return make_write_options(
        branch=branch or find_write_branch(ref), time_zone=time_zone_of(frame.sparkSession), **given
    )


class Written(NamedTuple):
    """Result of writing rows."""

    report: CommitReport
    rows: int


def write_rows(
    name: str,
    repository: Repository,
    options: WriteOptions,
    spark: SparkSession,
    make: Callable[[Session], DataFrame],
    job: Job | None = None,
    batch: Batch | None = None,
) -> Written:
    """Write the rows of a DataFrame that may depend on the session to commit.

    It is made again for another attempt after a conflict.
    """
    with committing(name, repository, options.branch, job, spark) as run:
        if isinstance(repository.storage, MemoryStorage):
            # Tasks can't access memory storage.
            table = make(repository.writable_session(options.branch)).toArrow()
            snapshot_id = commit_rows(repository, options, table, batch)
            report = replace(run.report(None), ran_on="driver", snapshot_id=snapshot_id)
            return Written(report, table.num_rows)

        def attempt() -> Written:
            session = open_attempt(repository, options, batch)
            return FrameWriting(make(session), options, batch, run).attempt(session)

        try:
            return retrying(attempt)
        except Done as done:
            report = replace(run.report(None), ran_on="spark", snapshot_id=done.snapshot_id)
            return Written(report, 0)


@dataclass(frozen=True, slots=True)
class FrameWriting:
    """Attempt to write one DataFrame."""

    frame: DataFrame
    options: WriteOptions
    batch: Batch | None
    run: CommitRun

    @property
    def spark(self) -> SparkSession:
        """Return the session of the DataFrame."""
        return self.frame.sparkSession

    def attempt(self, session: Session) -> Written:
        """Write and commit on top of the session's base snapshot."""
        schema = arrow_schema(self.frame.schema)
        facts = self.measure(find_dims(session, self.options, schema.names), schema)
        if not facts.rows and self.options.mode == "append":
            return Written(replace(self.run.report(session), ran_on="spark"), 0)
        target = prepare(session, self.options, schema, facts)
        if facts.rows:
            self.write(session, target, facts)
        report = replace(self.run.report(session), ran_on="spark")
        self.run.job.refuse_if_cancelled()
        metadata = {METRICS: report.metrics()}
        snapshot_id = finish(session, self.options, target, self.batch, metadata)
        return Written(report.committed_as(snapshot_id), facts.rows)

    def measure(self, dims: tuple[str, ...], schema: pa.Schema) -> Facts:
        """Return the facts about the DataFrame's rows, such as their coordinates."""
        empty = measure(schema.empty_table(), dims)
        found = run_on_rows(
            self.frame, self.run.job, "measuring rows", lambda table: measure(table, dims), 1
        )
        return join_facts(found or [empty], dims)

    def write(self, session: Session, target: Target, facts: Facts) -> None:
        """Write all rows in tasks, and on the driver the cells that several tasks set."""
        most = max(count_slots(self.spark) * TASKS_PER_SLOT, -(-facts.rows // _ROWS_PER_TASK))
        tasks = assign_tasks(target, most)
        fork, options = session.fork(), self.options

        def write(table: pa.Table) -> Part:
            own = ForkSession(fresh_fork(fork.state))
            cells = write_part(own, options, target, order_rows(table, _ROW))
            # The reported chunks must survive the loss of the worker.
            own.state.assets.storage.flush()
            return Part(own.state.changes.copy(), cells, table.num_rows)

        shuffled = shuffle_by_chunk(self.frame, tasks)
        parts = run_on_rows(shuffled, self.run.job, "writing", write, tasks.tasks)
        merge_changes(session.state, fork.state, [part.changes for part in parts])
        for name in target.variables:
            shared = [each for part in parts for each in part.cells if each.name == name]
            if shared:
                write_cells(session, target, join_cells(target, shared))


def shuffle_by_chunk(frame: DataFrame, assignment: TaskAssignment) -> DataFrame:
    """Shuffle rows so that those of each chunk are in one partition, with numbers for their order."""
    schema = StructType([*frame.schema.fields]).add(_TASK, IntegerType()).add(_ROW, LongType())

    def number(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at = partition_id() << _ROW_BITS
        for batch in batches:
            tasks = assignment.assign(pa.Table.from_batches([batch]))
            rows = np.arange(at, at + batch.num_rows, dtype=np.int64)
            at += batch.num_rows
            yield batch.append_column(_TASK, pa.array(tasks)).append_column(_ROW, pa.array(rows))

    numbered = map_batches(frame, number, schema)
    return shuffle_by_number(numbered, assignment.tasks, _TASK).drop(_TASK)


@dataclass(frozen=True)
class Rows(WriterCommitMessage):
    """Spooled rows of a task."""

    partition: int
    spool: Spool
    query: str | None = None
    """Id of the streaming query."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of rows, with times in UTC."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # Spark 4.0 and 4.1: UTC is the default


def put_aside(destination: Destination, batches: Iterator[pa.RecordBatch]) -> Rows:
    """Spool the rows of this task for the commit."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    return Rows(partition_id(), spool(destination.assets, batches), query)


def collect(destination: Destination, messages: list[Rows], schema: pa.Schema) -> pa.Table:
    """Return the rows of all tasks, in task order."""
    ordered = sorted(messages, key=lambda each: each.partition)
    return unspool(destination.assets, [each.spool for each in ordered], schema)


class FrameWriter(DataSourceArrowWriter):
    """Writer of a DataFrame as one commit."""

    def __init__(self, destination: Destination, schema: pa.Schema) -> None:
        self._destination = destination
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        """Spool the rows of a task. Spark uses one result if a task runs twice."""
        return put_aside(self._destination, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all rows."""
        place = self._destination
        table = collect(place, [each for each in messages if isinstance(each, Rows)], self._schema)
        commit_rows(place.repository, place.options, table)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: Spark may call it even after a successful commit, so nothing may be deleted."""


def make_writer(options: Options, schema: StructType, *, overwrite: bool) -> DataSourceArrowWriter:
    """Return a writer of DataFrames with a schema; raises InvalidInputError if it can't be written."""
    destination = open_destination(options, overwrite=overwrite)
    arrow = arrow_schema(schema)
    check_columns(destination, arrow)
    return FrameWriter(destination, arrow)
