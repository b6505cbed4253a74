"""SQL statements other than queries: parse them, and rewrite those on cells as queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from frazil.arguments import refuse_unknown
from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.tables.sql_predicates import DIALECT, to_python

COMMANDS = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "CALL", "INSERT", "UPDATE", "DELETE", "MERGE")
STATEMENTS = "SELECT, WITH, SHOW TABLES, DESCRIBE, EXPLAIN, CALL, INSERT, UPDATE, DELETE or MERGE"
_NO_WORDS = (TokenType.STRING, TokenType.IDENTIFIER)
_OPENING, _CLOSING = ("(", "[", "{", "CASE"), (")", "]", "}", "END")
_PARAMETER = "frazil_argument_"


@dataclass(frozen=True, slots=True)
class ShowTables:
    """`SHOW TABLES [FROM folder] [LIKE 'pattern']`."""

    folder: str | None
    pattern: str | None


@dataclass(frozen=True, slots=True)
class Describe:
    """`DESCRIBE table`, or `SHOW COLUMNS IN table`."""

    name: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """`DESCRIBE HISTORY [array] [LIMIT number]`."""

    name: tuple[str, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """`EXPLAIN [mode] query`."""

    mode: str
    query: str


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """Expression in an argument of `CALL` that the engine evaluates."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """`CALL system.procedure(name => value, …)`."""

    procedure: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


Assignments = tuple[tuple[str, str], ...]
"""Columns and the expressions that are assigned to them."""


@dataclass(frozen=True, slots=True)
class Insert:
    """`INSERT INTO table [(columns)] query`."""

    table: str
    columns: tuple[str, ...] | None
    """Columns of the query, in order; None means those of the table."""
    by_name: bool
    query: str
    options: Mapping[str, str]

    @property
    def verb(self) -> str:
        """Return the verb of the statement."""
        return "INSERT"


@dataclass(frozen=True, slots=True)
class Update:
    """`UPDATE table SET … [WHERE …]`, or `DELETE FROM table [WHERE …]` without assignments."""

    table: str
    alias: str
    assignments: Assignments | None
    """None for a deletion: the cells become the fill value."""
    where: str | None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def verb(self) -> str:
        """Return the verb of the statement."""
        return "DELETE" if self.assignments is None else "UPDATE"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """`WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action`."""

    kind: Literal["matched", "not matched", "not matched by source"]
    condition: str
    action: Literal["update", "delete", "insert"]
    assignments: Assignments | None = None
    """None means all columns of the source."""


@dataclass(frozen=True, slots=True)
class Merge:
    """`MERGE INTO table USING source ON condition WHEN …`."""

    table: str
    alias: str
    source: str
    """Source, with its alias."""
    source_alias: str
    """Empty if it has none."""
    on: str
    clauses: tuple[MergeClause, ...]
    options: Mapping[str, str]

    @property
    def verb(self) -> str:
        """Return the verb of the statement."""
        return "MERGE"


Change = Insert | Update | Merge
"""Statement that changes cells, in one commit."""
Statement = ShowTables | Describe | DescribeHistory | Explain | Call | Change
CHANGE_OPTIONS = ("append_dim", "duplicates", "commit_token", "message")
"""Options of statements that change cells, written `WITH (name = 'value')` behind the table."""


def parse_statement(text: str, args: Mapping[str, Any] | None = None) -> Statement | None:
    """Parse a statement; None if it is not one of these, so that it may be a query.

    Parameters
    ----------
    text
        Statement in Spark's SQL dialect.
    args
        Values of its named parameters, which `CALL` takes.

    Raises
    ------
    InvalidInputError
        If the text starts as one of these statements and can't be parsed.
    """
    reader = _Reader.of(text)
    verb = reader.take_first()
    match verb:
        case "SHOW":
            return _parse_show(reader)
        case "DESCRIBE" | "DESC":
            return _parse_describe(reader)
        case "EXPLAIN":
            mode = reader.take_one_of("EXTENDED", "CODEGEN", "COST", "FORMATTED")
            if reader.word() in COMMANDS:
                raise InvalidInputError(
                    f"EXPLAIN takes a query, not {reader.word()}: explain the SELECT of its cells"
                )
            return Explain(mode, reader.rest("a query"))
        case "CALL":
            return _parse_call(reader, args or {})
        case "INSERT":
            return _parse_insert(reader)
        case "UPDATE":
            table, options, alias = _parse_target(reader)
            reader.expect("SET")
            assignments = _parse_assignments(reader, "WHERE")
            return Update(table, alias, assignments, _parse_where(reader), options)
        case "DELETE":
            reader.expect("FROM")
            table, options, alias = _parse_target(reader)
            return Update(table, alias, None, _parse_where(reader), options)
        case "MERGE":
            return _parse_merge(reader)
    return None


def _parse_show(reader: "_Reader") -> ShowTables | Describe:
    if reader.takes("COLUMNS"):
        reader.take_one_of("FROM", "IN")
        name = reader.name()
        reader.end()
        return Describe(name)
    if not reader.takes("TABLES"):
        raise InvalidInputError(
            f"unknown statement SHOW {reader.word()}: there are SHOW TABLES, SHOW COLUMNS IN table, "
            "DESCRIBE table and DESCRIBE HISTORY"
        )
    folder = pattern = None
    if reader.take_one_of("FROM", "IN"):
        folder = ".".join(reader.name())
    if reader.takes("LIKE") or reader.is_at(TokenType.STRING):
        pattern = reader.string()
    reader.end()
    return ShowTables(folder, pattern)


_NOT_DESCRIBED = (
    "CATALOG", "DATABASE", "DETAIL", "FUNCTION", "NAMESPACE", "QUERY", "SCHEMA", "SELECT", "WITH",
)  # fmt: skip


def _parse_describe(reader: "_Reader") -> Describe | DescribeHistory:
    if reader.takes("HISTORY"):
        array = () if reader.is_done or reader.word() == "LIMIT" else reader.name()
        is_limited = reader.takes("LIMIT") and reader.word().isdecimal()
        limit = int(reader.until()) if is_limited else None
        reader.end()
        return DescribeHistory(array, limit)
    reader.takes("TABLE")
    reader.take_one_of("EXTENDED", "FORMATTED")
    if reader.word() in _NOT_DESCRIBED and reader.word(1) not in ("", "."):
        raise InvalidInputError(
            f"unknown statement DESCRIBE {reader.word()}: there are DESCRIBE table and DESCRIBE HISTORY"
        )
    name = reader.name()
    reader.end()
    return Describe(name)


def _parse_call(reader: "_Reader", args: Mapping[str, Any]) -> Call:
    *folder, procedure = reader.name()
    if [each.lower() for each in folder] != ["system"]:
        raise InvalidInputError(
            f"unknown procedure {'.'.join((*folder, procedure))}: write CALL system.{procedure}(…)"
        )
    text = reader.rest("arguments in parentheses")
    try:
        tree: Any = sqlglot.parse_one(f"SELECT f{text}", dialect=DIALECT)
        (function,) = tree.expressions
    except (SqlglotError, ValueError) as error:
        raise InvalidInputError(
            f"can't parse the arguments {text}: write (name => value, …)"
        ) from error
    if not isinstance(function, exp.Anonymous):
        raise InvalidInputError(f"can't parse the arguments {text}: write (name => value, …)")
    positional, named = [], {}
    for each in function.expressions:
        if isinstance(each, exp.Kwarg):
            named[each.this.name] = read_argument(each.expression, args)
        elif named:
            raise InvalidInputError(f"the argument {each.sql(DIALECT)} has no name: name it")
        else:
            positional.append(read_argument(each, args))
    return Call(procedure, tuple(positional), named)


class _NotConstantError(Exception):
    """Raised for an expression that the engine evaluates."""


def read_argument(tree: Any, args: Mapping[str, Any]) -> Any:
    """Return the value of an argument, or the expression of it; raises InvalidInputError."""
    try:
        return _read_constant(tree, args)
    except _NotConstantError:
        return Unevaluated(tree.sql(DIALECT))


def _read_constant(tree: Any, args: Mapping[str, Any]) -> Any:
    match tree:
        case exp.Literal() if tree.is_string:
            return tree.this
        case exp.Literal():
            return int(tree.this) if tree.this.isdecimal() else float(tree.this)
        case exp.Boolean():
            return bool(tree.this)
        case exp.Null():
            return None
        case exp.Neg() | exp.Paren():
            inner = _read_constant(tree.this, args)
            return -inner if isinstance(tree, exp.Neg) else inner
        case exp.Array():
            return [_read_constant(each, args) for each in tree.expressions]
        case exp.VarMap():
            keys, values = (_read_constant(tree.args[each], args) for each in ("keys", "values"))
            return dict(zip(keys, values, strict=True))
        case exp.Interval() if tree.unit is not None:
            return _read_interval(tree.unit.name, _read_constant(tree.this, args))
        case exp.Placeholder() if tree.name in args:
            return args[tree.name]
    raise _NotConstantError


def _read_interval(name: str, count: Any) -> timedelta:
    unit = f"{name.lower().rstrip('s')}s"
    if unit not in ("weeks", "days", "hours", "minutes", "seconds"):
        raise InvalidInputError(f"invalid interval in {unit}: give weeks, days, hours or less")
    return timedelta(**{unit: float(count)})


# Statements that change cells


def _parse_target(reader: "_Reader") -> tuple[str, Mapping[str, str], str]:
    """Take the table that a statement changes, its options and its alias."""
    *folder, table = reader.name()
    if folder:
        raise InvalidInputError(
            f"can't change {'.'.join((*folder, table))}: name an array of the repository, or cells"
        )
    options: dict[str, str] = {}
    if reader.takes("WITH", "("):
        while not options or reader.takes(","):
            name = reader.string() if reader.is_at(TokenType.STRING) else reader.name()[-1]
            reader.expect("=")
            options[name.lower()] = reader.string()
        reader.expect(")")
        refuse_unknown(options, CHANGE_OPTIONS, "a statement that changes cells")
    is_aliased = reader.takes("AS")
    if is_aliased or not (reader.is_done or reader.word() in _BEHIND_TARGETS):
        return table, options, reader.name()[-1]
    return table, options, table


_BEHIND_TARGETS = ("SET", "WHERE", "USING", "SELECT", "VALUES", "WITH", "TABLE", "BY", "FROM", "(")


def _parse_where(reader: "_Reader") -> str | None:
    if reader.is_done:
        return None
    reader.expect("WHERE")
    return reader.rest("a condition")


def _parse_assignments(reader: "_Reader", *stops: str) -> Assignments:
    found: list[tuple[str, str]] = []
    while not found or reader.takes(","):
        column = reader.name()[-1]
        reader.expect("=")
        found.append((column, reader.until(",", *stops)))
    _refuse_twice([name for name, _ in found])
    return tuple(found)


def _refuse_twice(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    for name in lowered:
        if lowered.count(name) > 1:
            raise InvalidInputError(f"the column {name} is assigned twice: assign it once")


def _parse_insert(reader: "_Reader") -> Insert:
    if reader.takes("OVERWRITE"):
        raise InvalidInputError("there is no INSERT OVERWRITE: use INSERT INTO after a DELETE")
    reader.expect("INTO")
    reader.takes("TABLE")
    table, options, _ = _parse_target(reader)
    by_name = reader.takes("BY", "NAME")
    columns = None
    if (
        not by_name
        and reader.word() == "("
        and reader.word(1) not in ("SELECT", "WITH", "VALUES", "(")
    ):
        columns = tuple(reader.names())
        by_name = reader.takes("BY", "NAME")
    is_values = reader.word() == "VALUES"
    query = reader.rest("a query")
    return Insert(
        table, columns, by_name, f"SELECT * FROM {query}" if is_values else query, options
    )


def _parse_merge(reader: "_Reader") -> Merge:
    reader.expect("INTO")
    table, options, alias = _parse_target(reader)
    reader.expect("USING")
    first = reader.at
    source = reader.until("ON")
    source_alias = _find_alias(reader.tokens[first : reader.at])
    reader.expect("ON")
    on = reader.until("WHEN")
    clauses = []
    while reader.takes("WHEN"):
        clauses.append(_parse_clause(reader))
    reader.end()
    if not clauses:
        raise reader.unexpected("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, source_alias, on, tuple(clauses), options)


def _find_alias(tokens: Sequence[Token]) -> str:
    """Return the alias at the end of a table, which may name its columns; empty if there is none."""

    def is_name(token: Token) -> bool:
        is_word = token.token_type is not TokenType.STRING and token.text.isidentifier()
        return is_word or token.token_type is TokenType.IDENTIFIER

    if is_name(tokens[-1]):
        return tokens[-1].text
    opening = max((at for at, each in enumerate(tokens) if each.text == "("), default=0)
    names = tokens[opening + 1 : -1]
    is_list = all(is_name(e) if n % 2 == 0 else e.text == "," for n, e in enumerate(names))
    if opening < 2 or not is_list or not is_name(tokens[opening - 1]):
        return ""
    # Not the arguments of a function, as in `s JOIN f(a)`.
    before = tokens[opening - 2]
    return tokens[opening - 1].text if before.text.upper() == "AS" or before.text == ")" else ""


def _parse_clause(reader: "_Reader") -> MergeClause:
    kind: Literal["matched", "not matched", "not matched by source"] = "matched"
    if reader.takes("NOT"):
        kind = "not matched"
    reader.expect("MATCHED")
    if kind == "not matched" and not reader.takes("BY", "TARGET") and reader.takes("BY", "SOURCE"):
        kind = "not matched by source"
    condition = reader.until("THEN") if reader.takes("AND") else "TRUE"
    reader.expect("THEN")
    if kind == "not matched":
        reader.expect("INSERT")
        if reader.takes("*"):
            return MergeClause(kind, condition, "insert")
        columns = reader.names()
        reader.expect("VALUES", "(")
        values = [reader.until(",", ")")]
        while reader.takes(","):
            values.append(reader.until(",", ")"))
        reader.expect(")")
        if len(values) != len(columns):
            raise InvalidInputError(
                f"INSERT has {len(columns)} columns and {len(values)} values: give one for each"
            )
        return MergeClause(kind, condition, "insert", tuple(zip(columns, values, strict=True)))
    if reader.takes("DELETE"):
        return MergeClause(kind, condition, "delete")
    reader.expect("UPDATE", "SET")
    if reader.takes("*"):
        return MergeClause(kind, condition, "update")
    return MergeClause(kind, condition, "update", _parse_assignments(reader, "WHEN"))


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """Columns of the table that a statement changes."""

    dims: tuple[str, ...]
    others: tuple[str, ...]
    """Coordinates that are not dimensions, which select no cells."""
    variables: Mapping[str, str]
    """Arrays, with the types that the engine has for them."""

    def find_variable(self, name: str) -> str:
        """Return the array that an assignment names; raises InvalidInputError."""
        for each in self.variables:
            if each.lower() == name.lower():
                return each
        if name.lower() in [each.lower() for each in (*self.dims, *self.others)]:
            raise InvalidInputError(
                f"can't assign to {name}: it is a coordinate, which selects cells; assign to "
                f"{', '.join(self.variables)}"
            )
        raise InvalidInputError(f"unknown column {name!r}: {suggest(name, self.variables)}")

    def find_all(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that an insertion names; raises InvalidInputError."""
        known = {each.lower(): each for each in (*self.dims, *self.others, *self.variables)}
        for name in names:
            if name.lower() not in known:
                raise InvalidInputError(f"unknown column {name!r}: {suggest(name, known.values())}")
        _refuse_twice(names)
        return tuple(known[name.lower()] for name in names)


