"""Run a function over groups of work on any Spark session, one task per group."""

import contextlib
import gc
import io
import pickle
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np

import frazil
from frazil import errors
from frazil.errors import (
    IcechunkError,
    InvalidInputError,
    JobError,
    SetupError,
    StorageError,
    explain_missing,
)
from frazil.lazy import lazy_modules
from frazil.spark.job import DataFrame, Job, SparkSession
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage

if TYPE_CHECKING:
    import pyarrow as pa
    import pyspark
    from pyspark import cloudpickle
    from pyspark.sql import functions as sql

    from frazil.spark import spark_session
else:
    # Optional extras, which jobs load when they submit tasks.
    pa, pyspark, cloudpickle, sql, spark_session = lazy_modules(
        "pyarrow",
        "pyspark",
        "pyspark.cloudpickle",
        "pyspark.sql.functions",
        "frazil.spark.spark_session",
    )

_DEFAULT_MAX_FAILURES = 4
_MANY_ROWS = 1 << 20
"""Enough for every partition to get a row."""


def is_connect(spark: SparkSession) -> bool:
    """Return True if the session is a Spark Connect client, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def find_active_session() -> SparkSession | None:
    """Return the active session, or None; never starts one."""
    loaded: Any = sys.modules.get("pyspark.sql")
    active: SparkSession | None = None if loaded is None else loaded.SparkSession.getActiveSession()
    return active


def count_slots(spark: SparkSession | None) -> int:
    """Return the number of tasks that run at once; 1 without Spark."""
    if spark is None:
        return 1
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    # A range without an explicit number of partitions has one for each slot of the server.
    partitions = spark.range(_MANY_ROWS).select(sql.spark_partition_id().alias("partition"))
    (row,) = partitions.agg(sql.max("partition")).collect()
    return int(row[0]) + 1


def find_application_id(spark: SparkSession | None) -> str | None:
    """Return Spark's id of the application of a session, or None if it is not available."""
    if spark is None:
        return None
    with contextlib.suppress(Exception):
        return spark.conf.get("spark.app.id")
    return None


def find_max_failures(spark: SparkSession) -> int:
    """Return how often a task may fail before its job fails."""
    with contextlib.suppress(Exception):
        master = spark.conf.get("spark.master", "") or ""
        local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\])?", master)
        if local is not None:
            return int(local[1] or 1)
        return int(spark.conf.get("spark.task.maxFailures", str(_DEFAULT_MAX_FAILURES)) or 1)
    return _DEFAULT_MAX_FAILURES


_frozen_modules = 0


def freeze_worker() -> None:
    """Exclude loaded objects from the cyclic garbage collector at the end of a task.

    Does nothing outside of a Spark task.
    """
    global _frozen_modules
    if pyspark.TaskContext.get() is None or len(sys.modules) == _frozen_modules:
        return
    gc.collect()
    gc.freeze()
    _frozen_modules = len(sys.modules)


