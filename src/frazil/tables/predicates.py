"""Predicates: parse SQL conditions on columns, compare literals as Spark does, evaluate them."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_FLOOR, Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp
from sqlglot.errors import SqlglotError

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


def evaluate(condition: Condition, tell: Callable[[Leaf], Truth]) -> Truth:
    """Evaluate a condition from the truth of its leaves; arrays are broadcast."""
    match condition:
        case And(parts):
            truths = [evaluate(part, tell) for part in parts]
            return Truth(
                reduce(and_, (each.can_be_true for each in truths), True),
                reduce(or_, (each.can_be_false for each in truths), False),
            )
        case Or(parts):
            truths = [evaluate(part, tell) for part in parts]
            return Truth(
                reduce(or_, (each.can_be_true for each in truths), False),
                reduce(and_, (each.can_be_false for each in truths), True),
            )
        case Not(part):
            truth = evaluate(part, tell)
            return Truth(truth.can_be_false, truth.can_be_true)
        case Null():
            return Truth(False, False)
        case Unknown():
            return UNKNOWN
    return tell(condition)


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


def tell_of_values(leaf: Leaf, values: Values) -> Truth:
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
        data = np.where(values.missing, _stand_in(leaf), data)
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


def _stand_in(leaf: Compare | IsIn) -> Any:
    return leaf.values[0] if isinstance(leaf, IsIn) else leaf.value


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


DIALECT = "spark"
_SQL_OPERATORS: dict[type[exp.Expression], Operator] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_MIRRORED: dict[Operator, Operator] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_NULL = object()


@dataclass(frozen=True, slots=True)
class Scope:
    """Name resolution of a condition."""

    columns: Mapping[str, pa.DataType]
    zone: tzinfo | None = UTC
    """Zone of times without one; None if unknown."""
    qualifiers: frozenset[str] = field(default=frozenset())
    """Table names in lower case that may qualify a column."""
    needs_qualifier: bool = False
    """True if unqualified columns may belong to another table."""
    is_ansi: bool = True
    """True if the engine follows the ANSI type rules."""

    def find(self, column: exp.Column) -> str | None:
        """Return the column that a name refers to, ignoring case."""
        qualifier = column.table
        if column.args.get("db") or (qualifier and qualifier.lower() not in self.qualifiers):
            return None
        if self.needs_qualifier and not qualifier:
            return None
        name = column.name
        found = [each for each in self.columns if each.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


def parse_predicate(sql: str, scope: Scope) -> Condition:
    """Parse a condition; `Unknown` if it can't be parsed."""
    try:
        tree = sqlglot.parse_one(sql, dialect=DIALECT, into=exp.Condition)
    except SqlglotError:
        return Unknown(sql)
    return read_predicate(tree, scope)


def read_predicate(tree: Any, scope: Scope) -> Condition:
    """Convert a parsed expression to a condition."""
    match tree:
        case exp.Paren():
            return read_predicate(tree.this, scope)
        case exp.And():
            return And((read_predicate(tree.left, scope), read_predicate(tree.right, scope)))
        case exp.Or():
            return Or((read_predicate(tree.left, scope), read_predicate(tree.right, scope)))
        case exp.Not():
            return Not(read_predicate(tree.this, scope))
        case exp.Between():
            low, high = tree.args["low"], tree.args["high"]
            if tree.args.get("symmetric"):
                return _unknown(tree, scope)
            return And(
                (
                    _compare(tree, tree.this, ">=", low, scope),
                    _compare(tree, tree.this, "<=", high, scope),
                )
            )
        case exp.NullSafeEQ():
            equal = _compare(tree, tree.left, "=", tree.right, scope)
            if not isinstance(equal, Compare):
                return _unknown(tree, scope)
            return And((equal, Not(IsNull(equal.column))))
        case exp.Is():
            return _read_is(tree, scope)
        case exp.In():
            return _read_in(tree, scope)
        case exp.Boolean():
            return And(()) if tree.this else Or(())
        case exp.Null():
            return Null()
        case exp.Column():
            return _compare(tree, tree, "=", exp.true(), scope)
    operator = _SQL_OPERATORS.get(type(tree))
    return (
        _unknown(tree, scope)
        if operator is None
        else _compare(tree, tree.left, operator, tree.right, scope)
    )


def _compare(
    tree: exp.Expression, left: Any, operator: Operator, right: Any, scope: Scope
) -> Condition:
    left, right = left.unnest(), right.unnest()
    if not isinstance(left, exp.Column):
        left, right, operator = right, left, _MIRRORED[operator]
    if not isinstance(left, exp.Column):
        return _unknown(tree, scope)
    column, constant = scope.find(left), _read_constant(right, scope.zone)
    if column is None or constant is None:
        return _unknown(tree, scope)
    if constant is _NULL:
        return Null()
    bound = bind(operator, constant, scope.columns[column], scope.zone)
    return _unknown(tree, scope) if bound is None else Compare(column, *bound)


def _read_is(tree: exp.Is, scope: Scope) -> Condition:
    column = tree.this.unnest()
    found = scope.find(column) if isinstance(column, exp.Column) else None
    if found is None or not isinstance(tree.expression, exp.Null):
        return _unknown(tree, scope)
    return IsNull(found)