def quote(name: str) -> str:
    """Return an identifier in backticks."""
    return f"`{name.replace('`', '``')}`"


Selection = tuple[tuple[str, ...], str]
"""Columns, and the query of their values, which has other names: a scan reads all columns that a query
names."""


def select_changed(statement: Update, columns: TargetColumns) -> Selection:
    """Return the query of the cells that an update or a deletion sets, and their new values."""
    if statement.assignments is None:
        values = {name: f"CAST(NULL AS {type})" for name, type in columns.variables.items()}
    else:
        values = {columns.find_variable(name): text for name, text in statement.assignments}
    is_aliased = statement.alias != statement.table
    alias = f" AS {quote(statement.alias)}" if is_aliased else ""
    where = "" if statement.where is None else f" WHERE {statement.where}"
    listed = _list_values([*map(quote, columns.dims), *values.values()])
    text = f"SELECT {listed} FROM {quote(statement.table)}{alias}{where}"
    return (*columns.dims, *values), text


def select_merged(statement: Merge, columns: TargetColumns, within: str) -> list[Selection]:
    """Return the queries of the cells that a merge sets, all with the same columns.

    `within` is a predicate on coordinates of the target that all matched cells fulfil.
    """
    target, source = quote(statement.alias), quote(statement.source_alias)
    sets = {each: _find_values(each, columns, source) for each in statement.clauses}
    if any(each.action == "delete" for each in statement.clauses):
        # Only a deletion may set the fill value where an array can't store nulls.
        others = [each for each in statement.clauses if each.action != "delete"]
        sets |= {each: _refuse_nulls(sets[each], columns) for each in others}
    changed = [name for name in columns.variables if any(name in each for each in sets.values())]
    table, on = f"{quote(statement.table)} AS {target}", statement.on
    coordinates = ", ".join(map(quote, (*columns.dims, *columns.others)))
    cells = f"(SELECT {coordinates} FROM {table} WHERE {within}) AS {target}"
    found = []
    for kind, tables, more in (
        ("matched", f"{table} JOIN {statement.source} ON {on}", f" AND {within}"),
        ("not matched by source", f"{table} LEFT ANTI JOIN {statement.source} ON {on}", ""),
        ("not matched", f"{statement.source} LEFT ANTI JOIN {cells} ON {on}", ""),
    ):
        clauses = [each for each in statement.clauses if each.kind == kind]
        if not clauses:
            continue
        is_kept = kind != "not matched"
        dims = [
            f"{target}.{quote(dim)}" if is_kept else _choose(clauses, sets, dim)
            for dim in columns.dims
        ]
        values = [
            _choose(
                clauses,
                sets,
                name,
                f"{target}.{quote(name)}"
                if is_kept
                else f"CAST(NULL AS {columns.variables[name]})",
            )
            for name in changed
        ]
        where = " OR ".join(f"({each.condition})" for each in clauses)
        text = f"SELECT {_list_values([*dims, *values])} FROM {tables} WHERE ({where}){more}"
        found.append(((*columns.dims, *changed), text))
    return found


