"""Constants of SQL, as values that a column can be compared with, exactly as Spark would.

Where Spark's rules of comparing two types leave a doubt, there is no value: then the engine decides.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_FLOOR, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from frazil.frames.conditions import Operator
from frazil.frames.types import TIMESTAMP, UNSIGNED_64

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 0.5
"""What no integer is equal to."""
_EXACT_IN_FLOAT = 2**24
_MOST_DIGITS = 38
_SMALL_INTEGERS = (pa.int8(), pa.int16(), pa.int32())
_INTEGERS = (*_SMALL_INTEGERS, pa.int64(), UNSIGNED_64)
_MOST_DECIMALS = 17
"""Beside as many, Spark keeps all digits of any integer."""
_LONGS = range(-(2**63), 2**63)
_TIME = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?"
    r" ?(Z|UTC|[+-](?:0\d|1[0-4]):[0-5]\d)?)?)?)?",
    re.ASCII,
)
_DATE = re.compile(r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T].*)?", re.ASCII)
_ZONES_AGREE = range(1970, 2038)
"""Years in which Java and Python have the same rules for a zone."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written; with an exponent it is a double."""

    value: Decimal
    is_double: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes."""

    value: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A timestamp or a date that says that it is one."""

    microseconds: int


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    value: bool


Constant = Number | Text | Moment | Flag

Bound = tuple[Operator, Any]
"""A comparison that means the same, with a value of the kind that the column has."""


def bind(
    operator: Operator, constant: Constant, type: pa.DataType, zone: tzinfo | None
) -> Bound | None:
    """A comparison of a column of a type with a constant; None where only the engine knows."""
    match constant:
        case Number() if type in _INTEGERS:
            return _bind_to_integers(operator, constant, type)
        case Number(value) if pa.types.is_floating(type):
            if (
                type == pa.float32()
                and value == value.to_integral()
                and abs(value) > _EXACT_IN_FLOAT
            ):
                return None
            return operator, float(value)
        case Text(value) if pa.types.is_string(type):
            return operator, value
        case Text(value) if type == TIMESTAMP:
            moment = parse_time(value, zone)
            return None if moment is None else (operator, moment)
        case Moment(microseconds) if type == TIMESTAMP:
            return operator, microseconds
        case Flag(value) if pa.types.is_boolean(type) and operator in ("=", "<>"):
            return operator, value
    return None


def _bind_to_integers(operator: Operator, number: Number, type: pa.DataType) -> Bound | None:
    if number.is_double and type not in _SMALL_INTEGERS:
        # Spark would make doubles of the column, which large integers don't fit into.
        return None
    floor = number.value.to_integral_value(ROUND_FLOOR)
    if floor == number.value:
        return operator, int(floor)
    if not number.is_double and -int(number.value.as_tuple().exponent) > _MOST_DECIMALS:
        return None
    match operator:
        case "=" | "<>":
            return operator, _NEVER
        case "<" | "<=":
            return "<=", int(floor)
    return ">", int(floor)


def is_plain(text: str) -> bool:
    """Whether a text has no signs that one parser may read in another way than the next."""
    return "\\" not in text and "'" not in text and text.isprintable()


def parse_number(text: str) -> Number | None:
    """A number, if it is one that Spark takes for what it looks like."""
    match = re.fullmatch(r"(-?)(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII)
    if match is None or len(match[2]) > _MOST_DIGITS:
        return None
    return Number(Decimal(text)) if match[3] is None else make_double(Decimal(text))


def make_double(value: Decimal) -> Number | None:
    """The double nearest to a number; None for what is too large, which Spark refuses."""
    nearest = float(value)
    return Number(Decimal(nearest), is_double=True) if math.isfinite(nearest) else None


def make_long(value: Decimal) -> Number | None:
    """A whole number of 64 bits; None for any other, which Spark refuses or changes."""
    is_long = value == value.to_integral_value() and int(value) in _LONGS
    return Number(value) if is_long else None


def parse_time(text: str, zone: tzinfo | None) -> int | None:
    """Microseconds of a time as Spark reads them, in a zone unless it names one; None for others."""
    match = _TIME.fullmatch(text.strip(" "))
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i] or (i < 4)) for i in range(1, 7))
    fraction = int((match[7] or "").ljust(6, "0"))
    named = _parse_zone(match[8]) if match[8] else zone
    if named is None or (isinstance(named, ZoneInfo) and year not in _ZONES_AGREE):
        return None
    try:
        found = datetime(year, month, day, hour, minute, second, fraction, named)
        return (found.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def parse_date(text: str, zone: tzinfo | None) -> int | None:
    """Microseconds of the midnight that a date begins with; Spark ignores a time of day after it."""
    match = _DATE.fullmatch(text.strip(" "))
    return None if match is None else parse_time(match[1], zone)


def _parse_zone(text: str) -> tzinfo | None:
    if text in ("Z", "UTC"):
        return UTC
    return datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo


def find_zone(name: str) -> tzinfo | None:
    """A time zone by the name that Spark has for it; None if it may mean another one here."""
    if name in ("UTC", "Z", "GMT", "Etc/UTC"):
        return UTC
    if "/" not in name:
        return None  # Java has its own meanings of short names, such as EST.
    make: Callable[[str], tzinfo] = ZoneInfo
    try:
        return make(name)
    except (OSError, ValueError, KeyError):
        return None
