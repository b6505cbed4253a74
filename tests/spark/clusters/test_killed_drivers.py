"""Drivers that are killed on their way: there is a commit or none, and the next run does the rest."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from tests.spark.clusters import jobs
from tests.spark.clusters.archive import check_history, messages
from tests.spark.clusters.drivers import Driver, driver
from tests.spark.clusters.faults import DiesAt, Meanwhile, Moment, die

pytest.importorskip("grpc")
pytestmark = pytest.mark.xdist_group("clusters")


def ingest_and_die(spark: SparkSession, archive: Path, path: Path, moment: Moment) -> None:
    storage = DiesAt(frazil.local_filesystem_storage(str(path)), moment)
    repo = frazil.Repository.open(storage)
    frazil.spark.ingest(
        repo,
        f"{archive}/*.nc",
        append_dim="time",
        message="killed",
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )


@pytest.mark.parametrize("moment", Moment)
def test_a_driver_is_killed_at_its_commit(
    server: str, client: Driver, few: Path, tmp_path: Path, moment: Moment
) -> None:
    path = tmp_path / "repo"
    jobs.create_repository(path)
    commits = ["killed"] if moment == Moment.AFTER else []

    with driver(server, tmp_path) as running:
        running.begin(ingest_and_die, few, path, moment)
        running.wait_for_its_death()

    assert messages(path) == commits
    report = client.call(jobs.ingest, few, path)
    assert (report.snapshot_id is None) == (moment == Moment.AFTER)
    check_history(path, few, commits or ["virtual"])


def ingest_and_die_at(spark: SparkSession, archive: Path, path: Path, step: str) -> None:
    frazil.spark.ingest(
        jobs.create_repository(path),
        f"{archive}/*.nc",
        append_dim="time",
        job=Meanwhile(step, die, run_on="spark"),
        spark=spark,
    )


def test_a_driver_is_killed_with_its_java_while_tasks_write(
    local: Driver, client: Driver, few: Path, tmp_path: Path
) -> None:
    path = tmp_path / "repo"

    local.begin(ingest_and_die_at, few, path, "writing references")
    local.wait_for_its_death()

    assert messages(path) == []
    client.call(jobs.ingest, few, path)
    check_history(path, few, ["virtual"])
