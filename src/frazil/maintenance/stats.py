"""Measure the total size of a repository's chunks."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from struct import Struct
from tempfile import SpooledTemporaryFile
from typing import Self

import numpy as np
import zstandard
from numpy.typing import NDArray

from frazil.format.manifest import ChunkKind, ChunkRefs, ChunkTable, Manifest, NativeChunks
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.reachability import (
    ID_SLICES,
    Ids,
    Reduction,
    WalkLimits,
    find_manifests,
    find_reachable,
    find_slices,
    ids_of,
    map_manifests,
    uncached,
)
from frazil.ops import ChunkStorageStats
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol

_DIGEST_SIZE = 16
PLACE_SIZE = _DIGEST_SIZE + 16
"""Size of the key that identifies a virtual chunk, in bytes."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunks by identifying key, with their sizes; may contain duplicates."""

    ids: Ids
    lengths: NDArray[np.uint64]

    def distinct(self) -> "Sizes":
        """Return the distinct chunks, in the order in which they were first found."""
        return self.take(find_first(self.ids))

    def take(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> "Sizes":
        """Return some of the chunks."""
        return Sizes(self.ids[rows], self.lengths[rows])

    @classmethod
    def unite(cls, parts: "Sequence[Sizes]") -> "Sizes":
        """Merge many parts into distinct chunks."""
        filled = [each for each in parts if len(each.ids)]
        if not filled:
            return _NOTHING
        ids = np.concatenate([each.ids for each in filled])
        return cls(ids, np.concatenate([each.lengths for each in filled])).distinct()


_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier that spreads values over the high bits."""


def find_first(ids: Ids) -> NDArray[np.intp]:
    """Return the rows of a column where an id is found for the first time, in ascending order.

    Strings are slow to sort: only those are compared whose hash another one has.
    """
    rows = np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), ids.dtype.itemsize)
    hashes = np.zeros(len(ids), np.uint64)
    for start in range(0, ids.dtype.itemsize, 8):
        word = np.zeros((len(ids), 8), np.uint8)
        word[:, : ids.dtype.itemsize - start] = rows[:, start : start + 8]
        hashes = (hashes ^ (hashes >> np.uint64(29)) ^ word.view(np.uint64)[:, 0]) * _MIX
    ordered = np.sort(hashes)
    shared = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(shared):
        return np.arange(len(ids))
    at = np.minimum(np.searchsorted(shared, hashes), len(shared) - 1)
    compared = np.flatnonzero(shared[at] == hashes)
    is_first = np.ones(len(ids), np.bool_)
    is_first[compared] = False
    is_first[compared[np.unique(ids[compared], return_index=True)[1]]] = True
    return np.flatnonzero(is_first)


class Spool:
    """Bytes by number, in temporary files from some size on."""

    def __init__(self, count: int) -> None:
        self._files = [
            SpooledTemporaryFile(_SPOOLED_BYTES)  # noqa: SIM115 (closed on exit)
            for _ in range(count)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._files:
            each.close()

    def add(self, number: int, source: int, data: bytes) -> None:
        """Keep the bytes of a source for a number."""
        self._files[number].write(_SPOOLED.pack(source, len(data)))
        self._files[number].write(data)

    def read(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield what was kept for a number, with its source, in the order in which it was added."""
        file = self._files[number]
        file.seek(0)
        while head := file.read(_SPOOLED.size):
            source, size = _SPOOLED.unpack(head)
            yield source, file.read(size)


_SPOOLED = Struct("<qq")
_SPOOLED_BYTES = 1 << 18


class Tally:
    """Counter of the bytes of distinct chunks.

    More than some chunks are kept in temporary files by id range, and each range is compared at once: a
    chunk costs the same among a few and among many, and memory a part of them.
    """

    def __init__(self, at_once: int = 1 << 19) -> None:
        self._at_once = at_once
        self._spool: Spool | None = None
        self._waiting: list[Sizes] = []
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._spool is not None:
            self._spool.__exit__()

    def add(self, sizes: Sizes) -> None:
        """Add some chunks."""
        if len(sizes.ids):
            self._waiting.append(sizes)
            self._count += len(sizes.ids)
        if self._count >= self._at_once:
            self._keep_waiting()

    def total_bytes(self) -> int:
        """Return the total size of all chunks that were added."""
        if self._spool is None:
            return int(Sizes.unite(self._waiting).lengths.sum())
        self._keep_waiting()
        return sum(
            sum(sum_distinct(data for _, data in self._spool.read(number)))
            for number in range(ID_SLICES)
        )

    def _keep_waiting(self) -> None:
        self._spool = self._spool or Spool(ID_SLICES)
        for number, part in split_sizes(Sizes.unite(self._waiting), ID_SLICES):
            self._spool.add(number, 0, pack_sizes(part))
        self._waiting, self._count = [], 0


def sum_distinct(parts: Iterable[bytes]) -> tuple[int, int]:
    """Return the bytes of the distinct native and virtual chunks in packed parts."""
    natives: list[Sizes] = []
    virtuals: list[Sizes] = []
    for each in map(unpack_sizes, parts):
        (virtuals if each.ids.dtype.itemsize == PLACE_SIZE else natives).append(each)
    native, virtual = (int(Sizes.unite(each).lengths.sum()) for each in (natives, virtuals))
    return native, virtual


_SLICE_BITS = np.uint64(64 - ID_SLICES.bit_length() + 1)


def spread(ids: Ids) -> NDArray[np.uint8]:
    """Return a hash slice for each chunk, evenly distributed.

    Ids of native chunks are random already. Many virtual chunks may be in one source file, so that
    their keys have a common prefix.
    """
    if ids.dtype.itemsize != PLACE_SIZE:
        return find_slices(ids)
    words = np.ascontiguousarray(ids).view("<u8").reshape(len(ids), -1)
    slices: NDArray[np.uint8] = ((words[:, 0] + words[:, 2] * _MIX) >> _SLICE_BITS).astype(np.uint8)
    return slices


def split_sizes(sizes: Sizes, count: int) -> Iterator[tuple[int, Sizes]]:
    """Yield the chunks of each of `count` id ranges that has some."""
    if not len(sizes.ids):
        return
    numbers = spread(sizes.ids) // (ID_SLICES // count)
    ordered = sizes.take(np.argsort(numbers, kind="stable"))
    edges = np.searchsorted(np.sort(numbers), np.arange(count + 1)).tolist()
    for number, (begin, end) in enumerate(pairwise(edges)):
        if end > begin:
            yield number, ordered.take(slice(begin, end))


def pack_sizes(sizes: Sizes) -> bytes:
    """Encode sizes as bytes; the first byte is the width of the ids."""
    width, count = sizes.ids.dtype.itemsize, len(sizes.ids)
    # Columns of bytes: keys of virtual chunks begin alike, and end with their lengths.
    rows = np.ascontiguousarray(sizes.ids).view(np.uint8).reshape(count, width)
    lengths = b"" if width == PLACE_SIZE else sizes.lengths.astype("<u8").tobytes()
    return bytes([width]) + zstandard.compress(rows.T.tobytes() + lengths, 1)


def unpack_sizes(data: bytes) -> Sizes:
    """Decode sizes from bytes."""
    width, columns = data[0], zstandard.decompress(memoryview(data)[1:])
    count = len(columns) // (width if width == PLACE_SIZE else width + 8)
    rows = np.frombuffer(columns, np.uint8, count * width).reshape(width, count).T.copy()
    if width == PLACE_SIZE:
        lengths = rows[:, -8:].copy().view("<u8").reshape(count)
    else:
        lengths = np.frombuffer(columns, "<u8", count, count * width)
    return Sizes(ids_of(rows), lengths)


_NOTHING = Sizes(np.empty(0, np.bytes_), np.empty(0, np.uint64))


@dataclass(frozen=True, slots=True)
class ArraySizes:
    """Sizes of the chunks of one array in one manifest."""

    native: Sizes
    virtual: Sizes = _NOTHING
    inlined_bytes: int = 0


class ChunkTally:
    """Counter of the bytes of the distinct chunks of many manifests, in bounded memory."""

    def __init__(self) -> None:
        self._natives, self._virtuals = Tally(), Tally()
        self._inlined_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._natives.__exit__()
        self._virtuals.__exit__()

    def add(
        self, assets: Assets, manifests: Collection[ManifestFileInfo], limits: WalkLimits
    ) -> None:
        """Read some manifests, and add their chunks."""
        for arrays in map_manifests(assets, manifests, SIZES, limits):
            for sizes in arrays:
                self._natives.add(sizes.native)
                self._virtuals.add(sizes.virtual)
                self._inlined_bytes += sizes.inlined_bytes

    def total(self) -> ChunkStorageStats:
        """Return the total size of all chunks that were added."""
        totals = self._natives.total_bytes(), self._virtuals.total_bytes()
        return ChunkStorageStats(*totals, self._inlined_bytes)


def measure_chunks(protocol: CommitProtocol, limits: WalkLimits) -> ChunkStorageStats:
    """Return the total size of all chunks that are reachable from a branch or a tag."""
    assets = uncached(protocol.assets)
    manifests = find_manifests(assets, find_reachable(protocol), limits).values()
    with ChunkTally() as tally:
        tally.add(assets, manifests, limits)
        return tally.total()


def measure_manifest(manifest: Manifest) -> list[ArraySizes]:
    """Return the chunk sizes of a manifest, one entry per array."""
    return [measure_refs(refs) for refs in manifest.arrays.values()]


def measure_natives(natives: NativeChunks) -> list[ArraySizes]:
    """Return the sizes of native chunks, of any arrays."""
    return [ArraySizes(Sizes(ids_of(natives.ids), natives.lengths))]


SIZES = Reduction(measure_natives, measure_manifest)
"""Reduction of manifests to the sizes of their chunks."""


def measure_refs(refs: ChunkRefs) -> ArraySizes:
    """Return the chunk sizes of an array; decodes all references only if some are not native."""
    natives = refs.natives()
    native = Sizes(ids_of(natives.ids), natives.lengths)
    if len(natives) == len(refs):
        return ArraySizes(native)
    table = refs.table()
    virtual = _measure_virtual(table.take(table.kind == ChunkKind.VIRTUAL))
    inlined_bytes = int(table.length[table.kind == ChunkKind.INLINE].sum())
    return ArraySizes(native, virtual, inlined_bytes)


def _measure_virtual(table: ChunkTable) -> Sizes:
    """Return virtual chunks keyed by location digest, offset and length."""
    digests = b"".join(
        blake2b(location, digest_size=_DIGEST_SIZE).digest()
        for location in table.locations.encoded_list()
    )
    columns = [
        np.frombuffer(digests, np.uint8).reshape(-1, _DIGEST_SIZE)[table.location],
        _as_bytes(table.offset),
        _as_bytes(table.length),
    ]
    return Sizes(ids_of(np.concatenate(columns, axis=1)), table.length)


def _as_bytes(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8)
