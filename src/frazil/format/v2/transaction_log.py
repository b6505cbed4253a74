"""Transaction logs in V1 and V2."""

from collections.abc import Iterable, Sequence

import numpy as np

from frazil.errors import InvalidInputError
from frazil.format.coordinates import Coordinates, is_strictly_sorted, sort_order
from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.flatbuffers.fields import (
    ABSENT,
    Attached,
    Link,
    Number,
    Struct,
    numbers,
    one,
    row,
    rows,
)
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.flatbuffers.writer import Writer
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.paths import find_path_problem, segment_order
from frazil.format.ragged import Bytes, Integers, Part
from frazil.format.transaction_log import Move, NodeType, TransactionLog
from frazil.format.v2.schema import MoveSlot, TransactionLogSlot, UpdatedChunksSlot

_NODE_SETS = {
    "new_groups": TransactionLogSlot.NEW_GROUPS,
    "new_arrays": TransactionLogSlot.NEW_ARRAYS,
    "deleted_groups": TransactionLogSlot.DELETED_GROUPS,
    "deleted_arrays": TransactionLogSlot.DELETED_ARRAYS,
    "updated_arrays": TransactionLogSlot.UPDATED_ARRAYS,
    "updated_groups": TransactionLogSlot.UPDATED_GROUPS,
}

_CHUNKS_AT_ONCE = 1 << 15
"""So many are read together: as much as a processor's cache holds."""


def decode_transaction_log_payload(payload: bytes) -> TransactionLog:
    """Read a transaction log's FlatBuffer."""
    root = Buffer(payload, "transaction-log").root()
    updated_chunks = {}
    for table in root.tables(TransactionLogSlot.UPDATED_CHUNKS):
        node_id = NodeId(table.struct(UpdatedChunksSlot.NODE_ID, 8, "an array's node id"))
        updated_chunks[node_id] = _decode_coordinates(table)
    return TransactionLog(
        id=SnapshotId(root.struct(TransactionLogSlot.ID, 12, "the id")),
        updated_chunks=updated_chunks,
        moves=tuple(map(_decode_move, root.tables(TransactionLogSlot.MOVED_NODES))),
        extra=root.find_data(TransactionLogSlot.EXTRA),
        **{
            name: frozenset(map(NodeId, root.structs(slot, 8))) for name, slot in _NODE_SETS.items()
        },
    )


def _decode_coordinates(array: Table) -> Coordinates:
    buffer = array.buffer
    start, count = buffer.vector(buffer.follow(array.field(UpdatedChunksSlot.CHUNKS, "chunks")), 4)
    source = Source.of(buffer)
    blocks = [
        _decode_block(source, start + 4 * first, min(_CHUNKS_AT_ONCE, count - first))
        for first in range(0, max(count, 1), _CHUNKS_AT_ONCE)
    ]
    if len({block.shape[1] for block in blocks}) > 1:
        raise buffer.damaged("coordinates of one array have different numbers of axes")
    coordinates = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    if is_strictly_sorted(coordinates):
        return coordinates
    return coordinates[sort_order(coordinates)]


def _decode_block(source: Source, start: int, count: int) -> Coordinates:
    links = start + 4 * np.arange(count, dtype=np.int64)
    vectors = Tables(source, source.follow(links)).targets(0)
    if np.any(vectors < 0):
        raise source.damaged("a chunk has no coordinates")
    return source.matrix(vectors, "<u4")


def _decode_move(table: Table) -> Move:
    node_id = table.find_struct(MoveSlot.NODE_ID, 8)
    node_type = table.number(MoveSlot.NODE_TYPE, "B")
    if node_type not in (NodeType.GROUP, NodeType.ARRAY):
        raise table.buffer.damaged(f"a moved node is of the unknown type {node_type}")
    return Move(
        from_path=_decode_path(table, MoveSlot.FROM, "the source of a move"),
        to_path=_decode_path(table, MoveSlot.TO, "the target of a move"),
        node_id=None if node_id is None else NodeId(node_id),
        node_type=NodeType(node_type),
    )


def _decode_path(table: Table, slot: int, name: str) -> str:
    path = table.text(slot, name)
    if problem := find_path_problem(path):
        raise table.buffer.damaged(f"{name}, {path!r}, is no node path: {problem}")
    return path


def encode_transaction_log_payload(log: TransactionLog, spec_version: int) -> list[Part]:
    """The FlatBuffer of a transaction log; V1 has no moves."""
    if spec_version == 1 and log.moves:
        raise InvalidInputError("transaction log: V1 can't record moves")
    if log.updated_attributes:
        raise InvalidInputError("transaction log: only alpha logs list updated attributes")
    writer = Writer("transaction log")
    moves = sorted(log.moves, key=lambda move: segment_order(move.to_path))
    moved_nodes = writer.link_vector(_write_moves(writer, moves)) if spec_version == 2 else ABSENT
    chunks = writer.link_vector(_write_updated_chunks(writer, sorted(log.updated_chunks.items())))
    sets = [
        Link(slot, one(writer.struct_vector(_sorted_ids(getattr(log, name)))))
        for name, slot in _NODE_SETS.items()
    ]
    root = writer.table(
        Struct(TransactionLogSlot.ID, row(log.id)),
        *sets,
        Link(TransactionLogSlot.UPDATED_CHUNKS, one(chunks)),
        Link(TransactionLogSlot.MOVED_NODES, one(moved_nodes)),
        Link(TransactionLogSlot.EXTRA, writer.optional_bytes([log.extra])),
    )
    return writer.finish(root)


def _sorted_ids(node_ids: Iterable[NodeId]) -> Bytes:
    return rows(sorted(node_ids), 8)


def _write_updated_chunks(
    writer: Writer, updated: Sequence[tuple[NodeId, Coordinates]]
) -> Integers:
    vectors = [
        writer.linked_tables(len(coordinates), Attached(0, coordinates))
        for _, coordinates in updated
    ]
    return writer.tables(
        len(updated),
        Struct(UpdatedChunksSlot.NODE_ID, rows([node_id for node_id, _ in updated], 8)),
        Link(UpdatedChunksSlot.CHUNKS, np.array(vectors, np.int64)),
    )


def _write_moves(writer: Writer, moves: Sequence[Move]) -> Integers:
    places = np.empty(len(moves), np.int64)
    # Pre-releases of V2 recorded moves without node ids; such logs are written back as they were.
    for has_id in (True, False):
        members = [i for i, move in enumerate(moves) if (move.node_id is not None) is has_id]
        group = [moves[member] for member in members]
        ids = [move.node_id for move in group if move.node_id is not None]
        places[members] = writer.tables(
            len(group),
            Link(MoveSlot.FROM, writer.texts([move.from_path for move in group])),
            Link(MoveSlot.TO, writer.texts([move.to_path for move in group])),
            *([Struct(MoveSlot.NODE_ID, rows(ids, 8))] if has_id else []),
            Number(MoveSlot.NODE_TYPE, numbers((move.node_type for move in group), "<u1")),
        )
    return places
