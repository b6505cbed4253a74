"""Chunk coordinates in bulk: uint32 matrices with a row per chunk and a column per axis.

All functions are set operations on whole columns. Rows compare lexicographically, which is the
order of references in a manifest.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Coordinates = NDArray[np.uint32]
Rows = NDArray[np.intp]
Keys = NDArray[Any]
"""Integers, or bytes if the grid has too many cells for integers."""

Extents = tuple[tuple[int, int], ...]
"""Box of chunk coordinates: `(start, stop)` for each axis, `stop` exclusive. Empty: everything."""

_COMPARED_AT_ONCE = 1 << 15
"""Rows compared together, limited by the size of a processor cache."""


def order_keys(*blocks: Coordinates) -> list[Keys]:
    """Return one sortable key per row for each block, comparable across blocks."""
    axes = blocks[0].shape[1]
    largest = [
        int(max(b[:, axis].max() for b in blocks if len(b))) if any(map(len, blocks)) else 0
        for axis in range(axes)
    ]
    cells = 1
    for value in largest:
        cells *= value + 1
    if cells <= 2**64:
        return [_linear_keys(block, largest) for block in blocks]
    return [_byte_keys(block) for block in blocks]


def _linear_keys(block: Coordinates, largest: Sequence[int]) -> NDArray[np.uint64]:
    keys = np.zeros(len(block), np.uint64)
    for axis, value in enumerate(largest):
        keys *= np.uint64(value + 1)
        keys += block[:, axis]
    return keys


def _byte_keys(block: Coordinates) -> NDArray[np.bytes_]:
    big_endian = np.ascontiguousarray(block.astype(">u4"))
    return big_endian.view(f"S{4 * block.shape[1]}").ravel()


def is_strictly_sorted(coordinates: Coordinates) -> bool:
    """Return whether rows are strictly ascending, and therefore distinct."""
    if len(coordinates) < 2:
        return True
    if coordinates.shape[1] == 0:
        return False
    starts = range(0, len(coordinates) - 1, _COMPARED_AT_ONCE)
    return all(_ascends(coordinates[start : start + _COMPARED_AT_ONCE + 1]) for start in starts)


def _ascends(coordinates: Coordinates) -> bool:
    (keys,) = order_keys(coordinates)
    return bool(np.all(keys[1:] > keys[:-1]))


def sort_order(coordinates: Coordinates) -> Rows:
    """Return the row indexes in lexicographic order, stable for equal rows."""
    (keys,) = order_keys(coordinates)
    return np.argsort(keys, kind="stable")


def locate(sorted_coordinates: Coordinates, wanted: Coordinates) -> Rows:
    """Return the row of each wanted coordinate, or -1."""
    if len(sorted_coordinates) == 0 or len(wanted) == 0:
        return np.full(len(wanted), -1, np.intp)
    keys, wanted_keys = order_keys(sorted_coordinates, wanted)
    rows = np.searchsorted(keys, wanted_keys)
    np.minimum(rows, len(keys) - 1, out=rows)
    rows[keys[rows] != wanted_keys] = -1
    return rows


_FEW_ROWS = 16
"""Number of rows up to which they are compared one by one."""


def find_row(sorted_coordinates: Coordinates, wanted: Sequence[int]) -> int | None:
    """Return the row of one coordinate, or None, by binary search on each axis."""
    low, high = 0, len(sorted_coordinates)
    if high <= _FEW_ROWS:
        rows, place = sorted_coordinates.tolist(), [*wanted]
        return rows.index(place) if place in rows else None
    for axis, value in enumerate(wanted):
        if not 0 <= value < 2**32:
            return None
        column = sorted_coordinates[low:high, axis]
        key = np.uint32(value)
        low, high = (
            low + int(np.searchsorted(column, key)),
            low + int(np.searchsorted(column, key, side="right")),
        )
    return low if low < high else None


def contains(extents: Extents, wanted: Sequence[int]) -> bool:
    """Return whether a box contains a coordinate."""
    return all(start <= value < stop for value, (start, stop) in zip(wanted, extents, strict=False))


def meet(one: Extents, other: Extents) -> bool:
    """Return True if two boxes overlap."""
    return all(
        start < other_stop and other_start < stop
        for (start, stop), (other_start, other_stop) in zip(one, other, strict=True)
    )


def is_inside(box: Extents, region: Extents) -> bool:
    """Return True if a box lies in a region; a box without axes means everything."""
    return len(box) == len(region) and all(
        low <= start and stop <= high
        for (start, stop), (low, high) in zip(box, region, strict=True)
    )


def rows_inside(coordinates: Coordinates, extents: Extents) -> NDArray[np.bool_]:
    """Return a mask of the rows inside a box."""
    inside = np.ones(len(coordinates), np.bool_)
    for axis, (start, stop) in enumerate(extents):
        column = coordinates[:, axis]
        inside &= (column >= start) & (column < stop)
    return inside


def unite(blocks: Sequence[Coordinates]) -> Coordinates:
    """Return the sorted, distinct rows of all blocks; there must be at least one block."""
    filled = [block for block in blocks if len(block)] or blocks[:1]
    rows = filled[0] if len(filled) == 1 else np.concatenate(filled)
    if is_strictly_sorted(rows):
        return rows
    ordered = rows[sort_order(rows)]
    keep = np.ones(len(ordered), np.bool_)
    keep[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    return ordered[keep]


def without(coordinates: Coordinates, unwanted: Coordinates) -> Coordinates:
    """Return sorted rows without the unwanted ones."""
    if not len(coordinates) or not len(unwanted):
        return coordinates
    rows = locate(coordinates, unwanted)
    keep = np.ones(len(coordinates), np.bool_)
    keep[rows[rows >= 0]] = False
    return coordinates[keep]


def split_rows(
    coordinates: Coordinates, edges: Sequence[Sequence[int]]
) -> dict[tuple[int, ...], Rows | slice]:
    """Return the rows of each non-empty split region between edges (for each axis `0, s, 2s, …`).

    Contiguous rows are a slice, which can be taken without a copy.
    """
    if not len(coordinates):
        return {}
    if all(len(axis_edges) == 2 for axis_edges in edges):
        return {(0,) * len(edges): slice(None)}
    regions = np.zeros(coordinates.shape, np.uint32)
    for axis, axis_edges in enumerate(edges):
        if len(axis_edges) > 2:
            inner = np.asarray(axis_edges[1:-1], np.uint64)
            regions[:, axis] = np.searchsorted(inner, coordinates[:, axis], side="right")
    (keys,) = order_keys(regions)
    pieces: Sequence[Rows | slice]
    if np.all(keys[1:] >= keys[:-1]):
        starts = (np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()
        pieces = [slice(*ends) for ends in pairwise([0, *starts, len(keys)])]
        firsts = [0, *starts]
    else:
        order = np.argsort(keys, kind="stable")
        _, cuts = np.unique(keys[order], return_index=True)
        pieces = np.split(order, cuts[1:])
        firsts = [int(piece[0]) for piece in pieces]
    return {
        tuple(regions[first].tolist()): piece for first, piece in zip(firsts, pieces, strict=True)
    }


def count_places(box: Extents) -> int:
    """Return the number of coordinates in a box."""
    count = 1
    for start, stop in box:
        count *= stop - start
    return count


def grid_of(box: Extents) -> Coordinates:
    """Return all coordinates of a box, in order."""
    places = np.empty((*(stop - start for start, stop in box), len(box)), np.uint32)
    for axis, index in enumerate(np.indices(places.shape[:-1], sparse=True)):
        places[..., axis] = index + box[axis][0]
    return places.reshape(count_places(box), len(box))


def bounding_box(coordinates: NDArray[np.integer[Any]]) -> Extents:
    """Return the smallest box that contains all rows; there must be at least one."""
    # Column by column: numpy takes sixty times as long for all columns at once.
    columns = [coordinates[:, axis] for axis in range(coordinates.shape[1])]
    return tuple((int(column.min()), int(column.max()) + 1) for column in columns)
