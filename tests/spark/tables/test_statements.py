"""Statements other than queries: what describes a repository, and what maintains it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from tests.spark.tables.conftest import Weather, make_weather

pytestmark = pytest.mark.xdist_group("spark-tables")


DAY = np.datetime64("2000-01-01T00:00", "ns")


def only(frame: DataFrame) -> Row:
    """The one row of a frame."""
    (row,) = frame.collect()
    return row


def test_a_repository_describes_its_tables(spark: SparkSession, weather: Weather) -> None:
    def ask(text: str) -> list[Row]:
        return frazil.spark.sql(weather.repo, text, spark=spark).collect()

    names = {row.tableName: row.namespace for row in ask("SHOW TABLES")}
    assert (names["t"], names["cells"], names["snapshots"]) == ("", "", "repo")
    assert [row.tableName for row in ask("SHOW TABLES IN repo LIKE 'snap*|refs'")] == [
        "refs", "snapshots",
    ]  # fmt: skip
    described = {row.col_name: row for row in ask("DESCRIBE rain")}
    assert list(described) == ["time", "lat", "lon", "land", "rain"]
    assert described["time"].data_type == "timestamp"
    rain = described["rain"]
    assert (rain.data_type, rain.dims, rain.chunks) == ("double", ["time", "lat", "lon"], [5, 6, 9])
    assert (rain.shape, rain.dtype) == ([20, 12, 18], "int16")
    assert json.loads(rain.attributes)["scale_factor"] == 0.1
    assert "array<string>" in {row.data_type for row in ask("DESCRIBE repo.snapshots")}
    assert [row.snapshot_id for row in ask("DESCRIBE HISTORY")][:2] == [
        weather.second, weather.first,
    ]  # fmt: skip
    assert [row.snapshot_id for row in ask("DESCRIBE HISTORY t")] == [weather.second, weather.first]
    assert [row.snapshot_id for row in ask("DESCRIBE HISTORY t LIMIT 1")] == [weather.second]
    for text, hint in (("DESCRIBE raim", "rain"), ("DESCRIBE HISTORY hieght", "height")):
        with pytest.raises(InvalidInputError, match=f"did you mean '{hint}'"):
            ask(text)


def test_a_plan_tells_what_is_read(spark: SparkSession, weather: Weather) -> None:
    def explain(text: str, *args: object) -> str:
        found: str = only(frazil.spark.sql(weather.repo, text, args, spark=spark, tag="v2")).plan
        return found

    query = "EXPLAIN SELECT lat, t FROM t WHERE lat > ? AND year(time) > ? AND t % 7 < 3"
    rows = explain(query, 20.5, 1)
    assert f"Repository: {weather.path}\nSnapshot: {weather.second}" in rows
    assert "columns: lat, t, time" in rows or "columns: time, lat, t" in rows
    assert "chunks of t: 8 of 16" in rows
    assert "evaluated by Spark only: t % 7 < 3" in rows
    assert "== Physical Plan ==" in rows
    means = explain("EXPLAIN FORMATTED SELECT lat, avg(t) FROM t WHERE lat < 0 GROUP BY lat")
    assert "aggregates pushed down: sum(t), count(t) by lat" in means
    assert "chunks: none" in explain("EXPLAIN SELECT count(*) FROM t")
    with pytest.raises(InvalidInputError, match="query"):
        explain("EXPLAIN DROP TABLE t")


def test_a_query_takes_parameters(spark: SparkSession, weather: Weather) -> None:
    warm = weather.dataset.t.where(weather.dataset.lat > 20)

    for query, args in (
        ("SELECT count(t) AS n FROM t WHERE lat > :north", {"north": 20}),
        ("SELECT count(t) AS n FROM t WHERE lat > ?", [20.0]),
        ("SELECT count(t) + :none AS n FROM t WHERE lat > :north", {"north": 20, "none": 0}),
        ("SELECT count(t) AS n FROM t WHERE lat > ?", [np.float64(20)]),
        (
            "SELECT count(t) AS n FROM t WHERE lat > 20 AND time >= :a AND time >= :b AND time >= :c",
            {"a": DAY, "b": pd.Timestamp(DAY, tz="UTC"), "c": pd.Timestamp(DAY)},
        ),
    ):
        found = only(frazil.spark.sql(weather.repo, query, args, spark=spark))
        assert found.n == int(warm.count())


def test_procedures_maintain_a_repository(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "repo")
    repo = frazil.Repository.create(frazil.local_filesystem_storage(url))
    session = repo.writable_session("main")
    frazil.xarray.to_icechunk(make_weather()[["height"]], session, mode="w")
    first = session.commit("heights")

    def call(text: str, place: str = url) -> Row:
        return only(frazil.spark.sql(place, f"CALL system.{text}", spark=spark))

    assert call("create_tag(tag => 'v1')").snapshot_id == first
    assert call("create_branch('dev', 'v1')").asDict() == {"snapshot_id": first, "branch": "dev"}
    analyzed = call("analyze(array('height'), message => 'measure')", f"{url}@dev")
    assert (analyzed.branch, analyzed.snapshot_id) == ("dev", repo.lookup_branch("dev"))
    assert call("fast_forward('main', to => 'dev')").snapshot_id == analyzed.snapshot_id
    assert call("rewrite_manifests()").snapshot_id == repo.lookup_branch("main")
    assert call("compact(arrays => 'height', smaller_than => '1MB')").job == "compact"
    assert call("rollback_to(branch => 'main', snapshot_id => 'v1')").snapshot_id == first
    assert repo.lookup_branch("main") == first
    assert call("delete_branch('dev')").branch == "dev"
    assert call("delete_tag('v1')").tag == "v1"
    assert repo.list_branches() | repo.list_tags() == {"main"}
    for age in (
        "INTERVAL 1 DAY", "TIMESTAMP '2000-01-01 00:00'", "current_date() - 9",
        "current_timestamp() - INTERVAL '1' DAY", "older_than => to_timestamp('2000-01-01')",
    ):  # fmt: skip
        assert call(f"expire_snapshots({age})").snapshots_expired == 0
    garbage = call("collect_garbage(older_than => '2100-01-01T00:00Z')")
    assert json.loads(garbage.summary)["snapshots_deleted"] >= 2
    for text, match in (
        ("rolback_to('main', 'v1')", "unknown procedure system.rolback_to: did you mean 'rollback_to'"),
        ("create_tag(tga => 'v1')", "has no argument 'tga': did you mean 'tag'"),
        ("create_tag('v1', tag => 'v1')", "twice"),
        ("delete_branch()", "needs the argument branch"),
        ("expire_snapshots('2026-01-01')", "no time zone, write '2026-01-01T00:00Z'"),
        ("expire_snapshots(nwo())", "can't evaluate the argument NWO"),
        ("collect_garbage('soon')", "invalid older_than 'soon'"),
        ("collect_garbage(INTERVAL 1 DAY, dry_run => 'false')", "dry_run 'false': expected bool"),
        ("rewrite_manifests(message => 5)", "invalid message 5: expected str"),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=match.replace("(", "\\(")):
            call(text)


def test_a_repository_in_memory_is_queried_and_changed(spark: SparkSession) -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    dataset = make_weather().assign(run=((), np.int32(3)))
    frazil.xarray.to_icechunk(dataset, session, mode="w")
    session.commit("weather")

    def ask(text: str) -> list[Row]:
        return frazil.spark.sql(repo, text, spark=spark).collect()

    cold = dataset.t.where(dataset.t < 270)
    assert len(ask("SELECT time, t FROM t WHERE t < 270")) == int(cold.count())
    assert ask("SELECT count(*) AS n FROM t JOIN height USING (lat, lon)")[0].n == dataset.t.size
    assert ask("SELECT chunk FROM repo.chunks WHERE array = '/height'")
    assert frazil.spark.read(repo, spark=spark).count() == dataset.t.size
    assert ask("UPDATE t SET t = 0 WHERE t < 270")[0].num_affected_rows == int(cold.count())
    assert ask("SELECT count(*) AS n FROM t WHERE t = 0")[0].n == int(cold.count())
    assert ask("UPDATE run SET run = run + 1")[0].num_affected_rows == 1
    assert ask("SELECT run FROM run")[0].run == 4


def test_the_source_of_a_merge_may_name_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    session = repo.writable_session("main")
    frazil.xarray.to_icechunk(make_weather()[["height"]], session, mode="w")
    session.commit("heights")

    merge = """
        MERGE INTO height AS h USING (VALUES (-55D, 0D, 1), (-55D, 20D, 2)) AS s(lat, lon, height)
        ON h.lat = s.lat AND h.lon = s.lon
        WHEN MATCHED AND s.height = 1 THEN UPDATE SET *
        WHEN MATCHED THEN UPDATE SET height = s.height + 100
    """
    assert only(frazil.spark.sql(repo, merge, spark=spark)).num_affected_rows == 2

    rows = frazil.spark.sql(
        repo, "SELECT height FROM height WHERE lat = -55 AND lon < 30", spark=spark
    )
    assert sorted(row.height for row in rows.collect()) == [1, 102]
