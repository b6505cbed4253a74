"""Describe metadata files as dictionaries."""

from dataclasses import fields
from pathlib import PurePosixPath
from typing import Any

from frazil.errors import FormatError, InvalidInputError, NotFoundError, ObjectNotFoundError
from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
    inspect_manifest_payload,
)
from frazil.format.header import Decoded, FileType, Header, find_file_type
from frazil.format.ids import ManifestId, NodeId, ObjectId, SnapshotId
from frazil.format.manifest import ChunkKind, ChunkTable
from frazil.format.metadata import encode_rfc3339
from frazil.format.repo_info import (
    Availability,
    FeatureFlagChanged,
    RepoInfo,
    RepoMigrated,
    RepoStatus,
    SnapshotInfo,
    Update,
    UpdateType,
)
from frazil.format.snapshot import ArrayData, Dimension, Node, Snapshot, TransactionLog
from frazil.format.v2.manifest_decoder import LocationEncoding
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol
from frazil.protocols.v2_protocol import REPO
from frazil.repository.changes import merge_logs
from frazil.snapshots import (
    AncestryGraph,
    ManifestFileInfo,
    public_manifest_file_info,
    public_snapshot_info,
)

Description = dict[str, Any]


def describe_repo_info(info: RepoInfo) -> Description:
    """Describe the repo info: refs by name, snapshots by id, updates newest first."""
    before = info.repo_before_updates
    return {
        "spec_version": f"{info.spec_version}.0",
        "branches": {name: str(info.branches[name]) for name in sorted(info.branches)},
        "tags": {name: str(info.tags[name]) for name in sorted(info.tags)},
        "deleted_tags": sorted(info.deleted_tags),
        "snapshots": [_describe_snapshot(info.snapshots[id]) for id in sorted(info.snapshots)],
        "metadata": dict(info.metadata),
        "latest_updates": [_describe_update(update) for update in info.latest_updates],
        **({} if before is None else {"repo_before_updates": before}),
    }


def _describe_snapshot(info: SnapshotInfo) -> Description:
    return {
        "id": str(info.id),
        **({} if info.parent_id is None else {"parent_id": str(info.parent_id)}),
        "flushed_at": encode_rfc3339(info.flushed_at),
        "message": info.message,
        "metadata": dict(info.metadata),
    }


def _describe_update(update: Update) -> Description:
    backup = update.backup_path
    return {
        "update_type": {"type": _name(update.kind), **_describe_details(update.kind)},
        "updated_at": encode_rfc3339(update.updated_at),
        **({} if backup is None else {"backup_path": backup}),
    }


def _name(kind: UpdateType) -> str:
    # All official names but one end with "Update".
    ending = "" if isinstance(kind, FeatureFlagChanged) else "Update"
    return f"{type(kind).__name__}{ending}"


def _describe_details(kind: UpdateType) -> Description:
    if isinstance(kind, RepoMigrated):
        return {"from_version": f"{kind.from_version}.0", "to_version": f"{kind.to_version}.0"}
    return {each.name: _describe_detail(getattr(kind, each.name)) for each in fields(kind)}


def _describe_detail(detail: object) -> object:
    match detail:
        case ObjectId():
            return str(detail)
        case RepoStatus():
            return _describe_status(detail)
    return detail


def _describe_status(status: RepoStatus) -> Description:
    is_read_only = status.availability is Availability.READ_ONLY
    return {
        "availability": "ReadOnly" if is_read_only else "Online",
        "limited_availability_reason": status.limited_availability_reason,
        "set_at": encode_rfc3339(status.set_at),
    }


_NODE_LISTS = (
    "new_groups", "new_arrays", "deleted_groups", "deleted_arrays", "updated_groups",
    "updated_arrays",
)  # fmt: skip


def describe_header(header: Header | None) -> Description | None:
    """Describe the header of a file."""
    if header is None:
        return None
    name, dash, version = header.implementation.partition("-")
    return {
        "written_by": header.implementation,
        "app_name": name,
        **({"app_version": version} if dash else {}),
        "spec_version": f"{header.spec_version}.0",
        "file_type": header.file_type.label,
        "compression": header.compression.name.lower(),
    }


