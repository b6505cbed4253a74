"""The operations log, and the states of repositories and sessions."""

from abc import ABC
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Any, Generic, TypeVar

from frazil.display import Called, Item, Listed, field_items
from frazil.errors import InvalidTypeError
from frazil.format import repo_info
from frazil.format.ids import ObjectId
from frazil.format.timestamps import from_datetime, to_datetime

_Item = TypeVar("_Item")


class SpecVersion(IntEnum):
    """The generation of the format that a repository is in; the first two can only be read officially
    by releases that came before 1.0."""

    draft = -1
    alpha = 0
    v1 = 1
    v2 = 2

    @staticmethod
    def current() -> "SpecVersion":
        """What new repositories are in unless somebody says otherwise."""
        return SpecVersion.v2

    def __str__(self) -> str:
        return f"SpecVersion.{self.name}"

    __repr__ = __str__


class SessionMode(Enum):
    """What a session may do."""

    readonly = 0
    writable = 1
    rearrange = 2

    def __repr__(self) -> str:
        return str(self)


class RepoAvailability(Enum):
    """Who may use a repository."""

    online = 0
    read_only = 1

    def __repr__(self) -> str:
        return str(self)


_SHOWN_AVAILABILITY = {RepoAvailability.online: "Online", RepoAvailability.read_only: "ReadOnly"}


@dataclass(frozen=True, slots=True, repr=False)
class RepoStatus(Listed):
    """Availability, since when (now, if nothing is said), and why it is limited."""

    availability: RepoAvailability
    set_at: datetime = None  # type: ignore[assignment]  # None is what users may give, never what is kept
    limited_availability_reason: str | None = None

    def __post_init__(self) -> None:
        if self.set_at is None:
            object.__setattr__(self, "set_at", datetime.now(UTC))
        elif self.set_at.tzinfo is None:
            raise InvalidTypeError(f"set_at {self.set_at} does not know its time zone")

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields, the availability as the official library spells it."""
        for item in field_items(self):
            if item.name == "availability":
                yield Item(item.name, _SHOWN_AVAILABILITY[self.availability])
            else:
                yield item


def public_status(stored: repo_info.RepoStatus) -> RepoStatus:
    """A status as users see it; the official library takes an offline repository for online, too."""
    is_read_only = stored.availability is repo_info.Availability.READ_ONLY
    availability = RepoAvailability.read_only if is_read_only else RepoAvailability.online
    reason = stored.limited_availability_reason
    return RepoStatus(availability, to_datetime(stored.set_at), reason)


def stored_status(status: RepoStatus) -> repo_info.RepoStatus:
    """A status as the repo info holds it."""
    return repo_info.RepoStatus(
        repo_info.Availability[status.availability.name.upper()],
        from_datetime(status.set_at),
        status.limited_availability_reason,
    )


@dataclass(frozen=True, slots=True, repr=False)
class ChunkStorageStats(Listed):
    """How many bytes the chunks of a repository have, by how they are kept."""

    native_bytes: int
    virtual_bytes: int
    inlined_bytes: int

    def non_virtual_bytes(self) -> int:
        """The bytes that the repository itself holds."""
        return self.native_bytes + self.inlined_bytes

    def total_bytes(self) -> int:
        """All bytes, wherever they are."""
        return self.non_virtual_bytes() + self.virtual_bytes

    def __add__(self, other: "ChunkStorageStats", /) -> "ChunkStorageStats":
        return ChunkStorageStats(
            self.native_bytes + other.native_bytes,
            self.virtual_bytes + other.virtual_bytes,
            self.inlined_bytes + other.inlined_bytes,
        )


class AsyncCloseableIterator(AsyncIterator[_Item], Generic[_Item]):
    """An iterator for an event loop, over another of either colour, that can be ended early."""

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
        """End the iteration and what it is over; nothing comes after."""
        items, self._items = self._items, None
        if isinstance(items, AsyncIterator):
            close_async = getattr(items, "aclose", None)
            if close_async is not None:
                await close_async()
        elif (close := getattr(items, "close", None)) is not None:
            close()


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
