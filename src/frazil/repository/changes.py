"""Changes of a session since its base snapshot, and merged transaction logs of several commits."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from frazil.format import coordinates as coords_
from frazil.format.coordinates import Coordinates, Extents
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import ChunkKind, ChunkRef, ChunkTable, Manifest, concatenate
from frazil.format.metadata import segment_order
from frazil.format.snapshot import (
    ArrayData,
    ManifestFileInfo,
    ManifestRef,
    Move,
    Node,
    NodeType,
    Snapshot,
    TransactionLog,
)
from frazil.lazy import dataclass, lazy_modules
from frazil.protocols.assets import Assets, new_manifest_id
from frazil.repository.zarr_keys import Coordinate

if TYPE_CHECKING:
    from frazil.format import zarr_metadata
else:
    (zarr_metadata,) = lazy_modules("frazil.format.zarr_metadata")


@dataclass(frozen=True, slots=True, eq=False)
class PrewrittenManifest:
    """Manifest of one array, written before the commit."""

    file: ManifestFileInfo
    extents: Extents
    """Bounding box of its references."""
    box: Extents
    """Extents of its split region."""
    base: tuple[ManifestId, ...] | None
    """Base manifests merged into it; None if it can't replace the manifests of its split region."""
    changed: Coordinates | None
    """Chunks that its writer set; None for all chunks of `extents`."""
    deleted: Coordinates
    """Chunks that its writer deleted; disjoint from those it set."""
    bytes: int
    """Size of the inline and native chunks that its writer set."""

    @property
    def count(self) -> int:
        """Return the number of chunks that its writer set."""
        return coords_.count_places(self.extents) if self.changed is None else len(self.changed)

    @property
    def ref(self) -> ManifestRef:
        """Return the reference that a node stores."""
        return ManifestRef(self.file.id, self.extents)

    @property
    def reach(self) -> Extents:
        """Return a box that contains all chunks that its writer set or deleted."""
        if not len(self.deleted):
            return self.extents
        return coords_.bounding_box(np.concatenate([self.deleted, *_corners(self.extents)]))

    def written(self) -> Coordinates:
        """Return the chunks that its writer set."""
        return coords_.grid_of(self.extents) if self.changed is None else self.changed

    def coordinates(self) -> Coordinates:
        """Return the chunks that its writer set or deleted, sorted."""
        return coords_.unite([self.written(), self.deleted])

    def has_changed(self, coordinate: Coordinate) -> bool:
        """Return True if its writer set or deleted a chunk."""
        if len(self.deleted) and coords_.find_row(self.deleted, coordinate) is not None:
            return True
        if not coords_.contains(self.extents, coordinate):
            return False
        return self.changed is None or coords_.find_row(self.changed, coordinate) is not None

    def find_changed(self, coordinates: Coordinates) -> NDArray[np.bool_]:
        """Return for each of some chunks whether its writer set or deleted it."""
        if self.changed is None:
            found = coords_.rows_inside(coordinates, self.extents)
        else:
            found = coords_.locate(self.changed, coordinates) >= 0
        if len(self.deleted):
            found = found | (coords_.locate(self.deleted, coordinates) >= 0)
        return found

    def read_changes(self, assets: Assets, node_id: NodeId) -> ChunkTable:
        """Return the references that its writer set."""
        table = assets.read_manifest(self.file.id).table(node_id, len(self.box))
        if self.changed is None:
            return table
        rows = table.locate(self.changed)
        return table.take(rows[rows >= 0])

    def without(self, unwanted: Coordinates) -> Self:
        """Return a copy that ignores its writer's edits of some chunks."""
        unwanted = unwanted[coords_.rows_inside(unwanted, self.reach)]
        if not len(unwanted):
            return self
        kept, gone = (coords_.without(e, unwanted) for e in (self.written(), self.deleted))
        if len(kept) == self.count and len(gone) == len(self.deleted):
            return self
        return replace(self, base=None, changed=kept, deleted=gone)


