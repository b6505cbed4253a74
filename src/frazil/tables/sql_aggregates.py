"""Push aggregates of SQL queries down: rewrite a select to combine partial aggregates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from frazil.errors import InvalidInputError
from frazil.tables.aggregates import (
    DOUBLE,
    SINGLE,
    Expression,
    Function,
    Partial,
    PartialAggregates,
    can_push_down,
)
from frazil.tables.predicates import find_unknown
from frazil.tables.scan_plan import plan_scan
from frazil.tables.sql_expressions import (
    CLOSING,
    DETERMINISTIC,
    OPENING,
    RANDOM,
    CellReader,
    Cells,
    Edit,
    Evaluate,
    NotPushedDownError,
    apply_edits,
    parse,
    sharpen,
    span_of,
    split,
    text_of,
)
from frazil.tables.sql_predicates import DIALECT
from frazil.tables.sql_statements import quote
from frazil.tables.table_source import Source

# Spans of texts

_CLAUSES = (
    TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING,
    TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY,
    TokenType.LIMIT, TokenType.OFFSET, TokenType.WINDOW,
)  # fmt: skip
_SETS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.SEMICOLON)


def find_select(text: str, table: int, *, is_operand: bool) -> tuple[int, int] | None:
    """Return the span of the select that has a table directly in its `FROM`; None if it is unclear.

    Parameters
    ----------
    text
        Text of a query.
    table
        Position of the table in it.
    is_operand
        True if the select is an operand of `UNION` and the like, which have the order and limit.
    """
    tokens = sqlglot.tokenize(text, read=DIALECT)
    at = next(number for number, each in enumerate(tokens) if each.end >= table)
    depth = 0
    for first in range(at - 1, -1, -1):
        kind = tokens[first].token_type
        depth += (kind in CLOSING) - (kind in OPENING)
        if depth < 0:
            return None
        if not depth and kind is TokenType.SELECT:
            break
    else:
        return None
    stops = (*_SETS, *_CLAUSES[5:11]) if is_operand else _SETS
    depth = 0
    for last in range(at, len(tokens)):
        kind = tokens[last].token_type
        depth += (kind in OPENING) - (kind in CLOSING)
        if depth < 0 or (not depth and kind in stops):
            return tokens[first].start, tokens[last - 1].end + 1
    return tokens[first].start, tokens[-1].end + 1


def _find_clauses(tokens: Sequence[Token]) -> dict[TokenType, tuple[int, int]]:
    """Return the tokens of each clause, from its first word to the next clause."""
    starts: list[int] = []
    depth = 0
    for number, each in enumerate(tokens):
        depth += (each.token_type in OPENING) - (each.token_type in CLOSING)
        is_distinct = number > 0 and tokens[number - 1].token_type is TokenType.DISTINCT
        if not depth and each.token_type in _CLAUSES and not is_distinct:
            starts.append(number)
    found: dict[TokenType, tuple[int, int]] = {}
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        if tokens[start].token_type in found:
            raise NotPushedDownError("it has a clause twice")
        found[tokens[start].token_type] = start, end
    return found


# Weighted averages, which the engine lacks

_WEIGHTED = {"WEIGHTED_AVG": "{0}", "AREA_AVG": "cos(radians({0}))"}


def replace_functions(text: str) -> str:
    """Return a query with expressions for functions that only Frazil has, and what the parser knows.

    `weighted_avg(value, weight)` is the average with weights, `area_avg(value, lat)` that with the
    areas of cells of a regular grid of longitudes and latitudes, in degrees. Raises InvalidInputError.
    """
    try:
        tokens = sqlglot.tokenize(text, read=DIALECT)
    except SqlglotError:
        return text
    # The parser takes the function for the clause, unless its name is quoted.
    edits = [
        (each.start, each.end + 1, f"`{each.text}`")
        for each, after in pairwise(tokens)
        if each.token_type is TokenType.WINDOW and after.token_type is TokenType.L_PAREN
    ]
    # The parser knows only the shorter of two clauses that mean the same.
    edits += [
        (each.start, each.start + len("SYSTEM_"), "")
        for before, each, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if [e.text.upper() for e in (before, each, after)] == ["FOR", "SYSTEM_VERSION", "AS"]
    ]
    try:
        calls = list(_find_calls(text, tokens, _WEIGHTED))
    except NotPushedDownError as error:
        raise InvalidInputError(f"can't parse this query: {error}") from error
    for call in calls:
        if len(call.arguments) != 2 or call.filter or call.within or call.is_distinct:
            raise InvalidInputError(
                f"can't parse {text[call.start : call.end]}: write {call.name.lower()}(value, "
                f"{'lat' if call.name == 'AREA_AVG' else 'weight'})"
            )
        edits = [each for each in edits if not call.start <= each[0] < call.end]
        value, given = map(replace_functions, call.arguments)
        weight = f"CAST({_WEIGHTED[call.name].format(given)} AS DOUBLE)"
        edits.append(
            (
                call.start,
                call.end,
                f"(sum(({value}) * {weight}) / "
                f"nullif(sum(CASE WHEN ({value}) IS NOT NULL THEN {weight} END), 0D))",
            )
        )
    return apply_edits(text, edits)


@dataclass(frozen=True, slots=True)
class TableFunction:
    """Call of a table function that only Frazil has, such as `points(TABLE stations, 't')`."""

    name: str
    view: str
    """View that stands for its rows in the query."""
    query: str | None
    """Query of its input; None if that is the path of a file."""
    path: str
    arguments: str
    """Its other arguments."""


def replace_table_functions(text: str) -> tuple[list[TableFunction], str]:
    """Return the calls of `points` and `zonal` in a query, and the query with views in their place."""
    found, edits = [], []
    try:
        tokens = sqlglot.tokenize(text, read=DIALECT)
        for call in _find_calls(text, tokens, ("POINTS", "ZONAL")):
            first, *others = call.arguments or ("",)
            inner = sqlglot.tokenize(first, read=DIALECT)
            is_path = len(inner) == 1 and inner[0].token_type is TokenType.STRING
            if inner[:1] and inner[0].text.upper() == "TABLE":
                inner = inner[1:]
            elif not is_path:
                continue
            if inner and inner[0].token_type is TokenType.L_PAREN:
                inner = inner[1:-1]
            given = text_of(first, inner) if inner else ""
            is_query = bool(inner) and inner[0].text.upper() in ("SELECT", "WITH")
            query = given if is_query else f"SELECT * FROM {given}"
            view = f"frazil_{uuid4().hex}"
            found.append(
                TableFunction(
                    call.name.lower(),
                    view,
                    None if is_path else query,
                    inner[0].text if is_path else "",
                    ", ".join(others),
                )
            )
            edits.append((call.start, call.end, view))
    except (NotPushedDownError, SqlglotError):
        return [], text  # parsed again, with an error that tells the place
    return found, apply_edits(text, edits)


@dataclass(frozen=True, slots=True)
class _Call:
    """Call of an aggregate function."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int
    is_distinct: bool = False
    filter: str | None = None
    """Condition of `FILTER (WHERE …)`."""
    within: str | None = None
    """Expression of `WITHIN GROUP (ORDER BY …)`."""


