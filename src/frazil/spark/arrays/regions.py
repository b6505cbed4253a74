"""Cutting arrays into boxes of whole chunks, and boxes into tasks: pure.

A box is `(from, to)` for each axis, in elements. Boxes that are cut along multiples of a unit never
share a chunk of that shape.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

Box = tuple[tuple[int, int], ...]
Shape = tuple[int, ...]

MIB = 1 << 20
LEAST_TASK_BYTES = 64 * MIB
"""About half a second of work, without which a task costs more than it does."""
MOST_TASK_BYTES = 256 * MIB
TASKS_PER_SLOT = 3
"""So that slots that are done early find something to do."""


def choose_task_bytes(total_bytes: int, slots: int) -> int:
    """How much one task should take on."""
    fair = -(-total_bytes // (slots * TASKS_PER_SLOT))
    return min(max(fair, LEAST_TASK_BYTES), MOST_TASK_BYTES)


def whole(shape: Sequence[int]) -> Box:
    """The box of a whole array."""
    return tuple((0, size) for size in shape)


def count_items(box: Box) -> int:
    """How many elements a box has."""
    return prod(stop - start for start, stop in box)


def slices_of(box: Box) -> tuple[slice, ...]:
    """A box as an index."""
    return tuple(slice(start, stop) for start, stop in box)


def shift(box: Box, offsets: Sequence[int]) -> Box:
    """A box moved by so many elements."""
    return tuple(
        (start + offset, stop + offset) for (start, stop), offset in zip(box, offsets, strict=True)
    )


def cut(area: Box, unit: Sequence[int]) -> list[Box]:
    """The area in boxes that begin at multiples of the unit, but for those at its edge."""
    axes = [_cut_axis(*ends, size) for ends, size in zip(area, unit, strict=True)]
    return list(product(*axes))


def _cut_axis(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    first = start - start % size
    return [(max(start, low), min(stop, low + size)) for low in range(first, stop, size)]


def grow(
    unit: Sequence[int], shape: Sequence[int], most_items: int, goals: Sequence[int] | None = None
) -> Shape:
    """As many units along each axis as fit, or the whole axis; at least one unit.

    Axes are first grown up to their goals, the last one first, and then further.
    """
    sizes = [min(size, length) for size, length in zip(unit, shape, strict=True)]
    for targets in (goals or shape, shape):
        for axis in reversed(range(len(sizes))):
            others = prod(sizes) // sizes[axis] if sizes[axis] else 1
            most = min(targets[axis], most_items // max(others, 1))
            sizes[axis] = max(sizes[axis], _multiple(unit[axis], most, shape[axis]))
    return tuple(max(size, 1) for size in sizes)


def balance(size: Sequence[int], unit: Sequence[int], shape: Sequence[int]) -> Shape:
    """Whole units such that there are as many boxes along each axis, the last of them no small rest."""
    return tuple(map(_balance_axis, size, unit, shape))


def _balance_axis(size: int, unit: int, length: int) -> int:
    if size >= length:
        return size
    count = -(-length // size)
    return -(-length // (count * unit)) * unit


def _multiple(unit: int, most: int, length: int) -> int:
    return length if most >= length else most - most % unit
