"""Streams that are written to a repository: every batch is one commit, and only one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import icechunk
import numpy as np
import pytest
import xarray as xr
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil import Repository
from tests.spark.tables.streams import (
    batches,
    expected,
    forget_last_commit,
    put_file,
    read_files,
    start,
    values,
)

pytestmark = pytest.mark.xdist_group("spark-tables")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """An empty one."""
    return Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where it is."""
    return str(tmp_path / "repo")


def test_a_restarted_stream_repeats_no_batch(
    spark: SparkSession, repo: Repository, url: str, tmp_path: Path
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    for number in range(2):
        put_file(files, number)
    start(read_files(spark, files), url, checkpoint).awaitTermination()
    once = batches(repo)
    repo.expire_snapshots(datetime.now(UTC) + timedelta(days=1))
    assert forget_last_commit(checkpoint) == 1
    put_file(files, 2)

    start(read_files(spark, files), url, checkpoint).awaitTermination()

    assert once == [0, 1]
    assert batches(repo)[-2:] == [1, 2]
    assert values(repo).tolist() == expected(3).tolist()
    official = icechunk.Repository.open(icechunk.local_filesystem_storage(url))
    found = xr.open_zarr(official.readonly_session("main").store, consolidated=False, chunks=None)
    assert np.round(found.v.values, 9).tolist() == expected(3).tolist()


def test_a_batch_that_can_not_be_written_stops_the_query_until_it_is_corrected(
    spark: SparkSession, repo: Repository, url: str, tmp_path: Path
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    put_file(files, 0)
    put_file(files, 1, first_x=7)

    with pytest.raises(StreamingQueryException, match="x has no coordinate 7, 8, 9"):
        start(read_files(spark, files), url, checkpoint).awaitTermination()

    assert batches(repo) == [0]
    put_file(files, 1)
    start(read_files(spark, files), url, checkpoint).awaitTermination()
    assert batches(repo) == [0, 1]
    assert values(repo).tolist() == expected(2).tolist()


def test_functions_of_foreach_batch_commit_once(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    reports = []

    def write(frame: DataFrame, batch_id: int) -> None:
        report = frazil.spark.commit_batch(
            repo, frame, batch_id, query="weather", dims=["t", "x"], append_dim="t"
        )
        reports.append(report)

    def run() -> None:
        writer = read_files(spark, files).writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    put_file(files, 0)
    run()
    forget_last_commit(checkpoint)
    put_file(files, 1)
    run()

    ids = [report.snapshot_id for report in reports]
    assert ids[0] == ids[1] != ids[2]
    assert batches(repo) == [0, 1]
    assert values(repo).tolist() == expected(2).tolist()