def _find_calls(text: str, tokens: Sequence[Token], names: Any) -> Iterator[_Call]:
    """Yield the calls of some functions, without those of window functions."""
    at = 0
    while at + 1 < len(tokens):
        each, name = tokens[at], tokens[at].text.upper()
        is_call = (
            name in names
            and each.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
            and tokens[at + 1].token_type is TokenType.L_PAREN
            and (at == 0 or tokens[at - 1].token_type is not TokenType.DOT)
        )
        at += 1
        if not is_call:
            continue
        last = end = _find_closing(tokens, at)
        inner, clauses = tokens[at + 1 : end], {}
        # `WITHIN GROUP (ORDER BY …)` and `FILTER (WHERE …)`, in this order.
        for words in (["WITHIN", "GROUP", "("], ["FILTER", "("]):
            first = last + len(words)
            if [each.text.upper() for each in tokens[last + 1 : first + 1]] == words:
                last = _find_closing(tokens, first)
                clauses[words[0]] = (
                    text_of(text, tokens[first + 2 : last]) if last > first + 2 else ""
                )
        behind = tokens[last + 1].text.upper() if last + 1 < len(tokens) else ""
        if behind == "OVER":
            continue
        if behind.startswith(("FILTER", "WITHIN", "IGNORE", "RESPECT")):
            raise NotPushedDownError(f"{name} has a clause that only Spark evaluates")
        is_distinct = bool(inner) and inner[0].token_type is TokenType.DISTINCT
        arguments = tuple(text_of(text, part) for part in split(inner, TokenType.COMMA))
        yield _Call(
            name,
            arguments,
            each.start,
            tokens[last].end + 1,
            is_distinct,
            clauses.get("FILTER"),
            clauses.get("WITHIN"),
        )
        at = last + 1