def prewrite_manifest(
    assets: Assets,
    node_id: NodeId,
    box: Extents,
    base: Sequence[ManifestRef],
    table: ChunkTable,
    deleted: Coordinates | None = None,
) -> PrewrittenManifest:
    """Write the manifest of a split region: new references merged over those of its base manifests.

    `table` must not be empty, and must not contain a deleted chunk.
    """
    gone = np.empty((0, len(box)), np.uint32) if deleted is None else deleted
    parts = [assets.read_manifest(ref.id).table(node_id, len(box)).select(box) for ref in base]
    merged = concatenate(parts).remove(gone).merge(table) if parts else table
    id = new_manifest_id(assets.dialect)
    file = assets.write_manifest(Manifest(id, {node_id: merged.compact()}), id)
    extents = merged.extents()
    is_all = len(merged) == len(table) == coords_.count_places(extents)
    changed = None if is_all else table.coordinates
    own = int(table.length[table.kind != ChunkKind.VIRTUAL].sum())
    return PrewrittenManifest(file, extents, box, tuple(ref.id for ref in base), changed, gone, own)


def write_part(
    assets: Assets, node_id: NodeId, table: ChunkTable, deleted: Coordinates
) -> PrewrittenManifest:
    """Write a manifest of references anywhere in an array; `table` must not be empty."""
    return replace(
        prewrite_manifest(assets, node_id, table.extents(), (), table, deleted), base=None
    )


def _corners(box: Extents) -> list[Coordinates]:
    first, last = [start for start, _ in box], [stop - 1 for _, stop in box]
    return [np.array([first, last], np.uint32).reshape(2, len(box))]


T = TypeVar("T")

Columns = tuple[ChunkTable, Coordinates]
"""References that were set, and coordinates that were deleted."""

_MANY = 1 << 16
"""Number of single edits after which they are merged into the columns."""
_FEW = 256
"""Number of chunks up to which they are looked up one by one."""


@lru_cache(maxsize=64)
def _no_edits(axes: int, id_size: int) -> Columns:
    return ChunkTable.empty(axes, id_size), np.empty((0, axes), np.uint32)


