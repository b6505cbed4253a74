"""Prune chunks that have no rows for which a predicate can be true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.tables.columns import Grid, Offsets, Values
from frazil.tables.predicates import (
    UNKNOWN,
    Condition,
    Leaf,
    Truth,
    evaluate,
    leaves_of,
    truth_of_values,
)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTruth:
    """Possible results of a leaf in each chunk of an array."""

    grid: Grid
    """Grid of the array, with its dimensions."""
    can_be_true: NDArray[np.bool_]
    can_be_false: NDArray[np.bool_]

    def over(self, grid: Grid) -> Truth:
        """Return the possible results in each chunk of another grid with at least these dimensions."""
        return Truth(self._regrid(self.can_be_true, grid), self._regrid(self.can_be_false, grid))

    def inside(self, bounds: dict[str, slice], dims: tuple[str, ...]) -> Truth:
        """Return the possible results in each cell of a region, with one axis per dimension."""
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
        """Return True for each chunk of a grid that overlaps a flagged chunk."""
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
    """Return the number of cells of each chunk within a part of the dimension."""
    cuts = offsets[chunks[0] : chunks[1] + 1].clip(part.start, part.stop)
    return np.diff(cuts)


def _align(flags: Any, own: tuple[str, ...], dims: tuple[str, ...]) -> NDArray[np.bool_]:
    order = [own.index(dim) for dim in dims if dim in own]
    shape = [flags.shape[own.index(dim)] if dim in own else 1 for dim in dims]
    found: NDArray[np.bool_] = flags.transpose(order).reshape(shape)
    return found


_MOST_COMBINATIONS = 1 << 22
_MOST_ALIKE = 256
_FALSE, _TRUE, _NULL = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Values of a column along some dimensions."""

    dims: tuple[str, ...]
    values: Values


def prune_chunks(
    condition: Condition,
    axes: Mapping[str, Axis],
    grid: Grid,
    truths: Mapping[Leaf, ChunkTruth] | None = None,
) -> NDArray[np.bool_]:
    """Return a mask of the chunks that may have rows for which a condition is true.

    `axes` are the columns with known values; `truths` is the truth of leaves on other columns.
    """
    if 0 in grid.shape:
        return np.zeros(grid.shape, np.bool_)
    known = {leaf: axes[leaf.column] for leaf in leaves_of(condition) if leaf.column in axes}
    others = {leaf: each for leaf, each in (truths or {}).items() if leaf not in known}
    fine = grid.refine([each.grid for each in others.values()])
    if prod(fine.shape) > _MOST_COMBINATIONS:
        fine = grid
    found = _find_in(
        condition, known, {leaf: each.over(fine) for leaf, each in others.items()}, fine
    )
    return _coarsen(found, fine, grid)


def _find_in(
    condition: Condition, known: Mapping[Leaf, Axis], others: Mapping[Leaf, Truth], grid: Grid
) -> NDArray[np.bool_]:
    truths = {leaf: truth_of_values(leaf, axis.values) for leaf, axis in known.items()}
    alike = _find_alike(others, grid)
    kinds = _find_all_kinds(known, truths, grid)
    if kinds is not None and len(alike.truths) <= _MOST_ALIKE:
        found = np.zeros(grid.shape, np.bool_)
        for number, same in enumerate(alike.truths):
            found |= _combine(condition, kinds, {**truths, **same}, grid) & (alike.of == number)
        return found
    wholes = {leaf: _truth_of_chunks(truths[leaf], axis, grid) for leaf, axis in known.items()}
    possible = evaluate(
        condition, lambda leaf: wholes.get(leaf) or others.get(leaf, UNKNOWN)
    ).can_be_true
    found = np.array(np.broadcast_to(possible, grid.shape))
    return found if kinds is None else found & _combine(condition, kinds, truths, grid)


