"""States of repositories and sessions, what is stored in them, and iterators that can be closed."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Generic, TypeVar

from frazil.errors import InvalidTypeError
from frazil.format import repo_info
from frazil.format.times import from_datetime, to_datetime
from frazil.rendering import Item, Listed, field_items

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
