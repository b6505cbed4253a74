"""Diff a session against its base, or two snapshots."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.format import coordinates as coords_
from frazil.format.coordinates import Coordinates
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import ChunkKind, ChunkTable, concatenate
from frazil.format.ragged import Strings, unite
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import ArrayData, ManifestRef, Move, Node, Snapshot, TransactionLog
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol, refuse_unless_one
from frazil.protocols.v1_protocol import read_snapshot
from frazil.repository.changes import ChangeSet, merge_chunks, updated_nodes
from frazil.repository.conflicts import describe_ours
from frazil.repository.context import SessionState
from frazil.repository.view import View, manifests_of
from frazil.snapshots import Diff


def compare_snapshots(assets: Assets, old: Snapshot, new: Snapshot) -> Diff:
    """Compare the nodes and chunks of two snapshots, without transaction logs."""
    # Node numbers are reused after a deletion, so a node is identified by path and id.
    before = {(node.path, node.id): node for node in old.nodes.values()}
    after = {(node.path, node.id): node for node in new.nodes.values()}
    created = [after[key] for key in after.keys() - before.keys()]
    deleted = [before[key] for key in before.keys() - after.keys()]
    kept = [(before[key], after[key]) for key in after.keys() & before.keys()]
    updated = [node for former, node in kept if former.user_data != node.user_data]
    old_view = View(assets, old, ChangeSet.of(assets.dialect))
    new_view = View(assets, new, ChangeSet.of(assets.dialect))
    chunks = {node.path: new_view.table(node).coordinates for node in created if node.array}
    chunks |= {
        node.path: changed_chunks(old_view.table(former), new_view.table(node))
        for former, node in kept
        if former.array and node.array and _may_differ(former.array, node.array)
    }
    return Diff(
        new_groups=group_paths(created),
        new_arrays=array_paths(created),
        deleted_groups=group_paths(deleted),
        deleted_arrays=array_paths(deleted),
        updated_groups=group_paths(updated),
        updated_arrays=array_paths(updated),
        chunk_coordinates={path: found for path, found in chunks.items() if len(found)},
    )


def _may_differ(old: ArrayData, new: ArrayData) -> bool:
    """Return False if both have the same manifests and shape."""
    return (old.manifests, old.shape) != (new.manifests, new.shape)


def group_paths(nodes: Iterable[Node]) -> set[str]:
    """Return the paths of the groups among some nodes."""
    return {node.path for node in nodes if node.array is None}


def array_paths(nodes: Iterable[Node]) -> set[str]:
    """Return the paths of the arrays among some nodes."""
    return {node.path for node in nodes if node.array is not None}


def changed_chunks(old: ChunkTable, new: ChunkTable) -> Coordinates:
    """Return the coordinates of references that were added, replaced or removed."""
    if old.axes != new.axes:
        return new.coordinates
    rows = old.locate(new.coordinates)
    former, current = old.take(rows[rows >= 0]), new.take(rows >= 0)
    replaced = current.coordinates[_differ(former, current)]
    removed = coords_.without(old.coordinates, new.coordinates)
    return coords_.unite([new.coordinates[rows < 0], replaced, removed])


def _differ(old: ChunkTable, new: ChunkTable) -> NDArray[np.bool_]:
    """Return a mask of the rows whose references differ; both tables have the same coordinates."""
    differ: NDArray[np.bool_] = (old.kind != new.kind) | (old.length != new.length)
    differ |= (old.offset != new.offset) & (new.kind != ChunkKind.INLINE)
    differ |= np.any(old.chunk_id != new.chunk_id, axis=1)
    differ |= old.last_modified != new.last_modified
    differ |= _texts_differ(old.locations, old.location, new.locations, new.location)
    differ |= _texts_differ(old.etags, old.etag, new.etags, new.etag)
    for row in np.flatnonzero((new.kind == ChunkKind.INLINE) & ~differ).tolist():
        differ[row] = old.ref(row) != new.ref(row)
    return differ


def _texts_differ(
    old: Strings, old_codes: NDArray[np.int32], new: Strings, new_codes: NDArray[np.int32]
) -> NDArray[np.bool_]:
    _, (old_numbers, new_numbers) = unite([old, new])
    # Code -1, "no text", indexes from the end and finds the appended -1.
    return np.asarray(
        np.append(old_numbers, -1)[old_codes] != np.append(new_numbers, -1)[new_codes], np.bool_
    )


def compare_arrays(assets: Assets, old: Node, new: Node) -> Coordinates:
    """Return the chunks whose references differ between two versions of an array.

    Manifests that both versions have are not read.
    """
    kept = {ref.id for ref in _manifests(assets, old)} & {ref.id for ref in _manifests(assets, new)}
    return changed_chunks(_read_other(assets, old, kept), _read_other(assets, new, kept))


def _manifests(assets: Assets, node: Node) -> Sequence[ManifestRef]:
    assert node.array is not None
    return manifests_of(node.array, assets.dialect)


def _read_other(assets: Assets, node: Node, kept: Container[ManifestId]) -> ChunkTable:
    assert node.array is not None
    axes = len(node.array.shape)
    tables = (
        assets.read_manifest(ref.id).table(node.id, axes)
        for ref in _manifests(assets, node)
        if ref.id not in kept
    )
    return concatenate([ChunkTable.empty(axes, ChangeSet.of(assets.dialect).id_size), *tables])


def status(state: SessionState) -> Diff:
    """Return the changes of a session, without deletions of nodes that its base does not have."""
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
    """Return the changes of the commits after one snapshot, up to and including another.

    Missing logs of expired commits are skipped. Raises InvalidInputError unless the first is an
    ancestor of the second, and SnapshotNotFoundError.
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
    """Return the changes that logs, newest first, record for known nodes; moves keep that order."""
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
    """Return the commits after an ancestor, newest first; raises InvalidInputError if it is none."""
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


Version = tuple[str | None, str | None, str | None]
"""Branch, tag or snapshot id; exactly one of them."""


def diff_versions(protocol: CommitProtocol, old: Version, new: Version) -> Diff:
    """Return the changes between two versions; both are checked before anything is read."""
    for version in (old, new):
        refuse_unless_one(*version)
    return diff(protocol, protocol.resolve(*old), protocol.resolve(*new))