def describe_snapshot(decoded: Decoded[Snapshot]) -> Description:
    """Describe a snapshot file."""
    snapshot = decoded.value
    files = sorted(snapshot.manifest_files, key=lambda info: info.id)
    return {
        "id": str(snapshot.id),
        "header": describe_header(decoded.header),
        "flushed_at": encode_rfc3339(snapshot.flushed_at),
        "commit_message": snapshot.message,
        "metadata": dict(snapshot.metadata),
        "manifests": [
            {"id": info.id, "size_bytes": info.size_bytes, "num_chunk_refs": info.num_chunk_refs}
            for info in map(public_manifest_file_info, files)
        ],
        "nodes": [_describe_node(snapshot.nodes[path]) for path in sorted(snapshot.nodes)],
    }


def _describe_node(node: Node) -> Description:
    description = {"id": str(node.id), "path": node.path}
    if node.array is None:
        return {**description, "node_type": "group"}
    return {**description, "node_type": "array", **_describe_array(node.array)}


def _describe_array(array: ArrayData) -> Description:
    names = array.dimension_names or (None,) * len(array.shape)
    return {
        "shape": [
            _describe_dimension(name, dimension)
            for name, dimension in zip(names, array.shape, strict=True)
        ],
        "manifest_refs": [
            {"id": str(ref.id), "extents": [list(extent) for extent in ref.extents]}
            for ref in array.manifests
        ],
    }


def _describe_dimension(name: str | None, dimension: Dimension) -> Description:
    return {
        **({} if name is None else {"name": name}),
        "array_length": dimension.array_length,
        "num_chunks": dimension.num_chunks,
    }


def describe_manifest(data: bytes, id: str | None) -> Description:
    """Describe a manifest file; `size_bytes` is the size of the decompressed payload."""
    decoded = decode_manifest(data)
    size_bytes, encoding = inspect_manifest_payload(data)
    arrays = [
        _describe_refs(node_id, table) for node_id, table in sorted(decoded.value.tables().items())
    ]
    return {
        "id": str(decoded.value.id or id),
        "header": describe_header(decoded.header),
        "size_bytes": size_bytes,
        "num_arrays": len(arrays),
        **{
            f"total_{what}": sum(array[f"num_{what}"] for array in arrays)
            for what in ("chunk_refs", "inline", "native", "virtual")
        },
        "arrays": arrays,
        "compression": _describe_encoding(encoding),
    }


def _describe_refs(node_id: NodeId, table: ChunkTable) -> Description:
    kinds = (ChunkKind.INLINE, ChunkKind.NATIVE, ChunkKind.VIRTUAL)
    counts = {f"num_{kind.name.lower()}": int((table.kind == kind).sum()) for kind in kinds}
    return {"node_id": str(node_id), "num_chunk_refs": len(table), **counts}


def _describe_encoding(encoding: LocationEncoding) -> Description:
    size = encoding.dictionary_size_bytes
    return {
        "uses_location_compression": size is not None,
        **({} if size is None else {"dictionary_size_bytes": size}),
        "num_compressed_refs": encoding.num_compressed_refs,
    }


def describe_log(log: TransactionLog) -> Description:
    """Describe a transaction log."""
    attributes = [str(id) for id in sorted(log.updated_attributes)]
    return {
        **{name: [str(id) for id in sorted(getattr(log, name))] for name in _NODE_LISTS},
        **({"updated_attributes": attributes} if attributes else {}),
        "updated_chunks": [
            {"node_id": str(id), "chunks": coordinates.tolist()}
            for id, coordinates in sorted(log.updated_chunks.items())
        ],
        "moved_nodes": [{"from": move.from_path, "to": move.to_path} for move in log.moves],
    }


def describe_file(data: bytes, name: str) -> Description:
    """Describe any metadata file, identified by its header or, before V1, by its name.

    Raises FormatError if it is no metadata file, or is corrupt.
    """
    file_type = find_file_type(data) or _FOLDERS.get(PurePosixPath(name).parent.name)
    if file_type is not None:
        return {"file_type": file_type.label, **_describe(data, file_type, name)}
    for each in (FileType.SNAPSHOT, FileType.MANIFEST):
        try:
            return {"file_type": each.label, **_describe(data, each, name)}
        except FormatError:
            continue
    raise FormatError(f"{name} is no metadata file of Icechunk")


_FOLDERS = {
    "snapshots": FileType.SNAPSHOT,
    "s": FileType.SNAPSHOT,
    "manifests": FileType.MANIFEST,
    "m": FileType.MANIFEST,
    "transactions": FileType.TRANSACTION_LOG,
}


