"""Metadata files as dictionaries for people and their scripts: pure.

The keys and values are the official ones. A file without a header, as the draft and the first alphas
wrote them, has None in its place.
"""

from pathlib import PurePosixPath

from frazil.engine.describing_repo_info import Description, describe_repo_info
from frazil.errors import FormatError, InvalidInputError
from frazil.format.chunks import ChunkTable
from frazil.format.dialect import Decoded
from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
    inspect_manifest_payload,
)
from frazil.format.header import FileType, Header, find_file_type
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.references import ChunkKind
from frazil.format.snapshot import ArrayData, Dimension, Node, Snapshot
from frazil.format.times import encode_rfc3339
from frazil.format.transaction_log import TransactionLog
from frazil.format.v2.manifest_reader import LocationEncoding
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


def describe_snapshot(decoded: Decoded[Snapshot]) -> Description:
    """A snapshot's file."""
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
    """A manifest's file; its size is that of the payload, decompressed."""
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
    """What a commit changed."""
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
    """Any metadata file; its name is asked where it has no header, as before V1.

    Raises FormatError for what is none, or is damaged.
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
