"""Workers of a cluster that are killed or slow: one commit, with exact values."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.repository.session import ForkSession, Session
from frazil.spark import CommitReport, IngestReport
from tests.spark.clusters import jobs
from tests.spark.clusters.archive import check_history, messages, read
from tests.spark.clusters.drivers import Driver
from tests.spark.clusters.faults import Meanwhile, SlowAtFirst, meet, wait_for
from tests.spark.clusters.processes import Standalone

pytestmark = pytest.mark.xdist_group("clusters")


def replace_worker(cluster: Standalone, folder: Path) -> None:
    """Kill a worker with its executor when it is time, and let the driver go on beside a new one."""
    wait_for(folder / "time")
    cluster.kill_worker("127.0.0.2")
    cluster.add_worker("127.0.0.2")
    cluster.wait_for_workers()
    (folder / "go").touch()


def ingest_and_meet(spark: SparkSession, archive: Path, path: Path, folder: Path) -> IngestReport:
    job = Meanwhile(
        "opening files", partial(meet, folder), at_end=True, files_per_task=1, run_on="spark"
    )
    return frazil.spark.ingest(
        jobs.create_repository(path),
        f"{archive}/*.nc",
        append_dim="time",
        message="ours",
        job=job,
        spark=spark,
    )


def test_references_that_are_lost_with_an_executor_are_found_again(
    cluster: Standalone, on_cluster: Driver, few: Path, tmp_path: Path
) -> None:
    on_cluster.begin(ingest_and_meet, few, tmp_path / "repo", tmp_path)
    replace_worker(cluster, tmp_path)
    on_cluster.end()

    check_history(tmp_path / "repo", few, ["ours"])


SIZE = 100
"""Of a chunk, which then is too much to be kept in the manifest."""
STARTS = range(0, 8 * SIZE, SIZE)


def make_chunk(start: int) -> NDArray[np.int64]:
    """Numbers that can't be compressed."""
    return np.random.default_rng(start).integers(0, 1 << 62, SIZE)


def create_numbers(session: Session) -> None:
    zarr.create_array(
        session.store, name="numbers", shape=(8 * SIZE,), chunks=(SIZE,), dtype="i8",
        dimension_names=["i"],
    )  # fmt: skip


def fill(folder: Path, session: ForkSession, start: int) -> None:
    """Write, and wait: of tasks that have written when their executor is killed nothing must count."""
    region = slice(start, start + SIZE)
    zarr.open_array(session.store, path="numbers")[region] = make_chunk(start)
    (folder / f"wrote-{start}").touch()
    if len(list(folder.glob("wrote-*"))) > 1:
        (folder / "time").touch()
    wait_for(folder / "go")


def fill_numbers(spark: SparkSession, path: Path, folder: Path) -> CommitReport:
    return frazil.spark.foreach_region(
        jobs.create_repository(path),
        STARTS,
        partial(fill, folder),
        prepare=create_numbers,
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )


def test_tasks_that_are_lost_with_an_executor_run_again(
    cluster: Standalone, on_cluster: Driver, tmp_path: Path
) -> None:
    on_cluster.begin(fill_numbers, tmp_path / "repo", tmp_path)
    replace_worker(cluster, tmp_path)
    report = on_cluster.end()

    expected = np.concatenate([make_chunk(start) for start in STARTS])
    assert messages(tmp_path / "repo") == ["foreach_region"]
    assert report.chunks == 8
    np.testing.assert_array_equal(read(tmp_path / "repo").numbers, expected)
    written = [each for each in (tmp_path / "repo" / "chunks").rglob("*") if each.is_file()]
    assert len(written) > len(STARTS)


def ingest_slowly(spark: SparkSession, archive: Path, path: Path, marks: Path) -> IngestReport:
    jobs.create_repository(path)
    storage = SlowAtFirst(frazil.local_filesystem_storage(str(path)), marks)
    return frazil.spark.ingest(
        frazil.Repository.open(storage),
        f"{archive}/*.nc",
        append_dim="time",
        message="ours",
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )


def test_a_slow_task_runs_twice_and_counts_once(
    on_cluster: Driver, few: Path, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()

    report = on_cluster.call(ingest_slowly, few, tmp_path / "repo", marks)

    assert (marks / "waits").exists()
    assert any(each.name.endswith("-1") for each in marks.iterdir())
    assert report.metrics["retries"] >= 1
    check_history(tmp_path / "repo", few, ["ours"])
