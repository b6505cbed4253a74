"""How many bytes the chunks of a repository have.

A native chunk counts once by its id, a virtual one once by its place in its file; an inline chunk
counts wherever it is, because it is there each time.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from frazil.format.chunks import ChunkTable
from frazil.format.manifest import Manifest
from frazil.format.references import ChunkKind
from frazil.maintenance.id_columns import Ids, IdSet, ids_of
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.reach import find_reachable, with_empty_caches
from frazil.maintenance.walking import find_manifests, map_manifests, uncached
from frazil.protocols.interface import CommitProtocol
from frazil.states import ChunkStorageStats

_DIGEST_SIZE = 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunks by what tells them apart, each once, sorted; and how many bytes each has."""

    ids: Ids
    lengths: NDArray[np.uint64]

    @classmethod
    def of(cls, rows: NDArray[np.uint8], lengths: NDArray[np.uint64]) -> "Sizes":
        """Of rows that may repeat."""
        ids, first = np.unique(ids_of(rows), return_index=True)
        return cls(ids, lengths[first])

    def count_new(self, known: IdSet) -> int:
        """The bytes of those that are not known yet; now they are."""
        return int(self.lengths[known.add(self.ids)].sum())


@dataclass(frozen=True, slots=True)
class ManifestSizes:
    """Of the chunks of one array in one manifest."""

    native: Sizes
    virtual: Sizes
    inlined_bytes: int


def measure_chunks(protocol: CommitProtocol, limits: WalkLimits) -> ChunkStorageStats:
    """The bytes of all chunks that a branch or a tag leads to."""
    assets = uncached(protocol.assets)
    snapshots = find_reachable(with_empty_caches(protocol))
    manifests = find_manifests(assets, snapshots, limits).values()
    natives, virtuals = IdSet(), IdSet()
    native_bytes = virtual_bytes = inlined_bytes = 0
    for tables in map_manifests(assets, manifests, measure_manifest, limits):
        for sizes in tables:
            native_bytes += sizes.native.count_new(natives)
            virtual_bytes += sizes.virtual.count_new(virtuals)
            inlined_bytes += sizes.inlined_bytes
    return ChunkStorageStats(native_bytes, virtual_bytes, inlined_bytes)


def measure_manifest(manifest: Manifest) -> list[ManifestSizes]:
    """The sizes of all that a manifest refers to, an entry for each array."""
    return [measure_table(table) for table in manifest.tables().values()]


def measure_table(table: ChunkTable) -> ManifestSizes:
    """The sizes of all that a table refers to."""
    is_native = table.kind == ChunkKind.NATIVE
    is_inline = table.kind == ChunkKind.INLINE
    return ManifestSizes(
        Sizes.of(table.chunk_id[is_native], table.length[is_native]),
        _measure_virtual(table.take(table.kind == ChunkKind.VIRTUAL)),
        int(table.length[is_inline].sum()),
    )


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
    return Sizes.of(np.concatenate(columns, axis=1), table.length)


def _as_bytes(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8)