def _list_values(texts: Sequence[str]) -> str:
    return ", ".join(f"({text}) AS frazil_{number}" for number, text in enumerate(texts))


def _choose(
    clauses: Sequence[MergeClause],
    sets: Mapping[MergeClause, Mapping[str, str]],
    name: str,
    otherwise: str = "",
) -> str:
    """Return the expression of a column: that of the first clause whose condition is true."""
    cases = [f"WHEN {each.condition} THEN {sets[each].get(name) or otherwise}" for each in clauses]
    return f"CASE {' '.join(cases)} END"


def _find_values(clause: MergeClause, columns: TargetColumns, source: str) -> dict[str, str]:
    """Return the expressions that a clause of a merge assigns, by column."""
    if clause.action == "delete":
        return {name: f"CAST(NULL AS {type})" for name, type in columns.variables.items()}
    if clause.assignments is None and source == quote(""):
        raise InvalidInputError(
            f"{clause.action.upper()} * needs a name of the source: write USING … AS s"
        )
    if clause.action == "update":
        if clause.assignments is None:
            return {name: f"{source}.{quote(name)}" for name in columns.variables}
        return {columns.find_variable(name): f"({text})" for name, text in clause.assignments}
    if clause.assignments is None:
        given = {name: f"{source}.{quote(name)}" for name in (*columns.dims, *columns.variables)}
    else:
        names = columns.find_all([name for name, _ in clause.assignments])
        for each in set(names).intersection(columns.others):
            raise InvalidInputError(f"MERGE can't insert the coordinate {each}: use INSERT")
        texts = (f"({text})" for _, text in clause.assignments)
        given = dict(zip(names, texts, strict=True))
    absent = [dim for dim in columns.dims if dim not in given]
    if absent:
        raise InvalidInputError(f"INSERT has no column {', '.join(absent)}: it is a dimension")
    return given


