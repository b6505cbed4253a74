"""What queries say about the tables that they read."""

import re
from datetime import UTC, date, datetime
from typing import Any

import pytest

from frazil.errors import InvalidInputError
from frazil.tables.columns import GroupArrays
from frazil.tables.scan_plan import plan_scan
from frazil.tables.sql_aggregates import replace_table_functions
from frazil.tables.sql_queries import PlannedQuery, PlannedTable, parse_query, plan_query
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, select_columns
from tests.unit.tables.worlds import count_calls, count_coordinate_reads, make_weather


@pytest.mark.parametrize(("query", "where", "is_alone"), [
    ("SELECT t FROM a WHERE lat > 5", "lat > 5", True),
    ("SELECT t FROM a x WHERE x.lat > 5 GROUP BY t HAVING t > 1 LIMIT 3", "x.lat > 5", True),
    ("SELECT * FROM a JOIN b ON a.x = b.x WHERE a.lat > 5", "a.lat > 5", False),
    ("SELECT * FROM a, b WHERE a.lat > 5", "a.lat > 5", False),
    ("SELECT * FROM a LEFT JOIN b ON a.x = b.x WHERE a.lat > 5", None, False),
    ("SELECT * FROM a FULL JOIN b ON a.x = b.x WHERE a.lat > 5", None, False),
    ("SELECT * FROM a NATURAL JOIN b WHERE a.lat > 5", None, False),
    ("SELECT * FROM a LEFT ANTI JOIN b ON a.x = b.x WHERE a.lat > 5", None, False),
    ("SELECT * FROM a TABLESAMPLE (5 ROWS) WHERE lat > 5", None, False),
    ("SELECT * FROM a LATERAL VIEW explode(v) e WHERE lat > 5", None, False),
    ("SELECT * FROM a PIVOT (sum(t) FOR lat IN (1, 2)) WHERE lat > 5", None, False),
    ("SELECT * FROM a AS x(lat, lon) WHERE lat > 5", None, False),
    ("SELECT * FROM a WHERE lat > 5 AND name = '\\u0041'", None, False),
    ("SELECT * FROM (SELECT * FROM a) WHERE lat > 5", None, True),
    ("WITH w AS (SELECT * FROM a) SELECT * FROM w WHERE lat > 5", None, True),
    ("SELECT (SELECT max(t) FROM a) FROM b WHERE lat > 5", None, True),
])  # fmt: skip
def test_a_table_has_the_condition_that_all_its_rows_have_to_satisfy(
    query: str, where: str | None, is_alone: bool
) -> None:
    use = next(use for use in parse_query(query).uses if use.name == "a")

    assert (use.where, use.is_alone) == (where, is_alone)


@pytest.mark.parametrize(("query", "asked"), [
    ("SELECT t.v FROM t TABLESAMPLE (5 ROWS) WHERE v > 1",
     "SELECT t.v FROM `view` TABLESAMPLE (5 ROWS) AS `t` WHERE v > 1"),
    ("SELECT * FROM t VERSION AS OF 'v1' TABLESAMPLE BERNOULLI (5 PERCENT) REPEATABLE (3) AS u",
     "SELECT * FROM `view` TABLESAMPLE BERNOULLI (5 PERCENT) REPEATABLE (3) AS u"),
    ("SELECT window.end, avg(v) FROM t GROUP BY window (time, '6 hours')",
     "SELECT window.end, avg(v) FROM `view` AS `t` GROUP BY `window` (time, '6 hours')"),
    ("SELECT rank() OVER w FROM t WINDOW w AS (ORDER BY v)",
     "SELECT rank() OVER w FROM `view` AS `t` WINDOW w AS (ORDER BY v)"),
    ("TABLE t LIMIT 3", "SELECT * FROM `view` AS `t` LIMIT 3"),
])  # fmt: skip
def test_a_view_takes_the_place_of_a_table(query: str, asked: str) -> None:
    parsed = parse_query(query)
    nothing: Any = None

    tables = tuple(PlannedTable((use,), nothing, nothing) for use in parsed.uses)

    assert PlannedQuery(parsed, tables).text(["view"]) == asked


def test_table_functions_are_found_with_their_input() -> None:
    functions, text = replace_table_functions(
        "SELECT points(a) FROM points(TABLE (SELECT a FROM b), 't', method => 'linear') p "
        "JOIN zonal('zones.geojson', array('t', 'u')) USING (time) JOIN points(TABLE c, 't')"
    )

    a, b, c = functions
    assert (a.name, a.query, a.arguments) == (
        "points",
        "SELECT a FROM b",
        "'t', method => 'linear'",
    )
    assert (b.name, b.query, b.path, b.arguments) == (
        "zonal", None, "zones.geojson", "array('t', 'u')",
    )  # fmt: skip
    assert c.query == "SELECT * FROM c"
    assert text == f"SELECT points(a) FROM {a.view} p JOIN {b.view} USING (time) JOIN {c.view}"


