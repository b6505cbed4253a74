"""How an array gets other chunks in bounded memory: pure.

A task holds one box of elements at a time. In one pass a box is made of whole chunks of the target, and
chunks of the source that reach over its edges are read by several tasks. In two passes the first one
reads boxes of whole chunks of the source and writes them in chunks that lie between the two; the
second one puts these together. This is the algorithm of the `rechunker` package, but for the choice
between the two: whichever reads and writes less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod
from operator import itemgetter

from frazil.errors import InvalidInputError
from frazil.spark.arrays.regions import Shape, balance, grow


@dataclass(frozen=True, slots=True)
class Pass:
    """Copying an array box by box."""

    box: Shape
    """What a task holds at a time."""
    target_chunks: Shape
    """Of which every box has whole ones."""


@dataclass(frozen=True, slots=True)
class RechunkPlan:
    """One pass, or two with an array between them."""

    passes: tuple[Pass, ...]
    cost: Fraction
    """Bytes read and written, as a multiple of the array's."""

    @property
    def is_direct(self) -> bool:
        """Whether no array between is needed."""
        return len(self.passes) == 1


def plan_rechunk(
    shape: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    itemsize: int,
    max_memory: int,
    task_bytes: int | None = None,
) -> RechunkPlan:
    """The cheaper plan of the two whose boxes take half of the memory.

    The other half is for the chunks that are read or written meanwhile. In two passes boxes may be
    smaller at no cost: they take no more than a task should, if that is known. Raises
    InvalidInputError if a single chunk takes more.
    """
    most = max_memory // 2 // max(itemsize, 1)
    fair = most if task_bytes is None else min(most, task_bytes // max(itemsize, 1))
    for name, chunks in (("source", source), ("target", target)):
        _refuse_large(name, _clip(chunks, shape), itemsize, max_memory, most)
    plans = [_plan_direct(shape, source, target, most), _plan_staged(shape, source, target, fair)]
    return min(plans, key=lambda plan: plan.cost)


def _plan_direct(
    shape: Sequence[int], source: Sequence[int], target: Sequence[int], most: int
) -> RechunkPlan:
    common = [min(lcm(a, b), n) for a, b, n in zip(source, target, shape, strict=True)]
    box = grow(target, shape, most, common)
    boxes = (balance(box, target, shape), box)
    cost, box = min(((_reading(shape, source, each), each) for each in boxes), key=itemgetter(0))
    return RechunkPlan((Pass(box, tuple(target)),), cost + 1)


def _plan_staged(
    shape: Sequence[int], source: Sequence[int], target: Sequence[int], most: int
) -> RechunkPlan:
    write = balance(grow(target, shape, most, _up_to(source, target, shape)), target, shape)
    read = balance(grow(source, shape, most, _up_to(write, source, shape)), source, shape)
    between = tuple(map(min, read, write))
    read = tuple(
        size if size == length else size - size % step
        for size, step, length in zip(read, between, shape, strict=True)
    )
    cost = _reading(shape, source, read) + 1 + _reading(shape, between, write) + 1
    return RechunkPlan((Pass(read, between), Pass(write, tuple(target))), cost)


def _up_to(goal: Sequence[int], unit: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The goal in whole units, no longer than the array."""
    return [min(-(-g // u) * u, n) for g, u, n in zip(goal, unit, shape, strict=True)]


def _reading(shape: Sequence[int], chunks: Sequence[int], box: Sequence[int]) -> Fraction:
    """What is read if every box reads all chunks it touches, as a multiple of the array's elements."""
    return prod(
        (_reading_along(n, c, b) for n, c, b in zip(shape, chunks, box, strict=True)),
        start=Fraction(1),
    )


def _reading_along(length: int, chunk: int, box: int) -> Fraction:
    if length == 0 or box % chunk == 0 or box >= length:
        return Fraction(1)
    touched = 0
    for start in range(0, length, box):
        stop = min(start + box, length)
        touched += min(-(-stop // chunk) * chunk, length) - start // chunk * chunk
    return Fraction(touched, length)


def _clip(chunks: Sequence[int], shape: Sequence[int]) -> Shape:
    return tuple(map(min, chunks, shape))


def _refuse_large(
    name: str, chunks: Sequence[int], itemsize: int, max_memory: int, most: int
) -> None:
    if prod(chunks) > most:
        raise InvalidInputError(
            f"a chunk of the {name}, {'x'.join(map(str, chunks))}, takes {prod(chunks) * itemsize} "
            f"bytes, which is more than half of max_memory ({max_memory} bytes)"
        )
