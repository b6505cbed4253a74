"""What is known of leaves of a condition for whole chunks of an array, brought to other grids: pure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.frames.conditions import UNKNOWN, Truth
from frazil.frames.grids import Grid, Offsets


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTruth:
    """What a leaf can be in each chunk of an array."""

    grid: Grid
    """Of the array, with its dimensions."""
    can_be_true: NDArray[np.bool_]
    can_be_false: NDArray[np.bool_]

    def over(self, grid: Grid) -> Truth:
        """What it can be in each chunk of another grid, which has these dimensions and maybe more."""
        return Truth(self._regrid(self.can_be_true, grid), self._regrid(self.can_be_false, grid))

    def inside(self, bounds: dict[str, slice], dims: tuple[str, ...]) -> Truth:
        """What it can be in each cell of a region, with an axis for each of the dimensions."""
        ranges = [
            (
                int(np.searchsorted(each, bounds[dim].start, "right")) - 1,
                int(np.searchsorted(each, bounds[dim].stop, "left")),
            )
            for dim, each in zip(self.grid.dims, self.grid.offsets, strict=True)
        ]
        index = tuple(slice(*each) for each in ranges)
        parts = self.can_be_true[index], self.can_be_false[index]
        if all(part.all() for part in parts):
            return UNKNOWN
        for axis, dim in enumerate(self.grid.dims):
            lengths = _lengths(self.grid.offsets[axis], ranges[axis], bounds[dim])
            parts = np.repeat(parts[0], lengths, axis), np.repeat(parts[1], lengths, axis)
        return Truth(*(_align(part, self.grid.dims, dims) for part in parts))

    def _regrid(self, flags: NDArray[np.bool_], grid: Grid) -> NDArray[np.bool_]:
        """Where any chunk is so that shares a cell with the other one."""
        found = flags
        for axis, (dim, own) in enumerate(zip(self.grid.dims, self.grid.offsets, strict=True)):
            other = grid.offsets[grid.dims.index(dim)]
            if not np.array_equal(own, other):
                found = _any_between(found, axis, own, other)
        return _align(found, self.grid.dims, grid.dims)


def _any_between(
    flags: NDArray[np.bool_], axis: int, own: Offsets, other: Offsets
) -> NDArray[np.bool_]:
    firsts = np.searchsorted(own, other[:-1], "right") - 1
    ends = np.searchsorted(own, other[1:], "left")
    zero = np.zeros_like(flags.take([0], axis), np.int64)
    sums = np.concatenate([zero, flags.cumsum(axis)], axis)
    found: NDArray[np.bool_] = sums.take(ends, axis) > sums.take(firsts, axis)
    return found


def _lengths(offsets: Offsets, chunks: tuple[int, int], part: slice) -> NDArray[np.int64]:
    """How many cells each of some chunks has in a part of the dimension."""
    cuts = offsets[chunks[0] : chunks[1] + 1].clip(part.start, part.stop)
    return np.diff(cuts)


def _align(flags: Any, own: tuple[str, ...], dims: tuple[str, ...]) -> NDArray[np.bool_]:
    order = [own.index(dim) for dim in dims if dim in own]
    shape = [flags.shape[own.index(dim)] if dim in own else 1 for dim in dims]
    found: NDArray[np.bool_] = flags.transpose(order).reshape(shape)
    return found
