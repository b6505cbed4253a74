"""How the references of an array are spread over manifests: cells of its chunk grid, one manifest each.

Everything here is a pure function of the array and the rules. A rule has a condition on the path and,
for the axes, sizes with conditions of their own. The first rule that says something about an axis
decides about it; an axis of which no rule says anything is not split.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from frazil.format.coordinates import Coordinates, Extents, rows_inside, split_rows
from frazil.format.snapshot import ArrayData

Cell = tuple[int, ...]
"""Number of a cell along each axis."""


class PathCondition(Protocol):
    """Which arrays a rule is for."""

    def matches(self, path: str) -> bool:
        """Whether it is for the array at this path."""


class AxisCondition(Protocol):
    """Which axes a size is for."""

    def matches(self, axis: int, dimension_name: str | None) -> bool:
        """Whether it is for this axis."""


SplitRule = tuple[PathCondition, Sequence[tuple[AxisCondition, int]]]


@dataclass(frozen=True, slots=True)
class SplitGrid:
    """The cells of one array."""

    shape: tuple[int, ...]
    """Chunks along each axis."""
    sizes: tuple[int, ...]
    """Chunks of a cell along each axis; the last cell may have fewer."""

    @property
    def edges(self) -> list[list[int]]:
        """For each axis `0, s, 2s, …` and the end."""
        return [
            [*range(0, count, size), count]
            for count, size in zip(self.shape, self.sizes, strict=True)
        ]

    @property
    def everything(self) -> Extents:
        """The box of all chunks."""
        return tuple((0, count) for count in self.shape)

    def extents(self, cell: Cell) -> Extents:
        """The box of chunks that a cell holds."""
        return tuple(
            (number * size, min((number + 1) * size, count))
            for number, size, count in zip(cell, self.sizes, self.shape, strict=True)
        )

    def cells_touching(self, box: Extents) -> Iterator[Cell]:
        """The cells that share chunks with a box; all of them, if the box is empty."""
        ranges = [
            range(start // size, -(-min(stop, count) // size))
            for (start, stop), size, count in zip(
                box or self.everything, self.sizes, self.shape, strict=True
            )
        ]
        return product(*ranges)

    def split(self, coordinates: Coordinates) -> dict[Cell, Coordinates]:
        """Chunks by cell; those outside of the grid are dropped."""
        inside = coordinates[rows_inside(coordinates, self.everything)]
        return {cell: inside[rows] for cell, rows in split_rows(inside, self.edges).items()}


def plan_split(path: str, array: ArrayData, rules: Sequence[SplitRule]) -> SplitGrid:
    """The cells of the array at a path."""
    names = array.dimension_names or (None,) * len(array.shape)
    sizes: list[int | None] = [None] * len(array.shape)
    for condition, axes in rules:
        if None not in sizes:
            break
        if not condition.matches(path):
            continue
        for axis, name in enumerate(names):
            if sizes[axis] is None:
                sizes[axis] = next((n for each, n in axes if each.matches(axis, name)), None)
    shape = tuple(each.num_chunks for each in array.shape)
    return SplitGrid(
        shape,
        tuple(max(1, size or count) for size, count in zip(sizes, shape, strict=True)),
    )
