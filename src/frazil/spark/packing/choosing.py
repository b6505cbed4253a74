"""Which native references of a stretch change: pure."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from frazil.format.chunks import ChunkTable
from frazil.spark.packing.pieces import Keys, Numbers, Pieces, Sizes, find_small


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Pieces that are copied already, and where they are now."""

    keys: Keys
    """Sorted."""
    chunk_id: NDArray[np.uint8]
    offset: NDArray[np.uint64]

    @classmethod
    def nothing(cls, id_size: int) -> Self:
        """None that were copied."""
        pieces = Pieces.empty(id_size)
        return cls(pieces.keys(), pieces.chunk_id, pieces.offset)

    def find(self, pieces: Pieces) -> Numbers:
        """For each piece its row, or -1."""
        if not len(self.keys) or not len(pieces):
            return np.full(len(pieces), -1, np.int64)
        wanted = pieces.keys()
        rows = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[rows] == wanted, rows, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What is packed where."""

    sizes: Sizes
    shared_ids: Keys
    """Objects that are not a stretch's alone, sorted."""
    moved: Moved

    @classmethod
    def of(cls, sizes: Sizes, id_size: int) -> Self:
        """Of stretches that share nothing."""
        return cls(sizes, Pieces.empty(id_size).ids(), Moved.nothing(id_size))


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The native references of a stretch, and which of them are to change."""

    table: ChunkTable
    number: Numbers
    """For each reference that of its piece."""
    pieces: Pieces
    packed: Numbers
    """The numbers of the pieces that are packed, in order."""
    moved: Numbers
    """For each piece its row in `Moved`, or -1."""

    @property
    def small(self) -> Pieces:
        """The pieces that are packed."""
        return self.pieces.take(self.packed)

    def rows_of(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """The references to some pieces, and for each of them to which of these."""
        place = np.full(len(self.pieces), -1, np.int64)
        place[numbers] = np.arange(len(numbers))
        which = place[self.number]
        rows = np.flatnonzero(which >= 0)
        return rows, which[rows]


def choose(table: ChunkTable, choice: Choice) -> Chosen:
    """What of a stretch is packed, if that is worth it."""
    pieces, number = Pieces.of(table.chunk_id, table.offset, table.length).unique()
    is_small = find_small(pieces, choice.sizes)
    if len(choice.shared_ids):
        is_small &= ~np.isin(pieces.ids(), choice.shared_ids)
    return Chosen(table, number, pieces, np.flatnonzero(is_small), choice.moved.find(pieces))
