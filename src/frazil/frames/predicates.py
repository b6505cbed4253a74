"""Conditions in SQL, read as far as they say something about single columns.

Understood are comparisons with constants, `IN`, `BETWEEN`, `IS NULL`, `AND`, `OR`, `NOT`, and columns
that are true or false themselves. Anything else is an `Unknown`: it keeps every row, and the engine
decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from frazil.frames.conditions import (
    And,
    Compare,
    Condition,
    IsIn,
    IsNull,
    Not,
    Null,
    Operator,
    Or,
    Unknown,
)
from frazil.frames.literals import (
    Constant,
    Flag,
    Moment,
    Number,
    Text,
    bind,
    is_plain,
    parse_number,
    parse_time,
)

DIALECT = "spark"
_OPERATORS: dict[type[exp.Expression], Operator] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_MIRRORED: dict[Operator, Operator] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_NULL = object()


@dataclass(frozen=True, slots=True)
class Scope:
    """What names in a condition mean."""

    columns: Mapping[str, pa.DataType]
    zone: tzinfo | None = UTC
    """Of times that name none; None if it is not known."""
    qualifiers: frozenset[str] = field(default=frozenset())
    """Names of the table, in lower case, that may stand before a column."""
    needs_qualifier: bool = False
    """Whether columns without one may be somebody else's."""

    def find(self, column: exp.Column) -> str | None:
        """The column that is meant, in whatever case it is written."""
        qualifier = column.table
        if column.args.get("db") or (qualifier and qualifier.lower() not in self.qualifiers):
            return None
        if self.needs_qualifier and not qualifier:
            return None
        name = column.name
        found = [each for each in self.columns if each.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


def parse_predicate(sql: str, scope: Scope) -> Condition:
    """The condition that a text is; one that nothing is known of where it can't be read."""
    try:
        tree = sqlglot.parse_one(sql, dialect=DIALECT, into=exp.Condition)
    except SqlglotError:
        return Unknown(sql)
    return read_predicate(tree, scope)


def read_predicate(tree: Any, scope: Scope) -> Condition:
    """The condition that a parsed expression is."""
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
                return _unknown(tree)
            return And(
                (
                    _compare(tree, tree.this, ">=", low, scope),
                    _compare(tree, tree.this, "<=", high, scope),
                )
            )
        case exp.NullSafeEQ():
            equal = _compare(tree, tree.left, "=", tree.right, scope)
            if not isinstance(equal, Compare):
                return _unknown(tree)
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
    operator = _OPERATORS.get(type(tree))
    return (
        _unknown(tree)
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
        return _unknown(tree)
    column, constant = scope.find(left), _read_constant(right, scope.zone)
    if column is None or constant is None:
        return _unknown(tree)
    if constant is _NULL:
        return Null()
    bound = bind(operator, constant, scope.columns[column], scope.zone)
    return _unknown(tree) if bound is None else Compare(column, *bound)


def _read_is(tree: exp.Is, scope: Scope) -> Condition:
    column = tree.this.unnest()
    found = scope.find(column) if isinstance(column, exp.Column) else None
    if found is None or not isinstance(tree.expression, exp.Null):
        return _unknown(tree)
    return IsNull(found)


def _read_in(tree: exp.In, scope: Scope) -> Condition:
    column = tree.this.unnest()
    found = scope.find(column) if isinstance(column, exp.Column) else None
    given = [_read_constant(each.unnest(), scope.zone) for each in tree.expressions]
    constants = [each for each in given if each is not _NULL]
    if found is None or not constants or None in constants:
        return _unknown(tree)
    # Spark makes one type of all of them, which changes some if they are of several kinds.
    if len({type(each) for each in constants}) > 1:
        return _unknown(tree)
    bound = [bind("=", each, scope.columns[found], scope.zone) for each in constants]
    if None in bound:
        return _unknown(tree)
    condition = IsIn(found, tuple(each[1] for each in bound if each is not None))
    return condition if len(constants) == len(given) else Or((condition, Null()))


def _read_constant(tree: Any, zone: tzinfo | None) -> Constant | Any:
    """A constant, `_NULL`, or None for what is none."""
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
        case exp.Cast() if tree.is_type(*_TIMES) and _is_text(tree.this):
            moment = parse_time(tree.this.this, zone)
            return None if moment is None else Moment(moment)
        case exp.Cast(this=exp.Literal() as literal) if tree.is_type("bigint", "double"):
            return _read_suffixed(literal, is_double=tree.is_type("double"))
    return None


def _read_suffixed(literal: exp.Literal, *, is_double: bool) -> Number | None:
    """A number such as `5L` or `5D`."""
    number = None if literal.is_string else parse_number(literal.this)
    if number is None or not (is_double or number.value == number.value.to_integral()):
        return None
    return Number(number.value, is_double)


_TIMES = ("date", "timestamp", "timestamptz", "timestampltz")


def _is_text(tree: Any) -> bool:
    return isinstance(tree, exp.Literal) and tree.is_string


def _unknown(tree: exp.Expression) -> Unknown:
    return Unknown(tree.sql(dialect=DIALECT))
