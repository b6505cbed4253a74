"""Several transaction logs as one, and what the logs of all generations have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.format import coordinates as coords_
from frazil.format.coordinates import Coordinates
from frazil.format.dialect import Dialect
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.paths import segment_order
from frazil.format.snapshot import Node
from frazil.format.transaction_log import Move, TransactionLog
from frazil.format.zarr_metadata import decode_zarr_json


def merge_logs(logs: Sequence[TransactionLog], id: SnapshotId) -> TransactionLog:
    """All that the logs tell, oldest first; a node may well be new and deleted at once."""
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
    """The chunks that the logs, oldest first, tell of, by array, each once.

    Chunks from before an array got another number of axes have no place any more and are left out.
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
    """Nodes whose metadata was set; the alphas list attributes apart, and new nodes among them."""
    attributes = log.updated_attributes - log.new_groups - log.new_arrays
    return log.updated_groups | log.updated_arrays | attributes


def chain_moves(moves: Sequence[Move]) -> tuple[Move, ...]:
    """Moves one after the other as one move a node, without those that end where they started."""
    chained: dict[object, Move] = {}
    for move in moves:
        key = move.node_id or move.to_path
        first = chained.get(key)
        origin = move.from_path if first is None else first.from_path
        chained[key] = Move(origin, move.to_path, move.node_id, move.node_type)
    kept = (move for move in chained.values() if move.from_path != move.to_path)
    return tuple(sorted(kept, key=lambda move: segment_order(move.to_path)))


def keeps_attributes_apart(dialect: Dialect) -> bool:
    """Whether the logs of a generation have a list of their own for attributes: an alpha does."""
    return dialect not in (Dialect.V1, Dialect.V2)


def tell_attributes_apart(
    log: TransactionLog, before: Mapping[NodeId, Node], after: Mapping[NodeId, Node]
) -> TransactionLog:
    """A log as such a generation keeps it, with new nodes in that list, too.

    Of the nodes those are needed that the log says are updated.
    """
    attributes, metadata = set(log.new_groups | log.new_arrays), set[NodeId]()
    for id in log.updated_groups | log.updated_arrays:
        old, new = decode_zarr_json(before[id].user_data), decode_zarr_json(after[id].user_data)
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
