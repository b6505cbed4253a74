"""Which task writes what of the values that are decoded: pure.

An array is cut into cells of whole chunks. All that sources have in a cell is one piece, and a piece
belongs to one task: no chunk is written by two, and no element twice. Pieces that lie beside each
other along the dimension that files follow each other along share a task, so that a file is opened
once for all its variables.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from frazil.maintenance.batches import pack
from frazil.spark.arrays.regions import (
    LEAST_TASK_BYTES,
    Box,
    Shape,
    choose_task_bytes,
    count_items,
    grow,
)


@dataclass(frozen=True, slots=True)
class Part:
    """Where the whole array of a source goes."""

    source: str
    box: Box


@dataclass(frozen=True, slots=True)
class NativeArray:
    """An array whose values are written anew."""

    name: str
    shape: Shape
    unit: Shape
    """The shape of what is written as one object: chunks, or shards."""
    source_chunks: Shape
    """What is decoded at once; tasks take on whole ones where they can."""
    itemsize: int
    axis: int | None
    """Of the dimension that sources follow each other along."""
    parts: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        """What all its parts take, decoded."""
        return sum(count_items(each.box) for each in self.parts) * self.itemsize


@dataclass(frozen=True, slots=True)
class Fragment:
    """What of a source goes to a box of the array."""

    source: str
    box: Box
    origin: Shape
    """Where the first element of the source is in the array."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task writes of a cell of an array."""

    array: str
    fragments: tuple[Fragment, ...]
    bytes: int
    start: int
    """Of its cell along the dimension that sources follow each other along."""


@dataclass(frozen=True, slots=True)
class Written:
    """What tasks wrote of an array."""

    chunks: int
    bytes: int
    """As they are stored."""


def plan_tasks(arrays: Sequence[NativeArray], slots: int) -> list[list[Piece]]:
    """The pieces of all arrays, by task."""
    limit = choose_task_bytes(sum(each.bytes for each in arrays), slots)
    pieces = [
        piece for array in arrays for piece in plan_pieces(array, min(limit, LEAST_TASK_BYTES))
    ]
    pieces.sort(key=lambda each: each.start)
    return pack(pieces, [each.bytes for each in pieces], limit)


def plan_pieces(array: NativeArray, most_bytes: int) -> list[Piece]:
    """The array in pieces of whole chunks, each about so large."""
    cell = _choose_cell(array, most_bytes)
    found: defaultdict[Shape, list[Fragment]] = defaultdict(list)
    for part in array.parts:
        origin = tuple(start for start, _ in part.box)
        for place, box in _cut(part.box, cell):
            found[place].append(Fragment(part.source, box, origin))
    pieces = []
    for place in sorted(found):
        fragments = tuple(found[place])
        size = sum(count_items(each.box) for each in fragments) * array.itemsize
        start = 0 if array.axis is None else place[array.axis] * cell[array.axis]
        pieces.append(Piece(array.name, fragments, size, start))
    return pieces


def bounding(boxes: Sequence[Box]) -> Box | None:
    """The box that boxes, which don't overlap, fill without gaps; None where there is none."""
    ends = [list(zip(*each, strict=True)) for each in zip(*boxes, strict=True)]
    whole = tuple((min(starts), max(stops)) for starts, stops in ends)
    return whole if sum(map(count_items, boxes)) == count_items(whole) else None


def _choose_cell(array: NativeArray, most_bytes: int) -> Shape:
    goals = [
        min(-(-size // unit) * unit, length)
        for size, unit, length in zip(array.source_chunks, array.unit, array.shape, strict=True)
    ]
    size = grow(array.unit, array.shape, most_bytes // max(array.itemsize, 1), goals)
    # A whole axis need not be a multiple of the unit, and cells have to end where chunks do.
    return tuple(-(-each // unit) * unit for each, unit in zip(size, array.unit, strict=True))


def _cut(box: Box, cell: Shape) -> Iterable[tuple[Shape, Box]]:
    """The parts of a box by the cell that they lie in."""
    axes = [
        [
            (number, (max(start, number * size), min(stop, (number + 1) * size)))
            for number in range(start // size, -(-stop // size))
        ]
        for (start, stop), size in zip(box, cell, strict=True)
    ]
    for combination in product(*axes):
        yield tuple(each[0] for each in combination), tuple(each[1] for each in combination)
