"""Partial sums of cells beside sums of single cells, and queries that can be answered by them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.tables import columns
from frazil.tables.aggregates import Function, Partial, PartialAggregates, can_push_down
from frazil.tables.scan_plan import ScanPlan, plan_scan
from frazil.tables.sql_queries import PlannedQuery, parse_query, plan_query
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, open_table
from frazil.xarray import to_icechunk
from tests.unit.tables.worlds import World, conditions, worlds

FUNCTIONS: tuple[Function, ...] = ("sum", "count", "min", "max")
TOGETHER = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}


def read_all(table: Any) -> pa.Table:
    batches = [batch for part in table.partitions() for batch in table.read(part)]
    return pa.Table.from_batches(batches, table.schema)


def draw_partials(
    data: st.DataObject, plan: ScanPlan, functions: Sequence[Function]
) -> tuple[tuple[str, ...], tuple[Partial, ...]]:
    """Groups of up to two dimensions, and all partial aggregates with some functions."""
    dims = [each.name for each in plan.columns.all if each.kind != "variable"]
    groups = tuple(data.draw(st.lists(st.sampled_from(dims), unique=True, max_size=2)))
    partials = (Partial("count", None, "cells"), *(
        Partial(function, name, f"{function} {name}")
        for name, type in plan.columns.types.items()
        for function in functions if can_push_down(function, type)
    ))  # fmt: skip
    return groups, partials


@given(world=worlds(), data=st.data())
@settings(max_examples=15)
def test_partial_sums_come_to_the_sums_of_cells(world: World, data: st.DataObject) -> None:
    rows = world.rows(world.names)
    condition = data.draw(st.none() | conditions(rows, rows.columns))
    source = open_source(Options(where=condition, target_bytes=64), world.repo)
    plan = plan_scan(source)
    groups, partials = draw_partials(data, plan, FUNCTIONS)

    found = read_all(PartialAggregates(plan, groups, partials))

    cells = read_all(open_table(source))
    cells = cells.append_column("one", pa.array([1] * len(cells), pa.int64()))
    together = found.group_by(groups).aggregate(
        [(each.name, TOGETHER[each.function]) for each in partials]
    )
    expected = cells.group_by(groups).aggregate(
        [
            (each.column or "one", "sum" if each.column is None else each.function)
            for each in partials
        ]
    )
    if not len(cells) and not groups:
        assert len(found) == 0
        return
    assert _by_group(together, groups) == _by_group(expected, groups)


@given(world=worlds(), data=st.data())
@settings(max_examples=15)
def test_groups_of_a_partition_are_combined(world: World, data: st.DataObject) -> None:
    source = open_source(Options(target_bytes=64), world.repo)
    plan = plan_scan(source)
    groups, partials = draw_partials(data, plan, FUNCTIONS[:2])
    table = PartialAggregates(plan, groups, partials)
    totals = [(each.name, "sum") for each in partials]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "READ_AT_ONCE_BYTES", 16)
        apart = read_all(table)
        joined = table.join(table.partitions(), 1)
        batches = [batch for part in joined for batch in table.read(part)]

    assert len(joined) == min(len(table.partitions()), 1)
    assert table.join([], 2) == []
    found = pa.Table.from_batches(batches, table.schema)
    together = found.group_by(groups).aggregate(totals)
    kept = {dim for name in groups for dim in plan.columns.get(name).dims}
    assert len(found) <= math.prod(plan.columns.sizes[dim] for dim in kept)
    assert _by_group(together, groups) == _by_group(
        apart.group_by(groups).aggregate(totals), groups
    )


def _by_group(table: pa.Table, groups: tuple[str, ...]) -> dict[tuple[str, ...], list[Any]]:
    positions = [n for n, name in enumerate(table.column_names) if name not in groups]
    rows = zip(*(table.column(n).to_pylist() for n in positions), strict=True)
    keys = zip(*(map(str, table[name].to_pylist()) for name in groups), strict=True)
    names = list(keys) if groups else [()]
    return {key: list(map(_rounded, row)) for key, row in zip(names, rows, strict=True)}


def _rounded(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return pytest.approx(value, rel=1e-6, abs=1e-6)
    return value


@pytest.fixture(scope="module")
def repo() -> frazil.Repository:
    """Arrays of two grids, with coordinates of every kind."""
    cells = ("time", "lat")
    dataset = xr.Dataset(
        {
            "v": (cells, np.zeros((6, 4), "f4")),
            "w": (cells, np.zeros((6, 4), "f8")),
            "n": (cells, np.zeros((6, 4), "i8")),
            "k": (cells, np.zeros((6, 4), "i2")),
            "h": (("lat",), np.zeros(4)),
        },
        {
            "time": np.datetime64("2020-01-30", "ns") + np.arange(6) * np.timedelta64(1, "D"),
            "lat": np.arange(4.0),
            "zone": ("lat", list("abba")),
        },
    )
    found = frazil.Repository.create(frazil.in_memory_storage())
    session = found.writable_session("main")
    to_icechunk(dataset, session, mode="w", encoding={"v": {"chunks": (2, 2)}})
    session.commit("zeros")
    return found


def evaluate(rows: pa.Table, texts: Any) -> pa.Table | None:
    """The month of each time, which is all that these queries ask Spark for."""
    if "time" not in rows.column_names or not all("month" in each for each in texts):
        return None
    months = [each.month for each in rows["time"].to_pylist()]
    found = [pa.array([each == 2 for each in months] if "=" in t else months) for t in texts]
    return pa.table(found, [str(number) for number in range(len(texts))])


def push(repo: frazil.Repository, query: str) -> PlannedQuery:
    source = open_source(Options(engine_filters=True), repo)
    return plan_query(source, parse_query(query)).push_down(evaluate)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM v", "SELECT COALESCE(SUM(_frazil_0), 0) FROM `s` AS `v`"),
        ("SELECT sum(v), sum(V) AS b FROM v WHERE lat > 3",
         "SELECT SUM(_frazil_0), SUM(_frazil_0) AS b FROM `s` AS `v` "),
        ("SELECT avg(k) AS m FROM cells AS c",
         "SELECT (SUM(_frazil_0) / NULLIF(SUM(_frazil_1), 0)) AS m FROM `s` AS `c`"),
        ("SELECT c.zone, max(c.n) AS top FROM cells c GROUP BY c.zone HAVING min(v) > 2 ORDER BY top",
         "SELECT c.zone, MAX(_frazil_0) AS top FROM `s` AS `c` GROUP BY c.zone "
         "HAVING MIN(_frazil_1) > 2 ORDER BY top"),
        ("WITH m AS (SELECT lat, median(v) x FROM v GROUP BY 1) SELECT max(x) FROM m",
         "WITH m AS (SELECT lat, PERCENTILE(_frazil_0, 0.5D, _frazil_0_2) x FROM `s` AS `v` "
         "GROUP BY 1) SELECT max(x) FROM m"),
        ("SELECT max_by(a.time, b.w - a.v) FROM v a JOIN w b USING (time, lat)",
         "SELECT MAX_BY(_frazil_0, _frazil_0_2) FROM `s` AS `a`"),
        ("SELECT area_avg(h, lat) AS m FROM h",
         "SELECT (SUM(_frazil_0) / nullif(SUM(_frazil_1), 0D)) AS m FROM `s` AS `h`"),
    ],
)  # fmt: skip
def test_a_query_about_sums_becomes_one_about_partial_sums(
    repo: frazil.Repository, query: str, expected: str
) -> None:
    found = push(repo, query)

    assert found.has_aggregates
    assert found.text(["s"]) == expected


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM v", None),
        ("SELECT v FROM v", None),
        ("SELECT sum(n) FROM n", "sum of this type"),
        ("SELECT sum(zone) FROM v", "sum of this type"),
        ("SELECT sum(k + 1) AS a FROM k", "overflow"),
        ("SELECT sum(v / k) AS a FROM cells", "divisor may be zero"),
        ("SELECT sum(v) + v AS a FROM v GROUP BY v", "no coordinate"),
        ("SELECT sum(DISTINCT v) FROM v", "distinct"),
        ("SELECT count(v, lat) FROM v", "count"),
        ("SELECT sum(v) OVER () FROM v", None),
        ("SELECT percentile(v, 0.5, 2) FROM v", "percentile"),
        ("SELECT approx_percentile(v, 0.5) AS a FROM v", "bounds their memory"),
        ("SELECT collect_list(lat), sum(v) FROM v", "COLLECT_LIST"),
        ("SELECT DISTINCT lat FROM v", None),
        ("SELECT lat AS zone, sum(v) AS s FROM v GROUP BY zone", "a column and a result"),
        ("SELECT floor(v) AS y, sum(v) AS s FROM v GROUP BY floor(v)", "no coordinate"),
        ("SELECT floor(lat + rand()) AS y, sum(v) AS v FROM v GROUP BY 1", "another value"),
        ("SELECT f(lat) AS y, sum(v) AS v FROM v GROUP BY 1", "another value"),
        ("SELECT floor(lat) AS y, time, sum(v) AS v FROM v GROUP BY 1, 2", "each coordinate"),
        ("SELECT sum(v) FROM v TABLESAMPLE (10 PERCENT)", None),
        ("SELECT sum(v) FROM (SELECT v FROM v)", None),
        ("SELECT sum(missing) FROM v", "no column"),
        ("SELECT stddev(v) AS s FROM v HAVING stddev(v) > 3", "HAVING"),
        ("SELECT x.lat, sum(v) AS v FROM v GROUP BY x.lat", "no column"),
        ("SELECT avg(a.v - b.h) FROM v a JOIN h b ON a.lat < b.lat", "equal coordinates"),
        ("SELECT avg(a.v - b.w) FROM v a JOIN w b USING (lat)", "not joined by all dimensions"),
        ("SELECT avg(a.v - b.w) FROM v a LEFT JOIN w b USING (time, lat)", None),
    ],
)  # fmt: skip
def test_other_queries_are_left_to_spark(
    repo: frazil.Repository, query: str, reason: str | None
) -> None:
    found = push(repo, query)

    assert not found.has_aggregates
    reasons = [each.reason for each in found.tables]
    assert reasons == [None] * len(reasons) if reason is None else reason in str(reasons[0])


@pytest.mark.parametrize(
    ("query", "groups", "rows", "chunks"),
    [
        ("SELECT lat, sum(v) AS v FROM v GROUP BY 1", ("lat",), 4, 6),
        ("SELECT month(time), lat, sum(v) AS v FROM v GROUP BY 1, 2", ("time", "lat"), 8, 6),
        ("SELECT sum(v) FROM v WHERE month(time) = 2 AND lat < 2", (), 1, 2),
        ("SELECT zone, max(v) AS s FROM v GROUP BY zone, lat", ("zone", "lat"), 4, 6),
    ],
)
def test_groups_are_made_and_chunks_pruned_before_rows(
    repo: frazil.Repository, query: str, groups: tuple[str, ...], rows: int, chunks: int
) -> None:
    (planned,) = push(repo, query).tables

    assert isinstance(planned.table, PartialAggregates)
    assert set(planned.table.groups) == set(groups)
    assert len(read_all(planned.table)) == rows
    assert planned.table.count_chunks()["v"] == (chunks, 6)
