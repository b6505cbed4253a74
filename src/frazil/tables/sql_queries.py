"""SQL queries: find their tables, and plan them once."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import Node
from frazil.protocols.protocol import parse_id
from frazil.repository.locate import read_version
from frazil.tables.aggregates import PartialAggregates
from frazil.tables.columns import TIMESTAMP
from frazil.tables.predicates import EVERYTHING, find_unknown
from frazil.tables.scan_plan import ScanPlan
from frazil.tables.sql_aggregates import AggregateSelect, find_select, replace_functions
from frazil.tables.sql_expressions import (
    CLOSING,
    OPENING,
    Edit,
    Evaluate,
    NotPushedDownError,
    apply_edits,
    make_cells,
    sharpen,
)
from frazil.tables.sql_predicates import DIALECT, insert_values
from frazil.tables.sql_statements import STATEMENTS, ShowTables, quote
from frazil.tables.table_options import EPOCH, parse_moment
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

_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)"
_VERSION = re.compile(
    rf"{_GAP}+(?:FOR{_GAP}+)?(?:SYSTEM_)?(VERSION|TIMESTAMP|TIME){_GAP}+AS{_GAP}+OF\b{_GAP}*",
    re.IGNORECASE | re.DOTALL,
)
_CONSTANT = re.compile(
    rf"""(?:(?:TIMESTAMP|DATE){_GAP}*(?=['"]))?('[^'\\]*'|"[^"\\]*"|\d+|:\w+)""",
    re.IGNORECASE | re.DOTALL,
)
_OPERATORS = ("+", "-", "*", "/", "%", "DIV", "||")
_SAMPLE = re.compile(
    r"\s+TABLESAMPLE\s*(?:\w+\s*)?\([^()]*\)(?:\s*REPEATABLE\s*\(\d+\))?", re.IGNORECASE
)
_SHORT_FORM = re.compile(r"\s*(?:TABLE\s|(?=VALUES\b))", re.IGNORECASE)
"""Start of `TABLE name` and `VALUES (…)`, which are short for selects."""
_FIRST_WORD = re.compile(rf"(?:{_GAP}|\()*(\w+)", re.DOTALL)
_QUERIES = ("SELECT", "WITH", "FROM", "TABLE", "VALUES")
_CHANGES_ROWS = ("sample", "pivots", "laterals", "joins")


@dataclass(frozen=True, slots=True)
class TableUse:
    """Use of a table in a query."""

    folder: str
    """Qualifier before the dot; empty if there is none."""
    name: str
    start: int
    end: int
    """End of the table's span in the query text, including the clauses before its alias."""
    alias: str
    """Qualifier of the table's columns. The query already contains it if `is_aliased`."""
    is_aliased: bool
    where: str | None
    is_alone: bool
    """True if every unqualified column belongs to this table."""
    version: str | None = None
    as_of: str | None = None
    as_of_expression: str | None = None
    """Expression of a time that the engine evaluates."""
    sample: str = ""
    """Its `TABLESAMPLE` clause."""

    def __str__(self) -> str:
        """Return its name and its version, if it names one."""
        name = ".".join(filter(None, (self.folder, self.name)))
        if self.version is not None:
            return f"{name} VERSION AS OF '{self.version}'"
        if self.as_of_expression is not None:
            return f"{name} TIMESTAMP AS OF {self.as_of_expression}"
        return name if self.as_of is None else f"{name} TIMESTAMP AS OF '{self.as_of}'"


@dataclass(frozen=True, slots=True)
class Query:
    """Query and the tables it uses."""

    text: str
    uses: tuple[TableUse, ...]
    uses_unnamed: bool
    """True if the query may use columns that it does not name, as with `*`."""
    selects: tuple["SelectSpan", ...] = ()
    """Selects whose aggregates may be pushed down."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Values of named parameters."""

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


@dataclass(frozen=True, slots=True)
class SelectSpan:
    """Select that reads only tables, and its place in the text of a query."""

    start: int
    end: int
    uses: tuple[TableUse, ...]
    joins: tuple[Any, ...]
    has_aggregates: bool


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
    text = replace_functions(text)
    word = _FIRST_WORD.match(text)
    if word is not None and word[1].upper() not in _QUERIES:
        raise InvalidInputError(f"can't run this text: give one query, {STATEMENTS}")
    if (short := _SHORT_FORM.match(text)) is not None:
        text = f"SELECT * FROM {text[short.end() :]}"
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
    selects = tuple(_find_selects(text, tree, {use.start: use for use in uses}))
    return Query(text, tuple(uses), _uses_unnamed(tree), selects, args or {})


def _find_selects(text: str, tree: Any, uses: Mapping[int, TableUse]) -> Iterator[SelectSpan]:
    """Yield the selects that read only tables."""
    for select in tree.find_all(exp.Select):
        source = select.args.get("from") or select.args.get("from_")
        joins = select.args.get("joins") or []
        tables = [] if source is None else [source.this, *(each.this for each in joins)]
        if not tables or not all(isinstance(e, exp.Table) and _find_select(e)[0] for e in tables):
            continue
        known = [uses.get(_start_of(e)) for e in tables if isinstance(e.this, exp.Identifier)]
        own = [each for each in known if each is not None]
        is_operand = isinstance(select.parent, exp.SetOperation)
        span = None
        if len(own) == len(tables):
            span = find_select(text, own[0].start, is_operand=is_operand)
        if span is None:
            continue
        found = any(
            each.find_ancestor(exp.Select) is select and not isinstance(each.parent, exp.Window)
            for each in select.find_all(exp.AggFunc)
        )
        yield SelectSpan(*span, tuple(own), tuple(joins), found or bool(select.args.get("group")))


def _start_of(table: exp.Table) -> int:
    first: Any = table.args.get("db") or table.this
    start: int = first.meta["start"]
    return start


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
    start, end = _start_of(table), table.this.meta["end"] + 1
    select, is_alone = _find_select(table)
    where = None if select is None else select.args.get("where")
    version, versions = _VERSION.match(text, end), {}
    if version is not None:
        end = _find_end_of_value(text, version.end())
        versions = _read_version(version[1].upper(), text[version.end() : end], args)
    sample = _SAMPLE.match(text, end)
    return TableUse(
        folder=table.db,
        name=table.name,
        start=start,
        end=sample.end() if sample else end,
        alias=table.alias or table.name,
        is_aliased=bool(table.alias),
        where=None if where is None else insert_values(where.this, args).sql(dialect=DIALECT),
        is_alone=is_alone,
        sample=sample[0] if sample else "",
        **versions,
    )


def _find_end_of_value(text: str, start: int) -> int:
    """Return the end of an expression behind `AS OF`; its start if there is none."""
    tokens = [Token(TokenType.SEMICOLON, ""), *sqlglot.tokenize(text[start:], read=DIALECT)]

    def word(ahead: int = 1) -> str:
        known = at + ahead < len(tokens)
        return tokens[at + ahead].text.upper() if known else ""

    def is_constant(ahead: int = 1) -> bool:
        known = at + ahead < len(tokens)
        return known and tokens[at + ahead].token_type in (TokenType.STRING, TokenType.NUMBER)

    at = 0
    while at + 1 < len(tokens):
        while word() in ("+", "-"):
            at += 1
        if word() == "INTERVAL":
            at += 1
            while is_constant() or (word() in ("+", "-") and is_constant(2)):
                at += 1 + (not is_constant())
                at += word().rstrip("S") in _UNITS
                at += 2 * (word() == "TO")
        elif word() == ":":
            at += 2
        elif word() != "(":
            # A type and its text, the name of a function, or a constant.
            at += 1 + (not is_constant() and is_constant(2))
        if word() == "(" and not is_constant(0):
            depth = 1
            at += 1
            while depth and at + 1 < len(tokens):
                at += 1
                depth += (tokens[at].token_type in OPENING) - (tokens[at].token_type in CLOSING)
        while word() == "::":
            at += 2
        if word() not in _OPERATORS:
            break
        at += 1
    return start + (tokens[min(at, len(tokens) - 1)].end + 1 if at else 0)


_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def _read_version(kind: str, text: str, args: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a `TableUse` for what is behind `AS OF`; raises InvalidInputError."""
    constant = _CONSTANT.fullmatch(text)
    given = constant and constant[1]
    value = args.get(given[1:]) if given and given[0] == ":" else given and given.strip("'\"")
    is_version = kind == "VERSION"
    name = "version" if is_version else "as_of"
    match value:
        case str() if is_version or not value.isdecimal():
            return {name: value}
        case datetime():
            # Spark's Python API takes a time without a zone as local time.
            return {name: value.astimezone().isoformat(" ", "microseconds")}
        case date():
            return {name: value.isoformat()}
        case int() if is_version and not isinstance(value, bool):
            return {name: str(value)}
    is_parameter = given is not None and given[0] == ":"
    if not is_version and text and (not is_parameter or isinstance(value, int | float)):
        return {"as_of_expression": text}
    example = "VERSION AS OF 'v1'" if is_version else "TIMESTAMP AS OF '2026-01-31T12:00Z'"
    raise InvalidInputError(
        f"can't read the {kind.lower()} behind AS OF: give a text in quotes or a parameter, such as "
        f"{example}"
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


METADATA_FOLDER = "repo"
"""Qualifier of the metadata tables."""
HISTORY = pa.schema(
    {
        "snapshot_id": pa.string(), "parent_id": pa.string(), "written_at": TIMESTAMP,
        "message": pa.string(), "metadata": pa.string(),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """Table that a query reads: the rows of a table, or the partial aggregates of a select."""

    uses: tuple[TableUse, ...]
    """Uses of tables that it stands for."""
    source: Source
    table: Table
    select: AggregateSelect | None = None
    """Set if it has partial aggregates, which the rewritten select combines."""
    start: int = 0
    """Start of the select in the query."""
    reason: str | None = None
    """Reason why aggregates of a select are not pushed down."""

    def replaced(self, view: str) -> list[Edit]:
        """Return the edits of the query that let it read a view of the table."""
        if self.select is not None:
            edits = self.select.replaced(view)
            return [(self.start + first, self.start + end, new) for first, end, new in edits]
        (use,) = self.uses
        alias = "" if use.is_aliased else f" AS {quote(use.alias)}"
        return [(use.start, use.end, f"{quote(view)}{use.sample}{alias}")]

    def explain(self) -> Iterator[str]:
        """Yield what is read of the table, and what is evaluated before the engine sees rows."""
        plan, table = self.table, self.table
        yield f"Table {', '.join(map(str, self.uses))}"
        if isinstance(table, PartialAggregates):
            plan = table.plan
            names = {name: str(each) for name, each in table.derived.items()}
            functions = [
                f"{part.function}({names.get(part.column or '', part.column) or '*'})"
                for part in table.partials
            ]
            groups = f" by {', '.join(table.groups)}" if table.groups else ""
            yield f"  aggregates pushed down: {', '.join(functions) or 'none'}{groups}"
        elif self.reason is not None:
            yield f"  aggregates by Spark: {self.reason}"
        yield f"  columns: {', '.join(plan.schema.names) or 'none'}"
        if not isinstance(plan, ScanPlan):
            return
        for name, count in plan.count_chunks().items():
            yield f"  chunks of {name}: {count.read} of {count.total}"
        if not plan.lazy:
            yield "  chunks: none"
        if plan.condition != EVERYTHING:
            yield f"  pruned by: {self.uses[0].where}"
        unknown = find_unknown(plan.condition)
        if unknown is not None:
            yield f"  evaluated by Spark only: {unknown}"


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """Query and the tables that it reads, each planned once."""

    query: Query
    tables: tuple[PlannedTable, ...]
    """Tables of the repository; other names are the engine's own."""

    @property
    def has_aggregates(self) -> bool:
        """Return True if aggregates are pushed down."""
        return any(each.select is not None for each in self.tables)

    def text(self, views: Sequence[str]) -> str:
        """Return the query over views of the tables."""
        edits = [
            edit
            for table, view in zip(self.tables, views, strict=True)
            for edit in table.replaced(view)
        ]
        return apply_edits(self.query.text, edits)

    def push_down(self, evaluate: Evaluate) -> "PlannedQuery":
        """Return the query with partial aggregates in place of rows where that has the same result.

        The engine evaluates conditions on coordinates that only it understands; they prune chunks.
        """
        known = {each.uses[0]: each for each in self.tables}
        found: list[PlannedTable] = []
        for select in self.query.selects:
            own = [known[use] for use in select.uses if use in known]
            if len(own) != len(select.uses) or not all(isinstance(e.table, ScanPlan) for e in own):
                continue
            pushed = self._push_select(select, own, evaluate)
            for table in own:
                del known[table.uses[0]]
            found += [pushed] if isinstance(pushed, PlannedTable) else [
                replace(_sharpen_rows(each, self.query, evaluate), reason=pushed) for each in own
            ]  # fmt: skip
        found += [_sharpen_rows(each, self.query, evaluate) for each in known.values()]
        return PlannedQuery(self.query, tuple(found))

    def _push_select(
        self, select: SelectSpan, own: Sequence[PlannedTable], evaluate: Evaluate
    ) -> PlannedTable | str | None:
        """Return the partial aggregates of a select, or the reason why there are none."""
        text = self.query.text[select.start : select.end]
        try:
            tables = [(use.alias, each.source) for use, each in zip(select.uses, own, strict=True)]
            cells = make_cells(tables, select.joins, self.query.args)
            pushed = AggregateSelect(text, cells, evaluate).read()
        except NotPushedDownError as error:
            return str(error) if select.has_aggregates else None
        assert pushed.table is not None
        return PlannedTable(select.uses, own[0].source, pushed.table, pushed, select.start)


def _sharpen_rows(planned: PlannedTable, query: Query, evaluate: Evaluate) -> PlannedTable:
    """Return a table of rows whose condition the engine has evaluated for coordinates, if it can be."""
    (use,), plan = planned.uses, planned.table
    if not isinstance(plan, ScanPlan) or use.where is None or find_unknown(plan.condition) is None:
        return planned
    try:
        cells = make_cells([(use.alias, planned.source)], (), query.args)
        if not use.is_alone:
            names = {key: name for key, name in cells.names.items() if key[0]}
            cells = replace(cells, names=names)
        sharpened = sharpen(cells, use.where, evaluate)
    except NotPushedDownError:
        return planned
    if not sharpened.computed:
        return planned
    alias = quote(use.alias)
    parts = [
        f"({alias}.{quote(each.text)})" if each.kind == "computed" else f"({each.text})"
        for each in sharpened.parts
    ]
    source = sharpened.source.with_options(
        where=" AND ".join(parts), columns=tuple(plan.schema.names), engine_text=None
    )
    return replace(planned, source=source, table=open_table(source))


def plan_query(
    source: Source | None,
    query: Query,
    catalog: Mapping[str, Source] | None = None,
    evaluate: Evaluate | None = None,
) -> PlannedQuery:
    """Plan the rows of all tables of a query.

    Parameters
    ----------
    source
        Repository whose tables need no qualifier.
    query
        Query to plan.
    catalog
        Repositories whose tables are qualified by a name.
    evaluate
        Function that evaluates the times of versions that are expressions.
    """
    versions: dict[tuple[str | None, ...], Source] = {}
    tables: list[PlannedTable] = []
    for use in query.uses:
        qualifier = _find_name(use.folder, list(catalog or ())) if use.folder else None
        owner = source if catalog is None or qualifier is None else catalog[qualifier]
        if owner is None:
            continue
        key = (qualifier, use.version, use.as_of, use.as_of_expression)
        if key not in versions:
            versions[key] = _at_version(owner, use, evaluate)
        local = use if qualifier is None else _unqualify(versions[key], use)
        named = _select_table(versions[key], local, query)
        if named is not None:
            tables.append(PlannedTable((use,), named, open_table(named)))
    return PlannedQuery(query, tuple(tables))


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


def _at_version(source: Source, use: TableUse, evaluate: Evaluate | None) -> Source:
    """Return the source at the version that a table of a query names."""
    ref: Ref
    if use.version is not None:
        ref = NamedRef(use.version)
    elif use.as_of is not None or use.as_of_expression is not None:
        moment = (
            parse_moment("TIMESTAMP AS OF", use.as_of, source.options.time_zone)
            if use.as_of is not None
            else _evaluate_moment(str(use.as_of_expression), evaluate)
        )
        at = source.options.ref
        branch = at.name if isinstance(at, BranchRef) else find_branch(source, "TIMESTAMP AS OF")
        ref = BranchRef(branch, moment)
    else:
        return source
    return Source.of(source.repository, read_version(source.repository, ref), source.options)


def _evaluate_moment(text: str, evaluate: Evaluate | None) -> datetime:
    """Return the time that an expression gives in the engine; raises InvalidInputError."""
    row = pa.table({"number": [0]})
    found = evaluate and evaluate(row, [f"unix_micros(CAST(({text}) AS TIMESTAMP))"])
    micros = found.column(0)[0].as_py() if found else None
    if micros is None:
        raise InvalidInputError(
            f"can't read the timestamp behind AS OF: {text} gives no time; give an expression of "
            "constants, such as current_timestamp() - INTERVAL 1 DAY"
        )
    return EPOCH + timedelta(microseconds=micros)
