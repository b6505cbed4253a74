"""One run of the pipeline: its name, its progress, how to stop it, and the report of what it did."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from frazil.display import Item, Listed, render_plain, show_bytes
from frazil.errors import JobCancelledError
from frazil.maintenance.findings import CheckReport, Problem
from frazil.maintenance.leases import Lease, leased
from frazil.progress import Display, Step, count_stragglers, open_display
from frazil.storage.interface import Storage


@dataclass(slots=True)
class Tally:
    """What the tasks of a job came to so far."""

    tasks: int = 0
    retries: int = 0
    task_seconds: float = 0.0
    """Of all tasks together."""


@dataclass(slots=True)
class _Watched:
    """What is known of a step that runs."""

    started_at: float = field(default_factory=time.monotonic)
    done: int = 0
    moved_at: float = field(default_factory=time.monotonic)
    """When the last task ended."""
    running: int = 0
    slots: int = 1
    failed: int = 0

    def move(self, done: int) -> None:
        """Note how many tasks are done; fewer than before are those of another round."""
        now = time.monotonic()
        if done < self.done:
            self.started_at = now
        if done != self.done:
            self.done, self.moved_at = done, now


class Job:
    """Hand one to a function of this package to watch it, or to stop it from another thread.

    A job that is cancelled raises JobCancelledError where it was started, and commits nothing.
    """

    def __init__(self, *, progress: bool | None = None) -> None:
        self.id = uuid.uuid4().hex
        self.tally = Tally()
        self._progress = progress
        self._display: Display | None = None
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._stop: Callable[[], None] | None = None
        self._lease: Lease | None = None
        self._steps: dict[str, _Watched] = {}
        self._amounts: dict[str, dict[str, int]] = {}

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked for the end."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Stop the tasks that run, and let none begin."""
        with self._lock:
            self._is_cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    def refuse_if_cancelled(self) -> None:
        """Raise JobCancelledError if somebody asked for the end, LeaseLostError without a lease."""
        if self._is_cancelled:
            raise JobCancelledError(f"the job {self.id} was cancelled; nothing was committed")
        if self._lease is not None:
            self._lease.refuse_if_lost()

    @contextmanager
    def leasing(self, storage: Storage, name: str) -> Iterator[None]:
        """Hold a lease on a storage, so that nobody takes what the job writes for garbage."""
        if self._lease is not None:
            yield
            return
        with leased(storage, self.id, name) as self._lease:
            try:
                yield
            finally:
                self._lease = None

    def expect(self, what: str, **amounts: int) -> None:
        """Say what the tasks of a step come to: files, chunks, bytes."""
        self._amounts[what] = amounts

    def note(self, what: str, running: int, failed: int) -> None:
        """Say how many tasks of a step run, and how many were in vain."""
        step = self._steps.setdefault(what, _Watched())
        step.running, step.failed = running, failed
        step.slots = max(step.slots, running)

    def show(self, what: str, done: int, total: int) -> None:
        """Tell how far a step is."""
        if self._display is None:
            self._display = open_display(self._progress)
        self._display.show(self._describe(what, done, total))

    def _describe(self, what: str, done: int, total: int) -> Step:
        step = self._steps.setdefault(what, _Watched())
        step.move(done)
        now = time.monotonic()
        seconds, quiet = now - step.started_at, now - step.moved_at
        slow = count_stragglers(done, total, step.running, seconds, quiet, step.slots)
        retries = self.tally.retries + step.failed
        amounts = self._amounts.get(what, {})
        return Step(what, done, total, seconds, amounts, retries, slow if done < total else 0)

    def end(self) -> None:
        """Take the display away."""
        if self._display is not None:
            self._display.close()
            self._display = None

    def let_stop(self, stop: Callable[[], None] | None) -> None:
        """Say how what runs now is stopped; None when it has ended."""
        with self._lock:
            self._stop = stop
            is_late = self._is_cancelled and stop is not None
        if is_late and stop is not None:
            stop()


METRICS = "frazil_job"
"""The name that commits have the metrics of their job by."""


@dataclass(frozen=True, slots=True, repr=False)
class JobReport(Listed):
    """What became of a job; shown as a table."""

    job: str
    """Which one: the name of its function."""
    snapshot_id: str | None
    """The commit; None where nothing was to do."""
    branch: str
    ran_on: str
    """`spark`, or `driver` if the job was too small for tasks."""
    chunks: int
    """How many were written."""
    bytes_written: int
    """As they are stored."""
    tasks: int
    retries: int
    seconds: float
    task_seconds: float
    """Of all tasks together."""
    job_id: str
    application_id: str | None
    notes: tuple[str, ...] = ()
    """How it was done."""

    def __str__(self) -> str:
        rows = [(item.name.replace("_", " "), item.value) for item in self.shown_items()]
        shown = [(name, _render_job(value)) for name, value in rows if value not in (None, ())]
        width = max(len(name) for name, _ in shown)
        return "\n".join(f"{name:{width}}  {value}" for name, value in shown)

    def committed_as(self, snapshot_id: str) -> Self:
        """The same once it has landed."""
        return replace(self, snapshot_id=snapshot_id)

    def metrics(self) -> dict[str, object]:
        """What the commit's metadata says about the job."""
        return {
            "job": self.job,
            "job_id": self.job_id,
            "ran_on": self.ran_on,
            "chunks": self.chunks,
            "bytes": self.bytes_written,
            "seconds": round(self.seconds, 3),
            "task_seconds": round(self.task_seconds, 3),
            "tasks": self.tasks,
            "retries": self.retries,
            "application_id": self.application_id,
        }


