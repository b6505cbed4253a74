"""Statements that change cells, beside the same changes in memory."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Row, SparkSession

import frazil
import frazil.spark
from frazil import Repository
from frazil.errors import InvalidInputError, JobError
from frazil.repository.session import Session
from frazil.spark.tables.write_frame import write_rows
from frazil.tables.table_options import make_write_options

pytestmark = pytest.mark.xdist_group("spark-tables")

DAYS, PLACES = 6, 8
Array = NDArray[Any]


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """Days by places: numbers with gaps, counts that can't be null, and heights without a time."""
    repo = Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    session = repo.writable_session("main")
    generator = np.random.default_rng(3)
    v = generator.integers(-9, 9, (DAYS, PLACES)) / 2
    v[generator.random(v.shape) < 0.2] = np.nan
    days = np.datetime64("2020-01-01", "ns") + np.arange(DAYS) * np.timedelta64(1, "D")
    dataset = xr.Dataset(
        {
            "v": (("time", "x"), v),
            "n": (("time", "x"), generator.integers(1, 9, v.shape).astype("i4")),
            "height": ("x", np.arange(PLACES) * 1.0),
        },
        {"time": days, "x": np.arange(PLACES) / 2},
    )
    frazil.xarray.to_icechunk(
        dataset, session, mode="w", encoding={"v": {"chunks": (2, 3)}, "n": {"chunks": (4, 5)}}
    )
    repo.create_tag("v1", session.commit("first"))
    return repo


def read(repo: Repository) -> xr.Dataset:
    """What is on main."""
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None).load()
    return found


def run(spark: SparkSession, repo: Repository, text: str, args: Any = None) -> Row:
    """The report of a statement."""
    (row,) = frazil.spark.sql(repo, text, args, spark=spark).collect()
    return row


def pick_condition(random: Random, data: xr.Dataset) -> tuple[str, Array]:
    """A condition on a row of `cells`, and where it is true."""
    day, place, value = random.randrange(DAYS), random.randrange(PLACES) / 2, random.randint(-6, 6)
    time = np.broadcast_to(data.time.values[:, None], data.v.shape)
    x = np.broadcast_to(data.x.values[None, :], data.v.shape)
    choices = [
        (f"time >= '2020-01-0{day + 1}'", time >= data.time.values[day]),
        (f"x < {place}", x < place),
        (f"x IN ({place}, 99)", x == place),
        (f"v > {value}", data.v.values > value),
        ("v IS NULL", np.isnan(data.v.values)),
        ("n % 2 = 0", data.n.values % 2 == 0),
    ]
    (a, a_mask), (b, b_mask) = random.sample(choices, 2)
    return random.choice([(f"{a} AND {b}", a_mask & b_mask), (f"({a}) OR {b}", a_mask | b_mask)])


@pytest.mark.parametrize("seed", [1, 2])
def test_random_changes_equal_those_in_memory(
    spark: SparkSession, repo: Repository, seed: int
) -> None:
    random = Random(seed)
    for verb in random.sample(["UPDATE v", "UPDATE n", "DELETE", "MERGE", "INSERT"], 5):
        data = read(repo)
        v, n = data.v.values.copy(), data.n.values.copy()
        condition, mask = pick_condition(random, data)
        points = sorted(random.sample(range(DAYS * PLACES), 9))
        days, places = np.unravel_index(points, v.shape)
        rows = [
            (int(p), int(d), float(data.x.values[x]))
            for p, d, x in zip(points, days, places, strict=True)
        ]
        source = spark.createDataFrame(rows, "p long, day int, x double").selectExpr(
            "timestamp_seconds(1577836800 + 86400 * day) AS time", "x", "p / 4 AS value"
        )  # fmt: skip
        source.createOrReplaceTempView("points")
        given = np.zeros(v.shape, bool)
        given[days, places] = True
        value = np.arange(v.size).reshape(v.shape) / 4
        match verb:
            case "UPDATE v":
                text = f"UPDATE cells AS c SET v = c.v * 2 + c.x WHERE {condition}"
                v = np.where(mask, v * 2 + data.x.values, v)
            case "UPDATE n":
                text = (
                    f"UPDATE cells SET n = n + 1, v = CASE WHEN n > 4 THEN 0 END WHERE {condition}"
                )
                n, v = np.where(mask, n + 1, n), np.where(mask, np.where(n > 4, 0, np.nan), v)
            case "DELETE":
                text = "DELETE FROM n WHERE n > 4"
                mask = n > 4
                n = np.where(mask, 0, n)
            case "INSERT":
                text = "INSERT INTO v SELECT time, x, value FROM points"
                mask, v = given, np.where(given, value, v)
            case _:
                text = """
                    MERGE INTO v USING points p ON v.time = p.time AND p.x = v.x
                    WHEN MATCHED AND v.v > 0 THEN DELETE
                    WHEN MATCHED AND p.value > 3 THEN UPDATE SET v = v.v + p.value
                    WHEN NOT MATCHED BY SOURCE AND v.x > 3 THEN UPDATE SET v = -1
                """
                is_high, is_rest = given & ~(v > 0) & (value > 3), ~given & (data.x.values > 3)
                mask = (given & (v > 0)) | is_high | is_rest
                v = np.select([given & (v > 0), is_high, is_rest], [np.nan, v + value, -1.0], v)
        before = repo.lookup_branch("main")

        report = run(spark, repo, text)

        found = read(repo)
        np.testing.assert_array_equal(found.v.values, v, err_msg=text)
        np.testing.assert_array_equal(found.n.values, n, err_msg=text)
        assert report.num_affected_rows == mask.sum()
        if mask.any():
            tip = next(repo.ancestry(branch="main"))
            assert (tip.id, tip.parent_id) == (report.snapshot_id, before)
            assert tip.message.startswith(verb.split()[0])
        xr.testing.assert_identical(found.height, data.height)


