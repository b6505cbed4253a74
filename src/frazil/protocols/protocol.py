"""Interface of the commit protocols, and their retries and ref names."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from frazil.errors import (
    FormatError,
    InvalidInputError,
    InvalidTypeError,
    SnapshotNotFoundError,
)
from frazil.format.header import Dialect
from frazil.format.ids import ObjectId, SnapshotId
from frazil.format.metadata import JsonValue, Nanoseconds, from_datetime
from frazil.format.repo_info import RepoInfo, RepoStatus, SnapshotInfo, Update
from frazil.format.snapshot import Snapshot
from frazil.lazy import dataclass
from frazil.protocols.assets import Assets, Object

if TYPE_CHECKING:
    from frazil.protocols.repo_changes import Change

MAIN = "main"
"""Name of the branch that every repository has."""
NO_SOURCES: Set[SnapshotId] = frozenset()
"""Sources of a commit that only uses its own chunks and those of its parent."""


@dataclass(frozen=True, slots=True)
class UpdatePolicy:
    """Retries of repo info updates, and the page size of the ops log."""

    max_tries: int = 100
    initial_backoff_seconds: float = 0.05
    max_backoff_seconds: float = 30.0
    num_updates_per_repo_info_file: int = 1000


@dataclass(frozen=True, slots=True)
class Replaced:
    """Commits of a branch that a squash replaces."""

    since: SnapshotId
    """Parent of the oldest replaced commit."""
    tip: SnapshotId
    lost_logs: tuple[SnapshotId, ...] = ()
    """Transaction logs of expired commits among them whose files are missing."""


class CommitProtocol(ABC):
    """Refs and history of one repository.

    Every change of a branch is atomic: of several concurrent writers exactly one wins.
    """

    has_repo_info = False
    """True if refs, history and state are one object, which `update` replaces."""

    def __init__(self, assets: Assets) -> None:
        self.assets = assets

    @property
    def dialect(self) -> Dialect:
        """Dialect in which files are written."""
        return self.assets.dialect

    @abstractmethod
    def reopen(self, assets: Assets, policy: UpdatePolicy) -> "CommitProtocol":
        """Return a protocol for this repository with other assets; keeps what was already read."""

    @abstractmethod
    def at(self, assets: Assets) -> "CommitProtocol":
        """Return a protocol of this class with other assets; it knows nothing of what was read."""

    def begin(self, first: SnapshotId, tip: SnapshotId | None = None) -> None:
        """Create `main` at `tip`, by default the first snapshot, where refs are files.

        Raises ConflictError if another writer was first.
        """
        raise self.unsupported("ref files")

    # Refs

    def reading_once(self) -> AbstractContextManager[None]:
        """Resolve refs in a `with` block by what opening has just read, if it read refs.

        For one thread, and for the call that opened the repository: later ones want newer refs.
        """
        return nullcontext()

    def resolve(
        self, branch: str | None, tag: str | None = None, snapshot_id: str | None = None
    ) -> SnapshotId:
        """Return the snapshot that exactly one of the arguments names.

        Raises ValueError unless it is one, InvalidInputError for an invalid id, RefNotFoundError and
        SnapshotNotFoundError.
        """
        refuse_unless_one(branch, tag, snapshot_id)
        if branch is not None:
            return self.lookup_branch(branch)
        if tag is not None:
            return self.lookup_tag(tag)
        assert snapshot_id is not None
        return self.lookup_snapshot(parse_id(SnapshotId, snapshot_id)).id

    def guess(
        self, branch: str | None, tag: str | None = None, snapshot_id: str | None = None
    ) -> SnapshotId | None:
        """Return what `resolve` returned last, or would return if nothing changed, without a request.

        None if that is unknown. It allows to ask for the snapshot and for the refs at once.
        """
        return None

    def resolve_as_of(self, branch: str, moment: datetime) -> SnapshotId:
        """Return the last snapshot of a branch at or before a time; raises SnapshotNotFoundError."""
        if moment.tzinfo is None:
            raise InvalidTypeError("as_of needs a time zone")
        limit = from_datetime(moment)
        for info in self.ancestry(self.lookup_branch(branch)):
            if info.flushed_at <= limit:
                return info.id
        raise SnapshotNotFoundError(
            f"branch {branch} does not have a snapshots before or at {moment.isoformat()}",
            kind="no-snapshot-at-time",
        )

    @abstractmethod
    def list_branches(self) -> Set[str]:
        """Return the names of all branches."""

    @abstractmethod
    def list_tags(self) -> Set[str]:
        """Return the names of all tags, without deleted ones."""

    def list_deleted_tags(self) -> Mapping[str, SnapshotId]:
        """Return the deleted tags with the snapshots they pointed to; V2 keeps only the names."""
        return {}

    def reserve_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        """Write a deleted tag, so that its name can't be used; the snapshot may be gone."""
        raise self.unsupported("deleted tags with snapshots")

    @abstractmethod
    def lookup_branch(self, name: str) -> SnapshotId:
        """Return the tip of a branch; raises RefNotFoundError."""

    @abstractmethod
    def lookup_tag(self, name: str) -> SnapshotId:
        """Return the snapshot of a tag; raises RefNotFoundError, also for a deleted tag."""

    @abstractmethod
    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a branch.

        Raises AlreadyExistsError (before V2 ConflictError) if the branch exists, SnapshotNotFoundError,
        and InvalidInputError for an invalid name.
        """

    @abstractmethod
    def delete_branch(self, name: str) -> None:
        """Delete a branch; raises RefNotFoundError, and SessionStateError for `main`."""

    @abstractmethod
    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None = None
    ) -> None:
        """Reset a branch to a snapshot; raises ConflictError if `expected` is given and not its tip."""

    def advance_branch(self, name: str, snapshot_id: SnapshotId, expected: SnapshotId) -> None:
        """Fast-forward a branch, even a protected one, from `expected` to a descendant.

        The caller must ensure that the snapshot descends from `expected`. Raises ConflictError if the
        tip is not `expected`.
        """
        self.reset_branch(name, snapshot_id, expected)

    def lookup_branch_to_change(self, name: str) -> SnapshotId:
        """Return the tip of a branch; raises RefNotFoundError, or ReadOnlyError if it is protected."""
        return self.lookup_branch(name)

    @abstractmethod
    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a tag; raises AlreadyExistsError, also for a deleted tag, or SnapshotNotFoundError."""

    @abstractmethod
    def delete_tag(self, name: str) -> None:
        """Delete a tag permanently: its name can't be reused; raises RefNotFoundError."""

    # History

    @abstractmethod
    def lookup_snapshot(self, id: SnapshotId) -> SnapshotInfo:
        """Return the history entry of a snapshot; raises SnapshotNotFoundError."""

    @abstractmethod
    def ancestry(self, id: SnapshotId) -> Iterator[SnapshotInfo]:
        """Return a snapshot and its ancestors, newest first; raises SnapshotNotFoundError at once."""

    def ancestries(self, ids: Iterable[SnapshotId]) -> Iterator[Iterator[SnapshotInfo]]:
        """Return the ancestry of each snapshot; shared ancestors may be read only once."""
        return map(self.ancestry, ids)

    def resolve_ancestry(
        self, branch: str | None, tag: str | None = None, snapshot_id: str | None = None
    ) -> Iterator[SnapshotInfo]:
        """Return the ancestry of what `resolve` returns; raises as it does."""
        return self.ancestry(self.resolve(branch, tag, snapshot_id))

    @abstractmethod
    def commit(
        self,
        branch: str,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
        objects: Sequence[Object] = (),
        earlier: Sequence[Snapshot] = (),
    ) -> None:
        """Commit a snapshot: make it the tip of a branch whose tip is its parent.

        The objects are its files, unless they are written already. They are written first. If there are
        `earlier` snapshots, `parent_id` is the parent of the first of them.

        Raises ConflictError if the tip is not `parent_id`, RefNotFoundError (before V2 ConflictError)
        if the branch does not exist, and SnapshotNotFoundError if one of `sources`, whose chunks the
        commit uses, is gone: its chunks may be deleted.
        """

    def amend(
        self,
        branch: str,
        snapshot: Snapshot,
        replaced: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
        objects: Sequence[Object] = (),
    ) -> None:
        """Replace the tip `replaced` of a branch with a snapshot that keeps its parent."""
        raise self.unsupported("amend")

    @abstractmethod
    def squash(
        self, branch: str, snapshot: Snapshot, replaced: Replaced, objects: Sequence[Object] = ()
    ) -> None:
        """Replace commits of a branch with one snapshot that contains all their changes.

        Raises ConflictError if the tip has changed.
        """

    @abstractmethod
    def register(
        self,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
        objects: Sequence[Object] = (),
    ) -> None:
        """Add a snapshot to the history without a ref to it, if the generation can.

        Raises SnapshotNotFoundError if its parent or one of `sources`, whose chunks it uses, is gone.
        """

    def refuse_unless_writable(self) -> None:  # noqa: B027 (only V2 repositories can be read-only)
        """Raise ReadOnlyError if the repository is not writable."""

    def resolve_to_write(self, branch: str) -> SnapshotId:
        """Return the tip of a branch; raises ReadOnlyError, RefNotFoundError."""
        return self.lookup_branch(branch)

    def resolve_to_move(self, branch: str) -> SnapshotId:
        """Return the tip of a branch whose nodes may be moved; raises as `resolve_to_write`."""
        raise self.unsupported("rearrange sessions")

    # Configuration

    @abstractmethod
    def read_config(self, *, again: bool = True) -> dict[str, JsonValue] | None:
        """Return the saved configuration as a tree, or None.

        Without `again`, it may be that of the repo info which was read last.
        """

    @abstractmethod
    def write_config(self, config: Mapping[str, JsonValue]) -> None:
        """Save the configuration; before V2, raises ConflictError if it changed since it was read."""

    # V2 only

    def read_repo_info(self) -> RepoInfo:
        """Return the repo info: the state of a V2 repository."""
        raise self.unsupported("repo info")

    def update(
        self, change: "Callable[[RepoInfo], Change]", objects: Sequence[Object] = ()
    ) -> RepoInfo:
        """Apply a pure change, again after a lost race, and return the repo info that was written.

        Objects that the new repo info refers to are written first, with the backup of the old one.

        Raises ReadOnlyError unless the repository is online, ConflictError of kind
        `update-attempts-exhausted` after too many lost races, and whatever the change raises.
        """
        raise self.unsupported("repo info")

    def update_metadata(
        self, change: Callable[[Mapping[str, JsonValue]], Mapping[str, JsonValue]]
    ) -> Mapping[str, JsonValue]:
        """Replace the repository's metadata with a function of it; returns the new metadata."""
        raise self.unsupported("repository metadata")

    def protect_branch(self, name: str, by: str | None) -> None:
        """Protect a branch: only `advance_branch` can move it; raises RefNotFoundError."""
        raise self.unsupported("protected branches")

    def unprotect_branch(self, name: str) -> None:
        """Remove the protection of a branch; raises RefNotFoundError if it is not protected."""
        raise self.unsupported("protected branches")

    def set_status(self, status: RepoStatus) -> None:
        """Set the status of the repository."""
        raise self.unsupported("repository status")

    def set_feature_flag(self, id: int, setting: bool | None) -> None:
        """Enable or disable a feature flag; None resets it to its default."""
        raise self.unsupported("feature flags")

    def ops_log(self) -> Iterator[Update]:
        """Return all updates of the repository, newest first."""
        raise self.unsupported("ops log")

    def unsupported(self, what: str) -> FormatError:
        """Return the error for a feature that this generation does not support."""
        return FormatError(
            f"{what}: a repository of the generation {self.dialect.value} has no such thing, please"
            " upgrade it with upgrade_icechunk_repository",
            kind="unsupported-spec-version",
        )


