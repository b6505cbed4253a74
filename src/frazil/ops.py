"""Operations log, and status of repositories and sessions."""

from abc import ABC
from collections.abc import AsyncIterator, Iterator
from dataclasses import field, fields
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Any, Generic, Literal, TypeVar

from frazil.display import Called, Item, Listed, field_items
from frazil.errors import InvalidTypeError
from frazil.format import repo_info
from frazil.format.ids import ObjectId
from frazil.format.metadata import from_datetime, to_datetime
from frazil.format.repo_info import Deferred
from frazil.lazy import dataclass

__all__ = ["CommitMethod", "ExpirySummary", "GCSummary", "Update", "UpdateType"]


CommitMethod = Literal["new_commit", "amend"]
_Item = TypeVar("_Item")


class SpecVersion(IntEnum):
    """Spec version of a repository.

    Officially, only releases before 1.0 can read the first two.
    """

    draft = -1
    alpha = 0
    v1 = 1
    v2 = 2

    @staticmethod
    def current() -> "SpecVersion":
        """Return the default spec version of new repositories."""
        return SpecVersion.v2

    def __str__(self) -> str:
        return f"SpecVersion.{self.name}"

    __repr__ = __str__


def spec_version() -> SpecVersion:
    """Return the spec version of new repositories."""
    return SpecVersion.current()


def supported_spec_versions() -> list[SpecVersion]:
    """Return the spec versions that can be read and written, newest first."""
    return sorted(SpecVersion, reverse=True)


class SessionMode(Enum):
    """Mode of a session."""

    readonly = 0
    writable = 1
    rearrange = 2

    def __repr__(self) -> str:
        return str(self)


class RepoAvailability(Enum):
    """Availability of a repository."""

    online = 0
    read_only = 1

    def __repr__(self) -> str:
        return str(self)


_SHOWN_AVAILABILITY = {RepoAvailability.online: "Online", RepoAvailability.read_only: "ReadOnly"}


@dataclass(frozen=True, slots=True, repr=False)
class RepoStatus(Listed):
    """Availability of a repository, when it was set, and why it is limited.

    Parameters
    ----------
    availability
        The availability.
    set_at
        Time of the change, with a time zone; now by default.
    limited_availability_reason
        Reason of a limitation.
    """

    availability: RepoAvailability
    set_at: datetime = None  # type: ignore[assignment]  # None is accepted, never stored
    limited_availability_reason: str | None = None

    def __post_init__(self) -> None:
        if self.set_at is None:
            object.__setattr__(self, "set_at", datetime.now(UTC))
        elif self.set_at.tzinfo is None:
            raise InvalidTypeError(
                f"invalid set_at {self.set_at}: it has no time zone, give one such as tzinfo=UTC"
            )

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields, with the availability as the official library spells it."""
        for item in field_items(self):
            if item.name == "availability":
                yield Item(item.name, _SHOWN_AVAILABILITY[self.availability])
            else:
                yield item


def public_status(stored: repo_info.RepoStatus) -> RepoStatus:
    """Return the public form of a status. Like the official library, treat offline as online."""
    is_read_only = stored.availability is repo_info.Availability.READ_ONLY
    availability = RepoAvailability.read_only if is_read_only else RepoAvailability.online
    reason = stored.limited_availability_reason
    return RepoStatus(availability, to_datetime(stored.set_at), reason)


def stored_status(status: RepoStatus) -> repo_info.RepoStatus:
    """Return a status as stored in the repo info."""
    return repo_info.RepoStatus(
        repo_info.Availability[status.availability.name.upper()],
        from_datetime(status.set_at),
        status.limited_availability_reason,
    )


@dataclass(frozen=True, slots=True, repr=False)
class ChunkStorageStats(Listed):
    """Size of the chunks of a repository in bytes, by storage kind."""

    native_bytes: int
    virtual_bytes: int
    inlined_bytes: int

    def non_virtual_bytes(self) -> int:
        """Return the number of bytes stored in the repository."""
        return self.native_bytes + self.inlined_bytes

    def total_bytes(self) -> int:
        """Return the total number of bytes, including virtual chunks."""
        return self.non_virtual_bytes() + self.virtual_bytes

    def __add__(self, other: "ChunkStorageStats", /) -> "ChunkStorageStats":
        return ChunkStorageStats(
            self.native_bytes + other.native_bytes,
            self.virtual_bytes + other.virtual_bytes,
            self.inlined_bytes + other.inlined_bytes,
        )


class AsyncCloseableIterator(AsyncIterator[_Item], Generic[_Item]):
    """Asynchronous iterator over a synchronous or asynchronous iterator, which can be closed early."""

    def __init__(self, items: Iterator[_Item] | AsyncIterator[_Item]) -> None:
        self._items: Iterator[_Item] | AsyncIterator[_Item] | None = items

    def __aiter__(self) -> "AsyncCloseableIterator[_Item]":
        return self

    async def __anext__(self) -> _Item:
        match self._items:
            case None:
                raise StopAsyncIteration
            case AsyncIterator():
                return await anext(self._items)
        for item in self._items:
            return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the iteration and close the underlying iterator."""
        items, self._items = self._items, None
        if isinstance(items, AsyncIterator):
            close_async = getattr(items, "aclose", None)
            if close_async is not None:
                await close_async()
        elif (close := getattr(items, "close", None)) is not None:
            close()


