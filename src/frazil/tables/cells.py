"""Tables of cells and of chunks, with one row each."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.tables.columns import Grid, Region, Values, byte_width, split_box, to_arrow
from frazil.tables.predicates import find_unknown
from frazil.tables.pruning import Axis
from frazil.tables.scan import Partition, Scan, plan_partitions, schema_of
from frazil.tables.scan_plan import ChunkCount, ScanPlan, Source, choose

_READ_AT_ONCE_BYTES = 16 << 20
_READ_AHEAD = 4


CellValues = tuple[tuple[int, ...], NDArray[np.bool_] | None, dict[str, Values]]
"""Shape, mask, and columns with one axis per dimension, of length 1 where values repeat."""


class Cells:
    """Table of the cells of a group; implements `Table`."""

    def __init__(self, chosen: ScanPlan) -> None:
        self._chosen = chosen

    @property
    def schema(self) -> pa.Schema:
        """Return the selected columns, by default coordinates first, then variables."""
        return schema_of(self._chosen.given)

    def partitions(self) -> Sequence[Partition]:
        """Return the chunks that may contain matching rows, grouped by target size."""
        chosen = self._chosen
        width = sum(byte_width(each.type) for each in chosen.given)
        chunk_bytes = chosen.grid.largest_chunk() * max(width, 1)
        kept = chosen.find_chunks()
        chosen.check_access(kept, chosen.grid, chosen.lazy)
        return plan_partitions(kept, chunk_bytes, chosen.target_bytes)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, region by region."""
        scan = self._chosen.scan()
        for read in self._read(partition, scan):
            yield from scan.batches(*read)

    def read_values(self, partition: Partition) -> Iterator[CellValues]:
        """Yield the cells of a partition as arrays, with a mask of matching cells (None for all)."""
        scan = self._chosen.scan()
        for region, mask, read in self._read(partition, scan):
            shape = tuple(each.stop - each.start for each in region)
            if not prod(shape):
                continue
            values = scan.known(region, read)
            yield shape, scan.filter(values, shape, mask) if scan.filters else mask, values

    def _read(self, partition: Partition, scan: Scan) -> "Iterator[_Read]":
        """Yield the values of each region of a partition, reading the next regions ahead."""
        chosen = self._chosen
        regions = self._regions(partition)
        with ThreadPoolExecutor(_READ_AHEAD) as pool:
            waiting: deque[Future[_Read]] = deque()
            for region in regions:
                waiting.append(pool.submit(_read, chosen, scan, region))
                if len(waiting) >= _READ_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def count_chunks(self) -> dict[str, ChunkCount]:
        """Return the number of chunks to read, by array."""
        return self._chosen.count_chunks()

    def _regions(self, partition: Partition) -> Iterator[Region]:
        chosen = self._chosen
        width = sum(byte_width(each.type) for each in chosen.lazy.values()) or 8
        most = max(_READ_AT_ONCE_BYTES // max(chosen.grid.largest_chunk() * width, 1), 1)
        for box in partition.boxes:
            for part in split_box(box, most):
                yield chosen.grid.region(part)


_Read = tuple[Region, NDArray[np.bool_] | None, dict[str, Values]]


def _read(chosen: ScanPlan, scan: Scan, region: Region) -> _Read:
    smaller, mask = scan.narrow(region)
    if not prod(each.stop - each.start for each in smaller):
        return smaller, mask, {}
    return smaller, mask, scan.read_columns(smaller, mask, chosen.read_array)


def open_cells(source: Source) -> Cells:
    """Open the table of cells that the options of a source describe."""
    chosen = choose(source)
    unknown = find_unknown(chosen.condition)
    if unknown is not None and not source.options.engine_filters:
        raise InvalidInputError(
            f"where: only Spark can evaluate {unknown}: leave it to the frame, as in "
            '`.load().where("…")`, or use frazil.spark.read, which takes any condition'
        )
    return Cells(chosen)


_CHUNK, _SHAPE = "chunk", "shape"


def _list_of(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", type))


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """Table of the chunks of arrays with equal chunk grids; implements `Table`."""

    chosen: ScanPlan
    variables: tuple[str, ...]
    grid: Grid
    names: tuple[str, ...] | None
    """The selected columns."""

    @property
    def schema(self) -> pa.Schema:
        """Return chunk coordinates, coordinate bounds, shape, and values in C order."""
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
        """Return the chunks with matching cells, grouped by target size."""
        width = sum(byte_width(self.chosen.columns.get(name).type) for name in self.variables)
        chunk_bytes = self.grid.largest_chunk() * width
        found = self.chosen.find_chunks(self.grid)
        asked = [name for name in self.variables if self.names is None or name in self.names]
        self.chosen.check_access(found, self.grid, asked)
        return plan_partitions(found, chunk_bytes, self.chosen.target_bytes)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield one batch per row, because rows are large."""
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
    """Return the minimum and maximum in a region; null if it has no values."""
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
    """Open the table of chunks that the options of a source describe.

    Raises
    ------
    InvalidInputError
        If the arrays have different chunk grids.
    """
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
