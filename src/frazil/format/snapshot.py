"""Snapshot: all nodes of one version of the repository. Transaction log: the changes of its commit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from itertools import product
from math import prod
from operator import rshift

import numpy as np

from frazil.format.coordinates import Coordinates, Extents
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.metadata import NO_METADATA, Metadata, Nanoseconds
from frazil.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Dimension:
    """Length and number of chunks of one array axis."""

    array_length: int
    num_chunks: int
    chunk_length: int | None = field(default=None, compare=False)
    """Chunk length recorded by V1 files; the chunk grid in the Zarr metadata is authoritative."""


@dataclass(frozen=True, slots=True)
class ManifestRef:
    """Reference to a manifest, with the box of chunks it covers."""

    id: ManifestId
    extents: Extents


_MOST_CELLS = 64
"""Maximum number of cells of the index that a manifest is listed in."""


class ManifestIndex:
    """Index of manifests by the chunks they cover; of several the first one is found.

    Boxes of similar size, in powers of two for each axis, share a grid with cells of that size. A box
    touches few cells, and disjoint boxes that touch a cell are few, however many there are.
    """

    __slots__ = ("_grids",)

    def __init__(self, refs: Iterable[ManifestRef]) -> None:
        grids: dict[tuple[int, ...], dict[tuple[int, ...], list[tuple[int, ManifestRef]]]] = {}
        for number, ref in enumerate(refs):
            bits, ranges = _cells_of(ref.extents)
            cells = grids.setdefault(bits, {})
            for cell in product(*ranges):
                cells.setdefault(cell, []).append((number, ref))
        self._grids = list(grids.items())

    def find(self, coordinate: Sequence[int]) -> ManifestRef | None:
        """Return the first manifest whose box contains a chunk, or None."""
        first, found = -1, None
        for bits, cells in self._grids:
            for number, ref in cells.get(tuple(map(rshift, coordinate, bits)), ()):
                if found is not None and number > first:
                    break
                for value, (start, stop) in zip(coordinate, ref.extents, strict=False):
                    if not start <= value < stop:
                        break
                else:
                    first, found = number, ref
                    break
        return found


def _cells_of(box: Extents) -> tuple[tuple[int, ...], list[range]]:
    """Return the sizes of an index's cells for a box, in bits, and the cells that it touches."""
    bits = [max(stop - start - 1, 0).bit_length() for start, stop in box]
    ranges = [
        range(start >> bit, (stop - 1 >> bit) + 1)
        for (start, stop), bit in zip(box, bits, strict=True)
    ]
    for axis, (start, stop) in enumerate(box):
        if prod(map(len, ranges)) <= _MOST_CELLS:
            break
        # With many axes there are too many corners: use larger cells, of which it touches one.
        bits[axis] = (start ^ (stop - 1)).bit_length()
        ranges[axis] = range(start >> bits[axis], (start >> bits[axis]) + 1)
    return tuple(bits), ranges


class Indexed:
    """Base of arrays, which get an index of their manifests when a chunk is first looked up.

    It is no field: an array is made for each node of a snapshot, and few of them are read.
    """

    __slots__ = ("index",)
    index: ManifestIndex


@dataclass(frozen=True, slots=True)
class ArrayData(Indexed):
    """Shape, dimension names and manifests of an array in a snapshot."""

    shape: tuple[Dimension, ...]
    dimension_names: tuple[str | None, ...] | None = None
    manifests: tuple[ManifestRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """Group, or array if `array` is set."""

    id: NodeId
    path: str
    user_data: bytes
    """The node's `zarr.json` as given by Zarr; assembled from its parts in older generations."""
    array: ArrayData | None = None
    extra: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFileInfo:
    """Manifest file used by a snapshot; fields are None if the generation did not record them."""

    id: ManifestId
    size_bytes: int | None = None
    """Size of the whole object, header included."""
    num_chunk_refs: int | None = None
    extra: bytes | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Ancestor listed in a snapshot of the draft and alpha generations."""

    id: SnapshotId
    written_at: Nanoseconds
    message: str


@dataclass(frozen=True, slots=True)
class History:
    """Ancestry stored in a snapshot file of the draft, and of alpha releases before 0.1.0."""

    total_parents: int
    short_term_parents: int
    short_term_history: tuple[HistoryEntry, ...]
    """Newest first."""
    started_at: Nanoseconds


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of the repository."""

    id: SnapshotId
    parent_id: SnapshotId | None
    """Parent; None for the first snapshot, and in V2 files, where the repo info stores it."""
    flushed_at: Nanoseconds
    message: str
    metadata: Metadata = NO_METADATA
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Nodes by path, in file order."""
    manifest_files: tuple[ManifestFileInfo, ...] = ()
    history: History | None = None
    extra: bytes | None = None

    def used_manifests(self) -> tuple[ManifestFileInfo, ...]:
        """Return the listed manifests, followed by manifests that only nodes refer to."""
        arrays = (node.array for node in self.nodes.values() if node.array is not None)
        named = dict.fromkeys(ref.id for array in arrays for ref in array.manifests)
        unlisted = named.keys() - {info.id for info in self.manifest_files}
        return (*self.manifest_files, *(ManifestFileInfo(id) for id in named if id in unlisted))


def nodes_by_path(nodes: Iterable[Node]) -> dict[str, Node]:
    """Index nodes by path, for `Snapshot.nodes`."""
    return {node.path: node for node in nodes}


def with_manifests(node: Node, manifests: tuple[ManifestRef, ...]) -> Node:
    """Return an array's node with other manifests."""
    array = node.array
    if array is None:
        return node
    changed = ArrayData(array.shape, array.dimension_names, manifests)
    return Node(node.id, node.path, node.user_data, changed, node.extra)


class NodeType(IntEnum):
    """Type of a moved node."""

    GROUP = 0
    ARRAY = 1


@dataclass(frozen=True, slots=True)
class Move:
    """Path of a moved node in the parent snapshot and in this one."""

    from_path: str
    to_path: str
    node_id: NodeId | None = None
    """Id of the node; None in files of 2.0.0 pre-releases, which did not record it."""
    node_type: NodeType = NodeType.GROUP


@dataclass(frozen=True, slots=True, eq=False)
class TransactionLog:
    """Changed nodes by id, chunks by node id and sorted coordinates, moves ordered by `to_path`."""

    id: SnapshotId
    new_groups: frozenset[NodeId] = frozenset()
    new_arrays: frozenset[NodeId] = frozenset()
    deleted_groups: frozenset[NodeId] = frozenset()
    deleted_arrays: frozenset[NodeId] = frozenset()
    updated_groups: frozenset[NodeId] = frozenset()
    updated_arrays: frozenset[NodeId] = frozenset()
    updated_chunks: Mapping[NodeId, Coordinates] = field(default_factory=dict)
    """Coordinates of references that were added, replaced or deleted."""
    updated_attributes: frozenset[NodeId] = frozenset()
    """Alpha only: groups and arrays whose user attributes were set, including new nodes."""
    moves: tuple[Move, ...] = ()
    extra: bytes | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransactionLog):
            return NotImplemented
        return (
            all(getattr(self, name) == getattr(other, name) for name in _PLAIN)
            and self.updated_chunks.keys() == other.updated_chunks.keys()
            and all(
                np.array_equal(mine, other.updated_chunks[node])
                for node, mine in self.updated_chunks.items()
            )
        )

    __hash__ = None  # type: ignore[assignment]


_PLAIN = tuple(name for name in TransactionLog.__slots__ if name != "updated_chunks")
