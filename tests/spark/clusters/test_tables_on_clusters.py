"""Arrays and tables that executors of their own are asked about, and writes that go wrong there."""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.tables.table_source import TABLES
from frazil.xarray import to_icechunk
from tests.spark.clusters.drivers import Driver
from tests.spark.tables.streams import batches, expected, put_file, read_files, start, values

pytest.importorskip("grpc")
pytestmark = pytest.mark.xdist_group("clusters")

HOT = "SELECT lat, COUNT(*) AS days, AVG(v) AS mean FROM {name} WHERE t >= 12 AND lat < 35 GROUP BY lat"


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two versions and a tag."""
    path = tmp_path_factory.mktemp("weather") / "repo"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    data = np.arange(20 * 4.0).reshape(20, 4)
    coordinates = {"t": np.arange(20), "lat": [10.0, 20.0, 30.0, 40.0]}
    session = repo.writable_session("main")
    dataset = xr.Dataset({"v": (("t", "lat"), data)}, coordinates)
    to_icechunk(dataset, session, mode="w", encoding={"v": {"chunks": (5, 2)}})
    repo.create_tag("v1", session.commit("twenty days"))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="v")[3, 0] = -1.0
    session.commit("a day corrected")
    frazil.analyze(repo)
    return path


def ask_everything(spark: SparkSession, url: str) -> dict[str, list[str]]:
    """Every table, the arrays themselves, and a question in SQL, as texts in an order."""

    def reported(rows: Iterable[Row]) -> list[str]:
        return sorted(map(str, rows))

    frazil.spark.register(spark)
    found = {
        name: reported(frazil.spark.read(url, table=name, spark=spark).collect()) for name in TABLES
    }
    source = spark.read.format("icechunk").option("repo", url)
    found["source"] = reported(source.option("table", "chunks").load().collect())
    cells = frazil.spark.read(url, spark=spark)
    found["cells"] = reported(cells.collect())
    cells.createOrReplaceTempView("weather_cells")
    found["query"] = reported(spark.sql(HOT.format(name="weather_cells")).collect())
    found["sql"] = reported(
        frazil.spark.sql(url, "SELECT message FROM repo.snapshots", spark=spark).collect()
    )
    return found


@pytest.mark.parametrize("where", ["local_cluster", "client"])
def test_tables_are_the_same_everywhere(
    request: pytest.FixtureRequest, local: Driver, weather: Path, where: str
) -> None:
    running: Driver = request.getfixturevalue(where)

    found = running.call(ask_everything, str(weather))

    assert found == local.call(ask_everything, str(weather))
    assert len(found["cells"]) == 80
    assert len(found["query"]) == 3
    assert all(found[name] for name in TABLES if name not in ("ledger", "virtual_sources"))


def die_once(sign: Path) -> Any:
    """A step of a frame whose second task kills its worker, the first time."""

    def step(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from rows
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def write_in_trouble(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A stream that is started twice, a repeated batch, a poisonous one, modes, a killed worker."""
    url = str(folder / "repo")
    frazil.spark.register(spark)
    reported: dict[str, Any] = {}
    for number in range(2):
        put_file(folder / "files", number)
        start(read_files(spark, folder / "files"), url, folder / "checkpoint").awaitTermination()
    cells = frazil.spark.read(url, spark=spark).select("t", "x", "v")

    again = cells.where("x = 0").localCheckpoint()
    reports = [frazil.spark.commit_batch(url, again, 7, query="q") for _ in range(2)]
    reported["batches"] = [report.snapshot_id for report in reports]

    poison = spark.createDataFrame([(0, 99, 1.0)], "t long, x long, v double")
    try:
        frazil.spark.commit_batch(url, poison, 8, query="q")
    except InvalidInputError as error:
        reported["poison"] = str(error)

    part = spark.createDataFrame([(1, 2, 50.0)], "t long, x long, v double")
    frazil.spark.write_frame(url, part, mode="overwrite", replace_where="x = 2")

    doubled = (
        cells.where("x = 1").selectExpr("t", "x", "v * 2 AS v").repartition(2).localCheckpoint()
    )
    dying = doubled.mapInArrow(die_once(folder / "killed"), doubled.schema)
    frazil.spark.write_frame(url, dying)
    return reported


def test_trouble_loses_nothing(local_cluster: Driver, tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))

    reported = local_cluster.call(write_in_trouble, tmp_path)

    assert (tmp_path / "killed").exists()
    assert batches(repo) == [0, 1, 7]
    assert reported["batches"][0] == reported["batches"][1]
    assert "99" in reported["poison"]
    found, before = values(repo), expected(2)
    assert found[:, 0].tolist() == before[:, 0].tolist()
    assert found[:, 1] == pytest.approx(before[:, 1] * 2)
    assert found[1, 2] == 50.0
    assert np.isnan(found[[0, 2, 3], 2]).all()


def overwrite_and_follow(spark: SparkSession, folder: Path) -> int:
    """A whole overwrite through the data source, and the feed of changes as a stream."""
    url = str(folder / "repo")
    frazil.spark.register(spark)
    put_file(folder / "files", 0)
    start(read_files(spark, folder / "files"), url, folder / "checkpoint").awaitTermination()
    part = spark.createDataFrame([(1, 2, 50.0)], "t long, x long, v double")
    part.write.format("icechunk").option("repo", url).mode("overwrite").save()
    changes = spark.readStream.format("icechunk").option("repo", url).option("table", "changes")
    seen = changes.load().writeStream.format("memory").queryName("seen_changes")
    seen = seen.option("checkpointLocation", str(folder / "feed")).trigger(availableNow=True)
    seen.start().awaitTermination()
    return spark.sql("SELECT count(DISTINCT snapshot_id) FROM seen_changes").collect()[0][0]  # type: ignore[no-any-return]


def test_all_is_overwritten_and_followed(local_cluster: Driver, tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))

    seen = local_cluster.call(overwrite_and_follow, tmp_path)

    found = values(repo)
    assert found[1, 2] == 50.0
    assert np.isnan(found).sum() == found.size - 1
    assert seen == len(list(repo.ancestry(branch="main"))) - 1
