"""The log of operations, as users read it, and what expiry and garbage collection report."""

from abc import ABC
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from frazil.format import repo_info
from frazil.format.ids import ObjectId
from frazil.format.times import to_datetime
from frazil.rendering import Called, Listed
from frazil.states import RepoStatus, public_status

__all__ = ["ExpirySummary", "GCSummary", "Update", "UpdateType"]


class UpdateType(ABC):  # noqa: B024 (it names its alternatives, and is never made)
    """What happened to a repository; an alternative each."""

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoInitialized(Called):
        """The repository was created."""

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoMigrated(Called):
        """The repository came from an older generation."""

        from_version: int
        to_version: int

    @dataclass(frozen=True, slots=True, repr=False)
    class ConfigChanged(Called):
        """The saved configuration was replaced."""

    @dataclass(frozen=True, slots=True, repr=False)
    class MetadataChanged(Called):
        """The repository's metadata was replaced."""

    @dataclass(frozen=True, slots=True, repr=False)
    class TagCreated(Called):
        """A tag was made."""

        name: str

    @dataclass(frozen=True, slots=True, repr=False)
    class TagDeleted(Called):
        """A tag was removed; its name stays taken."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchCreated(Called):
        """A branch was made."""

        name: str

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchDeleted(Called):
        """A branch was removed."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchReset(Called):
        """A branch was pointed at another snapshot."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class NewCommit(Called):
        """A branch got a new snapshot."""

        branch: str
        new_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class CommitAmended(Called):
        """A branch's tip was replaced."""

        branch: str
        previous_snap_id: str
        new_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class NewDetachedSnapshot(Called):
        """A snapshot was flushed that no ref points to."""

        new_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class GCRan(Called):
        """Garbage was collected."""

    @dataclass(frozen=True, slots=True, repr=False)
    class ExpirationRan(Called):
        """Old snapshots were released."""

    @dataclass(frozen=True, slots=True, repr=False)
    class FeatureFlagChanged(Called):
        """A flag was set, or with None returned to its default."""

        id: int
        new_value: bool | None

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoStatusChanged(Called):
        """The availability was changed."""

        status: RepoStatus


_TYPES: dict[str, type[Any]] = {
    name: cls for name, cls in vars(UpdateType).items() if isinstance(cls, type)
}
for _cls in _TYPES.values():
    UpdateType.register(_cls)


@dataclass(frozen=True, slots=True, repr=False)
class Update(Listed):
    """An entry of the log."""

    kind: UpdateType
    updated_at: datetime
    backup_path: str | None = None
    """The repo info as it was before the *next* update; None where nothing came next."""


def public_update(entry: repo_info.Update) -> Update:
    """An entry of the log as users see it."""
    cls = _TYPES[type(entry.kind).__name__]
    details = (_public(getattr(entry.kind, each.name)) for each in fields(entry.kind))
    return Update(cls(*details), to_datetime(entry.updated_at), entry.backup_path)


def _public(detail: object) -> object:
    match detail:
        case ObjectId():
            return str(detail)
        case repo_info.RepoStatus():
            return public_status(detail)
    return detail


@dataclass(frozen=True, slots=True, repr=False)
class ExpirySummary(Listed):
    """Which snapshots an expiry released, or would release, and how many are left."""

    released_snapshots: set[str] = field(hash=False)
    kept_snapshots: int


@dataclass(frozen=True, slots=True, repr=False)
class GCSummary(Listed):
    """What a garbage collection deleted, and what went wrong."""

    bytes_deleted: int = 0
    chunks_deleted: int = 0
    manifests_deleted: int = 0
    snapshots_deleted: int = 0
    attributes_deleted: int = 0
    transaction_logs_deleted: int = 0
    objects_failed_to_delete: int = 0
    throttled_batches: int = 0
    delete_errors: list[str] = field(default_factory=list, hash=False)
    skipped_phases: list[str] = field(default_factory=list, hash=False)
