"""Aggregate push-down: queries, partial aggregates, and how they are combined."""

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
from frazil.tables.predicates import DIALECT
from frazil.tables.scan import Partition, to_column
from frazil.tables.scan_plan import ChunkCount, ScanPlan

_VERSION = re.compile(
    r"\s+(?:FOR\s+)?(?:SYSTEM_)?(VERSION|TIMESTAMP|TIME)\s+AS\s+OF\s+('[^'\\]*'|\d+)", re.IGNORECASE
)
_CHANGES_ROWS = ("sample", "pivots", "laterals", "joins")


@dataclass(frozen=True, slots=True)
class TableUse:
    """A place in a query where a table is named."""

    folder: str
    """What is before the dot; empty if there is none."""
    name: str
    start: int
    end: int
    """Where it is in the text, with the version that it is asked for at."""
    alias: str
    """The name that columns have in front; the query has it already, if `is_aliased`."""
    is_aliased: bool
    where: str | None
    is_alone: bool
    """Whether all columns without a name in front are its own."""
    version: str | None = None
    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the tables in it."""

    text: str
    uses: tuple[TableUse, ...]
    words: frozenset[str] | None
    """Every word of it, in lower case; None if columns may be used that are not named."""

    def needs(self, column: str) -> bool:
        """Whether a column may be used."""
        return self.words is None or column.lower() in self.words

    def replaced(self, names: Sequence[tuple[TableUse, str]]) -> str:
        """The text with other names for tables."""
        text = self.text
        for use, name in sorted(names, key=lambda each: -each[0].start):
            alias = "" if use.is_aliased else f" AS `{use.alias}`"
            text = f"{text[: use.start]}`{name}`{alias}{text[use.end :]}"
        return text


def parse_query(text: str, *, pushes_down: bool = True) -> Query:
    """Read a query; raises InvalidInputError if it is none.

    Without `pushes_down` nothing is said about rows, because the engine may read the query otherwise.
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
    # Escapes mean something else to each parser.
    if not pushes_down or "\\" in text:
        uses = [replace(use, where=None, is_alone=False) for use in uses]
    words = None if _uses_unnamed(tree) else frozenset(token.text.lower() for token in tokens)
    return Query(text, tuple(uses), words)


def _names_cte(table: exp.Table) -> bool:
    """Whether a name is that of a `WITH` in whose scope it is, and so of no table.

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
    """Say what is wrong with a text and where, in no words of the parser's own."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else None
    if found is None:
        return "it has no words that SQL knows, or a quote or a comment without its end"
    # What it says of its own objects is between angle brackets.
    reason, _, _ = str(found["description"]).partition(" but got <")
    if "<" in reason or "Invalid expression" in reason:
        reason = "something is missing or too much"
    where = f"line {found['line']}, column {found['col']}"
    return f"{reason[0].lower()}{reason[1:]} near {found['highlight']!r} ({where})"


def _uses_unnamed(tree: Any) -> bool:
    """Whether columns matter that are not named: all, those two tables share, or by position."""
    stars = (star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    natural = (join for join in tree.find_all(exp.Join) if join.method)
    renamed = (table for table in tree.find_all(exp.Table) if _renames_columns(table))
    pivots = tree.find_all(exp.Pivot)
    return any(True for found in (stars, natural, renamed, pivots) for _ in found)


def _renames_columns(table: exp.Table) -> bool:
    """Whether the alias gives columns other names, by position."""
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
    """The select whose condition all rows of a table have to satisfy, and if it reads nothing else."""
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
    """Whether leaving out rows of one side leaves out rows of the result, and changes no others."""
    return not join.side and not join.method and join.kind in ("", "INNER", "CROSS")


Function = Literal["sum", "count", "min", "max"]
SUMMED = (pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64())
"""Types whose sums of a region are exact, or as exact as the engine's own."""
ORDERED = (*SUMMED, pa.int64(), TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Partial:
    """A number of each group; one without a column counts cells."""

    function: Function
    column: str | None
    name: str
    """Of the column that it is in."""

    def find_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Of its values."""
        if self.function == "count" or self.column is None:
            return pa.int64()
        own = types[self.column]
        if self.function in ("min", "max"):
            return own
        return pa.float64() if pa.types.is_floating(own) else pa.int64()


def can_be(function: Function, type: pa.DataType) -> bool:
    """Whether a column of a type can be summed up by a function."""
    if function == "count":
        return True
    return type in (SUMMED if function == "sum" else ORDERED)


@dataclass(frozen=True, slots=True, eq=False)
class Summaries:
    """Partial sums of cells, as `Table` has it."""

    chosen: ScanPlan
    groups: tuple[str, ...]
    """Coordinates of one dimension at most."""
    partials: tuple[Partial, ...]

    @property
    def schema(self) -> pa.Schema:
        """The groups, then the partials."""
        types = self.chosen.columns.types
        own = [pa.field(name, types[name]) for name in self.groups]
        return pa.schema(
            [*own, *(pa.field(each.name, each.find_type(types)) for each in self.partials)]
        )

    def partitions(self) -> Sequence[Partition]:
        """Those of the cells."""
        return Cells(self.chosen).partitions()

    def count_chunks(self) -> dict[str, ChunkCount]:
        """By array, how many of its chunks are read."""
        return self.chosen.count_chunks()

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """A batch for each region that has cells."""
        for shape, mask, values in Cells(self.chosen).read_values(partition):
            yield from self._summarize(_Region(shape, mask, values, self._kept_axes()))

    def _kept_axes(self) -> tuple[int, ...]:
        """The axes that cells of a group differ in from those of others."""
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
    """Cells of a region, and the axes along which their groups differ."""

    shape: tuple[int, ...]
    mask: NDArray[np.bool_] | None
    values: Mapping[str, Values]
    """With an axis for each dimension; of one element where they don't differ along it."""
    kept: tuple[int, ...]

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.kept)

    def groups_of(self, name: str) -> Values:
        """The values of a group's column, with the axes that are kept."""
        values = self.values[name]
        return values.reshape(tuple(values.data.shape[axis] for axis in self.kept))

    def count(self, column: str | None) -> NDArray[np.int64]:
        """How many cells each group has, or how many values of a column."""
        there = self._present(column)
        if there is None:
            cells = int(np.prod([self.shape[axis] for axis in self.reduced], dtype=np.int64))
            return np.full([self.shape[axis] for axis in self.kept], cells, np.int64)
        return np.asarray(np.broadcast_to(there, self.shape).sum(axis=self.reduced, dtype=np.int64))

    def partial(self, what: Partial, type: pa.DataType) -> Values:
        """A number of each group; missing where it has no value."""
        counts = self.count(what.column)
        if what.function == "count" or what.column is None:
            return Values(type, counts)
        data = np.broadcast_to(self.values[what.column].data, self.shape)
        there = self._present(what.column)
        found = np.asarray(_REDUCE[what.function](data, there, self.reduced))
        absent = counts == 0
        return Values(type, found, absent if absent.any() else None)

    def _present(self, column: str | None) -> NDArray[np.bool_] | None:
        """Where there is a value in a cell that is wanted; None for everywhere."""
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
"""What a select may have."""
_ARGUMENTS = ("this", "big_int")
"""Of a function: the column, and a mark that the parser makes."""
_SIMPLE = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Group, exp.Having, exp.Order, exp.Ordered,
    exp.Limit, exp.Alias, exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Add, exp.Sub,
    exp.Mul, exp.Div, exp.Neg, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or,
    exp.Not, exp.Star, exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max,
)  # fmt: skip


