"""Cells of arrays as frames: the data source, `frazil.spark.read`, and what Spark makes of them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

import frazil
import frazil.spark
from frazil import Repository
from frazil.errors import InvalidInputError
from frazil.repository.virtual_refs import spell_ids
from tests.spark.tables.conftest import Weather

pytestmark = pytest.mark.xdist_group("spark-tables")

KEYS = ["time", "lat", "lon"]


def rows(frame: DataFrame) -> pd.DataFrame:
    """All rows, in an order."""
    found = frame.toArrow().to_pandas()
    if "time" in found:
        found["time"] = found["time"].dt.tz_localize(None).astype("datetime64[ns]")
    return found.sort_values([key for key in KEYS if key in found], ignore_index=True)


def expect(weather: Weather, **kept: Any) -> pd.DataFrame:
    """The rows that pandas has of the dataset."""
    frame = weather.dataset.to_dataframe(dim_order=KEYS).reset_index()
    for name, test in kept.items():
        frame = frame[test(frame[name])]
    return frame.sort_values(KEYS, ignore_index=True)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    columns = list(found.columns)
    pd.testing.assert_frame_equal(found, expected[columns], check_dtype=False, rtol=1e-6)


@pytest.fixture
def load(spark: SparkSession, weather: Weather) -> Any:
    """Load with the data source."""

    def run(**options: str) -> DataFrame:
        reader = spark.read.format("icechunk").option("repo", weather.path)
        return reader.options(**options).load()

    return run


def test_the_data_source_and_read_give_the_rows_of_xarray(
    spark: SparkSession, weather: Weather, load: Any
) -> None:
    expected = expect(weather)

    assert_same(rows(load()), expected)
    assert_same(rows(frazil.spark.read(weather.repo, target_size="64kB", spark=spark)), expected)


def test_columns_have_the_types_of_what_xarray_decodes(load: Any) -> None:
    types = {field.name: field.dataType.simpleString() for field in load().schema}

    assert types == {
        "time": "timestamp", "lat": "double", "lon": "double", "land": "string",
        "t": "double", "rain": "double", "height": "int",
    }  # fmt: skip


def test_a_frame_is_right_however_it_is_used(
    spark: SparkSession, weather: Weather, load: Any
) -> None:
    expected = expect(weather)
    days = pd.to_datetime(["2020-01-04", "2020-01-18"])
    kept = expect(weather, time=lambda each: (each < days[0]) | (each >= days[1]))
    for frame in (load(), frazil.spark.read(weather.repo, spark=spark)):
        early, late = frame.where("time < '2020-01-04'"), frame.where("time >= '2020-01-18'")

        assert frame.count() == len(expected)
        assert late.count() == 3 * 12 * 18
        assert frame.count() == len(expected)
        found = rows(early.union(late))
        assert_same(found, kept)
        cached = frame.select("time", "lat", "t").cache()
        assert cached.where("lat = 5").count() == 20 * 18
        assert cached.count() == frame.count() == len(expected)
        cached.unpersist()


@pytest.mark.parametrize("where", [
    "time BETWEEN '2020-01-03' AND TIMESTAMP '2020-01-05 00:00:00' AND lat > 20",
    "(lat IN (5, 15) OR lon < 25) AND NOT time <> '2020-01-20'",
    "land = 'zone 1' AND t > 281 AND rain <= 2.5",
    "t IS NULL AND lon = 100",
])  # fmt: skip
def test_a_condition_gives_what_sparks_own_filter_gives(
    spark: SparkSession, weather: Weather, load: Any, where: str
) -> None:
    expected = rows(load().where(where))

    assert 0 < len(expected) < 20 * 12 * 18
    assert_same(rows(load(where=where)), expected)
    assert_same(rows(frazil.spark.read(weather.repo, where=where, spark=spark)), expected)


def test_any_condition_of_spark_can_be_given_to_read(spark: SparkSession, weather: Weather) -> None:
    where = "year(time) = 2020 AND abs(lat) < 10 AND lat < lon AND time < '2020-01-06'"

    found = frazil.spark.read(weather.repo, columns=["t", "lat"], where=where, spark=spark)

    assert found.columns == ["t", "lat"]
    assert found.count() == 5 * (18 + 17)


def test_what_only_spark_can_evaluate_is_refused_by_the_data_source(load: Any) -> None:
    with pytest.raises(AnalysisException, match=r"only Spark can evaluate ABS\(lat\) < 10"):
        load(where="abs(lat) < 10")


def test_spark_copies_rows_and_not_the_lists_that_hold_them(
    spark: SparkSession, weather: Weather
) -> None:
    frame = frazil.spark.read(weather.repo, columns=["lat", "t"], spark=spark)
    known = spark.createDataFrame([(5.0,)], "lat double").hint("merge")
    plus_one = functions.udf("double")(lambda t: None if t is None else t + 1)
    changed = frame.select("lat", plus_one("t").alias("t"))
    kept = frame.join(known, "lat", "left_semi")

    for other, copying in ((changed, "EvalPython"), (kept, "Exchange hashpartitioning")):
        plan: Any = other
        plan = plan._jdf.queryExecution().executedPlan().toString()
        assert "Project [CASE" in plan[plan.index(copying) : plan.index("Generate")], plan
    assert kept.count() == 20 * 18
    expected = float(weather.dataset.t.sum()) + int(weather.dataset.t.count())
    assert changed.agg({"t": "sum"}).collect()[0][0] == pytest.approx(expected)


def test_chunks_that_a_condition_leaves_out_are_not_read(
    spark: SparkSession, weather: Weather, tmp_path: Path
) -> None:
    shutil.copytree(weather.path, tmp_path / "repo")
    repo = Repository.open(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    view = repo.readonly_session("main").state.view
    node, _ = view.get_array("/t")
    for table in view.tables(node):
        ids = spell_ids(table.chunk_id)
        for coordinate, id in zip(table.coordinates.tolist(), ids, strict=True):
            if coordinate[0] != 1:
                (tmp_path / "repo" / "chunks" / id).unlink()
    where = "time >= '2020-01-06' AND time < '2020-01-11'"

    found = frazil.spark.read(repo, variables=["t"], where=where, spark=spark)

    assert found.count() == 5 * 12 * 18
    with pytest.raises(PythonException):
        frazil.spark.read(repo, variables=["t"], spark=spark).collect()
    assert frazil.spark.read(repo, variables=["rain"], spark=spark).count() == 20 * 12 * 18


def test_a_frame_stays_at_the_version_that_it_was_loaded_at(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "repo")
    repo = Repository.create(frazil.local_filesystem_storage(path))

    def write(value: int) -> None:
        session = repo.writable_session("main")
        array = zarr.create_array(
            session.store, name="a", shape=(4,), chunks=(2,), dtype="i4",
            dimension_names=["x"], overwrite=True,
        )  # fmt: skip
        array[:] = value
        session.commit(f"{value}")

    def load() -> DataFrame:
        return spark.read.format("icechunk").option("repo", path).load()

    write(1)
    old, quick = load(), frazil.spark.read(repo, spark=spark)
    write(2)

    for frame in (old, quick):
        assert [tuple(row) for row in frame.orderBy("x").collect()] == [(x, 1) for x in range(4)]
        assert frame.where("x < 2").count() == 2
    assert {row.a for row in load().collect()} == {2}


def test_versions_are_chosen_by_name_and_time(load: Any, weather: Weather) -> None:
    query = {"variables": "t", "where": "time = '2020-01-01' AND lat = 5 AND lon = 0"}
    warm, cold = load(**query).first().t, load(tag="v1", **query).first().t

    assert warm == pytest.approx(cold + 1)
    assert load(snapshot=weather.first, **query).first().t == cold
    moment = next(iter(weather.repo.ancestry(snapshot_id=weather.first))).written_at
    assert load(as_of=moment.isoformat(), **query).first().t == cold
    assert load(versionAsOf="v1", **query).first().t == cold
    assert load(timestampAsOf=moment.isoformat(sep=" "), **query).first().t == cold


def test_options_that_there_are_not_are_refused_wherever_they_are_given(
    spark: SparkSession, weather: Weather, load: Any, tmp_path: Path
) -> None:
    frame = spark.range(1)
    rate = spark.readStream.format("rate").load()
    feed = spark.readStream.format("icechunk").option("repo", weather.path)
    sink = rate.writeStream.format("icechunk").option("repo", weather.path)
    checkpoint = str(tmp_path / "checkpoint")

    with pytest.raises(AnalysisException, match="did you mean 'tag'"):
        load(tagg="v1")
    with pytest.raises(AnalysisException, match="no-such"):
        load(versionAsOf="no-such")
    with pytest.raises(AnalysisException, match="no option 'max_commits'"):
        load(table="changes", max_commits="1").collect()
    with pytest.raises(AnalysisException, match="did you mean 'dims'"):
        frame.write.format("icechunk").options(repo=weather.path, dim="id").mode("append").save()
    with pytest.raises(AnalysisException, match="did you mean 'max_commits'"):
        feed.options(table="changes", max_commit="1").load()
    query = sink.options(checkpointLocation=checkpoint, dim="value").trigger(once=True).start()
    with pytest.raises(StreamingQueryException, match="did you mean 'dims'"):
        query.awaitTermination()
    with pytest.raises(InvalidInputError, match="did you mean 'branch'"):
        frazil.spark.read(weather.repo, brnch="dev", spark=spark)
    with pytest.raises(InvalidInputError, match="did you mean 'tag'"):
        frazil.spark.read(weather.repo, Tag="v1", spark=spark)
    assert weather.repo.lookup_branch("main") == weather.second


def test_a_table_of_the_catalog_is_refused_and_a_view_is_not(
    spark: SparkSession, weather: Weather, tmp_path: Path
) -> None:
    options = f"USING icechunk OPTIONS (repo '{weather.path}', variables 'height')"

    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE heights {options}")
    spark.sql(f"CREATE TABLE heights (lat DOUBLE) {options} LOCATION '{tmp_path}'")
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.sql("SELECT * FROM heights").collect()
    spark.sql("DROP TABLE heights")
    spark.sql(f"CREATE TEMPORARY VIEW heights {options}")
    assert spark.table("heights").count() == 12 * 18
    spark.catalog.dropTempView("heights")


def test_one_row_may_be_a_chunk(load: Any, weather: Weather) -> None:
    found = load(layout="chunks", variables="t", where="lat > 50 AND time < '2020-01-02'")

    first, second = sorted(found.collect(), key=lambda row: row.chunk)
    assert (first.chunk, second.chunk) == ([0, 1, 0], [0, 1, 1])
    assert (first.shape, first.lat_min, first.lat_max, first.lon_max) == ([5, 6, 9], 5, 55, 160)
    values = np.array([np.nan if each is None else each for each in second.t]).reshape(5, 6, 9)
    np.testing.assert_array_equal(values, weather.dataset.t.values[:5, 6:, 9:])


def test_arrays_that_are_cut_differently_are_no_rows_of_chunks(
    spark: SparkSession, weather: Weather
) -> None:
    with pytest.raises(InvalidInputError, match="equal chunks with `variables`"):
        frazil.spark.read(weather.repo, layout="chunks", spark=spark)


def test_a_result_is_a_dataset_and_back(spark: SparkSession, weather: Weather) -> None:
    query = "SELECT time, lat, avg(t) AS t, count(*) AS n FROM t WHERE lat > 0 GROUP BY time, lat"

    found = frazil.spark.to_xarray(
        frazil.spark.sql(weather.repo, query, spark=spark), ["time", "lat"]
    )

    expected = weather.dataset.t.sel(lat=slice(0, None)).mean("lon").drop_vars("land")
    xr.testing.assert_allclose(found.t, expected)
    frame = frazil.spark.from_xarray(found, spark=spark)
    assert frame.columns == ["time", "lat", "t", "n"]
    assert frame.schema["time"].dataType.simpleString() == "timestamp"
    xr.testing.assert_identical(frazil.spark.to_xarray(frame, ["time", "lat"]), found)
