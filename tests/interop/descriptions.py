"""Values of Frazil's model, said the way the official library's `inspect_…` and lists say them.

Both directions use these: what Frazil wrote and what Frazil read must sound the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from frazil.format.header import Header
from frazil.format.manifest import (
    ChunkKind,
    ChunkRef,
    ChunkTable,
    InlineRef,
    Manifest,
    NativeRef,
)
from frazil.format.metadata import encode_rfc3339, to_datetime
from frazil.format.repo_info import (
    Availability,
    FeatureFlagChanged,
    RepoInfo,
    RepoMigrated,
    RepoStatus,
    RepoStatusChanged,
    SnapshotInfo,
    Update,
    UpdateType,
)
from frazil.format.snapshot import ArrayData, Node, Snapshot, TransactionLog

Description = dict[str, Any]


def describe_header(header: Header) -> Description:
    """The first 39 bytes of a file."""
    name, _, version = header.implementation.partition("-")
    return {
        "written_by": header.implementation,
        "app_name": name,
        "app_version": version,
        "spec_version": f"{header.spec_version}.0",
        "file_type": header.file_type.label,
        "compression": header.compression.name.lower(),
    }


# Snapshots


def describe_snapshot(snapshot: Snapshot) -> Description:
    """As `inspect_snapshot`, without the header."""
    return {
        "id": str(snapshot.id),
        "flushed_at": encode_rfc3339(snapshot.flushed_at),
        "commit_message": snapshot.message,
        "metadata": dict(snapshot.metadata),
        "manifests": [
            {
                "id": str(file.id),
                "size_bytes": file.size_bytes,
                "num_chunk_refs": file.num_chunk_refs,
            }
            for file in sorted(snapshot.manifest_files, key=lambda file: file.id)
        ],
        "nodes": [
            _describe_node(snapshot.nodes[path]) for path in sorted(snapshot.nodes, key=str.encode)
        ],
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
            {
                **({} if name is None else {"name": name}),
                "array_length": dimension.array_length,
                "num_chunks": dimension.num_chunks,
            }
            for name, dimension in zip(names, array.shape, strict=True)
        ],
        "manifest_refs": [
            {"id": str(ref.id), "extents": [list(extent) for extent in ref.extents]}
            for ref in array.manifests
        ],
    }


# Manifests


def describe_manifest(manifest: Manifest) -> Description:
    """As `inspect_manifest`, without the header, its size and how locations are compressed."""
    arrays = [
        {"node_id": str(node_id), **_count_kinds(table)}
        for node_id, table in sorted(manifest.tables().items())
    ]
    totals = {
        f"total_{what}": sum(array[f"num_{what}"] for array in arrays)
        for what in ("chunk_refs", "inline", "native", "virtual")
    }
    return {"id": str(manifest.id), "num_arrays": len(arrays), **totals, "arrays": arrays}


def _count_kinds(table: ChunkTable) -> Description:
    counts = {f"num_{k.name.lower()}": int((table.kind == k).sum()) for k in ChunkKind}
    return {"num_chunk_refs": len(table), **counts}


def describe_refs(refs: Mapping[tuple[int, ...], ChunkRef]) -> list[Description]:
    """References of an array in order, as the child's `read_chunk_refs`."""
    return [
        {"coordinates": list(coordinates), **_describe_ref(ref)}
        for coordinates, ref in sorted(refs.items())
    ]


def _describe_ref(ref: ChunkRef) -> Description:
    if isinstance(ref, InlineRef):
        return {
            "kind": "inline", "place": "", "offset": 0, "length": len(ref.data), "inline": ref.data
        }  # fmt: skip
    place = {"offset": ref.offset, "length": ref.length, "inline": None}
    if isinstance(ref, NativeRef):
        return {"kind": "native", "place": str(ref.chunk_id), **place}
    return {"kind": "virtual", "place": ref.location, **place}


# Transaction logs


