"""Queries in SQL: right as Spark answers them, and only the chunks and columns read that they need."""

from datetime import datetime

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import frazil.spark
from frazil.errors import IcechunkError, InvalidInputError
from tests.spark.tables.conftest import Weather

pytestmark = pytest.mark.xdist_group("spark-tables")


def test_arrays_are_tables(spark: SparkSession, weather: Weather) -> None:
    query = """
        SELECT lat, avg(t) AS mean, count(*) AS cells FROM t
        WHERE time >= '2020-01-03' AND time < '2020-01-08' AND t.lat BETWEEN 0 AND 20
        GROUP BY lat ORDER BY lat
    """

    found = frazil.spark.sql(weather.repo, query, spark=spark).collect()

    part = weather.dataset.t.isel(time=slice(2, 7)).sel(lat=slice(0, 20))
    assert [row.lat for row in found] == part.lat.values.tolist()
    assert [row.cells for row in found] == [5 * 18] * 2
    assert [row.mean for row in found] == pytest.approx(part.mean(("time", "lon")).values)


def test_a_group_is_a_table_and_joins_with_others(spark: SparkSession, weather: Weather) -> None:
    spark.createDataFrame(
        [(0.0, "a"), (40.0, "b")], "lon double, name string"
    ).createOrReplaceTempView("names")
    query = """
        WITH wet AS (SELECT * FROM cells WHERE rain > 4)
        SELECT n.name, count(*) AS wet, max(c.height) AS height FROM wet c
        JOIN names n ON n.lon = c.lon WHERE c.lat = 5 GROUP BY n.name ORDER BY n.name
    """

    found = frazil.spark.sql(weather.path, query, spark=spark).collect()

    rain = weather.dataset.rain.sel(lat=5, lon=[0, 40])
    assert [row.name for row in found] == ["a", "b"]
    assert [row.wet for row in found] == (rain > 4).sum("time").values.tolist()
    heights = weather.dataset.height.sel(lat=5, lon=[0, 40])
    assert [row.height for row in found] == heights.values.tolist()
    spark.catalog.dropTempView("names")


def test_tables_are_read_at_the_version_that_they_are_asked_for_at(
    spark: SparkSession, weather: Weather
) -> None:
    query = """
        SELECT avg(new.t - old.t) AS warming FROM t AS new
        JOIN t VERSION AS OF 'v1' AS old USING (time, lat, lon) WHERE new.lat = 5 AND old.lat = 5
    """

    found = frazil.spark.sql(weather.repo, query, spark=spark).first()

    assert found is not None
    assert found.warming == pytest.approx(1)
    cold = frazil.spark.sql(
        weather.repo, "SELECT avg(t) AS t FROM t", spark=spark, tag="v1"
    ).first()
    assert cold is not None
    assert cold.t == pytest.approx(float(weather.dataset.t.mean()) - 1)


def test_a_time_of_a_version_may_be_an_expression(spark: SparkSession, weather: Weather) -> None:
    query = "SELECT avg(t) AS t FROM t TIMESTAMP AS OF {} AS x WHERE x.lat IS NOT NULL"
    now, before = "current_timestamp() + INTERVAL 1 MINUTE", "date_sub(current_date(), 2)"

    found = frazil.spark.sql(weather.repo, query.format(now), spark=spark).first()

    assert found is not None
    assert found.t == pytest.approx(float(weather.dataset.t.mean()))
    with pytest.raises(IcechunkError, match="main"):
        frazil.spark.sql(weather.repo, query.format(before), spark=spark)
    for given in (
        "nothing()",
        "(SELECT max(written_at) FROM snapshots)",
        "CAST(NULL AS TIMESTAMP)",
    ):
        with pytest.raises(InvalidInputError, match=r"behind AS OF: .+ gives no time"):
            frazil.spark.sql(weather.repo, query.format(given), spark=spark)


def test_a_query_leaves_no_views_behind(spark: SparkSession, weather: Weather) -> None:
    before = spark.catalog.listTables()

    frame = frazil.spark.sql(weather.repo, "SELECT count(*) AS n FROM height", spark=spark)

    assert spark.catalog.listTables() == before
    assert [row.n for row in frame.collect()] == [12 * 18]


@pytest.mark.parametrize(("condition", "days"), [
    ("time >= DATE '2020-01-03 18:00:00'", 18),
    ("time >= CAST('2020-01-03 18:00' AS DATE)", 18),
    ("time >= TIMESTAMP '2020-01-03 18:00:00'", 17),
])  # fmt: skip
def test_a_date_is_midnight_whatever_follows_it(
    spark: SparkSession, weather: Weather, condition: str, days: int
) -> None:
    for counted in ("count(*) AS n", "count(DISTINCT time) * 216 AS n"):
        query = f"SELECT {counted} FROM t WHERE {condition}"

        found = frazil.spark.sql(weather.repo, query, spark=spark).first()

        assert found is not None
        assert found.n == days * 12 * 18


def test_a_with_clause_may_have_the_name_of_its_array(
    spark: SparkSession, weather: Weather
) -> None:
    spark.createDataFrame([(5.0, 1.0)], "lat double, t double").createOrReplaceTempView("t")
    query = "WITH t AS (SELECT lat, t FROM t WHERE lat > 0) SELECT count(*) AS n FROM t"
    try:
        found = frazil.spark.sql(weather.repo, query, spark=spark).first()
    finally:
        spark.catalog.dropTempView("t")

    assert found is not None
    assert found.n == 20 * 6 * 18


