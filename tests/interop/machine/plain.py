"""What the libraries answer, as values that JSON can carry and that can be compared."""

import enum
from datetime import datetime
from typing import Any

import numpy as np
from zarr.core.buffer import Buffer

_FIELDS = {
    "SnapshotInfo": ("id", "parent_id", "written_at", "message", "metadata"),
    "ManifestFileInfo": ("id", "size_bytes", "num_chunk_refs"),
    "Diff": (
        "new_groups", "new_arrays", "deleted_groups", "deleted_arrays", "updated_groups",
        "updated_arrays", "updated_chunks", "moved_nodes",
    ),
    "Update": ("kind", "updated_at", "backup_path"),
    "FeatureFlag": ("id", "name", "default_enabled", "setting", "enabled"),
    "RepoStatus": ("availability", "set_at", "limited_availability_reason"),
    "ChunkStorageStats": ("native_bytes", "virtual_bytes", "inlined_bytes"),
    "GCSummary": (
        "chunks_deleted", "manifests_deleted", "snapshots_deleted", "attributes_deleted",
        "transaction_logs_deleted", "objects_failed_to_delete", "skipped_phases",
    ),
    "Conflict": ("conflict_type", "path", "conflicted_chunks"),
    "Session": ("read_only", "mode", "snapshot_id", "branch", "has_uncommitted_changes"),
}  # fmt: skip
_FIELDS["ForkSession"] = _FIELDS["Session"]
_UPDATES: dict[str, tuple[str, ...]] = {
    "RepoInitialized": (),
    "ConfigChanged": (),
    "MetadataChanged": (),
    "TagCreated": ("name",),
    "TagDeleted": ("name", "previous_snap_id"),
    "BranchCreated": ("name",),
    "BranchDeleted": ("name", "previous_snap_id"),
    "BranchReset": ("name", "previous_snap_id"),
    "NewCommit": ("branch", "new_snap_id"),
    "CommitAmended": ("branch", "previous_snap_id", "new_snap_id"),
    "NewDetachedSnapshot": ("new_snap_id",),
    "GCRan": (),
    "ExpirationRan": (),
    "FeatureFlagChanged": ("id", "new_value"),
    "RepoStatusChanged": ("status",),
}
_MEMBERS = frozenset(
    {"SessionMode", "RepoAvailability", "ChunkType", "SpecVersion", "ConflictType"}
)


def to_plain(value: Any) -> Any:
    """A value without the classes of either library."""
    kind = type(value).__name__
    if kind in _FIELDS:
        return {name: to_plain(getattr(value, name)) for name in _FIELDS[kind]}
    if kind in _UPDATES:
        return {"type": kind, **{name: to_plain(getattr(value, name)) for name in _UPDATES[kind]}}
    if kind in _MEMBERS or isinstance(value, enum.Enum):
        return str(value).rpartition(".")[2]
    match value:
        case dict():
            return {str(key): to_plain(each) for key, each in value.items()}
        case set() | frozenset():
            return {"set": sorted(map(to_plain, value))}
        case tuple() if not value:
            return None  # what some calls of the official library give in its place
        case list() | tuple():
            return [to_plain(each) for each in value]
        case np.ndarray():
            return value.tolist()
        case Buffer():
            return value.to_bytes()
        case None | bool() | int() | float() | str() | bytes() | datetime():
            return value
    return _written_out(value)


def _written_out(value: Any) -> str:
    """Values whose text says all; the libraries differ in the name of the module."""
    return repr(value).replace("frazil.", "icechunk.")


def chunk_rows(batches: list[Any]) -> list[Any]:
    """The chunks of an array, one a row, in the order of their coordinates."""
    rows = []
    for coordinates, kinds, paths, offsets, lengths, inlined in batches:
        for row, place in enumerate(coordinates.tolist()):
            rows.append(
                [place, int(kinds[row]), paths[row], int(offsets[row]), int(lengths[row]),
                 inlined.get(row)]
            )  # fmt: skip
    return sorted(rows, key=lambda row: row[0])