class _OtherwiseError(Exception):
    """The query is another kind of query."""


@dataclass(slots=True)
class SumQuery:
    """What to sum up, and the query about the result."""

    tree: Any
    use: TableUse
    types: Mapping[str, pa.DataType]
    coordinates: Set[str]
    """Columns that can be grouped by."""
    groups: tuple[str, ...] = ()
    partials: dict[tuple[Function, str | None], Partial] = field(default_factory=dict)

    def text(self, view: str) -> str:
        """The query about a view of the partial sums."""
        alias = exp.TableAlias(this=exp.to_identifier(self.use.alias, quoted=True))
        (table,) = self.tree.find_all(exp.Table)
        table.replace(exp.Table(this=exp.to_identifier(view, quoted=True), alias=alias))
        found: str = self.tree.sql(dialect=DIALECT)
        return found

    def read(self) -> None:
        """Find out what is asked for; the tree becomes a query about partial sums."""
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
        """Give results the names that the engine would give them."""
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
        """The column that a name means."""
        if not isinstance(node, exp.Column) or node.args.get("db"):
            raise _OtherwiseError
        if node.table and node.table.lower() != self.use.alias.lower():
            raise _OtherwiseError
        found = [name for name in self.types if name.lower() == node.name.lower()]
        if len(found) != 1:
            raise _OtherwiseError
        return found[0]

    def _refuse_other_column(self, node: Any, results: Set[str]) -> None:
        """A name must be that of a group, or of a result where it can be nothing else."""
        is_result = not node.table and node.name.lower() in results
        is_own = node.name.lower() in {name.lower() for name in self.types}
        if is_result and not is_own and node.find_ancestor(exp.Having, exp.Order) is not None:
            return
        if self._column(node) not in self.groups or (is_result and not _names_itself(node)):
            raise _OtherwiseError


def find_sums(
    text: str, use: TableUse, types: Mapping[str, pa.DataType], coordinates: Set[str]
) -> SumQuery | None:
    """What a query about one table asks to be summed up; None if it asks for anything else."""
    tree = sqlglot.parse_one(text, dialect=DIALECT)
    query = SumQuery(tree, use, types, coordinates)
    try:
        query.read()
    except _OtherwiseError:
        return None
    return query


def _is_every_cell(aggregate: Any) -> bool:
    """Whether it is `count(*)` or `count(1)`."""
    inner = aggregate.this
    # The engine names others, such as `count(2)`, after what they count.
    return isinstance(aggregate, exp.Count) and (
        isinstance(inner, exp.Star) or inner == exp.Literal.number(1)
    )


def _names_itself(node: Any) -> bool:
    """Whether a result has the name of the group that it is."""
    select: Any = node.find_ancestor(exp.Select)
    named = [each.this for each in select.expressions if each.alias.lower() == node.name.lower()]
    return all(isinstance(e, exp.Column) and e.name.lower() == node.name.lower() for e in named)
