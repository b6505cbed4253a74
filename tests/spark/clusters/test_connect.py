"""Jobs through Spark Connect, where the driver is a client without Java."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidChunksError, InvalidSourcesError, JobCancelledError
from frazil.spark import Job
from frazil.spark.runtime import count_slots, fan_out, find_max_failures, is_connect
from frazil.storage.local import LocalStorage
from tests.damages import create_sample
from tests.spark.clusters import jobs
from tests.spark.clusters.archive import check_history, messages, read, save_files
from tests.spark.clusters.drivers import Driver
from tests.spark.maintenance.damaged import lose_chunks

pytest.importorskip("grpc")
pytestmark = pytest.mark.xdist_group("clusters")


def describe(spark: SparkSession) -> tuple[bool, int, int, list[str]]:
    return (
        is_connect(spark),
        count_slots(spark),
        find_max_failures(spark),
        jobs.find_problems(spark),
    )


def is_found_again(spark: SparkSession) -> bool:
    return frazil.spark.session() is spark


def test_the_session_that_runs_is_taken(client: Driver) -> None:
    assert client.call(is_found_again)


def test_a_server_reports_what_jobs_want_to_know(client: Driver) -> None:
    assert client.call(describe) == (True, 2, 4, [])


def test_an_archive_is_ingested(client: Driver, few: Path, tmp_path: Path) -> None:
    report = client.call(jobs.ingest, few, tmp_path / "repo")

    check_history(tmp_path / "repo", few, ["virtual"])
    assert report.metrics["application_id"].startswith("local-")
    assert client.call(jobs.ingest, few, tmp_path / "repo").snapshot_id is None


def check(spark: SparkSession, path: Path) -> tuple[Any, ...]:
    report = frazil.spark.check(
        str(path), deep=True, job=frazil.spark.Job(task_bytes=1, run_on="spark"), spark=spark
    )
    count = report.frame(spark).count()
    stats = frazil.spark.stats(
        str(path), job=frazil.spark.Job(task_bytes=1, run_on="spark"), spark=spark
    )
    return report.to_dict(), report.ran_on, count, stats


def test_a_repository_is_checked_and_measured(client: Driver, tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    lose_chunks(repository)

    report, ran_on, count, stats = client.call(check, tmp_path)

    assert (report, ran_on) == (repository.check(deep=True).to_dict(), "spark")
    assert count == len(report["problems"]) > 2
    assert stats == repository.chunk_storage_stats()


def ingest_frame(spark: SparkSession, archive: Path, path: Path) -> None:
    names = [(str(each),) for each in sorted(archive.glob("*.nc"))]
    sources = spark.createDataFrame(names, ["source"])
    repo = jobs.create_repository(path)
    frazil.spark.ingest(
        repo,
        sources,
        append_dim="time",
        message="frame",
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )


def test_sources_may_be_a_frame(client: Driver, few: Path, tmp_path: Path) -> None:
    client.call(ingest_frame, few, tmp_path / "repo")

    check_history(tmp_path / "repo", few, ["frame"])


def make() -> xr.Dataset:
    values = np.arange(12 * 6 * 4, dtype="f8").reshape(12, 6, 4)
    return xr.Dataset({"t": (("time", "y", "x"), values)})


def double(block: xr.DataArray) -> xr.DataArray:
    return block * 2


def run_on_arrays(spark: SparkSession, path: Path) -> list[str]:
    repo = jobs.create_repository(path)
    reports = [
        frazil.spark.write(
            repo,
            make().chunk({"time": 3}),
            job=frazil.spark.Job(run_on="spark", task_bytes=600),
            spark=spark,
        ),
        frazil.spark.transform(
            repo,
            ["t"],
            "twice",
            double,
            job=frazil.spark.Job(run_on="spark", task_bytes=600),
            spark=spark,
        ),
        frazil.spark.transform(
            repo,
            ["t"],
            "mean",
            reduce="mean",
            over="time",
            job=frazil.spark.Job(run_on="spark", task_bytes=600),
            spark=spark,
        ),
        frazil.spark.rechunk(
            repo,
            "t",
            (12, 2, 2),
            output="by_place",
            max_memory=1200,
            job=frazil.spark.Job(run_on="spark"),
            spark=spark,
        ),
    ]
    return [each.job for each in reports if each.snapshot_id and each.ran_on == "spark"]


def test_arrays_are_written_transformed_reduced_and_rechunked(
    client: Driver, tmp_path: Path
) -> None:
    done = client.call(run_on_arrays, tmp_path / "repo")

    found = read(tmp_path / "repo")
    assert done == ["write", "transform", "transform", "rechunk"]
    assert len(messages(tmp_path / "repo")) == 4
    np.testing.assert_array_equal(found.t, make().t)
    np.testing.assert_array_equal(found.twice, make().t * 2)
    np.testing.assert_array_equal(found.by_place, make().t)
    np.testing.assert_allclose(found["mean"], make().t.mean("time"))


def fail(error: Exception, _: int) -> None:
    raise error


def run_failing(spark: SparkSession, error: Exception) -> None:
    fan_out(spark, Job(), "failing", partial(fail, error), [0])


@pytest.mark.parametrize(
    "error",
    [InvalidChunksError("bad", coordinates=[(1, 2)]), ZeroDivisionError("oh")],
    ids=["ours", "other"],
)
def test_errors_come_back_as_they_were_raised(client: Driver, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)) as caught:
        client.call(run_failing, error)

    if isinstance(error, InvalidChunksError):
        assert isinstance(caught.value, InvalidChunksError)
        assert caught.value.coordinates == error.coordinates


def test_files_that_are_none_are_named(client: Driver, tmp_path: Path) -> None:
    folder = save_files(tmp_path / "files", 2)
    (folder / "00001.nc").write_bytes(b"no file of any kind")

    with pytest.raises(InvalidSourcesError, match=r"00001\.nc"):
        client.call(jobs.ingest, folder, tmp_path / "repo")

    assert messages(tmp_path / "repo") == []


def wait(folder: Path, number: int) -> None:
    (folder / f"started-{number}").touch()
    time.sleep(120)


def run_and_cancel(spark: SparkSession, folder: Path) -> list[int]:
    job = Job()

    def cancel_when_it_runs() -> None:
        for _ in range(1200):
            if (folder / "started-0").exists():
                break
            time.sleep(0.05)
        job.cancel()

    watcher = threading.Thread(target=cancel_when_it_runs)
    watcher.start()
    with pytest.raises(JobCancelledError):
        fan_out(spark, job, "waiting", partial(wait, folder), [0, 1])
    watcher.join()
    # The slots are free again.
    return fan_out(spark, Job(), "counting", int, ["1", "2"])


def test_a_job_can_be_cancelled_from_another_thread(client: Driver, tmp_path: Path) -> None:
    assert client.call(run_and_cancel, tmp_path) == [1, 2]


class Reported(Job):
    """A job that remembers what it showed."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[tuple[str, int, int]] = []

    def show(self, what: str, done: int, total: int) -> None:
        self.reported.append((what, done, total))


def rest(number: int) -> int:
    time.sleep(0.5)
    return number


def run_with_steps(spark: SparkSession) -> list[tuple[str, int, int]]:
    job = Reported()
    fan_out(spark, job, "resting", rest, range(12))
    return job.reported


def test_progress_is_shown_while_tasks_run(client: Driver) -> None:
    reported = client.call(run_with_steps)

    assert reported[-1] == ("resting", 12, 12)
    assert any(0 < done < 12 for _, done, _ in reported)
