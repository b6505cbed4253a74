"""The table with one row for each chunk: where it is, what its coordinates span, and all its values.

A condition is about cells, as it is in the table of cells: it keeps chunks that can have such cells,
whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.frames.chosen import Chosen, choose
from frazil.frames.grids import Grid, Region, split_box
from frazil.frames.partitions import Partition, plan_partitions
from frazil.frames.pruning import Axis
from frazil.frames.source import Source
from frazil.frames.types import Values, byte_width, to_arrow

_CHUNK, _SHAPE = "chunk", "shape"


def _list_of(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", type))


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """The chunks of arrays that are cut alike, as `Table` has it."""

    chosen: Chosen
    variables: tuple[str, ...]
    grid: Grid
    names: tuple[str, ...] | None
    """The columns that were asked for."""

    @property
    def schema(self) -> pa.Schema:
        """Coordinates of the chunk, bounds of coordinates, the shape, and the values in its order."""
        bounds = [
            (f"{name}_{end}", axis.values.type)
            for name, axis in self.chosen.axes.items()
            for end in ("min", "max")
        ]
        types = self.chosen.columns.types
        values = [(name, _list_of(types[name])) for name in self.variables]
        place = [(_CHUNK, _list_of(pa.int64()))]
        whole = pa.schema([*place, *bounds, (_SHAPE, _list_of(pa.int64())), *values])
        return whole if self.names is None else _select(whole, self.names)

    def partitions(self) -> Sequence[Partition]:
        """Chunks with cells that are wanted, by the target size."""
        width = sum(byte_width(self.chosen.columns.get(name).type) for name in self.variables)
        chunk_bytes = self.grid.largest_chunk() * width
        found = self.chosen.find_chunks(self.grid)
        asked = [name for name in self.variables if self.names is None or name in self.names]
        self.chosen.check_access(found, self.grid, asked)
        return plan_partitions(found, chunk_bytes, self.chosen.target_bytes)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """A row a batch: they are large."""
        schema = self.schema
        for box in partition.boxes:
            for chunk in split_box(box, 1):
                row = self._row(chunk[:, 0], self.grid.region(chunk), set(schema.names))
                yield pa.RecordBatch.from_arrays(
                    [row[name] for name in schema.names], schema=schema
                )

    def _row(
        self, chunk: NDArray[np.int64], region: Region, asked: set[str]
    ) -> Mapping[str, pa.Array]:
        bounds = dict(zip(self.grid.dims, region, strict=True))
        shape = [each.stop - each.start for each in region]
        row = {_CHUNK: _one_list(pa.array(chunk)), _SHAPE: _one_list(pa.array(shape, pa.int64()))}
        for name, axis in self.chosen.axes.items():
            row[f"{name}_min"], row[f"{name}_max"] = _span(axis, bounds)
        for name in self.variables:
            if name in asked:
                row[name] = _one_list(to_arrow(self.chosen.read_array(name, region)))
        return row


def _one_list(values: pa.Array) -> pa.Array:
    offsets = pa.array([0, len(values)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=_list_of(values.type))


def _span(axis: Axis, bounds: Mapping[str, slice]) -> tuple[pa.Array, pa.Array]:
    """The least and the greatest value in a region; null if it has none."""
    part = axis.values[tuple(bounds[dim] for dim in axis.dims)]
    present: NDArray[Any] = part.data[np.broadcast_to(part.present, part.data.shape)]
    if not present.size:
        nothing = pa.nulls(1, part.type)
        return nothing, nothing
    least, greatest = (np.array([each], part.data.dtype) for each in (present.min(), present.max()))
    return to_arrow(Values(part.type, least)), to_arrow(Values(part.type, greatest))


def _select(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise InvalidInputError(
            f"there is no column {', '.join(missing)}, but {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in names])


def open_chunk_rows(source: Source) -> ChunkRows:
    """The chunks that the options of a source describe; raises InvalidInputError if cut differently."""
    chosen = choose(source, with_all_columns=True)
    variables = chosen.columns.variables
    first, *others = (chosen.find_grid(name) for name in variables)
    for name, grid in zip(variables[1:], others, strict=True):
        same = grid.dims == first.dims and all(map(np.array_equal, grid.offsets, first.offsets))
        if not same:
            raise InvalidInputError(
                f"{variables[0]} and {name} have other chunks, which are no rows of one table: "
                "select arrays that are cut alike with `variables`"
            )
    return ChunkRows(chosen, variables, first, source.options.columns)