class ChunkEdits:
    """Chunk edits of one array; the last edit of a chunk wins.

    Threads may edit and read concurrently. A recent edit stays visible until it is merged into the
    columns, and the columns are replaced atomically.
    """

    __slots__ = ("_axes", "_columns", "_id_size", "_lock", "_prewritten", "_recent", "has_many")

    def __init__(self, axes: int, id_size: int = 12) -> None:
        self._axes = axes
        self._id_size = id_size
        self._lock = threading.Lock()
        self._recent: dict[Coordinate, ChunkRef | None] = {}
        self._prewritten: tuple[PrewrittenManifest, ...] = ()
        self._columns = _no_edits(axes, id_size)
        self.has_many = False
        """Whether there may be many edits; False if they were made one by one, and not so many."""

    def __len__(self) -> int:
        return len(self.coordinates())

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (self._axes, self._id_size, self.columns(), self._prewritten))

    @property
    def axes(self) -> int:
        """Return the number of axes of the array."""
        return self._axes

    @property
    def id_size(self) -> int:
        """Size of a chunk id in bytes."""
        return self._id_size

    @property
    def prewritten(self) -> tuple[PrewrittenManifest, ...]:
        """Return the manifests that workers wrote; later ones win, and the columns win over all."""
        return self._prewritten

    # Editing

    def set(self, coordinate: Coordinate, ref: ChunkRef | None) -> None:
        """Set the reference of a chunk, or delete it if `ref` is None."""
        with self._lock:
            self._recent[coordinate] = ref
            if len(self._recent) >= _MANY:
                self.has_many = True
                self._merge_recent()

    def set_table(self, table: ChunkTable) -> None:
        """Set many references at once."""
        with self._lock:
            self.has_many = True
            written, deleted = self._merge_recent()
            self._columns = written.merge(table), coords_.without(deleted, table.coordinates)

    def delete_many(self, coordinates: Coordinates) -> None:
        """Delete many references at once."""
        with self._lock:
            self.has_many = True
            written, deleted = self._merge_recent()
            self._columns = written.remove(coordinates), coords_.unite([deleted, coordinates])

    def forget(self, coordinates: Coordinates) -> None:
        """Undo the edits of some chunks, so that they have the references of the base again."""
        with self._lock:
            written, deleted = self._merge_recent()
            self._columns = written.remove(coordinates), coords_.without(deleted, coordinates)
            self._prewritten = tuple(each.without(coordinates) for each in self._prewritten)

    def adopt(self, *prewritten: PrewrittenManifest) -> None:
        """Add manifests that workers wrote; no two of them may edit the same chunk."""
        touching = self._find_touching(prewritten)
        if touching:
            self.forget(coords_.unite([manifest.coordinates() for manifest in touching]))
        with self._lock:
            self.has_many = True
            self._prewritten = (*self._prewritten, *prewritten)

    def _find_touching(self, new: Sequence[PrewrittenManifest]) -> list[PrewrittenManifest]:
        """Return the manifests that may edit a chunk that was edited before."""
        written, deleted = self.columns()
        columns = [rows for rows in (written.coordinates, deleted) if len(rows)]
        former = np.array([each.reach for each in self._prewritten], np.int64)
        former = former.reshape(len(self._prewritten), self._axes, 2)
        found = []
        for each in new:
            starts, stops = np.array(each.reach, np.int64).reshape(self._axes, 2).T
            meets = (former[:, :, 0] < stops) & (starts < former[:, :, 1])
            if np.any(np.all(meets, axis=1)) or any(
                np.any(coords_.rows_inside(rows, each.reach)) for rows in columns
            ):
                found.append(each)
        return found

    def apply(self, newer: "ChunkEdits") -> None:
        """Apply newer edits of the same array."""
        self.adopt(*newer.prewritten)
        written, deleted = newer.columns()
        if len(deleted):
            self.delete_many(deleted)
        if len(written):
            self.set_table(written)

    # Reading

    def get(self, coordinate: Coordinate, untouched: T) -> ChunkRef | T | None:
        """Return the reference of a chunk, None if it was deleted, `untouched` if it was not edited."""
        recent = self._recent
        if coordinate in recent:
            return recent[coordinate]
        written, deleted = self._columns
        found = written.find(coordinate)
        if found is None and coords_.find_row(deleted, coordinate) is None:
            return untouched
        return found

    def find_prewritten(self, coordinate: Coordinate) -> PrewrittenManifest | None:
        """Return the prewritten manifest that edits a chunk for which `get` returns `untouched`."""
        return next(
            (manifest for manifest in self._prewritten if manifest.has_changed(coordinate)), None
        )

    def find_single(self) -> dict[Coordinate, ChunkRef | None] | None:
        """Return all edits if they were made one by one, and not so many, else None."""
        with self._lock:
            written, deleted = self._columns
            if self._prewritten or len(written) or len(deleted):
                return None
            return dict(self._recent)

    def columns(self) -> Columns:
        """Return all references set and coordinates deleted, without those of prewritten manifests."""
        with self._lock:
            return self._merge_recent()

    def coordinates(self) -> Coordinates:
        """Return the coordinates of all chunks that were set or deleted, sorted."""
        single = self.find_single()
        if single and len(single) <= _FEW:
            few = np.array(sorted(single), np.uint32)
            return few.reshape(len(single), self._axes)
        if single is not None:
            rows = chain.from_iterable(single)
            found = np.fromiter(rows, np.uint32, len(single) * self._axes)
            return coords_.unite([found.reshape(len(single), self._axes)])
        written, deleted = self.columns()
        prewritten = [manifest.coordinates() for manifest in self._prewritten]
        return coords_.unite([written.coordinates, deleted, *prewritten])

    def common(self, coordinates: Coordinates) -> Coordinates:
        """Return those of some sorted chunks that were set or deleted; none if the axes differ."""
        if coordinates.shape[1] != self._axes:
            return coordinates[:0]
        written, deleted = self.columns()
        is_edited = np.zeros(len(coordinates), bool)
        for rows in (written.coordinates, deleted):
            if len(rows):
                is_edited |= coords_.locate(rows, coordinates) >= 0
        for manifest in self._prewritten:
            near = np.flatnonzero(coords_.rows_inside(coordinates, manifest.reach))
            if len(near):
                is_edited[near] |= manifest.find_changed(coordinates[near])
        return coordinates[is_edited]

    def touches(self, coordinates: Coordinates) -> bool:
        """Return whether one of some sorted chunks was set or deleted."""
        recent, (written, deleted) = self._recent, self._columns
        others = 1 + len(self._prewritten) + len(written) + len(deleted)
        if len(coordinates) * others > _FEW or coordinates.shape[1] != self._axes:
            return len(self.common(coordinates)) > 0
        places = [*map(tuple, coordinates.tolist())]
        edited = [*map(tuple, (*written.coordinates.tolist(), *deleted.tolist()))]
        return not (recent.keys().isdisjoint(places) and set(edited).isdisjoint(places)) or any(
            manifest.has_changed(place) for manifest in self._prewritten for place in places
        )

    def copy(self) -> "ChunkEdits":
        """Return an independent copy."""
        with self._lock:
            copy = _restore(self._axes, self._id_size, self._columns, self._prewritten)
            copy._recent = dict(self._recent)
        return copy

    def __iter__(self) -> Iterator[Coordinate]:
        return iter(map(tuple, self.coordinates().tolist()))

    def _merge_recent(self) -> Columns:
        """Merge recent edits into the columns; the caller must hold the lock."""
        recent = self._recent
        if not recent:
            return self._columns
        written, deleted = self._columns
        deletions = [key for key, ref in recent.items() if ref is None]
        gone = np.array(deletions, np.uint32).reshape(len(deletions), self._axes)
        refs = {k: ref for k, ref in recent.items() if ref is not None} if deletions else recent
        table = ChunkTable.of(self._axes, cast("dict[Coordinate, ChunkRef]", refs), self._id_size)
        kept = written.remove(gone) if len(gone) else written
        self._columns = (
            kept.merge(table),
            coords_.without(coords_.unite([deleted, gone]), table.coordinates),
        )
        # Last, so that a concurrent reader finds every edit in one place or the other.
        self._recent = {}
        return self._columns


