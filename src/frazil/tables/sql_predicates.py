"""Read conditions in SQL as predicates, as far as they are certain to mean the same as in Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from frazil.tables.columns import TIMESTAMP, UNSIGNED_64
from frazil.tables.predicates import (
    And,
    Compare,
    Condition,
    Constant,
    Flag,
    IsIn,
    IsNull,
    Moment,
    Not,
    Null,
    Number,
    Operator,
    Or,
    Text,
    Unknown,
    bind,
    is_plain,
    make_double,
    make_long,
    parse_date,
    parse_number,
    parse_time,
)

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
        case exp.Neg():
            positive = _read_constant(tree.this, zone)
            if not isinstance(positive, Number):
                return None
            return Number(-positive.value, positive.is_double)
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


# Parameters


def to_python(value: Any) -> Any:
    """Return a parameter as a value of Python; labels of numpy without a time zone are in UTC."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        return value.astype("datetime64[us]").item().replace(tzinfo=UTC)
    if isinstance(value, np.timedelta64 | np.datetime64):
        return None if np.isnat(value) else value.astype("timedelta64[us]").item()
    if isinstance(value, datetime) and hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    return value.item() if isinstance(value, np.generic) else value


def insert_values(tree: Any, args: Mapping[str, Any]) -> Any:
    """Return an expression with values in place of parameters where SQL has a constant for them."""
    if not args:
        return tree

    def insert(node: Any) -> Any:
        if isinstance(node, exp.Placeholder) and node.name in args:
            return _make_constant(args[node.name]) or node
        return node

    return tree.transform(insert)


def _make_constant(value: Any) -> Any:
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() if abs(value) < 1 << 63:
            number = exp.Literal.number(abs(value))
            return exp.Neg(this=number) if value < 0 else number
        case float() if isfinite(value):
            number = exp.Literal.number(repr(abs(value)))
            double = exp.Cast(this=number, to=exp.DataType.build("double"))
            return exp.Neg(this=double) if value < 0 else double
        case str():
            return exp.Literal.string(value)
        case datetime():
            # Spark's Python API takes a time without a zone as local time.
            text = value.astimezone().isoformat(" ", "microseconds")
            return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("timestamptz"))
        case date():
            text = value.isoformat()
            return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("date"))
    return None
