"""Partial aggregates of cells, computed in tasks before Spark sees rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import prod
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.tables.columns import TIMESTAMP, Values, byte_width, to_arrow
from frazil.tables.predicates import Condition, columns_of, evaluate, truth_of_values
from frazil.tables.scan_plan import ChunkCount, Mask, Partition, ScanPlan, to_column

# Expressions of cells

BOOLEAN, SINGLE, DOUBLE = pa.bool_(), pa.float32(), pa.float64()
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "cos": np.cos, "sin": np.sin,
    "tan": np.tan, "radians": np.radians, "degrees": np.degrees,
}  # fmt: skip
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "power": np.power,
    # The engine's order of floats: NaN equals itself, and is greater than all others.
    "=": lambda a, b: (a == b) | (np.isnan(a) & np.isnan(b)),
    "<": lambda a, b: (a < b) | (~np.isnan(a) & np.isnan(b)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expression:
    """Expression of cells that is evaluated as the engine does.

    Operators are `column`, `literal`, `cast`, those of numbers, `is null`, `test` (a condition on
    columns), and `case`, whose parts are conditions and values in turn, with the default at the end.
    """

    operator: str
    type: pa.DataType
    parts: tuple["Expression", ...] = ()
    value: Any = None
    """Name of a column, value of a literal, or condition."""

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that it needs."""
        if self.operator == "column":
            return frozenset((self.value,))
        own = columns_of(self.value) if self.operator == "test" else frozenset()
        return own.union(*(each.columns for each in self.parts))

    def __str__(self) -> str:
        """Return the expression as plans show it."""
        if self.operator in ("column", "literal"):
            return "NULL" if self.value is None else str(self.value)
        if self.operator in ("cast", "test"):
            return str(self.parts[0]) if self.parts else "condition"
        parts = [str(each) for each in self.parts]
        if self.operator in _BINARY and self.operator != "power":
            return f" {self.operator} ".join(parts)
        return f"{self.operator}({', '.join(parts)})"

    def evaluate(self, values: Mapping[str, Values]) -> Values:
        """Return its values, given those of columns, which are broadcast."""
        with np.errstate(all="ignore"):
            return self._evaluate(values)

    def _evaluate(self, values: Mapping[str, Values]) -> Values:
        match self.operator:
            case "column":
                return values[self.value]
            case "literal":
                is_null = self.value is None
                data = np.asarray(0 if is_null else self.value, _dtype(self.type))
                return Values(self.type, data, np.asarray(True) if is_null else None)
            case "test":
                condition: Condition = self.value
                truth = evaluate(condition, lambda leaf: truth_of_values(leaf, values[leaf.column]))
                true, false = np.asarray(truth.can_be_true), np.asarray(truth.can_be_false)
                return Values(BOOLEAN, true, ~(true | false))
        found = [each._evaluate(values) for each in self.parts]
        if self.operator == "case":
            return self._choose(found)
        missing = reduce(_either, (each.missing for each in found), None)
        if self.operator == "is null":
            (own,) = found
            shape = own.data.shape
            return Values(
                BOOLEAN,
                np.zeros(shape, np.bool_)
                if missing is None
                else missing + np.zeros(shape, np.bool_),
            )
        if self.operator == "cast":
            return Values(self.type, found[0].data.astype(_dtype(self.type), copy=False), missing)
        if self.operator in _UNARY:
            return Values(self.type, _UNARY[self.operator](found[0].data), missing)
        return Values(self.type, _BINARY[self.operator](*(each.data for each in found)), missing)

    def _choose(self, found: Sequence[Values]) -> Values:
        *cases, other = found
        data, missing = other.data, other.missing
        for when, then in zip(cases[-2::-2], cases[::-2], strict=True):
            holds = when.data & when.present
            data = np.where(holds, then.data, data)
            if missing is not None or then.missing is not None:
                flags = (
                    np.asarray(False) if each is None else each for each in (then.missing, missing)
                )
                missing = np.where(holds, *flags)
        return Values(self.type, data.astype(_dtype(self.type), copy=False), missing)


