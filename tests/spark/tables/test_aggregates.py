"""Queries that ask for sums of cells: handed over as partial sums, with the result of single cells."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.xarray import to_icechunk

pytestmark = pytest.mark.xdist_group("spark-tables")

SUMMED = [
    "SELECT count(*) FROM {t}",
    "SELECT sum(v), avg(v), count(v), min(v) AS low, max(v) AS high FROM {t}",
    "SELECT sum(n) AS n, avg(n) AS mean, min(n) AS low, max(n) AS high FROM {t}",
    "SELECT lat, count(*) AS cells, avg(v) AS mean FROM {t} GROUP BY lat",
    "SELECT lat, time, sum(v) AS v FROM {t} WHERE lon >= 2 GROUP BY lat, time",
    "SELECT zone, max(v) - min(v) AS span FROM {t} GROUP BY zone ORDER BY span DESC LIMIT 2",
    "SELECT x.lon AS lon, sum(x.v) AS v FROM {t} x WHERE x.v > 10 GROUP BY x.lon HAVING sum(x.v) > 20",
    "SELECT sum(v) AS v, count(*) AS cells, min(time) AS first FROM {t} WHERE lat > 1000",
    "SELECT min(n) AS low, max(n) AS high, sum(n) AS n FROM {t} WHERE lat > 1000 OR n > 200",
    "SELECT lat, sum(v) AS v FROM {t} WHERE lat > 1000 GROUP BY lat",
    "SELECT min(time) AS first, max(time) AS last FROM {t} WHERE v IS NULL",
    "SELECT count(v) + 1 AS more, sum(lat) AS lats FROM {t} WHERE v < 40 OR time >= '2020-01-05'",
    "SELECT month(time) AS month, avg(v) AS v FROM {t} GROUP BY month(time)",
    "SELECT year(time), quarter(time), dayofyear(time), hour(time), sum(v) AS v FROM {t} WHERE lat > 5 "
    "GROUP BY year(time), quarter(time), dayofyear(time), hour(time)",
    "SELECT date_trunc('month', time) AS m, floor(lat / 20) AS band, min(v) AS v, count(*) AS c "
    "FROM {t} "
    "GROUP BY date_trunc('month', time), floor(lat / 20) HAVING count(*) > 1 ORDER BY band",
    "SELECT CASE WHEN lat > 15 THEN 'north' ELSE zone END AS part, round(avg(v), 3) AS v FROM {t} "
    "GROUP BY 1 ORDER BY part",
    "SELECT CAST(time AS DATE) AS day, CAST(lat AS INT) DIV 20 AS band, max(n) AS n FROM {t} "
    "GROUP BY day, band",
    "SELECT floor(lon / 2), lat % 20 = 0, sum(n) AS n FROM {t} GROUP BY floor(lon / 2), lat % 20 = 0",
    "SELECT stddev(v), variance(v), var_pop(v), stddev_pop(v), stddev_samp(lat), count(v) FROM {t}",
    "SELECT month(time) AS m, lat, stddev(v) AS s, var_samp(n) AS n FROM {t} WHERE v > 5 "
    "GROUP BY month(time), lat HAVING s > 1 ORDER BY s",
    "SELECT stddev(v) AS s, var_pop(v) AS p, stddev_pop(n) AS n FROM {t} WHERE lat > 1000",
    "SELECT time, lat, stddev(v) AS s, var_pop(v) AS p FROM {t} WHERE lon = 3 GROUP BY time, lat",
    "SELECT lat FROM {t} GROUP BY lat",
]
NOT_SUMMED = [
    "SELECT lat, var_pop(v) AS s FROM {t} GROUP BY lat HAVING var_pop(v) > 1 ORDER BY stddev(v)",
    "SELECT var_samp(v) FROM {t}",
    "SELECT count(DISTINCT lat) AS lats FROM {t}",
    "SELECT sum(v * 2) AS v FROM {t}",
    "SELECT sum(v) FILTER (WHERE lat > 15) AS v FROM {t}",
    "SELECT month(time) AS m, floor(lat / 9), lon, avg(v) AS v FROM {t} GROUP BY 1, 2, 3",
    "SELECT date(time) AS day, avg(v) AS v FROM {t} GROUP BY date(time)",
    "SELECT floor(v) AS v, count(*) AS c FROM {t} GROUP BY floor(v)",
    "SELECT sum(v) AS v FROM {t} WHERE v % 2 = 0",
    "SELECT lat, sum(v) AS v FROM {t} GROUP BY ROLLUP (lat)",
    "SELECT a.lat AS lat, count(*) AS c FROM {t} a JOIN {t} b ON a.lat = b.lat GROUP BY a.lat",
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
def test_sums_are_those_of_cells(spark: SparkSession, path: Path, query: str) -> None:
    frazil.spark.read(str(path), spark=spark).createOrReplaceTempView("all_cells")

    found = frazil.spark.sql(str(path), query.format(t="cells"), spark=spark)

    expected = spark.sql(query.format(t="all_cells"))
    assert found.columns == expected.columns
    assert [each.dataType for each in found.schema] == [each.dataType for each in expected.schema]
    assert rows(found) == rows(expected)
    # Cells become rows only where they must.
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert ("_frazil_" in plan) is (query in SUMMED[:-1])
