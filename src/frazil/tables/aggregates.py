"""Partial aggregates of cells, computed in tasks before Spark sees rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.tables.columns import TIMESTAMP, Values, to_arrow
from frazil.tables.scan_plan import ChunkCount, Mask, Partition, ScanPlan, to_column

Function = Literal["sum", "count", "min", "max", "mean", "deviation"]
"""Aggregate functions; `deviation` is the sum of squared deviations from the mean."""
SUMMED = (pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64())
"""Types whose sum over a region is exact, or as exact as the engine's own."""
ORDERED = (*SUMMED, pa.int64(), TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Partial:
    """Partial aggregate of each group; without a column it counts cells."""

    function: Function
    column: str | None
    name: str
    """Name of its output column."""

    def find_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Return the type of its values."""
        if self.function == "count" or self.column is None:
            return pa.int64()
        own = types[self.column]
        if self.function in ("min", "max"):
            return own
        if self.function in ("mean", "deviation"):
            return pa.float64()
        return pa.float64() if pa.types.is_floating(own) else pa.int64()


def can_push_down(function: Function, type: pa.DataType) -> bool:
    """Return True if a column of a type supports an aggregate function."""
    if function == "count":
        return True
    if function in ("mean", "deviation"):
        return type in (*SUMMED, pa.int64())
    return type in (SUMMED if function == "sum" else ORDERED)


@dataclass(frozen=True, slots=True, eq=False)
class PartialAggregates:
    """Table of the partial aggregates of a scan; implements `Table`."""

    plan: ScanPlan
    groups: tuple[str, ...]
    """Grouping coordinates, each with at most one dimension."""
    partials: tuple[Partial, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the group columns, then the partial aggregates."""
        types = self.plan.columns.types
        own = [pa.field(name, types[name]) for name in self.groups]
        return pa.schema(
            [*own, *(pa.field(each.name, each.find_type(types)) for each in self.partials)]
        )

    def partitions(self) -> Sequence[Partition]:
        """Return the partitions of the cells."""
        return self.plan.partitions()

    def count_chunks(self) -> dict[str, ChunkCount]:
        """Return the number of chunks to read, by array."""
        return self.plan.count_chunks()

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield one batch per region that has matching cells."""
        for cells in self.plan.read_values(partition):
            yield from self._aggregate(_Region(*cells, self._kept_axes()))

    def _kept_axes(self) -> tuple[int, ...]:
        """Return the axes along which the groups differ."""
        dims = self.plan.columns.dims
        own = {dim for name in self.groups for dim in self.plan.columns.get(name).dims}
        return tuple(axis for axis, dim in enumerate(dims) if dim in own)

    def _aggregate(self, region: "_Region") -> Iterator[pa.RecordBatch]:
        counts = region.count(None)
        kept = counts > 0
        if not kept.any():
            return
        types = self.plan.columns.types
        columns = [to_column(region.groups_of(name), kept.shape, kept) for name in self.groups]
        for each in self.partials:
            found = region.partial(each, each.find_type(types))
            columns.append(to_arrow(found[kept]))
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """Cells of a region and the axes along which their groups differ."""

    shape: tuple[int, ...]
    mask: Mask
    values: Mapping[str, Values]
    """Values with one axis per dimension, of length 1 where they are constant along it."""
    kept: tuple[int, ...]

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.kept)

    def groups_of(self, name: str) -> Values:
        """Return the values of a grouping column along the kept axes."""
        values = self.values[name]
        return values.reshape(tuple(values.data.shape[axis] for axis in self.kept))

    def count(self, column: str | None) -> NDArray[np.int64]:
        """Return the number of cells in each group, or of non-null values of a column."""
        there = self._present(column)
        if there is None:
            cells = int(np.prod([self.shape[axis] for axis in self.reduced], dtype=np.int64))
            return np.full([self.shape[axis] for axis in self.kept], cells, np.int64)
        return np.asarray(np.broadcast_to(there, self.shape).sum(axis=self.reduced, dtype=np.int64))

    def partial(self, what: Partial, type: pa.DataType) -> Values:
        """Return a partial aggregate of each group, null for groups without a value."""
        counts = self.count(what.column)
        if what.function == "count" or what.column is None:
            return Values(type, counts)
        data = np.broadcast_to(self.values[what.column].data, self.shape)
        there = self._present(what.column)
        found = np.asarray(_REDUCE[what.function](data, there, self.reduced))
        absent = counts == 0
        return Values(type, found, absent if absent.any() else None)

    def _present(self, column: str | None) -> Mask:
        """Return a mask of the matching cells that have a value; None means all cells."""
        missing = None if column is None else self.values[column].missing
        if missing is None:
            return self.mask
        there = ~missing
        return there if self.mask is None else there & self.mask


_Reduce = Callable[[NDArray[Any], Mask, tuple[int, ...]], Any]


def _sum(data: NDArray[Any], there: Mask, axes: tuple[int, ...]) -> Any:
    wide = np.float64 if data.dtype.kind == "f" else np.int64
    return np.sum(_filled(data, there, data.dtype.type(0)), axis=axes, dtype=wide)


def _min(data: NDArray[Any], there: Mask, axes: tuple[int, ...]) -> Any:
    return np.min(_filled(data, there, _limits(data.dtype)[1]), axis=axes)


def _max(data: NDArray[Any], there: Mask, axes: tuple[int, ...]) -> Any:
    return np.max(_filled(data, there, _limits(data.dtype)[0]), axis=axes)


def _mean(data: NDArray[Any], there: Mask, axes: tuple[int, ...]) -> Any:
    return np.squeeze(_center(data, there, axes), axis=axes)


def _deviation(data: NDArray[Any], there: Mask, axes: tuple[int, ...]) -> Any:
    # Two passes lose no digits where values are large and close to each other.
    far = _filled(data.astype(np.float64) - _center(data, there, axes), there, np.float64(0))
    return np.sum(far * far, axis=axes)


def _center(data: NDArray[Any], there: Mask, axes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the mean along axes, which are kept; any number without values."""
    wide = _filled(data.astype(np.float64), there, np.float64(0))
    present = np.ones(data.shape, np.bool_) if there is None else np.broadcast_to(there, data.shape)
    counts = np.sum(present, axis=axes, keepdims=True)
    found: NDArray[np.float64] = np.sum(wide, axis=axes, keepdims=True) / np.maximum(counts, 1)
    return found


_REDUCE: Mapping[Function, _Reduce] = {
    "sum": _sum, "min": _min, "max": _max, "mean": _mean, "deviation": _deviation,
}  # fmt: skip


def _filled(data: NDArray[Any], there: Mask, filler: Any) -> NDArray[Any]:
    return data if there is None else np.where(there, data, filler)


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min), dtype.type(limits.max)
