"""Expressions of SQL on cells: resolve their columns, and read those that tasks evaluate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from frazil.tables.aggregates import BOOLEAN, DOUBLE, SINGLE, Expression
from frazil.tables.columns import (
    Columns,
    GroupArrays,
    Values,
    identity,
    join_arrays,
    to_arrow,
)
from frazil.tables.predicates import find_unknown, find_zone, parse_number
from frazil.tables.sql_predicates import DIALECT, Scope, insert_values, read_predicate
from frazil.tables.sql_statements import quote
from frazil.tables.table_source import Source

Evaluate = Callable[[pa.Table, Sequence[str]], pa.Table | None]
"""Function that evaluates expressions for each row of a table in the engine; None if it fails."""
Edit = tuple[int, int, str]
"""Part of a text and what takes its place."""


class NotPushedDownError(Exception):
    """Select whose aggregates the engine computes from rows, with the reason."""


# Texts

OPENING, CLOSING = (
    (TokenType.L_PAREN, TokenType.L_BRACKET),
    (TokenType.R_PAREN, TokenType.R_BRACKET),
)


def split(tokens: Sequence[Token], at: TokenType) -> list[Sequence[Token]]:
    """Split tokens at a kind of token outside of parentheses, `CASE` and `BETWEEN … AND`."""
    parts: list[list[Token]] = [[]]
    depth = betweens = 0
    for each in tokens:
        kind = each.token_type
        depth += (kind in (*OPENING, TokenType.CASE)) - (kind in (*CLOSING, TokenType.END))
        if not depth and kind is TokenType.BETWEEN:
            betweens += 1
        elif not depth and kind is TokenType.AND and betweens:
            betweens -= 1
        elif not depth and kind is at:
            parts.append([])
            continue
        parts[-1].append(each)
    return [each for each in parts if each]


def text_of(text: str, tokens: Sequence[Token]) -> str:
    """Return the part of a text that tokens are of."""
    return text[tokens[0].start : tokens[-1].end + 1]


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with parts of it replaced."""
    for start, end, new in sorted(edits, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text


def parse(text: str) -> Any:
    """Parse an expression or a query; raises NotPushedDownError."""
    try:
        return sqlglot.parse_one(text, dialect=DIALECT)
    except SqlglotError as error:
        raise NotPushedDownError("it can't be parsed") from error


DETERMINISTIC = ("WEEKDAY", "PMOD", "DAYNAME", "MONTHNAME", "BROUND", "POSITIVE", "NEGATIVE")
"""Functions of the engine that the parser does not know."""
RANDOM = tuple(
    getattr(exp, name)
    for name in (
        "Rand",
        "Randn",
        "Uuid",
        "Randstr",
        "Uniform",
        "Shuffle",
        "MonotonicallyIncreasingId",
    )
    if hasattr(exp, name)
)


# Columns of a select


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells that a select reads: those of one table, or of several with one grid."""

    source: Source
    names: Mapping[tuple[str, str], str]
    """Columns by qualifier and name in lower case; the qualifier is empty without one."""
    alias: str
    args: Mapping[str, Any] = field(default_factory=dict)
    """Values of the query's parameters."""

    @property
    def columns(self) -> Columns:
        """Return the columns."""
        return self.source.arrays.columns(self.source.options.variables)

    @property
    def zone(self) -> tzinfo | None:
        """Return the time zone of times without one."""
        return find_zone(self.source.options.time_zone)

    def find(self, column: exp.Column) -> str:
        """Return the column that a name refers to."""
        key = (column.table.lower(), column.name.lower())
        if column.args.get("db") or key not in self.names:
            raise NotPushedDownError(f"{column.sql(DIALECT)} is no column of the array")
        return self.names[key]

    def resolve(self, tree: Any) -> Any:
        """Return an expression with the columns of the cells and values of parameters."""

        def resolve(node: Any) -> Any:
            if isinstance(node, exp.Column):
                return exp.column(exp.to_identifier(self.find(node), quoted=True))
            return node

        return insert_values(tree, self.args).transform(resolve)

    def rename(self, text: str) -> str:
        """Return the text of an expression with the columns of the cells."""
        edits = [
            (*span_of(each), quote(self.find(each))) for each in parse(text).find_all(exp.Column)
        ]
        return apply_edits(text, edits)

    def along(self, tree: Any) -> str | None:
        """Return the one dimension of all columns of an expression, which must be coordinates."""
        found = [self.columns.get(self.find(each)) for each in tree.find_all(exp.Column)]
        dims = {dim for each in found for dim in each.dims}
        if any(each.kind == "variable" for each in found) or len(dims) != 1:
            return None
        return next(iter(dims))

    def list_coordinates(self, dim: str, trees: Sequence[Any]) -> pa.Table:
        """Return the coordinates along a dimension that expressions use, one row per position."""
        names = {self.find(each) for tree in trees for each in tree.find_all(exp.Column)}
        size, found = self.columns.sizes[dim], {}
        for name in sorted(names):
            values = self.source.arrays.read_coordinate(self.columns, name)
            found[name] = to_arrow(values.spread((size,)))
        return pa.table(found)


def make_cells(
    tables: Sequence[tuple[str, Source]], joins: Sequence[Any], args: Mapping[str, Any]
) -> Cells:
    """Return the cells of the tables of a select, given their qualifiers and its joins."""
    alias, source = tables[0]
    if len(tables) == 1:
        own = {each.name: each.name for each in source.arrays.columns(source.options.variables).all}
        return Cells(source, _index([(alias, own)]), alias, args)
    opened: list[tuple[str, GroupArrays, Any]] = [
        (alias.lower(), each.arrays, each.arrays.columns(each.options.variables))
        for alias, each in tables
    ]
    if len({alias for alias, _, _ in opened}) < len(opened):
        raise NotPushedDownError("two tables have one name")
    joined = join_arrays(opened, [_find_keys(join, opened) for join in joins])
    if joined is None:
        raise NotPushedDownError(
            "the tables have different grids, or are not joined by all dimensions"
        )
    arrays, names = joined
    options = replace(source.options, variables=None)
    listed = [
        (alias, {name: names[alias, name] for name in columns.types})
        for alias, _, columns in opened
    ]
    return Cells(Source(source.repository, options, arrays), _index(listed), alias, args)


def _index(tables: Sequence[tuple[str, Mapping[str, str]]]) -> dict[tuple[str, str], str]:
    """Return columns by qualifier and name, without those that are ambiguous."""
    found: dict[tuple[str, str], set[str]] = {}
    for alias, names in tables:
        for name, own in names.items():
            for qualifier in ("", alias.lower()):
                found.setdefault((qualifier, name.lower()), set()).add(own)
    return {key: next(iter(each)) for key, each in found.items() if len(each) == 1}


def _find_keys(join: Any, tables: Sequence[tuple[str, GroupArrays, Any]]) -> frozenset[str]:
    """Return the columns that an inner join compares, which have one name in both tables."""
    if join.side or join.method or join.kind not in ("", "INNER"):
        raise NotPushedDownError("only inner joins are pushed down")
    using, on = join.args.get("using"), join.args.get("on")
    if using:
        return frozenset(each.name for each in using)
    if on is None:
        raise NotPushedDownError("it has a join without a condition")
    own = join.this.alias_or_name.lower()
    found = set()
    terms: list[Any] = list(on.flatten()) if isinstance(on, exp.And) else [on.unnest()]
    for term in terms:
        sides: list[Any] = [term.left, term.right] if isinstance(term, exp.EQ) else []
        if len(sides) != 2 or not all(isinstance(each, exp.Column) for each in sides):
            raise NotPushedDownError("a join has another condition than equal coordinates")
        qualifiers = {each.table.lower() for each in sides}
        names = {each.name for each in sides}
        known = {alias for alias, _, _ in tables}
        if (
            own not in qualifiers
            or len(qualifiers) != 2
            or len(names) != 1
            or not qualifiers <= known
        ):
            raise NotPushedDownError("a join has another condition than equal coordinates")
        found.add(names.pop())
    return frozenset(found)


def span_of(column: exp.Column) -> tuple[int, int]:
    """Return the part of a text that names a column, with its qualifier."""
    parts = [each for each in column.parts if each.meta]
    return min(each.meta["start"] for each in parts), max(each.meta["end"] for each in parts) + 1


# Expressions of cells

_UNARY = {
    exp.Cos: "cos", exp.Sin: "sin", exp.Tan: "tan", exp.Radians: "radians", exp.Degrees: "degrees",
    exp.Exp: "exp", exp.Sqrt: "sqrt",
}  # fmt: skip
_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DECIMAL = pa.decimal128(38, 18)
"""Stands for the type of any literal with a decimal point."""
_NOTHING = pa.null()


def _common_type(types: Sequence[pa.DataType], *, is_ansi: bool) -> pa.DataType:
    """Return the type to which the engine casts numbers of some types."""
    known = {each for each in types if each != _NOTHING}
    if len(known) == 1 and _DECIMAL not in known:
        return known.pop()
    if known <= set(_INTEGERS) and known:
        return max(known, key=_INTEGERS.index)
    if DOUBLE in known or (SINGLE in known and (is_ansi or _DECIMAL in known)):
        if known <= {*_INTEGERS, _DECIMAL, SINGLE, DOUBLE}:
            return DOUBLE
    elif SINGLE in known and known <= {*_INTEGERS, SINGLE}:
        return SINGLE
    raise NotPushedDownError("it has an expression of types that only Spark evaluates")


@dataclass(slots=True)
class CellReader:
    """Reads expressions of cells, and names those that tasks compute."""

    cells: Cells
    derived: dict[str, Expression] = field(default_factory=dict)

    @property
    def is_ansi(self) -> bool:
        return self.cells.source.options.is_ansi

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {
            **self.cells.columns.types,
            **{name: each.type for name, each in self.derived.items()},
        }

    def name(self, expression: Expression) -> str:
        """Return the column of an expression, which is added if there is none yet."""
        if expression.operator == "column":
            found: str = expression.value
            return found
        for name, each in self.derived.items():
            if each == expression:
                return name
        name = f"_frazil_x{len(self.derived)}"
        self.derived[name] = expression
        return name

    def read(self, tree: Any) -> Expression:
        """Read an expression whose columns are resolved."""
        match tree:
            case exp.Paren():
                return self.read(tree.this)
            case exp.Column():
                return Expression("column", self.types[tree.name], value=tree.name)
            case exp.Null():
                return Expression("literal", _NOTHING)
            case exp.Literal() if not tree.is_string:
                return _read_number(tree.this)
            case exp.Pi():
                return Expression("literal", DOUBLE, value=float(np.pi))
            case exp.Neg(this=exp.Literal() as inner) if not inner.is_string:
                number = _read_number(inner.this)
                return replace(number, value=-number.value)
            case exp.Neg() | exp.Abs():
                operand = self.read(tree.this)
                if not pa.types.is_floating(operand.type):
                    break_off("integers may overflow")
                name = "neg" if isinstance(tree, exp.Neg) else "abs"
                return Expression(name, operand.type, (operand,))
            case exp.Cast() if tree.is_type("double", "float"):
                return self._cast(
                    self.read(tree.this), DOUBLE if tree.is_type("double") else SINGLE
                )
            case exp.Div():
                divisor = self.read(tree.right)
                # The engine reports a division by zero.
                if divisor.operator != "literal" or not divisor.value:
                    break_off("a divisor may be zero")
                number = self.read(tree.left)
                if _DECIMAL in (divisor.type, number.type):
                    self._find_common((divisor, number))
                return Expression(
                    "/", DOUBLE, (self._cast(number, DOUBLE), self._cast(divisor, DOUBLE))
                )
            case exp.Pow():
                parts = tuple(
                    self._cast(self.read(each), DOUBLE) for each in (tree.this, tree.expression)
                )
                return Expression("power", DOUBLE, parts)
            case exp.Case():
                return self._read_case(tree)
            case exp.If():
                other = tree.args.get("false") or exp.Null()
                return self._choose(
                    [(self.test(tree.this), self.read(tree.args["true"]))], self.read(other)
                )
            case exp.Coalesce():
                *first, last = [self.read(each) for each in (tree.this, *tree.expressions)]
                cases = [(self._is_present(each), each) for each in first]
                return self._choose(cases, last)
            case exp.Nullif():
                value = self.read(tree.this)
                equal = self.test(exp.EQ(this=tree.this.copy(), expression=tree.expression.copy()))
                return self._choose([(equal, Expression("literal", _NOTHING))], value)
        if type(tree) in _UNARY:
            return Expression(
                _UNARY[type(tree)], DOUBLE, (self._cast(self.read(tree.this), DOUBLE),)
            )
        if type(tree) in _ARITHMETIC:
            left, right = self.read(tree.left), self.read(tree.right)
            common = self._find_common((left, right))
            if not pa.types.is_floating(common):
                break_off("integers may overflow")
            parts = (self._cast(left, common), self._cast(right, common))
            return Expression(_ARITHMETIC[type(tree)], common, parts)
        raise NotPushedDownError(f"only Spark evaluates {tree.sql(DIALECT)}")

    def test(self, tree: Any) -> Expression:
        """Read a condition whose columns are resolved."""
        lifted = self._lift(tree)
        found = read_predicate(lifted, self._scope())
        unknown = find_unknown(found)
        if unknown is not None:
            raise NotPushedDownError(f"only Spark evaluates {unknown}")
        return Expression("test", BOOLEAN, value=found)

    def _scope(self) -> Scope:
        return Scope(self.types, self.cells.zone, is_ansi=self.is_ansi)

    def _lift(self, tree: Any) -> Any:
        """Return a condition in which columns stand for comparisons of expressions."""
        match tree:
            case exp.Paren():
                return self._lift(tree.this)
            case exp.And() | exp.Or():
                return type(tree)(this=self._lift(tree.left), expression=self._lift(tree.right))
            case exp.Not():
                return exp.Not(this=self._lift(tree.this))
        if find_unknown(read_predicate(tree, self._scope())) is None:
            return tree
        match tree:
            case exp.Between() if not tree.args.get("symmetric"):
                low, high = (tree.args[each] for each in ("low", "high"))
                return exp.And(
                    this=self._compare(exp.GTE, tree.this, low),
                    expression=self._compare(exp.LTE, tree.this, high),
                )
            case exp.Is(expression=exp.Null()):
                value = self.read(tree.this)
                return self._column(Expression("is null", BOOLEAN, (value,)))
        if type(tree) in _COMPARED:
            return self._compare(type(tree), tree.left, tree.right)
        raise NotPushedDownError(f"only Spark evaluates {tree.sql(DIALECT)}")

    def _compare(self, kind: Any, left: Any, right: Any) -> Any:
        one, other = self.read(left), self.read(right)
        common = self._find_common((one, other))
        if not pa.types.is_floating(common):
            if common not in _INTEGERS[:3]:
                break_off("integers are compared")
            common = DOUBLE
        parts = (self._cast(one, common), self._cast(other, common))
        if kind in (exp.EQ, exp.NEQ):
            found = self._column(Expression("=", BOOLEAN, parts))
            return exp.Not(this=found) if kind is exp.NEQ else found
        is_turned = kind in (exp.GT, exp.LTE)
        found = self._column(Expression("<", BOOLEAN, parts[::-1] if is_turned else parts))
        return exp.Not(this=found) if kind in (exp.LTE, exp.GTE) else found

    def _column(self, expression: Expression) -> Any:
        return exp.column(exp.to_identifier(self.name(expression), quoted=True))

    def _is_present(self, value: Expression) -> Expression:
        is_null = self._column(Expression("is null", BOOLEAN, (value,)))
        return self.test(exp.Not(this=is_null))

    def _read_case(self, tree: exp.Case) -> Expression:
        cases = []
        for each in tree.args["ifs"]:
            when = each.this
            if tree.this is not None:
                when = exp.EQ(this=tree.this.copy(), expression=when.copy())
            cases.append((self.test(when), self.read(each.args["true"])))
        return self._choose(cases, self.read(tree.args.get("default") or exp.Null()))

    def _choose(
        self, cases: Sequence[tuple[Expression, Expression]], other: Expression
    ) -> Expression:
        type = self._find_common([*(value for _, value in cases), other])
        parts = [part for when, value in cases for part in (when, self._cast(value, type))]
        return Expression("case", type, (*parts, self._cast(other, type)))

    def _find_common(self, parts: Sequence[Expression]) -> pa.DataType:
        return _common_type([each.type for each in parts], is_ansi=self.is_ansi)

    def _cast(self, value: Expression, type: pa.DataType) -> Expression:
        if value.type == type:
            return value
        if value.operator == "literal":
            is_small = value.type in _INTEGERS and type in _INTEGERS
            own = value.value if value.value is None or is_small else float(value.value)
            return Expression("literal", type, value=own)
        if value.type not in (*_INTEGERS, SINGLE, DOUBLE) or type not in (
            *_INTEGERS,
            SINGLE,
            DOUBLE,
        ):
            break_off("an expression has a type that only Spark casts")
        return Expression("cast", type, (value,))


def break_off(reason: str) -> NoReturn:
    """Raise NotPushedDownError."""
    raise NotPushedDownError(reason)


def _read_number(text: str) -> Expression:
    number = parse_number(text)
    if number is None:
        raise NotPushedDownError(f"only Spark reads the number {text}")
    if number.is_double:
        return Expression("literal", DOUBLE, value=float(number.value))
    if number.value != number.value.to_integral_value() or "." in text:
        return Expression("literal", _DECIMAL, value=float(number.value))
    whole = int(number.value)
    if whole >= 1 << 63:
        raise NotPushedDownError(f"only Spark reads the number {text}")
    return Expression("literal", pa.int32() if whole < 1 << 31 else pa.int64(), value=whole)


# Conditions on coordinates


@dataclass(frozen=True, slots=True)
class ConditionPart:
    """Part of a condition that is a conjunction."""

    kind: Literal["known", "computed", "unknown"]
    """`known` if tasks evaluate it, `computed` if the engine has evaluated it for all coordinates."""
    text: str
    """Text of the part, or the name of the computed coordinate."""


@dataclass(frozen=True, slots=True)
class Sharpened:
    """Condition with parts that the engine has evaluated for all coordinates along a dimension."""

    source: Source
    """Source with a coordinate for each of these parts."""
    parts: tuple[ConditionPart, ...]

    @property
    def computed(self) -> list[str]:
        """Return the names of computed coordinates."""
        return [each.text for each in self.parts if each.kind == "computed"]


def sharpen(cells: Cells, where: str, evaluate: Evaluate) -> Sharpened:
    """Evaluate the parts of a condition that depend on coordinates along one dimension alone.

    Parameters
    ----------
    cells
        Cells that the condition filters.
    where
        Text of the condition.
    evaluate
        Function that evaluates expressions in the engine.
    """
    scope = Scope(cells.columns.types, cells.zone, is_ansi=cells.source.options.is_ansi)
    tokens = sqlglot.tokenize(where, read=DIALECT)
    is_or = len(split(tokens, TokenType.OR)) > 1
    texts = [where] if is_or else [text_of(where, each) for each in split(tokens, TokenType.AND)]
    computed: dict[str, tuple[str, Values]] = {}
    parts = []
    for text in texts:
        tree = parse(text)
        try:
            is_known = find_unknown(read_predicate(cells.resolve(tree), scope)) is None
            dim = None if is_known or _is_opaque(tree) else cells.along(tree)
        except NotPushedDownError:
            is_known, dim = False, None
        values = None
        if dim is not None:
            values = evaluate(cells.list_coordinates(dim, [tree]), [cells.rename(text)])
        if dim is None or values is None or values.schema.types != [BOOLEAN]:
            parts.append(ConditionPart("known" if is_known else "unknown", text))
            continue
        name = f"_frazil_w{len(computed)}"
        flags = values.column(0).combine_chunks()
        missing = flags.is_null().to_numpy(zero_copy_only=False)
        data = flags.fill_null(False).to_numpy(zero_copy_only=False)
        computed[name] = dim, Values(BOOLEAN, data, missing if missing.any() else None)
        parts.append(ConditionPart("computed", name))
    source = cells.source
    if computed:
        arrays = identity(source.arrays, cells.columns).compute(computed)
        source = Source(source.repository, replace(source.options, variables=None), arrays)
    return Sharpened(source, tuple(parts))


def _is_opaque(tree: Any) -> bool:
    """Return True if an expression may have another value for each row, or needs other tables."""
    return any(
        isinstance(each, (exp.Query, exp.Subquery, exp.AggFunc, exp.Window, exp.Exists, *RANDOM))
        or (isinstance(each, exp.Anonymous) and each.name.upper() not in DETERMINISTIC)
        for each in tree.walk()
    )