_PROBES = 2
_PROBE_SCHEMA = "executable string, version string, problem string"
_WHAT_TO_DO = (
    f"install frazil {frazil.__version__} there and let PYSPARK_PYTHON say which Python that is, or "
    "send it with frazil.spark.send_package(spark)"
)
_NOT_FOUND = "No module named 'frazil"
_OTHER_PYTHON = re.compile(
    r"PYTHON_VERSION_MISMATCH\].*?version: ([\d.]+) than .*?driver: ([\d.]+)"
)
GROUP_PREFIX = "frazil-"
"""Prefix of the names of job groups whose progress is followed."""
_RETRY_SECONDS = 2.0
_KIND = "kind of the error: "
_OWN_ERROR = re.compile(rf"^frazil(?:\.errors)?\.(\w+): (.+)(?:\n{_KIND}(\S+))?", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")


@dataclass(frozen=True, slots=True)
class Worker:
    """Python environment of a Spark worker."""

    executable: str
    version: str | None
    """Version of Frazil; None if it can't be imported."""
    problem: str | None


def ask_workers(spark: SparkSession) -> list[Worker]:
    """Run a few tasks that report their Python environments.

    Raises Spark's exception if no task can run.
    """
    numbers: Any = spark.range(0, _PROBES, 1, _PROBES)
    rows = numbers.mapInArrow(_make_probe(), _PROBE_SCHEMA).collect()
    return list(dict.fromkeys(Worker(*row) for row in rows))


def _make_probe() -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function pickled by value: workers that lack this package could not import it."""

    def probe(batches: Any) -> Any:
        import importlib  # noqa: PLC0415 (runs on a worker)
        import sys  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        version = problem = None
        try:
            importlib.import_module("frazil.spark.runtime")
            version = importlib.import_module("frazil").__version__
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        for _ in batches:
            columns = [
                pyarrow.array([each], "string") for each in (sys.executable, version, problem)
            ]
            yield pyarrow.RecordBatch.from_arrays(columns, ["executable", "version", "problem"])

    return probe


def find_problems(workers: Iterable[Worker]) -> list[str]:
    """Return a message with the remedy for each worker that can't run Frazil."""
    return [text for each in workers if (text := _find_problem(each)) is not None]


def _find_problem(worker: Worker) -> str | None:
    if worker.problem is not None:
        return (
            f"the Python of the workers, {worker.executable}, can't import Frazil ({worker.problem}): "
            f"{_WHAT_TO_DO}"
        )
    if worker.version != frazil.__version__:
        return (
            f"the workers have frazil {worker.version}, and this process {frazil.__version__}: "
            f"{_WHAT_TO_DO}"
        )
    return None


@contextmanager
def keep_error_kind() -> Iterator[None]:
    """Attach the kind of Frazil errors as a note for `find_error`, which sees only the text.

    A retried task of a followed job waits first, so that the job can be stopped meanwhile if the error
    is deterministic.
    """
    context = pyspark.TaskContext.get()
    if context is not None and context.attemptNumber():
        group = context.getLocalProperty("spark.jobGroup.id") or ""
        time.sleep(_RETRY_SECONDS if group.startswith(GROUP_PREFIX) else 0)
    try:
        yield
    except IcechunkError as error:
        error.add_note(f"{_KIND}{error.kind}")
        raise


def find_error(text: str) -> IcechunkError | None:
    """Parse the Frazil error that a task raised from Spark's text; None if there is none."""
    found = list(_OWN_ERROR.finditer(text))
    if not found:
        return None
    name, message, kind = found[-1].groups()
    cls = getattr(errors, name, None)
    if not (isinstance(cls, type) and issubclass(cls, IcechunkError)):
        return None
    error = cls.__new__(cls, message)
    IcechunkError.__init__(error, message, kind)
    return error


def find_last_line(text: str) -> str | None:
    """Return the last line of the last Python traceback in Spark's text, which names the error."""
    found = _PYTHON_ERROR.findall(text)
    return str(found[-1]) if found else None


def explain_failure(text: str) -> str | None:
    """Return the remedy if Spark's text says that workers lack this package or Python, else None."""
    if found := _OTHER_PYTHON.search(text):
        theirs, ours = found.groups()
        return (
            f"the workers run Python {theirs}, the driver {ours}: before the session is made, set the"
            f" environment variable PYSPARK_PYTHON to a Python {ours}, on this machine {sys.executable}"
        )
    return f"the workers can't import Frazil: {_WHAT_TO_DO}" if _NOT_FOUND in text else None


_IN_MEMORY = "in-memory-repository"


def dump(value: object) -> bytes:
    """Pickle a value; functions and classes that workers can't import by value.

    Raises InvalidInputError for a repository that other processes can't reach.
    """

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, MemoryStorage):
                raise _out_of_reach()
            return super().reducer_override(value)  # type: ignore[no-untyped-call]

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def _out_of_reach() -> InvalidInputError:
    return InvalidInputError(
        "Spark tasks can't reach a repository in the driver's memory: use a disk or an object store,"
        " or run the job without Spark, as frazil.ingest and others do",
        kind=_IN_MEMORY,
    )


Group = TypeVar("Group")
Result = TypeVar("Result")

RESULT_SCHEMA = "task long, attempt int, seconds double, ok boolean, payload binary"
_POLL_SECONDS = 0.2
_MOST_TASKS = 1000
"""Maximum number of tasks of a stage whose failures are read."""
_NOTHING_SAID = "An error occurred while calling"


@lru_cache(maxsize=1)
def result_fields() -> "pa.Schema":
    """Return the columns of the row that each task returns."""
    return pa.schema(
        [
            ("task", pa.int64()), ("attempt", pa.int32()), ("seconds", pa.float64()),
            ("ok", pa.bool_()), ("payload", pa.binary()),
        ]
    )  # fmt: skip


