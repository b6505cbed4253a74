"""Scan the cells of a region as Arrow batches, reading only the chunks that its rows need."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.tables.columns import (
    Boxes,
    Column,
    Grid,
    Region,
    Values,
    chunks_in,
    join_boxes,
    select,
    split_shape,
    to_arrow,
)
from frazil.tables.predicates import (
    UNKNOWN,
    Condition,
    Leaf,
    Truth,
    columns_of,
    evaluate,
    tell_of_values,
)
from frazil.tables.pruning import Axis, ChunkTruth

BATCH_ROWS = 1 << 18

Bounds = dict[str, slice]
"""Region by dimension."""
ReadArray = Callable[[str, Region], Values]
"""Function that reads an array in a region."""


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Scan of regions: columns, condition and what is known about them."""

    dims: tuple[str, ...]
    given: tuple[Column, ...]
    """The columns of the rows, in order."""
    lazy: Mapping[str, Column]
    """Columns to read, selected or used by the condition."""
    grids: Mapping[str, Grid]
    """Chunk grids of the columns to read."""
    axes: Mapping[str, Axis]
    """Columns in memory."""
    condition: Condition
    told: Mapping[Leaf, ChunkTruth] = field(default_factory=dict)
    """Possible results per chunk of leaves on columns to read."""

    def narrow(self, region: Region) -> tuple[Region, NDArray[np.bool_] | None]:
        """Return the smallest region with all cells that may match the condition, and their mask.

        A mask of None means all cells.
        """
        bounds = dict(zip(self.dims, region, strict=True))
        shape = _shape(region)

        def tell(leaf: Leaf) -> Truth:
            axis, told = self.axes.get(leaf.column), self.told.get(leaf)
            if axis is not None:
                return tell_of_values(leaf, self._spread(axis, bounds))
            return UNKNOWN if told is None else told.inside(bounds, self.dims)

        possible = evaluate(self.condition, tell).can_be_true
        if np.all(possible):
            return region, None
        mask = np.broadcast_to(possible, shape)
        return _shrink(region, mask)

    def read_columns(
        self, region: Region, mask: NDArray[np.bool_] | None, read: ReadArray
    ) -> dict[str, Values]:
        """Read the columns that are not in memory, with one axis per dimension of the rows."""
        bounds = dict(zip(self.dims, region, strict=True))
        found = {}
        for name, column in self.lazy.items():
            needed = None if mask is None else _project(mask, self.dims, column.dims)
            part = tuple(bounds[dim] for dim in column.dims)
            values = _read_chunks(self.grids[name], part, needed, partial(read, name))
            found[name] = _align(values, column.dims, self.dims)
        return found

    def batches(
        self, region: Region, mask: NDArray[np.bool_] | None, read: Mapping[str, Values]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a region from the values read."""
        known = self.known(region, read)
        schema = schema_of(self.given)
        filters = self.filters
        for part in split_shape(_shape(region), BATCH_ROWS):
            shape = _shape(part)
            values = {name: _cut(each, part) for name, each in known.items()}
            kept = None if mask is None else mask[part]
            if filters:
                kept = self.filter(values, shape, kept)
            columns = [to_column(values[each.name], shape, kept) for each in self.given]
            if kept is None or kept.any():
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    @property
    def filters(self) -> bool:
        """Return True if the condition uses columns that are read."""
        return not columns_of(self.condition) <= set(self.axes)

    def known(self, region: Region, read: Mapping[str, Values]) -> dict[str, Values]:
        """Return all columns in a region from the values read, with one axis per dimension."""
        bounds = dict(zip(self.dims, region, strict=True))
        return {**{name: self._spread(axis, bounds) for name, axis in self.axes.items()}, **read}

    def filter(
        self, values: Mapping[str, Values], shape: tuple[int, ...], mask: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_] | None:
        """Return the cells of a mask that match the condition; None for all."""
        possible = evaluate(
            self.condition, lambda leaf: tell_of_values(leaf, values[leaf.column])
        ).can_be_true
        if np.all(possible):
            return mask
        found = np.broadcast_to(possible, shape)
        return found if mask is None else mask & found

    def _spread(self, axis: Axis, bounds: Bounds) -> Values:
        return _align(select(axis.values, axis.dims, bounds), axis.dims, self.dims)


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of rows; every column is nullable."""
    return pa.schema([pa.field(each.name, each.type) for each in columns])


def _shape(region: Region) -> tuple[int, ...]:
    return tuple(each.stop - each.start for each in region)


def _shrink(region: Region, mask: NDArray[np.bool_]) -> tuple[Region, NDArray[np.bool_] | None]:
    parts = []
    for axis, each in enumerate(region):
        others = tuple(i for i in range(mask.ndim) if i != axis)
        hits = np.flatnonzero(mask.any(axis=others))
        first, end = (int(hits[0]), int(hits[-1]) + 1) if len(hits) else (0, 0)
        parts.append(slice(each.start + first, each.start + end))
    own = tuple(
        slice(part.start - each.start, part.stop - each.start)
        for part, each in zip(parts, region, strict=True)
    )
    smaller = mask[own]
    return tuple(parts), None if smaller.all() else smaller


def _project(mask: NDArray[np.bool_], dims: Sequence[str], own: Sequence[str]) -> NDArray[np.bool_]:
    """Project a mask onto the dimensions of an array."""
    hits = mask.any(axis=tuple(i for i, dim in enumerate(dims) if dim not in own))
    kept = [dim for dim in dims if dim in own]
    found: NDArray[np.bool_] = hits.transpose([kept.index(dim) for dim in own])
    return found


def _read_chunks(
    grid: Grid,
    region: Region,
    needed: NDArray[np.bool_] | None,
    read: Callable[[Region], Values],
) -> Values:
    """Read a region of an array, skipping chunks without a needed cell."""
    if needed is None or needed.all():
        return read(region)
    pieces = []
    for piece in product(*map(chunks_in, grid.offsets, region)):
        own = tuple(
            slice(each.start - whole.start, each.stop - whole.start)
            for each, whole in zip(piece, region, strict=True)
        )
        pieces.append((piece, own, bool(needed[own].any())))
    if all(is_needed for _, _, is_needed in pieces):
        return read(region)
    return _assemble(
        _shape(region), [(own, read(piece)) for piece, own, is_needed in pieces if is_needed]
    )


def _assemble(shape: tuple[int, ...], parts: Sequence[tuple[Region, Values]]) -> Values:
    """Assemble an array from parts; cells between them are never used and marked missing."""
    type, dtype = parts[0][1].type, parts[0][1].data.dtype
    data: NDArray[Any] = np.zeros(shape, dtype)
    missing = np.ones(shape, np.bool_)
    for own, values in parts:
        data[own] = values.data
        missing[own] = False if values.missing is None else values.missing
    return Values(type, data, missing)


def _align(values: Values, own: Sequence[str], dims: Sequence[str]) -> Values:
    """Transpose and reshape values to one axis per dimension of `dims`."""
    order = [own.index(dim) for dim in dims if dim in own]
    shape = [values.data.shape[own.index(dim)] if dim in own else 1 for dim in dims]
    missing = None if values.missing is None else values.missing.transpose(order).reshape(shape)
    return Values(values.type, values.data.transpose(order).reshape(shape), missing)


def _cut(values: Values, part: Region) -> Values:
    """Return a part of values whose axes are full or of length 1."""
    sizes = values.data.shape
    return values[
        tuple(slice(None) if size == 1 else each for size, each in zip(sizes, part, strict=True))
    ]


def to_column(values: Values, shape: tuple[int, ...], kept: NDArray[np.bool_] | None) -> pa.Array:
    """Broadcast values to a shape and return them as a column, optionally only the kept ones."""
    if values.data.dtype == object and values.data.size < prod(shape):
        return _take(values, shape, kept)
    spread = values.spread(shape)
    return to_arrow(spread if kept is None else spread[kept])


def _take(values: Values, shape: tuple[int, ...], kept: NDArray[np.bool_] | None) -> pa.Array:
    """Broadcast objects, converting each to Arrow once."""
    numbers = np.arange(values.data.size).reshape(values.data.shape)
    spread = np.broadcast_to(numbers, shape)
    rows = spread.reshape(-1) if kept is None else spread[kept]
    return to_arrow(values).take(pa.array(rows))


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Boxes of chunks of a grid that one task reads."""

    boxes: Boxes

    @property
    def chunk_count(self) -> int:
        """Return the number of chunks."""
        return int(np.diff(self.boxes, axis=2).prod(axis=(1, 2)).sum())


def plan_partitions(
    chosen: NDArray[np.bool_], chunk_bytes: int, target_bytes: int
) -> Sequence[Partition]:
    """Split chunks into partitions of about the target size, at least one chunk, in grid order."""
    chunks = np.argwhere(chosen).astype(np.int64)
    if not len(chunks):
        return []
    most = max(target_bytes // max(chunk_bytes, 1), 1)
    parts = np.array_split(chunks, -(-len(chunks) // most))
    return [Partition(join_boxes(part)) for part in parts]
