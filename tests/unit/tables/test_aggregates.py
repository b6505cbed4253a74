"""Partial sums of cells beside sums of single cells, and queries that can be answered by them."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.tables.aggregates import (
    Function,
    Partial,
    PartialAggregates,
    can_push_down,
)
from frazil.tables.columns import TIMESTAMP
from frazil.tables.scan_plan import plan_scan
from frazil.tables.sql_queries import AggregateQuery, parse_query, push_down
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, open_table
from tests.unit.tables.worlds import World, conditions, worlds

FUNCTIONS: tuple[Function, ...] = ("sum", "count", "min", "max")
TOGETHER = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}


def read_all(table: Any) -> pa.Table:
    batches = [batch for part in table.partitions() for batch in table.read(part)]
    return pa.Table.from_batches(batches, table.schema)


@given(world=worlds(), data=st.data())
@settings(max_examples=15)
def test_partial_sums_come_to_the_sums_of_cells(world: World, data: st.DataObject) -> None:
    rows = world.rows(world.names)
    condition = data.draw(st.none() | conditions(rows, rows.columns))
    source = open_source(Options(where=condition, target_bytes=64), world.repo)
    plan = plan_scan(source)
    types = plan.columns.types
    dims = [each.name for each in plan.columns.all if each.kind != "variable"]
    groups = tuple(data.draw(st.lists(st.sampled_from(dims), unique=True, max_size=2)))
    partials = (Partial("count", None, "cells"), *(
        Partial(function, name, f"{function} {name}")
        for name, type in types.items() for function in FUNCTIONS if can_push_down(function, type)
    ))  # fmt: skip

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


TYPES = {
    "time": TIMESTAMP, "lat": pa.float64(), "zone": pa.string(),
    "v": pa.float32(), "n": pa.int64(), "k": pa.int32(),
}  # fmt: skip


def find(query: str) -> AggregateQuery | None:
    (use,) = parse_query(query).uses
    return push_down(query, use, TYPES, {"time", "lat", "zone"})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM v", "SELECT COALESCE(SUM(_frazil_0), 0) AS `count(1)` FROM `s` AS `v`"),
        ("SELECT count(1) FROM v", "SELECT COALESCE(SUM(_frazil_0), 0) AS `count(1)` FROM `s` AS `v`"),
        ("SELECT sum(v), sum(V) AS b FROM t WHERE lat > 3",
         "SELECT SUM(_frazil_0) AS `sum(v)`, SUM(_frazil_0) AS b FROM `s` AS `t`"),
        ("SELECT avg(k) AS m FROM cells AS c",
         "SELECT (SUM(_frazil_0) / NULLIF(SUM(_frazil_1), 0)) AS m FROM `s` AS `c`"),
        ("SELECT c.zone, max(c.n) AS top FROM cells c GROUP BY c.zone HAVING min(v) > 2 ORDER BY top",
         "SELECT c.zone, MAX(_frazil_0) AS top FROM `s` AS `c` GROUP BY c.zone "
         "HAVING MIN(_frazil_1) > 2 ORDER BY top"),
    ],
)  # fmt: skip
def test_a_query_about_sums_becomes_one_about_partial_sums(query: str, expected: str) -> None:
    found = find(query)

    assert found is not None
    assert found.text("s") == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM v",
        "SELECT v FROM v",
        "SELECT sum(n) FROM v",
        "SELECT sum(zone) FROM v",
        "SELECT sum(v + 1) AS a FROM v",
        "SELECT sum(v) + lat AS a FROM v",
        "SELECT sum(DISTINCT v) FROM v",
        "SELECT count(DISTINCT lat) FROM v",
        "SELECT count(v, lat) FROM v",
        "SELECT count(2) FROM v",
        "SELECT count('1') FROM v",
        "SELECT mean(v) FROM v",
        "SELECT sum(v) OVER () FROM v",
        "SELECT sum(v) FILTER (WHERE lat > 3) AS a FROM v",
        "SELECT DISTINCT lat FROM v GROUP BY lat",
        "SELECT k, sum(v) AS v FROM v GROUP BY k",
        "SELECT lat AS zone, sum(v) AS s FROM v GROUP BY zone",
        "SELECT date(time) AS y, sum(v) AS v FROM v GROUP BY date(time)",
        "SELECT floor(v) AS y, sum(v) AS v FROM v GROUP BY floor(v)",
        "SELECT floor(lat + rand()) AS y, sum(v) AS v FROM v GROUP BY 1",
        "SELECT date_trunc('month', time), sum(v) AS v FROM v GROUP BY 1",
        "SELECT lat, sum(v) AS v FROM v GROUP BY 3",
        "SELECT 1 AS y, sum(v) AS v FROM v GROUP BY y",
        "SELECT sum(v) AS v FROM v GROUP BY 1",
        "SELECT lat, sum(v) AS v FROM v GROUP BY CUBE (lat)",
        "SELECT sum(v) FROM v TABLESAMPLE (10 PERCENT)",
        "SELECT sum(v) FROM (SELECT v FROM v)",
        "WITH w AS (SELECT 1 AS a) SELECT sum(v) FROM v",
        "SELECT sum(v) AS a FROM v UNION ALL SELECT 1 AS a",
        "SELECT approx_percentile(v, 0.5) AS a FROM v",
        "SELECT sum(missing) FROM v",
        "SELECT avg(v) AS v FROM v HAVING v > 3",
        "SELECT x.lat, sum(v) AS v FROM v GROUP BY x.lat",
    ],
)
def test_other_queries_are_left_as_they_are(query: str) -> None:
    uses = parse_query(query).uses

    assert push_down(query, uses[0], TYPES, {"time", "lat", "zone"}) is None


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("SELECT lat, sum(v) AS v FROM v GROUP BY 1", ("lat",)),
        ("SELECT year(time) AS y, sum(v) AS v FROM v GROUP BY year(time)", ("time",)),
        ("SELECT Date_Trunc('month', time) AS m, sum(v) AS s FROM v GROUP BY m", ("time",)),
        ("SELECT floor(lat/10), zone, max(v) AS s FROM v GROUP BY zone, 1", ("zone", "lat")),
        ("SELECT CASE WHEN lat > 0 THEN 'N' ELSE zone END AS z FROM v GROUP BY z", ("lat", "zone")),
    ],
)
def test_expressions_of_coordinates_are_grouped_by_their_coordinates(
    query: str, groups: tuple[str, ...]
) -> None:
    pushed = push_down(query, parse_query(query).uses[0], TYPES, {"time", "lat", "zone"})

    assert pushed is not None
    assert sorted(pushed.groups) == sorted(groups)
