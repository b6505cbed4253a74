"""Commit rows of a frame once, whole or not at all."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

import pyarrow as pa
import zarr

from frazil.conflicts import ConflictDetector
from frazil.errors import ConflictError, IcechunkError, InvalidInputError
from frazil.format.ids import ChunkId
from frazil.protocols.assets import Assets
from frazil.repository.locate import authorize
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.storage.constructors import storage_from_url
from frazil.tables.frame_arrays import (
    Facts,
    Target,
    clear,
    find_dims,
    find_target,
    make_room,
    measure,
    refuse_outside,
)
from frazil.tables.frame_cells import gather, locate_rows, write_cells
from frazil.tables.frame_values import WriteOptions, read_write_options
from frazil.tables.scan_plan import AnyRepository
from frazil.tables.table_options import NO_REPOSITORY, Options
from frazil.urls import Ref, parse_location

STREAMS = "_frazil/streams"
TOKEN = "frazil_commit_token"
STREAM = "frazil_stream"
_BATCH, _QUERY = "batch", "query"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream; a query has one of each number, which only rises."""

    query: str
    number: int


def find_last_batch(session: Session, query: str) -> int | None:
    """The last batch of a query that a session sees; None before the first."""
    node = session.state.view.find_node(f"/{_path(query)}")
    if node is None:
        return None
    group = zarr.open_group(session.store, path=_path(query), mode="r", zarr_format=3)
    number = group.attrs[_BATCH]
    if not isinstance(number, int):
        raise IcechunkError(f"/{_path(query)} has no number of a batch: somebody has changed it")
    return number


def note_batch(session: Session, batch: Batch) -> None:
    """Make a batch the last one of its query."""
    group = zarr.open_group(session.store, path=_path(batch.query), mode="a", zarr_format=3)
    group.attrs.update({_QUERY: batch.query, _BATCH: batch.number})


def describe(batch: Batch | None, token: str | None) -> dict[str, Any]:
    """What the metadata of a commit says."""
    told: dict[str, Any] = {}
    if token is not None:
        told[TOKEN] = token
    if batch is not None:
        told[STREAM] = {_QUERY: batch.query, _BATCH: batch.number}
    return told


def find_commit(repository: Repository, token: str, *, branch: str = "main") -> str | None:
    """The snapshot that was committed with a token; None if none was, or if it has expired."""
    for info in repository.ancestry(branch=branch):
        if info.metadata.get(TOKEN) == token:
            return info.id
    return None


def find_batch(repository: Repository, batch: Batch, *, branch: str = "main") -> str | None:
    """The snapshot of a batch; None if there is none, or if it has expired."""
    wanted = {_QUERY: batch.query, _BATCH: batch.number}
    for info in repository.ancestry(branch=branch):
        if info.metadata.get(STREAM) == wanted:
            return info.id
    return None


def _path(query: str) -> str:
    return f"{STREAMS}/{quote(query, safe='')}"


TRIES = 50
_PASSES = 100
Result = TypeVar("Result")


class Done(Exception):  # noqa: N818 (it is none)
    """What was to be written is there already."""

    def __init__(self, snapshot_id: str | None) -> None:
        super().__init__(snapshot_id)
        self.snapshot_id = snapshot_id


def open_attempt(repository: Repository, options: WriteOptions, batch: Batch | None) -> Session:
    """A session at the tip; raises Done if it has these rows."""
    session = repository.writable_session(options.branch)
    if batch is not None:
        last = find_last_batch(session, batch.query)
        if last is not None and batch.number <= last:
            raise Done(find_batch(repository, batch, branch=options.branch))
    if options.commit_token is not None:
        found = find_commit(repository, options.commit_token, branch=options.branch)
        if found is not None:
            raise Done(found)
    return session


def prepare(session: Session, options: WriteOptions, schema: pa.Schema, facts: Facts) -> Target:
    """Make room for rows, and empty what they replace."""
    target = make_room(session, options, schema, facts)
    if options.mode == "overwrite":
        clear(session, options, target)
    return target


def write_rows(session: Session, options: WriteOptions, target: Target, table: pa.Table) -> None:
    """Write all rows."""
    refuse_outside(options, target, table)
    places = locate_rows(target, table)
    for cells in gather(target, table, places, options.duplicates, list(target.variables)):
        write_cells(session, target, cells)


