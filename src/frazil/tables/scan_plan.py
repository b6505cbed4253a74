"""Scan plan of a table of cells: what a query reads, planned once and executed region by region."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.lazy import lazy_modules
from frazil.tables.columns import (
    Boxes,
    Column,
    Columns,
    Grid,
    GroupArrays,
    Region,
    Values,
    byte_width,
    chunks_in,
    common_cuts,
    join_boxes,
    select,
    split_box,
    split_shape,
    split_to_read,
    to_arrow,
)
from frazil.tables.predicates import (
    EVERYTHING,
    UNKNOWN,
    Condition,
    Leaf,
    Truth,
    columns_of,
    evaluate,
    find_unknown,
    find_zone,
    keep_failures,
    leaves_of,
    truth_of_values,
)
from frazil.tables.pruning import Axis, ChunkTruth, prune_chunks
from frazil.tables.statistics import truth_of_chunks
from frazil.tables.table_options import Options
from frazil.tables.table_source import Source, list_of, read_ahead, select_columns

if TYPE_CHECKING:
    from frazil.tables import sql_predicates
else:
    # Tasks and plans without a predicate don't need the SQL parser.
    (sql_predicates,) = lazy_modules("frazil.tables.sql_predicates")

_BATCH_ROWS = 1 << 18
_PACKED_ROWS = 1 << 13

Bounds = dict[str, slice]
"""Region by dimension."""
Mask = NDArray[np.bool_] | None
"""Cells of a region; None means all."""


class ChunkCount(NamedTuple):
    """Number of chunks of an array to read, and in total, written or not."""

    read: int
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Boxes of chunks of a grid that one task reads."""

    boxes: Boxes

    @property
    def chunk_count(self) -> int:
        """Return the number of chunks."""
        return int(np.diff(self.boxes, axis=2).prod(axis=(1, 2)).sum())


