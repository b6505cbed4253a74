"""SQL queries: find their tables, plan them once, and push aggregates down."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import Node
from frazil.protocols.protocol import parse_id
from frazil.repository.locate import read_version
from frazil.tables.aggregates import Function, Partial, PartialAggregates, can_push_down
from frazil.tables.columns import TIMESTAMP
from frazil.tables.predicates import EVERYTHING, find_unknown
from frazil.tables.scan_plan import ScanPlan
from frazil.tables.sql_predicates import DIALECT
from frazil.tables.sql_statements import STATEMENTS, ShowTables, insert_values
from frazil.tables.table_options import parse_moment
from frazil.tables.table_source import (
    ABOUT_REPOSITORY,
    CELLS,
    TABLES,
    Source,
    Table,
    find_branch,
    open_table,
    read_ahead,
)
from frazil.urls import BranchRef, NamedRef, Ref

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
    uses_unnamed: bool
    """True if the query may use columns that it does not name, as with `*`."""

    @property
    def column_text(self) -> str | None:
        """Return the text with all columns that the query may use; None if it may use any."""
        if self.uses_unnamed:
            return None
        # A table has the name of its array, which need not be read for that.
        text = self.text
        for use in sorted(self.uses, key=lambda each: -each.start):
            text = f"{text[: use.start]} {text[use.end :]}"
        return text

    def replaced(self, names: Sequence[tuple[TableUse, str]]) -> str:
        """Return the query text with tables replaced by other names."""
        text = self.text
        for use, name in sorted(names, key=lambda each: -each[0].start):
            alias = "" if use.is_aliased else f" AS `{use.alias}`"
            text = f"{text[: use.start]}`{name}`{alias}{text[use.end :]}"
        return text


def parse_query(
    text: str, *, pushes_down: bool = True, args: Mapping[str, Any] | None = None
) -> Query:
    """Parse a query.

    Parameters
    ----------
    text
        One `SELECT` or `WITH` query in Spark's SQL dialect.
    pushes_down
        If False, no predicate is taken from the query, because the engine may interpret it
        differently.
    args
        Values of named parameters, for predicates.

    Raises
    ------
    InvalidInputError
        If the text is not exactly one query.
    """
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=DIALECT) if tree is not None]
    except SqlglotError as error:
        raise InvalidInputError(f"can't parse this query: {_explain(error)}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise InvalidInputError(f"can't run this text: give one query, {STATEMENTS}")
    (tree,) = trees
    uses = [
        _use(text, table, args or {})
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not table.catalog
        if table.db or not _names_cte(table)
    ]
    # Parsers interpret escapes differently, so no predicate is pushed down.
    if not pushes_down or "\\" in text:
        uses = [replace(use, where=None, is_alone=False) for use in uses]
    return Query(text, tuple(uses), _uses_unnamed(tree))


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


def _use(text: str, table: exp.Table, args: Mapping[str, Any]) -> TableUse:
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
        where=None if where is None else insert_values(where.this, args).sql(dialect=DIALECT),
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


_FUNCTIONS: dict[type[exp.Expression], Function] = {
    exp.Sum: "sum", exp.Count: "count", exp.Min: "min", exp.Max: "max",
}  # fmt: skip
_MOMENTS: dict[Any, tuple[str, int]] = {
    exp.Stddev: ("SQRT", 1), exp.StddevSamp: ("SQRT", 1), exp.StddevPop: ("SQRT", 0),
    exp.Variance: ("", 1), exp.VariancePop: ("", 0),
}  # fmt: skip
"""Functions of the deviations from the mean: the last step, and what is subtracted from the count."""
_PARTS = {"kind", "expressions", "from", "from_", "where", "group", "having", "order", "limit"}
"""Clauses that a pushed-down select may have."""
_ARGUMENTS = ("this", "big_int")
"""Arguments a pushed-down function may have: the column, and a flag set by the parser."""
_SIMPLE = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Group, exp.Having, exp.Order, exp.Ordered,
    exp.Limit, exp.Alias, exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Add, exp.Sub,
    exp.Mul, exp.Div, exp.Neg, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or,
    exp.Not, exp.Star, exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max, *_MOMENTS,
)  # fmt: skip


_OF_COORDINATES = (
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek,
    exp.DayOfYear, exp.Hour, exp.Minute, exp.Second, exp.LastDay, exp.TsOrDsToDate, exp.TimestampTrunc,
    exp.DateTrunc, exp.Extract, exp.Var, exp.Interval, exp.TimeToStr, exp.TimeStrToTime, exp.Floor,
    exp.Ceil, exp.Round, exp.Abs, exp.Sign, exp.Mod, exp.IntDiv, exp.Case, exp.If, exp.Cast,
    exp.TryCast, exp.DataType, exp.Between, exp.In, exp.Is, exp.Null, exp.Boolean, exp.Coalesce,
    exp.Concat, exp.Lower, exp.Upper,
)  # fmt: skip
"""Deterministic expressions, which Spark evaluates for each group of coordinates, not for each cell."""


class _NotPushedDownError(Exception):
    """Query that can't be pushed down."""


