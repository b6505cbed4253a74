"""Queries that only ask for sums of cells, and what they become where partial sums are handed over.

Such a query is one `SELECT` of one table, without subqueries, whose columns are coordinates that it
groups by, and sums, means, counts, least and greatest values of single columns, or simple expressions
of these. Whatever is different or not sure is left as it is: the engine evaluates it cell by cell.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from frazil.frames.predicates import DIALECT
from frazil.frames.queries import TableUse
from frazil.frames.summaries import Function, Partial, can_be

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
