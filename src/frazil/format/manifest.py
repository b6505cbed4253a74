"""A manifest: the chunk references of one or more arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from frazil.format.chunk_table import ChunkRef, ChunkTable, NativeChunks
from frazil.format.ids import ManifestId, NodeId


class ChunkRefs(Protocol):
    """References of one array: a `ChunkTable`, or a part of a file that becomes one when asked."""

    def __len__(self) -> int: ...

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """The reference of one chunk, in O(log n)."""

    def table(self) -> ChunkTable:
        """All of them as columns."""

    def with_axes(self, axes: int) -> ChunkTable:
        """All of them as columns, for an array of so many axes."""

    def natives(self) -> NativeChunks:
        """What the native ones name, in any order; also where another part of them is damaged."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """References by node id."""

    id: ManifestId | None
    """None where the generation keeps it in the file name only (draft, first alphas)."""
    arrays: Mapping[NodeId, ChunkRefs] = field(default_factory=dict)
    extra: bytes | None = None
    array_extras: Mapping[NodeId, bytes] = field(default_factory=dict)

    def find(self, node_id: NodeId, wanted: Sequence[int]) -> ChunkRef | None:
        """The reference of one chunk of one array."""
        refs = self.arrays.get(node_id)
        return None if refs is None else refs.find(wanted)

    def table(self, node_id: NodeId, axes: int) -> ChunkTable:
        """The references of one array, which has so many axes; empty where there are none."""
        refs = self.arrays.get(node_id)
        return ChunkTable.empty(axes) if refs is None else refs.with_axes(axes)

    def tables(self) -> dict[NodeId, ChunkTable]:
        """All references, decoded."""
        return {node_id: refs.table() for node_id, refs in self.arrays.items()}

    def __len__(self) -> int:
        return sum(map(len, self.arrays.values()))
