"""Aggregate push-down: parse queries, compute partial aggregates and combine them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from frazil.errors import InvalidInputError
from frazil.tables.cells import Cells
from frazil.tables.columns import TIMESTAMP, Values, to_arrow
from frazil.tables.scan import Partition, to_column
from frazil.tables.scan_plan import ChunkCount, ScanPlan
from frazil.tables.sql_predicates import DIALECT

_VERSION = re.compile(
    r"\s+(?:FOR\s+)?(?:SYSTEM_)?(VERSION|TIMESTAMP|TIME)\s+AS\s+OF\s+('[^'\\]*'|\d+)", re.IGNORECASE
)
_CHANGES_ROWS = ("sample", "pivots", "laterals", "joins")


@dataclass(frozen=True, slots=True)
class TableUse:
    """Use of a table in a query."""

    folder: str
    """Qualifier before the dot; empty if there is none."""
    name: str
    start: int
    end: int
    """End of the table's span in the query text, including its `VERSION AS OF` clause."""
    alias: str
    """Qualifier of the table's columns. The query already contains it if `is_aliased`."""
    is_aliased: bool
    where: str | None
    is_alone: bool
    """True if every unqualified column belongs to this table."""
    version: str | None = None
    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """Query and the tables it uses."""

    text: str
    uses: tuple[TableUse, ...]
    words: frozenset[str] | None
    """All tokens in lower case; None if the query may use columns it does not name."""

    def needs(self, column: str) -> bool:
        """Return True if the query may use a column."""
        return self.words is None or column.lower() in self.words

    def replaced(self, names: Sequence[tuple[TableUse, str]]) -> str:
        """Return the query text with tables replaced by other names."""
        text = self.text
        for use, name in sorted(names, key=lambda each: -each[0].start):
            alias = "" if use.is_aliased else f" AS `{use.alias}`"
            text = f"{text[: use.start]}`{name}`{alias}{text[use.end :]}"
        return text


