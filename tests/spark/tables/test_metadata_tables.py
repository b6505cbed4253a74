"""Every table about a repository through Spark: as a data source, as a frame, and in SQL."""

from pathlib import Path
from typing import Any

import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.tables.table_source import ABOUT_REPOSITORY
from tests.spark.tables.conftest import Weather
from tests.unit.tables.rows import read_table

pytestmark = pytest.mark.xdist_group("spark-tables")


def plain(value: Any) -> Any:
    """Values as Spark gives them, without the zone that Arrow knows, in an order of their own."""
    if isinstance(value, list):
        pairs = value and all(isinstance(each, tuple) for each in value)
        return {k: plain(v) for k, v in value} if pairs else [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted((plain(row) for row in rows), key=str)


def collect(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.mark.parametrize("table", sorted(ABOUT_REPOSITORY))
def test_tables_have_the_rows_that_functions_give(
    spark: SparkSession, weather: Weather, table: str
) -> None:
    expected = ordered(read_table(weather.repo, table).to_pylist())
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        loaded = spark.read.format("icechunk").option("repo", weather.path).option("table", table)

        found = ordered(collect(loaded.load()))
        read = ordered(collect(frazil.spark.read(weather.path, table=table, spark=spark)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))

    assert bool(expected) == (table not in ("ledger", "statistics", "virtual_sources"))
    assert found == expected
    assert read == expected


def test_chunks_of_many_manifests_are_read_by_many_tasks(
    spark: SparkSession, weather: Weather
) -> None:
    loaded = spark.read.format("icechunk").option("repo", weather.path).option("table", "chunks")

    frame = loaded.option("references", "10").load()

    assert frame.rdd.getNumPartitions() >= 5
    assert frame.where("array = '/t' AND bounds['lat'].lower > 0").count() == 4 * 1 * 2


def test_tables_are_asked_in_sql(spark: SparkSession, weather: Weather) -> None:
    found = frazil.spark.sql(
        weather.repo,
        """
        SELECT s.message, count(*) AS chunks
        FROM repo.changes c JOIN repo.snapshots s USING (snapshot_id)
        WHERE c.change = 'chunk_set' AND c.path = '/t' AND array_contains(s.tags, 'v2')
        GROUP BY s.message
        """,
        spark=spark,
    ).collect()

    assert [(row.message, row.chunks) for row in found] == [("weather", 4 * 2 * 2)]


def test_the_feed_of_cells_goes_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    array: Any = zarr.create_array(
        session.store, name="a", shape=(6,), chunks=(2,), dtype="i4", dimension_names=("x",)
    )
    array[:] = range(6)
    first = session.commit("first")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a")[4] = 40
    session.commit("second")

    more: dict[str, Any] = {"from": first, "values": "true"}

    frame = frazil.spark.read(str(tmp_path), table="changes", variables=["a"], spark=spark, **more)

    assert sorted((row.x, row.old, row.new) for row in frame.collect()) == [(4, 4, 40), (5, 5, 5)]


def test_conditions_of_tables_are_evaluated_by_spark(spark: SparkSession, weather: Weather) -> None:
    where = "kind = 'array' AND path LIKE '/l%'"

    frame = frazil.spark.read(
        weather.path, table="nodes", columns=["name"], where=where, spark=spark
    )

    assert sorted(row.name for row in frame.collect()) == ["land", "lat", "lon"]
    with pytest.raises(InvalidInputError, match="unknown table 'nonsense'"):
        frazil.spark.read(weather.path, table="nonsense", spark=spark)
