"""Predicates: parse SQL conditions on columns, compare literals as Spark does, evaluate them."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_FLOOR, Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.tables.columns import TIMESTAMP, UNSIGNED_64, Values

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
_NUMPY_OPERATORS: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
Flags = NDArray[np.bool_] | np.bool_ | bool


@dataclass(frozen=True, slots=True)
class Compare:
    """Comparison of a column with a value of the kind its `Values` hold."""

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class IsIn:
    """Test that a column's value is one of some values."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Test that a column is null."""

    column: str


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation; null stays null."""

    part: "Condition"


@dataclass(frozen=True, slots=True)
class Null:
    """Condition that is always null."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Condition that only the engine can evaluate."""

    text: str = ""
    can_fail: bool = False
    """True if evaluating it may raise an error in the engine, such as `1 / 0`."""


Leaf = Compare | IsIn | IsNull
Condition = Leaf | And | Or | Not | Null | Unknown

EVERYTHING = And(())


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """Possible results of a condition, for one row or elementwise for many."""

    can_be_true: Flags
    can_be_false: Flags


UNKNOWN = Truth(True, True)


def evaluate(condition: Condition, truth_of: Callable[[Leaf], Truth]) -> Truth:
    """Evaluate a condition from the truth of its leaves; arrays are broadcast."""
    match condition:
        case And(parts):
            truths = [evaluate(part, truth_of) for part in parts]
            return Truth(
                reduce(and_, (each.can_be_true for each in truths), True),
                reduce(or_, (each.can_be_false for each in truths), False),
            )
        case Or(parts):
            truths = [evaluate(part, truth_of) for part in parts]
            return Truth(
                reduce(or_, (each.can_be_true for each in truths), False),
                reduce(and_, (each.can_be_false for each in truths), True),
            )
        case Not(part):
            truth = evaluate(part, truth_of)
            return Truth(truth.can_be_false, truth.can_be_true)
        case Null():
            return Truth(False, False)
        case Unknown():
            return UNKNOWN
    return truth_of(condition)


def leaves_of(condition: Condition) -> Iterator[Leaf]:
    """Yield all leaves, with repetitions."""
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves_of(part)
        case Not(part):
            yield from leaves_of(part)
        case Compare() | IsIn() | IsNull():
            yield condition


def columns_of(condition: Condition) -> frozenset[str]:
    """Return the columns of a condition, without parts that only the engine can evaluate."""
    return frozenset(leaf.column for leaf in leaves_of(condition))


def find_unknown(condition: Condition) -> str | None:
    """Return the text of a part that only the engine can evaluate; None if there is none."""
    match condition:
        case And(parts) | Or(parts):
            return next(filter(None, map(find_unknown, parts)), None)
        case Not(part):
            return find_unknown(part)
        case Unknown(text):
            return text or "a part of it"
    return None


def keep_failures(condition: Condition) -> Condition:
    """Return the part of a condition that prunes no row for which the engine would raise an error.

    The engine evaluates the parts of an `AND` from left to right, until one of them is not true.
    """
    if not isinstance(condition, And):
        return (
            Unknown(find_unknown(condition) or "") if _condition_can_fail(condition) else condition
        )
    kept = []
    for part in condition.parts:
        kept.append(keep_failures(part))
        if _condition_can_fail(part):
            break
    return And(tuple(kept))


def _condition_can_fail(condition: Condition) -> bool:
    match condition:
        case And(parts) | Or(parts):
            return any(map(_condition_can_fail, parts))
        case Not(part):
            return _condition_can_fail(part)
        case Unknown():
            return condition.can_fail
    return False


def truth_of_values(leaf: Leaf, values: Values) -> Truth:
    """Return the exact truth of a leaf for each value."""
    if isinstance(leaf, IsNull):
        missing: Flags = False if values.missing is None else values.missing
        return Truth(missing, np.logical_not(missing))
    present = values.present
    holds = _holds(leaf, values)
    return Truth(holds & present, ~holds & present)