@dataclass(slots=True)
class AggregateQuery:
    """Aggregate query split into partial aggregates and a query that combines them."""

    tree: Any
    use: TableUse
    types: Mapping[str, pa.DataType]
    coordinates: Set[str]
    """Columns that can be grouped by."""
    tokens: tuple[str, ...] = ()
    """Tokens of the query text."""
    groups: tuple[str, ...] = ()
    has_expressions: bool = False
    """True if some groups are expressions of coordinates."""
    partials: dict[tuple[Function, str | None], Partial] = field(default_factory=dict)
    moments: dict[str, str] = field(default_factory=dict)
    """Expressions that the parser does not know, by the names that stand for them in the tree."""

    def text(self, view: str) -> str:
        """Return the query that combines the partial aggregates of a view."""
        alias = exp.TableAlias(this=exp.to_identifier(self.use.alias, quoted=True))
        (table,) = self.tree.find_all(exp.Table)
        table.replace(exp.Table(this=exp.to_identifier(view, quoted=True), alias=alias))
        found: str = self.tree.sql(dialect=DIALECT)
        for name, expression in self.moments.items():
            found = found.replace(name, expression)
        return found

    def read(self) -> None:
        """Find the groups and partial aggregates; rewrite the tree to combine them."""
        self._refuse_others()
        if self.tree.args.get("where"):
            self.tree.args["where"].pop()
        group = self.tree.args.get("group")
        keys = group.expressions if group else []
        self.groups = tuple(dict.fromkeys(name for each in keys for name in self._find_group(each)))
        self._name_results()
        names = {each.alias.lower() for each in self.tree.expressions if each.alias}
        aggregates = list(self.tree.find_all(exp.AggFunc))
        for each in aggregates:
            each.replace(self._rewrite(each))
        if not (aggregates or self.groups):
            raise _NotPushedDownError
        partial = {*self.moments, *(each.name for each in self.partials.values())}
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
            or any(type(each) not in (*_SIMPLE, *_OF_COORDINATES) for each in nodes)
        ):
            raise _NotPushedDownError
        if any(isinstance(each, _OF_COORDINATES) for each in nodes):
            self._refuse_respelled()
        group = tree.args.get("group")
        if group and any(value for name, value in group.args.items() if name != "expressions"):
            raise _NotPushedDownError  # rollups, cubes, sets

    def _refuse_respelled(self) -> None:
        """Refuse expressions that the parser would write in another way than the query has them."""
        parts = [*self.tree.expressions]
        for clause in ("group", "having", "order"):
            parts += [each for each in [self.tree.args.get(clause)] if each is not None]
        for part in parts:
            if part.find(*_OF_COORDINATES) is not None:
                own = _spell(part.sql(dialect=DIALECT))
                starts = range(len(self.tokens) - len(own) + 1)
                if not any(self.tokens[at : at + len(own)] == own for at in starts):
                    raise _NotPushedDownError

    def _find_group(self, key: Any) -> list[str]:
        """Return the coordinates of a group: a column, an expression, or a result by name or number."""
        results = self.tree.expressions
        if isinstance(key, exp.Literal):
            if key.is_string or not key.this.isdecimal() or not 0 < int(key.this) <= len(results):
                raise _NotPushedDownError
            key = results[int(key.this) - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table:
            names = {name.lower() for name in self.types}
            named = [each for each in results if each.alias.lower() == key.name.lower()]
            if key.name.lower() not in names and len(named) == 1:
                key = named[0].unalias()
        if isinstance(key, exp.Column):
            return [self._coordinate(key)]
        columns = list(key.find_all(exp.Column))
        if not columns or key.find(exp.AggFunc) is not None:
            raise _NotPushedDownError
        self.has_expressions = True
        return [self._coordinate(each) for each in columns]

    def _name_results(self) -> None:
        """Name the results as the engine would name them."""
        for each in list(self.tree.expressions):
            if isinstance(each, exp.AggFunc):
                inner = "1" if _is_every_cell(each) else each.this.name
                function, _, _ = each.sql(dialect=DIALECT).partition("(")
                if type(each) in _MOMENTS and function.upper() not in self.tokens:
                    raise _NotPushedDownError  # the parser has one name for several
                alias = exp.to_identifier(f"{function.lower()}({inner})", quoted=True)
                each.replace(exp.Alias(this=each.copy(), alias=alias))
            elif not isinstance(each, exp.Alias | exp.Column) and (
                each.find(exp.AggFunc) is not None or each.find(exp.TimestampTrunc) is not None
            ):
                # The engine's name for it has the spelling of the query.
                raise _NotPushedDownError

    def _rewrite(self, aggregate: Any) -> Any:
        if any(value for name, value in aggregate.args.items() if name not in _ARGUMENTS):
            raise _NotPushedDownError
        if isinstance(aggregate, exp.Avg):
            meant = self._column(aggregate.this)
            total, count = (self._partial(each, meant) for each in ("sum", "count"))
            return sqlglot.parse_one(f"(SUM({total}) / NULLIF(SUM({count}), 0))", dialect=DIALECT)
        if type(aggregate) in _MOMENTS:
            if aggregate.find_ancestor(exp.Order, exp.Having) is not None:
                raise _NotPushedDownError  # the engine finds no lambda functions there
            return self._combine_moments(self._column(aggregate.this), *_MOMENTS[type(aggregate)])
        function = _FUNCTIONS[type(aggregate)]
        column = None if _is_every_cell(aggregate) else self._column(aggregate.this)
        name = self._partial(function, column)
        texts = {"count": f"COALESCE(SUM({name}), 0)", "sum": f"SUM({name})"}
        text = texts.get(function, f"{function.upper()}({name})")
        return sqlglot.parse_one(text, dialect=DIALECT)

    def _combine_moments(self, column: str, last: str, less: int) -> Any:
        """Return the name of an expression that merges counts, means and squared deviations."""
        count, mean, far = (self._partial(each, column) for each in ("count", "mean", "deviation"))
        part = f"named_struct('n', DOUBLE({count}), 'm', {mean}, 's', {far})"
        total = "(a.n + b.n)"
        merged = (
            f"named_struct('n', {total}, 'm', a.m + (b.m - a.m) * b.n / {total}, "
            f"'s', a.s + b.s + (b.m - a.m) * (b.m - a.m) * a.n * b.n / {total})"
        )
        name = f"_frazil_moment_{len(self.moments)}_"
        self.moments[name] = (
            f"aggregate(collect_list(IF({count} > 0, {part}, NULL)), "
            f"named_struct('n', 0D, 'm', 0D, 's', 0D), (a, b) -> {merged}, "
            f"a -> IF(a.n > {less}, {last}(a.s / (a.n - {less})), NULL))"
        )
        return exp.column(name)

    def _partial(self, function: Any, column: str | None) -> str:
        if column is not None and not can_push_down(function, self.types[column]):
            raise _NotPushedDownError
        name = f"_frazil_{len(self.partials)}"
        return self.partials.setdefault((function, column), Partial(function, column, name)).name

    def _coordinate(self, node: Any) -> str:
        name = self._column(node)
        if name not in self.coordinates:
            raise _NotPushedDownError
        return name

    def _column(self, node: Any) -> str:
        """Return the column a name refers to."""
        if not isinstance(node, exp.Column) or node.args.get("db"):
            raise _NotPushedDownError
        if node.table and node.table.lower() != self.use.alias.lower():
            raise _NotPushedDownError
        found = [name for name in self.types if name.lower() == node.name.lower()]
        if len(found) != 1:
            raise _NotPushedDownError
        return found[0]

    def _refuse_other_column(self, node: Any, results: Set[str]) -> None:
        """Accept group columns, and outside of the results their names that are no column."""
        is_result = not node.table and node.name.lower() in results
        is_own = node.name.lower() in {name.lower() for name in self.types}
        clause = node.find_ancestor(exp.Having, exp.Order, exp.Group)
        if is_result and not is_own and clause is not None:
            return
        if self._column(node) not in self.groups or (is_result and not _names_itself(node)):
            raise _NotPushedDownError


def push_down(
    text: str, use: TableUse, types: Mapping[str, pa.DataType], coordinates: Set[str]
) -> AggregateQuery | None:
    """Return the push-down of an aggregate query over one table; None if it can't be pushed down."""
    tree = sqlglot.parse_one(text, dialect=DIALECT)
    query = AggregateQuery(tree, use, types, coordinates, _spell(text))
    try:
        query.read()
    except _NotPushedDownError:
        return None
    return query


def _spell(text: str) -> tuple[str, ...]:
    """Return the tokens of a text; the case matters only in strings that are no unit of time."""
    found = []
    for each in sqlglot.tokenize(text, read=DIALECT):
        is_text = each.token_type is sqlglot.TokenType.STRING and each.text.upper() not in _UNITS
        found.append(f"'{each.text}'" if is_text else each.text.upper())
    return tuple(found)


_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


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


METADATA_FOLDER = "repo"
"""Qualifier of the metadata tables."""
HISTORY = pa.schema(
    {
        "snapshot_id": pa.string(), "parent_id": pa.string(), "written_at": TIMESTAMP,
        "message": pa.string(), "metadata": pa.string(),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """Query and the tables that it reads, each planned once."""

    query: Query
    tables: tuple[tuple[TableUse, Table], ...]
    """Tables of the repository; other names are the engine's own."""
    aggregates: AggregateQuery | None = None
    """Set if the only table has partial aggregates, which this query combines."""

    def text(self, views: Sequence[str]) -> str:
        """Return the query over views of the tables."""
        if self.aggregates is not None:
            return self.aggregates.text(views[0])
        names = [(use, view) for (use, _), view in zip(self.tables, views, strict=True)]
        return self.query.replaced(names)

    def explain(self) -> Iterator[str]:
        """Yield what is read of each table, and what is evaluated before the engine sees rows."""
        for use, table in self.tables:
            yield f"Table {'.'.join(filter(None, (use.folder, use.name)))}"
            if isinstance(table, PartialAggregates):
                plan: Table = table.plan
                functions = [f"{each.function}({each.column or '*'})" for each in table.partials]
                groups = f" by {', '.join(table.groups)}" if table.groups else ""
                yield f"  aggregates pushed down: {', '.join(functions) or 'none'}{groups}"
            else:
                plan = table
            yield f"  columns: {', '.join(plan.schema.names) or 'none'}"
            if not isinstance(plan, ScanPlan):
                continue
            for name, count in plan.count_chunks().items():
                yield f"  chunks of {name}: {count.read} of {count.total}"
            if not plan.lazy:
                yield "  chunks: none"
            if plan.condition != EVERYTHING:
                yield f"  pruned by: {use.where}"
            unknown = find_unknown(plan.condition)
            if unknown is not None:
                yield f"  evaluated by Spark only: {unknown}"


def plan_query(
    source: Source | None, query: Query, catalog: Mapping[str, Source] | None = None
) -> PlannedQuery:
    """Plan all tables of a query, and push aggregates down where possible.

    Parameters
    ----------
    source
        Repository whose tables need no qualifier.
    query
        Query to plan.
    catalog
        Repositories whose tables are qualified by a name.
    """
    versions: dict[tuple[str, str | None, str | None], Source] = {}
    tables: list[tuple[TableUse, Table]] = []
    for use in query.uses:
        qualifier = _find_name(use.folder, list(catalog or ())) if use.folder else None
        owner = source if catalog is None or qualifier is None else catalog[qualifier]
        if owner is None:
            continue
        key = (qualifier or "", use.version, use.as_of)
        if key not in versions:
            versions[key] = _at_version(owner, use)
        local = use if qualifier is None else _unqualify(versions[key], use)
        named = _select_table(versions[key], local, query)
        if named is not None:
            tables.append((use, open_table(named)))
    if len(query.uses) == len(tables) == 1 and query.uses[0].is_alone:
        ((use, plan),) = tables
        if isinstance(plan, ScanPlan) and find_unknown(plan.condition) is None:
            coordinates = {each.name for each in plan.columns.all if each.kind != "variable"}
            pushed = push_down(query.text, use, plan.columns.types, coordinates)
            if pushed is not None and _reduces_rows(plan, pushed):
                partials = tuple(pushed.partials.values())
                needed = {*pushed.groups, *(each.column for each in partials if each.column)}
                table = PartialAggregates(plan.restrict(needed), pushed.groups, partials)
                return PlannedQuery(query, ((use, table),), pushed)
    return PlannedQuery(query, tuple(tables))


def _reduces_rows(plan: ScanPlan, pushed: AggregateQuery) -> bool:
    """Return False if each cell is a group of coordinates, of which the engine makes larger ones."""
    dims = {dim for name in pushed.groups for dim in plan.columns.get(name).dims}
    return not pushed.has_expressions or dims != set(plan.columns.dims)


def _unqualify(source: Source, use: TableUse) -> TableUse:
    """Return the use of a table without the name of its repository, in which arrays come first."""
    is_array = _find_name(use.name, list(source.arrays.metadata)) is not None
    is_metadata = not is_array and use.name.lower() in ABOUT_REPOSITORY
    return replace(use, folder=METADATA_FOLDER if is_metadata else "")


def _select_table(source: Source, use: TableUse, query: Query) -> Source | None:
    """Return the source of a table in a query; None if it is not of the repository."""
    text = query.column_text
    columns = None if text is None else ()
    if use.folder.lower() == METADATA_FOLDER and use.name.lower() in TABLES:
        name = use.name.lower()
        if name != CELLS:
            return source.with_options(table=name, columns=columns, engine_text=text)
        array = None
    elif use.folder:
        return None
    else:
        array = _find_name(use.name, list(source.arrays.metadata))
        if array is None and use.name.lower() != CELLS:
            return None
    return source.with_options(
        variables=None if array is None else (array,),
        columns=columns,
        engine_text=text,
        where=use.where,
        qualifiers=frozenset({use.alias.lower()}),
        needs_qualifier=not use.is_alone,
    )


def list_tables(source: Source, statement: ShowTables) -> list[dict[str, str]]:
    """Return the tables of a repository that `SHOW TABLES` names; raises InvalidInputError."""
    folder = statement.folder
    if folder is not None and folder.lower() != METADATA_FOLDER:
        raise InvalidInputError(
            f"unknown namespace {folder!r}: {METADATA_FOLDER} has the metadata tables, and arrays "
            "have none"
        )
    found = [] if folder else [("", name, "array") for name in sorted(source.arrays.metadata)]
    if not folder and found:
        found.append(("", CELLS, "all arrays"))
    found += [(METADATA_FOLDER, name, "metadata") for name in sorted(ABOUT_REPOSITORY)]
    pattern = re.compile(
        "|".join(
            re.escape(each.strip()).replace(r"\*", ".*")
            for each in (statement.pattern or "*").split("|")
        ),
        re.IGNORECASE,
    )
    columns = ("namespace", "tableName", "kind")
    return [dict(zip(columns, row, strict=True)) for row in found if pattern.fullmatch(row[1])]


def select_table(source: Source, name: Sequence[str]) -> Source:
    """Return the source of a table with all its columns; raises InvalidInputError for unknown ones."""
    *folder, own = name
    use = TableUse(".".join(folder), own, 0, 0, own, False, None, True)
    selected = _select_table(source, use, Query("", (use,), uses_unnamed=True))
    if selected is None:
        known = [
            *source.arrays.metadata,
            CELLS,
            *(f"{METADATA_FOLDER}.{t}" for t in ABOUT_REPOSITORY),
        ]
        raise InvalidInputError(
            f"unknown table {'.'.join(name)!r}: {suggest('.'.join(name), known)}"
        )
    return selected


def describe_table(source: Source, name: Sequence[str]) -> list[tuple[pa.Field, dict[str, Any]]]:
    """Return the columns of a table, each with the facts about its array; raises InvalidInputError."""
    table = open_table(select_table(source, name))
    if not isinstance(table, ScanPlan):
        return [(each, {}) for each in table.schema]
    return [(each, _describe_array(table, each.name)) for each in table.schema]


def _describe_array(plan: ScanPlan, name: str) -> dict[str, Any]:
    column, document = plan.columns.get(name), plan.arrays.metadata.get(name)
    sizes = [plan.columns.sizes[dim] for dim in column.dims]
    found: dict[str, Any] = {"kind": column.kind, "dims": list(column.dims), "shape": sizes}
    if document is None:
        return found
    offsets = plan.arrays.grid(name, column.dims).offsets
    attributes = document.get("attributes") or {}
    said = [attributes.get(key) for key in ("long_name", "standard_name")]
    units = attributes.get("units")
    comment = next((str(each) for each in said if each), "") + (f" [{units}]" if units else "")
    data_type = document.get("data_type")
    return {
        **found,
        "comment": comment.strip() or None,
        "chunks": [int(np.diff(each).max(initial=0)) for each in offsets],
        "dtype": data_type if isinstance(data_type, str) else json.dumps(data_type),
        "fill_value": json.dumps(document.get("fill_value")),
        "attributes": json.dumps(attributes),
    }


def describe_history(source: Source, array: str | None) -> pa.Table:
    """Return the commits before the version that is read, newest first.

    With an array, only those that wrote its chunks or its metadata.
    """
    infos = list(source.repository.ancestry(snapshot_id=source.session.snapshot_id))
    if array is not None:
        infos = _find_writes(source, array, infos)
    rows = [
        {
            "snapshot_id": info.id,
            "parent_id": info.parent_id,
            "written_at": info.written_at,
            "message": info.message,
            "metadata": json.dumps(info.metadata, default=str),
        }
        for info in infos
    ]
    return pa.Table.from_pylist(rows, HISTORY)


def _find_writes(source: Source, array: str, infos: Sequence[Any]) -> list[Any]:
    name = _find_name(array, list(source.arrays.metadata))
    if name is None:
        raise InvalidInputError(
            f"unknown array {array!r}: {suggest(array, source.arrays.metadata)}"
        )
    path, assets = source.arrays.path(name), source.session.state.assets
    ids = [parse_id(SnapshotId, info.id) for info in infos]
    nodes = [each.nodes.get(path) for each in read_ahead(ids, assets.read_snapshot)]
    written = [
        node is not None and (before is None or _state_of(node) != _state_of(before))
        for node, before in zip(nodes, [*nodes[1:], None], strict=True)
    ]
    return [info for info, is_written in zip(infos, written, strict=True) if is_written]


def _state_of(node: Node) -> tuple[Any, ...]:
    assert node.array is not None
    return node.id, node.user_data, tuple(node.array.manifests)


def _find_name(name: str, names: Sequence[str]) -> str | None:
    if name in names:
        return name
    found = [each for each in names if each.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def _at_version(source: Source, use: TableUse) -> Source:
    """Return the source at the version that a table of a query names."""
    ref: Ref
    if use.version is not None:
        ref = NamedRef(use.version)
    elif use.as_of is not None:
        moment = parse_moment("TIMESTAMP AS OF", use.as_of, source.options.time_zone)
        at = source.options.ref
        branch = at.name if isinstance(at, BranchRef) else find_branch(source, "TIMESTAMP AS OF")
        ref = BranchRef(branch, moment)
    else:
        return source
    return Source.of(source.repository, read_version(source.repository, ref), source.options)