def lost_source(id: SnapshotId) -> SnapshotNotFoundError:
    """Return the error for a commit that uses chunks of a snapshot that is gone."""
    return SnapshotNotFoundError(
        f"nothing was committed: the snapshot {id}, whose chunks were to be used, has expired or was"
        " collected meanwhile"
    )


MICROSECOND = 1000
"""Time resolution of the FlatBuffers generations, in nanoseconds."""


def read_clock() -> Nanoseconds:
    """Return the current time in nanoseconds, rounded down to microseconds."""
    return time.time_ns() // MICROSECOND * MICROSECOND


def time_after(earlier: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """Return `now`, or the first microsecond after `earlier` if the clock lags behind."""
    return max(now, earlier // MICROSECOND * MICROSECOND + MICROSECOND)


_IMMEDIATE_RETRIES = 5


def plan_pauses(policy: UpdatePolicy) -> Iterator[float]:
    """Yield the seconds to wait after each lost attempt, one value per allowed attempt.

    The first five retries are immediate, because most races have few participants. The others back off
    exponentially with jitter. There is no wait after the last attempt.
    """
    yield from [0.0] * _IMMEDIATE_RETRIES
    pause = policy.initial_backoff_seconds
    for _ in range(policy.max_tries - _IMMEDIATE_RETRIES):
        yield random.uniform(pause / 2, pause)
        pause = min(2 * pause, policy.max_backoff_seconds)
    yield 0.0


def refuse_unless_one(branch: str | None, tag: str | None, snapshot_id: str | None) -> None:
    """Raise ValueError unless exactly one names a version, InvalidInputError for an invalid id."""
    if sum(each is not None for each in (branch, tag, snapshot_id)) != 1:
        raise ValueError("give one of branch, tag and snapshot_id")
    if snapshot_id is not None:
        parse_id(SnapshotId, snapshot_id)


Id = TypeVar("Id", bound=ObjectId)


def parse_id(kind: type[Id], text: str) -> Id:
    """Return the id that a text spells; raises InvalidInputError that names the kind of id."""
    try:
        return kind.parse(text)
    except InvalidInputError as error:
        if kind is SnapshotId:
            raise InvalidInputError(
                f"{text!r} is no snapshot id", kind="invalid-snapshot-id"
            ) from error
        name = kind.__name__.removesuffix("Id").lower()
        raise InvalidInputError(f"{text!r} is no {name} id", kind=error.kind) from error


def validate_name(name: str) -> str:
    """Return the name if it is valid Unicode; raises InvalidInputError."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise _refusal(name, "it is not whole Unicode text") from error
    return name


def validate_folder_name(name: str) -> str:
    """Return the name if it can also be part of a folder name, as V1 and older require."""
    if "/" in name:
        raise _refusal(name, "this generation of repositories allows no slash")
    return validate_name(name)


def _refusal(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"invalid ref name {name!r}: {reason}", kind="invalid-ref-name")