_NULLABLE = ("float", "double", "timestamp", "interval", "struct")
"""Starts of the types that can store nulls."""


def _refuse_nulls(values: Mapping[str, str], columns: TargetColumns) -> dict[str, str]:
    """Return expressions that fail for nulls of arrays that can't store them."""
    error = "raise_error('the column {} has nulls, but the array has no `_FillValue`: fill them')"
    return {
        name: text
        if columns.variables.get(name, "double").startswith(_NULLABLE)
        else f"coalesce({text}, {error.format(name)})"
        for name, text in values.items()
    }


def find_keys(statement: Merge, columns: TargetColumns) -> dict[str, str]:
    """Return expressions of the source that the merge condition equates with dimensions."""
    reader = _Reader(statement.on, _tokenize(statement.on))
    found: dict[str, str] = {}
    while not reader.is_done:
        start = reader.at
        term = reader.until("AND", "OR")
        tokens = reader.tokens[start : reader.at]
        if reader.takes("OR"):
            return {}
        reader.takes("AND")
        sides = term.split("=")
        if [each.text for each in tokens].count("=") != 1 or len(sides) != 2:
            continue
        for own, other in (sides, sides[::-1]):
            dim = next((d for d in columns.dims if _names(own, statement.alias, d)), None)
            words = {each.text.lower() for each in _tokenize(other)}
            if dim is not None and statement.alias.lower() not in words:
                found[dim] = other.strip()
    return found


