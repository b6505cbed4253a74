"""A job: name, progress, cancellation, and the report of its results."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from frazil.arguments import named_options
from frazil.display import Block, Item, Listed, field_items, render_plain, show_bytes
from frazil.errors import InvalidInputError, JobCancelledError
from frazil.maintenance.findings import CheckReport, Problem
from frazil.maintenance.leases import Lease, leased
from frazil.progress import Display, Step, count_stragglers, open_display
from frazil.storage.interface import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
else:
    # PySpark is an optional extra: every job also runs without it.
    DataFrame = SparkSession = Any

RunOn = Literal["auto", "spark", "driver"]
"""`auto`: on the driver if the work fits in one task."""


@dataclass(slots=True)
class Tally:
    """Counts over the tasks of a job so far."""

    tasks: int = 0
    retries: int = 0
    task_seconds: float = 0.0
    """Sum over all tasks."""


@dataclass(slots=True)
class _StepProgress:
    """State of a running step."""

    started_at: float = field(default_factory=time.monotonic)
    done: int = 0
    moved_at: float = field(default_factory=time.monotonic)
    """Time at which the last task ended."""
    running: int = 0
    slots: int = 1
    failed: int = 0

    def move(self, done: int) -> None:
        """Record the number of finished tasks; a smaller number than before starts a new round."""
        now = time.monotonic()
        if done < self.done:
            self.started_at = now
        if done != self.done:
            self.done, self.moved_at = done, now


@named_options
class Job:
    """Handle to follow the progress of a running job, or to cancel it from another thread.

    Pass one as `job=` to a function of this package. A cancelled job raises JobCancelledError in the
    thread that started it, and commits nothing.

    Parameters
    ----------
    progress
        Display progress. None: only in a notebook or on a terminal.
    run_on
        `spark`, `driver`, or `auto` to run small work on the driver.
    task_bytes
        Bytes that one task processes. Default: chosen by the total.
    files_per_task
        Maximum number of source files that a task of an ingest opens.

    Raises
    ------
    InvalidInputError
        If an option has an invalid value.
    """

    def __init__(
        self,
        *,
        progress: bool | None = None,
        run_on: RunOn = "auto",
        task_bytes: int | None = None,
        files_per_task: int = 64,
    ) -> None:
        if run_on not in get_args(RunOn):
            raise InvalidInputError(f"invalid run_on {run_on!r}: expected auto, spark or driver")
        for name, value in (("task_bytes", task_bytes), ("files_per_task", files_per_task)):
            if value is not None and value < 1:
                raise InvalidInputError(f"invalid {name} {value}: it must be at least 1")
        self.id = uuid.uuid4().hex
        self.title = "frazil"
        self.run_on: RunOn = run_on
        self.task_bytes = task_bytes
        self.files_per_task = files_per_task
        self.start_spark: Callable[[], SparkSession] | None = None
        """Starts Spark where the job needs it and no session is given."""
        self.tally = Tally()
        self.inputs: list[str] = []
        """Locations that the job reads, for `frazil.telemetry`."""
        self._progress = progress
        self._display: Display | None = None
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._stop: Callable[[], None] | None = None
        self._lease: Lease | None = None
        self._steps: dict[str, _StepProgress] = {}
        self._amounts: dict[str, dict[str, int]] = {}

    @property
    def is_cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Cancel the running tasks and start no further ones."""
        with self._lock:
            self._is_cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    def refuse_if_cancelled(self) -> None:
        """Raise if the job can't continue.

        Raises
        ------
        JobCancelledError
            If the job was cancelled.
        LeaseLostError
            If the lease of the job was lost.
        """
        if self._is_cancelled:
            raise JobCancelledError(f"the job {self.id} was cancelled; nothing was committed")
        if self._lease is not None:
            self._lease.refuse_if_lost()

    @contextmanager
    def leasing(self, storage: Storage, name: str) -> Iterator[None]:
        """Hold a lease on a storage, so that garbage collection keeps the objects the job writes."""
        if self._lease is not None:
            yield
            return
        with leased(storage, self.id, name) as self._lease:
            try:
                yield
            finally:
                self._lease = None

    def expect(self, what: str, **amounts: int) -> None:
        """Set the amounts that the tasks of a step process: files, chunks, bytes."""
        self._amounts[what] = amounts

    def note(self, what: str, running: int, failed: int) -> None:
        """Record how many tasks of a step are running, and how many attempts failed."""
        step = self._steps.setdefault(what, _StepProgress())
        step.running, step.failed = running, failed
        step.slots = max(step.slots, running)

    def show(self, what: str, done: int, total: int) -> None:
        """Display the progress of a step."""
        if self._display is None:
            self._display = open_display(self._progress)
        self._display.show(self._describe(what, done, total))

    def _describe(self, what: str, done: int, total: int) -> Step:
        step = self._steps.setdefault(what, _StepProgress())
        step.move(done)
        now = time.monotonic()
        seconds, quiet = now - step.started_at, now - step.moved_at
        slow = count_stragglers(done, total, step.running, seconds, quiet, step.slots)
        retries = self.tally.retries + step.failed
        amounts = self._amounts.get(what, {})
        return Step(what, done, total, seconds, amounts, retries, slow if done < total else 0)

    def end(self) -> None:
        """Close the progress display."""
        if self._display is not None:
            self._display.close()
            self._display = None

    def let_stop(self, stop: Callable[[], None] | None) -> None:
        """Set the callback that stops the running action, or None when the action has ended."""
        with self._lock:
            self._stop = stop
            is_late = self._is_cancelled and stop is not None
        if is_late and stop is not None:
            stop()


