"""Repo info of a V2 repository: refs, snapshots, status and ops log.

Every commit adds one snapshot to a history of maybe ten thousand. The mappings and sequences here hold
the changes and refer to the rest, and writers can tell the two apart.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple, Self, TypeVar, overload

from frazil.format.ids import SnapshotId
from frazil.format.metadata import NO_METADATA, Metadata, Nanoseconds, Value
from frazil.lazy import dataclass

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
T = TypeVar("T", covariant=True)


class Deferred:
    """Base of frozen dataclasses with slots whose fields can be read when they are asked for."""

    __slots__ = ("_read", "_source")

    @classmethod
    def defer(cls, read: Callable[[S, str], Any]) -> Callable[[S], Self]:
        """Return a function that makes a value of a source.

        `read` returns the fields of the value, each once, by its source and the name of the field.
        """
        new = object.__new__
        set_read, set_source = (vars(Deferred)[name].__set__ for name in Deferred.__slots__)

        def make(source: S) -> Any:
            value = new(cls)
            set_read(value, read)
            set_source(value, source)
            return value

        return make

    def load(self) -> Self:
        """Read all fields that were not read yet."""
        for name in type(self).__slots__:
            getattr(self, name)
        return self

    def __getattr__(self, name: str) -> Any:
        # Called for attributes that have no value yet.
        if name not in type(self).__slots__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self._read(self._source, name)
        object.__setattr__(self, name, value)
        return value


class Overlaid(Mapping[K, V]):
    """Mapping with entries hidden, added or replaced over a base.

    `hidden` holds keys of `base` only, including those that `changed` replaces.
    """

    __slots__ = ("base", "changed", "hidden")

    def __init__(self, base: Mapping[K, V], changed: Mapping[K, V], hidden: frozenset[K]) -> None:
        self.base = base
        self.changed = changed
        self.hidden = hidden

    def __getitem__(self, key: K) -> V:
        if key in self.changed:
            return self.changed[key]
        if key in self.hidden:
            raise KeyError(key)
        return self.base[key]

    def __contains__(self, key: object) -> bool:
        return key in self.changed or (key not in self.hidden and key in self.base)

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self.base if key not in self.hidden)
        yield from self.changed

    def __len__(self) -> int:
        return len(self.base) - len(self.hidden) + len(self.changed)

    def __repr__(self) -> str:
        return f"Overlaid({dict(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Overlaid, (self.base, self.changed, self.hidden))


def with_entries(mapping: Mapping[K, V], entries: Mapping[K, V]) -> Mapping[K, V]:
    """Return the mapping with entries added or replaced; a plain dict stays plain."""
    if isinstance(mapping, dict):
        return {**mapping, **entries}
    if type(mapping) is not Overlaid:
        return Overlaid(mapping, entries, frozenset([key for key in entries if key in mapping]))
    replaced = mapping.hidden.union(key for key in entries if key in mapping.base)
    return Overlaid(mapping.base, {**mapping.changed, **entries}, replaced)


def without_entries(mapping: Mapping[K, V], keys: Collection[K]) -> Mapping[K, V]:
    """Return the mapping without some entries; a plain dict stays plain."""
    gone = frozenset(keys)
    if isinstance(mapping, dict):
        return {key: value for key, value in mapping.items() if key not in gone}
    if not isinstance(mapping, Overlaid):
        mapping = Overlaid(mapping, {}, frozenset())
    kept = {key: value for key, value in mapping.changed.items() if key not in gone}
    hidden = mapping.hidden.union(key for key in gone if key in mapping.base)
    return Overlaid(mapping.base, kept, hidden)


class FrozenSequence(Sequence[T]):
    """Sequence that equals tuples and other frozen sequences with equal items."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, FrozenSequence)):
            return NotImplemented
        return len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{tuple(self)!r}"


class Prepended(FrozenSequence[T]):
    """Sequence with items before those of another sequence."""

    __slots__ = ("head", "tail")

    def __init__(self, head: tuple[T, ...], tail: Sequence[T]) -> None:
        self.head = head
        self.tail = tail

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if index == 0 and self.head:  # as every update asks
            return self.head[0]
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            size = len(self.head)
            return self.head[numbers] if numbers < size else self.tail[numbers - size]
        if numbers.step != 1:
            return tuple(self[number] for number in numbers)
        return self._between(numbers.start, numbers.stop)

    def _between(self, start: int, stop: int) -> Sequence[T]:
        size = len(self.head)
        return prepend(self.head[start:stop], self.tail[max(0, start - size) : max(0, stop - size)])

    def __iter__(self) -> Iterator[T]:
        yield from self.head
        yield from self.tail

    def __bool__(self) -> bool:
        return bool(self.head or self.tail)

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __reduce__(self) -> tuple[object, ...]:
        return (Prepended, (self.head, self.tail))


def prepend(items: tuple[T, ...], sequence: Sequence[T]) -> Sequence[T]:
    """Return the sequence with items prepended; a plain tuple stays plain."""
    if isinstance(sequence, tuple):
        return (*items, *sequence)
    if type(sequence) is Prepended:
        return Prepended((*items, *sequence.head), sequence.tail)
    return Prepended(items, sequence)


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