def test_a_table_that_is_named_twice_has_two_conditions() -> None:
    query = parse_query("SELECT t FROM a WHERE x = 1 UNION ALL SELECT t FROM a WHERE x = 2")

    assert [use.where for use in query.uses] == ["x = 1", "x = 2"]


@pytest.mark.parametrize(("query", "needed"), [
    ("SELECT avg(T) FROM a WHERE lat > 5", {"t", "lat"}),
    ("SELECT count(*) FROM a", {"t"}),
    ("SELECT count(*) FROM lat", {"t"}),
    ("SELECT count(lat) FROM lat", {"lat"}),
    ("SELECT * FROM a", {"t", "lat", "lon"}),
    ("SELECT a.* FROM a", {"t", "lat", "lon"}),
    ("SELECT t FROM a NATURAL JOIN b", {"t", "lat", "lon"}),
    ("SELECT * EXCEPT (t) FROM a", {"t", "lat", "lon"}),
    ("SELECT `t` FROM a ORDER BY lon", {"t", "lon"}),
    ("SELECT z FROM a AS b(x, y, z)", {"t", "lat", "lon"}),
])  # fmt: skip
def test_only_columns_that_are_named_are_needed(query: str, needed: set[str]) -> None:
    parsed = parse_query(query)

    columns = None if parsed.column_text is None else ()
    options = Options(columns=columns, engine_text=parsed.column_text)
    assert set(select_columns(options, ("t", "lat", "lon"))) == needed


@pytest.mark.parametrize(("clause", "expected"), [
    ("VERSION AS OF 'v1'", ("v1", None)), ('FOR VERSION AS OF "v1"', ("v1", None)),
    ("/* old */ VERSION -- of\n AS OF 12", ("12", None)), ("VERSION AS OF :name", ("v2", None)),
    ("FOR SYSTEM_TIME AS OF '2020-01-01'", (None, "2020-01-01")),
    ("TIMESTAMP AS OF TIMESTAMP '2020-01-01'", (None, "2020-01-01")),
    ("TIMESTAMP AS OF :day", (None, "2020-01-02")),
    ("TIMESTAMP AS OF :time", (None, "2020-01-02 03:00:00.000000+00:00")),
])  # fmt: skip
def test_a_version_is_a_constant_or_a_parameter(
    clause: str, expected: tuple[str | None, str | None]
) -> None:
    values = {"name": "v2", "day": date(2020, 1, 2), "time": datetime(2020, 1, 2, 3, tzinfo=UTC)}

    (use,) = parse_query(f"SELECT u.v FROM t {clause} AS u WHERE u.v > 1", args=values).uses

    assert (use.version, use.as_of, use.alias) == (*expected, "u")
    assert use.where == "u.v > 1"


@pytest.mark.parametrize("expression", [
    "now()", "current_date - 1", "(now() - INTERVAL '1 day')", "date_sub(current_date(), 1)",
    "current_timestamp() /* now */ - INTERVAL 1 DAY 2 HOURS", "CAST('2020' AS DATE)", "1577836800",
    "'2020-01-01'::timestamp", "'2020-01-01' + INTERVAL '1 02' DAY TO HOUR", ":day + INTERVAL -1 DAY",
    "CURRENT_TIMESTAMP",
])  # fmt: skip
@pytest.mark.parametrize("rest", ["", " AS u", " u WHERE u.v > 1", " JOIN p USING (v)", ", p", ")"])
def test_a_time_may_be_an_expression(expression: str, rest: str) -> None:
    start = "SELECT * FROM (SELECT * FROM t" if rest == ")" else "SELECT * FROM t"

    use, *_ = parse_query(f"{start} FOR TIMESTAMP AS OF {expression}{rest}").uses

    assert use.as_of_expression == expression
    assert use.as_of is None
    assert use.end == len(f"{start} FOR TIMESTAMP AS OF {expression}")


@pytest.mark.parametrize("clause", [
    "VERSION AS OF v1", "VERSION AS OF 5AHJ", "VERSION AS OF :other", "VERSION AS OF :none",
    "VERSION AS OF concat('v', '1')", "TIMESTAMP AS OF :other",
])  # fmt: skip
def test_a_version_that_is_neither_is_refused(clause: str) -> None:
    with pytest.raises(InvalidInputError, match="behind AS OF: give a text in quotes"):
        parse_query(f"SELECT * FROM t {clause}", args={"none": None})


def test_names_are_replaced_where_they_stand() -> None:
    text = (
        "SELECT a.t, b.t FROM a JOIN `a` AS b ON a.x = b.x JOIN repo.snapshots VERSION AS OF 'v1'"
    )
    query = parse_query(text)

    source: Any = None
    tables = [PlannedTable((use,), source, source) for use in query.uses]
    replaced = PlannedQuery(query, tuple(tables)).text([f"v{n}" for n in range(len(tables))])

    assert sorted(use.version or "" for use in query.uses) == ["", "", "v1"]
    numbers = {(use.folder, use.alias): number for number, use in enumerate(query.uses)}
    a, b, snapshots = numbers["", "a"], numbers["", "b"], numbers["repo", "snapshots"]
    assert replaced == (
        f"SELECT a.t, b.t FROM `v{a}` AS `a` JOIN `v{b}` AS b ON a.x = b.x "
        f"JOIN `v{snapshots}` AS `snapshots`"
    )


