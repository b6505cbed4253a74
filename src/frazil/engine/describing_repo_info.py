"""What a repo info says, as a dictionary for people; keys and spellings are the official ones."""

from dataclasses import fields
from typing import Any

from frazil.format.ids import ObjectId
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
from frazil.format.times import encode_rfc3339

Description = dict[str, Any]


def describe_repo_info(info: RepoInfo) -> Description:
    """Refs by name, snapshots by id, updates newest first."""
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
    # All official names but one have the ending.
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