def test_a_lateral_subquery_reads_an_array_for_each_row(
    spark: SparkSession, weather: Weather
) -> None:
    query = """
        SELECT m.t FROM VALUES (5), (15) AS s(lat),
        LATERAL (SELECT max(t) AS t FROM t WHERE lat = s.lat) m
    """

    found = frazil.spark.sql(weather.repo, query, spark=spark).collect()

    expected = weather.dataset.t.sel(lat=[5, 15]).max(["time", "lon"]).values
    assert sorted(row.t for row in found) == pytest.approx(sorted(expected))


def test_without_ansi_a_time_in_a_list_is_a_text(spark: SparkSession, weather: Weather) -> None:
    counts = {}
    for ansi in ("true", "false"):
        session = spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", ansi)
        session.conf.set("spark.sql.session.timeZone", "UTC")
        for text in ("2020-01-02", "2020-01-02 00:00:00"):
            query = f"SELECT count(*) AS n FROM t WHERE time IN ('{text}')"
            found = frazil.spark.sql(weather.repo, query, spark=session).first()
            assert found is not None
            counts[ansi, len(text)] = found.n

    assert counts == {("true", 10): 216, ("true", 19): 216, ("false", 10): 0, ("false", 19): 216}


def test_columns_are_suggested_from_all_that_the_table_has(
    spark: SparkSession, weather: Weather
) -> None:
    for query in ("SELECT lat, heihgt FROM height", "SELECT max(heihgt) FROM height WHERE lat > 0"):
        with pytest.raises(AnalysisException, match=r"Did you mean.*`height`"):
            frazil.spark.sql(weather.repo, query, spark=spark)


def test_what_is_no_query_is_refused(spark: SparkSession, weather: Weather) -> None:
    for text in ("DROP TABLE t", "SELECT 1; SELECT 2", "SELECT FROM WHERE"):
        with pytest.raises(InvalidInputError, match="query"):
            frazil.spark.sql(weather.repo, text, spark=spark)


def test_points_and_zones_are_table_functions(spark: SparkSession, weather: Weather) -> None:
    places = spark.createDataFrame(
        [("a", 7.0, 33.0, datetime(2020, 1, 3)), ("b", -50.0, 341.0, datetime(2020, 1, 9))],
        "name string, lat double, lon double, time timestamp",
    )
    zones = spark.createDataFrame(
        [("z", "POLYGON ((25 0, 70 0, 70 28, 25 28, 25 0))")], "n string, geometry string"
    )
    places.createOrReplaceTempView("places")
    zones.createOrReplaceTempView("zones")

    def ask(text: str, **args: object) -> list[tuple[object, ...]]:
        return sorted(
            map(tuple, frazil.spark.sql(f"{weather.path}@v1", text, args, spark=spark).collect())
        )

    old = f"{weather.path}@v1"
    assert ask(
        "SELECT p.name, p.t, l.t FROM points(TABLE places, 't') p "
        "JOIN points(TABLE (SELECT * FROM places WHERE lat > :least), 't', method => 'linear') l "
        "USING (name)",
        least=0,
    ) == [
        (name, near, between)
        for (name, near), (_, between) in zip(
            *(
                frazil.spark.points(old, places.where("lat > 0"), "t", method=method, spark=spark)
                .select("name", "t")
                .collect()
                for method in ("nearest", "linear")
            ),
            strict=True,
        )
    ]
    means = frazil.spark.zonal(old, zones, "t", stats=["max"], spark=spark)
    assert ask(
        "SELECT n, max(t_max) FROM zonal(TABLE zones, 't', stats => array('max')) GROUP BY n"
    ) == [("z", max(row.t_max for row in means.collect()))]
    for text, match in (
        ("SELECT * FROM points(TABLE places, 't', methd => 'linear')", "did you mean 'method'"),
        ("SELECT * FROM points(TABLE places)", "needs arrays"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            ask(text)
    spark.catalog.dropTempView("places")
    spark.catalog.dropTempView("zones")


def test_table_functions_take_several_arrays(spark: SparkSession, weather: Weather) -> None:
    spark.createDataFrame(
        [(7.0, 33.0, datetime(2020, 1, 3))], "lat double, lon double, time timestamp"
    ).createOrReplaceTempView("places")

    def ask(call: str) -> list[tuple[object, ...]]:
        text = f"SELECT t, height FROM points(TABLE places, {call})"
        return list(map(tuple, frazil.spark.sql(weather.repo, text, spark=spark).collect()))

    found = ask("'t', 'height'")
    assert len(found) == 1
    assert found == ask("array('t', 'height')") == ask("variables => array('t', 'height')")
    with pytest.raises(InvalidInputError, match="points needs arrays"):
        ask("5")
    zonal = "SELECT zone, height_count FROM zonal(TABLE ({}), 'height', stats => array('count'))"
    shape = "SELECT 'POLYGON ((25 0, 70 0, 70 28, 25 28, 25 0))' AS geometry"
    (row,) = frazil.spark.sql(weather.repo, zonal.format(shape), spark=spark).collect()
    assert (row.zone, row.height_count > 0) == (0, True)