def finish(
    session: Session,
    options: WriteOptions,
    target: Target,
    batch: Batch | None,
    metadata: dict[str, Any] | None = None,
) -> str:
    """Commit; raises ConflictError where the coordinates or these cells have changed meanwhile."""
    if batch is not None:
        note_batch(session, batch)
    told = {**options.metadata, **(metadata or {}), **describe(batch, options.commit_token)}
    names = [*target.coordinates, *target.variables]
    for _ in range(_PASSES):
        try:
            return session.commit(options.message or _name(batch), told, allow_empty=True)
        except ConflictError as error:
            if error.kind != ConflictError.default_kind:
                raise
            session.rebase(ConflictDetector())
            _refuse_changed(session, options, target, names, error)
    raise ConflictError(message=f"others commit to {options.branch} faster than these rows can be")


def _refuse_changed(
    session: Session, options: WriteOptions, target: Target, names: Sequence[str], error: Exception
) -> None:
    now = find_target(session, options, [*names, *(d for d in target.dims if d not in names)])
    if not all(axis.is_same(now.axes[dim]) for dim, axis in target.axes.items()):
        raise ConflictError(message="the coordinates have changed meanwhile") from error


def retrying(attempt: Callable[[], Result]) -> Result:
    """What an attempt gives, made again where others were first."""
    for number in range(TRIES):
        try:
            return attempt()
        except ConflictError:
            if number == TRIES - 1:
                raise
    raise AssertionError


def commit_rows(
    repository: Repository,
    options: WriteOptions,
    table: pa.Table,
    batch: Batch | None = None,
) -> str | None:
    """Write rows as one commit; gives its snapshot, also if it was there already.

    None where there was nothing to write, or where the commit was there and has expired. Raises
    InvalidInputError for rows that can't be written, and then nothing is.
    """
    if not table.num_rows and options.mode == "append":
        return None

    def attempt() -> str:
        session = open_attempt(repository, options, batch)
        facts = measure(table, find_dims(session, options, table.column_names))
        target = prepare(session, options, table.schema, facts)
        write_rows(session, options, target, table)
        return finish(session, options, target, batch)

    try:
        return retrying(attempt)
    except Done as done:
        return done.snapshot_id


def _name(batch: Batch | None) -> str:
    return "write rows" if batch is None else f"batch {batch.number} of a stream"


@dataclass(frozen=True, slots=True)
class Destination:
    """A repository, and how rows are written to it; it is sent to tasks."""

    repository: Repository
    options: WriteOptions

    @property
    def assets(self) -> Assets:
        """The files of the repository."""
        return self.repository.readonly_session(self.options.branch).state.assets


def open_destination(options: Options, *, overwrite: bool) -> Destination:
    """What the options of a writer of the data source name."""
    if options.repo is None:
        raise InvalidInputError(NO_REPOSITORY)
    repository, ref = open_place(options.repo)
    if options.ref is not None and ref is not None:
        raise InvalidInputError(f"{options.repo} names a version, and so do the options")
    chosen = read_write_options(options, overwrite=overwrite, ref=ref)
    return Destination(authorize(repository, options.authorize), chosen)


def open_place(repo: AnyRepository) -> tuple[Repository, Ref | None]:
    """A repository, and the version that its URL names."""
    if isinstance(repo, Repository):
        return repo, None
    url = parse_location(repo)
    return Repository.open(storage_from_url(replace(url, ref=None))), url.ref


def check_columns(destination: Destination, schema: pa.Schema) -> None:
    """Raise InvalidInputError for columns that can't be written, before any row is looked at."""
    session = destination.repository.readonly_session(destination.options.branch)
    find_dims(session, destination.options, schema.names)


MOST_BYTES_IN_MESSAGE = 1 << 20
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class Spool:
    """The rows of a task."""

    rows: int
    data: bytes | None
    chunk: ChunkId | None = None
    length: int = 0


def spool(assets: Assets, batches: Iterable[pa.RecordBatch]) -> Spool:
    """Put rows aside."""
    kept = list(batches)
    rows = sum(batch.num_rows for batch in kept)
    if not rows:
        return Spool(0, None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, kept[0].schema, options=_OPTIONS) as writer:
        for batch in kept:
            writer.write_batch(batch)
    data = sink.getvalue().to_pybytes()
    if len(data) <= MOST_BYTES_IN_MESSAGE:
        return Spool(rows, data)
    chunk = assets.write_chunk(data)
    assets.storage.flush()
    return Spool(rows, None, chunk, len(data))


def unspool(assets: Assets, spools: Sequence[Spool], schema: pa.Schema) -> pa.Table:
    """All rows, in the order of the tasks; the schema is that of none."""
    tables = [_load(assets, each) for each in spools if each.rows]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _load(assets: Assets, each: Spool) -> pa.Table:
    data = each.data
    if data is None:
        assert each.chunk is not None
        data = bytes(assets.read_chunk(each.chunk, 0, each.length))
    return pa.ipc.open_stream(data).read_all()
