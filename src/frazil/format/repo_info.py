"""Repo info of a V2 repository: refs, snapshots, status and ops log."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple, Self

from frazil.format.ids import SnapshotId
from frazil.format.metadata import NO_METADATA, Metadata, Value
from frazil.format.overlays import Deferred, with_entries, without_entries
from frazil.format.timestamps import Nanoseconds
from frazil.lazy import dataclass


class Availability(IntEnum):
    """Availability of the repository."""

    ONLINE = 0
    READ_ONLY = 1
    OFFLINE = 2


@dataclass(frozen=True, slots=True)
class RepoStatus:
    """Availability, since when, and the reason if it is limited."""

    availability: Availability = Availability.ONLINE
    set_at: Nanoseconds = 0
    limited_availability_reason: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotInfo(Deferred):
    """Snapshot as listed in the repo info."""

    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: Nanoseconds
    message: str
    metadata: Metadata = NO_METADATA
    pruned_ancestor_tx_logs: tuple[SnapshotId, ...] = ()
    """Logs of expired ancestors, oldest first, that precede this snapshot's own (since 2.1)."""


# Operations, one class each. Field names are those of the specification.


@dataclass(frozen=True, slots=True)
class RepoInitialized:
    """The repository was created."""


@dataclass(frozen=True, slots=True)
class RepoMigrated:
    """The repository was migrated from an older generation."""

    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The saved configuration was replaced."""


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """The repository's metadata was replaced."""


@dataclass(frozen=True, slots=True)
class TagCreated:
    """A tag was created."""

    name: str


@dataclass(frozen=True, slots=True)
class TagDeleted:
    """A tag was deleted; its name can't be reused."""

    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchCreated:
    """A branch was created."""

    name: str


@dataclass(frozen=True, slots=True)
class BranchDeleted:
    """A branch was deleted."""

    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchReset:
    """A branch was reset to another snapshot."""

    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class NewCommit:
    """A branch got a new snapshot."""

    branch: str
    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class CommitAmended:
    """The tip of a branch was replaced."""

    branch: str
    previous_snap_id: SnapshotId
    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class NewDetachedSnapshot:
    """A snapshot was flushed without a ref."""

    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class GCRan:
    """Garbage collection ran."""


@dataclass(frozen=True, slots=True)
class ExpirationRan:
    """Old snapshots were expired."""


@dataclass(frozen=True, slots=True)
class FeatureFlagChanged:
    """A feature flag was set, or reset to its default with None."""

    id: int
    new_value: bool | None


@dataclass(frozen=True, slots=True)
class RepoStatusChanged:
    """The availability was changed."""

    status: RepoStatus


UpdateType = (
    RepoInitialized
    | RepoMigrated
    | ConfigChanged
    | MetadataChanged
    | TagCreated
    | TagDeleted
    | BranchCreated
    | BranchDeleted
    | BranchReset
    | NewCommit
    | CommitAmended
    | NewDetachedSnapshot
    | GCRan
    | ExpirationRan
    | FeatureFlagChanged
    | RepoStatusChanged
)


@dataclass(frozen=True, slots=True)
class Update(Deferred):
    """Entry of the ops log."""

    kind: UpdateType
    updated_at: Nanoseconds
    backup_path: str | None = None
    """Backup of the repo info before the *next* update, without the `overwritten/` prefix."""


class LogPage(NamedTuple):
    """Part of the ops log, as a repo info has it."""

    latest_updates: Sequence[Update]
    repo_before_updates: str | None


@dataclass(frozen=True, slots=True)
class RepoInfo:
    """Mutable state of a V2 repository."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: frozenset[str]
    snapshots: Mapping[SnapshotId, SnapshotInfo]
    status: RepoStatus
    latest_updates: Sequence[Update]
    """Updates, newest first."""
    metadata: Metadata = NO_METADATA
    repo_before_updates: str | None = None
    """Backup with the ops log before `latest_updates`."""
    config: Value | None = None
    """Saved configuration, a tree of plain values."""
    enabled_feature_flags: tuple[int, ...] | None = None
    disabled_feature_flags: tuple[int, ...] | None = None
    spec_version: int = 2
    extra: bytes | None = None

    def with_snapshots(self, *snapshots: SnapshotInfo) -> Self:
        """Return the repo info with snapshots added or replaced by id; the others are shared."""
        entries = {snapshot.id: snapshot for snapshot in snapshots}
        return replace(self, snapshots=with_entries(self.snapshots, entries))

    def without_snapshots(self, ids: Collection[SnapshotId]) -> Self:
        """Return the repo info without some snapshots; the others are shared."""
        return replace(self, snapshots=without_entries(self.snapshots, ids))
