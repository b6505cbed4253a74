"""What a session has changed since its base snapshot.

Rules kept here:

- A node that was made and deleted in the session leaves no trace; one that was deleted and made again
  has a new id and counts as both.
- Deleting a group deletes everything below it.
- A node keeps its id when it moves.
- An array that gets another number of axes loses its chunks: their coordinates name nothing any more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from frazil.engine.edits import ChunkEdits
from frazil.format.dialect import Dialect
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.paths import segment_order
from frazil.format.snapshot import ArrayData, Node
from frazil.format.transaction_log import Move, NodeType


@dataclass(slots=True)
class ChangeSet:
    """Pending edits; `nodes` is what a reader looks at, the rest is what a commit records."""

    id_size: int = 12
    """Bytes of a chunk id."""
    nodes: dict[str, Node | None] = field(default_factory=dict)
    """By path: nodes that are new here, or changed, or None where the base's node is gone."""
    created: dict[NodeId, Node] = field(default_factory=dict)
    updated: dict[NodeId, Node] = field(default_factory=dict)
    """Nodes of the base whose metadata was set."""
    deleted: dict[NodeId, Node] = field(default_factory=dict)
    """Nodes of the base, as they were there."""
    chunks: dict[NodeId, ChunkEdits] = field(default_factory=dict)
    moved: dict[NodeId, str] = field(default_factory=dict)
    """Where nodes of the base were before they moved."""
    sources: set[SnapshotId] = field(default_factory=set)
    """Snapshots that chunks were taken from: as long as the history has them, nobody deletes these."""

    @classmethod
    def of(cls, dialect: Dialect) -> Self:
        """No changes, in the form that a dialect asks for."""
        return cls(id_size=16 if dialect is Dialect.DRAFT else 12)

    def __bool__(self) -> bool:
        # Moves count, as officially, also those that left everything where it was.
        return bool(self.created or self.updated or self.deleted or self.chunks or self.moved)

    # Nodes

    def create(self, node: Node) -> None:
        """Add a node where there is none."""
        self.nodes[node.path] = node
        self.created[node.id] = node

    def update(self, node: Node) -> None:
        """Give a node other metadata."""
        self._drop_edits_of_other_axes(node)
        self.nodes[node.path] = node
        if node.id in self.created:
            self.created[node.id] = node
        else:
            self.updated[node.id] = node

    def delete(self, node: Node) -> None:
        """Remove one node, without those below it."""
        self.nodes[node.path] = None
        self.chunks.pop(node.id, None)
        self.updated.pop(node.id, None)
        if self.created.pop(node.id, None) is None:
            self.deleted[node.id] = node

    def move(self, node: Node, to_path: str) -> None:
        """Put one node, without those below it, elsewhere."""
        self.nodes[node.path] = None
        self.nodes[to_path] = replace(node, path=to_path)
        self.moved.setdefault(node.id, node.path)

    def moves(self) -> tuple[Move, ...]:
        """Where moved nodes came from and are, without those that are back where they were."""
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
        """The edits of an array, to be added to."""
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
        """Arrays whose manifests may have to be written anew."""
        yield from self.chunks
        for id, node in {**self.created, **self.updated}.items():
            if node.array is not None and id not in self.chunks:
                yield id

    def copy(self) -> "ChangeSet":
        """Changes that go on their own way from here."""
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
    """The ids of those that are groups."""
    return frozenset(id for id, node in nodes.items() if node.array is None)


def arrays_of(nodes: Mapping[NodeId, Node]) -> frozenset[NodeId]:
    """The ids of those that are arrays."""
    return frozenset(id for id, node in nodes.items() if node.array is not None)


def with_manifests_of(array: ArrayData, former: ArrayData) -> ArrayData:
    """An array over the references of another state of it, if they have the same axes."""
    if len(array.shape) != len(former.shape):
        return replace(array, manifests=())
    return replace(array, manifests=former.manifests)


def _node_type(node: Node) -> NodeType:
    return NodeType.GROUP if node.array is None else NodeType.ARRAY
