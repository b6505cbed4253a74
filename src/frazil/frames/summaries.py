"""The table of partial sums of cells: what tasks hand over where a query only asks for sums of them.

A row has the coordinates of a group of cells and a number for each partial: a sum, a count, the least
or the greatest. There is one row of a group for each region that is read, and the engine puts them
together. Cells never become rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.frames.cells import Cells
from frazil.frames.chosen import Chosen, ChunkCount
from frazil.frames.partitions import Partition
from frazil.frames.scanning import to_column
from frazil.frames.types import TIMESTAMP, Values, to_arrow

Function = Literal["sum", "count", "min", "max"]
SUMMED = (pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64())
"""Types whose sums of a region are exact, or as exact as the engine's own."""
ORDERED = (*SUMMED, pa.int64(), TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Partial:
    """A number of each group; one without a column counts cells."""

    function: Function
    column: str | None
    name: str
    """Of the column that it is in."""

    def find_type(self, types: Mapping[str, pa.DataType]) -> pa.DataType:
        """Of its values."""
        if self.function == "count" or self.column is None:
            return pa.int64()
        own = types[self.column]
        if self.function in ("min", "max"):
            return own
        return pa.float64() if pa.types.is_floating(own) else pa.int64()


def can_be(function: Function, type: pa.DataType) -> bool:
    """Whether a column of a type can be summed up by a function."""
    if function == "count":
        return True
    return type in (SUMMED if function == "sum" else ORDERED)


@dataclass(frozen=True, slots=True, eq=False)
class Summaries:
    """Partial sums of cells, as `Table` has it."""

    chosen: Chosen
    groups: tuple[str, ...]
    """Coordinates of one dimension at most."""
    partials: tuple[Partial, ...]

    @property
    def schema(self) -> pa.Schema:
        """The groups, then the partials."""
        types = self.chosen.columns.types
        own = [pa.field(name, types[name]) for name in self.groups]
        return pa.schema(
            [*own, *(pa.field(each.name, each.find_type(types)) for each in self.partials)]
        )

    def partitions(self) -> Sequence[Partition]:
        """Those of the cells."""
        return Cells(self.chosen).partitions()

    def count_chunks(self) -> dict[str, ChunkCount]:
        """By array, how many of its chunks are read."""
        return self.chosen.count_chunks()

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """A batch for each region that has cells."""
        for shape, mask, values in Cells(self.chosen).read_values(partition):
            yield from self._summarize(_Region(shape, mask, values, self._kept_axes()))

    def _kept_axes(self) -> tuple[int, ...]:
        """The axes that cells of a group differ in from those of others."""
        dims = self.chosen.columns.dims
        own = {dim for name in self.groups for dim in self.chosen.columns.get(name).dims}
        return tuple(axis for axis, dim in enumerate(dims) if dim in own)

    def _summarize(self, region: "_Region") -> Iterator[pa.RecordBatch]:
        counts = region.count(None)
        kept = counts > 0
        if not kept.any():
            return
        types = self.chosen.columns.types
        columns = [to_column(region.groups_of(name), kept.shape, kept) for name in self.groups]
        for each in self.partials:
            found = region.partial(each, each.find_type(types))
            columns.append(to_arrow(found[kept]))
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """Cells of a region, and the axes along which their groups differ."""

    shape: tuple[int, ...]
    mask: NDArray[np.bool_] | None
    values: Mapping[str, Values]
    """With an axis for each dimension; of one element where they don't differ along it."""
    kept: tuple[int, ...]

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.kept)

    def groups_of(self, name: str) -> Values:
        """The values of a group's column, with the axes that are kept."""
        values = self.values[name]
        return values.reshape(tuple(values.data.shape[axis] for axis in self.kept))

    def count(self, column: str | None) -> NDArray[np.int64]:
        """How many cells each group has, or how many values of a column."""
        there = self._present(column)
        if there is None:
            cells = int(np.prod([self.shape[axis] for axis in self.reduced], dtype=np.int64))
            return np.full([self.shape[axis] for axis in self.kept], cells, np.int64)
        return np.asarray(np.broadcast_to(there, self.shape).sum(axis=self.reduced, dtype=np.int64))

    def partial(self, what: Partial, type: pa.DataType) -> Values:
        """A number of each group; missing where it has no value."""
        counts = self.count(what.column)
        if what.function == "count" or what.column is None:
            return Values(type, counts)
        data = np.broadcast_to(self.values[what.column].data, self.shape)
        there = self._present(what.column)
        found = np.asarray(_REDUCE[what.function](data, there, self.reduced))
        absent = counts == 0
        return Values(type, found, absent if absent.any() else None)

    def _present(self, column: str | None) -> NDArray[np.bool_] | None:
        """Where there is a value in a cell that is wanted; None for everywhere."""
        missing = None if column is None else self.values[column].missing
        if missing is None:
            return self.mask
        there = ~missing
        return there if self.mask is None else there & self.mask


_Reduce = Callable[[NDArray[Any], NDArray[np.bool_] | None, tuple[int, ...]], Any]


def _sum(data: NDArray[Any], there: NDArray[np.bool_] | None, axes: tuple[int, ...]) -> Any:
    wide = np.float64 if data.dtype.kind == "f" else np.int64
    return np.sum(_filled(data, there, data.dtype.type(0)), axis=axes, dtype=wide)


def _min(data: NDArray[Any], there: NDArray[np.bool_] | None, axes: tuple[int, ...]) -> Any:
    return np.min(_filled(data, there, _limits(data.dtype)[1]), axis=axes)


def _max(data: NDArray[Any], there: NDArray[np.bool_] | None, axes: tuple[int, ...]) -> Any:
    return np.max(_filled(data, there, _limits(data.dtype)[0]), axis=axes)


_REDUCE: Mapping[Function, _Reduce] = {"sum": _sum, "min": _min, "max": _max}


def _filled(data: NDArray[Any], there: NDArray[np.bool_] | None, filler: Any) -> NDArray[Any]:
    return data if there is None else np.where(there, data, filler)


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min), dtype.type(limits.max)