def unite(edits: Sequence[ChunkEdits]) -> ChunkEdits:
    """Merge edits of one array, no two of which touch the same chunk."""
    if len(edits) == 1:
        return edits[0]
    written, deleted = zip(*(each.columns() for each in edits), strict=True)
    filled = [table for table in written if len(table)] or written[:1]
    prewritten = tuple(manifest for each in edits for manifest in each.prewritten)
    first = edits[0]
    return _restore(
        first.axes, first.id_size, (concatenate(filled), coords_.unite(deleted)), prewritten
    )


def _restore(
    axes: int, id_size: int, columns: Columns, prewritten: tuple[PrewrittenManifest, ...]
) -> ChunkEdits:
    edits = ChunkEdits(axes, id_size)
    edits._columns, edits._prewritten = columns, prewritten
    edits.has_many = bool(prewritten) or len(columns[0]) + len(columns[1]) > _FEW
    return edits


def split_edits(
    edits: ChunkEdits, prewritten: Sequence[PrewrittenManifest], *, with_columns: bool
) -> ChunkEdits:
    """Return some prewritten manifests of an array, with or without its other edits."""
    columns = edits.columns() if with_columns else _no_edits(edits.axes, edits.id_size)
    return _restore(edits.axes, edits.id_size, columns, tuple(prewritten))


