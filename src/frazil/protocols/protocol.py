"""The commit protocol: how a branch moves, whatever the generation."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from frazil.errors import FormatError, InvalidInputError, SnapshotNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import JsonValue
from frazil.format.repo_info import RepoInfo, RepoStatus, SnapshotInfo, Update
from frazil.format.snapshot import Snapshot
from frazil.format.timestamps import Nanoseconds
from frazil.protocols.assets import Assets

MAIN = "main"
"""The branch that every repository has."""
NO_SOURCES: Set[SnapshotId] = frozenset()
"""Of a commit whose chunks are its parent's or its own."""


@dataclass(frozen=True, slots=True)
class UpdatePolicy:
    """How often a lost race for the repo info is run again, and how long its ops log may get."""

    max_tries: int = 100
    initial_backoff_seconds: float = 0.05
    max_backoff_seconds: float = 30.0
    num_updates_per_repo_info_file: int = 1000


@dataclass(frozen=True, slots=True)
class Replaced:
    """The commits of a branch that one takes the place of."""

    since: SnapshotId
    """The commit before them."""
    tip: SnapshotId
    lost_logs: tuple[SnapshotId, ...] = ()
    """What expired commits among them changed is known no more."""


class CommitProtocol(ABC):
    """Refs and history of one repository."""

    def __init__(self, assets: Assets) -> None:
        self.assets = assets

    @property
    def dialect(self) -> Dialect:
        """In which files are written."""
        return self.assets.dialect

    @abstractmethod
    def reopen(self, assets: Assets, policy: UpdatePolicy) -> "CommitProtocol":
        """The same repository through other assets; what was read of it need not be read again."""

    # Refs

    @abstractmethod
    def list_branches(self) -> Set[str]:
        """The names of all branches."""

    @abstractmethod
    def list_tags(self) -> Set[str]:
        """The names of all tags, without deleted ones."""

    @abstractmethod
    def lookup_branch(self, name: str) -> SnapshotId:
        """The tip of a branch; raises RefNotFoundError."""

    @abstractmethod
    def lookup_tag(self, name: str) -> SnapshotId:
        """The snapshot of a tag; raises RefNotFoundError, also for a deleted one."""

    @abstractmethod
    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        """Raises AlreadyExistsError, SnapshotNotFoundError, InvalidInputError for a bad name."""

    @abstractmethod
    def delete_branch(self, name: str) -> None:
        """Raises RefNotFoundError, and SessionStateError for `main`."""

    @abstractmethod
    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None = None
    ) -> None:
        """Point a branch elsewhere; with `expected`, only if its tip is that (else ConflictError)."""

    def advance_branch(self, name: str, snapshot_id: SnapshotId, expected: SnapshotId) -> None:
        """Move a branch, also a protected one, on to a snapshot that builds on `expected`, its tip.

        That it does is for the caller to know. Raises ConflictError if the tip is another one.
        """
        self.reset_branch(name, snapshot_id, expected)

    def lookup_branch_to_change(self, name: str) -> SnapshotId:
        """The tip of a branch; raises RefNotFoundError, and ReadOnlyError for a protected branch."""
        return self.lookup_branch(name)

    @abstractmethod
    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        """Raises AlreadyExistsError, also for a name that was deleted; SnapshotNotFoundError."""

    @abstractmethod
    def delete_tag(self, name: str) -> None:
        """Delete a tag for ever; raises RefNotFoundError."""

    # History

    @abstractmethod
    def lookup_snapshot(self, id: SnapshotId) -> SnapshotInfo:
        """What the history says of a snapshot; raises SnapshotNotFoundError."""

    @abstractmethod
    def ancestry(self, id: SnapshotId) -> Iterator[SnapshotInfo]:
        """A snapshot and those before it, newest first; raises SnapshotNotFoundError at once."""

    def ancestries(self, ids: Iterable[SnapshotId]) -> Iterator[Iterator[SnapshotInfo]]:
        """The ancestry of each; what they share need not be read again."""
        return map(self.ancestry, ids)

    @abstractmethod
    def commit(
        self,
        branch: str,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
    ) -> None:
        """Make a written snapshot the tip of a branch whose tip is its parent.

        Raises ConflictError if the tip is another one, RefNotFoundError if the branch is gone,
        SnapshotNotFoundError if a snapshot whose chunks it took over is: they may be deleted.
        """

    def amend(
        self,
        branch: str,
        snapshot: Snapshot,
        replaced: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
    ) -> None:
        """Make a written snapshot the tip in place of `replaced`, with that one's parent."""
        raise self.unsupported("amend")

    @abstractmethod
    def squash(self, branch: str, snapshot: Snapshot, replaced: Replaced) -> None:
        """Make a written snapshot the tip in place of the commits that it has all changes of.

        Raises ConflictError if the tip is another one.
        """

    @abstractmethod
    def register(
        self, snapshot: Snapshot, parent_id: SnapshotId, sources: Set[SnapshotId] = NO_SOURCES
    ) -> None:
        """Make a written snapshot known without a ref to it, where the generation can.

        Raises SnapshotNotFoundError if its parent is gone, or one whose chunks it took over.
        """

    def refuse_unless_writable(self) -> None:  # noqa: B027 (only V2 repositories can be read-only)
        """Raise ReadOnlyError if the repository as a whole is not to be written to."""

    # Configuration

    @abstractmethod
    def read_config(self) -> dict[str, JsonValue] | None:
        """The saved configuration as a tree, if one was saved."""

    @abstractmethod
    def write_config(self, config: Mapping[str, JsonValue]) -> None:
        """Save it; before V2, ConflictError if somebody else did since it was read."""

    # What only V2 has

    def read_repo_info(self) -> RepoInfo:
        """The whole state of a V2 repository."""
        raise self.unsupported("repo info")

    def update_metadata(
        self, change: Callable[[Mapping[str, JsonValue]], Mapping[str, JsonValue]]
    ) -> Mapping[str, JsonValue]:
        """Replace the repository's metadata by a function of it; gives the new metadata."""
        raise self.unsupported("repository metadata")

    def protect_branch(self, name: str, by: str | None) -> None:
        """Let a branch move by `advance_branch` only; raises RefNotFoundError."""
        raise self.unsupported("protected branches")

    def unprotect_branch(self, name: str) -> None:
        """Let a branch move in any way again; raises RefNotFoundError if it is not protected."""
        raise self.unsupported("protected branches")

    def set_status(self, status: RepoStatus) -> None:
        """Change the availability of the repository."""
        raise self.unsupported("repository status")

    def set_feature_flag(self, id: int, setting: bool | None) -> None:
        """Enable or disable a feature, or return it to its default."""
        raise self.unsupported("feature flags")

    def ops_log(self) -> Iterator[Update]:
        """All that was done to the repository, newest first."""
        raise self.unsupported("ops log")

    def unsupported(self, what: str) -> FormatError:
        """The error that says what this generation does not have."""
        return FormatError(
            f"{what}: a repository of the generation {self.dialect.value} has no such thing, please"
            " upgrade it with upgrade_icechunk_repository",
            kind="unsupported-spec-version",
        )