def _describe(data: bytes, file_type: FileType, name: str) -> Description:
    stem = PurePosixPath(name).name.partition(".")[0]
    match file_type:
        case FileType.SNAPSHOT:
            return describe_snapshot(decode_snapshot(data))
        case FileType.MANIFEST:
            return describe_manifest(data, stem)
        case FileType.TRANSACTION_LOG:
            decoded = decode_transaction_log(data, _snapshot_id(stem))
            return {"header": describe_header(decoded.header), **describe_log(decoded.value)}
        case FileType.REPO_INFO:
            info = decode_repo_info(data)
            return {"header": describe_header(info.header), **describe_repo_info(info.value)}
    raise FormatError(f"{name} is a file of type {file_type.label}, which nobody writes")


def _snapshot_id(stem: str) -> SnapshotId:
    try:
        return SnapshotId.parse(stem)
    except InvalidInputError:
        return SnapshotId(bytes(12))


def inspect_snapshot(protocol: CommitProtocol, id: SnapshotId) -> Description:
    """Describe a snapshot file; raises ObjectNotFoundError."""
    return describe_snapshot(protocol.assets.read_snapshot_file(id))


def list_manifest_files(protocol: CommitProtocol, id: SnapshotId) -> list[ManifestFileInfo]:
    """Return the manifest files of a snapshot, sorted by id; raises ObjectNotFoundError."""
    files = protocol.assets.read_snapshot(id).manifest_files
    return [public_manifest_file_info(info) for info in sorted(files, key=lambda info: info.id)]


def inspect_manifest(protocol: CommitProtocol, id: ManifestId) -> Description:
    """Describe a manifest file; raises ObjectNotFoundError."""
    return describe_manifest(protocol.assets.read_manifest_data(id), str(id))


def inspect_transaction_log(protocol: CommitProtocol, id: SnapshotId) -> Description:
    """Describe the transaction log of a snapshot, merged with those of its expired ancestors.

    Raises ObjectNotFoundError if the snapshot has no log of its own.
    """
    decoded = protocol.assets.read_transaction_log_file(id)
    pruned = _find_pruned_logs(protocol, id)
    if not pruned:
        return {"header": describe_header(decoded.header), **describe_log(decoded.value)}
    found = {each: _find_log(protocol.assets, each) for each in pruned}
    logs = [log for log in found.values() if log is not None]
    return {
        "header": describe_header(decoded.header),
        **describe_log(merge_logs([*logs, decoded.value], id)),
        "synthetic_composite": {
            "note": "the header is that of the snapshot's own log; what follows is that log together"
            " with those of the expired commits that came before it",
            "merged_pruned_ancestor_tx_logs": [str(each) for each in pruned if found[each]],
            "missing_tx_logs": [str(each) for each in pruned if found[each] is None],
        },
    }


def _find_pruned_logs(protocol: CommitProtocol, id: SnapshotId) -> tuple[SnapshotId, ...]:
    try:
        return protocol.lookup_snapshot(id).pruned_ancestor_tx_logs
    except NotFoundError:
        return ()  # the snapshot of a fork, which no history lists


def _find_log(assets: Assets, id: SnapshotId) -> TransactionLog | None:
    try:
        return assets.read_transaction_log(id)
    except ObjectNotFoundError:
        return None


def inspect_repo_info(protocol: CommitProtocol) -> Description:
    """Describe the current repo info file; raises FormatError if the generation has none."""
    protocol.read_repo_info()
    decoded = decode_repo_info(bytes(protocol.assets.storage.get(REPO)))
    return {"header": describe_header(decoded.header), **describe_repo_info(decoded.value)}


def ancestry_graph(
    protocol: CommitProtocol,
    branch: str | None,
    tag: str | None,
    snapshot_id: str | None,
    *,
    plain: bool,
) -> AncestryGraph:
    """Return the history of one version, by default of all branches, as a graph."""
    branches = {name: protocol.lookup_branch(name) for name in sorted(protocol.list_branches())}
    tags = {name: str(protocol.lookup_tag(name)) for name in protocol.list_tags()}
    is_whole = branch is None and tag is None and snapshot_id is None
    starts = [*branches.values()] if is_whole else [protocol.resolve(branch, tag, snapshot_id)]
    found = {info.id: info for line in protocol.ancestries(starts) for info in line}
    infos = [public_snapshot_info(info) for info in found.values()]
    tips = {name: str(id) for name, id in branches.items()}
    return AncestryGraph(infos, branches=tips, tags=tags, plain=plain)
