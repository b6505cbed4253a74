"""Running a function over groups of work, a task each, on any session of Spark.

It is one `mapInArrow` over a range of numbers, which classic sessions and Connect both have. A task may
run twice, at once or after its first run was killed: functions must be such that it does not matter.

What a task raises comes back as it was raised: errors of this package at once, because they would come
again, and others when Spark would not try the task again.
"""

import contextlib
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark import InheritableThread, TaskContext
from pyspark.cloudpickle import dumps as _dumps
from pyspark.sql import SparkSession

from frazil.errors import IcechunkError, JobError, SetupError, StorageError
from frazil.spark.facts import find_max_failures as find_max_failures
from frazil.spark.facts import is_connect
from frazil.spark.job import Job
from frazil.spark.settling import settle_worker
from frazil.spark.workers import WATCHED, explain_failure, find_error, find_last_line

dump: Callable[[object], bytes] = _dumps

Group = TypeVar("Group")
Result = TypeVar("Result")

RESULT_SCHEMA = "task long, attempt int, seconds double, ok boolean, payload binary"
RESULT_FIELDS = pa.schema(
    [
        ("task", pa.int64()), ("attempt", pa.int32()), ("seconds", pa.float64()),
        ("ok", pa.bool_()), ("payload", pa.binary()),
    ]
)  # fmt: skip
_POLL_SECONDS = 0.2
_MOST_TASKS = 1000
"""Of a stage, of which failures are looked at."""
_NOTHING_SAID = "An error occurred while calling"


def fan_out(
    spark: SparkSession,
    job: Job,
    what: str,
    function: Callable[[Group], Result],
    groups: Sequence[Group],
) -> list[Result]:
    """What the function gives for each group, in their order; one task a group."""
    if not groups:
        return []
    job.refuse_if_cancelled()
    blob = dump(_Work(function, groups, find_max_failures(spark)))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded: _Work[Any, Any] = pickle.loads(blob)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield loaded.run(number)

    count = len(groups)
    frame = spark.range(0, count, 1, count).mapInArrow(run, RESULT_SCHEMA)
    return collect_results(spark, job, what, frame, count)


def collect_results(spark: SparkSession, job: Job, what: str, frame: Any, count: int) -> list[Any]:
    """The results in a frame whose rows `run_task` made; None for a task that has no row.

    There are so many tasks, or more.
    """
    job.refuse_if_cancelled()
    return _unpack(job, run_watched(spark, job, what, count, frame.collect), count)


@dataclass(frozen=True, slots=True)
class _Work(Generic[Group, Result]):
    function: Callable[[Group], Result]
    groups: Sequence[Group]
    max_failures: int

    def run(self, number: int) -> pa.RecordBatch:
        """A row that says what became of a task."""
        return run_task(number, lambda: self.function(self.groups[number]), self.max_failures)


def run_task(number: int, function: Callable[[], object], max_failures: int) -> pa.RecordBatch:
    """A row that says what became of a task: what the function gave, or the error that it raised.

    An error that may not come again is raised, so that Spark tries the task again, unless it is the
    last attempt.
    """
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    start = time.perf_counter()
    value: object
    try:
        ok, value = True, function()
    except Exception as error:
        if not _is_settled(error) and attempt + 1 < max_failures:
            raise
        ok, value = False, _portable(error)
    seconds = time.perf_counter() - start
    row = [number, attempt, seconds, ok, dump(value)]
    columns = [pa.array([each], field.type) for each, field in zip(row, RESULT_FIELDS, strict=True)]
    settle_worker()
    return pa.RecordBatch.from_arrays(columns, schema=RESULT_FIELDS)


def _is_settled(error: Exception) -> bool:
    """Whether trying again would end in the same way."""
    return isinstance(error, IcechunkError) and not isinstance(error, StorageError)


