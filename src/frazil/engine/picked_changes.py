"""What one commit changed, as changes that can be put on top of another snapshot.

Nodes are compared in the commit and its parent; which chunks were set or deleted says its transaction
log, and where they are its manifests: of those only the ones are read that can have them.
"""

from collections.abc import Mapping
from dataclasses import replace

from frazil.assets import Assets
from frazil.engine.changes import ChangeSet
from frazil.engine.edits import ChunkEdits
from frazil.engine.lookup import manifests_of
from frazil.engine.net_log import has_axes
from frazil.errors import SessionStateError
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.snapshot import Node, Snapshot
from frazil.format.transaction_log import TransactionLog


def read_changes(
    assets: Assets, parent: Snapshot, snapshot: Snapshot, log: TransactionLog
) -> ChangeSet:
    """The changes of a commit over its parent, but for moves.

    Raises SessionStateError if the log tells of less than is different: then commits between the
    two have expired, and what this one did is not known.
    """
    before = {node.id: node for node in parent.nodes.values()}
    after = {node.id: node for node in snapshot.nodes.values()}
    _refuse_gap(snapshot, log, before, after)
    changes = ChangeSet.of(assets.dialect)
    for id in before.keys() - after.keys():
        changes.delete(before[id])
    for id in after.keys() - before.keys():
        changes.create(_without_manifests(after[id]))
    for id in after.keys() & before.keys():
        if after[id].user_data != before[id].user_data:
            changes.update(after[id])
    for id, coordinates in log.updated_chunks.items():
        if has_axes(after.get(id), coordinates):
            changes.chunks[id] = _read_edits(assets, after[id], coordinates, changes.id_size)
    return changes


def _refuse_gap(
    snapshot: Snapshot,
    log: TransactionLog,
    before: Mapping[NodeId, Node],
    after: Mapping[NodeId, Node],
) -> None:
    is_told = after.keys() - before.keys() <= log.new_groups | log.new_arrays and (
        before.keys() - after.keys() <= log.deleted_groups | log.deleted_arrays
    )
    if not is_told:
        raise expired_parent(snapshot.id)


def expired_parent(id: SnapshotId) -> SessionStateError:
    """The error that says that a commit has nothing left to be compared with."""
    return SessionStateError(
        f"the commit before {id} has expired, so that what {id} alone changed is not known any more",
        kind="rebase-tx-log-pruned",
    )


def _without_manifests(node: Node) -> Node:
    return node if node.array is None else replace(node, array=replace(node.array, manifests=()))


def _read_edits(assets: Assets, node: Node, coordinates: Coordinates, id_size: int) -> ChunkEdits:
    edits = ChunkEdits(coordinates.shape[1], id_size)
    written = read_references(assets, node, coordinates)
    deleted = coords_.without(coordinates, written.coordinates)
    if len(deleted):
        edits.delete_many(deleted)
    if len(written):
        edits.set_table(written)
    return edits


def read_references(assets: Assets, node: Node, coordinates: Coordinates) -> ChunkTable:
    """The references of some chunks of an array, without those that there are not."""
    assert node.array is not None
    axes = coordinates.shape[1]
    id_size = ChangeSet.of(assets.dialect).id_size
    found = [ChunkTable.empty(axes, id_size)]
    for ref in manifests_of(node.array, assets.dialect):
        wanted = coordinates[coords_.rows_inside(coordinates, ref.extents)]
        if len(wanted):
            table = assets.read_manifest(ref.id).table(node.id, axes)
            rows = table.locate(wanted)
            found.append(table.take(rows[rows >= 0]))
    return concatenate(found)
