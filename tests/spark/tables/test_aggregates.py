"""Queries that ask for sums of cells: handed over as partial sums, with the result of single cells."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.spark import runtime
from frazil.spark.tables import read
from frazil.xarray import to_icechunk

pytestmark = pytest.mark.xdist_group("spark-tables")

SUMMED = [
    "SELECT sum(v), avg(v), count(v), min(v) AS low, max(v) AS high, count(*) FROM {t}",
    "SELECT lat, time, sum(v) AS v FROM {t} WHERE lon >= 2 GROUP BY lat, time",
    "SELECT zone, max(v) - min(v) AS span FROM {t} GROUP BY zone ORDER BY span DESC LIMIT 2",
    "SELECT x.lon AS lon, sum(x.v) AS v FROM {t} x WHERE x.v > 10 GROUP BY x.lon HAVING sum(x.v) > 20",
    "SELECT min(n) AS low, max(n) AS high, sum(n) AS n FROM {t} WHERE lat > 1000 OR n > 200",
    "SELECT lat, sum(v) AS v FROM {t} WHERE lat > 1000 GROUP BY lat",
    "SELECT count(v) + 1 AS more, sum(lat) AS lats FROM {t} WHERE v < 40 OR time >= '2020-01-05'",
    "SELECT year(time), quarter(time), dayofyear(time), hour(time), sum(v) AS v FROM {t} WHERE lat > 5 "
    "GROUP BY year(time), quarter(time), dayofyear(time), hour(time)",
    "SELECT date_trunc('month', time), floor(lat / 20) AS band, min(v) AS v, count(*) AS c FROM {t} "
    "GROUP BY date_trunc('month', time), floor(lat / 20) HAVING count(*) > 1 ORDER BY band",
    "SELECT CASE WHEN lat > 15 THEN 'north' ELSE zone END AS part, round(avg(v), 3) AS v FROM {t} "
    "GROUP BY 1 ORDER BY part",
    "SELECT CAST(time AS DATE) AS day, CAST(lat - 25 AS INT) DIV 20 AS band, max(n) AS n FROM {t} "
    "GROUP BY day, band",
    "SELECT stddev(v), variance(v), var_pop(v), std(v), var_samp(n), stddev_samp(lat) FROM {t}",
    "SELECT month(time) AS m, lat, stddev(v) AS s FROM {t} WHERE v > 5 "
    "GROUP BY month(time), lat HAVING s > 1 ORDER BY s",
    "SELECT weekofyear(time) AS m, lat, lon, avg(v) AS v, median(v), min_by(time, v) AS t FROM {t} "
    "GROUP BY 1, lat, lon",
    "SELECT median(v), percentile(v, array(0.1, 0.5)), percentile(n, 0.9) AS p, count_if(v > 20), "
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY v), percentile_approx(n, 0.4), "
    "sum(v) FILTER (WHERE lat > 15), count(DISTINCT lat) FROM {t}",
    "SELECT floor(lat / 20) AS band, count(DISTINCT floor(lat / 10)), count(DISTINCT lat, zone) AS p, "
    "count(DISTINCT lon) FILTER (WHERE lat > 15) AS c, sum(v) AS v FROM {t} GROUP BY band",
    "SELECT median(v), min_by(lat, v), count_if(v > 3), stddev(v), sum(v) FROM {t} WHERE lat > 1000",
    "SELECT zone, max_by(v, v) AS x, min_by(zone, v + n) AS y FROM {t} WHERE v <> 20 GROUP BY zone",
    "SELECT avg(v - 273.15), sum(v * n) AS s, min(-v), avg(power(v, 2)), sum(if(v > n, 1, 0)), "
    "sum(CASE WHEN v > 20 THEN v ELSE n END), avg(coalesce(v, 0)) FROM {t}",
    "SELECT avg(v) AS v FROM {t} WHERE v - n > 3 AND month(time) = 1 AND lon % 2 = 0",
    "SELECT x.zone, avg(x.v * y.n) AS d, count(*) FROM {v} x JOIN {n} y USING (lat, lon) "
    "WHERE y.n > 3 AND x.v < 40 GROUP BY x.zone",
    "WITH m AS (SELECT lat, avg(v) AS a FROM {t} GROUP BY lat) SELECT max(a) AS a FROM m",
    "SELECT 'v' AS s, avg(v) AS a FROM {v} UNION ALL SELECT 'n', avg(n) FROM {n} ORDER BY a",
    "SELECT t.lat, avg(t.v - c.a) AS x FROM {v} t "
    "JOIN (SELECT lat, avg(v) AS a FROM {v} GROUP BY lat) c ON t.lat = c.lat GROUP BY t.lat",
    "SELECT lat, avg(v) AS a, rank() OVER (ORDER BY avg(v)) AS r FROM {t} GROUP BY lat",
]
NOT_SUMMED = [
    "SELECT lat, var_pop(v) AS s FROM {t} GROUP BY lat HAVING var_pop(v) > 1 ORDER BY stddev(v)",
    "SELECT percentile_approx(v, 0.5) AS v FROM {t}",
    "SELECT floor(v) AS v, count(*) AS c FROM {t} GROUP BY floor(v)",
    "SELECT sum(n * 2) AS v FROM {t} WHERE v % 2 = 0",
    "SELECT lat, sum(v) AS v FROM {t} GROUP BY ROLLUP (lat)",
    "SELECT a.lat AS lat, count(*) AS c FROM {t} a JOIN {t} b ON a.lat = b.lat GROUP BY a.lat",
    "SELECT time, v FROM {v} WHERE dayofyear(time) = 3",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Days by places, with gaps, in chunks that don't divide them."""
    found = tmp_path_factory.mktemp("sums") / "repo"
    chance = np.random.default_rng(5)
    values = chance.integers(0, 500, (7, 5, 6)) / 10
    values[chance.random(values.shape) < 0.2] = np.nan
    dataset = xr.Dataset(
        {
            "v": (("time", "lat", "lon"), values.astype("f4")),
            "n": (("lat", "lon"), np.arange(30, dtype="u1").reshape(5, 6)),
        },
        {
            "time": np.datetime64("2020-01-01", "ns") + np.arange(7) * np.timedelta64(1, "D"),
            "lat": np.arange(5) * 10.0,
            "lon": np.arange(6),
            "zone": ("lat", ["cold", "mild", "hot", "mild", "cold"]),
        },
    )
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(found)))
    session = repo.writable_session("main")
    encoding = {"v": {"chunks": (3, 2, 4)}, "n": {"chunks": (5, 3)}}
    to_icechunk(dataset, session, mode="w", encoding=encoding)
    session.commit("days")
    return found


