"""Count the bytes of the chunks of a repository."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from frazil.format.chunk_table import ChunkKind, ChunkTable, NativeChunks
from frazil.format.manifest import ChunkRefs, Manifest
from frazil.maintenance.id_ranges import Ids, IdSet, ids_of
from frazil.maintenance.reachability import (
    Reduction,
    WalkLimits,
    find_manifests,
    find_reachable,
    map_manifests,
    uncached,
)
from frazil.ops import ChunkStorageStats
from frazil.protocols.protocol import CommitProtocol

_DIGEST_SIZE = 16
PLACE_SIZE = _DIGEST_SIZE + 16
"""Of what tells virtual chunks apart, in bytes."""
_COUNTED_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunks by what tells them apart, and how many bytes each has; they may repeat."""

    ids: Ids
    lengths: NDArray[np.uint64]

    def distinct(self) -> "Sizes":
        """Each once, sorted."""
        ids, first = np.unique(self.ids, return_index=True)
        return Sizes(ids, self.lengths[first])

    @classmethod
    def unite(cls, parts: "Sequence[Sizes]") -> "Sizes":
        """Those of many, each once, sorted."""
        filled = [each for each in parts if len(each.ids)]
        if not filled:
            return _NOTHING
        ids = np.concatenate([each.ids for each in filled])
        return cls(ids, np.concatenate([each.lengths for each in filled])).distinct()


class Tally:
    """Counts the bytes of chunks, each chunk once, many chunks at a time."""

    def __init__(self) -> None:
        self._known = IdSet()
        self._waiting: list[Sizes] = []
        self._count = 0
        self._bytes = 0

    def add(self, sizes: Sizes) -> None:
        """Take up some chunks."""
        if len(sizes.ids):
            self._waiting.append(sizes)
            self._count += len(sizes.ids)
        if self._count >= _COUNTED_AT_ONCE:
            self._settle()

    def total_bytes(self) -> int:
        """Of all that were taken up."""
        self._settle()
        return self._bytes

    def _settle(self) -> None:
        if self._waiting:
            sizes = Sizes.unite(self._waiting)
            self._bytes += int(sizes.lengths[self._known.add(sizes.ids)].sum())
        self._waiting, self._count = [], 0


_NOTHING = Sizes(np.empty(0, np.bytes_), np.empty(0, np.uint64))


@dataclass(frozen=True, slots=True)
class ArraySizes:
    """Of the chunks of one array in one manifest."""

    native: Sizes
    virtual: Sizes = _NOTHING
    inlined_bytes: int = 0


def measure_chunks(protocol: CommitProtocol, limits: WalkLimits) -> ChunkStorageStats:
    """The bytes of all chunks that a branch or a tag leads to."""
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
    """The sizes of all that a manifest refers to, an entry for each array."""
    return [measure_refs(refs) for refs in manifest.arrays.values()]


def measure_natives(natives: NativeChunks) -> list[ArraySizes]:
    """The sizes of native chunks, whatever arrays they are of."""
    return [ArraySizes(Sizes(ids_of(natives.ids), natives.lengths))]


SIZES = Reduction(measure_natives, measure_manifest)
"""Manifests as the sizes of all that they refer to."""


def measure_refs(refs: ChunkRefs) -> ArraySizes:
    """The sizes of all that an array refers to; only where some are not native is all decoded."""
    natives = refs.natives()
    native = Sizes(ids_of(natives.ids), natives.lengths)
    if len(natives) == len(refs):
        return ArraySizes(native)
    table = refs.table()
    virtual = _measure_virtual(table.take(table.kind == ChunkKind.VIRTUAL))
    inlined_bytes = int(table.length[table.kind == ChunkKind.INLINE].sum())
    return ArraySizes(native, virtual, inlined_bytes)


def _measure_virtual(table: ChunkTable) -> Sizes:
    """By location, offset and length; locations by a digest, which has one width."""
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
