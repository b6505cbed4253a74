"""What several commits changed in the end, as one session would have logged it: pure."""

from collections.abc import Iterable, Mapping, Sequence

from frazil.engine.changes import arrays_of, groups_of
from frazil.engine.log_merging import chain_moves
from frazil.format import coordinates as coords_
from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.snapshot import Node, Snapshot
from frazil.format.transaction_log import Move, NodeType, TransactionLog


def net_log(
    logs: Sequence[TransactionLog], base: Snapshot, tip: Snapshot, id: SnapshotId
) -> TransactionLog:
    """What all logs, oldest first, tell of the way from one snapshot to another.

    A node that was made and deleted on the way is not in it, nor is an update of one that was made
    or is gone; a node that was made and moved is only new.
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
        # The alphas list new nodes here, too.
        updated_attributes=_unite(log.updated_attributes for log in logs) & after.keys(),
        moves=chain_moves([describe_move(before[id], after[id]) for id in kept]),
    )


def describe_move(old: Node, new: Node) -> Move:
    """Where a node was and is, which may be the same."""
    kind = NodeType.GROUP if new.array is None else NodeType.ARRAY
    return Move(old.path, new.path, new.id, kind)


def _unite(ids: Iterable[frozenset[NodeId]]) -> frozenset[NodeId]:
    return frozenset[NodeId]().union(*ids)


def _unite_chunks(
    logs: Sequence[TransactionLog], nodes: Mapping[NodeId, Node]
) -> dict[NodeId, Coordinates]:
    """The chunks of arrays that are still there, and have the axes that they had then."""
    parts: dict[NodeId, list[Coordinates]] = {}
    for log in logs:
        for id, coordinates in log.updated_chunks.items():
            if has_axes(nodes.get(id), coordinates):
                parts.setdefault(id, []).append(coordinates)
    return {id: coords_.unite(blocks) for id, blocks in parts.items()}


def has_axes(node: Node | None, coordinates: Coordinates) -> bool:
    """Whether these can be coordinates of a node's chunks."""
    if node is None or node.array is None:
        return False
    return bool(coordinates.shape[1] == len(node.array.shape))
