"""Looking for small chunks in stretches of arrays, to plan what becomes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frazil.assets import Assets
from frazil.spark.packing.choosing import Choice, Chosen, choose
from frazil.spark.packing.pieces import Pieces, Sizes, count_distinct, cut
from frazil.spark.packing.sharing import LeftMarks, Marks, leave_marks, make_marks
from frazil.spark.packing.stretches import Stretch, read_natives


@dataclass(frozen=True, slots=True)
class Span:
    """Small pieces of a stretch, from one to another, that become one object."""

    start: int
    stop: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Looked:
    """What is to be done with a stretch."""

    spans: tuple[Span, ...]
    chunks: int
    """References that change."""
    objects: int
    """That these pieces are in so far."""
    follows: bool
    """Whether some references are to pieces that were moved."""

    def __bool__(self) -> bool:
        return bool(self.spans or self.follows)


def look(chosen: Chosen, sizes: Sizes) -> Looked:
    """Plan what becomes of a stretch."""
    small = chosen.small
    lengths = small.length.astype(np.int64)
    spans = tuple(
        Span(start, stop, int(lengths[start:stop].sum())) for start, stop in cut(small, sizes)
    )
    follows = int(np.sum(chosen.moved[chosen.number] >= 0))
    packed = len(chosen.rows_of(chosen.packed)[0]) if spans else 0
    objects = count_distinct(small.object) if spans else 0
    return Looked(spans, packed + follows, objects, follows > 0)


@dataclass(frozen=True, slots=True)
class Looks:
    """What a task found in its stretches."""

    looked: tuple[Looked, ...]
    marks: Marks | LeftMarks | None


@dataclass(frozen=True, slots=True)
class LookAt:
    """A task: looks at numbered stretches."""

    assets: Assets
    choice: Choice
    id_size: int
    ranges: int
    """In how many ranges of ids marks are left in the storage; 0 to return them."""
    wants_marks: bool

    def __call__(self, stretches: Sequence[tuple[int, Stretch]]) -> Looks:
        """What is to be done, and marks of all pieces that may be small."""
        looked, found = [], []
        for number, stretch in stretches:
            chosen = choose(read_natives(self.assets, stretch), self.choice)
            looked.append(look(chosen, self.choice.sizes))
            if self.wants_marks:
                is_short = chosen.pieces.length < self.choice.sizes.smaller_than
                found.append((number, chosen.pieces.take(is_short)))
        return Looks(tuple(looked), self._mark(found) if self.wants_marks else None)

    def _mark(self, found: Sequence[tuple[int, Pieces]]) -> Marks | LeftMarks:
        marks = make_marks(found, self.id_size)
        if not self.ranges:
            return marks
        left = leave_marks(self.assets, marks, self.ranges)
        self.assets.storage.flush()
        return left