def _either(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _dtype(type: pa.DataType) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(np.int64 if type == TIMESTAMP else type.to_pandas_dtype())
    return found


# Partial aggregates

Function = Literal[
    "sum", "count", "min", "max", "mean", "deviation", "frequency", "min_by", "max_by"
]
"""Aggregate functions. `deviation` is the sum of squared deviations from the mean; `frequency` has a
row for each value of a group, with the number of its cells."""
SUMMED = (pa.int8(), pa.int16(), pa.int32(), SINGLE, DOUBLE)
"""Types whose sum over a region is exact, or as exact as the engine's own."""
ORDERED = (*SUMMED, pa.int64(), TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Partial:
    """Partial aggregate of each group; without a column it counts cells."""

    function: Function
    column: str | None
    name: str
    """Name of its output column."""
    by: str | None = None
    """Column whose least or greatest value selects the cell, of `min_by` and `max_by`."""
    where: str | None = None
    """Column that is true for the cells to aggregate; all by default."""

    @property
    def other(self) -> str:
        """Return the name of its second output column: a frequency, or the value selected by."""
        return f"{self.name}_2"

    def fields(self, types: Mapping[str, pa.DataType]) -> list[pa.Field]:
        """Return its output columns."""
        own = pa.int64() if self.column is None else types[self.column]
        match self.function:
            case "count":
                own = pa.int64()
            case "mean" | "deviation":
                own = DOUBLE
            case "sum":
                own = DOUBLE if pa.types.is_floating(own) else pa.int64()
            case "frequency":
                return [pa.field(self.name, own), pa.field(self.other, pa.int64())]
            case "min_by" | "max_by":
                assert self.by is not None
                return [pa.field(self.name, own), pa.field(self.other, types[self.by])]
        return [pa.field(self.name, own)]


def can_push_down(function: Function, type: pa.DataType) -> bool:
    """Return True if a column of a type supports an aggregate function.

    For `min_by` and `max_by`, the type is that of the column which selects the cell.
    """
    if function == "count":
        return True
    if function in ("mean", "deviation", "frequency"):
        return type in (*SUMMED, pa.int64())
    return type in (SUMMED if function == "sum" else ORDERED)


_COMBINED: tuple[Function, ...] = ("sum", "count")
_MOST_SUMMED = 1 << 32
"""Cells of a partition whose sum of the widest of `SUMMED` can't overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialAggregates:
    """Table of the partial aggregates of a scan; implements `Table`."""

    plan: ScanPlan
    groups: tuple[str, ...]
    """Grouping coordinates, each with at most one dimension."""
    partials: tuple[Partial, ...]
    derived: Mapping[str, Expression] = field(default_factory=dict)
    """Expressions of cells, by the names that partial aggregates have for them."""
    where: str | None = None
    """Derived column that is true for the cells to aggregate; all by default."""
    representatives: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Position along a dimension that stands for each position; those with the same one are a group."""

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return the types of all columns, also of derived ones."""
        return {**self.plan.columns.types, **{n: each.type for n, each in self.derived.items()}}

    @property
    def schema(self) -> pa.Schema:
        """Return the group columns, then the partial aggregates."""
        types = self.types
        own = [pa.field(name, types[name]) for name in self.groups]
        return pa.schema([*own, *(each for part in self.partials for each in part.fields(types))])

    def partitions(self) -> Sequence[Partition]:
        """Return the partitions of the cells."""
        return self.plan.partitions()

    def join(self, partitions: Sequence[Partition], count: int) -> Sequence[Partition]:
        """Return at most some partitions of the same chunks, whose groups are combined."""
        boxes = [each.boxes for each in partitions]
        size = max(-(-len(boxes) // max(count, 1)), 1)
        return [
            Partition(np.concatenate(boxes[at : at + size])) for at in range(0, len(boxes), size)
        ]

    def count_chunks(self) -> dict[str, ChunkCount]:
        """Return the number of chunks to read, by array."""
        return self.plan.count_chunks()

    def weigh(self, partitions: Sequence[Partition]) -> tuple[int, int]:
        """Return about how many bytes are read for partitions, and how many rows they give at most."""
        plan = self.plan
        cells = sum(each.chunk_count for each in partitions) * plan.grid.largest_chunk()
        is_exact = any(each.function == "frequency" for each in self.partials)
        groups = cells if is_exact else self._most_groups
        width = sum(byte_width(each.type) for each in plan.lazy.values())
        return cells * width, min(groups, cells)

    def count_rows(self, partitions: Sequence[Partition]) -> int:
        """Return how many rows partitions give at most."""
        plan, chunks = self.plan, sum(each.chunk_count for each in partitions)
        dims = {dim for name in self.groups for dim in plan.columns.get(name).dims}
        if any(each.function == "frequency" for each in self.partials):
            dims = set(plan.dims)
        sizes = zip(plan.grid.dims, plan.grid.offsets, strict=True)
        return chunks * prod(
            int(np.diff(offsets).max(initial=0)) for dim, offsets in sizes if dim in dims
        )

    @property
    def _most_groups(self) -> int:
        """Return how many groups there are at most."""
        dims = {dim for name in self.groups for dim in self.plan.columns.get(name).dims}
        return prod(self.plan.columns.sizes[dim] for dim in dims)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield the groups of a partition; those of each region unless they can be combined."""
        cells = partition.chunk_count * self.plan.grid.largest_chunk()
        if cells > _MOST_SUMMED or any(each.function not in _COMBINED for each in self.partials):
            yield from self._read_regions(partition)
            return
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in self._read_regions(partition):
            waiting.append(batch)
            rows += batch.num_rows
            # Fewer rows may each be a group of their own.
            if rows > 2 * self._most_groups:
                waiting = self._combine(waiting)
                rows = sum(each.num_rows for each in waiting)
        yield from self._combine(waiting) if rows > self._most_groups else waiting

    def _combine(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return one batch with one row for each group."""
        rows = pa.Table.from_batches(batches)
        names = [each.name for each in self.partials]
        found = rows.group_by(list(self.groups), use_threads=False).aggregate(
            [(name, "sum") for name in names]
        )
        columns = [found[name] for name in self.groups] + [found[f"{name}_sum"] for name in names]
        combined = pa.Table.from_arrays(columns, schema=self.schema)
        joined: list[pa.RecordBatch] = combined.combine_chunks().to_batches()
        return joined

    def _read_regions(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield the groups of each region that has matching cells."""
        schema, dims = self.schema, self.plan.columns.dims
        own = {dim for name in self.groups for dim in self.plan.columns.get(name).dims}
        for shape, mask, values, bounds in self.plan.read_values(partition):
            known = dict(values)
            for name, each in self.derived.items():
                known[name] = each.evaluate(known)
            region = _Region(
                shape,
                _both(mask, self._find_true(known, self.where)),
                known,
                tuple(axis for axis, dim in enumerate(dims) if dim in own),
                {
                    axis: self.representatives[dim][bounds[axis]]
                    for axis, dim in enumerate(dims)
                    if dim in self.representatives
                },
            )
            yield from self._aggregate(region, schema)

    def _find_true(self, values: Mapping[str, Values], name: str | None) -> Mask:
        if name is None:
            return None
        found: NDArray[np.bool_] = values[name].data & values[name].present
        return found

    def _aggregate(self, region: "_Region", schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        counts = region.count(None, None)
        kept = counts > 0
        if not kept.any():
            return
        columns = {
            name: to_column(self._groups_of(region, name), counts.shape, kept)
            for name in self.groups
        }
        found = dict(columns)
        for each in self.partials:
            where = self._find_true(region.values, each.where)
            if each.function == "frequency":
                rows, values, numbers = region.frequencies(each.column, where, kept)
                own = {name: column.take(rows) for name, column in columns.items()}
                if len(rows):
                    yield _complete({**own, each.name: values, each.other: numbers}, schema)
                continue
            fields = each.fields(self.types)
            for field_, values in zip(fields, region.partial(each, where, fields), strict=True):
                found[field_.name] = to_arrow(values[kept])
        if found:
            yield _complete(found, schema)

    def _groups_of(self, region: "_Region", name: str) -> Values:
        """Return the values of a grouping column, one for each group."""
        column = self.plan.columns.get(name)
        axes = self.plan.columns.dims
        if column.dims and column.dims[0] in self.representatives:
            dim = column.dims[0]
            values = self.plan.axes[name].values
            axis = axes.index(dim)
            own = values[region.groups_along(axis)]
            shape = [1] * len(region.kept)
            shape[region.kept.index(axis)] = len(own.data)
            return own.reshape(tuple(shape))
        values = region.values[name]
        return values.reshape(tuple(values.data.shape[axis] for axis in region.kept))


def _complete(columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with nulls in columns that are not given."""
    (rows,) = {len(each) for each in columns.values()}
    found = [
        columns[each.name] if each.name in columns else pa.nulls(rows, each.type) for each in schema
    ]
    return pa.RecordBatch.from_arrays(found, schema=schema)


def _both(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return other if one is None else one
    return one & other


@dataclass(frozen=True, eq=False)
class _Region:
    """Cells of a region and their groups: those that agree along the kept axes."""

    shape: tuple[int, ...]
    mask: Mask
    values: Mapping[str, Values]
    """Values with one axis per dimension, of length 1 where they are constant along it."""
    kept: tuple[int, ...]
    labels: Mapping[int, NDArray[np.int64]]
    """Labels along kept axes: positions with the same one are in one group."""

    @cached_property
    def _segments(
        self,
    ) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Return for each labelled axis the order by label, the starts of labels, and their numbers."""
        found = {}
        for axis, labels in self.labels.items():
            _, firsts, numbers = np.unique(labels, return_index=True, return_inverse=True)
            order = np.argsort(numbers, kind="stable")
            starts = np.searchsorted(numbers[order], np.arange(len(firsts)))
            found[axis] = order, starts, numbers
        return found

    @cached_property
    def _reduced(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.kept)

    def groups_along(self, axis: int) -> NDArray[np.int64]:
        """Return the distinct labels along an axis."""
        return np.unique(self.labels[axis])

    def _reduce(self, ufunc: Any, data: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
        """Reduce cells to groups, with all axes."""
        found = data.reshape((1,) * (len(self.shape) - data.ndim) + data.shape)
        # Constant along an axis: one value is enough, and a sum is a multiple of it.
        constant = [axis for axis in self._reduced if found.shape[axis] == 1]
        shape = [1 if axis in constant else size for axis, size in enumerate(self.shape)]
        found = np.broadcast_to(found, shape)
        if self._reduced:
            found = ufunc.reduce(found, axis=self._reduced, dtype=dtype, keepdims=True)
            if ufunc is np.add:
                found = found * prod(self.shape[axis] for axis in constant)
        for axis, (order, starts, _) in self._segments.items():
            found = ufunc.reduceat(found.take(order, axis), starts, axis, dtype=dtype)
        return found if dtype is None else found.astype(dtype, copy=False)

    def _expand(self, groups: NDArray[Any]) -> NDArray[Any]:
        """Return the value of its group for each cell; axes that were reduced have length 1."""
        for axis, (_, _, numbers) in self._segments.items():
            groups = groups.take(numbers, axis)
        return groups

    def _drop(self, groups: NDArray[Any]) -> NDArray[Any]:
        """Return values of groups without the reduced axes."""
        return groups.reshape([groups.shape[axis] for axis in self.kept])

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """Return the number of its group for each cell."""
        found = np.zeros((1,) * len(self.shape), np.int64)
        for axis in self.kept:
            segments = self._segments.get(axis)
            own = np.arange(self.shape[axis]) if segments is None else segments[2]
            size = self.shape[axis] if segments is None else len(segments[1])
            aligned = own.reshape([-1 if each == axis else 1 for each in range(len(self.shape))])
            found = found * size + aligned
        return np.broadcast_to(found, self.shape)

    def count(self, column: str | None, where: Mask) -> NDArray[np.int64]:
        """Return the number of cells in each group, or of non-null values of a column."""
        there = self._present(column, where)
        if there is None:
            found = np.ones([self.shape[axis] for axis in self.kept], np.int64)
            found *= np.prod([self.shape[axis] for axis in self._reduced], dtype=np.int64)
            for axis, (order, starts, _) in self._segments.items():
                found = np.add.reduceat(
                    found.take(order, self.kept.index(axis)), starts, self.kept.index(axis)
                )
            return found
        return self._drop(self._reduce(np.add, there, np.int64))

    def partial(self, what: Partial, where: Mask, fields: Sequence[pa.Field]) -> list[Values]:
        """Return a partial aggregate of each group, null for groups without a value."""
        type = fields[0].type
        if what.function == "count" or what.column is None:
            return [Values(type, self.count(what.column, where))]
        if what.by is not None:
            return self._select(what, where, fields)
        absent = self.count(what.column, where) == 0
        data, there = self.values[what.column].data, self._present(what.column, where)
        match what.function:
            case "sum":
                wide = np.float64 if data.dtype.kind == "f" else np.int64
                found = self._reduce(np.add, _filled(data, there, data.dtype.type(0)), wide)
            case "min" | "max":
                found = self._find_extreme(data, there, is_least=what.function == "min")
            case "mean":
                found = self._find_means(data, there)
            case _:
                # Two passes lose no digits where values are large and close to each other.
                far = data.astype(np.float64) - self._expand(self._find_means(data, there))
                found = self._reduce(np.add, _filled(far * far, there, np.float64(0)))
        return [Values(type, self._drop(found), absent if absent.any() else None)]

    def _find_means(self, data: NDArray[Any], there: Mask) -> NDArray[np.float64]:
        """Return the mean of each group; any number without values."""
        sums = self._reduce(np.add, _filled(data.astype(np.float64), there, np.float64(0)))
        counts = self._reduce(np.add, np.asarray(True) if there is None else there, np.int64)
        found: NDArray[np.float64] = sums / np.maximum(counts, 1)
        return found

    def _find_extreme(self, data: NDArray[Any], there: Mask, *, is_least: bool) -> NDArray[Any]:
        # NaN is the greatest value of the engine.
        if data.dtype.kind == "f":
            filler: Any = data.dtype.type(np.nan if is_least else -np.inf)
            return self._reduce(np.fmin if is_least else np.maximum, _filled(data, there, filler))
        limits = np.iinfo(data.dtype)
        filler = data.dtype.type(limits.max if is_least else limits.min)
        return self._reduce(np.minimum if is_least else np.maximum, _filled(data, there, filler))

    def _select(self, what: Partial, where: Mask, fields: Sequence[pa.Field]) -> list[Values]:
        """Return the values of the cells in which another column is least or greatest."""
        assert what.column is not None
        assert what.by is not None
        key, there = self.values[what.by].data, self._present(what.by, where)
        extreme = self._expand(self._find_extreme(key, there, is_least=what.function == "min_by"))
        found = _BINARY["="](key, extreme) if key.dtype.kind == "f" else key == extreme
        cells = np.flatnonzero(
            np.broadcast_to(found if there is None else found & there, self.shape)
        )
        groups, firsts = np.unique(self._numbers.ravel()[cells], return_index=True)
        shape = self.count(None, None).shape
        numbers = np.zeros(prod(shape), np.int64)
        numbers[groups] = cells[firsts]
        absent = np.ones(prod(shape), np.bool_)
        absent[groups] = False
        results = []
        for name, each in zip((what.column, what.by), fields, strict=True):
            spread = self.values[name].spread(self.shape)
            missing = absent
            if spread.missing is not None:
                missing = absent | spread.missing.ravel()[numbers]
            results.append(Values(each.type, spread.data.ravel()[numbers], missing).reshape(shape))
        return results

    def frequencies(
        self, column: str | None, where: Mask, kept: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
        """Return the groups, numbered among the kept ones, their values, and the cells of each."""
        assert column is not None
        values, there = self.values[column], self._present(column, where)
        present = (
            np.ones(self.shape, np.bool_) if there is None else np.broadcast_to(there, self.shape)
        )
        data = np.broadcast_to(values.data, self.shape)[present]
        distinct, numbers = np.unique(data, return_inverse=True)
        keys = self._numbers[present] * max(len(distinct), 1) + numbers
        pairs, counts = np.unique(keys, return_counts=True)
        groups, codes = np.divmod(pairs, max(len(distinct), 1))
        rows = (np.cumsum(kept.ravel()) - 1)[groups]
        return rows, to_arrow(Values(values.type, distinct[codes])), pa.array(counts, pa.int64())

    def _present(self, column: str | None, where: Mask) -> Mask:
        """Return a mask of the matching cells that have a value; None means all cells."""
        missing = None if column is None else self.values[column].missing
        found = _both(self.mask, where)
        return found if missing is None else _both(found, ~missing)


def _filled(data: NDArray[Any], there: Mask, filler: Any) -> NDArray[Any]:
    return data if there is None else np.where(there, data, filler)
