"""Tables of a repository: open them by name at one version, and tables of rows in memory."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.protocols.protocol import MAIN
from frazil.repository.locate import read_version
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.storage.constructors import storage_from_url
from frazil.tables.columns import GroupArrays, unknown_column
from frazil.tables.table_options import NO_REPOSITORY, Options
from frazil.urls import BranchRef, Location, NamedRef, Ref, SnapshotRef, TagRef, parse_location

AnyRepository = Repository | Location
"""Repository, or its location."""


class Table(Protocol):
    """Table of one version of a repository.

    A table and its partitions are pickled and sent to tasks. Its contents don't change: it is pinned to
    the version it was opened at.
    """

    @property
    def schema(self) -> pa.Schema:
        """Return the columns, of types that Spark supports: see `frazil.tables.columns`."""

    def partitions(self) -> Sequence[Any]:
        """Return the partitions, one per task; empty for a table without rows."""

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, in batches of exactly the schema."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Repository and a read-only session at the selected version.

    The options name that version even if it came from the URL.
    """

    repository: Repository
    options: Options
    arrays: GroupArrays
    """Arrays of the selected group, shared by all tables that are opened from this source."""

    @classmethod
    def of(cls, repository: Repository, session: Session, options: Options) -> "Source":
        """Return the source of a session; nothing is read."""
        return cls(repository, options, GroupArrays(session, options.group))

    @property
    def session(self) -> Session:
        """Return the session, which is pinned to one snapshot."""
        return self.arrays.session

    def with_options(self, **changes: Any) -> "Source":
        """Return the same version with other options, but the same group."""
        return replace(self, options=replace(self.options, **changes))


def open_source(options: Options, repository: AnyRepository | None = None) -> Source:
    """Open the repository that the options name, or the given one, at the version they name."""
    location: Any = options.repo if repository is None else repository
    if location is None:
        raise InvalidInputError(NO_REPOSITORY)
    opened, named = open_repository(location)
    if options.ref is not None and named is not None:
        raise InvalidInputError(
            f"{location} names a version, and so do the options: name it in one of them"
        )
    ref = options.ref or named
    authorized = opened.authorize(options.authorize)
    return Source.of(authorized, read_version(authorized, ref), replace(options, ref=ref))


def open_repository(repo: AnyRepository) -> tuple[Repository, Ref | None]:
    """Return a repository and the version that its URL names."""
    if isinstance(repo, Repository):
        return repo, None
    url = parse_location(repo)
    return Repository.open(storage_from_url(replace(url, ref=None))), url.ref


def find_branch(source: Source, purpose: str) -> str:
    """Return the branch that is read; raises InvalidInputError with the purpose for other versions."""
    match source.options.ref:
        case None:
            return MAIN
        case BranchRef(name, None):
            return name
        case NamedRef(name) if name in source.repository.list_branches():
            return name
        case BranchRef(name, moment):
            given = f"{name} at {moment} is a version of the past"
        case SnapshotRef(name) | TagRef(name) | NamedRef(name):
            given = f"{name} is a tag or a snapshot"
    raise InvalidInputError(f"{purpose} needs a branch, and {given}")


def select_columns(options: Options, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to read: those selected, then those that the engine's text names.

    Raises
    ------
    InvalidInputError
        If a selected column is not one of `names`.
    """
    if options.columns is None:
        return tuple(names)
    for name in options.columns:
        if name not in names:
            raise unknown_column(name, names)
    if options.engine_text is None:
        return options.columns
    text = options.engine_text.lower()
    words = set(re.findall(r"\w+", text))
    named = [
        name
        for name in names
        if name not in options.columns
        if name.lower() in words or (not name.isidentifier() and name.lower() in text)
    ]
    # A table needs at least one column, even if only rows are counted.
    return (*options.columns, *named) or tuple(names[:1])


CELLS = "cells"
ABOUT_REPOSITORY: Mapping[str, str] = {
    "arrays": "metadata_tables",
    "changes": "change_feed",
    "chunks": "chunk_tables",
    "history": "metadata_tables",
    "ledger": "metadata_tables",
    "manifests": "chunk_tables",
    "nodes": "metadata_tables",
    "ops_log": "metadata_tables",
    "refs": "metadata_tables",
    "snapshots": "metadata_tables",
    "statistics": "metadata_tables",
    "storage": "metadata_tables",
    "virtual_sources": "chunk_tables",
}
"""Module of each table, with its function `open_…`. It is imported when the table is opened, because
Spark starts a process for each step of query planning.
"""
TABLES = frozenset((CELLS, *ABOUT_REPOSITORY))


def open_table(source: Source) -> Table:
    """Open the table that the options of a source name; raises InvalidInputError."""
    name = source.options.table
    if name not in TABLES:
        raise InvalidInputError(f"unknown table {name!r}: {suggest(name, sorted(TABLES))}")
    open_it: Callable[[Source], Table]
    if name in ABOUT_REPOSITORY:
        open_it = getattr(_load_table(ABOUT_REPOSITORY[name]), f"open_{name}")
    else:
        open_it = getattr(_load_table("scan_plan"), f"open_{source.options.layout}")
    return open_it(source)


def _load_table(module: str) -> Any:
    return import_module(f"frazil.tables.{module}")


_READ_AHEAD = 4
Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(items: Iterable[Item], read: Callable[[Item], Result]) -> Iterator[Result]:
    """Yield the result of `read` for each item in order, reading some items ahead."""
    with ThreadPoolExecutor(_READ_AHEAD) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(read, item))
            if len(waiting) >= _READ_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


_ROWS_OF_A_PARTITION = 1 << 20


class RowTable:
    """Table of rows in memory; implements `Table`."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows.combine_chunks()

    @property
    def schema(self) -> pa.Schema:
        """Return the columns."""
        return self._rows.schema

    def partitions(self) -> Sequence[int]:
        """Return the first row of each partition, mostly one."""
        return range(0, len(self._rows), _ROWS_OF_A_PARTITION)

    def weigh(self, partitions: Sequence[int]) -> tuple[int, int]:
        """Return that no bytes are read, and the number of rows."""
        del partitions
        return 0, len(self._rows)

    def read(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        yield from self._rows.slice(partition, _ROWS_OF_A_PARTITION).to_batches()


def make_rows(options: Options, schema: pa.Schema, columns: Mapping[str, Any]) -> RowTable:
    """Make a table of columns given as lists or arrays, keeping those the options select."""
    selected = select_fields(options, schema)
    arrays = [_to_column(columns[field.name], field.type) for field in selected]
    return RowTable(pa.table(arrays, schema=selected))


def select_fields(options: Options, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a metadata table to read; raises InvalidInputError for predicates."""
    if options.where is not None and not options.engine_filters:
        raise InvalidInputError(
            f"the table {options.table} takes no option `where`: filter the DataFrame, as in "
            '`.load().where("…")`'
        )
    return pa.schema([schema.field(name) for name in select_columns(options, schema.names)])


def list_of(type: pa.DataType) -> pa.DataType:
    """Return a list type with Spark's field name."""
    return pa.list_(pa.field("element", type))


def _to_column(values: Any, type: pa.DataType) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    return pa.array(values, type)