@dataclass(slots=True)
class ChangeSet:
    """Pending changes of a session: `nodes` is for lookups, the rest is recorded by the commit."""

    id_size: int = 12
    """Size of a chunk id in bytes."""
    nodes: dict[str, Node | None] = field(default_factory=dict)
    """Created, changed and moved nodes by path; None where the base's node was deleted or moved."""
    created: dict[NodeId, Node] = field(default_factory=dict)
    updated: dict[NodeId, Node] = field(default_factory=dict)
    """Nodes of the base whose metadata changed."""
    deleted: dict[NodeId, Node] = field(default_factory=dict)
    """Deleted nodes of the base, as they were in the base."""
    chunks: dict[NodeId, ChunkEdits] = field(default_factory=dict)
    moved: dict[NodeId, str] = field(default_factory=dict)
    """Original paths of moved nodes."""
    sources: set[SnapshotId] = field(default_factory=set)
    """Snapshots that chunks come from: while the history has them, the chunks are not garbage."""

    @classmethod
    def of(cls, dialect: Dialect) -> Self:
        """Return an empty change set for a dialect."""
        return cls(id_size=dialect.id_size)

    def __bool__(self) -> bool:
        # As in the official library, moves count even if every node is back at its original path.
        return bool(self.created or self.updated or self.deleted or self.chunks or self.moved)

    # Nodes

    def create(self, node: Node) -> None:
        """Add a node at a path that has none."""
        self.nodes[node.path] = node
        self.created[node.id] = node

    def update(self, node: Node) -> None:
        """Replace the metadata of a node."""
        self._drop_edits_of_other_axes(node)
        self.nodes[node.path] = node
        if node.id in self.created:
            self.created[node.id] = node
        else:
            self.updated[node.id] = node

    def delete(self, node: Node) -> None:
        """Delete one node, without its descendants."""
        self.nodes[node.path] = None
        self.chunks.pop(node.id, None)
        self.updated.pop(node.id, None)
        if self.created.pop(node.id, None) is None:
            self.deleted[node.id] = node

    def move(self, node: Node, to_path: str) -> None:
        """Move one node, without its descendants, to another path."""
        self.nodes[node.path] = None
        self.nodes[to_path] = replace(node, path=to_path)
        self.moved.setdefault(node.id, node.path)

    def moves(self) -> tuple[Move, ...]:
        """Return the moves by target path, without nodes that are back at their original path."""
        current = {node.id: node for node in self.nodes.values() if node is not None}
        return tuple(
            sorted(
                (
                    Move(origin, current[id].path, id, _node_type(current[id]))
                    for id, origin in self.moved.items()
                    if current[id].path != origin
                ),
                key=lambda move: segment_order(move.to_path),
            )
        )

    # Chunks

    def edit_chunks(self, node: Node) -> ChunkEdits:
        """Return the edits of an array, to be extended; create them if there are none."""
        edits = self.chunks.get(node.id)
        if edits is None:
            assert node.array is not None
            edits = self.chunks[node.id] = ChunkEdits(len(node.array.shape), self.id_size)
        return edits

    def _drop_edits_of_other_axes(self, node: Node) -> None:
        edits = self.chunks.get(node.id)
        if edits is not None and node.array is not None and edits.axes != len(node.array.shape):
            del self.chunks[node.id]

    def changed_arrays(self) -> Iterator[NodeId]:
        """Yield the arrays whose manifests may have to be rewritten."""
        yield from self.chunks
        for id, node in {**self.created, **self.updated}.items():
            if node.array is not None and id not in self.chunks:
                yield id

    def count_in_bulk(self) -> tuple[int, int]:
        """Return the numbers of chunks in prewritten manifests and in others, without small edits."""
        prewritten = others = 0
        for edits in self.chunks.values():
            if edits.has_many:
                written, deleted = edits.columns()
                others += len(written) + len(deleted)
                prewritten += sum(each.count + len(each.deleted) for each in edits.prewritten)
        return prewritten, others

    def split(self, most: int) -> "list[ChangeSet]":
        """Split changes into parts of at most so many chunks, to be committed one after another.

        The first has all changes of nodes, the last all chunks that are not in prewritten manifests. A
        prewritten manifest is never split.
        """
        parts: list[dict[NodeId, list[PrewrittenManifest]]] = [{}]
        left = most
        for id, edits in self.chunks.items():
            for manifest in edits.prewritten:
                count = manifest.count + len(manifest.deleted)
                if count > left and parts[-1]:
                    parts.append({})
                    left = most
                parts[-1].setdefault(id, []).append(manifest)
                left -= count
        if len(parts) == 1:
            return [self]
        first = replace(self, chunks={}).copy()
        found = [first, *(ChangeSet(self.id_size) for _ in parts[1:])]
        for changes, part in zip(found, parts, strict=True):
            is_last = changes is found[-1]
            for id in self.chunks if is_last else part:
                own = part.get(id, ())
                changes.chunks[id] = split_edits(self.chunks[id], own, with_columns=is_last)
        return found

    def copy(self) -> "ChangeSet":
        """Return an independent copy."""
        return ChangeSet(
            self.id_size,
            dict(self.nodes),
            dict(self.created),
            dict(self.updated),
            dict(self.deleted),
            {id: edits.copy() for id, edits in self.chunks.items()},
            dict(self.moved),
            set(self.sources),
        )