def _coarsen(found: NDArray[np.bool_], fine: Grid, grid: Grid) -> NDArray[np.bool_]:
    """Return a mask of the chunks that contain a flagged part."""
    for axis, (parts, whole) in enumerate(zip(fine.offsets, grid.offsets, strict=True)):
        if len(parts) != len(whole):
            found = np.logical_or.reduceat(found, np.searchsorted(parts, whole[:-1]), axis)
    return found


# Chunks with equal truth


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Chunks grouped by the truth of the leaves."""

    of: NDArray[np.int64]
    """Group number of each chunk."""
    truths: list[dict[Leaf, Truth]]


def _find_alike(truths: Mapping[Leaf, Truth], grid: Grid) -> _Alike:
    number = np.zeros(grid.shape, np.int64)
    for truth in truths.values():
        code = np.asarray(truth.can_be_true) + 2 * np.asarray(truth.can_be_false)
        _, inverse = np.unique(number * 4 + code, return_inverse=True)
        number = inverse.reshape(grid.shape)
    _, first = np.unique(number, return_index=True)
    spread = {
        leaf: [
            np.broadcast_to(flags, grid.shape).reshape(-1)[first]
            for flags in (truth.can_be_true, truth.can_be_false)
        ]
        for leaf, truth in truths.items()
    }
    return _Alike(
        number,
        [
            {leaf: Truth(can[at], cannot[at]) for leaf, (can, cannot) in spread.items()}
            for at in range(len(first))
        ],
    )


def _truth_of_chunks(truth: Truth, axis: Axis, grid: Grid) -> Truth:
    """Return the possible results over the cells of each chunk."""
    return Truth(
        _reduce_to_chunks(truth.can_be_true, axis, grid),
        _reduce_to_chunks(truth.can_be_false, axis, grid),
    )


def _reduce_to_chunks(flags: Any, axis: Axis, grid: Grid) -> NDArray[np.bool_]:
    found = np.broadcast_to(np.asarray(flags, np.bool_), axis.values.data.shape)
    for number, dim in enumerate(axis.dims):
        offsets = grid.offsets[grid.dims.index(dim)]
        if len(offsets) > 1:
            found = np.logical_or.reduceat(found, offsets[:-1], axis=number)
    # Order its dimensions as the grid does.
    order = sorted(range(len(axis.dims)), key=lambda i: grid.dims.index(axis.dims[i]))
    shape = [
        size if dim in axis.dims else 1 for dim, size in zip(grid.dims, grid.shape, strict=True)
    ]
    return found.transpose(order).reshape(shape)


# Kinds of elements


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """Elements along some dimensions, grouped by the truth of the leaves."""

    dims: tuple[str, ...]
    truths: Mapping[Leaf, NDArray[np.int8]]
    """Truth codes of each kind."""
    in_chunk: NDArray[np.bool_]
    """Mask of the kinds that occur in each chunk along these dimensions."""

    @property
    def count(self) -> int:
        return int(self.in_chunk.shape[1])


def _find_all_kinds(
    known: Mapping[Leaf, Axis], truths: Mapping[Leaf, Truth], grid: Grid
) -> list[_Kinds] | None:
    """Return the kinds along connected dimensions; None if they have too many combinations."""
    parts = _connected([axis.dims for axis in known.values()], grid.dims)
    kinds = [_find_kinds(dims, known, truths, grid) for dims in parts]
    return None if prod(each.count for each in kinds) > _MOST_COMBINATIONS else kinds


def _combine(
    condition: Condition, kinds: Sequence[_Kinds], truths: Mapping[Leaf, Truth], grid: Grid
) -> NDArray[np.bool_]:
    """Return a mask of the chunks with a combination of kinds for which the condition can be true."""
    where = {leaf: number for number, each in enumerate(kinds) for leaf in each.truths}

    def truth_of(leaf: Leaf) -> Truth:
        if leaf not in where:
            # Constant for all rows, or unknown.
            return truths.get(leaf, UNKNOWN)
        number = where[leaf]
        codes = kinds[number].truths[leaf]
        shape = [codes.size if i == number else 1 for i in range(len(kinds))]
        return Truth((codes == _TRUE).reshape(shape), (codes == _FALSE).reshape(shape))

    found: Any = np.broadcast_to(
        evaluate(condition, truth_of).can_be_true, tuple(each.count for each in kinds)
    )
    for each in kinds:
        # Turn the first axis from kinds into chunks and move it to the end: any kind sets its chunk.
        rest = np.moveaxis(found, 0, -1).astype(np.float32)
        found = (rest @ each.in_chunk.T.astype(np.float32)) > 0
    return _in_order(found, [each.dims for each in kinds], grid)


def _connected(groups: Sequence[tuple[str, ...]], dims: Sequence[str]) -> list[tuple[str, ...]]:
    """Group dimensions that share a column, in the order of the grid."""
    parts: list[set[str]] = []
    for group in groups:
        merged = set(group).union(*(part for part in parts if part & set(group)))
        parts = [part for part in parts if not part & merged] + [merged]
    return [tuple(dim for dim in dims if dim in part) for part in parts if part]


def _find_kinds(
    dims: tuple[str, ...], known: Mapping[Leaf, Axis], truths: Mapping[Leaf, Truth], grid: Grid
) -> _Kinds:
    shape = tuple(grid.sizes[dim] for dim in dims)
    codes = {
        leaf: _codes(truths[leaf], axis, dims, shape)
        for leaf, axis in known.items()
        if axis.dims and set(axis.dims) <= set(dims)
    }
    kind = np.zeros(prod(shape), np.int64)
    for each in codes.values():
        _, kind = np.unique(kind * 3 + each, return_inverse=True)
    _, first = np.unique(kind, return_index=True)
    chunk = _chunk_numbers(dims, shape, grid)
    count = prod(grid.shape[grid.dims.index(dim)] for dim in dims)
    in_chunk = np.zeros((count, len(first)), np.bool_)
    in_chunk[chunk, kind] = True
    return _Kinds(dims, {leaf: each[first] for leaf, each in codes.items()}, in_chunk)


def _codes(
    truth: Truth, axis: Axis, dims: tuple[str, ...], shape: tuple[int, ...]
) -> NDArray[np.int8]:
    own = axis.values.data.shape
    code = np.full(own, _NULL, np.int8)
    code[np.broadcast_to(truth.can_be_false, own)] = _FALSE
    code[np.broadcast_to(truth.can_be_true, own)] = _TRUE
    order = sorted(range(len(axis.dims)), key=lambda i: dims.index(axis.dims[i]))
    spread = [size if dim in axis.dims else 1 for dim, size in zip(dims, shape, strict=True)]
    return np.broadcast_to(code.transpose(order).reshape(spread), shape).reshape(-1)


def _chunk_numbers(dims: tuple[str, ...], shape: tuple[int, ...], grid: Grid) -> NDArray[np.int64]:
    """Return the chunk number of each element."""
    number = np.zeros((1,) * len(dims), np.int64)
    for axis, dim in enumerate(dims):
        offsets = grid.offsets[grid.dims.index(dim)]
        own = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        spread = [own.size if i == axis else 1 for i in range(len(dims))]
        number = number * (len(offsets) - 1) + own.reshape(spread)
    return np.broadcast_to(number, shape).reshape(-1)


def _in_order(
    found: NDArray[np.bool_], parts: Sequence[tuple[str, ...]], grid: Grid
) -> NDArray[np.bool_]:
    """Reshape from one axis per part to one axis per dimension."""
    counts = dict(zip(grid.dims, grid.shape, strict=True))
    dims = [dim for part in parts for dim in part]
    split = found.reshape([counts[dim] for dim in dims])
    order = [dims.index(dim) for dim in grid.dims if dim in dims]
    shape = [counts[dim] if dim in dims else 1 for dim in grid.dims]
    return np.broadcast_to(split.transpose(order).reshape(shape), grid.shape)
