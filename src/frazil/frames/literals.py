"""Constants of SQL, as values that a column can be compared with, exactly as Spark would.

Where Spark's rules of comparing two types leave a doubt, there is no value: then the engine decides.
"""

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
_TIME = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?"
    r"\s*(Z|UTC|[+-]\d{2}:\d{2})?)?)?)?"
)


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
    match operator:
        case "=" | "<>":
            return operator, _NEVER
        case "<" | "<=":
            return "<=", int(floor)
    return ">", int(floor)


def is_plain(text: str) -> bool:
    """Whether a text has no signs that one parser may read in another way than the next."""
    return "\\" not in text and text.isprintable()


def parse_number(text: str) -> Number | None:
    """A number, if it is one that Spark takes for what it looks like."""
    match = re.fullmatch(r"(-?)(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text)
    if match is None or len(match[2]) > _MOST_DIGITS:
        return None
    return Number(Decimal(text), is_double=match[3] is not None)


def parse_time(text: str, zone: tzinfo | None) -> int | None:
    """Microseconds of a time as Spark reads them, in a zone unless it names one; None for others."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i] or (i < 4)) for i in range(1, 7))
    fraction = int((match[7] or "").ljust(6, "0"))
    named = _parse_zone(match[8]) if match[8] else zone
    if named is None:
        return None
    try:
        found = datetime(year, month, day, hour, minute, second, fraction, named)
        return (found.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def _parse_zone(text: str) -> tzinfo | None:
    if text in ("Z", "UTC"):
        return UTC
    return datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo


def find_zone(name: str) -> tzinfo | None:
    """A time zone by the name that Spark has for it; None if it has another name here."""
    if name in ("UTC", "Z", "GMT", "Etc/UTC"):
        return UTC
    make: Callable[[str], tzinfo] = ZoneInfo
    try:
        return make(name)
    except (OSError, ValueError, KeyError):
        return None
