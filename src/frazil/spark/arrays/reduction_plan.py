"""How a reduction is cut into tasks: pure.

The dimensions that stay are cut into boxes of whole chunks of the output, the others into pieces. A
task reduces one piece for one box. Where there are several pieces, their states are combined by other
tasks, so many at a time, as a tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from frazil.errors import InvalidInputError
from frazil.spark.arrays.grouping import Grouping
from frazil.spark.arrays.inputs import Space
from frazil.spark.arrays.regions import MIB, Box, Shape, cut, grow, whole

T = TypeVar("T")

BLOCK_BYTES = 16 * MIB
"""What is reduced at a time, which takes several times its size."""
MOST_STATE_BYTES = 256 * MIB
"""What a task may hold of results that are not finished."""
FAN_IN = 16
"""So many states are combined by one task."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which dimensions stay, which go, and where groups take the place of one."""

    space: Space
    reduced: tuple[str, ...]
    grouping: Grouping | None

    @property
    def kept(self) -> tuple[str, ...]:
        """The dimensions of the inputs that the output has, too."""
        return tuple(dim for dim in self.space.dims if dim not in self.reduced)

    @property
    def axes(self) -> tuple[int, ...]:
        """Of a block, those that go."""
        return tuple(self.space.dims.index(dim) for dim in self.reduced)

    @property
    def position(self) -> int:
        """Where the groups are among the output's axes."""
        assert self.grouping is not None
        before = self.space.dims[: self.space.dims.index(self.grouping.dim)]
        return sum(dim not in self.reduced for dim in before)

    @property
    def count_groups(self) -> int:
        """How many results there are for each place; one without groups."""
        return 1 if self.grouping is None else len(self.grouping.labels)

    def with_groups(self, kept: Sequence[T], groups: T) -> tuple[T, ...]:
        """Something of each kept dimension, with that of the groups at their place."""
        if self.grouping is None:
            return tuple(kept)
        return (*kept[: self.position], groups, *kept[self.position :])

    def space_box(self, kept: Box, reduced: Box) -> Box:
        """A box of all dimensions of the inputs."""
        ends = {
            **dict(zip(self.kept, kept, strict=True)),
            **dict(zip(self.reduced, reduced, strict=True)),
        }
        return tuple(ends[dim] for dim in self.space.dims)

    def output_box(self, kept: Box) -> Box:
        """A box of all dimensions of the output."""
        return self.with_groups(kept, (0, self.count_groups))


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """The boxes and pieces."""

    boxes: tuple[Box, ...]
    """Of the dimensions that stay."""
    box: Shape
    """Their size, but for those at the end."""
    pieces: tuple[Box, ...]
    """Of the dimensions that go."""
    block: Shape
    """What is read of a piece at a time."""


def plan_layout(
    space: Space, over: Sequence[str] | str | None, grouping: Grouping | None
) -> Layout:
    """The layout; without `over` only the dimension of the groups goes."""
    names = [over] if isinstance(over, str) else list(over or ())
    if grouping is not None and grouping.dim not in names:
        names.append(grouping.dim)
    unknown = [name for name in names if name not in space.dims]
    if unknown or not names:
        raise InvalidInputError(f"over={over!r}: a reduction goes over some of {space.dims}")
    return Layout(space, tuple(dim for dim in space.dims if dim in names), grouping)


def plan_chunks(layout: Layout, chunks: Mapping[str, int], state_bytes: int) -> Shape:
    """Chunks of the output along the kept dimensions: the inputs', unless the state gets too large."""
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
    """Boxes as long as chunks of inputs, then pieces that fill tasks, and larger boxes if one does."""
    kept, reduced = layout.space.only(layout.kept), layout.space.only(layout.reduced)
    most_state = max(MOST_STATE_BYTES // (layout.count_groups * state_bytes), 1)
    goals = [min(-(-c // u) * u, n) for c, u, n in zip(kept.chunks, unit, kept.shape, strict=True)]
    box = grow(unit, goals, most_state)

    def fill(most_bytes: int) -> Shape:
        return grow(reduced.chunks, reduced.shape, most_bytes // (prod(box) * item_bytes))

    piece = fill(task_bytes)
    if piece == reduced.shape:
        # No larger than a block: boxes that are small are many in a task.
        most = min(most_state, block_bytes // max(prod(reduced.shape) * item_bytes, 1))
        box = grow(box, kept.shape, most)
    return ReductionPlan(
        tuple(cut(whole(kept.shape), box)),
        box,
        # Where there is nothing to reduce, that has a result, too.
        tuple(cut(whole(reduced.shape), piece)) or (whole(reduced.shape),),
        fill(min(block_bytes, task_bytes)),
    )


def plan_levels(pieces: int) -> list[list[tuple[int, int]]]:
    """Which states are combined at each level of the tree, as ranges; the last level has one range."""
    levels = []
    while True:
        ranges = [(start, min(start + FAN_IN, pieces)) for start in range(0, pieces, FAN_IN)]
        levels.append(ranges)
        if len(ranges) <= 1:
            return levels
        pieces = len(ranges)
