"""Objects that several stretches have pieces of, found without holding all pieces in one place.

Whoever looks at stretches makes a mark for each piece, and sorts marks by the ids of their objects.
Ids are random, so that a range of them has about its share of the marks: somebody who has all marks of
a range knows of each object of the range in which stretches it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.format.ids import ChunkId
from frazil.spark.packing.pieces import Keys, Pieces, Sizes, number_rows, words_of

Marks = NDArray[Any]
"""A structured array: `id`, `offset`, `length`, the number of the `stretch`, the `rank` there."""

MARKS_TOGETHER = 1_000_000
"""About so many are looked at by one task."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Objects that are in several stretches, and pieces of those that are small."""

    ids: Keys
    """Of all of them, sorted: whoever packs a stretch leaves them."""
    small: Pieces
    """In the order of the stretches."""
    places: NDArray[np.uint32]
    """For each small piece its first stretch and its rank there, a row each."""
    left: frozenset[int] = frozenset()
    """Stretches that share too much with others."""

    @classmethod
    def nothing(cls, id_size: int) -> Self:
        """No such object."""
        pieces = Pieces.empty(id_size)
        return cls(pieces.ids(), pieces, np.empty((0, 2), np.uint32))


def mark_type(id_size: int) -> np.dtype[Any]:
    """The columns of marks."""
    return np.dtype(
        [("id", f"S{id_size}"), ("offset", "<u8"), ("length", "<u8"), ("stretch", "<u4"),
         ("rank", "<u4")]
    )  # fmt: skip


def make_marks(found: Sequence[tuple[int, Pieces]], id_size: int) -> Marks:
    """Marks of the pieces of numbered stretches, sorted."""
    marks = np.empty(sum(len(pieces) for _, pieces in found), mark_type(id_size))
    at = 0
    for number, pieces in found:
        part = marks[at : at + len(pieces)]
        part["id"], part["offset"], part["length"] = pieces.ids(), pieces.offset, pieces.length
        part["stretch"], part["rank"] = number, np.arange(len(pieces))
        at += len(pieces)
    return marks[np.lexsort(words_of(_ids_of(marks))[::-1])]


def find_shared(marks: Marks, sizes: Sizes, most: int | None = None) -> Shared:
    """The objects that more than one stretch has marks of.

    If these have more than so many small pieces, only which stretches they are in.
    """
    ids = words_of(_ids_of(marks))
    order = np.lexsort((marks["rank"], marks["stretch"], *reversed(ids)))
    object_number = number_rows([word[order] for word in ids])[1]
    stretches = marks["stretch"][order]
    first = np.flatnonzero(np.diff(object_number, prepend=-1))
    last = np.append(first, len(marks))[1:] - 1
    met = marks[order[(stretches[first] != stretches[last])[object_number]]]
    pieces, numbers = _pieces_of(met).unique()
    is_small = pieces.object_sizes() < sizes.smaller_than
    if most is not None and int(is_small.sum()) > most:
        nothing = Shared.nothing(marks.dtype["id"].itemsize)
        return replace(nothing, left=frozenset(met["stretch"].tolist()))
    firsts = np.unique(numbers, return_index=True)[1]
    places = np.stack([met["stretch"][firsts], met["rank"][firsts]], axis=1)
    return _in_order(np.unique(met["id"]), pieces.take(is_small), places[is_small], frozenset())


def unite(parts: Sequence[Shared]) -> Shared:
    """What was found in several ranges, as one."""
    return _in_order(
        np.sort(np.concatenate([part.ids for part in parts])),
        Pieces.of(*(np.concatenate([getattr(part.small, name) for part in parts])
                    for name in ("chunk_id", "offset", "length"))),
        np.concatenate([part.places for part in parts]),
        frozenset().union(*(part.left for part in parts)),
    )  # fmt: skip


def _in_order(ids: Keys, small: Pieces, places: NDArray[np.uint32], left: frozenset[int]) -> Shared:
    order = np.lexsort((places[:, 1], places[:, 0]))
    return Shared(ids, small.take(order), places[order], left)


def _pieces_of(marks: Marks) -> Pieces:
    columns = (marks[name].astype(np.uint64) for name in ("offset", "length"))
    return Pieces.of(_ids_of(marks), *columns)


def _ids_of(marks: Marks) -> NDArray[np.uint8]:
    size = marks.dtype["id"].itemsize
    return np.ascontiguousarray(marks["id"]).view(np.uint8).reshape(-1, size)


# Over the storage


@dataclass(frozen=True, slots=True)
class LeftMarks:
    """Marks in an object that nothing refers to, and where each range of ids begins in it."""

    chunk_id: ChunkId
    edges: tuple[int, ...]


def leave_marks(assets: Assets, marks: Marks, ranges: int) -> LeftMarks:
    """Write marks, to be read by range."""
    heads = words_of(_ids_of(marks))[0] >> np.uint64(32)
    of_range = heads * np.uint64(ranges) >> np.uint64(32)
    edges = np.searchsorted(of_range, np.arange(ranges + 1, dtype=np.uint64))
    return LeftMarks(assets.write_chunk(marks.tobytes()), tuple(edges.tolist()))


@dataclass(frozen=True, slots=True)
class FindShared:
    """A task: the shared objects of one range of ids."""

    assets: Assets
    left: tuple[LeftMarks, ...]
    sizes: Sizes
    id_size: int
    most: int

    def __call__(self, number: int) -> Shared:
        """What is found in the marks of the range."""
        kind = mark_type(self.id_size)
        parts = [np.empty(0, kind)]
        for each in self.left:
            start, stop = each.edges[number], each.edges[number + 1]
            if start < stop:
                ends = start * kind.itemsize, stop * kind.itemsize
                parts.append(np.frombuffer(self.assets.read_chunk(each.chunk_id, *ends), kind))
        return find_shared(np.concatenate(parts), self.sizes, self.most)
