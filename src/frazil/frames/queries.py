"""What a query in SQL says about the tables that it reads: which, at which version, which of them.

Only what is sure is said. A condition is one that every row of the table has to satisfy to be seen at
all: that of the `WHERE` of the `SELECT` whose `FROM` names the table, alone or joined to others without
outer joins. The engine evaluates the query as it stands, and so every condition again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from frazil.errors import InvalidInputError
from frazil.frames.predicates import DIALECT

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
