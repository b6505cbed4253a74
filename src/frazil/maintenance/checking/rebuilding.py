"""Writing a transaction log anew from what is different in a snapshot and its parent."""

from collections.abc import Mapping
from dataclasses import replace

from frazil.assets import Assets
from frazil.engine.log_merging import keeps_attributes_apart, tell_attributes_apart
from frazil.engine.snapshot_comparison import compare_snapshots
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.snapshot import Node, Snapshot, nodes_by_path
from frazil.format.transaction_log import Move, NodeType, TransactionLog

Nodes = Mapping[NodeId, Node]


def rebuild_log(assets: Assets, parent: Snapshot | None, snapshot: Snapshot) -> TransactionLog:
    """What a commit changed by its outcome: what it undid itself is not in it.

    Raises FormatError or StorageError where a manifest can't be read.
    """
    if parent is None:
        return TransactionLog(snapshot.id)
    before, after = _by_id(parent), _by_id(snapshot)
    kept = [replace(node, path=after[id].path) for id, node in before.items() if id in after]
    diff = compare_snapshots(assets, replace(parent, nodes=nodes_by_path(kept)), snapshot)
    paths = {node.path: node for node in after.values()}
    deleted = [node for id, node in before.items() if id not in after]
    log = TransactionLog(
        snapshot.id,
        new_groups=frozenset(paths[each].id for each in diff.new_groups),
        new_arrays=frozenset(paths[each].id for each in diff.new_arrays),
        deleted_groups=frozenset(node.id for node in deleted if node.array is None),
        deleted_arrays=frozenset(node.id for node in deleted if node.array is not None),
        updated_groups=frozenset(paths[each].id for each in diff.updated_groups),
        updated_arrays=frozenset(paths[each].id for each in diff.updated_arrays),
        updated_chunks={paths[path].id: chunks for path, chunks in diff.chunk_coordinates.items()},
        moves=find_moves(before, after),
    )
    if not keeps_attributes_apart(assets.dialect):
        return log
    return tell_attributes_apart(log, before, after)


def find_moves(before: Nodes, after: Nodes) -> tuple[Move, ...]:
    """The nodes that have another path than they had."""
    return tuple(
        Move(before[id].path, node.path, id, NodeType.ARRAY if node.array else NodeType.GROUP)
        for id, node in after.items()
        if id in before and before[id].path != node.path
    )


def _by_id(snapshot: Snapshot) -> dict[NodeId, Node]:
    return {node.id: node for node in snapshot.nodes.values()}


def parent_of(assets: Assets, parent_id: SnapshotId | None) -> Snapshot | None:
    """The snapshot that another one follows; raises ObjectNotFoundError where it has no file."""
    return None if parent_id is None else assets.read_snapshot(parent_id)
