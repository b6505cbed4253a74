"""Repositories whose tables are views of a session, and catalogs of several."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import frazil.spark
from frazil.errors import InvalidInputError
from tests.spark.tables.conftest import Weather

pytestmark = pytest.mark.xdist_group("spark-tables")


def views_of(spark: SparkSession) -> set[str]:
    """The views of a session."""
    return {each.name for each in spark.catalog.listTables()}


def test_plain_spark_reads_an_attached_repository(spark: SparkSession, weather: Weather) -> None:
    before = views_of(spark)

    attached = frazil.spark.attach(weather.repo, "weather", spark=spark)

    assert attached.snapshot_id == weather.second
    assert views_of(spark) - before == set(attached.views)
    assert {"weather_t", "weather_height", "weather_cells", "weather_snapshots"} <= set(
        attached.views
    )
    (mean,) = spark.sql("SELECT avg(t) FROM weather_t WHERE lat > 0").collect()[0]
    assert mean == pytest.approx(float(weather.dataset.t.where(weather.dataset.lat > 0).mean()))
    assert [row.col_name for row in spark.sql("DESCRIBE weather_height").collect()] == [
        "lat", "lon", "land", "height",
    ]  # fmt: skip
    assert spark.table("weather_storage").count() > 0
    (plan,) = spark.sql("EXPLAIN EXTENDED SELECT * FROM weather_t").collect()[0]
    assert weather.path not in plan
    old = frazil.spark.attach(
        f"{weather.path}@v1",
        "weather",
        arrays=["t"],
        where="lat > 20.5",
        metadata=False,
        spark=spark,
    )
    assert (old.views, old.snapshot_id) == (("weather_t",), weather.first)
    assert spark.table("weather_t").count() == int((weather.dataset.lat > 20.5).sum()) * 20 * 18
    assert views_of(spark) - before == {"weather_t"}
    assert frazil.spark.detach("weather", spark=spark) == ("weather_t",)
    assert frazil.spark.detach("weather", spark=spark) == ()
    assert views_of(spark) == before


def test_views_of_others_stay(spark: SparkSession, weather: Weather) -> None:
    spark.range(3).createTempView("own_t")
    before = views_of(spark)
    try:
        with pytest.raises(InvalidInputError, match="can't attach t as own_t"):
            frazil.spark.attach(weather.repo, "own", spark=spark)
        assert views_of(spark) == before
        assert spark.table("own_t").count() == 3
        with pytest.raises(InvalidInputError, match="invalid name"):
            frazil.spark.attach(weather.repo, "a.b", spark=spark)
        shared = frazil.spark.attach(
            weather.repo, "own", arrays=["t"], metadata=False, is_global=True, spark=spark
        )
        assert shared.views == ("global_temp.own_t",)
        assert spark.newSession().table("global_temp.own_t").count() == 20 * 12 * 18
        assert frazil.spark.detach("own", spark=spark) == shared.views
    finally:
        spark.catalog.dropTempView("own_t")


def test_a_catalog_names_repositories(
    spark: SparkSession, weather: Weather, tmp_path: Path
) -> None:
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(f"""
        [weather]
        repo = "{weather.path}"
        [first]
        repo = "{weather.path}@v1"
        arrays = ["t"]
        metadata = false
    """)

    def ask(text: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in frazil.spark.sql(catalog, text, spark=spark).collect()]

    warming = """
        SELECT avg(new.t - old.t) FROM weather.t new JOIN first.t old USING (time, lat, lon)
        WHERE new.lat = 5 AND old.lat = 5
    """
    assert ask(warming) == [(pytest.approx(1),)]
    assert ask("SELECT count(*) FROM first.snapshots") == [(3,)]
    ((plan,),) = ask("EXPLAIN SELECT avg(t) FROM first.t WHERE lat > 20.5")
    assert f"Repository first: {weather.path}\nSnapshot: {weather.first}" in str(plan)
    assert "chunks of t: 8 of 16" in str(plan)
    assert ("first", "t", "array") in ask("SHOW TABLES")
    assert [row[0] for row in ask("DESCRIBE weather.height")] == ["lat", "lon", "land", "height"]
    assert ask("DESCRIBE HISTORY first.t")[0][0] == weather.first
    for text, match in (
        ("CALL system.analyze()", "can't change a catalog"),
        ("SHOW TABLES IN frist", "did you mean 'first'"),
        ("DESCRIBE t", "names no repository"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            ask(text)
    attached = frazil.spark.attach_catalog(catalog, spark=spark)
    assert attached["first"].views == ("first_t",)
    for name in attached:
        frazil.spark.detach(name, spark=spark)
    for text, match in (
        ("x = 1", "x in the catalog .* names no repository"),
        ("[x]\nrepo = 'y'\nbrnch = 'main'", "did you mean 'branch'"),
        ("[x", "can't read the catalog"),
    ):
        catalog.write_text(text)
        with pytest.raises(InvalidInputError, match=match):
            frazil.spark.attach_catalog(catalog, spark=spark)