def fan_out(
    spark: SparkSession,
    job: Job,
    what: str,
    function: Callable[[Group], Result],
    groups: Sequence[Group],
) -> list[Result]:
    """Run a function in one task per group and return the results in the order of the groups."""
    if not groups:
        return []
    job.refuse_if_cancelled()
    max_failures = find_max_failures(spark)

    def run(number: int) -> Iterator["pa.RecordBatch"]:
        yield run_task(number, lambda: function(groups[number]), max_failures)

    frame = map_numbers(spark, len(groups), run, RESULT_SCHEMA)
    return collect_results(spark, job, what, frame, len(groups))


def make_rows(
    spark: SparkSession,
    read: Callable[[Group], Iterable["pa.RecordBatch"]],
    groups: Sequence[Group],
    schema: Any,
) -> DataFrame:
    """Return a DataFrame of the batches that a function yields, in one task per group.

    What reads a repository in memory is computed now, because tasks can't reach it.
    """
    if not groups:
        return spark.createDataFrame([], schema)

    def run(number: int) -> Iterator["pa.RecordBatch"]:
        with keep_error_kind():
            yield from read(groups[number])
        freeze_worker()

    try:
        return map_numbers(spark, len(groups), run, schema)
    except InvalidInputError as error:
        if error.kind != _IN_MEMORY:
            raise
    batches = list(chain.from_iterable(map(read, groups)))
    if not batches:
        return spark.createDataFrame([], schema)
    # Tasks give columns by position, too.
    rows = pa.Table.from_batches(batches).rename_columns(schema.names)
    return spark.createDataFrame(rows, schema)


LOCAL_BYTES, LOCAL_CHUNKS, LOCAL_ROWS, _THREADS = 1 << 30, 1 << 12, 1 << 20, 8
"""Most that threads of the driver read in a local session, whose tasks have the same processors."""


def suits_driver(spark: SparkSession, size: int, chunks: int, rows: int) -> bool:
    """Return True if threads of the driver read some chunks sooner than tasks, into few rows."""
    if size > LOCAL_BYTES or chunks > LOCAL_CHUNKS or rows > LOCAL_ROWS or is_connect(spark):
        return False
    return re.match(r"local(\[|$)", spark.conf.get("spark.master", "") or "") is not None


def make_rows_now(
    spark: SparkSession,
    read: Callable[[Group], Iterable["pa.RecordBatch"]],
    groups: Sequence[Group],
    fields: "pa.Schema",
    schema: Any,
) -> DataFrame:
    """Return a DataFrame of the batches that a function yields, which this process computes now.

    If that fails, tasks compute it later: they may reach other files, and their errors say more.
    """
    threads = min(count_slots(spark), _THREADS)
    with contextlib.suppress(IcechunkError, OSError), ThreadPoolExecutor(threads) as pool:
        batches = chain.from_iterable(pool.map(lambda each: list(read(each)), groups))
        return spark.createDataFrame(pa.Table.from_batches(batches, fields), schema)
    return make_rows(spark, read, groups, schema)


