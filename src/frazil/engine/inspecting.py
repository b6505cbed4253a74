"""What is in the metadata files of a repository, as dictionaries for people and their scripts.

The keys and values are the official ones. A file without a header, as the draft and the first alphas
wrote them, has None in its place.
"""

from frazil.assets import Assets
from frazil.engine.describing_repo_info import Description, describe_repo_info
from frazil.engine.log_merging import merge_logs
from frazil.errors import NotFoundError, ObjectNotFoundError
from frazil.format.chunks import ChunkTable
from frazil.format.files import decode_manifest, decode_repo_info, inspect_manifest_payload
from frazil.format.header import Header
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.references import ChunkKind
from frazil.format.snapshot import ArrayData, Dimension, Node
from frazil.format.times import encode_rfc3339
from frazil.format.transaction_log import TransactionLog
from frazil.format.v2.manifest_reader import LocationEncoding
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_file import REPO
from frazil.snapshots import ManifestFileInfo
from frazil.snapshots.infos import public_manifest_file_info

_NODE_LISTS = (
    "new_groups", "new_arrays", "deleted_groups", "deleted_arrays", "updated_groups",
    "updated_arrays",
)  # fmt: skip


def describe_header(header: Header | None) -> Description | None:
    """The first bytes of a file: who wrote it, and how."""
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


# Snapshots


def inspect_snapshot(protocol: CommitProtocol, id: SnapshotId) -> Description:
    """A snapshot's file; raises ObjectNotFoundError."""
    decoded = protocol.assets.read_snapshot_file(id)
    snapshot = decoded.value
    return {
        "id": str(snapshot.id),
        "header": describe_header(decoded.header),
        "flushed_at": encode_rfc3339(snapshot.flushed_at),
        "commit_message": snapshot.message,
        "metadata": dict(snapshot.metadata),
        "manifests": [
            {"id": info.id, "size_bytes": info.size_bytes, "num_chunk_refs": info.num_chunk_refs}
            for info in list_manifest_files(protocol, id)
        ],
        "nodes": [_describe_node(snapshot.nodes[path]) for path in sorted(snapshot.nodes)],
    }


def list_manifest_files(protocol: CommitProtocol, id: SnapshotId) -> list[ManifestFileInfo]:
    """The manifests that a snapshot's arrays are in, by id; raises ObjectNotFoundError."""
    files = protocol.assets.read_snapshot(id).manifest_files
    return [public_manifest_file_info(info) for info in sorted(files, key=lambda info: info.id)]


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


# Manifests


def inspect_manifest(protocol: CommitProtocol, id: ManifestId) -> Description:
    """A manifest's file; its size is that of the payload, decompressed. Raises ObjectNotFoundError."""
    data = protocol.assets.read_manifest_data(id)
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


# Transaction logs


def inspect_transaction_log(protocol: CommitProtocol, id: SnapshotId) -> Description:
    """A snapshot's log, with those of expired ancestors that belong before it.

    Raises ObjectNotFoundError if it has no log of its own.
    """
    decoded = protocol.assets.read_transaction_log_file(id)
    pruned = _find_pruned_logs(protocol, id)
    if not pruned:
        return {"header": describe_header(decoded.header), **_describe_log(decoded.value)}
    found = {each: _find_log(protocol.assets, each) for each in pruned}
    logs = [log for log in found.values() if log is not None]
    return {
        "header": describe_header(decoded.header),
        **_describe_log(merge_logs([*logs, decoded.value], id)),
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


def _describe_log(log: TransactionLog) -> Description:
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


# The repository


def inspect_repo_info(protocol: CommitProtocol) -> Description:
    """The repo info's file as it is now; raises FormatError where the generation has none."""
    protocol.read_repo_info()
    decoded = decode_repo_info(bytes(protocol.assets.storage.get(REPO)))
    return {"header": describe_header(decoded.header), **describe_repo_info(decoded.value)}
