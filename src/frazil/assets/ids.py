"""Fresh random ids; the draft generation has longer ones."""

import os

from frazil.format.dialect import Dialect
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId


def new_snapshot_id(dialect: Dialect) -> SnapshotId:
    """An id that no snapshot has."""
    return SnapshotId(os.urandom(_size(dialect)))


def new_manifest_id(dialect: Dialect) -> ManifestId:
    """An id that no manifest has."""
    return ManifestId(os.urandom(_size(dialect)))


def new_chunk_id(dialect: Dialect) -> ChunkId:
    """An id that no chunk has."""
    return ChunkId(os.urandom(_size(dialect)))


def new_node_id() -> NodeId:
    """An id that no node has, in the generations that don't number their nodes."""
    return NodeId(os.urandom(8))


def _size(dialect: Dialect) -> int:
    return 16 if dialect is Dialect.DRAFT else 12
