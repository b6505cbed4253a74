"""What the tasks of a reduction do: make states of pieces, combine them, finish and write them."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from frazil.session import ForkSession, Session
from frazil.spark.arrays.blocks import Computation
from frazil.spark.arrays.outputs import Output
from frazil.spark.arrays.reduction_plan import Layout, ReductionPlan
from frazil.spark.arrays.reductions import Reduction, State, Values
from frazil.spark.arrays.regions import Box, cut, slices_of
from frazil.spark.arrays.zarr_arrays import open_array, open_for_writing, path_of


@dataclass(frozen=True, slots=True)
class Part:
    """One result of a task: of a box, from the so many-th to the so many-th state."""

    box: Box
    """Of the dimensions that stay."""
    first: int
    last: int
    number: int
    """Which one it is at the next level."""


class Sink(Protocol):
    """Takes the state of a part."""

    def __call__(self, session: ForkSession, part: Part, state: State) -> None:
        """Write it."""


@dataclass(frozen=True, slots=True)
class FinishedResults:
    """Writes what states come to."""

    reduction: Reduction
    layout: Layout
    output: Output

    def __call__(self, session: ForkSession, part: Part, state: State) -> None:
        """Finish a state, and write the result."""
        target = open_for_writing(session, self.output.path)
        values = self.reduction.finish(state).astype(self.output.dtype)
        target[slices_of(self.layout.output_box(part.box))] = values


@dataclass(frozen=True, slots=True)
class PartialResults:
    """States in arrays between the steps: a column each, whose first axis is the number of the part."""

    layout: Layout
    paths: dict[str, str]

    def __call__(self, session: ForkSession, part: Part, state: State) -> None:
        """Write a state."""
        place = self._place(part.box, part.number)
        for name, path in self.paths.items():
            open_for_writing(session, path)[place] = state[name][None]

    def read(self, session: Session, box: Box, number: int) -> State:
        """Read a state again."""
        place = self._place(box, number)
        return {
            name: np.asarray(open_array(session, path_of(path))[place])[0]
            for name, path in self.paths.items()
        }

    def _place(self, box: Box, number: int) -> tuple[slice, ...]:
        return (slice(number, number + 1), *slices_of(self.layout.output_box(box)))


@dataclass(frozen=True, slots=True)
class ReducePiece:
    """Reduces one piece of the inputs for one box of the output."""

    computation: Computation
    reduction: Reduction
    layout: Layout
    plan: ReductionPlan
    dtype: "np.dtype[Any]"
    sink: Sink

    def __call__(self, session: ForkSession, part: Part) -> None:
        """Read block by block, and write the state of all."""
        shape = [stop - start for start, stop in self.layout.output_box(part.box)]
        state = self.reduction.start(tuple(shape), self.dtype)
        for block in cut(self.plan.pieces[part.first], self.plan.block):
            result = self.computation(self.layout.space_box(part.box, block))
            values = result.transpose(*self.layout.space.dims).values
            add_block(self.reduction, state, values, self.layout, block)
        self.sink(session, part, state)


@dataclass(frozen=True, slots=True)
class CombineParts:
    """Makes one state of several, in their order."""

    source: Session
    partials: PartialResults
    reduction: Reduction
    sink: Sink

    def __call__(self, session: ForkSession, part: Part) -> None:
        """Read states one after the other, and write what they come to."""
        state = self.partials.read(self.source, part.box, part.first)
        for number in range(part.first + 1, part.last):
            other = self.partials.read(self.source, part.box, number)
            state = self.reduction.combine(state, other)
        self.sink(session, part, state)


def add_block(
    reduction: Reduction, state: State, values: Values, layout: Layout, block: Box
) -> None:
    """Add the elements of a block to a state; those without a label belong to nothing."""
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
