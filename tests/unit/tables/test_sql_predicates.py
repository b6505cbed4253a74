"""Conditions in SQL: what is understood, what is left to the engine, and never more than that."""

from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from frazil.tables.columns import TIMESTAMP, UNSIGNED_64
from frazil.tables.predicates import (
    And,
    Compare,
    Condition,
    IsIn,
    IsNull,
    Not,
    Null,
    Or,
    Unknown,
    find_unknown,
    find_zone,
    keep_failures,
    leaves_of,
)
from frazil.tables.sql_predicates import Scope, parse_predicate

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
    ("time > DATE '2020-01-01 18:00:00'", Compare("time", ">", NEW_YEAR)),
    ("time > DATE '2020-01-01T18:00:00+09:00'", Compare("time", ">", NEW_YEAR)),
    ("time > CAST('2020-01-01 18:00' AS DATE)", Compare("time", ">", NEW_YEAR)),
    ("time > '2020-01-01 18:00'::DATE", Compare("time", ">", NEW_YEAR)),
    ("time IN ('2020-01-01')", IsIn("time", (NEW_YEAR,))),
    ("small = 0.99999999999999999999e0", Compare("small", "=", 1)),
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
    "lat IS TRUE", "CAST(lat AS INT) = 5", "lat > 5 5", "lat >", "ok > false", "lat < 1e400",
    "n = CAST(1e30 AS BIGINT)", "n = 9223372036854775808L", "n = 0.00000000000000000001",
    "time = '2020-01-01 00:00:00+19:00'", "name = 'a''b'", "time = DATE '2020-13-01'",
])  # fmt: skip
def test_everything_else_is_left_to_the_engine(sql: str) -> None:
    assert isinstance(parse_predicate(sql, SCOPE), Unknown)


def test_times_without_a_zone_are_in_that_of_the_session() -> None:
    berlin = Scope(COLUMNS, ZoneInfo("Europe/Berlin"))
    nowhere = Scope(COLUMNS, None)

    assert parse_predicate("time = '2020-01-01 01:00:00'", berlin) == Compare("time", "=", NEW_YEAR)
    assert isinstance(parse_predicate("time = '2020-01-01'", nowhere), Unknown)


@pytest.mark.parametrize("zone", ["PST", "EST", "CET", "+05:30", "Nowhere/Else"])
def test_zones_that_may_be_others_in_java_are_unknown(zone: str) -> None:
    assert find_zone(zone) is None


@pytest.mark.parametrize("year", ["1900", "1969", "2038"])
def test_years_in_which_zones_may_differ_are_left_to_the_engine(year: str) -> None:
    berlin = Scope(COLUMNS, ZoneInfo("Europe/Berlin"))

    assert isinstance(parse_predicate(f"time = '{year}-07-01'", berlin), Unknown)
    assert isinstance(parse_predicate(f"time = '{year}-07-01'", SCOPE), Compare)


def test_without_ansi_times_are_in_no_list_of_texts() -> None:
    scope = Scope(COLUMNS, is_ansi=False)

    assert isinstance(parse_predicate("time IN ('2020-01-01')", scope), Unknown)
    assert parse_predicate("time = '2020-01-01'", scope) == Compare("time", "=", NEW_YEAR)
    assert parse_predicate("time IN (DATE '2020-01-01')", scope) == IsIn("time", (NEW_YEAR,))


LAT = Compare("lat", ">", 5.0)


@pytest.mark.parametrize(("sql", "kept"), [
    ("year(time) = 2020 AND lat > 5", True),
    ("name LIKE 'a%' AND hour(time) IN (1, 2) AND lat > 5", True),
    ("lat < n AND lat > 5", True),
    ("lat > 5 AND 1 / n > 2", True),
    ("1 / n > 2 AND lat > 5", False),
    ("lat = 'five' AND lat > 5", False),
    ("CAST(name AS INT) = 5 AND lat > 5", False),
    ("(lat > 5 AND 1 / n > 2) OR lat = 0", False),
])  # fmt: skip
def test_rows_stay_for_which_the_engine_would_fail(sql: str, kept: bool) -> None:
    condition = keep_failures(parse_predicate(sql, SCOPE))

    assert (LAT in set(leaves_of(condition))) is kept
    assert find_unknown(condition) is not None


def test_conditions_about_other_tables_keep_no_rows_of_this_one() -> None:
    scope = Scope(COLUMNS, qualifiers=frozenset({"a"}), needs_qualifier=True)

    condition = keep_failures(parse_predicate("1 / b.n > 2 AND a.lat > 5", scope))

    assert LAT in set(leaves_of(condition))


def test_columns_belong_to_a_table_only_under_its_name() -> None:
    alone = Scope(COLUMNS, qualifiers=frozenset({"a"}))
    joined = Scope(COLUMNS, qualifiers=frozenset({"a"}), needs_qualifier=True)

    assert parse_predicate("A.lat > 5", alone) == Compare("lat", ">", 5.0)
    assert parse_predicate("lat > 5", alone) == Compare("lat", ">", 5.0)
    assert isinstance(parse_predicate("b.lat > 5", alone), Unknown)
    assert isinstance(parse_predicate("lat > 5", joined), Unknown)