def _portable(error: Exception) -> Exception:
    """The error, with where it happened; another one if it can't travel."""
    error.add_note("in a task of Spark:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(dump(error))
    except Exception:
        return JobError(f"{type(error).__name__}: {error}")
    return error


def _unpack(job: Job, rows: Sequence[Any], count: int) -> list[Any]:
    found: list[Any] = [None] * max([count, *(row.task + 1 for row in rows)])
    for row in rows:
        value = pickle.loads(row.payload)
        if not row.ok:
            raise value
        found[row.task] = value
        job.tally.tasks += 1
        job.tally.retries += row.attempt
        job.tally.task_seconds += row.seconds
    return found


# Watching


def run_watched(
    spark: SparkSession, job: Job, what: str, count: int, action: Callable[[], Result]
) -> Result:
    """Let Spark do something of so many tasks, or more; progress is shown, and Ctrl-C stops it."""
    watch = _ConnectWatch(spark) if is_connect(spark) else _ClassicWatch(spark)
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            with watch.tagged():
                outcome["value"] = action()
        except BaseException as error:
            outcome["error"] = error

    thread = watch.thread(work)
    thread.start()
    job.let_stop(watch.stop)
    failed = 0
    try:
        while thread.is_alive():
            tasks = watch.count_tasks()
            job.note(what, tasks.running, tasks.failed)
            job.show(what, tasks.done, max(tasks.total, count))
            if tasks.failed > failed:
                failed = tasks.failed
                _refuse_settled(watch.list_failures())
            thread.join(_POLL_SECONDS)
    except BaseException:
        watch.stop()
        thread.join()
        raise
    finally:
        job.let_stop(None)
    if "error" in outcome:
        job.refuse_if_cancelled()
        raise _translate(outcome["error"]) from outcome["error"]
    job.show(what, count, count)
    value: Result = outcome["value"]
    return value


def _refuse_settled(failures: Iterable[str]) -> None:
    """Raise the error of a task that would end in the same way each time that Spark tries it."""
    for text in failures:
        error = find_error(text)
        if error is not None and _is_settled(error):
            raise error


def _translate(error: BaseException) -> BaseException:
    """What a failure of Spark itself means to the caller."""
    if not isinstance(error, Exception):
        return error
    explained = explain_failure(str(error))
    if explained is not None:
        return SetupError(explained)
    own = find_error(str(error))
    if own is not None:
        return own
    lines = [line.strip(": ") for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(_NOTHING_SAID)]
    first = said[0] if said else type(error).__name__
    return JobError(f"the job failed on Spark: {find_last_line(str(error)) or first}")


@dataclass(frozen=True, slots=True)
class _Tasks:
    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0


class _ClassicWatch:
    """Through the status tracker, by a job group of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._group = f"{WATCHED}{uuid4().hex}"

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        thread: threading.Thread = InheritableThread(target=work)
        return thread

    @contextlib.contextmanager
    def tagged(self) -> Iterator[None]:
        self._context.setJobGroup(self._group, "frazil", interruptOnCancel=True)
        yield

    def count_tasks(self) -> _Tasks:
        """How many there are, of all stages that began."""
        known = self._list_stages()
        return _Tasks(
            sum(stage.numTasks for stage in known),
            sum(stage.numCompletedTasks for stage in known),
            sum(stage.numActiveTasks for stage in known),
            sum(stage.numFailedTasks for stage in known),
        )

    def _list_stages(self) -> list[Any]:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(s) for each in jobs if each for s in each.stageIds]
        return [stage for stage in stages if stage]

    def list_failures(self) -> list[str]:
        """What Spark knows of tasks that failed; best effort, through an interface that is internal."""
        with contextlib.suppress(Exception):
            return list(self._list_failures())
        return []

    def _list_failures(self) -> Iterator[str]:
        context: Any = self._context
        store = context._jsc.sc().statusStore()
        for stage in self._list_stages():
            if not stage.numFailedTasks:
                continue
            tasks = store.taskList(stage.stageId, stage.currentAttemptId, _MOST_TASKS)
            for number in range(tasks.size()):
                message = tasks.apply(number).errorMessage()
                if message.isDefined():
                    yield message.get()

    def stop(self) -> None:
        self._context.cancelJobGroup(self._group)


class _ConnectWatch:
    """Through the progress handler, by a tag of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark
        self._tag = f"{WATCHED}{uuid4().hex}"
        self._tasks = _Tasks()

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=work)

    @contextlib.contextmanager
    def tagged(self) -> Iterator[None]:
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._see)
        try:
            yield
        finally:
            self._spark.removeProgressHandler(self._see)
            self._spark.removeTag(self._tag)

    def _see(self, stages: Iterable[Any], inflight_tasks: int = 0, **_: object) -> None:
        known = list(stages or ())
        self._tasks = _Tasks(
            sum(stage.num_tasks for stage in known),
            sum(stage.num_completed_tasks for stage in known),
            inflight_tasks,
        )

    def count_tasks(self) -> _Tasks:
        """How many there are; nothing is told of those that were in vain."""
        return self._tasks

    def list_failures(self) -> list[str]:
        """Nothing: a server tells of failures when the job has failed."""
        return []

    def stop(self) -> None:
        self._spark.interruptTag(self._tag)