def groups_of(nodes: Mapping[NodeId, Node]) -> frozenset[NodeId]:
    """Return the ids of the groups among some nodes."""
    return frozenset([id for id, node in nodes.items() if node.array is None])


def arrays_of(nodes: Mapping[NodeId, Node]) -> frozenset[NodeId]:
    """Return the ids of the arrays among some nodes."""
    return frozenset([id for id, node in nodes.items() if node.array is not None])


def with_manifests_of(array: ArrayData, former: ArrayData) -> ArrayData:
    """Return an array with the manifests of its former state, or none if the number of axes changed."""
    if len(array.shape) != len(former.shape):
        return replace(array, manifests=())
    return replace(array, manifests=former.manifests)


def node_over(node: Node, other: Node) -> Node:
    """Return a node with its own metadata and the manifests of another state of it."""
    if node.array is None or other.array is None:
        return node
    return replace(node, array=with_manifests_of(node.array, other.array))


def _node_type(node: Node) -> NodeType:
    return NodeType.GROUP if node.array is None else NodeType.ARRAY


def merge_logs(logs: Sequence[TransactionLog], id: SnapshotId) -> TransactionLog:
    """Merge transaction logs, oldest first; a node may be both new and deleted."""
    return TransactionLog(
        id=id,
        new_groups=frozenset().union(*(log.new_groups for log in logs)),
        new_arrays=frozenset().union(*(log.new_arrays for log in logs)),
        deleted_groups=frozenset().union(*(log.deleted_groups for log in logs)),
        deleted_arrays=frozenset().union(*(log.deleted_arrays for log in logs)),
        updated_groups=frozenset().union(*(log.updated_groups for log in logs)),
        updated_arrays=frozenset().union(*(log.updated_arrays for log in logs)),
        updated_chunks=merge_chunks(logs),
        updated_attributes=frozenset().union(*(log.updated_attributes for log in logs)),
        moves=chain_moves([move for log in logs for move in log.moves]),
    )


def merge_chunks(logs: Sequence[TransactionLog]) -> dict[NodeId, Coordinates]:
    """Return the distinct chunks that some logs, oldest first, record, by array.

    Chunks recorded before the number of axes of an array changed are left out.
    """
    parts: dict[NodeId, list[Coordinates]] = {}
    for log in logs:
        for node_id, coordinates in log.updated_chunks.items():
            parts.setdefault(node_id, []).append(coordinates)
    return {node_id: coords_.unite(_of_last_axes(blocks)) for node_id, blocks in parts.items()}


def _of_last_axes(blocks: list[Coordinates]) -> list[Coordinates]:
    axes = blocks[-1].shape[1]
    return [block for block in blocks if block.shape[1] == axes]


def updated_nodes(log: TransactionLog) -> frozenset[NodeId]:
    """Return the nodes whose metadata changed.

    Logs of alpha releases list attributes separately, and include new nodes in that list.
    """
    attributes = log.updated_attributes - log.new_groups - log.new_arrays
    return log.updated_groups | log.updated_arrays | attributes


