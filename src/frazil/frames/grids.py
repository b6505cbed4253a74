"""Grids of chunks, and boxes of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]
"""Where chunks begin along a dimension, and where the last one ends."""
Region = tuple[slice, ...]
Boxes = NDArray[np.int64]
"""Boxes of chunks: a row each, with the first and the end along each dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Dimensions that are cut into chunks."""

    dims: tuple[str, ...]
    offsets: tuple[Offsets, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many chunks there are along each dimension."""
        return tuple(len(each) - 1 for each in self.offsets)

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many elements there are along each dimension."""
        return {dim: int(each[-1]) for dim, each in zip(self.dims, self.offsets, strict=True)}

    def cut_like(self, other: "Grid") -> "Grid":
        """The same dimensions with the cuts of another grid; uncut where it has no such dimension."""
        cuts = dict(zip(other.dims, other.offsets, strict=True))
        whole = (cuts.get(dim, whole_offsets(size)) for dim, size in self.sizes.items())
        return Grid(self.dims, tuple(whole))

    def refine(self, others: Sequence["Grid"]) -> "Grid":
        """The same dimensions with its own cuts and those of all others."""
        cuts = [
            [grid.offsets[grid.dims.index(dim)] for grid in others if dim in grid.dims]
            for dim in self.dims
        ]
        joined = [
            reduce(np.union1d, more, own) for own, more in zip(self.offsets, cuts, strict=True)
        ]
        return Grid(self.dims, tuple(joined))

    def region(self, box: NDArray[np.int64]) -> Region:
        """The elements of a box of chunks."""
        return tuple(
            slice(int(each[first]), int(each[end]))
            for each, (first, end) in zip(self.offsets, box, strict=True)
        )

    def largest_chunk(self) -> int:
        """How many elements the largest chunk has."""
        return prod(int(np.diff(each).max(initial=0)) for each in self.offsets)


def regular_offsets(size: int, length: int) -> Offsets:
    """The cuts of chunks of one length; the last one may be shorter."""
    starts = np.arange(0, size, max(length, 1), dtype=np.int64)
    return np.append(starts, size) if size else np.zeros(1, np.int64)


def whole_offsets(size: int) -> Offsets:
    """No cut."""
    return regular_offsets(size, size)


def common_cuts(grids: Sequence[Grid], dim: str) -> Offsets:
    """The cuts along a dimension that all grids have that have the dimension."""
    cuts = [grid.offsets[grid.dims.index(dim)] for grid in grids if dim in grid.dims]
    found: Offsets = reduce(np.intersect1d, cuts)
    return found


def join_boxes(chunks: NDArray[np.int64]) -> Boxes:
    """As few boxes as are easily found that have exactly these chunks, given by their coordinates."""
    boxes = np.stack([chunks, chunks + 1], axis=2)
    for axis in reversed(range(chunks.shape[1])):
        boxes = _join_along(boxes, axis)
    return boxes


def _join_along(boxes: Boxes, axis: int) -> Boxes:
    """Neighbours along an axis become one if they agree in all others."""
    others = np.delete(boxes, axis, axis=1).reshape(len(boxes), -1)
    keys = [boxes[:, axis, 0], *others.T[::-1]]
    order = np.lexsort(keys)
    boxes, others = boxes[order], others[order]
    follows = (others[1:] == others[:-1]).all(axis=1) & (boxes[1:, axis, 0] == boxes[:-1, axis, 1])
    starts = np.flatnonzero(np.append(True, ~follows))
    joined = boxes[starts].copy()
    joined[:, axis, 1] = boxes[np.append(starts[1:], len(boxes)) - 1, axis, 1]
    return joined


def split_box(box: NDArray[np.int64], limit: int) -> Iterator[NDArray[np.int64]]:
    """A box in parts of at most so many chunks, in the order of C."""
    shape = tuple(int(end - first) for first, end in box)
    for region in split_shape(shape, limit):
        part = box.copy()
        for axis, each in enumerate(region):
            part[axis] = box[axis, 0] + each.start, box[axis, 0] + each.stop
        yield part


def split_shape(shape: tuple[int, ...], limit: int) -> Iterator[Region]:
    """Regions of at most so many elements that follow each other in the order of C."""
    if 0 in shape:
        return
    axis, inner = len(shape), 1
    while axis > 0 and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield tuple(slice(0, size) for size in shape)
        return
    step = max(limit // inner, 1)
    rest = tuple(slice(0, size) for size in shape[axis:])
    for outer in np.ndindex(*shape[: axis - 1]):
        for start in range(0, shape[axis - 1], step):
            along = slice(start, min(start + step, shape[axis - 1]))
            yield (*(slice(i, i + 1) for i in outer), along, *rest)


def chunks_in(offsets: Offsets, part: slice) -> Iterator[slice]:
    """The part of a dimension, cut where chunks are."""
    first = int(np.searchsorted(offsets, part.start, "right")) - 1
    for number in range(first, len(offsets) - 1):
        start, end = int(offsets[number]), int(offsets[number + 1])
        if start >= part.stop:
            return
        yield slice(max(start, part.start), min(end, part.stop))


def select(values: Any, dims: Sequence[str], region: Mapping[str, slice]) -> Any:
    """The part of something with these dimensions that is in a region."""
    return values[tuple(region[dim] for dim in dims)]
