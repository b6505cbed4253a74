"""Looking for small chunks in stretches of arrays, to plan what becomes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frazil.assets import Assets
from frazil.format.chunks import ChunkTable
from frazil.spark.packing.choosing import Choice, choose
from frazil.spark.packing.pieces import Pieces, cut
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


def look(table: ChunkTable, choice: Choice) -> Looked:
    """Plan what becomes of a stretch."""
    chosen = choose(table, choice)
    small = chosen.small
    lengths = small.length.astype(np.int64)
    spans = tuple(
        Span(start, stop, int(lengths[start:stop].sum()))
        for start, stop in cut(small, choice.sizes)
    )
    follows = int(np.sum(chosen.moved[chosen.number] >= 0))
    packed = int(np.isin(chosen.number, chosen.packed).sum()) if spans else 0
    objects = small.count_objects() if spans else 0
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
        tables = [(number, read_natives(self.assets, each)) for number, each in stretches]
        looked = tuple(look(table, self.choice) for _, table in tables)
        if not self.wants_marks:
            return Looks(looked, None)
        found = [(number, self._find_markable(table)) for number, table in tables]
        marks = make_marks(found, self.id_size)
        if not self.ranges:
            return Looks(looked, marks)
        left = leave_marks(self.assets, marks, self.ranges)
        self.assets.storage.flush()
        return Looks(looked, left)

    def _find_markable(self, table: ChunkTable) -> Pieces:
        pieces, _ = Pieces.of(table)
        return pieces.take(pieces.length < self.choice.sizes.smaller_than)