def test_rows_are_inserted_by_name_and_at_new_coordinates(
    spark: SparkSession, repo: Repository
) -> None:
    first = read(repo)
    run(spark, repo, "UPDATE v SET v = 0")
    run(spark, repo, "INSERT INTO v SELECT * FROM v VERSION AS OF 'v1'")
    xr.testing.assert_identical(read(repo).v, first.v)
    run(spark, repo, "INSERT INTO v (v, x, time) VALUES (?, 0.5, DATE '2020-01-02')", [7.5])
    assert read(repo).v.values[1, 1] == 7.5
    # A time without a zone is one of the session's zone, as in conditions.
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        text = "INSERT INTO v (v, x, time) VALUES (8, 0.5, TIMESTAMP_NTZ '2020-01-02 19:00:00')"
        run(spark, repo, text)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert read(repo).v.values[1:3, 1].tolist() == [7.5, 8]
    merged = """
        MERGE INTO v WITH (append_dim = 'time', message = 'a new day') AS t
        USING (SELECT time + INTERVAL 1 DAY AS time, x, n FROM n WHERE time >= '2020-01-05') s
        ON t.time = s.time AND t.x = s.x
        WHEN MATCHED THEN UPDATE SET v = s.n
        WHEN NOT MATCHED AND s.x < 2 THEN INSERT (time, x, v) VALUES (s.time, s.x, -s.n)
    """

    report = run(spark, repo, merged)

    assert report.num_affected_rows == PLACES + 4
    found = read(repo)
    assert found.sizes["time"] == DAYS + 1
    assert found.v.values[-2].tolist() == first.n.values[-2].tolist()
    assert found.v.values[-1, :4].tolist() == (-first.n.values[-1, :4]).tolist()
    assert np.isnan(found.v.values[-1, 4:]).all()
    assert next(repo.ancestry(branch="main")).message == "a new day"


def test_changes_that_make_no_sense_are_refused(spark: SparkSession, repo: Repository) -> None:
    before = repo.lookup_branch("main")
    for text, match in (
        ("UPDATE v SET x = 1", "can't assign to x: it is a coordinate"),
        ("DELETE FROM x", "can't DELETE x: it is the coordinate of a dimension"),
        ("UPDATE v SET vv = 1", "unknown column 'vv': did you mean 'v'"),
        ("UPDATE w SET v = 1", "unknown table 'w'"),
        ("UPDATE cells SET height = 1", "height has no dimension time"),
        ("DELETE FROM cells", "height has no dimension time"),
        ("UPDATE repo.snapshots SET message = ''", "can't change repo.snapshots"),
        ("INSERT INTO v VALUES (1, 2)", "INSERT has 2 values for 3 columns"),
        ("INSERT INTO v VALUES (TIMESTAMP '2030-01-01', 0, 1)", "time has no coordinate 2030"),
        ("UPDATE n SET n = NULL", "the column n has nulls"),
        ("UPDATE n SET n = n / 3", "n"),
        ("MERGE INTO v USING (SELECT 0.5D AS x FROM range(2)) s ON v.x = s.x "
         "WHEN MATCHED THEN UPDATE SET v = 1", "several rows for time=2020-01-01"),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=match):
            run(spark, repo, text)
    with pytest.raises(JobError, match="the column n has nulls"):
        run(spark, repo, "MERGE INTO n USING (SELECT 0.5D AS x) s ON n.x = s.x "
            "WHEN MATCHED AND n.n > 4 THEN DELETE WHEN MATCHED THEN UPDATE SET n = NULL")  # fmt: skip
    with pytest.raises(InvalidInputError, match="UPDATE needs a branch, and v1 is a tag"):
        frazil.spark.sql(repo, "UPDATE v SET v = 1", tag="v1", spark=spark)
    assert run(spark, repo, "UPDATE v SET v = 1 WHERE x > 99").snapshot_id is None
    assert repo.lookup_branch("main") == before


def test_a_change_is_computed_again_after_a_concurrent_commit(
    spark: SparkSession, repo: Repository
) -> None:
    first = read(repo).v.values
    bases = []

    def make(session: Session) -> DataFrame:
        bases.append(session.snapshot_id)
        rows = frazil.spark.sql(repo, "SELECT time, x, v + 1 FROM v", spark=spark)
        if len(bases) == 1:
            frazil.spark.sql(repo, "UPDATE v SET v = v * 2", spark=spark)
        return rows.toDF("time", "x", "v")

    write_rows("update", repo, make_write_options(branch="main"), spark, make)

    assert len(bases) == len(set(bases)) == 2
    np.testing.assert_array_equal(read(repo).v.values, first * 2 + 1)
