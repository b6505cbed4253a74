"""SQL statements other than queries: parse them, and rewrite those on cells as queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import isfinite
from typing import Any

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from frazil.errors import InvalidInputError
from frazil.tables.sql_predicates import DIALECT

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
    """`DESCRIBE table`."""

    name: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """`DESCRIBE HISTORY [array]`."""

    name: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explain:
    """`EXPLAIN [mode] query`."""

    mode: str
    query: str


@dataclass(frozen=True, slots=True)
class Call:
    """`CALL system.procedure(name => value, …)`."""

    procedure: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


Statement = ShowTables | Describe | DescribeHistory | Explain | Call


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
            return Explain(mode, reader.rest("a query"))
        case "CALL":
            return _parse_call(reader, args or {})
    return None


def _parse_show(reader: "_Reader") -> ShowTables:
    reader.expect("TABLES")
    folder = pattern = None
    if reader.take_one_of("FROM", "IN"):
        folder = ".".join(reader.name())
    if reader.takes("LIKE") or reader.is_at(TokenType.STRING):
        pattern = reader.string()
    reader.end()
    return ShowTables(folder, pattern)


def _parse_describe(reader: "_Reader") -> Describe | DescribeHistory:
    if reader.takes("HISTORY"):
        array = () if reader.is_done else reader.name()
        reader.end()
        return DescribeHistory(array)
    reader.takes("TABLE")
    reader.take_one_of("EXTENDED", "FORMATTED")
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
            named[each.this.name] = read_value(each.expression, args)
        elif named:
            raise InvalidInputError(f"the argument {each.sql(DIALECT)} has no name: name it")
        else:
            positional.append(read_value(each, args))
    return Call(procedure, tuple(positional), named)


def read_value(tree: Any, args: Mapping[str, Any]) -> Any:
    """Return the value of a constant expression; times stay texts. Raises InvalidInputError."""
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
            inner = read_value(tree.this, args)
            return -inner if isinstance(tree, exp.Neg) else inner
        case exp.Array():
            return [read_value(each, args) for each in tree.expressions]
        case exp.VarMap():
            keys, values = (read_value(tree.args[each], args) for each in ("keys", "values"))
            return dict(zip(keys, values, strict=True))
        case exp.Cast(this=exp.Literal()):
            return read_value(tree.this, args)
        case exp.Interval() if tree.unit is not None:
            return _read_interval(tree.unit.name, read_value(tree.this, args))
        case exp.Placeholder() if tree.name in args:
            return args[tree.name]
    raise InvalidInputError(
        f"{tree.sql(DIALECT)} is not a constant: give a text, a number, true, false, null, an "
        "interval, array(…) or map(…)"
    )


def _read_interval(name: str, count: Any) -> timedelta:
    unit = f"{name.lower().rstrip('s')}s"
    if unit not in ("weeks", "days", "hours", "minutes", "seconds"):
        raise InvalidInputError(f"invalid interval in {unit}: give weeks, days, hours or less")
    return timedelta(**{unit: float(count)})


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
        return text, dict(args)
    tokens = _Reader.of(text).tokens
    places = [each for each in tokens if each.token_type is TokenType.PLACEHOLDER]
    if len(places) != len(args):
        raise InvalidInputError(f"the query has {len(places)} parameters `?`, and args {len(args)}")
    for number, place in reversed(list(enumerate(places))):
        text = f"{text[: place.start]}:{_PARAMETER}{number}{text[place.end + 1 :]}"
    return text, {f"{_PARAMETER}{number}": value for number, value in enumerate(args)}


def insert_values(tree: Any, args: Mapping[str, Any]) -> Any:
    """Return an expression with values in place of parameters where SQL has a constant for them."""
    if not args:
        return tree

    def insert(node: Any) -> Any:
        if isinstance(node, exp.Placeholder) and node.name in args:
            return _make_constant(args[node.name]) or node
        return node

    return tree.transform(insert)


def _make_constant(value: Any) -> Any:
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() if abs(value) < 1 << 63:
            number = exp.Literal.number(abs(value))
            return exp.Neg(this=number) if value < 0 else number
        case float() if isfinite(value):
            number = exp.Literal.number(repr(abs(value)))
            double = exp.Cast(this=number, to=exp.DataType.build("double"))
            return exp.Neg(this=double) if value < 0 else double
        case str():
            return exp.Literal.string(value)
        case datetime():
            # Spark's Python API takes a time without a zone as local time.
            text = value.astimezone().isoformat(" ", "microseconds")
            return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("timestamptz"))
        case date():
            text = value.isoformat()
            return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("date"))
    return None


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
