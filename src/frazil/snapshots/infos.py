"""Snapshots and their manifest files, as users see them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from frazil.format import repo_info, snapshot
from frazil.format.times import to_datetime
from frazil.rendering import Listed


@dataclass(frozen=True, slots=True, repr=False)
class SnapshotInfo(Listed):
    """A snapshot: when it was written, on top of which other, and what its author said."""

    id: str
    parent_id: str | None
    written_at: datetime
    message: str
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)


def public_snapshot_info(stored: repo_info.SnapshotInfo | snapshot.Snapshot) -> SnapshotInfo:
    """A snapshot as users see it, from the repo info, or before V2 from its file."""
    return SnapshotInfo(
        str(stored.id),
        None if stored.parent_id is None else str(stored.parent_id),
        to_datetime(stored.flushed_at),
        stored.message,
        dict(stored.metadata),
    )


@dataclass(frozen=True, slots=True, repr=False)
class ManifestFileInfo(Listed):
    """A manifest file that a snapshot uses; None where the generation did not record it."""

    id: str
    size_bytes: int | None
    num_chunk_refs: int | None


def public_manifest_file_info(stored: snapshot.ManifestFileInfo) -> ManifestFileInfo:
    """A manifest file as users see it."""
    return ManifestFileInfo(str(stored.id), stored.size_bytes, stored.num_chunk_refs)