def _render_job(value: object) -> str:
    match value:
        case float():
            return f"{value:.2f}"
        case int():
            return f"{value:,}"
        case tuple():
            return "; ".join(map(str, value))
    return render_plain(value)


@dataclass(frozen=True, slots=True)
class Copied:
    """Objects that went from one storage to another."""

    objects: int = 0
    bytes: int = 0
    present: int = 0
    """Those that were there already, and were left as they are."""

    def __add__(self, other: "Copied") -> "Copied":
        return Copied(
            self.objects + other.objects, self.bytes + other.bytes, self.present + other.present
        )


class _Table(Listed):
    """A line for each field that says something."""

    __slots__ = ()

    def __str__(self) -> str:
        shown = [
            (item.name.replace("_", " "), _render_copy(item.name, item.value))
            for item in self.shown_items()
            if item.value not in (None, ())
        ]
        width = max(len(name) for name, _ in shown)
        return "\n".join(f"{name:{width}}  {text}" for name, text in shown)


@dataclass(frozen=True, slots=True, repr=False)
class CopyReport(_Table):
    """What became of a copy; shown as a table."""

    has_changed: bool
    """Whether the target says something else than before."""
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int
    """That the target has now."""
    new_snapshots: int
    objects: int
    """That were copied."""
    bytes_copied: int
    present: int
    """Objects that were looked at and were there already."""
    ran_on: str
    """`spark`, or `driver` if the job was too small for tasks."""
    tasks: int
    retries: int
    seconds: float
    job_id: str
    application_id: str | None


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(_Table):
    """What became of an export; shown as a table."""

    snapshot_id: str
    """Which version was exported."""
    groups: int
    arrays: int
    chunks: int
    """That were written."""
    bytes_written: int
    present: int
    """Chunks that an earlier attempt had written."""
    ran_on: str
    """`spark`, or `driver` if the job was too small for tasks."""
    tasks: int
    retries: int
    seconds: float
    job_id: str
    application_id: str | None


def _render_copy(name: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.2f}"
        case int():
            return show_bytes(value) if name.startswith("bytes") else f"{value:,}"
        case tuple():
            return ", ".join(map(str, value))
    return render_plain(value)


PROBLEMS = (
    "severity string, object string, what string, repair string, path string, "
    "coordinate array<bigint>"
)
"""The columns of a frame of problems."""


@dataclass(frozen=True, slots=True, repr=False)
class CheckJobReport(CheckReport):
    """What was found in a repository; `Repository.repair` takes it as well."""

    ran_on: str = "driver"
    """`spark`, or `driver` if there was too little to read for tasks."""
    tasks: int = 0
    retries: int = 0
    seconds: float = 0.0
    job_id: str = ""
    application_id: str | None = None

    @classmethod
    def of(cls, report: CheckReport, **how: Any) -> "CheckJobReport":
        """What a check found, and how it went."""
        found = {each.name: getattr(report, each.name) for each in fields(CheckReport)}
        return cls(**found, **how)

    def shown_items(self) -> Iterator[Item]:
        """What any check shows, and where it was done."""
        yield Item("ran on", f"{self.ran_on}, {self.tasks} tasks, {self.seconds:.1f} s")
        yield from CheckReport.shown_items(self)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The problems as a frame, a row each, in the order of the report."""
        return spark.createDataFrame([_row(each) for each in self.problems], PROBLEMS)


def _row(problem: Problem) -> tuple[Any, ...]:
    told = problem.to_dict()
    return tuple(
        None if told[name] is None else told[name]
        if name == "coordinate" else str(told[name])
        for name in ("severity", "object", "what", "repair", "path", "coordinate")
    )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class RewriteReport(JobReport):
    """What became of manifests; shown as a table."""

    manifests_before: int = 0
    manifests: int = 0
    """How many there are now."""
    references: int = 0
    """In all of them."""

    @classmethod
    def of(cls, report: JobReport, **figures: int) -> Self:
        """A report with these figures."""
        return cls(**_fields_of(report, figures))


@dataclass(frozen=True, slots=True, repr=False)
class CompactReport(JobReport):
    """What became of small chunks; shown as a table. Its `chunks` are those that moved."""

    objects_before: int = 0
    """That had these chunks."""
    objects: int = 0
    """That have them now."""
    requests_saved: int = 0
    """So many objects fewer to list, to copy, and to ask for by who reads neighbours at once."""

    @classmethod
    def of(cls, report: JobReport, **figures: int) -> Self:
        """A report with these figures."""
        return cls(**_fields_of(report, figures))


def _fields_of(report: JobReport, figures: Mapping[str, int]) -> dict[str, Any]:
    return {**{each.name: getattr(report, each.name) for each in fields(report)}, **figures}
