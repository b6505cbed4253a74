"""The `repo` object: read whole, and replaced only where it is still what was read.

Rules kept here:

- Whoever replaces `repo` has copied what he replaces to `overwritten/`, under a name that nobody else
  has. So the name in the ops log tells whether an update landed, also if its answer got lost.
- The times of updates increase, whatever the clocks of the writers say.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.errors import (
    ConflictError,
    FormatError,
    NotDurableError,
    ObjectExistsError,
    ObjectNotFoundError,
    RepositoryNotFoundError,
    StorageError,
    VersionMismatchError,
)
from frazil.format.files import decode_repo_info, encode_repo_info
from frazil.format.ids import encode_base32
from frazil.format.overlays import count_loose
from frazil.format.repo_info import RepoInfo, Update
from frazil.format.times import Nanoseconds
from frazil.protocols.backoff import plan_pauses
from frazil.protocols.clock import read_clock, time_after
from frazil.protocols.interface import UpdatePolicy
from frazil.protocols.ops_log import (
    BACKUPS,
    backup_name,
    newest_time,
    read_updates,
    record_update,
)
from frazil.protocols.repo_changes import Change
from frazil.storage.interface import PutOptions, Version

REPO = "repo"
"""The key of the object."""

MOST_LOOSE_SNAPSHOTS = 64
"""More are not written one by one at every update: reading all of them back once costs less."""


@dataclass(frozen=True, slots=True)
class _Found:
    version: Version
    info: RepoInfo


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An update that may land: what it replaces, what it writes, and the name that tells of it."""

    replaced: _Found
    backup: str
    info: RepoInfo

    @property
    def replaced_time(self) -> Nanoseconds:
        return newest_time(self.replaced.info)


class RepoFile:
    """The repo info of one repository, in storage. Threads may share it."""

    def __init__(self, assets: Assets, policy: UpdatePolicy) -> None:
        self._storage = assets.storage
        self._assets = assets
        self._policy = policy
        # Replaced whole, never changed: a thread sees one that belongs together.
        self._known: _Found | None = None

    def remember(self, other: "RepoFile") -> None:
        """Take over what another one has read of the same object."""
        self._known = other._known

    def __reduce__(self) -> tuple[object, ...]:
        return (RepoFile, (self._assets, self._policy))

    # Reading

    def read(self) -> RepoInfo:
        """The repo info as it is now; raises RepositoryNotFoundError where there is none."""
        return self._read().info

    def read_log(self) -> Iterator[Update]:
        """All updates, newest first."""
        return read_updates(self.read(), self._find_backup)

    def exists(self) -> bool:
        """Whether there is a repo info."""
        try:
            self._storage.head(REPO)
        except ObjectNotFoundError:
            return False
        return True

    def _read(self) -> _Found:
        try:
            found = self._storage.get_versioned(REPO)
        except ObjectNotFoundError as error:
            missing = RepositoryNotFoundError(
                f"the repository doesn't exist: there is none in {self._storage.place}"
            )
            missing.add_note("make one there with Repository.create or Repository.open_or_create")
            raise missing from error
        known = self._known
        if known is None or known.version != found.version:
            known = _Found(found.version, _decode(REPO, bytes(found.data)))
            self._known = known
        return known

    def _find_backup(self, name: str) -> RepoInfo | None:
        key = f"{BACKUPS}/{name}"
        try:
            data = self._storage.get(key)
        except ObjectNotFoundError:
            return None
        return _decode(key, bytes(data))

    # Writing

    def create(self, info: RepoInfo) -> None:
        """Write the first repo info; raises ConflictError where there is one."""
        try:
            version = self._storage.create(REPO, self._encode(info), self._options())
        except ObjectExistsError as error:
            raise already_created() from error
        self._known = _Found(version, info)

    def update(self, change: Callable[[RepoInfo], Change]) -> RepoInfo:
        """Apply a pure change to the repo info as it is when it is replaced; gives what was written.

        A lost race runs the change again on what the winner wrote; ConflictError when too many were
        lost. What `change` raises goes through, and nothing is written.
        """
        found = self._read()
        attempts = 0
        for pause in plan_pauses(self._policy):
            attempt = self._plan(found, change(found.info))
            if self._write(attempt):
                return attempt.info
            time.sleep(pause)
            found = self._read()
            if self._has_landed(attempt, found):
                return attempt.info
            attempts += 1
        raise ConflictError(
            message=f"the repository was updated by others {attempts} times in a row",
            kind="update-attempts-exhausted",
        )

    def _plan(self, found: _Found, change: Change) -> _Attempt:
        now = read_clock()
        backup = backup_name(now, encode_base32(os.urandom(12)))
        info = record_update(
            change.info,
            change.kind,
            time_after(newest_time(change.info), now),
            backup=backup,
            num_updates_per_file=self._policy.num_updates_per_repo_info_file,
        )
        return _Attempt(found, backup, info)

    def _write(self, attempt: _Attempt) -> bool:
        """Whether an attempt landed; False where it lost, or where that is still to be found out."""
        data = self._encode(attempt.info)
        version = attempt.replaced.version
        try:
            self._storage.copy(REPO, f"{BACKUPS}/{attempt.backup}", version)
            version = self._storage.replace(REPO, data, version, self._options())
        except VersionMismatchError:
            return False
        except NotDurableError:  # it is there, and may be gone after a loss of power
            raise
        except StorageError:
            if self._may_have_landed(attempt):
                return True
            raise
        self._known = _Found(version, _settle(attempt.info, data))
        return True

    def _may_have_landed(self, attempt: _Attempt) -> bool:
        with suppress(StorageError):
            return self._has_landed(attempt, self._read())
        return False

    def _has_landed(self, attempt: _Attempt, found: _Found) -> bool:
        """Whether the log since what an attempt replaced has the backup that only it made."""
        for update in read_updates(found.info, self._find_backup):
            if update.backup_path == attempt.backup:
                return True
            if update.updated_at < attempt.replaced_time:
                return False
        return False

    def _encode(self, info: RepoInfo) -> bytes:
        return encode_repo_info(info, self._assets.options.encoding)

    def _options(self) -> PutOptions:
        return self._assets.describe("repo-info")


def already_created() -> ConflictError:
    """The error of whoever comes second to create a repository."""
    return ConflictError(
        message="a repository was created here in the meantime", kind="repo-info-updated"
    )


def _settle(info: RepoInfo, data: bytes) -> RepoInfo:
    """What was written, read back where it holds more by itself than is cheap to write again."""
    return _decode(REPO, data) if count_loose(info.snapshots) > MOST_LOOSE_SNAPSHOTS else info


def _decode(key: str, data: bytes) -> RepoInfo:
    try:
        return decode_repo_info(data).value
    except FormatError as error:
        raise FormatError(f"{key}: {error.message}", kind=error.kind) from error