def describe_transaction_log(log: TransactionLog) -> Description:
    """As `inspect_transaction_log`, without the header."""
    sets = ("new_groups", "new_arrays", "deleted_groups", "deleted_arrays",
            "updated_groups", "updated_arrays")  # fmt: skip
    return {
        **{name: [str(id_) for id_ in sorted(getattr(log, name))] for name in sets},
        "updated_chunks": [
            {"node_id": str(node_id), "chunks": coordinates.tolist()}
            for node_id, coordinates in sorted(log.updated_chunks.items())
        ],
        "moved_nodes": [{"from": move.from_path, "to": move.to_path} for move in log.moves],
    }


# Repo info


def describe_repo_info(info: RepoInfo) -> Description:
    """As `inspect_repo_info`, without the header."""
    description = {
        "spec_version": f"{info.spec_version}.0",
        "branches": {name: str(id_) for name, id_ in info.branches.items()},
        "tags": {name: str(id_) for name, id_ in info.tags.items()},
        "deleted_tags": sorted(info.deleted_tags, key=str.encode),
        "snapshots": [
            _describe_snapshot_info(info.snapshots[id_]) for id_ in sorted(info.snapshots)
        ],
        "metadata": dict(info.metadata),
        "latest_updates": [_describe_latest_update(update) for update in info.latest_updates],
    }
    if info.repo_before_updates is not None:
        description["repo_before_updates"] = info.repo_before_updates
    return description


def _describe_snapshot_info(info: SnapshotInfo) -> Description:
    return {
        "id": str(info.id),
        **({} if info.parent_id is None else {"parent_id": str(info.parent_id)}),
        "flushed_at": encode_rfc3339(info.flushed_at),
        "message": info.message,
        "metadata": dict(info.metadata),
    }


def _describe_latest_update(update: Update) -> Description:
    # Here, and only here, the official library gives all names but one a suffix, and spells
    # versions, times and availabilities its own way.
    kind = update.kind
    name = type(kind).__name__ + ("" if isinstance(kind, FeatureFlagChanged) else "Update")
    values = _describe_fields(kind)
    if isinstance(kind, RepoMigrated):
        values = {name: f"{version}.0" for name, version in values.items()}
    if isinstance(kind, RepoStatusChanged):
        values = {"status": _describe_status_as_text(kind.status)}
    description: Description = {
        "update_type": {"type": name, **values},
        "updated_at": encode_rfc3339(update.updated_at),
    }
    if update.backup_path is not None:
        description["backup_path"] = update.backup_path
    return description


def _describe_status_as_text(status: RepoStatus) -> Description:
    return {
        "availability": "Online" if status.availability is Availability.ONLINE else "ReadOnly",
        "limited_availability_reason": status.limited_availability_reason,
        "set_at": encode_rfc3339(status.set_at),
    }


def describe_updates(updates: Iterable[Update]) -> list[Description]:
    """As the child's `read_ops_log`."""
    return [
        {
            "kind": type(update.kind).__name__,
            "updated_at": to_datetime(update.updated_at),
            "backup_path": update.backup_path,
            **_describe_fields(update.kind),
        }
        for update in updates
    ]


def _describe_fields(kind: UpdateType) -> Description:
    if isinstance(kind, RepoStatusChanged):
        return {"status": describe_status(kind.status)}
    values = {field.name: getattr(kind, field.name) for field in fields(kind)}
    return {name: str(v) if isinstance(v, bytes) else v for name, v in values.items()}


def describe_status(status: RepoStatus) -> Description:
    """As the child's `read_state` has it."""
    availability = "online" if status.availability is Availability.ONLINE else "read_only"
    return {
        "availability": availability,
        "set_at": to_datetime(status.set_at),
        "limited_availability_reason": status.limited_availability_reason,
    }


def describe_ancestor(info: SnapshotInfo) -> Description:
    """As one item of the child's `read_ancestry`."""
    return {
        "id": str(info.id),
        "parent_id": None if info.parent_id is None else str(info.parent_id),
        "written_at": to_datetime(info.flushed_at),
        "message": info.message,
        "metadata": dict(info.metadata),
    }