def test_names_of_a_with_clause_are_no_tables() -> None:
    query = parse_query("WITH a AS (SELECT * FROM b) SELECT * FROM a, repo.a")

    assert sorted((use.folder, use.name) for use in query.uses) == [("", "b"), ("repo", "a")]


@pytest.mark.parametrize(("query", "count"), [
    ("WITH a AS (SELECT t FROM a) SELECT * FROM a", 1),
    ("WITH A AS (SELECT t FROM a), b AS (SELECT * FROM a) SELECT * FROM b", 1),
    ("WITH b AS (SELECT * FROM a), a AS (SELECT * FROM b) SELECT * FROM a", 1),
    ("WITH a AS (SELECT 1) SELECT * FROM b UNION SELECT * FROM a", 0),
    ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x, a", 1),
    ("WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT * FROM a", 0),
])  # fmt: skip
def test_a_definition_of_a_with_clause_does_not_see_itself(query: str, count: int) -> None:
    assert [use.name for use in parse_query(query).uses].count("a") == count


@pytest.mark.parametrize("text", ["DROP TABLE a", "SELECT 1; SELECT 2", "SELECT FROM WHERE", ""])
def test_what_is_no_query_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="query"):
        parse_query(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT FROM WHERE", "expected table name near 'WHERE' (line 1, column 17)"),
        ("SELECT * FROM t\nWHERE a =", "near '=' (line 2, column 9)"),
        ("SELECT * FROM t WHERE (a = 1", "expecting )"),
        ("SELECT a FRM t", "something is missing or too much near 't'"),
        ("SELECT * FROM t LIMIT", "near 'LIMIT'"),
        ("SELECT * FROM t JOIN", "near 'JOIN'"),
        ("SELECT CASE WHEN a FROM t", "near 'FROM'"),
        ("SELECT 'abc FROM t", "a quote or a comment without its end"),
        ("SELEC 1", "give one query, SELECT, WITH"),
    ],
)
def test_a_syntax_error_is_reported_in_words_of_sql(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_query(text)
    assert words in caught.value.message
    assert not re.search(r"sqlglot|<|class|Token|\x1b", caught.value.message)


@pytest.mark.parametrize(("query", "coordinates", "tables"), [
    ("SELECT time, lat, a FROM a WHERE time > '2020-01-02'", {"time", "lat"}, 1),
    ("SELECT lat, avg(a) AS m FROM a WHERE time > '2020-01-02' GROUP BY lat", {"time", "lat"}, 1),
    ("SELECT max(lon) AS n FROM a", {"lon"}, 1),
    ("SELECT * FROM cells WHERE zone = 1 AND a > 5", {"time", "lat", "lon", "zone"}, 1),
    ("SELECT x.a, y.a FROM a x JOIN a y USING (time, lat, lon)", {"time", "lat", "lon"}, 1),
    ("SELECT x.a, y.b FROM a x JOIN b y USING (time, lat, lon)", {"time", "lat", "lon"}, 2),
])  # fmt: skip
def test_a_query_looks_up_metadata_once_and_reads_each_chunk_of_a_coordinate_once(
    query: str, coordinates: set[str], tables: int
) -> None:
    world = make_weather()
    parsed = parse_query(query)
    world.storage.chunks.clear()

    def plan() -> None:
        source = open_source(Options(engine_filters=True), world.repo)
        for each in plan_query(source, parsed).push_down(lambda *_: None).tables:
            each.table.partitions()

    _, counts = count_calls(plan, plan_scan, GroupArrays._find_columns, GroupArrays._open)

    reads = count_coordinate_reads(world)
    # Without it only the first and the last time are read, from which Xarray finds the type.
    assert reads.pop("time") == ({1} if "time" in coordinates else {0, 1})
    assert reads == {name: {1} for name in coordinates - {"time"}}
    # Partial aggregates have a plan of their own, besides that of rows.
    plans = len(parsed.uses) + ("avg" in query or "max" in query)
    assert counts == [plans, tables, tables]


def test_a_pushed_down_count_of_rows_reads_no_values() -> None:
    world = make_weather()
    source = open_source(Options(engine_filters=True), world.repo)

    query = parse_query("SELECT count(*) AS n FROM a WHERE lat > 1")
    planned = plan_query(source, query).push_down(lambda *_: None)
    table = planned.tables[0].table
    partitions = table.partitions()
    world.storage.chunks.clear()
    counted = [row for part in partitions for b in table.read(part) for row in b.to_pylist()]

    assert planned.has_aggregates
    assert sum(row["_frazil_0"] for row in counted) == 6 * 2 * 4
    assert world.storage.chunks == []
