"""Statements other than queries, and parameters of queries."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlglot

from frazil.errors import InvalidInputError
from frazil.tables.sql_queries import parse_query
from frazil.tables.sql_statements import (
    Call,
    Describe,
    DescribeHistory,
    Explain,
    ShowTables,
    insert_values,
    name_parameters,
    parse_statement,
)


@pytest.mark.parametrize(("text", "expected"), [
    ("show tables", ShowTables(None, None)),
    (" /* all */ SHOW TABLES IN repo LIKE 's*|h*';", ShowTables("repo", "s*|h*")),
    ("DESCRIBE TABLE EXTENDED `a b`.c", Describe(("a b", "c"))),
    ("desc t", Describe(("t",))),
    ("DESCRIBE HISTORY", DescribeHistory(())),
    ("DESCRIBE HISTORY t", DescribeHistory(("t",))),
    ("EXPLAIN SELECT 'a;b' FROM t -- all", Explain("", "SELECT 'a;b' FROM t")),
    ("EXPLAIN FORMATTED WITH a AS (SELECT 1) SELECT * FROM a",
     Explain("FORMATTED", "WITH a AS (SELECT 1) SELECT * FROM a")),
    ("CALL system.compact()", Call("compact", (), {})),
    ("CALL system.x('a', -2, f => 1.5, g => true, h => null, i => INTERVAL 7 DAYS, "
     "j => array('a', 'b'), k => map('a', 1), l => TIMESTAMP '2020-01-01', m => :m)",
     Call("x", ("a", -2), {
         "f": 1.5, "g": True, "h": None, "i": timedelta(days=7), "j": ["a", "b"], "k": {"a": 1},
         "l": "2020-01-01", "m": 5})),
    ("SELECT 1", None), ("WITH a AS (SELECT 1) SELECT * FROM a", None), ("", None),
])  # fmt: skip
def test_statements_are_parsed(text: str, expected: Any) -> None:
    assert parse_statement(text, {"m": 5}) == expected


@pytest.mark.parametrize("text", [
    "SHOW DATABASES", "SHOW TABLES FROM", "SHOW TABLES LIKE x y", "DESCRIBE", "DESCRIBE 'a'",
    "DESCRIBE a b", "EXPLAIN", "CALL system.x", "CALL x()", "CALL system.x(a => b)",
    "CALL system.x(a => 1, 2)", "CALL system.x(a => 1) or more", "CALL system.x(); SELECT 1",
    "CALL system.x('", "CALL system.x(a => INTERVAL 1 MONTH)", "CALL system.x(a => 1 + 1)",
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