def lost_source(id: SnapshotId) -> SnapshotNotFoundError:
    """The error that says that chunks of a commit may be deleted at any time, and so it can't land."""
    return SnapshotNotFoundError(
        f"nothing was committed: the snapshot {id}, whose chunks were to be used, has expired or was"
        " collected meanwhile"
    )


MICROSECOND = 1000
"""The smallest step of time that the FlatBuffers generations know."""


def read_clock() -> Nanoseconds:
    """Now, in whole microseconds."""
    return time.time_ns() // MICROSECOND * MICROSECOND


def time_after(earlier: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """Now, or the first microsecond after `earlier` where a clock is behind it."""
    return max(now, earlier // MICROSECOND * MICROSECOND + MICROSECOND)


_IMMEDIATE_RETRIES = 5


def plan_pauses(policy: UpdatePolicy) -> Iterator[float]:
    """The seconds to wait after each attempt that lost; as many as there may be attempts.

    Five retries follow at once, because most races are between a few; the others wait twice as long
    each time, and not all the same. After the last attempt there is nothing to wait for.
    """
    yield from [0.0] * _IMMEDIATE_RETRIES
    pause = policy.initial_backoff_seconds
    for _ in range(policy.max_tries - _IMMEDIATE_RETRIES):
        yield random.uniform(pause / 2, pause)
        pause = min(2 * pause, policy.max_backoff_seconds)
    yield 0.0


def validate_name(name: str) -> str:
    """The name itself, if it is text that a file can hold."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise _refusal(name, "it is not whole Unicode text") from error
    return name


def validate_folder_name(name: str) -> str:
    """The name itself, if it can also be part of a folder's name: V1 and older keep refs in files."""
    if "/" in name:
        raise _refusal(name, "this generation of repositories allows no slash")
    return validate_name(name)


def _refusal(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{name!r} is no name for a ref: {reason}", kind="invalid-ref-name")
