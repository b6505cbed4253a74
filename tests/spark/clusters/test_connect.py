"""Jobs through Spark Connect, where the driver is a client without Java."""

import threading
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from pyspark.errors import PySparkValueError
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
from tests.spark.tables.streams import expected, put_file, read_files, values

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


def attach_for_all(spark: SparkSession, url: str) -> tuple[str, ...]:
    return frazil.spark.attach(url, "weather", metadata=False, is_global=True, spark=spark).views


def look_around(_: SparkSession, address: str) -> dict[str, list[tuple[Any, ...]]]:
    """Do what a BI tool does: plain SQL in a session of its own, which never heard of Frazil."""
    tool = SparkSession.builder.remote(address).create()
    texts = (
        "SHOW TABLES IN global_temp LIKE 'weather*'",
        "DESCRIBE global_temp.weather_t",
        "SELECT y, max(t) FROM global_temp.weather_t WHERE time >= 6 GROUP BY y ORDER BY y",
    )
    return {text.split()[0]: [tuple(row)[:2] for row in tool.sql(text).collect()] for text in texts}


def test_a_bi_tool_lists_describes_and_queries_attached_arrays(
    client: Driver, server: str, tmp_path: Path
) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    frazil.write(repo, make())

    views = client.call(attach_for_all, str(tmp_path))
    found = client.call(look_around, server)

    assert views == ("global_temp.weather_t", "global_temp.weather_cells")
    assert found["SHOW"] == [("global_temp", "weather_cells"), ("global_temp", "weather_t")]
    assert found["DESCRIBE"] == [
        ("time", "bigint"), ("y", "bigint"), ("x", "bigint"), ("t", "double"),
    ]  # fmt: skip
    assert found["SELECT"] == [(y, float(make().t.isel(y=y).max())) for y in range(6)]


def run_pipeline(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    """Run a pipeline with a repository as source and another one as sink."""
    from pyspark import pipelines  # noqa: PLC0415 (Spark 4.0 has none)
    from pyspark.pipelines import (  # noqa: PLC0415
        graph_element_registry,
        spark_connect_graph_element_registry,
        spark_connect_pipeline,
    )

    graph = spark_connect_pipeline.create_dataflow_graph(spark, None, None, {})
    registry = spark_connect_graph_element_registry.SparkConnectGraphElementRegistry(spark, graph)
    with graph_element_registry.graph_element_registration_context(registry):

        @pipelines.materialized_view
        def highest() -> Any:
            source = spark.read.format("icechunk").option("repo", str(folder / "source"))
            return source.load().groupBy("y").agg({"t": "max"}).toDF("y", "t")

        sink = {"repo": str(folder / "sink"), "dims": "t,x", "append_dim": "t"}
        pipelines.create_sink("cells", "icechunk", sink)

        @pipelines.append_flow(target="cells")
        def append() -> Any:
            return read_files(spark, folder / "files")

    storage = (folder / "storage").as_uri()
    run = spark_connect_pipeline.start_run(spark, graph, [], False, [], False, storage)
    try:
        spark_connect_pipeline.handle_pipeline_events(run)
    except PySparkValueError as error:
        # The client of 4.3 refuses what comes after the end of a run that had Python tasks.
        if "__python_accumulator__" not in str(error):
            raise
    return sorted(map(tuple, spark.table("highest").collect()))


@pytest.mark.skipif(find_spec("pyspark.pipelines") is None, reason="Spark 4.0 has no pipelines")
def test_a_declarative_pipeline_reads_and_writes_repositories(
    client: Driver, tmp_path: Path
) -> None:
    repos = [
        frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / name)))
        for name in ("source", "sink")
    ]
    frazil.write(repos[0], make())
    for count in (1, 2):
        put_file(tmp_path / "files", count - 1)

        found = client.call(run_pipeline, tmp_path)

        assert found == [(y, float(make().t.isel(y=y).max())) for y in range(6)]
        # A second run appends only what is new.
        np.testing.assert_array_equal(values(repos[1]), expected(count))
        assert len(messages(tmp_path / "sink")) == count