def parse_query(text: str, *, pushes_down: bool = True) -> Query:
    """Parse a query.

    Parameters
    ----------
    text
        One `SELECT` or `WITH` query in Spark's SQL dialect.
    pushes_down
        If False, no predicate is taken from the query, because the engine may interpret it
        differently.

    Raises
    ------
    InvalidInputError
        If the text is not exactly one query.
    """
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=DIALECT) if tree is not None]
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except SqlglotError as error:
        raise InvalidInputError(f"can't read this query: {_explain(error)}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise InvalidInputError("one query is needed, SELECT or WITH")
    (tree,) = trees
    uses = [
        _use(text, table)
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not table.catalog
        if table.db or not _names_cte(table)
    ]
    # Parsers interpret escapes differently, so no predicate is pushed down.
    if not pushes_down or "\\" in text:
        uses = [replace(use, where=None, is_alone=False) for use in uses]
    words = None if _uses_unnamed(tree) else frozenset(token.text.lower() for token in tokens)
    return Query(text, tuple(uses), words)


def _names_cte(table: exp.Table) -> bool:
    """Return True if a table name refers to a `WITH` definition in scope.

    A definition sees those before it, and itself only if it is recursive.
    """
    name = table.name.lower()
    inner: Any = table
    while inner.parent is not None:
        outer = inner.parent
        if isinstance(outer, exp.With):
            at = next(n for n, each in enumerate(outer.expressions) if each is inner)
            seen = outer.expressions[: at + bool(outer.recursive)]
        else:
            clause = outer.args.get("with_") or outer.args.get("with")
            seen = [] if clause is None or clause is inner else clause.expressions
        if any(each.alias.lower() == name for each in seen):
            return True
        inner = outer
    return False


def _explain(error: SqlglotError) -> str:
    """Return the reason and position of a parse error, without the parser's internal wording."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else None
    if found is None:
        return "it has no words that SQL knows, or a quote or a comment without its end"
    # The parser prints its own objects in angle brackets.
    reason, _, _ = str(found["description"]).partition(" but got <")
    if "<" in reason or "Invalid expression" in reason:
        reason = "something is missing or too much"
    where = f"line {found['line']}, column {found['col']}"
    return f"{reason[0].lower()}{reason[1:]} near {found['highlight']!r} ({where})"


def _uses_unnamed(tree: Any) -> bool:
    """Return True if a query uses unnamed columns: by `*`, a natural join or position."""
    stars = (star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    natural = (join for join in tree.find_all(exp.Join) if join.method)
    renamed = (table for table in tree.find_all(exp.Table) if _renames_columns(table))
    pivots = tree.find_all(exp.Pivot)
    return any(True for found in (stars, natural, renamed, pivots) for _ in found)


def _renames_columns(table: exp.Table) -> bool:
    """Return True if a table alias renames columns by position."""
    return bool(table.alias_column_names)


def _use(text: str, table: exp.Table) -> TableUse:
    first: Any = table.args.get("db") or table.this
    start, end = first.meta["start"], table.this.meta["end"] + 1
    select, is_alone = _find_select(table)
    where = None if select is None else select.args.get("where")
    version = _VERSION.match(text, end)
    kind, value = (version[1].upper(), version[2].strip("'")) if version else ("", None)
    return TableUse(
        folder=table.db,
        name=table.name,
        start=start,
        end=version.end() if version else end,
        alias=table.alias or table.name,
        is_aliased=bool(table.alias),
        where=None if where is None else where.this.sql(dialect=DIALECT),
        is_alone=is_alone,
        version=value if kind == "VERSION" else None,
        as_of=value if kind in ("TIMESTAMP", "TIME") else None,
    )


def _find_select(table: exp.Table) -> tuple[exp.Select | None, bool]:
    """Return the select whose `WHERE` filters every row of a table, and if it reads nothing else."""
    parent = table.parent
    select = parent.parent if isinstance(parent, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select) or any(table.args.get(each) for each in _CHANGES_ROWS):
        return None, False
    if _renames_columns(table):
        return None, False
    joins = select.args.get("joins") or []
    if select.args.get("laterals") or not all(map(_keeps_apart, joins)):
        return None, False
    return select, not joins


def _keeps_apart(join: exp.Join) -> bool:
    """Return True if filtering one side of a join filters the result and changes no other row."""
    return not join.side and not join.method and join.kind in ("", "INNER", "CROSS")


Function = Literal["sum", "count", "min", "max"]
SUMMED = (pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64())
"""Types whose sum over a region is exact, or as exact as the engine's own."""
ORDERED = (*SUMMED, pa.int64(), TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Partial:
    """Partial aggregate of each group; without a column it counts cells."""

    function: Function
    column: str | None
    name: str
    """Name of its output column."""

    def find_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of its values."""
        if self.function == "count" or self.column is None:
            return pa.int64()
        own = types[self.column]
        if self.function in ("min", "max"):
            return own
        return pa.float64() if pa.types.is_floating(own) else pa.int64()


def can_be(function: Function, type: pa.DataType) -> bool:
    """Return True if a column of a type supports an aggregate function."""
    if function == "count":
        return True
    return type in (SUMMED if function == "sum" else ORDERED)


@dataclass(frozen=True, slots=True, eq=False)
class Summaries:
    """Table of partial aggregates of cells; implements `Table`."""

    chosen: ScanPlan
    groups: tuple[str, ...]
    """Grouping coordinates, each with at most one dimension."""
    partials: tuple[Partial, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the group columns, then the partial aggregates."""
        types = self.chosen.columns.types
        own = [pa.field(name, types[name]) for name in self.groups]
        return pa.schema(
            [*own, *(pa.field(each.name, each.find_type(types)) for each in self.partials)]
        )

    def partitions(self) -> Sequence[Partition]:
        """Return the partitions of the cells."""
        return Cells(self.chosen).partitions()

    def count_chunks(self) -> dict[str, ChunkCount]:
        """Return the number of chunks to read, by array."""
        return self.chosen.count_chunks()

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield one batch per region that has matching cells."""
        for shape, mask, values in Cells(self.chosen).read_values(partition):
            yield from self._summarize(_Region(shape, mask, values, self._kept_axes()))

    def _kept_axes(self) -> tuple[int, ...]:
        """Return the axes along which the groups differ."""
        dims = self.chosen.columns.dims
        own = {dim for name in self.groups for dim in self.chosen.columns.get(name).dims}
        return tuple(axis for axis, dim in enumerate(dims) if dim in own)

    def _summarize(self, region: "_Region") -> Iterator[pa.RecordBatch]:
        counts = region.count(None)
        kept = counts > 0
        if not kept.any():
            return
        types = self.chosen.columns.types
        columns = [to_column(region.groups_of(name), kept.shape, kept) for name in self.groups]
        for each in self.partials:
            found = region.partial(each, each.find_type(types))
            columns.append(to_arrow(found[kept]))
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """Cells of a region and the axes along which their groups differ."""

    shape: tuple[int, ...]
    mask: NDArray[np.bool_] | None
    values: Mapping[str, Values]
    """Values with one axis per dimension, of length 1 where they are constant along it."""
    kept: tuple[int, ...]

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.kept)

    def groups_of(self, name: str) -> Values:
        """Return the values of a grouping column along the kept axes."""
        values = self.values[name]
        return values.reshape(tuple(values.data.shape[axis] for axis in self.kept))

    def count(self, column: str | None) -> NDArray[np.int64]:
        """Return the number of cells in each group, or of non-null values of a column."""
        there = self._present(column)
        if there is None:
            cells = int(np.prod([self.shape[axis] for axis in self.reduced], dtype=np.int64))
            return np.full([self.shape[axis] for axis in self.kept], cells, np.int64)
        return np.asarray(np.broadcast_to(there, self.shape).sum(axis=self.reduced, dtype=np.int64))

    def partial(self, what: Partial, type: pa.DataType) -> Values:
        """Return a partial aggregate of each group, null for groups without a value."""
        counts = self.count(what.column)
        if what.function == "count" or what.column is None:
            return Values(type, counts)
        data = np.broadcast_to(self.values[what.column].data, self.shape)
        there = self._present(what.column)
        found = np.asarray(_REDUCE[what.function](data, there, self.reduced))
        absent = counts == 0
        return Values(type, found, absent if absent.any() else None)

    def _present(self, column: str | None) -> NDArray[np.bool_] | None:
        """Return a mask of the matching cells that have a value; None means all cells."""
        missing = None if column is None else self.values[column].missing
        if missing is None:
            return self.mask
        there = ~missing
        return there if self.mask is None else there & self.mask


_Reduce = Callable[[NDArray[Any], NDArray[np.bool_] | None, tuple[int, ...]], Any]


def _sum(data: NDArray[Any], there: NDArray[np.bool_] | None, axes: tuple[int, ...]) -> Any:
    wide = np.float64 if data.dtype.kind == "f" else np.int64
    return np.sum(_filled(data, there, data.dtype.type(0)), axis=axes, dtype=wide)


def _min(data: NDArray[Any], there: NDArray[np.bool_] | None, axes: tuple[int, ...]) -> Any:
    return np.min(_filled(data, there, _limits(data.dtype)[1]), axis=axes)


def _max(data: NDArray[Any], there: NDArray[np.bool_] | None, axes: tuple[int, ...]) -> Any:
    return np.max(_filled(data, there, _limits(data.dtype)[0]), axis=axes)


_REDUCE: Mapping[Function, _Reduce] = {"sum": _sum, "min": _min, "max": _max}


def _filled(data: NDArray[Any], there: NDArray[np.bool_] | None, filler: Any) -> NDArray[Any]:
    return data if there is None else np.where(there, data, filler)


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min), dtype.type(limits.max)


_FUNCTIONS: dict[type[exp.Expression], Function] = {
    exp.Sum: "sum", exp.Count: "count", exp.Min: "min", exp.Max: "max",
}  # fmt: skip
_PARTS = {"kind", "expressions", "from", "from_", "where", "group", "having", "order", "limit"}
"""Clauses that a pushed-down select may have."""
_ARGUMENTS = ("this", "big_int")
"""Arguments a pushed-down function may have: the column, and a flag set by the parser."""
_SIMPLE = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Group, exp.Having, exp.Order, exp.Ordered,
    exp.Limit, exp.Alias, exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Add, exp.Sub,
    exp.Mul, exp.Div, exp.Neg, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or,
    exp.Not, exp.Star, exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max,
)  # fmt: skip


class _OtherwiseError(Exception):
    """Query that can't be pushed down."""


@dataclass(slots=True)
class SumQuery:
    """Aggregate query split into partial aggregates and a query that combines them."""

    tree: Any
    use: TableUse
    types: Mapping[str, pa.DataType]
    coordinates: Set[str]
    """Columns that can be grouped by."""
    groups: tuple[str, ...] = ()
    partials: dict[tuple[Function, str | None], Partial] = field(default_factory=dict)

    def text(self, view: str) -> str:
        """Return the query that combines the partial aggregates of a view."""
        alias = exp.TableAlias(this=exp.to_identifier(self.use.alias, quoted=True))
        (table,) = self.tree.find_all(exp.Table)
        table.replace(exp.Table(this=exp.to_identifier(view, quoted=True), alias=alias))
        found: str = self.tree.sql(dialect=DIALECT)
        return found

    def read(self) -> None:
        """Find the groups and partial aggregates; rewrite the tree to combine them."""
        self._refuse_others()
        if self.tree.args.get("where"):
            self.tree.args["where"].pop()
        group = self.tree.args.get("group")
        keys = group.expressions if group else []
        self.groups = tuple(dict.fromkeys(self._coordinate(each) for each in keys))
        self._name_results()
        names = {each.alias.lower() for each in self.tree.expressions if each.alias}
        aggregates = list(self.tree.find_all(exp.AggFunc))
        for each in aggregates:
            each.replace(self._rewrite(each))
        if not (aggregates or self.groups):
            raise _OtherwiseError
        partial = {each.name for each in self.partials.values()}
        for column in self.tree.find_all(exp.Column):
            if column.name not in partial:
                self._refuse_other_column(column, names)

    def _refuse_others(self) -> None:
        tree = self.tree
        given = {name for name, value in tree.args.items() if value}
        where = tree.args.get("where")
        inside = {id(each) for each in where.walk()} if where else set()
        nodes = [each for each in tree.walk() if id(each) not in inside]
        if (
            not isinstance(tree, exp.Select)
            or not given <= _PARTS
            or len(list(tree.find_all(exp.Table))) != 1
            or any(type(each) not in _SIMPLE for each in nodes)
        ):
            raise _OtherwiseError
        group = tree.args.get("group")
        if group and any(value for name, value in group.args.items() if name != "expressions"):
            raise _OtherwiseError  # rollups, cubes, sets

    def _name_results(self) -> None:
        """Name the results as the engine would name them."""
        for each in list(self.tree.expressions):
            if isinstance(each, exp.AggFunc):
                inner = "1" if _is_every_cell(each) else each.this.name
                alias = exp.to_identifier(f"{each.sql_name().lower()}({inner})", quoted=True)
                each.replace(exp.Alias(this=each.copy(), alias=alias))
            elif not isinstance(each, exp.Alias | exp.Column):
                raise _OtherwiseError

    def _rewrite(self, aggregate: Any) -> Any:
        if any(value for name, value in aggregate.args.items() if name not in _ARGUMENTS):
            raise _OtherwiseError
        if isinstance(aggregate, exp.Avg):
            meant = self._column(aggregate.this)
            total, count = (self._partial(each, meant) for each in ("sum", "count"))
            return sqlglot.parse_one(f"(SUM({total}) / NULLIF(SUM({count}), 0))", dialect=DIALECT)
        function = _FUNCTIONS[type(aggregate)]
        column = None if _is_every_cell(aggregate) else self._column(aggregate.this)
        name = self._partial(function, column)
        texts = {"count": f"COALESCE(SUM({name}), 0)", "sum": f"SUM({name})"}
        text = texts.get(function, f"{function.upper()}({name})")
        return sqlglot.parse_one(text, dialect=DIALECT)

    def _partial(self, function: Any, column: str | None) -> str:
        if column is not None and not can_be(function, self.types[column]):
            raise _OtherwiseError
        name = f"_frazil_{len(self.partials)}"
        return self.partials.setdefault((function, column), Partial(function, column, name)).name

    def _coordinate(self, node: Any) -> str:
        name = self._column(node)
        if name not in self.coordinates:
            raise _OtherwiseError
        return name

    def _column(self, node: Any) -> str:
        """Return the column a name refers to."""
        if not isinstance(node, exp.Column) or node.args.get("db"):
            raise _OtherwiseError
        if node.table and node.table.lower() != self.use.alias.lower():
            raise _OtherwiseError
        found = [name for name in self.types if name.lower() == node.name.lower()]
        if len(found) != 1:
            raise _OtherwiseError
        return found[0]

    def _refuse_other_column(self, node: Any, results: Set[str]) -> None:
        """Accept group columns, and in `HAVING` or `ORDER BY` result names that are no column."""
        is_result = not node.table and node.name.lower() in results
        is_own = node.name.lower() in {name.lower() for name in self.types}
        if is_result and not is_own and node.find_ancestor(exp.Having, exp.Order) is not None:
            return
        if self._column(node) not in self.groups or (is_result and not _names_itself(node)):
            raise _OtherwiseError


def find_sums(
    text: str, use: TableUse, types: Mapping[str, pa.DataType], coordinates: Set[str]
) -> SumQuery | None:
    """Return the push-down of an aggregate query over one table; None if it can't be pushed down."""
    tree = sqlglot.parse_one(text, dialect=DIALECT)
    query = SumQuery(tree, use, types, coordinates)
    try:
        query.read()
    except _OtherwiseError:
        return None
    return query


def _is_every_cell(aggregate: Any) -> bool:
    """Return True for `count(*)` and `count(1)`."""
    inner = aggregate.this
    # The engine names other counts, such as `count(2)`, after their argument.
    return isinstance(aggregate, exp.Count) and (
        isinstance(inner, exp.Star) or inner == exp.Literal.number(1)
    )


def _names_itself(node: Any) -> bool:
    """Return True if results with a column's name are that column itself."""
    select: Any = node.find_ancestor(exp.Select)
    named = [each.this for each in select.expressions if each.alias.lower() == node.name.lower()]
    return all(isinstance(e, exp.Column) and e.name.lower() == node.name.lower() for e in named)