def plan_partitions(
    kept: NDArray[np.bool_], chunk_bytes: int, target_bytes: int
) -> Sequence[Partition]:
    """Split chunks into partitions of about the target size, at least one chunk, in grid order."""
    chunks = np.argwhere(kept).astype(np.int64)
    if not len(chunks):
        return []
    most = max(target_bytes // max(chunk_bytes, 1), 1)
    parts = np.array_split(chunks, -(-len(chunks) // most))
    return [Partition(join_boxes(part)) for part in parts]


class CellValues(NamedTuple):
    """Cells of a region as arrays."""

    shape: tuple[int, ...]
    mask: Mask
    values: Mapping[str, Values]
    """Columns with one axis per dimension, of length 1 where values repeat."""
    region: Region


@dataclass(frozen=True, slots=True, eq=False)
class ScanPlan:
    """Table of the cells of a group, with everything a task needs to read it; implements `Table`."""

    arrays: GroupArrays
    columns: Columns
    selected: tuple[Column, ...]
    """The columns of the rows, in order."""
    lazy: Mapping[str, Column]
    """Columns to read in tasks, selected or used by the condition."""
    grids: Mapping[str, Grid]
    """Chunk grids of the columns to read."""
    grid: Grid
    """Chunks by which rows are partitioned."""
    axes: Mapping[str, Axis]
    """Columns in memory."""
    condition: Condition
    target_bytes: int
    truths: Mapping[Leaf, ChunkTruth] = field(default_factory=dict)
    """Possible results per chunk of leaves on columns to read, from statistics."""

    @property
    def schema(self) -> pa.Schema:
        """Return the selected columns, by default coordinates first, then variables."""
        return schema_of(self.selected)

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the dimensions of the rows."""
        return self.columns.dims

    # Planning

    def restrict(self, names: Set[str]) -> "ScanPlan":
        """Return the plan of a scan that reads only some columns and those of the condition."""
        used = names | columns_of(self.condition)
        return replace(
            self,
            selected=tuple(each for each in self.selected if each.name in names),
            lazy={name: each for name, each in self.lazy.items() if name in used},
            grids={name: each for name, each in self.grids.items() if name in used},
            axes={name: each for name, each in self.axes.items() if name in used},
        )

    def partitions(self) -> Sequence[Partition]:
        """Return the chunks that may contain matching rows, grouped by target size."""
        width = sum(byte_width(each.type) for each in self.selected)
        chunk_bytes = self.grid.largest_chunk() * max(width, 1)
        kept = self.prune()
        self.check_access(kept, self.grid, self.lazy)
        return plan_partitions(kept, chunk_bytes, self.target_bytes)

    def prune(self, grid: Grid | None = None) -> NDArray[np.bool_]:
        """Return a mask of the chunks of a grid with these dimensions that may have matching rows."""
        # Coordinates of several dimensions prune chunks here, but tasks read only their parts.
        asked = columns_of(self.condition) - set(self.columns.variables)
        whole = {
            name: Axis(self.lazy[name].dims, self.arrays.read_coordinate(self.columns, name))
            for name in asked & set(self.lazy)
        }
        return prune_chunks(self.condition, {**self.axes, **whole}, grid or self.grid, self.truths)

    def count_chunks(self) -> dict[str, ChunkCount]:
        """Return the number of chunks with matching rows, by array."""
        return {
            name: ChunkCount(int(self.prune(self.grid.cut_like(own)).sum()), prod(own.shape))
            for name, own in self.grids.items()
        }

    def check_access(self, kept: NDArray[np.bool_], grid: Grid, names: Iterable[str]) -> None:
        """Raise InvalidInputError if the first chunks to read are virtual and not authorized.

        Tasks would fail too, but only after they start, and once per retry.
        """
        if not self.arrays.is_restricted or not kept.any():
            return
        first = np.unravel_index(int(np.argmax(kept)), kept.shape)
        places = zip(grid.dims, grid.offsets, first, strict=True)
        starts = {dim: int(offsets[number]) for dim, offsets, number in places}
        for name in names:
            own = self.find_grid(name)
            chunk = [
                int(np.searchsorted(offsets, starts[dim], side="right")) - 1
                for dim, offsets in zip(own.dims, own.offsets, strict=True)
            ]
            self.arrays.check_access(name, tuple(chunk))

    def find_grid(self, name: str) -> Grid:
        """Return the chunk grid of an array."""
        return self.grids.get(name) or self.arrays.grid(name, self.columns.get(name).dims)

    # Reading

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, region by region."""
        for region, mask, read in read_ahead(self._regions(partition), self._read_region):
            yield from self.batches(region, mask, read)

    @property
    def packed_schema(self) -> pa.Schema:
        """Return the columns of packed rows: lists of up to 8,192 values each.

        Missing floats are NaN. Elements are declared nullable only where other values may be missing:
        Spark reads dense lists much faster.
        """
        return pa.schema(
            [
                pa.field(
                    each.name, pa.list_(pa.field("element", each.type, not self._is_dense(each)))
                )
                for each in self.selected
            ]
        )

    def _is_dense(self, column: Column) -> bool:
        axis = self.axes.get(column.name)
        is_known = axis is not None and axis.values.missing is None
        is_number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        # Variables of integers are never missing; decoding makes floats of those that may be.
        return pa.types.is_primitive(column.type) and (
            is_known or pa.types.is_floating(column.type) or (axis is None and is_number)
        )

    def read_packed(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, many in one row of lists; nothing is copied."""
        schema = self.packed_schema
        for batch in self.read(partition):
            starts = np.arange(0, batch.num_rows, _PACKED_ROWS, dtype=np.int32)
            offsets = pa.array(np.append(starts, np.int32(batch.num_rows)))
            lists = [
                pa.ListArray.from_arrays(
                    offsets,
                    values if field.type.value_field.nullable else _dense(values),
                    field.type,
                )
                for values, field in zip(batch.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(lists, schema=schema)

    def read_values(self, partition: Partition) -> Iterator[CellValues]:
        """Yield the cells of a partition as arrays, with a mask of matching cells."""
        for region, mask, read in read_ahead(self._regions(partition), self._read_region):
            shape = _shape(region)
            if prod(shape):
                values = self._all_values(region, read)
                yield CellValues(shape, self._filter(values, shape, mask), values, region)

    def read_array(self, name: str, region: Region) -> Values:
        """Read values of an array in a region."""
        return self.arrays.read(self.columns, name, region)

    def read_columns(self, region: Region, mask: Mask = None) -> dict[str, Values]:
        """Read the columns that are not in memory, with one axis per dimension of the rows."""
        bounds = dict(zip(self.dims, region, strict=True))
        found = {}
        for name, column in self.lazy.items():
            needed = None if mask is None else _project(mask, self.dims, column.dims)
            part = tuple(bounds[dim] for dim in column.dims)
            values = _read_chunks(self.grids[name], part, needed, partial(self.read_array, name))
            found[name] = _align(values, column.dims, self.dims)
        return found

    def batches(
        self, region: Region, mask: Mask, read: Mapping[str, Values]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a region from the values read."""
        known = self._all_values(region, read)
        schema = self.schema
        for part in split_shape(_shape(region), _BATCH_ROWS):
            shape = _shape(part)
            values = {name: _cut(each, part) for name, each in known.items()}
            kept = self._filter(values, shape, None if mask is None else mask[part])
            if kept is None or kept.any():
                columns = [to_column(values[each.name], shape, kept) for each in self.selected]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _regions(self, partition: Partition) -> Iterator[Region]:
        width = sum(byte_width(each.type) for each in self.lazy.values()) or 8
        for box in partition.boxes:
            yield from map(self.grid.region, split_to_read(self.grid, box, width))

    def _read_region(self, region: Region) -> tuple[Region, Mask, dict[str, Values]]:
        smaller, mask = self._narrow(region)
        is_empty = not prod(_shape(smaller))
        return smaller, mask, {} if is_empty else self.read_columns(smaller, mask)

    def _narrow(self, region: Region) -> tuple[Region, Mask]:
        """Return the smallest region with all cells that may match the condition, and their mask."""
        bounds = dict(zip(self.dims, region, strict=True))

        def truth_of(leaf: Leaf) -> Truth:
            axis, truth = self.axes.get(leaf.column), self.truths.get(leaf)
            if axis is not None:
                return truth_of_values(leaf, self._spread(axis, bounds))
            return UNKNOWN if truth is None else truth.inside(bounds, self.dims)

        possible = evaluate(self.condition, truth_of).can_be_true
        if np.all(possible):
            return region, None
        return _shrink(region, np.broadcast_to(possible, _shape(region)))

    def _all_values(self, region: Region, read: Mapping[str, Values]) -> dict[str, Values]:
        """Return all columns in a region, with one axis per dimension."""
        bounds = dict(zip(self.dims, region, strict=True))
        return {**{name: self._spread(axis, bounds) for name, axis in self.axes.items()}, **read}

    def _filter(self, values: Mapping[str, Values], shape: tuple[int, ...], mask: Mask) -> Mask:
        """Return the cells of a mask that match the condition."""
        if columns_of(self.condition) <= set(self.axes):
            return mask  # made from all of the condition
        possible = evaluate(
            self.condition, lambda leaf: truth_of_values(leaf, values[leaf.column])
        ).can_be_true
        if np.all(possible):
            return mask
        found = np.broadcast_to(possible, shape)
        return found if mask is None else mask & found

    def _spread(self, axis: Axis, bounds: Bounds) -> Values:
        return _align(select(axis.values, axis.dims, bounds), axis.dims, self.dims)


def plan_scan(source: Source, *, with_all_columns: bool = False) -> ScanPlan:
    """Plan the scan that the options of a source describe. Reads only coordinates and statistics."""
    options, arrays = source.options, source.arrays
    columns = arrays.columns(options.variables)
    condition = _parse_condition(options, columns)
    selected = columns.all
    if not with_all_columns:
        names = select_columns(options, [each.name for each in columns.all])
        selected = tuple(columns.get(name) for name in names)
    asked = {each.name for each in selected} | columns_of(condition)
    used = [each for each in columns.all if each.name in asked]
    lazy = {each.name: each for each in used if each.kind == "variable"}
    grids = {name: arrays.grid(name, each.dims) for name, each in lazy.items()}
    plan = ScanPlan(
        arrays=arrays,
        columns=columns,
        selected=selected,
        lazy=lazy,
        grids=grids,
        grid=_plan_grid(source, columns, grids, selected),
        axes={
            each.name: Axis(each.dims, arrays.read_coordinate(columns, each.name))
            for each in used
            if each.kind != "variable"
        },
        condition=condition,
        target_bytes=options.target_bytes,
    )
    return replace(plan, truths=_ask_statistics(plan))


def _parse_condition(options: Options, columns: Columns) -> Condition:
    if options.where is None:
        return EVERYTHING
    scope = sql_predicates.Scope(
        columns.types,
        find_zone(options.time_zone),
        options.qualifiers,
        options.needs_qualifier,
        options.is_ansi,
    )
    return keep_failures(sql_predicates.parse_predicate(options.where, scope))


def _plan_grid(
    source: Source, columns: Columns, grids: Mapping[str, Grid], selected: tuple[Column, ...]
) -> Grid:
    """Return boxes of whole chunks of all arrays; of the largest array only, if they get too large."""
    known = grids or {
        name: source.arrays.grid(name, columns.get(name).dims) for name in columns.variables
    }
    whole = Grid(columns.dims, tuple(np.array([0, size]) for size in columns.sizes.values()))
    largest = max(known.values(), key=lambda each: (len(each.dims), each.largest_chunk()))
    own = whole.cut_like(largest)
    shared = [
        common_cuts([*known.values()], dim)
        if any(dim in each.dims for each in known.values())
        else cuts
        for dim, cuts in zip(own.dims, own.offsets, strict=True)
    ]
    common = Grid(columns.dims, tuple(shared))
    width = sum(byte_width(each.type) for each in selected)
    return common if common.largest_chunk() * width <= source.options.target_bytes else own


def _ask_statistics(plan: ScanPlan) -> dict[Leaf, ChunkTruth]:
    """Return statistics on the arrays that the condition uses, for chunks left by coordinates."""
    leaves: dict[str, list[Leaf]] = {}
    for leaf in leaves_of(plan.condition):
        if leaf.column in plan.lazy:
            leaves.setdefault(leaf.column, []).append(leaf)
    truths: dict[Leaf, ChunkTruth] = {}
    for name, about in leaves.items():
        own = plan.grids[name]
        wanted = prune_chunks(plan.condition, plan.axes, plan.grid.cut_like(own))
        # Dimensions that the array lacks are not split.
        order = [dim for dim in plan.dims if dim in own.dims]
        wanted = wanted.reshape([own.shape[own.dims.index(dim)] for dim in order])
        wanted = wanted.transpose([order.index(dim) for dim in own.dims])
        owner = plan.arrays.find_owner(plan.columns, name)
        truths.update(truth_of_chunks(*owner, own, about, wanted))
    return truths


def open_cells(source: Source) -> ScanPlan:
    """Open the table of cells that the options of a source describe.

    Raises
    ------
    InvalidInputError
        If only Spark can evaluate the predicate, and does not.
    """
    plan = plan_scan(source)
    unknown = find_unknown(plan.condition)
    if unknown is not None and not source.options.engine_filters:
        raise InvalidInputError(
            f"where: only Spark can evaluate {unknown}: filter the DataFrame, as in "
            '`.load().where("…")`, or use frazil.spark.read, which takes any condition'
        )
    return plan


# Regions


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of rows; every column is nullable."""
    return pa.schema([pa.field(each.name, each.type) for each in columns])


def _shape(region: Region) -> tuple[int, ...]:
    return tuple(each.stop - each.start for each in region)


def _shrink(region: Region, mask: NDArray[np.bool_]) -> tuple[Region, Mask]:
    parts = []
    for axis, each in enumerate(region):
        others = tuple(i for i in range(mask.ndim) if i != axis)
        hits = np.flatnonzero(mask.any(axis=others))
        first, end = (int(hits[0]), int(hits[-1]) + 1) if len(hits) else (0, 0)
        parts.append(slice(each.start + first, each.start + end))
    smaller = mask[_inside(tuple(parts), region)]
    return tuple(parts), None if smaller.all() else smaller


def _inside(part: Region, whole: Region) -> Region:
    """Return a part of a region relative to the region's start."""
    return tuple(
        slice(own.start - each.start, own.stop - each.start)
        for own, each in zip(part, whole, strict=True)
    )


def _project(mask: NDArray[np.bool_], dims: Sequence[str], own: Sequence[str]) -> NDArray[np.bool_]:
    """Project a mask onto the dimensions of an array."""
    hits = mask.any(axis=tuple(i for i, dim in enumerate(dims) if dim not in own))
    kept = [dim for dim in dims if dim in own]
    found: NDArray[np.bool_] = hits.transpose([kept.index(dim) for dim in own])
    return found


def _read_chunks(
    grid: Grid, region: Region, needed: Mask, read: Callable[[Region], Values]
) -> Values:
    """Read a region of an array, skipping chunks without a needed cell."""
    if needed is None or needed.all():
        return read(region)
    pieces = list(product(*map(chunks_in, grid.offsets, region)))
    kept = [piece for piece in pieces if needed[_inside(piece, region)].any()]
    if len(kept) == len(pieces):
        return read(region)
    return _assemble(_shape(region), [(_inside(piece, region), read(piece)) for piece in kept])


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


def to_column(values: Values, shape: tuple[int, ...], kept: Mask) -> pa.Array:
    """Broadcast values to a shape and return them as a column, optionally only the kept ones."""
    if values.data.dtype == object and values.data.size < prod(shape):
        return _take(values, shape, kept)
    spread = values.spread(shape)
    return to_arrow(spread if kept is None else spread[kept])


def _dense(values: pa.Array) -> pa.Array:
    """Return numbers without their validity: missing floats are NaN."""
    if pa.types.is_boolean(values.type):
        return values
    _, data = values.buffers()
    return pa.Array.from_buffers(values.type, len(values), [None, data], offset=values.offset)


def _take(values: Values, shape: tuple[int, ...], kept: Mask) -> pa.Array:
    """Broadcast objects, converting each to Arrow once."""
    numbers = np.arange(values.data.size).reshape(values.data.shape)
    spread = np.broadcast_to(numbers, shape)
    rows = spread.reshape(-1) if kept is None else spread[kept]
    return to_arrow(values).take(pa.array(rows))


# Rows of chunks

_CHUNK, _SHAPE = "chunk", "shape"


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """Table of the chunks of arrays with equal chunk grids; implements `Table`."""

    plan: ScanPlan
    grid: Grid
    schema: pa.Schema
    """The selected columns."""

    @property
    def variables(self) -> list[str]:
        """Return the selected arrays."""
        return [name for name in self.plan.columns.variables if name in self.schema.names]

    def partitions(self) -> Sequence[Partition]:
        """Return the chunks with matching cells, grouped by target size."""
        plan = self.plan
        width = sum(byte_width(plan.columns.get(name).type) for name in plan.columns.variables)
        kept = plan.prune(self.grid)
        plan.check_access(kept, self.grid, self.variables)
        return plan_partitions(kept, self.grid.largest_chunk() * width, plan.target_bytes)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield one batch per row, because rows are large."""
        for box in partition.boxes:
            for chunk in split_box(box, 1):
                row = self._row(chunk[:, 0], self.grid.region(chunk))
                columns = [row[name] for name in self.schema.names]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _row(self, chunk: NDArray[np.int64], region: Region) -> Mapping[str, pa.Array]:
        bounds = dict(zip(self.grid.dims, region, strict=True))
        shape = pa.array(_shape(region), pa.int64())
        row = {_CHUNK: _one_list(pa.array(chunk)), _SHAPE: _one_list(shape)}
        for name, axis in self.plan.axes.items():
            row[f"{name}_min"], row[f"{name}_max"] = _span(axis, bounds)
        for name in self.variables:
            row[name] = _one_list(to_arrow(self.plan.read_array(name, region)))
        return row


def _one_list(values: pa.Array) -> pa.Array:
    offsets = pa.array([0, len(values)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=list_of(values.type))


def _span(axis: Axis, bounds: Mapping[str, slice]) -> tuple[pa.Array, pa.Array]:
    """Return the minimum and maximum in a region; null if it has no values."""
    part = axis.values[tuple(bounds[dim] for dim in axis.dims)]
    present: NDArray[Any] = part.data[np.broadcast_to(part.present, part.data.shape)]
    if not present.size:
        nothing = pa.nulls(1, part.type)
        return nothing, nothing
    least, greatest = (np.array([each], part.data.dtype) for each in (present.min(), present.max()))
    return to_arrow(Values(part.type, least)), to_arrow(Values(part.type, greatest))


def open_chunks(source: Source) -> ChunkRows:
    """Open the table of chunks that the options of a source describe.

    Rows have the chunk's coordinates, the bounds of its coordinates, its shape, and values in C order.

    Raises
    ------
    InvalidInputError
        If the arrays have different chunk grids.
    """
    plan = plan_scan(source, with_all_columns=True)
    variables, types = plan.columns.variables, plan.columns.types
    first, *others = (plan.find_grid(name) for name in variables)
    for name, grid in zip(variables[1:], others, strict=True):
        same = grid.dims == first.dims and all(map(np.array_equal, grid.offsets, first.offsets))
        if not same:
            raise InvalidInputError(
                f"{variables[0]} and {name} have different chunks, so they can't be in one row: "
                "select arrays with equal chunks with `variables`"
            )
    bounds = [
        (f"{n}_{end}", axis.values.type) for n, axis in plan.axes.items() for end in ("min", "max")
    ]
    values = [(name, list_of(types[name])) for name in variables]
    numbers = list_of(pa.int64())
    whole = pa.schema([(_CHUNK, numbers), *bounds, (_SHAPE, numbers), *values])
    names = select_columns(source.options, whole.names)
    return ChunkRows(plan, first, pa.schema([whole.field(name) for name in names]))