def _names(text: str, alias: str, column: str) -> bool:
    """Return True if a text is the name of a column, qualified by an alias."""
    parts = [each.text.lower() for each in _tokenize(text)]
    return parts == [alias.lower(), ".", column.lower()]


# Parameters of queries


def name_parameters(
    text: str, args: Mapping[str, Any] | Sequence[Any] | None
) -> tuple[str, dict[str, Any]]:
    """Return a text whose parameters all have names, and their values.

    A statement may be rewritten to a query in which positions differ.
    """
    if args is None:
        return text, {}
    if isinstance(args, Mapping):
        return text, {name: to_python(value) for name, value in args.items()}
    tokens = _Reader.of(text).tokens
    places = [each for each in tokens if each.token_type is TokenType.PLACEHOLDER]
    if len(places) != len(args):
        raise InvalidInputError(f"the query has {len(places)} parameters `?`, and args {len(args)}")
    for number, place in reversed(list(enumerate(places))):
        text = f"{text[: place.start]}:{_PARAMETER}{number}{text[place.end + 1 :]}"
    return text, {f"{_PARAMETER}{number}": to_python(each) for number, each in enumerate(args)}


# Tokens


def _tokenize(text: str) -> list[Token]:
    try:
        return list(sqlglot.tokenize(text, read=DIALECT))
    except SqlglotError as error:
        raise InvalidInputError(
            "can't parse this query: it has a quote or a comment without its end"
        ) from error


