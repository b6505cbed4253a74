"""Turning a session's changes into a snapshot: manifests, then snapshot and transaction log.

Nothing here moves a branch. What is written has new names, so that it disturbs nobody and may be
left behind.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from frazil.assets import Assets, new_snapshot_id
from frazil.engine.changes import arrays_of, groups_of
from frazil.engine.log_merging import keeps_attributes_apart, tell_attributes_apart
from frazil.engine.manifests import ManifestWriter, WrittenManifests, write_manifests
from frazil.engine.splitting import SplitRule
from frazil.engine.view import View
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.metadata import Metadata
from frazil.format.snapshot import ManifestFileInfo, Node, Snapshot, nodes_by_path
from frazil.format.times import Nanoseconds
from frazil.format.transaction_log import TransactionLog
from frazil.protocols.clock import read_clock, time_after
from frazil.protocols.history import snapshot_parent_id
from frazil.protocols.recorded_history import continue_history

_MANY_CHUNKS = 100_000
"""A log of so many is worth a thread."""


@dataclass(frozen=True, slots=True)
class CommitText:
    """What a person says about a commit."""

    message: str
    metadata: Mapping[str, JsonValue]


def write_commit(
    view: View,
    text: CommitText,
    rules: Sequence[SplitRule],
    *,
    started_at: Nanoseconds,
    write: ManifestWriter = write_manifests,
) -> tuple[Snapshot, TransactionLog]:
    """Write all files of a commit but the one that makes it a commit."""
    id = new_snapshot_id(view.assets.dialect)
    log = build_log(view, id)
    if sum(map(len, log.updated_chunks.values())) < _MANY_CHUNKS:
        snapshot = build_snapshot(view, write(view, rules), text, id=id, started_at=started_at)
        write_files(view.assets, snapshot, log)
        return snapshot, log
    # Both take long, and most of it outside of Python.
    with ThreadPoolExecutor(1) as pool:
        logging = pool.submit(view.assets.write_transaction_log, log)
        snapshot = build_snapshot(view, write(view, rules), text, id=id, started_at=started_at)
        view.assets.write_snapshot(snapshot)
        logging.result()
    return snapshot, log


def write_files(assets: Assets, snapshot: Snapshot, log: TransactionLog) -> None:
    """Write a snapshot and its transaction log."""
    assets.write_snapshot(snapshot)
    assets.write_transaction_log(log)


def build_snapshot(
    view: View,
    manifests: WrittenManifests,
    text: CommitText,
    *,
    id: SnapshotId,
    started_at: Nanoseconds,
) -> Snapshot:
    """The snapshot that a session's changes make of its base."""
    dialect, parent = view.assets.dialect, view.snapshot
    nodes = [_with_manifests(node, manifests) for node in view.nodes()]
    return Snapshot(
        id=id,
        parent_id=snapshot_parent_id(parent, dialect),
        flushed_at=time_after(parent.flushed_at, read_clock()),
        message=text.message,
        metadata=Metadata(text.metadata),
        nodes=nodes_by_path(nodes),
        manifest_files=_manifest_files(nodes, manifests, parent),
        history=continue_history(view.assets, parent.id, started_at),
    )


def _with_manifests(node: Node, manifests: WrittenManifests) -> Node:
    refs = manifests.refs.get(node.id)
    if refs is None or node.array is None:
        return node
    return replace(node, array=replace(node.array, manifests=refs))


def _manifest_files(
    nodes: Sequence[Node], manifests: WrittenManifests, parent: Snapshot
) -> tuple[ManifestFileInfo, ...]:
    """The files that the nodes point to, by id."""
    known = {info.id: info for info in parent.manifest_files} | manifests.files
    used: set[ManifestId] = set()
    for node in nodes:
        if node.array is not None:
            used.update(ref.id for ref in node.array.manifests)
    return tuple(known.get(id) or ManifestFileInfo(id) for id in sorted(used))


def build_log(view: View, snapshot_id: SnapshotId) -> TransactionLog:
    """What a session changed."""
    changes = view.changes
    log = TransactionLog(
        id=snapshot_id,
        new_groups=groups_of(changes.created),
        new_arrays=arrays_of(changes.created),
        deleted_groups=groups_of(changes.deleted),
        deleted_arrays=arrays_of(changes.deleted),
        updated_groups=groups_of(changes.updated),
        updated_arrays=arrays_of(changes.updated),
        updated_chunks={id: edits.coordinates() for id, edits in changes.chunks.items()},
        moves=changes.moves(),
    )
    if not keeps_attributes_apart(view.assets.dialect):
        return log
    former = {node.id: node for node in view.snapshot.nodes.values()}
    return tell_attributes_apart(log, former, changes.updated)