def rows(frame: object) -> list[tuple[object, ...]]:
    """In an order, with numbers as exact as sums are."""
    found = [tuple(row) for row in frame.collect()]  # type: ignore[attr-defined]
    rounded = [tuple(round(e, 6) if isinstance(e, float) else e for e in row) for row in found]
    return sorted(rounded, key=str)


@pytest.mark.parametrize("query", [*SUMMED, *NOT_SUMMED])
def test_sums_are_those_of_cells(
    spark: SparkSession, path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "DRIVER_ROWS", -1)
    for name, variables in (("t", None), ("v", ["v"]), ("n", ["n"])):
        cells = frazil.spark.read(str(path), variables=variables, spark=spark)
        cells.createOrReplaceTempView(f"plain_{name}")

    found = frazil.spark.sql(str(path), query.format(t="cells", v="v", n="n"), spark=spark)

    expected = spark.sql(query.format(t="plain_t", v="plain_v", n="plain_n"))
    assert found.schema == expected.schema
    assert rows(found) == rows(expected)
    # Cells become rows only where they must.
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert ("_frazil_" in plan) is (query in SUMMED)


@pytest.mark.parametrize(
    ("query", "has_tasks"),
    [
        ("SELECT lat, avg(v) AS m, count(*) AS c FROM v WHERE lon > 1 GROUP BY lat", False),
        ("SELECT max(v) AS m, sum(lat) AS s FROM v WHERE lat > 25", False),
        ("SELECT count(*) AS c FROM repo.snapshots", False),
        ("SELECT lat, v FROM v WHERE v > 40", True),
    ],
)
def test_few_aggregates_and_metadata_need_no_tasks_of_python(
    spark: SparkSession,
    path: Path,
    query: str,
    has_tasks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = frazil.spark.sql(str(path), query, spark=spark)
    monkeypatch.setattr(read, "DRIVER_ROWS", -1)
    by_tasks = frazil.spark.sql(str(path), query, spark=spark)

    assert found.schema == by_tasks.schema
    assert rows(found) == rows(by_tasks)
    plans = [each._jdf.queryExecution().toString() for each in (found, by_tasks)]
    assert ["MapInArrow" in plan for plan in plans] == [has_tasks, True]


def test_threads_of_a_local_driver_read_as_tasks_do(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT month(time) AS m, lat, avg(v) AS a, count(v) AS c FROM v GROUP BY 1, lat"
    monkeypatch.setattr(read, "DRIVER_BYTES", -1)
    by_threads = frazil.spark.sql(str(path), query, target_size=100, spark=spark)
    monkeypatch.setattr(runtime, "LOCAL_CHUNKS", 1)
    by_tasks = frazil.spark.sql(str(path), query, target_size=100, spark=spark)

    assert rows(by_threads) == rows(by_tasks)
    plans = [each._jdf.queryExecution().toString() for each in (by_threads, by_tasks)]
    assert ["MapInArrow" in plan for plan in plans] == [False, True]


def test_areas_weigh_averages(spark: SparkSession, path: Path) -> None:
    store = (
        frazil.Repository.open(frazil.local_filesystem_storage(str(path)))
        .readonly_session("main")
        .store
    )
    cells = xr.open_zarr(store, consolidated=False)
    weights = np.cos(np.radians(cells.lat))

    query = "SELECT time, area_avg(v, lat) AS a, weighted_avg(v * 2, n) AS w FROM cells GROUP BY 1"
    found = frazil.spark.sql(str(path), query, spark=spark).orderBy("time").collect()

    np.testing.assert_allclose(
        [row.a for row in found], cells.v.weighted(weights).mean(["lat", "lon"])
    )
    np.testing.assert_allclose(
        [row.w for row in found], (cells.v * 2).weighted(cells.n.astype("f8")).mean(["lat", "lon"])
    )
    with pytest.raises(InvalidInputError, match=r"write area_avg\(value, lat\)"):
        frazil.spark.sql(str(path), "SELECT area_avg(v) FROM v", spark=spark)
