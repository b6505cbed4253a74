"""Manifest: the chunk references of one or more arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from frazil.format.chunk_table import (
    FEW,
    ChunkIndex,
    ChunkRef,
    ChunkRows,
    ChunkTable,
    NativeChunks,
)
from frazil.format.ids import ManifestId, NodeId
from frazil.lazy import dataclass

_WORTH = 256
"""Factor by which searching for one reference is slower than decoding it with all others."""


LARGEST_LOCATION = 1024
"""Maximum bytes of a location that is compressed."""


@dataclass(frozen=True, slots=True)
class LocationCompression:
    """Options of location compression; the defaults are Icechunk's."""

    min_num_chunks: int = 1000
    """Minimum number of virtual chunks, and of distinct locations, for compression in a manifest."""
    dictionary_max_training_samples: int = 100
    dictionary_max_size_bytes: int = 2048
    compression_level: int = 3


class ChunkRefs(Protocol):
    """References of one array: in columns, one by one, or encoded and decoded on demand."""

    def __len__(self) -> int: ...

    def find(self, wanted: Sequence[int], /) -> ChunkRef | None:
        """Return the reference of one chunk, in O(log n)."""

    def rows(self, axes: int) -> Mapping[tuple[int, ...], ChunkRef] | None:
        """Return the references by coordinate; None if one by one they can't be kept."""

    def table(self) -> ChunkTable:
        """Return all references as columns."""

    def with_axes(self, axes: int) -> ChunkTable:
        """Return all references as columns, for an array with this number of axes."""

    def natives(self) -> NativeChunks:
        """Return the native chunks in any order, even if other references are damaged."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Chunk references by node id."""

    id: ManifestId | None
    """Manifest id; None if the generation stores it only in the file name (draft, first alphas)."""
    arrays: Mapping[NodeId, ChunkRefs] = field(default_factory=dict)
    extra: bytes | None = None
    array_extras: Mapping[NodeId, bytes] = field(default_factory=dict)
    _asked: dict[NodeId, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _indexes: dict[NodeId, ChunkIndex | ChunkRows] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def find(self, node_id: NodeId, wanted: Sequence[int]) -> ChunkRef | None:
        """Return the reference of one chunk of an array, or None; after many lookups by an index."""
        index = self._indexes.get(node_id)
        if type(index) is ChunkRows:  # one call less, because small manifests are read most
            return index.refs.get(tuple(wanted))
        if index is not None:
            return index.find(wanted)
        refs = self.arrays.get(node_id)
        if refs is None:
            return None
        asked = self._asked[node_id] = self._asked.get(node_id, 0) + 1
        if asked * _WORTH < len(refs):
            return refs.find(wanted)
        # References of several numbers of axes, as old files may have, need an index each.
        rows = self.rows(node_id, len(wanted))
        if rows is not None:
            few = ChunkRows(len(wanted), rows)
            if len(rows) == len(refs):
                self._indexes[node_id] = few
            return few.find(wanted)
        table = refs.with_axes(len(wanted))
        if len(table) == len(refs) and ChunkIndex.can_hold(table):
            self._indexes[node_id] = ChunkIndex(table)
        return table.find(wanted)

    def rows(self, node_id: NodeId, axes: int) -> Mapping[tuple[int, ...], ChunkRef] | None:
        """Return the references of an array by coordinate; None if there are many."""
        refs = self.arrays.get(node_id)
        if type(refs) is ChunkRows and refs.axes == axes:
            return refs.refs
        if refs is None:
            return {}
        return None if len(refs) > FEW else refs.rows(axes)

    def table(self, node_id: NodeId, axes: int) -> ChunkTable:
        """Return the references of an array with this number of axes; empty if there are none."""
        refs = self.arrays.get(node_id)
        return ChunkTable.empty(axes) if refs is None else refs.with_axes(axes)

    def tables(self) -> dict[NodeId, ChunkTable]:
        """Return all references, decoded."""
        return {node_id: refs.table() for node_id, refs in self.arrays.items()}

    def __len__(self) -> int:
        return sum(map(len, self.arrays.values()))
