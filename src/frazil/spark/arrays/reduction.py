"""Partial aggregation: plan, tasks, and the tree that combines partial states."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession, Session
from frazil.spark.arrays.blocks import Computation, Grouping, Inputs, Output, Space
from frazil.spark.regions import (
    MIB,
    Box,
    Shape,
    count_items,
    cut,
    grow,
    open_array,
    open_for_writing,
    path_of,
    replace_axis,
    runs_of,
    slices_of,
    whole,
)
from frazil.spark.runtime import Runner
from frazil.spark.transaction import Scratch, write_regions

T = TypeVar("T")

BLOCK_BYTES = 16 * MIB
"""Size of the block reduced at a time, which takes several times as much memory."""
MOST_STATE_BYTES = 256 * MIB
"""Maximum size of the partial states in a task."""
FAN_IN = 16
"""Number of states combined by one task."""
_FEW_ITEMS = 64
"""Totals of fewer items are added by one call for all elements."""
PARTIALS = "/_frazil/partials"
"""Group of the partial states of derived arrays, by the paths of these."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Dimensions that are kept and reduced, and the position of groups."""

    space: Space
    reduced: tuple[str, ...]
    grouping: Grouping | None

    @property
    def kept(self) -> tuple[str, ...]:
        """Dimensions of the inputs that the output keeps."""
        return tuple(dim for dim in self.space.dims if dim not in self.reduced)

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes of a block that are reduced."""
        return tuple(self.space.dims.index(dim) for dim in self.reduced)

    @property
    def position(self) -> int:
        """Position of the groups among the axes of the output."""
        assert self.grouping is not None
        before = self.space.dims[: self.space.dims.index(self.grouping.dim)]
        return sum(dim not in self.reduced for dim in before)

    @property
    def count_groups(self) -> int:
        """Number of results per element; 1 without groups."""
        return 1 if self.grouping is None else len(self.grouping.labels)

    def with_groups(self, kept: Sequence[T], groups: T) -> tuple[T, ...]:
        """Insert the item of the groups at its position among those of the kept dimensions."""
        if self.grouping is None:
            return tuple(kept)
        return (*kept[: self.position], groups, *kept[self.position :])

    def space_box(self, kept: Box, reduced: Box) -> Box:
        """Return a box of all dimensions of the inputs."""
        ends = {
            **dict(zip(self.kept, kept, strict=True)),
            **dict(zip(self.reduced, reduced, strict=True)),
        }
        return tuple(ends[dim] for dim in self.space.dims)

    def output_box(self, kept: Box) -> Box:
        """Return a box of all dimensions of the output."""
        return self.with_groups(kept, (0, self.count_groups))


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """Boxes of the output and pieces of the input."""

    boxes: tuple[Box, ...]
    """Boxes of the kept dimensions."""
    box: Shape
    """Size of the boxes, except at the edges."""
    pieces: tuple[Box, ...]
    """Pieces of the reduced dimensions."""
    block: Shape
    """Shape of a piece that is read at a time."""


def plan_layout(
    space: Space, over: Sequence[str] | str | None, grouping: Grouping | None
) -> Layout:
    """Return the layout; without `over` only the dimension of the groups is reduced."""
    names = [over] if isinstance(over, str) else list(over or ())
    if grouping is not None and grouping.dim not in names:
        names.append(grouping.dim)
    unknown = [name for name in names if name not in space.dims]
    if unknown or not names:
        raise InvalidInputError(f"invalid over={over!r}: expected some of {space.dims}")
    return Layout(space, tuple(dim for dim in space.dims if dim in names), grouping)


def plan_chunks(layout: Layout, chunks: Mapping[str, int], state_bytes: int) -> Shape:
    """Return the output chunks of the kept dimensions: the inputs', unless the state is too large."""
    kept = layout.space.only(layout.kept)
    sizes = [
        min(chunks.get(dim, chunk), max(size, 1)) if chunks.get(dim) != -1 else max(size, 1)
        for dim, size, chunk in zip(kept.dims, kept.shape, kept.chunks, strict=True)
    ]
    free = [axis for axis, dim in enumerate(kept.dims) if dim not in chunks]
    while free and layout.count_groups * prod(sizes) * state_bytes > MOST_STATE_BYTES:
        axis = max(free, key=lambda each: sizes[each])
        if sizes[axis] == 1:
            break
        sizes[axis] = -(-sizes[axis] // 2)
    return tuple(sizes)


def plan_reduction(
    layout: Layout,
    unit: Sequence[int],
    item_bytes: int,
    state_bytes: int,
    task_bytes: int,
    block_bytes: int,
) -> ReductionPlan:
    """Plan boxes as long as input chunks and pieces that fill tasks; grow boxes if one piece does."""
    kept, reduced = layout.space.only(layout.kept), layout.space.only(layout.reduced)
    most_state = max(MOST_STATE_BYTES // (layout.count_groups * state_bytes), 1)
    goals = [min(-(-c // u) * u, n) for c, u, n in zip(kept.chunks, unit, kept.shape, strict=True)]
    box = grow(unit, goals, most_state)

    def fill(most_bytes: int) -> Shape:
        return grow(reduced.chunks, reduced.shape, most_bytes // (prod(box) * item_bytes))

    piece = fill(task_bytes)
    if piece == reduced.shape:
        # At most the size of a block: a task takes many small boxes.
        most = min(most_state, block_bytes // max(prod(reduced.shape) * item_bytes, 1))
        box = grow(box, kept.shape, most)
    return ReductionPlan(
        tuple(cut(whole(kept.shape), box)),
        box,
        # An empty input has a result, too.
        tuple(cut(whole(reduced.shape), piece)) or (whole(reduced.shape),),
        fill(min(block_bytes, task_bytes)),
    )


def plan_levels(pieces: int) -> list[list[tuple[int, int]]]:
    """Return the ranges of states combined at each level of the tree; the last level has one."""
    levels = []
    while True:
        ranges = [(start, min(start + FAN_IN, pieces)) for start in range(0, pieces, FAN_IN)]
        levels.append(ranges)
        if len(ranges) <= 1:
            return levels
        pieces = len(ranges)


Values = NDArray[Any]
State = dict[str, Values]
Axes = tuple[int, ...]
DType = np.dtype[Any]


class Reduction(ABC):
    """Reduction by partial states that can be combined."""

    @abstractmethod
    def columns(self, dtype: DType) -> dict[str, DType]:
        """Return the columns of a state for elements of a data type."""

    @abstractmethod
    def collect(self, values: Values, axes: Axes) -> State:
        """Return the state of elements, reduced over axes."""

    @abstractmethod
    def combine(self, one: State, other: State) -> State:
        """Return the combined state of two states."""

    @abstractmethod
    def finish(self, state: State) -> Values:
        """Return the result of a state."""

    def fold(self, state: State, values: Values) -> None:
        """Add elements to a state in place, one after the other along the first axis.

        The result has the same bits, however many elements a call adds.
        """
        for each in values:
            assign(state, self.combine(state, self.collect(each, ())))

    def result_type(self, dtype: DType) -> DType:
        """Return the data type of the result for elements of a data type."""
        return dtype if dtype.kind == "f" else np.dtype("f8")

    def start(self, shape: tuple[int, ...], dtype: DType) -> State:
        """Return the state of no elements."""
        return {name: np.zeros(shape, type_) for name, type_ in self.columns(dtype).items()}


class Count(Reduction):
    """Number of elements that are not NaN."""

    def columns(self, dtype: DType) -> dict[str, DType]:  # noqa: ARG002
        return {"count": np.dtype("i8")}

    def collect(self, values: Values, axes: Axes) -> State:
        return {"count": _count(values, axes)}

    def fold(self, state: State, values: Values) -> None:
        assign(state, self.combine(state, self.collect(values, (0,))))

    def combine(self, one: State, other: State) -> State:
        return {"count": one["count"] + other["count"]}

    def finish(self, state: State) -> Values:
        return state["count"]

    def result_type(self, dtype: DType) -> DType:  # noqa: ARG002
        return np.dtype("i8")


class Sum(Reduction):
    """Sum; 0 if there are no elements."""

    def columns(self, dtype: DType) -> dict[str, DType]:
        return {"total": _sum_type(dtype)}

    def collect(self, values: Values, axes: Axes) -> State:
        return {"total": np.nansum(values, axis=axes, dtype=_sum_type(values.dtype))}

    def fold(self, state: State, values: Values) -> None:
        _add_in_order(state["total"], values)

    def combine(self, one: State, other: State) -> State:
        return {"total": one["total"] + other["total"]}

    def finish(self, state: State) -> Values:
        return state["total"]

    def result_type(self, dtype: DType) -> DType:
        return dtype if dtype.kind == "f" else _sum_type(dtype)


class Mean(Reduction):
    """Mean; NaN if there are no elements."""

    def columns(self, dtype: DType) -> dict[str, DType]:
        return {"count": np.dtype("i8"), "total": _sum_type(dtype)}

    def collect(self, values: Values, axes: Axes) -> State:
        total = np.nansum(values, axis=axes, dtype=_sum_type(values.dtype))
        return {"count": _count(values, axes), "total": total}

    def fold(self, state: State, values: Values) -> None:
        state["count"] += _count(values, (0,))
        _add_in_order(state["total"], values)

    def combine(self, one: State, other: State) -> State:
        return {name: one[name] + other[name] for name in ("count", "total")}

    def finish(self, state: State) -> Values:
        return _divide(state["total"], state["count"])


class Std(Reduction):
    """Population standard deviation; NaN if there are no elements.

    Combines means and sums of squared deviations, which avoids cancellation.
    """

    def columns(self, dtype: DType) -> dict[str, DType]:  # noqa: ARG002
        return {"count": np.dtype("i8"), "mean": np.dtype("f8"), "squares": np.dtype("f8")}

    def collect(self, values: Values, axes: Axes) -> State:
        count = _count(values, axes)
        wide = values.astype("f8")
        mean = np.nan_to_num(_divide(np.nansum(wide, axis=axes), count))
        wide -= np.expand_dims(mean, axes)
        wide *= wide
        return {"count": count, "mean": mean, "squares": np.nansum(wide, axis=axes)}

    def combine(self, one: State, other: State) -> State:
        count = one["count"] + other["count"]
        share = other["count"] / np.maximum(count, 1)
        distance = other["mean"] - one["mean"]
        return {
            "count": count,
            "mean": one["mean"] + distance * share,
            "squares": one["squares"] + other["squares"] + distance**2 * one["count"] * share,
        }

    def finish(self, state: State) -> Values:
        found: Values = np.sqrt(_divide(state["squares"], state["count"]))
        return found


class _Extreme(Reduction):
    choose: ClassVar[np.ufunc]

    @abstractmethod
    def neutral(self, dtype: DType) -> Any:
        """Return the neutral element of the comparison."""

    def columns(self, dtype: DType) -> dict[str, DType]:
        return {"extreme": dtype}

    def start(self, shape: tuple[int, ...], dtype: DType) -> State:
        return {"extreme": np.full(shape, self.neutral(dtype), dtype)}

    def collect(self, values: Values, axes: Axes) -> State:
        start = self.neutral(values.dtype)
        return {"extreme": np.asarray(self.choose.reduce(values, axis=axes, initial=start))}

    def fold(self, state: State, values: Values) -> None:
        assign(state, self.combine(state, self.collect(values, (0,))))

    def combine(self, one: State, other: State) -> State:
        return {"extreme": self.choose(one["extreme"], other["extreme"])}

    def finish(self, state: State) -> Values:
        return state["extreme"]

    def result_type(self, dtype: DType) -> DType:
        return dtype


class Min(_Extreme):
    """Minimum; NaN, or the largest integer, if there are no elements."""

    choose = np.fmin

    def neutral(self, dtype: DType) -> Any:
        return _limit(dtype, "max")


class Max(_Extreme):
    """Maximum; NaN, or the smallest integer, if there are no elements."""

    choose = np.fmax

    def neutral(self, dtype: DType) -> Any:
        return _limit(dtype, "min")


REDUCTIONS: dict[str, Reduction] = {
    "count": Count(), "max": Max(), "mean": Mean(), "min": Min(), "std": Std(), "sum": Sum(),
}  # fmt: skip


def find_reduction(name: str, dtype: DType) -> Reduction:
    """Return the reduction of this name.

    Raises InvalidInputError if it is unknown or not defined for the data type.
    """
    if name not in REDUCTIONS:
        raise InvalidInputError(f"{name!r} is no reduction: there are {', '.join(REDUCTIONS)}")
    if dtype.kind not in "biuf":
        raise InvalidInputError(f"there is no {name} of {dtype}")
    return REDUCTIONS[name]


def _count(values: Values, axes: Axes) -> Values:
    if values.dtype.kind == "f":
        return np.asarray(np.sum(~np.isnan(values), axis=axes, dtype="i8"))
    rest = [size for axis, size in enumerate(values.shape) if axis not in axes]
    return np.full(rest, prod(values.shape[axis] for axis in axes), "i8")


def _add_in_order(total: Values, values: Values) -> None:
    """Add to a total along the first axis, from the first element to the last."""
    wide = values.astype(total.dtype)
    if wide.dtype.kind == "f":
        wide[np.isnan(wide)] = 0
    if total.size < _FEW_ITEMS:  # NumPy's sums of long axes add in another order
        total[...] = np.add.accumulate(np.concatenate([total[None], wide]))[-1]
        return
    for each in wide:
        total += each


def assign(state: State, other: State) -> None:
    """Replace the values of a state in place."""
    for name, column in other.items():
        state[name][...] = column


def _sum_type(dtype: DType) -> DType:
    return np.dtype({"f": "f8", "u": "u8"}.get(dtype.kind, "i8"))


def _divide(total: Values, count: Values) -> Values:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _limit(dtype: DType, end: str) -> Any:
    if dtype.kind == "f":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return end == "max"
    return getattr(np.iinfo(dtype), end)


@dataclass(frozen=True, slots=True)
class Part:
    """One result of a task: the states `first` to `last` of a box."""

    box: Box
    """Box of the kept dimensions."""
    first: int
    last: int
    number: int
    """Number of the resulting state at the next level."""


class Sink(Protocol):
    """Sink for the state of a part."""

    def __call__(self, session: ForkSession, part: Part, state: State) -> None:
        """Write the state."""


@dataclass(frozen=True, slots=True)
class FinishedResults:
    """Sink that writes final results."""

    reduction: Reduction
    layout: Layout
    output: Output

    def __call__(self, session: ForkSession, part: Part, state: State) -> None:
        """Finish a state and write the result."""
        target = open_for_writing(session, self.output.path)
        values = self.reduction.finish(state).astype(self.output.dtype)
        target[slices_of(self.layout.output_box(part.box))] = values


@dataclass(frozen=True, slots=True)
class PartialResults:
    """Sink that writes partial states to arrays: one per column, first axis the number of the part."""

    layout: Layout
    paths: dict[str, str]

    def __call__(self, session: ForkSession, part: Part, state: State) -> None:
        """Write a state."""
        place = self._place(part.box, part.number)
        for name, path in self.paths.items():
            open_for_writing(session, path)[place] = state[name][None]

    def read(self, session: Session, box: Box, number: int) -> State:
        """Read a state."""
        place = self._place(box, number)
        return {
            name: np.asarray(open_array(session, path_of(path))[place])[0]
            for name, path in self.paths.items()
        }

    def _place(self, box: Box, number: int) -> tuple[slice, ...]:
        return (slice(number, number + 1), *slices_of(self.layout.output_box(box)))


@dataclass(frozen=True, slots=True)
class ReducePiece:
    """Task that reduces one piece of the inputs for one box of the output."""

    computation: Computation
    reduction: Reduction
    layout: Layout
    plan: ReductionPlan
    dtype: "np.dtype[Any]"
    sink: Sink

    def __call__(self, session: ForkSession, part: Part) -> None:
        """Reduce block by block and write the state."""
        shape = [stop - start for start, stop in self.layout.output_box(part.box)]
        state = self.reduction.start(tuple(shape), self.dtype)
        for block in cut(self.plan.pieces[part.first], self.plan.block):
            result = self.computation(self.layout.space_box(part.box, block))
            values = result.transpose(*self.layout.space.dims).values
            add_block(self.reduction, state, values, self.layout, block)
        self.sink(session, part, state)


@dataclass(frozen=True, slots=True)
class CombineParts:
    """Task that combines several states, in order."""

    source: Session
    partials: PartialResults
    reduction: Reduction
    sink: Sink

    def __call__(self, session: ForkSession, part: Part) -> None:
        """Read and combine the states and write the result."""
        state = self.partials.read(self.source, part.box, part.first)
        for number in range(part.first + 1, part.last):
            other = self.partials.read(self.source, part.box, number)
            state = self.reduction.combine(state, other)
        self.sink(session, part, state)


def add_block(
    reduction: Reduction, state: State, values: Values, layout: Layout, block: Box
) -> None:
    """Add the elements of a block to a state; elements without a label are ignored."""
    if layout.grouping is None:
        _add(reduction, state, (...,), values, layout.axes)
        return
    start, stop = block[layout.reduced.index(layout.grouping.dim)]
    codes = layout.grouping.codes[start:stop]
    axis = layout.space.dims.index(layout.grouping.dim)
    for code in np.unique(codes[codes >= 0]).tolist():
        members = np.compress(codes == code, values, axis=axis)
        place = (*(slice(None),) * layout.position, code)
        _add(reduction, state, place, members, layout.axes)


def _add(
    reduction: Reduction,
    state: State,
    place: tuple[Any, ...],
    values: Values,
    axes: tuple[int, ...],
) -> None:
    known = {name: column[place] for name, column in state.items()}
    for name, column in reduction.combine(known, reduction.collect(values, axes)).items():
        state[name][place] = column


# Derived arrays continue from the partial states of the run before


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial states of the groups or steps of a derived array: one array per column."""

    path: str
    """Path of the group that has them."""
    axis: int
    """Axis of the groups or steps."""
    columns: tuple[str, ...]
    last: Session
    """Version that the last run wrote."""

    def read(self, box: Box, places: NDArray[np.intp]) -> State:
        """Return the states at some places of the axis, as of the last run."""
        index: list[Any] = [*slices_of(box)]
        index[self.axis] = places
        return {
            name: np.asarray(open_array(self.last, f"{self.path}/{name}").oindex[tuple(index)])
            for name in self.columns
        }

    def write(self, session: ForkSession, box: Box, state: State) -> None:
        """Write the states of a box."""
        for name in self.columns:
            open_for_writing(session, f"{self.path}/{name}")[slices_of(box)] = state[name]


@dataclass(frozen=True, slots=True, eq=False)
class Former:
    """The last run: what its results and partial states are of."""

    inputs: Inputs
    """The source as of the last run."""
    length: int
    """Number of its elements along the axis."""
    seam: tuple[int, int]
    """Elements in rewritten chunks that may be as before, because new ones share their chunk."""
    origins: NDArray[np.intp] = field(repr=False)
    """Former index of each group or step; -1 to compute it from all its elements."""

    def find_changed(self, inputs: Inputs, box: Box, axis: int, piece: Shape) -> NDArray[np.intp]:
        """Return the elements of the seam that have other values in a box of the source."""
        start, stop = self.seam
        differ = np.zeros(stop - start, np.bool_)
        for part in cut(replace_axis(box, axis, self.seam), piece):
            ends = slice(part[axis][0] - start, part[axis][1] - start)
            old, new = (each.read(part) for each in (self.inputs, inputs))
            unequal = (old != new) & ~((old != old) & (new != new))
            rest = tuple(each for each in range(unequal.ndim) if each != axis)
            differ[ends] |= unequal.any(axis=rest)
        return np.flatnonzero(differ) + start


@dataclass(frozen=True, slots=True, eq=False)
class GroupBlock:
    """Task that computes and writes one box of a climatology.

    It adds the elements of each group in their order, so that a group continued from its partial state
    has the same bits as one computed from all its elements.
    """

    inputs: Inputs
    output: Output
    reduction: Reduction
    grouping: Grouping
    axis: int
    piece: Shape
    """Shape of what is read at a time."""
    dtype: "np.dtype[Any]"
    partials: Partials
    former: Former | None

    def __call__(self, session: ForkSession, box: Box) -> None:
        """Read the elements of the groups that the last run has not, reduce and write them."""
        first, last = box[self.axis]
        codes = self.grouping.codes
        is_wanted = (codes >= first) & (codes < last)
        codes = np.where(is_wanted, codes - first, -1)
        origins = np.full(last - first, -1, np.intp)
        if self.former is not None:
            origins = self.former.origins[first:last].copy()
            if self.former.seam[0] < self.former.seam[1]:
                found = self.former.find_changed(self.inputs, box, self.axis, self.piece)
                changed = codes[found]
                origins[changed[changed >= 0]] = -1
            is_wanted[: self.former.length] &= origins[codes[: self.former.length]] < 0
        is_due = origins != np.arange(first, last)
        is_due[codes[is_wanted]] = True
        if not is_due.any():
            return
        state = self.reduction.start(tuple(stop - start for start, stop in box), self.dtype)
        everything: tuple[Any, ...] = (slice(None),) * self.axis
        known = np.flatnonzero(is_due & (origins >= 0))
        if len(known):
            for name, column in self.partials.read(box, origins[known]).items():
                state[name][*everything, known] = column
        self._add(state, box, np.flatnonzero(is_wanted), codes)
        array = open_for_writing(session, self.output.path)
        for start, stop in runs_of(np.flatnonzero(is_due)):
            part = replace_axis(box, self.axis, (first + start, first + stop))
            states = {name: column[*everything, start:stop] for name, column in state.items()}
            array[slices_of(part)] = self.reduction.finish(states).astype(self.output.dtype)
            self.partials.write(session, part, states)

    def _add(
        self, state: State, box: Box, elements: NDArray[np.intp], codes: NDArray[np.intp]
    ) -> None:
        """Add elements to the states of their groups."""
        length = self.piece[self.axis]
        cuts = np.flatnonzero(np.diff(elements // length)) + 1
        for members in np.split(elements, cuts) if len(elements) else ():
            values = np.moveaxis(self.inputs.read(box, {self.axis: members}), self.axis, 0)
            for code in np.unique(codes[members]).tolist():
                place = (*(slice(None),) * self.axis, code, ...)
                views = {name: column[place] for name, column in state.items()}
                self.reduction.fold(views, values[codes[members] == code])


@dataclass(frozen=True, slots=True)
class Reducing:
    """Execution of a reduction."""

    runner: Runner
    computation: Computation
    reduction: Reduction
    layout: Layout
    plan: ReductionPlan
    dtype: "np.dtype[Any]"
    output: Output
    task_bytes: int
    item_bytes: int

    def run(self, session: Session, scratch: Scratch) -> None:
        """Write the result to a session, partial states to temporary arrays."""
        finished = FinishedResults(self.reduction, self.layout, self.output)
        count = len(self.plan.pieces)
        if count <= 1:
            self._reduce(session, finished)
            return
        partials = self._partials(scratch, 0, count)
        self._reduce(scratch.session, partials)
        *levels, last = plan_levels(count)
        for number, ranges in enumerate(levels, 1):
            above = self._partials(scratch, number, len(ranges))
            self._combine(scratch.session, scratch, partials, ranges, above)
            partials = above
        self._combine(session, scratch, partials, last, finished)

    def _reduce(self, session: Session, sink: Sink) -> None:
        pieces = self.plan.pieces
        task = ReducePiece(
            self.computation, self.reduction, self.layout, self.plan, self.dtype, sink
        )
        parts = [
            Part(box, number, number + 1, number)
            for box in self.plan.boxes
            for number in range(len(pieces))
        ]
        sizes = [
            count_items(part.box) * count_items(pieces[part.first]) * self.item_bytes
            for part in parts
        ]
        self._write(session, task, pack(parts, sizes, self.task_bytes), "reducing")

    def _combine(
        self,
        session: Session,
        scratch: Scratch,
        partials: PartialResults,
        ranges: Sequence[tuple[int, int]],
        sink: Sink,
    ) -> None:
        task = CombineParts(scratch.freeze(), partials, self.reduction, sink)
        parts = [
            Part(box, first, last, number)
            for box in self.plan.boxes
            for number, (first, last) in enumerate(ranges)
        ]
        state = sum(each.itemsize for each in self.reduction.columns(self.dtype).values())
        state *= self.layout.count_groups
        sizes = [count_items(each.box) * state * (each.last - each.first) for each in parts]
        self._write(session, task, pack(parts, sizes, self.task_bytes), "combining")

    def _write(self, session: Session, task: Any, groups: list[list[Part]], what: str) -> None:
        if groups:
            write_regions(self.runner, session, task, groups, what)

    def _partials(self, scratch: Scratch, level: int, count: int) -> PartialResults:
        box = self.layout.with_groups(self.plan.box, self.layout.count_groups)
        paths = {
            name: scratch.create(
                f"{name}-{level}",
                shape=(count, *self.output.shape),
                chunks=(1, *box),
                dtype=dtype,
                fill_value=0,
            )
            for name, dtype in self.reduction.columns(self.dtype).items()
        }
        return PartialResults(self.layout, paths)
