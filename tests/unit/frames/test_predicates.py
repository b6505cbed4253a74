"""Conditions in SQL: what is understood, what is left to the engine, and never more than that."""

from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from frazil.frames.conditions import And, Compare, Condition, IsIn, IsNull, Not, Null, Or, Unknown
from frazil.frames.predicates import Scope, parse_predicate
from frazil.frames.types import TIMESTAMP, UNSIGNED_64

COLUMNS = {
    "time": TIMESTAMP, "lat": pa.float64(), "f": pa.float32(), "n": pa.int64(), "small": pa.int16(),
    "big": UNSIGNED_64, "name": pa.string(), "ok": pa.bool_(),
}  # fmt: skip
SCOPE = Scope(COLUMNS)
NEW_YEAR = 1577836800000000


@pytest.mark.parametrize(("sql", "expected"), [
    ("lat > 5", Compare("lat", ">", 5.0)),
    ("5 > LAT", Compare("lat", "<", 5.0)),
    ("`lat` = -.5", Compare("lat", "=", -0.5)),
    ("lat != 1e3", Compare("lat", "<>", 1000.0)),
    ("n = 5L", Compare("n", "=", 5)),
    ("n < 2.5", Compare("n", "<=", 2)),
    ("n >= -2.5", Compare("n", ">", -3)),
    ("big = 18446744073709551615", Compare("big", "=", 2**64 - 1)),
    ("name >= 'b'", Compare("name", ">=", "b")),
    ("time = '2020-01-01'", Compare("time", "=", NEW_YEAR)),
    ("time < TIMESTAMP '2020-01-01T01:00:00+01:00'", Compare("time", "<", NEW_YEAR)),
    ("time > DATE '2020-01-01'", Compare("time", ">", NEW_YEAR)),
    ("lat BETWEEN 1 AND 2", And((Compare("lat", ">=", 1.0), Compare("lat", "<=", 2.0)))),
    ("n NOT IN (1, 2)", Not(IsIn("n", (1, 2)))),
    ("n IN (1, NULL)", Or((IsIn("n", (1,)), Null()))),
    ("lat IS NOT NULL", Not(IsNull("lat"))),
    ("lat = NULL", Null()),
    ("lat <=> 5", And((Compare("lat", "=", 5.0), Not(IsNull("lat"))))),
    ("ok AND NOT ok", And((Compare("ok", "=", True), Not(Compare("ok", "=", True))))),
    ("TRUE", And(())),
])  # fmt: skip
def test_conditions_about_single_columns_are_understood(sql: str, expected: Condition) -> None:
    assert parse_predicate(sql, SCOPE) == expected


@pytest.mark.parametrize("sql", [
    "abs(lat) < 5", "lat + 1 > 5", "lat < n", "year(time) = 2020", "name LIKE 'a%'", "other = 5",
    "t.lat > 5", "lat = '5'", "lat IN (SELECT 1)", "n IN (1, 'a')", "n = 1e3", "n = 5D",
    "f = 16777217", "time = 'yesterday'", "time < TIMESTAMP_NTZ '2020-01-01'", "name = 'a\\\\b'",
    "lat IS TRUE", "CAST(lat AS INT) = 5", "lat > 5 5", "lat >", "ok > false",
])  # fmt: skip
def test_everything_else_is_left_to_the_engine(sql: str) -> None:
    assert isinstance(parse_predicate(sql, SCOPE), Unknown)


def test_times_without_a_zone_are_in_that_of_the_session() -> None:
    berlin = Scope(COLUMNS, ZoneInfo("Europe/Berlin"))
    nowhere = Scope(COLUMNS, None)

    assert parse_predicate("time = '2020-01-01 01:00:00'", berlin) == Compare("time", "=", NEW_YEAR)
    assert isinstance(parse_predicate("time = '2020-01-01'", nowhere), Unknown)


def test_columns_belong_to_a_table_only_under_its_name() -> None:
    alone = Scope(COLUMNS, qualifiers=frozenset({"a"}))
    joined = Scope(COLUMNS, qualifiers=frozenset({"a"}), needs_qualifier=True)

    assert parse_predicate("A.lat > 5", alone) == Compare("lat", ">", 5.0)
    assert parse_predicate("lat > 5", alone) == Compare("lat", ">", 5.0)
    assert isinstance(parse_predicate("b.lat > 5", alone), Unknown)
    assert isinstance(parse_predicate("lat > 5", joined), Unknown)