@dataclass(slots=True)
class _Reader:
    """Tokens of a statement, read one by one."""

    text: str
    tokens: list[Token]
    at: int = 0

    @classmethod
    def of(cls, text: str) -> "_Reader":
        """Return a reader of a text, without a semicolon at its end."""
        tokens = _tokenize(text)
        is_command = bool(tokens) and tokens[0].text.upper() in COMMANDS
        if is_command:
            # The parser keeps what follows some verbs as one text.
            end = tokens[0].end + 1
            tokens = [tokens[0], *_tokenize(" " * end + text[end:])]
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        if is_command and any(each.token_type is TokenType.SEMICOLON for each in tokens):
            raise InvalidInputError("can't run several statements: give one query at a time")
        return cls(text, tokens)

    @property
    def is_done(self) -> bool:
        """Return True if there are no more tokens."""
        return self.at >= len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """Return the next word in upper case; empty if there is none."""
        if self.at + ahead >= len(self.tokens):
            return ""
        token = self.tokens[self.at + ahead]
        return "" if token.token_type in _NO_WORDS else token.text.upper()

    def is_at(self, kind: TokenType) -> bool:
        """Return True if the next token is of a kind."""
        return not self.is_done and self.tokens[self.at].token_type is kind

    def take_first(self) -> str:
        """Take the first word."""
        verb = self.word()
        self.at = 1
        return verb

    def takes(self, *words: str) -> bool:
        """Take some words if they come next."""
        if any(self.word(ahead) != word for ahead, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def take_one_of(self, *words: str) -> str:
        """Take one of some words; empty if none comes next."""
        return next((word for word in words if self.takes(word)), "")

    def expect(self, *words: str) -> None:
        """Take some words; raises InvalidInputError if they don't come next."""
        if not self.takes(*words):
            raise self.unexpected(" ".join(words))

    def name(self) -> tuple[str, ...]:
        """Take a name with qualifiers before dots."""
        found = [self._identifier()]
        while self.takes("."):
            found.append(self._identifier())
        return tuple(found)

    def _identifier(self) -> str:
        token = None if self.is_done else self.tokens[self.at]
        is_word = token is not None and (
            token.token_type is TokenType.IDENTIFIER
            or (token.token_type is not TokenType.STRING and token.text.isidentifier())
        )
        if token is None or not is_word:
            raise self.unexpected("a name")
        self.at += 1
        return token.text

    def string(self) -> str:
        """Take a text in quotes."""
        if not self.is_at(TokenType.STRING):
            raise self.unexpected("a text in quotes")
        self.at += 1
        return self.tokens[self.at - 1].text

    def names(self) -> list[str]:
        """Take names in parentheses."""
        self.expect("(")
        found = [self.name()[-1]]
        while self.takes(","):
            found.append(self.name()[-1])
        self.expect(")")
        return found

    def until(self, *stops: str) -> str:
        """Take an expression up to one of some words outside of parentheses and `CASE`."""
        first, depth = self.at, 0
        while not self.is_done:
            word = self.word()
            if not depth and word in stops:
                break
            depth += (word in _OPENING) - (word in _CLOSING)
            self.at += 1
        if self.at == first:
            raise self.unexpected("an expression")
        return self.text[self.tokens[first].start : self.tokens[self.at - 1].end + 1]

    def rest(self, what: str) -> str:
        """Take all that remains as text."""
        if self.is_done:
            raise self.unexpected(what)
        start, end = self.tokens[self.at].start, self.tokens[-1].end
        self.at = len(self.tokens)
        return self.text[start : end + 1]

    def end(self) -> None:
        """Raise InvalidInputError if something remains."""
        if not self.is_done:
            raise self.unexpected("the end")

    def unexpected(self, what: str) -> InvalidInputError:
        """Return the error for a token that is not the expected one."""
        if self.is_done:
            return InvalidInputError(f"can't parse this query: expected {what} at its end")
        near = self.tokens[self.at].text
        return InvalidInputError(f"can't parse this query: expected {what} near {near!r}")