class UpdateType(ABC):  # noqa: B024 (it names its alternatives, and is never made)
    """Kinds of entries of the operations log."""

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoInitialized(Called):
        """The repository was created."""

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoMigrated(Called):
        """The repository was migrated from an older spec version."""

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
        """A tag was created."""

        name: str

    @dataclass(frozen=True, slots=True, repr=False)
    class TagDeleted(Called):
        """A tag was deleted; its name can't be reused."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchCreated(Called):
        """A branch was created."""

        name: str

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchDeleted(Called):
        """A branch was deleted."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchReset(Called):
        """A branch was reset to another snapshot."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class NewCommit(Called):
        """A snapshot was committed to a branch."""

        branch: str
        new_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class CommitAmended(Called):
        """The tip of a branch was replaced."""

        branch: str
        previous_snap_id: str
        new_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class NewDetachedSnapshot(Called):
        """A snapshot was written that no ref points to."""

        new_snap_id: str

    @dataclass(frozen=True, slots=True, repr=False)
    class GCRan(Called):
        """Garbage collection ran."""

    @dataclass(frozen=True, slots=True, repr=False)
    class ExpirationRan(Called):
        """Old snapshots were expired."""

    @dataclass(frozen=True, slots=True, repr=False)
    class FeatureFlagChanged(Called):
        """A feature flag was set, or reset to its default with None."""

        id: int
        new_value: bool | None

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoStatusChanged(Called):
        """The availability changed."""

        status: RepoStatus


_TYPES: dict[str, type[Any]] = {
    name: cls for name, cls in vars(UpdateType).items() if isinstance(cls, type)
}
for _cls in _TYPES.values():
    UpdateType.register(_cls)


@dataclass(frozen=True, slots=True, repr=False)
class Update(Listed, Deferred):
    """Entry of the operations log.

    Attributes
    ----------
    kind
        Operation, an instance of one of the classes of `UpdateType`.
    updated_at
        Time of the operation, in UTC.
    backup_path
        Path of the repo info file before the *next* update; None for the latest update.
    """

    kind: UpdateType
    updated_at: datetime
    backup_path: str | None = None


def _read_update(entry: repo_info.Update, name: str) -> object:
    """Return a field of the public form of an entry."""
    match name:
        case "kind":
            kind = entry.kind
            return _TYPES[type(kind).__name__](
                *[_public(getattr(kind, each.name)) for each in fields(kind)]
            )
        case "updated_at":
            return to_datetime(entry.updated_at)
    return entry.backup_path


public_update = Update.defer(_read_update)
"""Return the public form of an entry of the operations log."""


def _public(detail: object) -> object:
    match detail:
        case ObjectId():
            return str(detail)
        case repo_info.RepoStatus():
            return public_status(detail)
    return detail


@dataclass(frozen=True, slots=True, repr=False)
class ExpirySummary(Listed):
    """Result of an expiration or of its dry run.

    Attributes
    ----------
    released_snapshots
        Ids of the snapshots that are no longer in the history.
    kept_snapshots
        Number of snapshots that remain.
    """

    released_snapshots: set[str] = field(hash=False)
    kept_snapshots: int


@dataclass(frozen=True, slots=True, repr=False)
class GCSummary(Listed):
    """Result of a garbage collection.

    Attributes
    ----------
    bytes_deleted
        Total size of the deleted objects.
    chunks_deleted, manifests_deleted, snapshots_deleted, attributes_deleted, transaction_logs_deleted
        Number of deleted objects by kind.
    objects_failed_to_delete
        Number of objects that could not be deleted.
    throttled_batches
        Number of deletion requests that the storage throttled.
    delete_errors
        Messages of failed deletions.
    skipped_phases
        Steps that were skipped after too many failures.
    """

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