def _holds(leaf: Compare | IsIn, values: Values) -> NDArray[np.bool_]:
    data = values.data
    if data.dtype == object and values.missing is not None:
        # None can't be compared, so missing values are replaced; their results are ignored.
        default = leaf.values[0] if isinstance(leaf, IsIn) else leaf.value
        data = np.where(values.missing, default, data)
    if isinstance(leaf, IsIn):
        found = np.logical_or.reduce(
            [_NUMPY_OPERATORS["="](data, _wide(each)) for each in leaf.values]
        )
    else:
        found = _NUMPY_OPERATORS[leaf.operator](data, _wide(leaf.value))
    return np.asarray(found, np.bool_)


def _wide(value: Any) -> Any:
    # numpy compares float32 with a Python float in single precision; Spark compares doubles.
    return np.float64(value) if isinstance(value, float) else value


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 0.5
"""Equal to no integer."""
_EXACT_IN_FLOAT = 2**24
_MOST_DIGITS = 38
_SMALL_INTEGERS = (pa.int8(), pa.int16(), pa.int32())
_INTEGERS = (*_SMALL_INTEGERS, pa.int64(), UNSIGNED_64)
_MOST_DECIMALS = 17
"""Up to this many decimals, Spark keeps all digits of any integer."""
_LONGS = range(-(2**63), 2**63)
_TIME = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?"
    r" ?(Z|UTC|[+-](?:0\d|1[0-4]):[0-5]\d)?)?)?)?",
    re.ASCII,
)
_DATE = re.compile(r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T].*)?", re.ASCII)
_ZONES_AGREE = range(1970, 2038)
"""Years in which Java and Python agree on the rules of a time zone."""


@dataclass(frozen=True, slots=True)
class Number:
    """Number literal; a double if it has an exponent."""

    value: Decimal
    is_double: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """String literal."""

    value: str


@dataclass(frozen=True, slots=True)
class Moment:
    """Timestamp or date literal."""

    microseconds: int


@dataclass(frozen=True, slots=True)
class Flag:
    """Boolean literal."""

    value: bool


Constant = Number | Text | Moment | Flag

Bound = tuple[Operator, Any]
"""Equivalent comparison with a value of the column's kind."""


def bind(
    operator: Operator, constant: Constant, type: pa.DataType, zone: tzinfo | None
) -> Bound | None:
    """Convert a comparison of a column with a constant; None if only the engine can evaluate it."""
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
        # Spark would cast the column to double, which can't represent large integers.
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
    """Return True if a text has no characters that SQL parsers interpret differently."""
    return "\\" not in text and "'" not in text and text.isprintable()


def parse_number(text: str) -> Number | None:
    """Parse a number literal; None if Spark may interpret it differently."""
    match = re.fullmatch(r"(-?)(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII)
    if match is None or len(match[2]) > _MOST_DIGITS:
        return None
    return Number(Decimal(text)) if match[3] is None else make_double(Decimal(text))


def make_double(value: Decimal) -> Number | None:
    """Return the double nearest to a number; None if it overflows, which Spark refuses."""
    nearest = float(value)
    return Number(Decimal(nearest), is_double=True) if math.isfinite(nearest) else None


def make_long(value: Decimal) -> Number | None:
    """Return a 64-bit integer; None for any other number, which Spark refuses or changes."""
    is_long = value == value.to_integral_value() and int(value) in _LONGS
    return Number(value) if is_long else None


def parse_time(text: str, zone: tzinfo | None) -> int | None:
    """Parse a time as Spark does, to microseconds since 1970; None if Spark may read it differently.

    `zone` applies to times without a time zone.
    """
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
    """Parse a date to the microseconds of its midnight; like Spark, ignore a time of day after it."""
    match = _DATE.fullmatch(text.strip(" "))
    return None if match is None else parse_time(match[1], zone)


def _parse_zone(text: str) -> tzinfo | None:
    if text in ("Z", "UTC"):
        return UTC
    return datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo


def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by Spark's name; None if the name may mean another zone in Python."""
    if name in ("UTC", "Z", "GMT", "Etc/UTC"):
        return UTC
    if "/" not in name:
        return None  # Java has its own meanings of short names, such as EST.
    make: Callable[[str], tzinfo] = ZoneInfo
    try:
        return make(name)
    except (OSError, ValueError, KeyError):
        return None
