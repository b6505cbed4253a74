"""Tasks on Spark: results in order, failures as they were raised, retries, cancellation."""

import os
import signal
import threading
import time
import traceback
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

import frazil
from frazil.errors import (
    FormatError,
    InvalidChunksError,
    InvalidInputError,
    JobCancelledError,
    JobError,
    StorageError,
    UnsafeStorageError,
)
from frazil.spark import Job
from frazil.spark.runtime import (
    explain_failure,
    fan_out,
    find_error,
    find_last_line,
    keep_error_kind,
    keys_of_partitions,
    run_with_progress,
    shuffle_by_number,
)
from frazil.spark.transaction import committing

pytestmark = pytest.mark.xdist_group("spark")


SPARKS_TEXT = """\
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "arrays.py", line 38, in read
    return make_values(variable[region].values, type)
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "reading.py", line 51, in run
    yield from table.read(partitions[number])
{error}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala)
"""


def test_the_error_of_a_task_is_found_in_what_spark_says() -> None:
    raised = InvalidInputError("the container is not authorized", kind="unauthorized")
    with pytest.raises(InvalidInputError) as caught, keep_error_kind():
        raise raised
    reported = "".join(traceback.format_exception_only(caught.value)).rstrip()

    found = find_error(SPARKS_TEXT.format(error=reported))

    assert type(found) is InvalidInputError
    assert (found.message, found.kind) == (raised.message, raised.kind)
    plain = find_error(SPARKS_TEXT.format(error="frazil.errors.UnsafeStorageError: no locks here"))
    assert (type(plain), str(plain)) == (UnsafeStorageError, "no locks here")


def test_the_jobs_of_spark_are_named_after_the_verb_the_repository_and_the_step(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = []

    def see() -> None:
        names.append(spark.sparkContext.getLocalProperty("spark.job.description"))

    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "weather")))
    with committing("rechunk", repo, "main", None, spark) as run:
        run_with_progress(spark, run.job, "writing", 1, see)

    assert names == ["rechunk weather@main: writing"]


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_rows_are_shuffled_to_the_partition_of_their_number(
    spark: SparkSession, count: int
) -> None:
    numbers = spark.range(0, 3 * count).select((sql.col("id") % count).cast("int").alias("number"))

    shuffled = shuffle_by_number(numbers, count, "number")
    rows = shuffled.select("number", sql.spark_partition_id()).collect()
    # A Spark without `repartitionById` hashes keys of partitions instead.
    keys = keys_of_partitions(count)
    hashed = spark.createDataFrame(enumerate(keys), "number int, key int")
    hashes = hashed.select("number", sql.expr(f"pmod(hash(key), {count})")).collect()

    assert len(rows) == 3 * count
    assert all(number == partition for number, partition in [*rows, *hashes])


def test_any_other_error_is_reported_by_its_last_line() -> None:
    text = SPARKS_TEXT.format(error="ValueError: buffer is too small")

    assert find_error(text) is None
    assert find_last_line(text) == "ValueError: buffer is too small"
    assert find_last_line("Job aborted due to stage failure") is None


def square(number: int) -> int:
    return number * number


def test_results_come_in_the_order_of_the_groups(spark: SparkSession) -> None:
    job = Job()

    assert fan_out(spark, job, "squares", square, range(20)) == [n * n for n in range(20)]
    assert job.tally.tasks == 20
    assert job.tally.retries == 0


def test_no_groups_are_no_tasks(spark: SparkSession) -> None:
    assert fan_out(spark, Job(), "nothing", square, []) == []


def test_local_functions_and_what_they_hold_travel(spark: SparkSession) -> None:
    added = 7

    assert fan_out(spark, Job(), "sums", lambda n: n + added, [1, 2]) == [8, 9]


def note_attempt(folder: str) -> int:
    """How often this was called before."""
    path = Path(folder) / str(time.time_ns())
    path.touch()
    return len(list(Path(folder).iterdir())) - 1


def fail(error: Exception, folder: str) -> None:
    note_attempt(folder)
    raise error


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (FormatError("damaged", kind="deserialization"), 1),
        (InvalidChunksError("bad", coordinates=[(1, 2)]), 1),
        (StorageError("away"), 4),
        (ZeroDivisionError("oh"), 4),
    ],
    ids=["format", "chunks", "storage", "other"],
)
def test_errors_come_back_as_they_were_raised(
    spark: SparkSession, tmp_path: Path, error: Exception, attempts: int
) -> None:
    with pytest.raises(type(error), match=str(error)) as caught:
        fan_out(spark, Job(), "failing", partial(fail, error), [str(tmp_path)])

    assert (
        vars(caught.value).items()
        >= {name: value for name, value in vars(error).items() if name != "__notes__"}.items()
    )
    assert "in a task of Spark" in "".join(caught.value.__notes__)
    assert len(list(tmp_path.iterdir())) == attempts


class Unsendable(Exception):  # noqa: N818 - it says what it is
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")
        self.lock = threading.Lock()


def raise_unsendable(_: int) -> None:
    raise Unsendable("can't", "travel")


def test_an_error_that_cannot_travel_is_reported(spark: SparkSession) -> None:
    with pytest.raises(JobError, match="Unsendable: can't travel"):
        fan_out(spark, Job(), "failing", raise_unsendable, [0])


def fail_twice(folder: str) -> str:
    if note_attempt(folder) < 2:
        raise OSError("not yet")
    return "done"


def test_a_task_that_fails_twice_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    job = Job()

    assert fan_out(spark, job, "flaky", fail_twice, [str(tmp_path)]) == ["done"]
    assert job.tally.retries == 2


def die_once(folder: str) -> str:
    if note_attempt(folder) == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def test_a_worker_that_is_killed_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    assert fan_out(spark, Job(), "dying", die_once, [str(tmp_path)]) == ["done"]


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_job_whose_workers_always_die_fails(spark: SparkSession) -> None:
    with pytest.raises(JobError, match="the job failed on Spark"):
        fan_out(spark, Job(), "dying", die, [0])


def wait_for(started: str, _: int) -> None:
    (Path(started) / "started").touch()
    time.sleep(120)


def test_a_job_can_be_cancelled_from_another_thread(spark: SparkSession, tmp_path: Path) -> None:
    job = Job()

    def cancel_when_it_runs() -> None:
        for _ in range(1200):
            if (tmp_path / "started").exists():
                break
            time.sleep(0.05)
        job.cancel()

    watcher = threading.Thread(target=cancel_when_it_runs)
    watcher.start()

    with pytest.raises(JobCancelledError, match="nothing was committed"):
        fan_out(spark, job, "waiting", partial(wait_for, str(tmp_path)), [0, 1])

    watcher.join()
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_a_cancelled_job_begins_nothing(spark: SparkSession, tmp_path: Path) -> None:
    job = Job()
    job.cancel()

    with pytest.raises(JobCancelledError):
        fan_out(spark, job, "noting", note_attempt, [str(tmp_path)])

    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    shown: list[tuple[str, int, int]] = []
    monkeypatch.setattr(job, "show", lambda *reported: shown.append(reported))

    fan_out(spark, job, "squares", square, range(8))

    assert shown[-1] == ("squares", 8, 8)
    assert all(0 <= done <= total == 8 for _, done, total in shown)


def test_workers_of_another_python_are_explained() -> None:
    said = (
        "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9"
        " than that in driver: 3.13, PySpark cannot run with different minor versions."
    )

    explained = explain_failure(SPARKS_TEXT.format(error=said))

    assert explained is not None
    assert explained.startswith(
        "the workers run Python 3.9, the driver 3.13: before the session is made, set the"
    )
