"""The same in tasks: rows are brought together by chunk, and each chunk is written by one task."""

from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.engine.changes import ChangeSet
from frazil.frames.grids import Grid, common_cuts, whole_offsets
from frazil.frames.writing.cells import Cells, Places, gather, locate_rows, write_cells
from frazil.frames.writing.options import WriteOptions
from frazil.frames.writing.replacing import refuse_outside
from frazil.frames.writing.targets import Target
from frazil.session import ForkSession


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """Which task gets which cells."""

    target: Target
    grid: Grid
    """Boxes of whole chunks of all arrays that have all dimensions."""
    tasks: int

    def assign(self, table: pa.Table) -> NDArray[np.int32]:
        """The task of each row; raises InvalidInputError for coordinates that are not there."""
        places = locate_rows(self.target, table)
        number = np.zeros(table.num_rows, np.int64)
        for dim, offsets, count in zip(
            self.grid.dims, self.grid.offsets, self.grid.shape, strict=True
        ):
            number = number * count + np.searchsorted(offsets, places[dim], "right") - 1
        # Neighbours go to one task.
        return (number * self.tasks // max(prod(self.grid.shape), 1)).astype(np.int32)


def share(target: Target, most_tasks: int) -> Sharing:
    """A plan by which no two tasks have cells of one chunk of an array that has all dimensions."""
    grids = [grid for name, grid in target.grids.items() if target.is_whole(name)]
    offsets = [
        common_cuts(grids, dim) if grids else whole_offsets(axis.size)
        for dim, axis in target.axes.items()
    ]
    grid = Grid(target.dims, tuple(offsets))
    return Sharing(target, grid, max(min(most_tasks, prod(grid.shape)), 1))


@dataclass(frozen=True, slots=True)
class Part:
    """What a task has written, and cells of arrays that other tasks have cells of, too."""

    changes: ChangeSet
    cells: tuple[Cells, ...]
    rows: int


def write_part(
    fork: ForkSession, options: WriteOptions, target: Target, table: pa.Table
) -> tuple[Cells, ...]:
    """Write the rows of a task; gives the cells of arrays that lack some dimensions."""
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
    """Rows as they were before they were brought together, without the column that tells it."""
    return table.sort_by(column).drop_columns([column])
