"""Frames and streams that are written on a cluster, and through Spark Connect."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from tests.spark.clusters.drivers import Driver
from tests.spark.tables.streams import batches, expected, put_file, read_files, start, values

pytest.importorskip("grpc")
pytestmark = pytest.mark.xdist_group("clusters")


def write_everything(spark: SparkSession, folder: Path) -> None:
    """A stream of two batches, a frame in tasks, and one through the data source."""
    url = str(folder / "repo")
    frazil.spark.register(spark)
    stream = read_files(spark, folder / "files")
    start(stream, url, folder / "checkpoint").awaitTermination()
    cells = frazil.spark.read(url, spark=spark)
    tripled = cells.selectExpr("t", "x", "v * 3 AS v").where("x = 1")
    frazil.spark.write_frame(url, tripled, message="tasks")
    negative = cells.selectExpr("t", "x", "-v AS v").where("x = 2")
    writer = negative.write.format("icechunk").option("repo", url).option("message", "source")
    writer.mode("append").save()


@pytest.mark.parametrize("where", ["client", "local_cluster", "on_cluster"])
def test_frames_and_streams_are_written(
    request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    running: Driver = request.getfixturevalue(where)
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    for number in range(2):
        put_file(tmp_path / "files", number)

    running.call(write_everything, tmp_path)

    before = expected(2)
    found = values(repo)
    assert batches(repo) == [0, 1]
    assert found[:, 0].tolist() == before[:, 0].tolist()
    assert found[:, 1] == pytest.approx(before[:, 1] * 3)
    assert found[:, 2].tolist() == (-before[:, 2]).tolist()
    assert [info.message for info in repo.ancestry(branch="main")][:2] == ["source", "tasks"]
