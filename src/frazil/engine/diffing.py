"""What changed: in a session, and between two snapshots.

Between snapshots the transaction logs tell, without cancelling out: a node that was made and deleted
on the way counts as neither, because no end of the way knows it, but a chunk that was written twice
counts. The generations that keep no logs have their snapshots compared instead, which tells only what
is different in the end.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from frazil.assets import Assets
from frazil.engine.conflict_rules import describe_ours
from frazil.engine.log_merging import merge_chunks, updated_nodes
from frazil.engine.snapshot_comparison import (
    array_paths,
    compare_snapshots,
    group_paths,
)
from frazil.engine.state import SessionState
from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Node
from frazil.format.transaction_log import Move, TransactionLog
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.snapshot_infos import read_snapshot
from frazil.snapshots import Diff


def status(state: SessionState) -> Diff:
    """What a session has changed, without deletions of what its base has lost by itself."""
    changes, base = state.changes, state.view.snapshot.nodes
    edited = describe_ours(changes, base).edited
    deleted = [node for node in changes.deleted.values() if _is_in(base, node)]
    return Diff(
        new_groups=group_paths(changes.created.values()),
        new_arrays=array_paths(changes.created.values()),
        deleted_groups=group_paths(deleted),
        deleted_arrays=array_paths(deleted),
        updated_groups=group_paths(changes.updated.values()),
        updated_arrays=array_paths(changes.updated.values()),
        chunk_coordinates={
            edited[id].path: edits.coordinates() for id, edits in changes.chunks.items()
        },
        moved_nodes=_list_moves(changes.moves()),
    )


def diff(protocol: CommitProtocol, from_id: SnapshotId, to_id: SnapshotId) -> Diff:
    """What commits changed after one snapshot, up to and with another.

    Raises InvalidInputError unless the first is an ancestor of the second, SnapshotNotFoundError.
    Logs of expired commits that are gone are left out.
    """
    protocol.lookup_snapshot(from_id)
    infos = commits_between(protocol, from_id, to_id)
    assets = protocol.assets
    old, new = read_snapshot(assets, from_id), read_snapshot(assets, to_id)
    if assets.layout.transactions is None:
        return compare_snapshots(assets, old, new)
    logs = [log for info in infos for log in _read_logs(assets, info)]
    return describe_logs(
        logs, {node.id: node for node in (*old.nodes.values(), *new.nodes.values())}
    )


def describe_logs(logs: list[TransactionLog], nodes: Mapping[NodeId, Node]) -> Diff:
    """All that logs, newest first, tell about nodes that are known; moves keep that order."""
    new = _known(nodes, (log.new_groups | log.new_arrays for log in logs))
    deleted = _known(nodes, (log.deleted_groups | log.deleted_arrays for log in logs))
    updated = _known(nodes, map(updated_nodes, logs))
    chunks = merge_chunks(logs[::-1])
    return Diff(
        new_groups=group_paths(new),
        new_arrays=array_paths(new),
        deleted_groups=group_paths(deleted),
        deleted_arrays=array_paths(deleted),
        updated_groups=group_paths(updated),
        updated_arrays=array_paths(updated),
        chunk_coordinates={nodes[id].path: chunks[id] for id in chunks.keys() & nodes.keys()},
        moved_nodes=_list_moves(move for log in logs for move in log.moves),
    )


def commits_between(
    protocol: CommitProtocol, from_id: SnapshotId, to_id: SnapshotId
) -> list[SnapshotInfo]:
    """The commits after a snapshot, newest first; raises InvalidInputError unless it is an ancestor."""
    infos: list[SnapshotInfo] = []
    for info in protocol.ancestry(to_id):
        if info.id == from_id and infos:
            return infos
        infos.append(info)
    raise InvalidInputError(
        f"`to` snapshot ancestry doesn't include `from`: no commits lead from {from_id} to {to_id}",
        kind="bad-snapshot-chain-for-diff",
    )


def _read_logs(assets: Assets, info: SnapshotInfo) -> Iterator[TransactionLog]:
    for id in info.pruned_ancestor_tx_logs:
        with suppress(ObjectNotFoundError):
            yield assets.read_transaction_log(id)
    yield assets.read_transaction_log(info.id)


def _known(nodes: Mapping[NodeId, Node], ids: Iterable[frozenset[NodeId]]) -> list[Node]:
    return [nodes[id] for id in frozenset[NodeId]().union(*ids) & nodes.keys()]


def _is_in(nodes: Mapping[str, Node], node: Node) -> bool:
    found = nodes.get(node.path)
    return found is not None and found.id == node.id


def _list_moves(moves: Iterable[Move]) -> list[tuple[str, str]]:
    return [(move.from_path, move.to_path) for move in moves]
