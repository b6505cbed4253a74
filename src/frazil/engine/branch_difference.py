"""How a branch differs from a snapshot that need not be in its history, as far as changes meet it.

That is what a commit's transaction log is to a rebase. It is found by comparing, because no log tells
of what the branch never had: commits of the other side are as if they had been undone here.
"""

from frazil.assets import Assets
from frazil.engine.changes import ChangeSet, arrays_of, groups_of
from frazil.engine.lookup import manifests_of
from frazil.engine.net_log import describe_move
from frazil.engine.picked_changes import read_references
from frazil.engine.snapshot_comparison import changed_chunks
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId
from frazil.format.snapshot import ManifestRef, Node, Snapshot
from frazil.format.transaction_log import TransactionLog

_Pair = tuple[Node, Node]
"""A node before and after."""


def compare_for(
    changes: ChangeSet, assets: Assets, base: Snapshot, tip: Snapshot
) -> TransactionLog:
    """What is different at the tip from the base that changes are made on.

    Of chunks it tells those that the changes set or delete, also with their array.
    """
    before = {node.id: node for node in base.nodes.values()}
    after = {node.id: node for node in tip.nodes.values()}
    created = {id: after[id] for id in after.keys() - before.keys()}
    deleted = {id: before[id] for id in before.keys() - after.keys()}
    kept = {id: (before[id], after[id]) for id in after.keys() & before.keys()}
    updated = {id: new for id, (old, new) in kept.items() if old.user_data != new.user_data}
    return TransactionLog(
        id=tip.id,
        new_groups=groups_of(created),
        new_arrays=arrays_of(created),
        deleted_groups=groups_of(deleted),
        deleted_arrays=arrays_of(deleted),
        updated_groups=groups_of(updated),
        updated_arrays=arrays_of(updated),
        updated_chunks=_compare_chunks(changes, assets, kept),
        moves=tuple(describe_move(old, new) for old, new in kept.values() if old.path != new.path),
    )


def _compare_chunks(
    changes: ChangeSet, assets: Assets, kept: dict[NodeId, _Pair]
) -> dict[NodeId, Coordinates]:
    found: dict[NodeId, Coordinates] = {}
    for id in kept.keys() & changes.chunks.keys():
        coordinates = changes.chunks[id].coordinates()
        old, new = (read_references(assets, node, coordinates) for node in kept[id])
        found[id] = changed_chunks(old, new)
    for id in kept.keys() & arrays_of(changes.deleted):
        old, new = _read_different(assets, kept[id])
        found[id] = changed_chunks(old, new)
    return {id: coordinates for id, coordinates in found.items() if len(coordinates)}


def _read_different(assets: Assets, pair: _Pair) -> tuple[ChunkTable, ChunkTable]:
    """The references of an array before and after, without those of manifests that both have."""
    refs = [manifests_of(node.array, assets.dialect) for node in pair if node.array is not None]
    shared = set(refs[0]) & set(refs[1])
    old, new = (
        _read_tables(assets, node, [ref for ref in each if ref not in shared])
        for node, each in zip(pair, refs, strict=True)
    )
    return old, new


def _read_tables(assets: Assets, node: Node, refs: list[ManifestRef]) -> ChunkTable:
    assert node.array is not None
    axes = len(node.array.shape)
    tables = [assets.read_manifest(ref.id).table(node.id, axes) for ref in refs]
    return concatenate([ChunkTable.empty(axes, ChangeSet.of(assets.dialect).id_size), *tables])