def _find_closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for number in range(opening, len(tokens)):
        kind = tokens[number].token_type
        depth += (kind in OPENING) - (kind in CLOSING)
        if not depth:
            return number
    raise NotPushedDownError("it can't be parsed")


# Aggregates

_MOMENTS = {
    "STD": ("SQRT", 1), "STDDEV": ("SQRT", 1), "STDDEV_SAMP": ("SQRT", 1), "STDDEV_POP": ("SQRT", 0),
    "VARIANCE": ("", 1), "VAR_SAMP": ("", 1), "VAR_POP": ("", 0),
}  # fmt: skip
"""Functions of the deviations from the mean: the last step, and what is subtracted from the count."""
_AGGREGATES = (
    "COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "COUNT_IF", "MIN_BY", "MAX_BY", "MEDIAN", "PERCENTILE",
    "PERCENTILE_CONT", "PERCENTILE_APPROX", "APPROX_PERCENTILE", *_MOMENTS,
)  # fmt: skip


@dataclass(slots=True)
class AggregateSelect:
    """Select whose aggregates tasks compute, and the query that combines them."""

    text: str
    cells: Cells
    evaluate: Evaluate
    partials: dict[tuple[Any, ...], Partial] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    view: tuple[int, int] = (0, 0)
    """Part of the text that names the tables."""
    table: PartialAggregates | None = None

    def replaced(self, view: str) -> list[Edit]:
        """Return the edits of the text that let it combine the partial aggregates of a view."""
        return [*self.edits, (*self.view, f"{quote(view)} AS {quote(self.cells.alias)}")]

    def read(self) -> "AggregateSelect":
        """Find the groups and partial aggregates; raises NotPushedDownError."""
        tokens = sqlglot.tokenize(self.text, read=DIALECT)
        tree = parse(self.text)
        clauses = _find_clauses(tokens)
        cells = CellReader(self.cells)
        calls = []
        for kind in (TokenType.SELECT, TokenType.HAVING, TokenType.ORDER_BY):
            if kind in clauses:
                own = tokens[slice(*clauses[kind])]
                for call in _find_calls(self.text, own, _AGGREGATES):
                    if not (call.name == "COUNT" and call.is_distinct):
                        is_last = kind is not TokenType.SELECT
                        new = self._combine(call, cells, can_use_lambdas=not is_last)
                        calls.append((call.start, call.end, new))
        if not calls and not tree.args.get("group"):
            raise NotPushedDownError("it has no aggregates")
        first, end = clauses[TokenType.FROM]
        self.view = tokens[first + 1].start, tokens[end - 1].end + 1
        removed = [self.view]
        where = None
        if TokenType.WHERE in clauses:
            first, end = clauses[TokenType.WHERE]
            removed.append((tokens[first].start, tokens[end - 1].end + 1))
            where = tokens[first + 1 : end]
            self.edits.append((*removed[-1], ""))
        groups = self._find_groups(tree, calls, removed)
        self.edits += calls
        keys = self._find_keys(tree, tokens, clauses)
        representatives, reduces = self._find_representatives(tree, keys, groups)
        if not reduces:
            raise NotPushedDownError("each cell is a group")
        self._make_table(cells, groups, where, representatives)
        return self

    # Groups

    def _find_groups(
        self, tree: Any, calls: Sequence[Edit], removed: Sequence[tuple[int, int]]
    ) -> list[str]:
        """Return the coordinates outside of aggregates."""
        self._refuse_others(calls, removed)
        results = {each.alias.lower(): each for each in tree.expressions if each.alias}
        inside = [*removed, *((start, end) for start, end, _ in calls)]
        coordinates = {each.name for each in self.cells.columns.all if each.kind != "variable"}
        is_joined = len({each for each, _ in self.cells.names}) > 2
        found: dict[str, None] = {}
        for column in tree.find_all(exp.Column):
            start, end = span_of(column)
            if any(first <= start < last for first, last in inside):
                continue
            result = None if column.table else results.get(column.name.lower())
            key = (column.table.lower(), column.name.lower())
            if result is not None and column.find_ancestor(exp.Alias) is not result:
                if key not in self.cells.names:
                    continue
                if not isinstance(result.this, exp.Column) or result.this.name.lower() != key[1]:
                    raise NotPushedDownError(f"{column.name} names a column and a result")
            name = self.cells.find(column)
            if name not in coordinates:
                raise NotPushedDownError(f"it is grouped by {column.name}, which is no coordinate")
            found[name] = None
            if is_joined:
                self.edits.append((start, end, quote(name)))
        return list(found)

    def _refuse_others(self, calls: Sequence[Edit], removed: Sequence[tuple[int, int]]) -> None:
        """Refuse a select with parts that partial aggregates don't answer."""
        edits = [(start, end, "_frazil_call") for start, end, _ in calls]
        (first, *others) = removed
        rest = apply_edits(self.text, [*edits, (*first, "x"), *((*each, "") for each in others)])
        for node in parse(rest).walk():
            is_window = isinstance(node.parent, exp.Window)
            is_distinct = isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct)
            if isinstance(node, exp.AggFunc) and not is_window and not is_distinct:
                raise NotPushedDownError(f"only Spark computes {node.sql(DIALECT)}")
            is_unknown = isinstance(node, exp.Anonymous) and node.name.upper() not in DETERMINISTIC
            if is_unknown or isinstance(node, RANDOM):
                raise NotPushedDownError(
                    f"{node.sql(DIALECT)} may have another value for each cell"
                )
            if isinstance(
                node, exp.Subquery | exp.Exists | exp.Star | exp.Lateral | exp.Pivot | exp.Explode
            ):
                raise NotPushedDownError(f"it has {node.sql(DIALECT)}")

    def _find_keys(
        self, tree: Any, tokens: Sequence[Token], clauses: Mapping[TokenType, tuple[int, int]]
    ) -> list[str] | None:
        """Return the texts of the expressions that are grouped by; None for sets of groups."""
        group = tree.args.get("group")
        if group is None:
            return []
        if any(value for name, value in group.args.items() if name != "expressions"):
            return None
        first, end = clauses[TokenType.GROUP_BY]
        start, stop = clauses[TokenType.SELECT]
        results = tree.expressions
        selected = split(tokens[start + 1 : stop], TokenType.COMMA)
        texts: list[str] = []
        for part in split(tokens[first + 1 : end], TokenType.COMMA):
            text = text_of(self.text, part)
            key = parse(text)
            number = None
            if isinstance(key, exp.Literal) and not key.is_string and key.this.isdecimal():
                number = int(key.this) - 1
            elif isinstance(key, exp.Column) and not key.table:
                named = [n for n, e in enumerate(results) if e.alias.lower() == key.name.lower()]
                if ("", key.name.lower()) not in self.cells.names and len(named) == 1:
                    number = named[0]
            if number is not None:
                if not 0 <= number < len(selected) or len(selected) != len(results):
                    return None
                own = list(selected[number])
                if results[number].alias:
                    own = own[: -2 if own[-2].token_type is TokenType.ALIAS else -1]
                if own and own[0].token_type in (TokenType.DISTINCT, TokenType.HINT, TokenType.ALL):
                    return None
                text = text_of(self.text, own)
            texts.append(text)
        return texts

    def _find_counted(self, tree: Any) -> Iterator[str]:
        """Yield the coordinates inside of `count(DISTINCT …)` and its `FILTER`."""
        for count in tree.find_all(exp.Count):
            if isinstance(count.this, exp.Distinct):
                whole = count.parent if isinstance(count.parent, exp.Filter) else count
                for column in whole.find_all(exp.Column):
                    key = (column.table.lower(), column.name.lower())
                    if key in self.cells.names:
                        yield self.cells.names[key]

    def _find_representatives(
        self, tree: Any, keys: Sequence[str] | None, groups: Sequence[str]
    ) -> tuple[dict[str, Any], bool]:
        """Return the position that stands for each one along dimensions that expressions group.

        Also return True if groups are smaller than single cells.
        """
        columns = self.cells.columns
        dims = {dim for name in groups for dim in columns.get(name).dims}
        is_smaller = dims != set(columns.dims)
        trees = [parse(each) for each in keys or ()]
        found: dict[str, Any] = {}
        by_dim: dict[str, list[int]] = {}
        # All coordinates are needed to count distinct ones.
        spoiled = {dim for each in self._find_counted(tree) for dim in columns.get(each).dims}
        for number, key in enumerate(trees):
            used = {
                dim
                for each in key.find_all(exp.Column)
                for dim in columns.get(self.cells.find(each)).dims
            }
            if len(used) == 1:
                by_dim.setdefault(next(iter(used)), []).append(number)
            else:
                spoiled |= used
        for dim, numbers in by_dim.items():
            own = [trees[number] for number in numbers]
            is_bare = any(isinstance(each, exp.Column) and each.name == dim for each in own)
            if (
                dim in spoiled
                or is_bare
                or keys is None
                or all(isinstance(e, exp.Column) for e in own)
            ):
                continue
            values = self.evaluate(
                self.cells.list_coordinates(dim, own), [self.cells.rename(keys[n]) for n in numbers]
            )
            if values is None:
                raise NotPushedDownError("a group can't be evaluated for each coordinate")
            codes = _number_rows(values)
            _, firsts = np.unique(codes, return_index=True)
            found[dim] = firsts[codes]
            is_smaller = is_smaller or len(firsts) < len(codes)
        has_expressions = any(not isinstance(each, exp.Column) for each in trees)
        return found, is_smaller or not has_expressions

    # Partial aggregates

    def _make_table(
        self,
        cells: CellReader,
        groups: Sequence[str],
        where: Sequence[Token] | None,
        representatives: Mapping[str, Any],
    ) -> None:
        source, text, test = self.cells.source, None, None
        if where:
            sharpened = sharpen(self.cells, text_of(self.text, where), self.evaluate)
            source = sharpened.source
            known: list[str] = []
            unknown: list[Any] = []
            for part in sharpened.parts:
                if part.kind == "computed":
                    known.append(quote(part.text))
                    continue
                tree = self.cells.resolve(parse(part.text))
                if part.kind == "known":
                    known.append(f"({tree.sql(dialect=DIALECT)})")
                else:
                    unknown.append(tree)
            text = " AND ".join(known)
            if unknown:
                test = cells.name(cells.test(exp.and_(*unknown)))
        partials = tuple(self.partials.values())
        used = {
            *groups,
            *(name for each in partials for name in (each.column, each.by, each.where) if name),
        }
        used |= {name for each in cells.derived.values() for name in each.columns}
        columns = tuple(each.name for each in self.cells.columns.all if each.name in used)
        options = replace(
            source.options,
            columns=columns,
            engine_text=None,
            where=text or None,
            qualifiers=frozenset(),
            needs_qualifier=False,
        )
        plan = plan_scan(Source(source.repository, options, source.arrays))
        left = find_unknown(plan.condition)
        if left is not None:
            raise NotPushedDownError(f"only Spark evaluates {left}")
        self.table = PartialAggregates(
            plan, tuple(groups), partials, dict(cells.derived), test, representatives
        )

    def _combine(self, call: _Call, cells: CellReader, *, can_use_lambdas: bool) -> str:
        """Return the expression that combines the partial aggregates of a call."""
        if call.is_distinct:
            raise NotPushedDownError("only Spark finds distinct values")
        where = None
        if call.filter is not None:
            where = cells.name(cells.test(self.cells.resolve(parse(call.filter))))

        def read(number: int) -> str:
            if number >= len(call.arguments):
                raise NotPushedDownError(f"{call.name} lacks an argument")
            return cells.name(cells.read(self.cells.resolve(parse(call.arguments[number]))))

        def partial(function: Function, column: str | None, by: str | None = None) -> str:
            if column is not None and not can_push_down(function, cells.types[by or column]):
                raise NotPushedDownError(f"only Spark computes {call.name.lower()} of this type")
            name = f"_frazil_{len(self.partials)}"
            made = Partial(function, column, name, by, where)
            key = (function, column, by, where)
            if key not in self.partials:
                self.partials[key] = made
            return self.partials[key].name

        count = len(call.arguments)
        if call.within is not None or call.name == "PERCENTILE_CONT":
            return self._combine_cont(call, cells, partial)
        match call.name:
            case "COUNT" if count == 1:
                inner = call.arguments[0].strip()
                tree = None if inner == "*" else parse(inner)
                is_every = tree is None or (isinstance(tree, exp.Literal) and not tree.is_string)
                return f"COALESCE(SUM({partial('count', None if is_every else read(0))}), 0)"
            case "COUNT_IF" if count == 1:
                tree = self.cells.resolve(parse(call.arguments[0]))
                if where is not None:
                    tree = exp.and_(tree, self.cells.resolve(parse(call.filter or "")))
                where = cells.name(cells.test(tree))
                return f"COALESCE(SUM({partial('count', None)}), 0)"
            case "SUM" | "MIN" | "MAX" if count == 1:
                function: Any = call.name.lower()
                return f"{call.name}({partial(function, read(0))})"
            case "AVG" | "MEAN" if count == 1:
                own = read(0)
                if cells.types[own] == pa.int64():
                    own = cells.name(
                        Expression("cast", DOUBLE, (Expression("column", pa.int64(), value=own),))
                    )
                return f"(SUM({partial('sum', own)}) / NULLIF(SUM({partial('count', own)}), 0))"
            case "MIN_BY" | "MAX_BY" if count == 2:
                function = call.name.lower()
                name = partial(function, read(0), read(1))
                return f"{call.name}({name}, {name}_2)"
            case "MEDIAN" if count == 1:
                name = partial("frequency", read(0))
                return f"PERCENTILE({name}, 0.5D, {name}_2)"
            case "PERCENTILE" if count == 2:
                name = partial("frequency", read(0))
                return f"PERCENTILE({name}, {call.arguments[1]}, {name}_2)"
            case "PERCENTILE_APPROX" | "APPROX_PERCENTILE" if count in (2, 3) and can_use_lambdas:
                return self._combine_approx(call, cells, read(0), partial)
        if call.name in _MOMENTS and count == 1:
            if not can_use_lambdas:
                # The engine finds no lambda functions there.
                raise NotPushedDownError(f"{call.name.lower()} is in HAVING or ORDER BY")
            own = read(0)
            count_, mean, far = (
                partial("count", own),
                partial("mean", own),
                partial("deviation", own),
            )
            return _combine_moments(count_, mean, far, *_MOMENTS[call.name])
        raise NotPushedDownError(f"only Spark computes this {call.name.lower()}")

    def _combine_cont(self, call: _Call, cells: CellReader, partial: Any) -> str:
        """Return `percentile_cont(p) WITHIN GROUP (ORDER BY value)`."""
        order = None if call.within is None else parse(f"SELECT 1 ORDER BY {call.within}")
        keys = [] if order is None else order.args["order"].expressions
        if (
            call.name != "PERCENTILE_CONT"
            or len(call.arguments) != 1
            or len(keys) != 1
            or keys[0].args.get("desc")
        ):
            raise NotPushedDownError(f"only Spark computes this {call.name.lower()}")
        own = cells.name(cells.read(self.cells.resolve(keys[0].this)))
        name = partial("frequency", own)
        return f"PERCENTILE({name}, {call.arguments[0]}, {name}_2)"

    def _combine_approx(self, call: _Call, cells: CellReader, column: str, partial: Any) -> str:
        """Return the exact percentile among values of a type that has few."""
        type = cells.types[column]
        share = parse(call.arguments[1])
        if not isinstance(share, exp.Literal) or share.is_string or not 0 <= float(share.this) <= 1:
            raise NotPushedDownError("only Spark computes several approximate percentiles at once")
        if type not in (pa.int8(), pa.int16()) and not self._has_few_values(column):
            raise NotPushedDownError(
                "approximate percentiles of many values are left to Spark, which bounds their memory"
            )
        if len(call.arguments) == 3 and not parse(call.arguments[2]).is_int:
            raise NotPushedDownError("only Spark reads this accuracy")
        name = partial("frequency", column)
        names = {
            pa.int8(): "TINYINT",
            pa.int16(): "SMALLINT",
            pa.int32(): "INT",
            SINGLE: "FLOAT",
            DOUBLE: "DOUBLE",
        }
        own = f"named_struct('v', {name}, 'n', {name}_2)"
        rank = f"GREATEST(CEIL({share.this}D * SUM({name}_2)), 1)"
        return (
            f"aggregate(array_sort(collect_list(IF({name} IS NULL, NULL, {own}))), "
            f"named_struct('n', 0L, 'v', CAST(NULL AS {names[type]})), "
            f"(a, b) -> IF(a.n >= {rank}, a, named_struct('n', a.n + b.n, 'v', b.v)), a -> a.v)"
        )

    def _has_few_values(self, column: str) -> bool:
        """Return True if an array stores numbers of few bits, as packed ones are."""
        document = self.cells.source.arrays.metadata.get(column)
        return document is not None and document["data_type"] in (
            "int8",
            "uint8",
            "int16",
            "uint16",
        )


def _combine_moments(count: str, mean: str, far: str, last: str, less: int) -> str:
    """Return an expression that merges counts, means and squared deviations."""
    part = f"named_struct('n', DOUBLE({count}), 'm', {mean}, 's', {far})"
    total = "(a.n + b.n)"
    merged = (
        f"named_struct('n', {total}, 'm', a.m + (b.m - a.m) * b.n / {total}, "
        f"'s', a.s + b.s + (b.m - a.m) * (b.m - a.m) * a.n * b.n / {total})"
    )
    return (
        f"aggregate(collect_list(IF({count} > 0, {part}, NULL)), "
        f"named_struct('n', 0D, 'm', 0D, 's', 0D), (a, b) -> {merged}, "
        f"a -> IF(a.n > {less}, {last}(a.s / (a.n - {less})), NULL))"
    )


def _number_rows(values: pa.Table) -> Any:
    """Return a number for each row, the same for equal rows."""
    codes = np.zeros(len(values), np.int64)
    for column in values.columns:
        encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + own, return_inverse=True)
    return codes