METRICS = "frazil_job"
"""Key of the job metrics in the metadata of a commit."""


# Without slots, so that the report of a check can be one as well.
@dataclass(frozen=True, repr=False, kw_only=True)
class JobReport(Listed):
    """Result of a job; printed as a table.

    Attributes
    ----------
    job
        Name of the function that ran the job.
    ran_on
        `spark`, or `driver` if the job was too small for tasks.
    tasks
        Number of Spark tasks.
    retries
        Number of task attempts that failed and were repeated.
    seconds
        Duration of the job.
    task_seconds
        Sum of the durations of all tasks.
    job_id
        Id of the job, also in its log messages and in the metadata of its commit.
    application_id
        Id of the Spark application; None without Spark.
    """

    job: str
    job_id: str
    ran_on: str = "driver"
    tasks: int = 0
    retries: int = 0
    seconds: float = 0.0
    task_seconds: float = 0.0
    application_id: str | None = None

    @classmethod
    def of(cls, report: "JobReport", **figures: Any) -> Self:
        """Return a report extended with these figures.

        Parameters
        ----------
        report
            Report with the fields common to all jobs.
        **figures
            Further fields.

        Returns
        -------
        JobReport
            The report, an instance of this class.
        """
        known = {each.name: getattr(report, each.name) for each in fields(report)}
        return cls(**known, **figures)

    def shown_items(self) -> Iterator[Item]:
        """Yield the results of the job, then how it ran."""
        common = {each.name for each in fields(JobReport)}
        return iter(sorted(field_items(self), key=lambda item: item.name in common))

    def __str__(self) -> str:
        shown = [
            (item.name.replace("_", " "), _render(item.name, item.value))
            for item in self.shown_items()
            if item.value not in (None, ())
        ]
        width = max(len(name) for name, _ in shown)
        return "\n".join(f"{name:{width}}  {text}" for name, text in shown)


def _render(name: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.2f}"
        case int():
            return show_bytes(value) if name.startswith("bytes") else f"{value:,}"
        case tuple():
            return ("; " if name == "notes" else ", ").join(map(str, value))
    return render_plain(value)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CommitReport(JobReport):
    """Result of a job that makes one commit; a `JobReport` with these fields.

    Attributes
    ----------
    snapshot_id
        Snapshot of the commit; None if there was nothing to commit.
    branch
        Branch of the commit.
    chunks
        Number of chunks written.
    bytes_written
        Stored (encoded) size.
    notes
        Remarks on how the job ran.
    """

    snapshot_id: str | None
    branch: str
    chunks: int
    bytes_written: int
    notes: tuple[str, ...] = ()

    def committed_as(self, snapshot_id: str) -> Self:
        """Return a copy with the snapshot of the commit."""
        return replace(self, snapshot_id=snapshot_id)

    def metrics(self) -> dict[str, object]:
        """Return the metrics stored in the metadata of the commit."""
        return {
            "job": self.job,
            "job_id": self.job_id,
            "ran_on": self.ran_on,
            "chunks": self.chunks,
            "bytes": self.bytes_written,
            "seconds": self.seconds,
            "task_seconds": self.task_seconds,
            "tasks": self.tasks,
            "retries": self.retries,
            "application_id": self.application_id,
        }


