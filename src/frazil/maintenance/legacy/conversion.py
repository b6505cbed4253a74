"""Old values as V2 says them: pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from frazil.engine.log_merging import updated_nodes
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.metadata import Metadata
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import ManifestFileInfo, Node, Snapshot, nodes_by_path
from frazil.format.transaction_log import TransactionLog
from frazil.protocols.reserved_metadata import RESERVED

_ORIGIN = "migrated_from"


def record_origin(metadata: Mapping[str, JsonValue], old: SnapshotId) -> Metadata:
    """A commit's metadata, with the id that the commit had."""
    reserved = metadata.get(RESERVED)
    kept = reserved if isinstance(reserved, dict) else {}
    return Metadata({**metadata, RESERVED: {**kept, _ORIGIN: str(old)}})


def find_origin(metadata: Mapping[str, JsonValue]) -> str | None:
    """The id that a commit had before a migration, if there was one."""
    reserved = metadata.get(RESERVED)
    found = reserved.get(_ORIGIN) if isinstance(reserved, dict) else None
    return found if isinstance(found, str) else None


def convert_info(info: SnapshotInfo, id: SnapshotId, parent_id: SnapshotId | None) -> SnapshotInfo:
    """A snapshot as the history of V2 lists it."""
    metadata = record_origin(info.metadata, info.id)
    return replace(info, id=id, parent_id=parent_id, metadata=metadata)


def build_snapshot(
    info: SnapshotInfo, nodes: Iterable[Node], files: Mapping[ManifestId, ManifestFileInfo]
) -> Snapshot:
    """The snapshot of an entry of the history."""
    ordered = sorted(nodes, key=lambda node: node.path.encode())
    arrays = (node.array for node in ordered if node.array is not None)
    used = {ref.id for array in arrays for ref in array.manifests}
    return Snapshot(
        id=info.id,
        parent_id=None,
        flushed_at=info.flushed_at,
        message=info.message,
        metadata=info.metadata,
        nodes=nodes_by_path(ordered),
        manifest_files=tuple(files[id] for id in sorted(used)),
    )


def convert_log(
    log: TransactionLog, id: SnapshotId, parent: Snapshot, snapshot: Snapshot
) -> TransactionLog:
    """The log of a commit, between two snapshots that were converted.

    The alphas keep attributes apart and list new nodes among those whose attributes were set.
    """
    nodes = {node.id: node for each in (parent, snapshot) for node in each.nodes.values()}
    updated = (updated_nodes(log) - log.new_groups - log.new_arrays) & nodes.keys()
    groups = frozenset[NodeId](each for each in updated if nodes[each].array is None)
    return replace(
        log,
        id=id,
        updated_groups=groups,
        updated_arrays=updated - groups,
        updated_attributes=frozenset(),
        updated_chunks={node: rows for node, rows in log.updated_chunks.items() if len(rows)},
    )
