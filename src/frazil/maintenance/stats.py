"""Measure the total size of a repository's chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from frazil.format.manifest import ChunkKind, ChunkRefs, ChunkTable, Manifest, NativeChunks
from frazil.maintenance.reachability import (
    Ids,
    IdSet,
    Reduction,
    WalkLimits,
    find_manifests,
    find_reachable,
    ids_of,
    map_manifests,
    uncached,
)
from frazil.ops import ChunkStorageStats
from frazil.protocols.protocol import CommitProtocol

_DIGEST_SIZE = 16
PLACE_SIZE = _DIGEST_SIZE + 16
"""Size of the key that identifies a virtual chunk, in bytes."""
_COUNTED_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunks by identifying key, with their sizes; may contain duplicates."""

    ids: Ids
    lengths: NDArray[np.uint64]

    def distinct(self) -> "Sizes":
        """Return the distinct chunks, sorted."""
        ids, first = np.unique(self.ids, return_index=True)
        return Sizes(ids, self.lengths[first])

    @classmethod
    def unite(cls, parts: "Sequence[Sizes]") -> "Sizes":
        """Merge many parts into distinct chunks, sorted."""
        filled = [each for each in parts if len(each.ids)]
        if not filled:
            return _NOTHING
        ids = np.concatenate([each.ids for each in filled])
        return cls(ids, np.concatenate([each.lengths for each in filled])).distinct()


class Tally:
    """Counter of the bytes of distinct chunks, which processes many chunks at a time."""

    def __init__(self) -> None:
        self._known = IdSet()
        self._waiting: list[Sizes] = []
        self._count = 0
        self._bytes = 0

    def add(self, sizes: Sizes) -> None:
        """Add some chunks."""
        if len(sizes.ids):
            self._waiting.append(sizes)
            self._count += len(sizes.ids)
        if self._count >= _COUNTED_AT_ONCE:
            self._add_waiting()

    def total_bytes(self) -> int:
        """Return the total size of all chunks that were added."""
        self._add_waiting()
        return self._bytes

    def _add_waiting(self) -> None:
        if self._waiting:
            sizes = Sizes.unite(self._waiting)
            self._bytes += int(sizes.lengths[self._known.add(sizes.ids)].sum())
        self._waiting, self._count = [], 0


_NOTHING = Sizes(np.empty(0, np.bytes_), np.empty(0, np.uint64))


@dataclass(frozen=True, slots=True)
class ArraySizes:
    """Sizes of the chunks of one array in one manifest."""

    native: Sizes
    virtual: Sizes = _NOTHING
    inlined_bytes: int = 0


def measure_chunks(protocol: CommitProtocol, limits: WalkLimits) -> ChunkStorageStats:
    """Return the total size of all chunks that are reachable from a branch or a tag."""
    assets = uncached(protocol.assets)
    snapshots = find_reachable(protocol)
    manifests = find_manifests(assets, snapshots, limits).values()
    natives, virtuals = Tally(), Tally()
    inlined_bytes = 0
    for arrays in map_manifests(assets, manifests, SIZES, limits):
        for sizes in arrays:
            natives.add(sizes.native)
            virtuals.add(sizes.virtual)
            inlined_bytes += sizes.inlined_bytes
    return ChunkStorageStats(natives.total_bytes(), virtuals.total_bytes(), inlined_bytes)


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
    return Sizes(ids_of(np.concatenate(columns, axis=1)), table.length).distinct()


def _as_bytes(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8)
