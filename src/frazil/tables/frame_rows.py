"""Rows of a frame: locate their cells, write them chunk by chunk, and commit them at most once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zarr
from numpy.typing import NDArray

from frazil.errors import ConflictError, IcechunkError, InvalidInputError
from frazil.format.ids import ChunkId
from frazil.protocols.assets import Assets
from frazil.repository.changes import ChangeSet
from frazil.repository.conflicts import ConflictDetector
from frazil.repository.repository import Repository
from frazil.repository.session import ForkSession, Session
from frazil.tables.columns import Grid, Region, common_cuts, whole_offsets
from frazil.tables.frame_arrays import (
    Facts,
    Target,
    check_coordinates,
    clear,
    find_dims,
    find_target,
    make_room,
    measure,
    open_array,
    refuse_outside,
)
from frazil.tables.table_options import (
    NO_REPOSITORY,
    Duplicates,
    Options,
    WriteOptions,
    read_write_options,
)
from frazil.tables.table_source import open_repository
from frazil.tables.xarray_values import Stored, cast_column, encode, show

_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class StoredCells:
    """Values of some cells of an array, as stored."""

    name: str
    numbers: NDArray[np.int64]
    """Flat indices of the cells in C order, distinct and increasing."""
    raw: NDArray[Any]


Places = Mapping[str, NDArray[np.int64]]
"""Positions of rows along each dimension."""


def locate_rows(target: Target, table: pa.Table) -> Places:
    """Return the positions of rows; raises InvalidInputError for unknown coordinates."""
    return {
        dim: axis.locate(check_coordinates(dim, table[dim], axis.type))
        for dim, axis in target.axes.items()
    }


def gather(
    target: Target, table: pa.Table, places: Places, duplicates: Duplicates, names: Sequence[str]
) -> list[StoredCells]:
    """Return the cells that rows set; raises InvalidInputError for values that can't be stored.

    An array that lacks some dimensions has one value for many rows, which must agree.
    """
    found = []
    for name in names:
        stored = target.variables[name]
        column = cast_column(name, table[name], stored.type)
        numbers = _number(stored, places, table.num_rows)
        if target.is_whole(name):
            cells = _reduce(target, name, numbers, column, duplicates)
        else:
            cells = agree(target, StoredCells(name, numbers, encode(stored, column)))
        found.append(cells)
    return found


def _number(stored: Stored, places: Places, count: int) -> NDArray[np.int64]:
    numbers = np.zeros(count, np.int64)
    for dim, size in zip(stored.dims, stored.shape, strict=True):
        numbers = numbers * size + places[dim]
    return numbers


def _reduce(
    target: Target, name: str, numbers: NDArray[np.int64], column: pa.Array, duplicates: Duplicates
) -> StoredCells:
    stored = target.variables[name]
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    if is_first.all():
        return StoredCells(name, ordered, encode(stored, column.take(pa.array(order))))
    if duplicates == "error":
        raise _repeated(target, name, np.unique(ordered[~is_first]))
    starts = np.flatnonzero(is_first)
    if duplicates == "first":
        kept = column.take(pa.array(order[starts]))
    elif duplicates == "last":
        kept = column.take(pa.array(order[np.append(starts[1:], len(order)) - 1]))
    else:
        kept = _aggregate(name, numbers, column, duplicates)
    return StoredCells(name, ordered[starts], encode(stored, kept))


def _aggregate(
    name: str, numbers: NDArray[np.int64], column: pa.Array, how: Duplicates
) -> pa.Array:
    table = pa.table({"cell": numbers, "value": column})
    try:
        reduced = table.group_by("cell").aggregate([("value", how)]).sort_by("cell")
    except pa.ArrowNotImplementedError as error:
        raise _no_aggregate(name, how) from error
    value = reduced[f"value_{how}"]
    if how == "mean" and not pa.types.is_floating(column.type):
        value = _round_mean(name, value, column.type)
    return cast_column(name, value, column.type)


def _round_mean(name: str, value: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_integer(type):
        raise _no_aggregate(name, "mean")
    return pc.round(value)


def _no_aggregate(name: str, how: Duplicates) -> InvalidInputError:
    return InvalidInputError(
        f"the column {name} has no {how}: use another policy for duplicates, such as last"
    )


def agree(target: Target, cells: StoredCells) -> StoredCells:
    """Deduplicate cells; raises InvalidInputError if the values of one cell differ."""
    order = np.argsort(cells.numbers, kind="stable")
    numbers, raw = cells.numbers[order], cells.raw[order]
    is_first = np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]
    group = np.cumsum(is_first) - 1
    first = raw[is_first][group] if len(raw) else raw
    differs = first != raw
    if raw.dtype.kind == "f":
        differs &= ~(np.isnan(first) & np.isnan(raw))
    if np.any(differs):
        stored = target.variables[cells.name]
        place = _describe_cells(target, stored, numbers[np.flatnonzero(differs)[:1]])
        raise InvalidInputError(
            f"rows have different values of {cells.name} at {place}, which stores one "
            "value for all of them"
        )
    return StoredCells(cells.name, numbers[is_first], raw[is_first])


def join_cells(target: Target, parts: Sequence[StoredCells]) -> StoredCells:
    """Merge the cells of one array from several tasks; raises InvalidInputError if they differ."""
    numbers = np.concatenate([part.numbers for part in parts])
    return agree(
        target, StoredCells(parts[0].name, numbers, np.concatenate([p.raw for p in parts]))
    )


def _repeated(target: Target, name: str, numbers: NDArray[np.int64]) -> InvalidInputError:
    shown = _describe_cells(target, target.variables[name], numbers[:_SHOWN])
    more = f" and {len(numbers) - _SHOWN} more cells" if len(numbers) > _SHOWN else ""
    return InvalidInputError(
        f"several rows for {shown}{more}: set the option duplicates to first, last, "
        "sum, mean, min or max"
    )


def _describe_cells(target: Target, stored: Stored, numbers: NDArray[np.int64]) -> str:
    """Describe cells by their coordinates."""
    described = []
    for place in zip(*np.unravel_index(numbers, stored.shape), strict=True):
        parts = []
        for dim, index in zip(stored.dims, place, strict=True):
            values = target.axes[dim].values
            parts.append(
                f"{dim}={index if values is None else show(values[int(index) : int(index) + 1])}"
            )
        described.append(", ".join(parts))
    return "; ".join(described)


# Writing


def write_cells(session: Session, target: Target, cells: StoredCells) -> None:
    """Write cells of an array, one chunk at a time, keeping the other cells of each chunk."""
    if not len(cells.numbers):
        return
    stored, grid = target.variables[cells.name], target.grids[cells.name]
    array = open_array(session, target.group, cells.name)
    if not stored.shape:
        _refuse_other(stored, np.asarray(array[()]).reshape(1), cells.raw)
        array[()] = cells.raw[0]
        return
    for region, places, rows in split_by_chunk(stored, grid, cells.numbers):
        shape = tuple(each.stop - each.start for each in region)
        if len(rows) == prod(shape) and not stored.is_kept:
            block = np.empty(shape, stored.raw)
        else:
            block = np.array(array[region]).reshape(shape)
            _refuse_other(stored, block[places], cells.raw[rows])
        block[places] = cells.raw[rows]
        array[region] = block


def _refuse_other(stored: Stored, old: NDArray[Any], new: NDArray[Any]) -> None:
    """Raise InvalidInputError if rows change values of an array that keeps them."""
    if not stored.is_kept:
        return
    differs = (old != new) & (old != stored.fill_value)
    if old.dtype.kind in "fc":
        differs &= ~np.isnan(old)
    if differs.any():
        (first,) = np.flatnonzero(differs)[:1]
        raise InvalidInputError(
            f"can't change the coordinate {stored.name} from {old[first]} to {new[first]}: leave the "
            f"column out, or name {stored.name} as the table"
        )


def split_by_chunk(
    stored: Stored, grid: Grid, numbers: NDArray[np.int64]
) -> Iterator[tuple[Region, tuple[NDArray[np.int64], ...], NDArray[np.int64]]]:
    """Yield per chunk its region, the positions of cells in it, and their indices."""
    places = np.unravel_index(numbers, stored.shape)
    in_chunk = [
        np.searchsorted(offsets, place, "right") - 1
        for offsets, place in zip(grid.offsets, places, strict=True)
    ]
    chunks = np.ravel_multi_index(in_chunk, grid.shape)
    order = np.argsort(chunks, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(chunks[order]) != 0))
    for rows in np.split(order, starts[1:]):
        chunk = [int(each[rows[0]]) for each in in_chunk]
        region = tuple(
            slice(int(offsets[number]), int(offsets[number + 1]))
            for offsets, number in zip(grid.offsets, chunk, strict=True)
        )
        own = tuple(place[rows] - each.start for place, each in zip(places, region, strict=True))
        yield region, own, rows


@dataclass(frozen=True, slots=True, eq=False)
class TaskAssignment:
    """Assignment of cells to tasks."""

    target: Target
    grid: Grid
    """Boxes of whole chunks of all arrays that have all dimensions."""
    tasks: int

    def assign(self, table: pa.Table) -> NDArray[np.int32]:
        """Return the task of each row; raises InvalidInputError for unknown coordinates."""
        places = locate_rows(self.target, table)
        number = np.zeros(table.num_rows, np.int64)
        for dim, offsets, count in zip(
            self.grid.dims, self.grid.offsets, self.grid.shape, strict=True
        ):
            number = number * count + np.searchsorted(offsets, places[dim], "right") - 1
        # Neighbouring boxes go to the same task.
        return (number * self.tasks // max(prod(self.grid.shape), 1)).astype(np.int32)


def assign_tasks(target: Target, most_tasks: int) -> TaskAssignment:
    """Plan tasks so that no two write the same chunk of an array that has all dimensions."""
    grids = [grid for name, grid in target.grids.items() if target.is_whole(name)]
    offsets = [
        common_cuts(grids, dim) if grids else whole_offsets(axis.size)
        for dim, axis in target.axes.items()
    ]
    grid = Grid(target.dims, tuple(offsets))
    return TaskAssignment(target, grid, max(min(most_tasks, prod(grid.shape)), 1))


@dataclass(frozen=True, slots=True)
class Part:
    """Changes written by a task, and cells of arrays that other tasks may set, too."""

    changes: ChangeSet
    cells: tuple[StoredCells, ...]
    rows: int


def write_part(
    fork: ForkSession, options: WriteOptions, target: Target, table: pa.Table
) -> tuple[StoredCells, ...]:
    """Write the rows of a task; return the cells of arrays that lack some dimensions."""
    refuse_outside(options, target, table)
    places = locate_rows(target, table)
    whole = [name for name in target.variables if target.is_whole(name)]
    for name in whole:
        write_cells(fork, target, _one(target, table, places, options, name))
    others = [name for name in target.variables if name not in whole]
    return tuple(gather(target, table, places, options.duplicates, others))


def _one(
    target: Target, table: pa.Table, places: Places, options: WriteOptions, name: str
) -> StoredCells:
    (cells,) = gather(target, table, places, options.duplicates, [name])
    return cells


def order_rows(table: pa.Table, column: str) -> pa.Table:
    """Sort rows by a column and drop it, to restore their order from before the shuffle."""
    return table.sort_by(column).drop_columns([column])


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
        raise IcechunkError(
            f"the attribute {_BATCH!r} of /{_path(query)} is {number!r}, not a batch number: restore it"
        )
    return number


def note_batch(session: Session, batch: Batch) -> None:
    """Record a batch as the last one of its query."""
    group = zarr.open_group(session.store, path=_path(batch.query), mode="a", zarr_format=3)
    group.attrs.update({_QUERY: batch.query, _BATCH: batch.number})


def describe(batch: Batch | None, token: str | None) -> dict[str, Any]:
    """Return the commit metadata that identifies a batch and a token."""
    found: dict[str, Any] = {}
    if token is not None:
        found[TOKEN] = token
    if batch is not None:
        found[STREAM] = {_QUERY: batch.query, _BATCH: batch.number}
    return found


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
    if options.fills_nulls:
        filled = {n: replace(each, fills_nulls=True) for n, each in target.variables.items()}
        target = replace(target, variables=filled)
    kept = {n: replace(e, is_kept=n in options.kept) for n, e in target.variables.items()}
    target = replace(target, variables=kept)
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
    described = {**options.metadata, **(metadata or {}), **describe(batch, options.commit_token)}
    names = [*target.coordinates, *target.variables]
    for _ in range(_PASSES):
        try:
            return session.commit(options.message or _name(batch), described, allow_empty=True)
        except ConflictError as error:
            if error.kind != ConflictError.default_kind:
                raise
            session.rebase(ConflictDetector())
            _refuse_changed(session, options, target, names, error)
    raise ConflictError(
        message=f"gave up after {_PASSES} concurrent commits to {options.branch}: write again later"
    )


def _refuse_changed(
    session: Session, options: WriteOptions, target: Target, names: Sequence[str], error: Exception
) -> None:
    now = find_target(session, options, [*names, *(d for d in target.dims if d not in names)])
    if not all(axis.is_same(now.axes[dim]) for dim, axis in target.axes.items()):
        raise ConflictError(
            message="a concurrent commit changed the coordinates of the arrays"
        ) from error


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
        raise InvalidInputError(
            f"{options.repo} names a version, and so do the options: name it in one of them"
        )
    write_options = read_write_options(options, overwrite=overwrite, ref=ref)
    return Destination(repository.authorize(options.authorize), write_options)


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
