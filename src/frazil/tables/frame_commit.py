"""Commit the rows of a frame atomically and at most once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from frazil.tables.table_options import NO_REPOSITORY, Options
from frazil.tables.table_source import open_repository

STREAMS = "_frazil/streams"
TOKEN = "frazil_commit_token"
STREAM = "frazil_stream"
_BATCH, _QUERY = "batch", "query"


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch of a stream. Batch numbers of a query only increase."""

    query: str
    number: int


def find_last_batch(session: Session, query: str) -> int | None:
    """Return the last batch of a query in a session; None before the first."""
    node = session.state.view.find_node(f"/{_path(query)}")
    if node is None:
        return None
    group = zarr.open_group(session.store, path=_path(query), mode="r", zarr_format=3)
    number = group.attrs[_BATCH]
    if not isinstance(number, int):
        raise IcechunkError(f"/{_path(query)} has no number of a batch: somebody has changed it")
    return number


def note_batch(session: Session, batch: Batch) -> None:
    """Record a batch as the last one of its query."""
    group = zarr.open_group(session.store, path=_path(batch.query), mode="a", zarr_format=3)
    group.attrs.update({_QUERY: batch.query, _BATCH: batch.number})


def describe(batch: Batch | None, token: str | None) -> dict[str, Any]:
    """Return the commit metadata that identifies a batch and a token."""
    told: dict[str, Any] = {}
    if token is not None:
        told[TOKEN] = token
    if batch is not None:
        told[STREAM] = {_QUERY: batch.query, _BATCH: batch.number}
    return told


def find_commit(repository: Repository, token: str, *, branch: str = "main") -> str | None:
    """Return the snapshot committed with a token; None if there is none or it has expired."""
    for info in repository.ancestry(branch=branch):
        if info.metadata.get(TOKEN) == token:
            return info.id
    return None


def find_batch(repository: Repository, batch: Batch, *, branch: str = "main") -> str | None:
    """Return the snapshot of a batch; None if there is none or it has expired."""
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


class Done(Exception):  # noqa: N818 (not an error)
    """Signal that the rows were committed before."""

    def __init__(self, snapshot_id: str | None) -> None:
        super().__init__(snapshot_id)
        self.snapshot_id = snapshot_id


def open_attempt(repository: Repository, options: WriteOptions, batch: Batch | None) -> Session:
    """Open a session at the branch tip; raises Done if it already has these rows."""
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
    """Create or resize the arrays for some rows, and clear the cells they replace."""
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
    """Commit, rebasing if needed; raises ConflictError if coordinates or these cells changed."""
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
    """Call a function, again after each ConflictError, up to `TRIES` times."""
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
    """Write rows as one commit.

    Parameters
    ----------
    repository
        Repository to write to.
    options
        Branch, group, mode and other write options.
    table
        Rows to write.
    batch
        Batch of a stream that the rows belong to. A batch is committed at most once.

    Returns
    -------
    str or None
        Id of the snapshot, also if the rows were committed before. None if there was nothing to write,
        or if the earlier commit has expired.

    Raises
    ------
    InvalidInputError
        If the rows can't be written; then nothing is.
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
    """Repository and write options; sent to tasks."""

    repository: Repository
    options: WriteOptions

    @property
    def assets(self) -> Assets:
        """Return the assets of the repository."""
        return self.repository.readonly_session(self.options.branch).state.assets


def open_destination(options: Options, *, overwrite: bool) -> Destination:
    """Open the destination named by the options of a data source writer."""
    if options.repo is None:
        raise InvalidInputError(NO_REPOSITORY)
    repository, ref = open_repository(options.repo)
    if options.ref is not None and ref is not None:
        raise InvalidInputError(f"{options.repo} names a version, and so do the options")
    chosen = read_write_options(options, overwrite=overwrite, ref=ref)
    return Destination(authorize(repository, options.authorize), chosen)


def check_columns(destination: Destination, schema: pa.Schema) -> None:
    """Raise InvalidInputError for columns that can't be written, before any row is read."""
    session = destination.repository.readonly_session(destination.options.branch)
    find_dims(session, destination.options, schema.names)


MOST_BYTES_IN_MESSAGE = 1 << 20
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class Spool:
    """Rows of a task, in the message or as a chunk in storage."""

    rows: int
    data: bytes | None
    chunk: ChunkId | None = None
    length: int = 0


def spool(assets: Assets, batches: Iterable[pa.RecordBatch]) -> Spool:
    """Serialize rows; large ones are stored as a chunk."""
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
    """Return all rows in the order of the tasks; `schema` is used if there are none."""
    tables = [_load(assets, each) for each in spools if each.rows]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _load(assets: Assets, each: Spool) -> pa.Table:
    data = each.data
    if data is None:
        assert each.chunk is not None
        data = bytes(assets.read_chunk(each.chunk, 0, each.length))
    return pa.ipc.open_stream(data).read_all()
