"""Which chunks of an array there are, how they are kept and how large they are, as a small grid."""

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.format.references import ChunkKind
from frazil.overview.arrays import MOST_MANIFESTS
from frazil.overview.nodes import normalize
from frazil.session import Session

MOST_CELLS = 64
"""Along each axis of the picture; larger grids are binned."""
_KINDS = tuple(ChunkKind)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkMap:
    """A grid of two axes; axes of the array before the last two lie below each other in the first."""

    room: NDArray[Any]
    """How many chunks of the array's grid each cell stands for: integers of any size."""
    counts: dict[str, NDArray[np.int64]]
    """How many of them have a reference, by kind."""
    size_bytes: NDArray[np.int64]
    """Of all of them together."""


def map_chunks(session: Session, path: str, most_cells: int = MOST_CELLS) -> ChunkMap:
    """The references of an array on a small grid; raises NodeNotFoundError, InvalidInputError."""
    node, array = session.state.view.get_array(normalize(path))
    grid = [each.num_chunks for each in array.shape]
    rows, columns = _fold(grid)
    height, width = min(rows, most_cells), min(columns, most_cells)
    counts = {kind.name.lower(): np.zeros(height * width, np.int64) for kind in _KINDS}
    size = np.zeros(height * width, np.int64)
    for table in islice(session.state.view.tables(node), MOST_MANIFESTS):
        cell = _cell_of(table.coordinates.astype(np.int64), grid, height, width)
        for kind in _KINDS:
            chosen = cell[table.kind == kind]
            counts[kind.name.lower()] += np.bincount(chosen, minlength=len(size))
        size += np.bincount(cell, weights=table.length, minlength=len(size)).astype(np.int64)
    room = np.outer(_widths(rows, height), _widths(columns, width))
    shaped = {name: each.reshape(height, width) for name, each in counts.items()}
    return ChunkMap(room, shaped, size.reshape(height, width))


def _fold(grid: list[int]) -> tuple[int, int]:
    if not grid:
        return 1, 1
    rows = 1
    for extent in grid[:-1]:
        rows *= extent
    return rows, grid[-1]


def _cell_of(
    coordinates: NDArray[np.int64], grid: list[int], height: int, width: int
) -> NDArray[np.int64]:
    rows, columns = _fold(grid)
    # Past what int64 holds, rows are bins of fractions: a picture needs no more.
    is_exact = rows * height < 1 << 63
    row = np.zeros(len(coordinates), np.int64 if is_exact else np.float64)
    for axis, extent in enumerate(grid[:-1]):
        row = row * extent + coordinates[:, axis]
    column = coordinates[:, -1] if grid else np.zeros(len(coordinates), np.int64)
    at = np.minimum(row * height // max(1, rows), height - 1).astype(np.int64)
    return at * width + column * width // max(1, columns)


def _widths(count: int, cells: int) -> NDArray[Any]:
    """How many of so many each cell stands for; Python's integers, of which any number can be."""
    edges = [-(-number * count // cells) for number in range(cells + 1)]
    return np.array([end - start for start, end in pairwise(edges)], dtype=object)