def map_numbers(
    spark: SparkSession,
    count: int,
    function: Callable[[int], Iterable["pa.RecordBatch"]],
    schema: Any,
    *,
    is_stateless: bool = False,
) -> DataFrame:
    """Return a DataFrame of the batches that a function yields for the number of each task."""

    def run(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from function(number)

    return map_batches(spark.range(0, count, 1, count), run, schema, is_stateless=is_stateless)


def map_batches(
    frame: DataFrame,
    function: Callable[[Iterable["pa.RecordBatch"]], Iterable["pa.RecordBatch"]],
    schema: Any,
    *,
    is_stateless: bool = False,
) -> DataFrame:
    """Return a DataFrame of the batches that a function yields for those of each partition.

    A worker loads a stateless function once, and any other for each of its tasks.
    """
    blob = dump(function)

    def run(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        yield from (_load(blob) if is_stateless else pickle.loads(blob))(batches)

    mapped: DataFrame = frame.mapInArrow(run, schema)
    return mapped


def shuffle_by_number(frame: DataFrame, count: int, column: str) -> DataFrame:
    """Return the rows in `count` partitions, each in the partition whose number its column holds."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(count, column)
    keys = sql.array(*map(sql.lit, keys_of_partitions(count)))
    return frame.repartition(count, sql.element_at(keys, sql.col(column).cast("int") + 1))


def keys_of_partitions(count: int) -> list[int]:
    """Return a key for each partition that Spark's hash partitioning puts there.

    Spark 4.0 has no `repartitionById`. Its partition of an integer is the Murmur3 hash modulo `count`.
    """
    found = np.full(count, -1, np.int64)
    start = 0
    while (found < 0).any():
        keys = np.arange(start, start + 8 * count, dtype=np.uint32)
        found[_murmur3(keys).view(np.int32) % count] = keys
        start += 8 * count
    return found.tolist()


def _murmur3(keys: Any) -> Any:
    hashed = _rotate(keys * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    hashed = _rotate(hashed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed ^= np.uint32(4)
    for bits, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = (hashed ^ (hashed >> np.uint32(bits))) * np.uint32(factor)
    return hashed ^ (hashed >> np.uint32(16))


def _rotate(values: Any, bits: int) -> Any:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


@lru_cache(maxsize=4)
def _load(blob: bytes) -> Any:
    return pickle.loads(blob)


def partition_id() -> int:
    """Return the number of the partition that this task computes; 0 outside of a task."""
    context = pyspark.TaskContext.get()
    return 0 if context is None else context.partitionId()


def run_on_rows(
    frame: DataFrame, job: Job, what: str, function: Callable[["pa.Table"], Result], count: int
) -> list[Result]:
    """Run a function on the rows of each non-empty partition and return the results, in order.

    The DataFrame has about `count` partitions.
    """
    most_failures = find_max_failures(frame.sparkSession)

    def run(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        kept = [batch for batch in batches if batch.num_rows]
        if kept:
            rows = pa.Table.from_batches(kept)
            yield run_task(partition_id(), lambda: function(rows), most_failures)

    results = map_batches(frame, run, RESULT_SCHEMA)
    found = collect_results(frame.sparkSession, job, what, results, count)
    return [each for each in found if each is not None]


def collect_results(
    spark: SparkSession,
    job: Job,
    what: str,
    frame: Any,
    count: int,
    receive: Callable[[Any], Any] | None = None,
) -> list[Any]:
    """Return the results in a DataFrame of `run_task` rows; None for a task without a row.

    The DataFrame has `count` tasks or more. `receive` is applied to one result after the other, so that
    large ones need not be in memory at once.
    """
    job.refuse_if_cancelled()
    rows = run_with_progress(spark, job, what, count, frame.collect)
    return _unpack(job, rows, count, receive)


def run_task(number: int, function: Callable[[], object], max_failures: int) -> "pa.RecordBatch":
    """Run a task and return one row with its result, or with the error it raised.

    A transient error is raised, so that Spark retries the task, unless this is the last attempt.
    """
    context = pyspark.TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    start = time.perf_counter()
    value: object
    try:
        ok, value = True, function()
    except Exception as error:
        if not _is_deterministic(error) and attempt + 1 < max_failures:
            raise
        ok, value = False, _portable(error)
    seconds = time.perf_counter() - start
    row = [number, attempt, seconds, ok, dump(value)]
    fields = result_fields()
    columns = [pa.array([each], field.type) for each, field in zip(row, fields, strict=True)]
    freeze_worker()
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _is_deterministic(error: Exception) -> bool:
    """Return True if the error is deterministic, so that a retry would fail the same way."""
    return isinstance(error, IcechunkError) and not isinstance(error, StorageError)


def _portable(error: Exception) -> Exception:
    """Return the error with its traceback as a note; a JobError if it can't be pickled."""
    error.add_note("in a task of Spark:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(dump(error))
    except Exception:
        return JobError(f"{type(error).__name__}: {error}")
    return error


def _unpack(
    job: Job, rows: list[Any], count: int, receive: Callable[[Any], Any] | None = None
) -> list[Any]:
    found: list[Any] = [None] * max([count, *(row.task + 1 for row in rows)])
    rows.reverse()
    while rows:
        row = rows.pop()  # and its bytes are freed
        value = pickle.loads(row.payload)
        if not row.ok:
            raise value
        found[row.task] = value if receive is None else receive(value)
        job.tally.tasks += 1
        job.tally.retries += row.attempt
        job.tally.task_seconds += row.seconds
    return found


@dataclass(frozen=True, slots=True)
class Runner:
    """Runner of a function over groups of work, on Spark or on the driver."""

    job: Job
    spark: SparkSession | None
    """None to run on the driver."""
    returned_references: int = 100_000
    """Maximum references returned by all tasks together; tasks write the others to the storage."""

    @property
    def name(self) -> str:
        """Name of the runner in reports."""
        return "driver" if self.spark is None else "spark"

    def run(
        self, what: str, function: Callable[[Group], Result], groups: Sequence[Group]
    ) -> list[Result]:
        """Run a function for each group and return the results in the order of the groups."""
        if self.spark is not None:
            return fan_out(self.spark, self.job, what, function, groups)
        return [self._run_here(what, function, groups, number) for number in range(len(groups))]

    def _run_here(
        self,
        what: str,
        function: Callable[[Group], Result],
        groups: Sequence[Group],
        number: int,
    ) -> Result:
        self.job.refuse_if_cancelled()
        start = time.perf_counter()
        result = function(groups[number])
        self.job.tally.tasks += 1
        self.job.tally.task_seconds += time.perf_counter() - start
        self.job.show(what, number + 1, len(groups))
        return result


def choose_runner(
    spark: SparkSession | None, job: Job, storage: Storage, *, is_small: bool = False
) -> Runner:
    """Return the requested runner, or for `auto` the one that suits the work and the storage.

    Tasks without a session run on the active one, or on a new one.
    """
    is_here = isinstance(storage, MemoryStorage)
    if job.run_on == "spark" and is_here:
        raise _out_of_reach()
    if job.run_on == "driver" or (job.run_on == "auto" and (is_small or is_here)):
        return Runner(job, None)
    if spark is not None:
        return Runner(job, spark)
    try:
        start = job.start_spark or spark_session.find_session
    except ModuleNotFoundError as error:
        raise SetupError(explain_missing(error, "a task on Spark")) from error
    return Runner(job, start())


# Progress


def run_with_progress(
    spark: SparkSession, job: Job, what: str, count: int, action: Callable[[], Result]
) -> Result:
    """Run a Spark action of at least `count` tasks; show its progress and stop it on Ctrl-C."""
    title = f"{job.title}: {what}"
    tracker = _ConnectTracker(spark) if is_connect(spark) else _ClassicTracker(spark, title)
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            with tracker.tagged():
                outcome["value"] = action()
        except BaseException as error:
            outcome["error"] = error

    thread = tracker.thread(work)
    thread.start()
    job.let_stop(tracker.stop)
    failed = 0
    try:
        while thread.is_alive():
            tasks = tracker.count_tasks()
            job.note(what, tasks.running, tasks.failed)
            job.show(what, tasks.done, max(tasks.total, count))
            if tasks.failed > failed:
                failed = tasks.failed
                _raise_deterministic(tracker.list_failures())
            thread.join(_POLL_SECONDS)
    except BaseException:
        tracker.stop()
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


def _raise_deterministic(failures: Iterable[str]) -> None:
    """Raise the error of a failed task if it is deterministic, so that retries would fail, too."""
    for text in failures:
        error = find_error(text)
        if error is not None and _is_deterministic(error):
            raise error


def _translate(error: BaseException) -> BaseException:
    """Translate a failure of Spark into an error for the caller."""
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


class _ClassicTracker:
    """Progress from the status tracker, for a job group."""

    def __init__(self, spark: SparkSession, title: str) -> None:
        self._context = spark.sparkContext
        self._title = title
        self._group = f"{GROUP_PREFIX}{uuid4().hex}"

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        thread: threading.Thread = pyspark.InheritableThread(target=work)
        return thread

    @contextlib.contextmanager
    def tagged(self) -> Iterator[None]:
        self._context.setJobGroup(self._group, self._title, interruptOnCancel=True)
        yield

    def count_tasks(self) -> _Tasks:
        """Return the task counts of all stages that have started."""
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
        """Return the error messages of failed tasks; best effort, uses internals of Spark."""
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


class _ConnectTracker:
    """Progress from the progress handler, for a tag."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark
        self._tag = f"{GROUP_PREFIX}{uuid4().hex}"
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
        """Return the task counts; the server does not report failed attempts."""
        return self._tasks

    def list_failures(self) -> list[str]:
        """Return an empty list: the server reports failures only when the job has failed."""
        return []

    def stop(self) -> None:
        self._spark.interruptTag(self._tag)
