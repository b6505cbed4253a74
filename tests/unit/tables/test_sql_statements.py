"""Statements other than queries, and parameters of queries."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlglot

from frazil.errors import InvalidInputError
from frazil.tables.sql_predicates import insert_values
from frazil.tables.sql_queries import parse_query
from frazil.tables.sql_statements import (
    Call,
    Describe,
    DescribeHistory,
    Explain,
    Merge,
    ShowTables,
    TargetColumns,
    Unevaluated,
    Update,
    find_keys,
    name_parameters,
    parse_statement,
    select_changed,
    select_merged,
)


@pytest.mark.parametrize(("text", "expected"), [
    ("show tables", ShowTables(None, None)),
    (" /* all */ SHOW TABLES IN repo LIKE 's*|h*';", ShowTables("repo", "s*|h*")),
    ("DESCRIBE TABLE EXTENDED `a b`.c", Describe(("a b", "c"))),
    ("desc t", Describe(("t",))), ("SHOW COLUMNS IN repo.refs", Describe(("repo", "refs"))),
    ("DESCRIBE HISTORY", DescribeHistory(())),
    ("DESCRIBE HISTORY t", DescribeHistory(("t",))),
    ("DESCRIBE HISTORY LIMIT 2", DescribeHistory((), 2)),
    ("DESCRIBE HISTORY t LIMIT 1;", DescribeHistory(("t",), 1)), ("DESC query", Describe(("query",))),
    ("EXPLAIN SELECT 'a;b' FROM t -- all", Explain("", "SELECT 'a;b' FROM t")),
    ("EXPLAIN FORMATTED WITH a AS (SELECT 1) SELECT * FROM a",
     Explain("FORMATTED", "WITH a AS (SELECT 1) SELECT * FROM a")),
    ("CALL system.compact()", Call("compact", (), {})),
    ("CALL system.x('a', -2, f => 1.5, g => true, h => null, i => INTERVAL 7 DAYS, "
     "j => array('a', 'b'), k => map('a', 1), l => now() - INTERVAL 1 DAY, "
     "m => :m, n => array(1 + 1))",
     Call("x", ("a", -2), {
         "f": 1.5, "g": True, "h": None, "i": timedelta(days=7), "j": ["a", "b"], "k": {"a": 1},
         "l": Unevaluated("NOW() - INTERVAL '1' DAY"), "m": 5, "n": Unevaluated("ARRAY(1 + 1)")})),
    ("SELECT 1", None), ("WITH a AS (SELECT 1) SELECT * FROM a", None), ("", None),
])  # fmt: skip
def test_statements_are_parsed(text: str, expected: Any) -> None:
    assert parse_statement(text, {"m": 5}) == expected


@pytest.mark.parametrize("text", [
    "SHOW DATABASES", "SHOW TABLES FROM", "SHOW TABLES LIKE x y", "DESCRIBE", "DESCRIBE 'a'",
    "DESCRIBE a b", "EXPLAIN", "CALL system.x", "CALL x()",
    "CALL system.x(a => 1, 2)", "CALL system.x(a => 1) or more", "CALL system.x(); SELECT 1",
    "EXPLAIN UPDATE t SET t = 1", "SHOW COLUMNS", "INSERT OVERWRITE t SELECT 1",
    "CALL system.x('", "CALL system.x(a => INTERVAL 1 MONTH)", "DESCRIBE HISTORY t LIMIT 'a'",
    "DESCRIBE QUERY SELECT 1", "DESCRIBE DETAIL t",
])  # fmt: skip
def test_a_statement_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_statement(text)


def test_positional_parameters_get_names() -> None:
    text, values = name_parameters("EXPLAIN SELECT '?', ? FROM t WHERE x > ? -- ?", [1, "b"])

    assert list(values.values()) == [1, "b"]
    first, second = values
    assert text == f"EXPLAIN SELECT '?', :{first} FROM t WHERE x > :{second} -- ?"
    assert name_parameters("SELECT :a", {"a": 1}) == ("SELECT :a", {"a": 1})
    with pytest.raises(InvalidInputError, match="has 1 parameters `\\?`, and args 2"):
        name_parameters("SELECT ?", [1, 2])


def test_parameters_prune_like_the_constants_that_they_stand_for() -> None:
    zoned = datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    values = {"a": -1.5, "b": "it's \\", "c": zoned, "d": None, "e": True, "f": 3, "g": [1]}
    text = "SELECT * FROM t WHERE a = :a AND b = :b AND c = :c AND d = :d AND e = :e AND f = :f"

    (use,) = parse_query(f"{text} AND g = :g AND h = :h", args=values).uses

    tree = sqlglot.parse_one(use.where or "", dialect="spark")
    assert insert_values(tree, {}) is tree
    assert use.where is not None
    assert "a = -CAST(1.5 AS DOUBLE)" in use.where
    assert "2020-01-02 03:04:05.000006+00:00" in use.where
    assert "d = NULL AND e = TRUE AND f = 3 AND g = :g AND h = :h" in use.where


COLUMNS = TargetColumns(("time", "x"), ("land",), {"v": "double", "n": "int"})


def test_a_deletion_names_no_array_so_that_none_is_read() -> None:
    statement = parse_statement("DELETE FROM v AS a WHERE a.x > 1 -- all")

    assert isinstance(statement, Update)
    names, text = select_changed(statement, TargetColumns(("time", "x"), (), {"v": "double"}))
    assert names == ("time", "x", "v")
    assert parse_query(text).column_text == (
        "SELECT (`time`) AS frazil_0, (`x`) AS frazil_1, (CAST(NULL AS double)) AS frazil_2 FROM"
        "   AS `a` WHERE a.x > 1"
    )


def test_the_first_clause_that_applies_sets_a_merged_cell() -> None:
    statement = parse_statement("""
        MERGE INTO v USING (SELECT 1 AS when) AS s ON v.x = s.x AND s.day = v.time
        WHEN MATCHED AND CASE WHEN s.a THEN TRUE END THEN UPDATE SET v = CASE WHEN s.b THEN 1 END
        WHEN MATCHED THEN UPDATE SET n = (s.c)
        WHEN NOT MATCHED THEN INSERT *
    """)

    assert isinstance(statement, Merge)
    assert find_keys(statement, COLUMNS) == {"x": "s.x", "time": "s.day"}
    (names, matched), (also, inserted) = select_merged(statement, COLUMNS, "`v`.`x` > 1")
    assert names == also == ("time", "x", "v", "n")
    assert (
        "CASE WHEN CASE WHEN s.a THEN TRUE END THEN (CASE WHEN s.b THEN 1 END) "
        "WHEN TRUE THEN `v`.`v` END"
    ) in matched
    assert matched.endswith("AND `v`.`x` > 1")
    assert "LEFT ANTI JOIN (SELECT `time`, `x`, `land` FROM `v` AS `v` WHERE" in inserted
    for on in ("v.x = s.x OR v.time = s.time", "v.x > s.x", "v.x + 1 = s.x", "v.x = v.time"):
        other = replace(statement, on=on)
        assert find_keys(other, COLUMNS) == {}


@pytest.mark.parametrize(("source", "clause", "match"), [
    ("s", "NOT MATCHED THEN INSERT (time, x, v, V) VALUES (s.time, s.x, 1, 2)", "v is assigned twice"),
    ("s", "NOT MATCHED THEN INSERT (time, x, land) VALUES (s.time, s.x, 'a')", "the coordinate land"),
    ("(SELECT 1 AS x)", "MATCHED THEN UPDATE SET *", "write USING … AS s"),
    ("s VERSION AS OF 'v1'", "MATCHED THEN UPDATE SET *", "write USING … AS s"),
])  # fmt: skip
def test_a_merge_that_would_leave_out_values_is_refused(
    source: str, clause: str, match: str
) -> None:
    statement = parse_statement(f"MERGE INTO v USING {source} ON v.x = 1 WHEN {clause}")

    assert isinstance(statement, Merge)
    with pytest.raises(InvalidInputError, match=match):
        select_merged(statement, COLUMNS, "TRUE")


@pytest.mark.parametrize(("source", "alias"), [
    ("s", "s"), ("a.s", "s"), ("s AS x", "x"), ("(SELECT 1 AS x) x", "x"), ("VALUES (1, 2)", ""),
    ("(VALUES (1, 2)) AS `my x`(a, `b c`)", "my x"), ("(SELECT 1, 2) x (a, b)", "x"),
    ("range(5)", ""), ("range(5) AS r", "r"), ("s JOIN f(a, b)", ""), ("VALUES (1), (2) AS x(a)", "x"),
])  # fmt: skip
def test_the_source_of_a_merge_has_the_alias_at_its_end(source: str, alias: str) -> None:
    statement = parse_statement(f"MERGE INTO v USING {source} ON TRUE WHEN MATCHED THEN DELETE")

    assert isinstance(statement, Merge)
    assert statement.source_alias == alias


def test_an_insertion_names_a_column_once() -> None:
    assert COLUMNS.find_all(("V", "land", "x")) == ("v", "land", "x")
    with pytest.raises(InvalidInputError, match="v is assigned twice"):
        COLUMNS.find_all(("v", "x", "V"))


@pytest.mark.parametrize("text", [
    "UPDATE v", "UPDATE v SET", "UPDATE v SET v = ", "UPDATE v SET v = 1, V = 2", "UPDATE v SET v + 1",
    "UPDATE v SET v = 1 WHERE", "UPDATE a.v SET v = 1", "DELETE v", "DELETE FROM v x y",
    "INSERT v VALUES (1)", "INSERT INTO v", "INSERT INTO v (a, b", "MERGE INTO v USING s",
    "INSERT INTO v WITH (append = 'time') SELECT 1", "MERGE INTO v USING s ON TRUE",
    "MERGE INTO v USING s ON TRUE WHEN MATCHED THEN INSERT *",
    "MERGE INTO v USING s ON TRUE WHEN NOT MATCHED THEN DELETE",
    "MERGE INTO v USING s ON TRUE WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
])  # fmt: skip
def test_a_change_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_statement(text)
