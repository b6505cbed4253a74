"""Transaction log: the changes of one commit, for rebase and diff."""

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum

import numpy as np

from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId, SnapshotId
from frazil.lazy import dataclass


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
