"""A snapshot: every node of the repository in one version."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from frazil.format.coordinates import Extents
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.metadata import NO_METADATA, Metadata
from frazil.format.timestamps import Nanoseconds


@dataclass(frozen=True, slots=True)
class Dimension:
    """One axis of an array: its elements and its chunks."""

    array_length: int
    num_chunks: int
    chunk_length: int | None = field(default=None, compare=False)
    """As V1 files record it; what counts is the chunk grid in the Zarr metadata."""


@dataclass(frozen=True, slots=True)
class ManifestRef:
    """A manifest, and the box of an array's chunks that it covers."""

    id: ManifestId
    extents: Extents


@dataclass(frozen=True, slots=True)
class ArrayData:
    """What a snapshot knows of an array besides its Zarr metadata."""

    shape: tuple[Dimension, ...]
    dimension_names: tuple[str | None, ...] | None = None
    manifests: tuple[ManifestRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A group, or an array if it has `array`."""

    id: NodeId
    path: str
    user_data: bytes
    """The node's `zarr.json`, as Zarr gave it (put together from its parts in older generations)."""
    array: ArrayData | None = None
    extra: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFileInfo:
    """A manifest file that a snapshot uses; None where the generation did not record it."""

    id: ManifestId
    size_bytes: int | None = None
    """Size of the whole object, header included."""
    num_chunk_refs: int | None = None
    extra: bytes | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An ancestor as the draft and alpha generations list it inside a snapshot."""

    id: SnapshotId
    written_at: Nanoseconds
    message: str


@dataclass(frozen=True, slots=True)
class History:
    """Ancestry inside a snapshot file: the draft, and alpha releases before 0.1.0."""

    total_parents: int
    short_term_parents: int
    short_term_history: tuple[HistoryEntry, ...]
    """Newest first."""
    started_at: Nanoseconds


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version."""

    id: SnapshotId
    parent_id: SnapshotId | None
    """None for the first, and in V2 files, where the repo info knows it."""
    flushed_at: Nanoseconds
    message: str
    metadata: Metadata = NO_METADATA
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """By path, in the order of the file."""
    manifest_files: tuple[ManifestFileInfo, ...] = ()
    history: History | None = None
    extra: bytes | None = None

    def used_manifests(self) -> tuple[ManifestFileInfo, ...]:
        """The manifests that it lists, and those that only its nodes name, if there are such."""
        arrays = (node.array for node in self.nodes.values() if node.array is not None)
        named = dict.fromkeys(ref.id for array in arrays for ref in array.manifests)
        unlisted = named.keys() - {info.id for info in self.manifest_files}
        return (*self.manifest_files, *(ManifestFileInfo(id) for id in named if id in unlisted))


def nodes_by_path(nodes: Iterable[Node]) -> dict[str, Node]:
    """What `Snapshot.nodes` takes."""
    return {node.path: node for node in nodes}