def chain_moves(moves: Sequence[Move]) -> tuple[Move, ...]:
    """Combine successive moves into one per node, without those that end at their original path."""
    chained: dict[object, Move] = {}
    for move in moves:
        key = move.node_id or move.to_path
        first = chained.get(key)
        origin = move.from_path if first is None else first.from_path
        chained[key] = Move(origin, move.to_path, move.node_id, move.node_type)
    kept = (move for move in chained.values() if move.from_path != move.to_path)
    return tuple(sorted(kept, key=lambda move: segment_order(move.to_path)))


def separate_attribute_changes(
    log: TransactionLog, before: Mapping[NodeId, Node], after: Mapping[NodeId, Node]
) -> TransactionLog:
    """Return a log that lists attributes separately and includes new nodes in that list.

    `before` and `after` need only the nodes that the log lists as updated.
    """
    attributes, metadata = set(log.new_groups | log.new_arrays), set[NodeId]()
    for id in log.updated_groups | log.updated_arrays:
        old = zarr_metadata.decode_zarr_json(before[id].user_data)
        new = zarr_metadata.decode_zarr_json(after[id].user_data)
        if old.attributes != new.attributes:
            attributes.add(id)
        if replace(old, attributes=None) != replace(new, attributes=None):
            metadata.add(id)
    return replace(
        log,
        updated_groups=frozenset(),
        updated_arrays=frozenset(metadata),
        updated_attributes=frozenset(attributes),
    )


def net_log(
    logs: Sequence[TransactionLog], base: Snapshot, tip: Snapshot, id: SnapshotId
) -> TransactionLog:
    """Return the net changes of some logs, oldest first, from one snapshot to another.

    Nodes that were created and deleted in between are left out, as are updates of nodes that were
    created or deleted. A node that was created and moved is only new.
    """
    before = {node.id: node for node in base.nodes.values()}
    after = {node.id: node for node in tip.nodes.values()}
    created = {id: after[id] for id in after.keys() - before.keys()}
    deleted = {id: before[id] for id in before.keys() - after.keys()}
    kept = before.keys() & after.keys()
    return TransactionLog(
        id=id,
        new_groups=groups_of(created),
        new_arrays=arrays_of(created),
        deleted_groups=groups_of(deleted),
        deleted_arrays=arrays_of(deleted),
        updated_groups=_unite(log.updated_groups for log in logs) & kept,
        updated_arrays=_unite(log.updated_arrays for log in logs) & kept,
        updated_chunks=_unite_chunks(logs, after),
        # Alpha releases list new nodes here, too.
        updated_attributes=_unite(log.updated_attributes for log in logs) & after.keys(),
        moves=chain_moves([describe_move(before[id], after[id]) for id in kept]),
    )


def describe_move(old: Node, new: Node) -> Move:
    """Return the move of a node between two states; both paths may be the same."""
    kind = NodeType.GROUP if new.array is None else NodeType.ARRAY
    return Move(old.path, new.path, new.id, kind)


def _unite(ids: Iterable[frozenset[NodeId]]) -> frozenset[NodeId]:
    return frozenset[NodeId]().union(*ids)


def _unite_chunks(
    logs: Sequence[TransactionLog], nodes: Mapping[NodeId, Node]
) -> dict[NodeId, Coordinates]:
    """Merge the chunks of arrays that still exist with the same number of axes."""
    parts: dict[NodeId, list[Coordinates]] = {}
    for log in logs:
        for id, coordinates in log.updated_chunks.items():
            if has_axes(nodes.get(id), coordinates):
                parts.setdefault(id, []).append(coordinates)
    return {id: coords_.unite(blocks) for id, blocks in parts.items()}


def has_axes(node: Node | None, coordinates: Coordinates) -> bool:
    """Return True if a node is an array with as many axes as the coordinates."""
    if node is None or node.array is None:
        return False
    return bool(coordinates.shape[1] == len(node.array.shape))
