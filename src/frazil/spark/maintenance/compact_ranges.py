"""Ranges of arrays whose small chunks are packed together, and their pieces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from frazil.config.conditions import ManifestSplitCondition
from frazil.errors import InvalidInputError
from frazil.format.coordinates import Extents, count_places
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import ChunkKind, ChunkTable, concatenate
from frazil.format.snapshot import ManifestFileInfo, ManifestRef, Node
from frazil.maintenance.reachability import pack
from frazil.protocols.assets import Assets
from frazil.repository.commit import manifests_by_region
from frazil.repository.zarr_keys import plan_split
from frazil.spark.regions import MOST_REFERENCES, plan_sizes


@dataclass(frozen=True, slots=True)
class ArrayRange:
    """Box of chunks of an array, and the manifests that may hold their references."""

    path: str
    node_id: NodeId
    box: Extents
    manifests: tuple[ManifestRef, ...]


def plan_ranges(
    nodes: Iterable[Node], dialect: Dialect, most: int = MOST_REFERENCES
) -> list[ArrayRange]:
    """Split arrays into ranges of at most `most` chunks, in the order of the grid."""
    return [array_range for node in nodes for array_range in _plan_array(node, dialect, most)]


def _plan_array(node: Node, dialect: Dialect, most: int) -> Iterator[ArrayRange]:
    assert node.array is not None
    counts = [each.num_chunks for each in node.array.shape]
    rule = (ManifestSplitCondition.AnyArray(), plan_sizes(counts, None, most))
    grid = plan_split(node.path, node.array, [rule])
    regions = manifests_by_region(node.array, grid, dialect)
    for region in sorted(regions):
        yield ArrayRange(node.path, node.id, grid.extents(region), tuple(regions[region]))


def read_natives(assets: Assets, array_range: ArrayRange) -> ChunkTable:
    """Return the native references of an array range, except those of length 0."""
    axes = len(array_range.box)
    tables = [
        assets.read_manifest(ref.id).table(array_range.node_id, axes).select(array_range.box)
        for ref in array_range.manifests
    ]
    table = concatenate(tables)
    return table.take((table.kind == ChunkKind.NATIVE) & (table.length > 0))


T = TypeVar("T")

TASK_REFERENCES = 200_000
"""About half a second of work; below this the overhead of a task exceeds its work."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """Maximum references of an item, and those of the largest manifest it is read from."""

    references: int
    read: int


def weigh(
    box: Extents, manifests: Iterable[ManifestRef], counts: Mapping[ManifestId, int]
) -> ReadCost:
    """Return the cost of reading the references of a box from these manifests."""
    sizes = [counts.get(ref.id, count_places(ref.extents or box)) for ref in manifests]
    return ReadCost(min(count_places(box), sum(sizes)), max(sizes, default=0))


def count_references(files: Iterable[ManifestFileInfo]) -> dict[ManifestId, int]:
    """Return the recorded number of references of each manifest."""
    return {info.id: info.num_chunk_refs for info in files if info.num_chunk_refs is not None}


def group(items: Sequence[T], costs: Sequence[ReadCost], slots: int) -> list[list[T]]:
    """Group neighbours into tasks so that about as many tasks read a large manifest as run at once.

    Each of them must read the whole manifest, however small its part.
    """
    weights = [
        cost.references * TASK_REFERENCES // max(TASK_REFERENCES, cost.read // slots)
        for cost in costs
    ]
    return pack(items, weights, TASK_REFERENCES)


TIMES = 4
"""Minimum ratio of `target` to `smaller_than`."""

Numbers = NDArray[np.int64]
Keys = NDArray[Any]
"""Keys of fixed size, as bytes."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Size below which an object is small, and the target size, in bytes."""

    smaller_than: int
    target: int

    def __post_init__(self) -> None:
        if self.target < TIMES * self.smaller_than:
            raise InvalidInputError(
                f"target is {self.target:,} bytes, and must be at least {TIMES} times smaller_than,"
                f" which is {self.smaller_than:,}"
            )

    def count_objects(self, size: int) -> int:
        """Return the number of objects for this many bytes."""
        return max(1, round(size / self.target))


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces (byte ranges) of objects. Create them with `of`, which numbers the objects."""

    chunk_id: NDArray[np.uint8]
    """One row of bytes per piece."""
    offset: NDArray[np.uint64]
    length: NDArray[np.uint64]
    object: Numbers
    """Number of the object of each piece."""

    @classmethod
    def of(
        cls, chunk_id: NDArray[np.uint8], offset: NDArray[np.uint64], length: NDArray[np.uint64]
    ) -> Self:
        """Return pieces with these columns."""
        return cls(chunk_id, offset, length, number_rows(words_of(chunk_id))[1])

    @classmethod
    def empty(cls, id_size: int) -> Self:
        """Return no pieces."""
        nothing = np.empty(0, np.uint64)
        return cls.of(np.empty((0, id_size), np.uint8), nothing, nothing)

    def unique(self) -> tuple[Self, Numbers]:
        """Return the distinct pieces in the order of their first rows, and for each row its piece."""
        if count_distinct(self.object) == len(self):
            return self, np.arange(len(self))
        first, numbers = number_rows([self.object.astype(np.uint64), self.offset, self.length])
        return self.take(first), numbers

    def __len__(self) -> int:
        return len(self.length)

    def take(self, rows: NDArray[Any] | slice) -> Self:
        """Return the pieces in these rows."""
        return type(self)(
            self.chunk_id[rows], self.offset[rows], self.length[rows], self.object[rows]
        )

    @property
    def bytes(self) -> int:
        """Total size of the pieces."""
        return int(self.length.sum())

    def ids(self) -> Keys:
        """Return the ids of their objects as comparable keys."""
        size = self.chunk_id.shape[1]
        return np.ascontiguousarray(self.chunk_id).view(f"S{size}").reshape(-1)

    def keys(self) -> Keys:
        """Return comparable keys of id, offset and length."""
        numbers = np.stack([self.offset, self.length], axis=1).astype("<u8")
        rows = np.concatenate([self.chunk_id, numbers.view(np.uint8).reshape(-1, 16)], axis=1)
        return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}").reshape(-1)

    def object_sizes(self) -> Numbers:
        """Return for each piece the total bytes of all pieces of its object."""
        sums = np.zeros(int(self.object.max(initial=-1)) + 1, np.int64)
        np.add.at(sums, self.object, self.length.astype(np.int64))
        return sums[self.object]


def words_of(ids: NDArray[np.uint8]) -> list[NDArray[np.uint64]]:
    """Return ids, one row of bytes each, as columns of integers that sort in the same order."""
    size = -(-ids.shape[1] // 8) * 8
    padded = np.zeros((len(ids), size), np.uint8)
    padded[:, : ids.shape[1]] = ids
    return list(padded.view(">u8").astype(np.uint64).T)


def number_rows(columns: Sequence[NDArray[np.uint64]]) -> tuple[Numbers, Numbers]:
    """Return the first row of each distinct row, in order, and for each row its distinct row."""
    order = np.lexsort(list(columns)[::-1])
    is_new = np.zeros(len(order), np.bool_)
    is_new[:1] = True
    for column in columns:
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    # The sort is stable, so that the first of equal rows is the earliest.
    first = order[is_new]
    by_place = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[by_place] = np.arange(len(first))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = rank[np.cumsum(is_new) - 1]
    return first[by_place], numbers


def count_distinct(numbers: Numbers) -> int:
    """Return the number of distinct values; the values must be small integers."""
    return int(np.count_nonzero(np.bincount(numbers))) if len(numbers) else 0


def find_small(pieces: Pieces, sizes: Sizes) -> NDArray[np.bool_]:
    """Return a mask of the pieces of small objects; the pieces must be distinct."""
    return pieces.object_sizes() < sizes.smaller_than


def cut(pieces: Pieces, sizes: Sizes) -> list[tuple[int, int]]:
    """Return the start and stop of the pieces of each new object; empty if that saves no objects."""
    total = pieces.bytes
    count = sizes.count_objects(total)
    if count_distinct(pieces.object) <= count:
        return []
    stops = np.cumsum(pieces.length.astype(np.int64))
    middles = stops - pieces.length.astype(np.int64) // 2 - 1
    number = np.minimum(middles * count // total, count - 1)
    firsts = np.flatnonzero(np.diff(number, prepend=-1))
    return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(pieces)], strict=True))