def _read_in(tree: exp.In, scope: Scope) -> Condition:
    column = tree.this.unnest()
    found = scope.find(column) if isinstance(column, exp.Column) else None
    given = [_read_constant(each.unnest(), scope.zone) for each in tree.expressions]
    constants = [each for each in given if each is not _NULL]
    if found is None or not constants or None in constants:
        return _unknown(tree, scope)
    # Spark casts all of them to one type, which changes some if their kinds differ.
    if len({type(each) for each in constants}) > 1:
        return _unknown(tree, scope)
    # Without the ANSI rules that type is string, so times would be compared as strings.
    is_spelled = any(isinstance(each, Text) for each in constants)
    if is_spelled and scope.columns[found] == TIMESTAMP and not scope.is_ansi:
        return _unknown(tree, scope)
    bound = [bind("=", each, scope.columns[found], scope.zone) for each in constants]
    if None in bound:
        return _unknown(tree, scope)
    condition = IsIn(found, tuple(each[1] for each in bound if each is not None))
    return condition if len(constants) == len(given) else Or((condition, Null()))


def _read_constant(tree: Any, zone: tzinfo | None) -> Constant | Any:
    """Return a constant, `_NULL`, or None if the expression is no constant."""
    match tree:
        case exp.Null():
            return _NULL
        case exp.Boolean():
            return Flag(bool(tree.this))
        case exp.Literal() if tree.is_string:
            return Text(tree.this) if is_plain(tree.this) else None
        case exp.Literal():
            return parse_number(tree.this)
        case exp.Neg(this=exp.Literal() as literal) if not literal.is_string:
            number = parse_number(literal.this)
            return None if number is None else Number(-number.value, number.is_double)
        case exp.Cast() if tree.is_type("date", *_TIMES) and _is_text(tree.this):
            parse = parse_date if tree.is_type("date") else parse_time
            moment = parse(tree.this.this, zone) if is_plain(tree.this.this) else None
            return None if moment is None else Moment(moment)
        case exp.Cast(this=exp.Literal() as literal) if tree.is_type("bigint", "double"):
            return _read_suffixed(literal, is_double=tree.is_type("double"))
    return None


def _read_suffixed(literal: exp.Literal, *, is_double: bool) -> Number | None:
    """Parse a number such as `5L` or `5D`."""
    number = None if literal.is_string else parse_number(literal.this)
    if number is None:
        return None
    return make_double(number.value) if is_double else make_long(number.value)


_TIMES = ("timestamp", "timestamptz", "timestampltz")


def _is_text(tree: Any) -> bool:
    return isinstance(tree, exp.Literal) and tree.is_string


def _unknown(tree: exp.Expression, scope: Scope) -> Unknown:
    return Unknown(tree.sql(dialect=DIALECT), can_fail=_expression_can_fail(tree, scope))


# Expressions that the engine evaluates without error for any values

_TIME_PARTS = (
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfMonth, exp.DayOfWeek,
    exp.DayOfYear, exp.Hour, exp.Minute, exp.Second, exp.LastDay,
)  # fmt: skip
_OF_TEXTS = {exp.Lower: "text", exp.Upper: "text", exp.Trim: "text", exp.Length: "number"}
_COMPARISONS = (*_SQL_OPERATORS, exp.NullSafeEQ)


def _expression_can_fail(tree: Any, scope: Scope) -> bool:
    """Return True if evaluating a condition on rows of this table alone may raise an error."""
    names = [each.table.lower() for each in tree.find_all(exp.Column)]
    if any(name and name not in scope.qualifiers for name in names):
        # The engine evaluates it for another table or after the join; pruned rows are gone by then.
        return bool(tree.find(exp.Query))
    return _find_kind(tree, scope) != "truth"


def _find_kind(tree: Any, scope: Scope) -> str | None:
    """Return the kind of value of an expression that can't fail; None for one that may."""
    match tree:
        case exp.Paren():
            return _find_kind(tree.this, scope)
        case exp.Boolean() | exp.Null():
            return "truth"
        case exp.Literal():
            return "text" if tree.is_string else "number"
        case exp.Column():
            name = scope.find(tree)
            return None if name is None else _kind_of(scope.columns[name])
        case exp.Not():
            return _find_kind(tree.this, scope)
        case exp.Is():
            return "truth" if _find_kind(tree.this, scope) else None
        case exp.Like() | exp.ILike():
            return "truth" if _are_alike((tree.this, tree.expression), scope, "text") else None
        case exp.In() if tree.expressions and not tree.args.get("query"):
            return "truth" if _are_alike((tree.this, *tree.expressions), scope) else None
        case exp.Between():
            parts = (tree.this, tree.args["low"], tree.args["high"])
            return "truth" if _are_alike(parts, scope) else None
    if isinstance(tree, exp.And | exp.Or):
        return "truth" if _are_alike((tree.left, tree.right), scope, "truth") else None
    if isinstance(tree, exp.Binary) and type(tree) in _COMPARISONS:
        return "truth" if _are_alike((tree.left, tree.right), scope) else None
    if isinstance(tree, _TIME_PARTS) and _find_kind(_own_time(tree), scope) == "time":
        return "number"
    if type(tree) in _OF_TEXTS and _find_kind(tree.this, scope) == "text":
        return _OF_TEXTS[type(tree)]
    return None


def _are_alike(parts: Any, scope: Scope, kind: str | None = None) -> bool:
    """Return True if no expression can fail and all have one kind, so that none is cast."""
    kinds = {_find_kind(each, scope) for each in parts}
    return None not in kinds and (kinds == {kind} if kind else len(kinds) == 1)


def _own_time(tree: Any) -> Any:
    """Return the argument of a date part function, without the parser's wrappers."""
    inner = tree.this
    while isinstance(inner, exp.TsOrDsToDate):
        inner = inner.this
    return inner


def _kind_of(type: pa.DataType) -> str | None:
    if type == TIMESTAMP:
        return "time"
    if pa.types.is_string(type):
        return "text"
    if pa.types.is_boolean(type):
        return "truth"
    is_number = pa.types.is_integer(type) or pa.types.is_floating(type) or type == UNSIGNED_64
    return "number" if is_number else None