@dataclass(frozen=True, slots=True)
class Copied:
    """Counts of objects copied from one storage to another."""

    objects: int = 0
    bytes: int = 0
    present: int = 0
    """Objects that already existed and were left unchanged."""

    def __add__(self, other: "Copied") -> "Copied":
        return Copied(
            self.objects + other.objects, self.bytes + other.bytes, self.present + other.present
        )


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CopyReport(JobReport):
    """Result of a copy; a `JobReport` with these fields.

    Attributes
    ----------
    has_changed
        True if the copy changed the target.
    branches, tags
        Refs that were copied.
    snapshots
        Number of snapshots in the target after the copy.
    new_snapshots
        Number of snapshots that the copy added.
    objects
        Number of objects copied.
    bytes_copied
        Total size of the objects copied.
    present
        Number of objects found in the target already.
    """

    has_changed: bool
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int
    new_snapshots: int
    objects: int
    bytes_copied: int
    present: int


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class ExportReport(JobReport):
    """Result of an export; a `JobReport` with these fields.

    Attributes
    ----------
    snapshot_id
        Snapshot that was exported.
    groups, arrays
        Number of groups and arrays.
    chunks
        Number of chunks written.
    bytes_written
        Total size of the chunks written.
    present
        Number of chunks that an earlier attempt had written.
    """

    snapshot_id: str
    groups: int
    arrays: int
    chunks: int
    bytes_written: int
    present: int


PROBLEMS = (
    "severity string, object string, what string, repair string, path string, "
    "coordinate array<bigint>"
)
"""Schema of a DataFrame of problems."""


@dataclass(frozen=True, slots=True, repr=False)
class CheckJobReport(CheckReport, JobReport):
    """Result of a check by tasks: a `JobReport` and a `CheckReport`; `Repository.repair` takes it."""

    __str__ = Block.__str__

    def shown_items(self) -> Iterator[Item]:
        """Yield where the check ran, then the items of every check report."""
        yield Item("ran on", f"{self.ran_on}, {self.tasks} tasks, {self.seconds:.1f} s")
        yield from CheckReport.shown_items(self)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the problems as a DataFrame, one row each, in the order of the report.

        Parameters
        ----------
        spark
            Session that creates the DataFrame.

        Returns
        -------
        pyspark.sql.DataFrame
            Columns severity, object, what, repair, path and coordinate.
        """
        return spark.createDataFrame([_row(each) for each in self.problems], PROBLEMS)


def _row(problem: Problem) -> tuple[Any, ...]:
    values = problem.to_dict()
    return tuple(
        None if values[name] is None else values[name]
        if name == "coordinate" else str(values[name])
        for name in ("severity", "object", "what", "repair", "path", "coordinate")
    )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RewriteReport(CommitReport):
    """Result of a manifest rewrite; a `CommitReport` with these fields.

    Attributes
    ----------
    manifests_before
        Number of manifests before the rewrite.
    manifests
        Number of manifests after the rewrite.
    references
        Number of chunk references in all manifests.
    """

    manifests_before: int = 0
    manifests: int = 0
    references: int = 0


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CompactReport(CommitReport):
    """Result of a compaction; a `CommitReport` whose `chunks` counts the chunks that moved.

    Attributes
    ----------
    objects_before
        Number of objects that held these chunks before.
    objects
        Number of objects that hold these chunks now.
    requests_saved
        Number of objects saved: fewer to list, to copy, and to request when reading
        neighbouring chunks.
    """

    objects_before: int = 0
    objects: int = 0
    requests_saved: int = 0
