"""Which bytes of chunk objects references name, and how small objects become larger ones: pure.

A piece is a range of one object, however many references name it: it is copied once. An object is as
large as the pieces of it that are referred to, so that one of which hardly anything is used any more is
small as well.

What was packed is not packed again. Pieces are cut into objects of the same size, about the target,
which is at least four times as large as what counts as small: none of them is small then, but for one
that is alone. So there is never a smaller number of objects that they could be packed into.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.chunks import ChunkTable

TIMES = 4
"""So many times what is small is the least target."""

Numbers = NDArray[np.int64]
Keys = NDArray[Any]
"""Of fixed size, as bytes."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is small, and how large it should be, in bytes."""

    smaller_than: int
    target: int

    def __post_init__(self) -> None:
        if self.target < TIMES * self.smaller_than:
            raise InvalidInputError(
                f"target is {self.target:,} bytes, and must be at least {TIMES} times smaller_than,"
                f" which is {self.smaller_than:,}"
            )

    def count_objects(self, size: int) -> int:
        """How many objects so many bytes become."""
        return max(1, round(size / self.target))


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces that native references name, none twice, in the order of the first reference to each."""

    chunk_id: NDArray[np.uint8]
    """A row of bytes for each."""
    offset: NDArray[np.uint64]
    length: NDArray[np.uint64]

    @classmethod
    def empty(cls, id_size: int) -> Self:
        """No pieces."""
        nothing = np.empty(0, np.uint64)
        return cls(np.empty((0, id_size), np.uint8), nothing, nothing)

    @classmethod
    def of(cls, table: ChunkTable) -> tuple[Self, Numbers]:
        """The pieces of a table of native references, and for each reference the number of its own."""
        return cls(table.chunk_id, table.offset, table.length).unique()

    def unique(self) -> tuple[Self, Numbers]:
        """Each once, and for each row the number of its own."""
        _, first, which = np.unique(self.keys(), return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        return self.take(first[order]), numbers[which.reshape(-1)]

    def __len__(self) -> int:
        return len(self.length)

    def take(self, rows: NDArray[Any] | slice) -> Self:
        """Some of them."""
        return type(self)(self.chunk_id[rows], self.offset[rows], self.length[rows])

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return int(self.length.sum())

    def ids(self) -> Keys:
        """The names of their objects, to be compared."""
        size = self.chunk_id.shape[1]
        return np.ascontiguousarray(self.chunk_id).view(f"S{size}").reshape(-1)

    def keys(self) -> Keys:
        """What tells them apart, to be compared."""
        numbers = np.stack([self.offset, self.length], axis=1).astype("<u8")
        rows = np.concatenate([self.chunk_id, numbers.view(np.uint8).reshape(-1, 16)], axis=1)
        return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}").reshape(-1)

    def count_objects(self) -> int:
        """How many objects they are in."""
        return len(np.unique(self.ids()))

    def object_sizes(self) -> Numbers:
        """For each the bytes of all pieces of its object."""
        ids, which = np.unique(self.ids(), return_inverse=True)
        sums = np.zeros(len(ids), np.int64)
        np.add.at(sums, which.reshape(-1), self.length.astype(np.int64))
        return sums[which.reshape(-1)]


def find_small(pieces: Pieces, sizes: Sizes) -> NDArray[np.bool_]:
    """Which pieces are of small objects."""
    return pieces.object_sizes() < sizes.smaller_than


def cut(pieces: Pieces, sizes: Sizes) -> list[tuple[int, int]]:
    """From which piece to which each new object has them; none if there would not be fewer objects."""
    total = pieces.bytes
    count = sizes.count_objects(total)
    if pieces.count_objects() <= count:
        return []
    stops = np.cumsum(pieces.length.astype(np.int64))
    middles = stops - pieces.length.astype(np.int64) // 2 - 1
    number = np.minimum(middles * count // total, count - 1)
    firsts = np.flatnonzero(np.diff(number, prepend=-1))
    return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(pieces)], strict=True))
