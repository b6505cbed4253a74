"""Rows as cells of arrays: locate them, resolve duplicates, write one chunk at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.repository.changes import ChangeSet
from frazil.repository.session import ForkSession, Session
from frazil.tables.columns import Grid, Region, common_cuts, whole_offsets
from frazil.tables.frame_arrays import Target, check_coordinates, open_array, refuse_outside
from frazil.tables.frame_values import Duplicates, Stored, WriteOptions, cast_column, encode, show

_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
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
) -> list[Cells]:
    """Return the cells that rows set; raises InvalidInputError for values that can't be stored.

    An array that lacks some dimensions has one value for many rows, which must agree.
    """
    found = []
    for name in names:
        stored = target.variables[name]
        column = cast_column(name, table[name], stored.type)
        numbers = _number(stored, places)
        if target.is_whole(name):
            cells = _reduce(target, name, numbers, column, duplicates)
        else:
            cells = agree(target, Cells(name, numbers, encode(stored, column)))
        found.append(cells)
    return found


def _number(stored: Stored, places: Places) -> NDArray[np.int64]:
    count = len(next(iter(places.values())))
    numbers = np.zeros(count, np.int64)
    for dim, size in zip(stored.dims, stored.shape, strict=True):
        numbers = numbers * size + places[dim]
    return numbers


def _reduce(
    target: Target, name: str, numbers: NDArray[np.int64], column: pa.Array, duplicates: Duplicates
) -> Cells:
    stored = target.variables[name]
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    if is_first.all():
        return Cells(name, ordered, encode(stored, column.take(pa.array(order))))
    if duplicates == "error":
        raise _repeated(target, name, np.unique(ordered[~is_first]))
    starts = np.flatnonzero(is_first)
    if duplicates == "first":
        kept = column.take(pa.array(order[starts]))
    elif duplicates == "last":
        kept = column.take(pa.array(order[np.append(starts[1:], len(order)) - 1]))
    else:
        kept = _aggregate(name, numbers, column, duplicates)
    return Cells(name, ordered[starts], encode(stored, kept))


def _aggregate(
    name: str, numbers: NDArray[np.int64], column: pa.Array, how: Duplicates
) -> pa.Array:
    table = pa.table({"cell": numbers, "value": column})
    try:
        reduced = table.group_by("cell").aggregate([("value", how)]).sort_by("cell")
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(f"duplicates={how} can't be done with the column {name}") from error
    value = reduced[f"value_{how}"]
    if how == "mean" and not pa.types.is_floating(column.type):
        value = _round_mean(name, value, column.type)
    return cast_column(name, value, column.type)


def _round_mean(name: str, value: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_integer(type):
        raise InvalidInputError(f"duplicates=mean can't be done with the column {name}")
    return pc.round(value)


def agree(target: Target, cells: Cells) -> Cells:
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
        place = _tell(target, stored, numbers[np.flatnonzero(differs)[:1]])
        raise InvalidInputError(
            f"rows have several values of {cells.name} at {place}, which has one for all of them"
        )
    return Cells(cells.name, numbers[is_first], raw[is_first])


def join_cells(target: Target, parts: Sequence[Cells]) -> Cells:
    """Merge the cells of one array from several tasks; raises InvalidInputError if they differ."""
    numbers = np.concatenate([part.numbers for part in parts])
    return agree(target, Cells(parts[0].name, numbers, np.concatenate([p.raw for p in parts])))


def _repeated(target: Target, name: str, numbers: NDArray[np.int64]) -> InvalidInputError:
    told = _tell(target, target.variables[name], numbers[:_SHOWN])
    more = f" and {len(numbers) - _SHOWN} more cells" if len(numbers) > _SHOWN else ""
    return InvalidInputError(
        f"there are several rows for {told}{more}: choose one with the option duplicates, which is "
        "first, last, sum, mean, min or max"
    )


def _tell(target: Target, stored: Stored, numbers: NDArray[np.int64]) -> str:
    """Describe cells by their coordinates."""
    told = []
    for place in zip(*np.unravel_index(numbers, stored.shape), strict=True):
        parts = []
        for dim, index in zip(stored.dims, place, strict=True):
            values = target.axes[dim].values
            parts.append(
                f"{dim}={index if values is None else show(values[int(index) : int(index) + 1])}"
            )
        told.append(", ".join(parts))
    return "; ".join(told)


# Writing


def write_cells(session: Session, target: Target, cells: Cells) -> None:
    """Write cells of an array, one chunk at a time, keeping the other cells of each chunk."""
    if not len(cells.numbers):
        return
    stored, grid = target.variables[cells.name], target.grids[cells.name]
    array = open_array(session, target.group, cells.name)
    if not stored.shape:
        array[()] = cells.raw[0]
        return
    for region, places, rows in split_by_chunk(stored, grid, cells.numbers):
        shape = tuple(each.stop - each.start for each in region)
        if len(rows) == prod(shape):
            block = np.empty(shape, stored.raw)
        else:
            block = np.array(array[region]).reshape(shape)
        block[places] = cells.raw[rows]
        array[region] = block


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
class Sharing:
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


def share(target: Target, most_tasks: int) -> Sharing:
    """Plan tasks so that no two write the same chunk of an array that has all dimensions."""
    grids = [grid for name, grid in target.grids.items() if target.is_whole(name)]
    offsets = [
        common_cuts(grids, dim) if grids else whole_offsets(axis.size)
        for dim, axis in target.axes.items()
    ]
    grid = Grid(target.dims, tuple(offsets))
    return Sharing(target, grid, max(min(most_tasks, prod(grid.shape)), 1))


@dataclass(frozen=True, slots=True)
class Part:
    """Changes written by a task, and cells of arrays that other tasks may set, too."""

    changes: ChangeSet
    cells: tuple[Cells, ...]
    rows: int


def write_part(
    fork: ForkSession, options: WriteOptions, target: Target, table: pa.Table
) -> tuple[Cells, ...]:
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
) -> Cells:
    (cells,) = gather(target, table, places, options.duplicates, [name])
    return cells


def order_rows(table: pa.Table, column: str) -> pa.Table:
    """Sort rows by a column and drop it, to restore their order from before the shuffle."""
    return table.sort_by(column).drop_columns([column])
