"""What things are called in V2: ids that follow from the old ones, or from what they name."""

from collections.abc import Iterable
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from frazil.format.chunks import ChunkTable
from frazil.format.dialect import Dialect
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.snapshot import Node
from frazil.format.strings import Strings

_NUMBERING_DIALECTS = frozenset((Dialect.DRAFT, Dialect.ALPHA_A))


def name_snapshot(old: SnapshotId) -> SnapshotId:
    """The id of a snapshot, and of its transaction log."""
    return SnapshotId(_digest(b"snapshot", old)[:12])


def name_chunk(old: ChunkId) -> ChunkId:
    """The id of a chunk file whose name is too long for V2."""
    return ChunkId(_digest(b"chunk", old)[:12])


def name_node(node: Node, dialect: Dialect) -> NodeId:
    """The id of a node of a snapshot file: the one that it has, unless that is a number.

    Numbers are used again after a deletion, so that a node is its number, its path and its kind.
    """
    if dialect not in _NUMBERING_DIALECTS:
        return node.id
    kind = b"group" if node.array is None else b"array"
    return NodeId(_digest(b"node", node.id, kind, node.path.encode())[:8])


def name_manifest(node_id: NodeId, table: ChunkTable) -> ManifestId:
    """The id of the manifest of an array's references: equal references have equal ids."""
    locations, location = _rank(table.locations, table.location)
    etags, etag = _rank(table.etags, table.etag)
    columns = (
        table.coordinates, table.kind, table.offset, table.length, table.chunk_id,
        table.last_modified, location, etag, table.inline,
    )  # fmt: skip
    texts = repr((table.coordinates.shape, locations, etags)).encode()
    blocks = (np.ascontiguousarray(column).data for column in columns)
    return ManifestId(_digest(b"manifest", node_id, texts, *blocks)[:12])


def _rank(texts: Strings, codes: NDArray[np.int32]) -> tuple[list[str], NDArray[np.int32]]:
    """Texts in their order, and numbers into them: how they were numbered does not matter."""
    ordered = sorted(set(texts))
    ranks = {text: rank for rank, text in enumerate(ordered)}
    # The last number stands for -1, "no text", which indexes from the end.
    numbers = np.array([*(ranks[text] for text in texts), -1], np.int32)
    return ordered, numbers[codes]


def _digest(*parts: bytes | memoryview) -> bytes:
    return _hash_all(memoryview(part) for part in parts)


def _hash_all(parts: Iterable[memoryview]) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(part.nbytes.to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
