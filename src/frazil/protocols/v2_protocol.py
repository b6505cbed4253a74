"""Commit protocol of V2: replace the object `repo`, which holds refs, history and state."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import TypeVar

from frazil.errors import (
    ConflictError,
    FormatError,
    IcechunkError,
    NotDurableError,
    ObjectExistsError,
    ObjectNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    StorageError,
    VersionMismatchError,
)
from frazil.format.files import decode_log_page, decode_repo_info, record_repo_info
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId, encode_base32
from frazil.format.metadata import Encoding, JsonValue, Metadata, Nanoseconds, Value
from frazil.format.repo_info import (
    LogPage,
    RepoInfo,
    RepoInitialized,
    RepoStatus,
    SnapshotInfo,
    Update,
    UpdateType,
    prepend,
)
from frazil.format.snapshot import Snapshot, TransactionLog
from frazil.format.v2.repo_info_codec import with_backup
from frazil.format.v2.snapshot_info_codec import walk_ancestors
from frazil.lazy import dataclass, replace
from frazil.protocols import repo_changes
from frazil.protocols.assets import Assets, Object, WeightedCache
from frazil.protocols.protocol import (
    MAIN,
    MICROSECOND,
    NO_SOURCES,
    CommitProtocol,
    Replaced,
    UpdatePolicy,
    parse_id,
    plan_pauses,
    read_clock,
    refuse_unless_one,
    time_after,
    validate_name,
)
from frazil.protocols.repo_changes import Change, refuse_protected
from frazil.storage.interface import PutOptions, Version

T = TypeVar("T")

BACKUPS = "overwritten"
"""Folder of the backups of `repo`."""

_IS_ROOT = Value.encoded(Encoding.FLEXBUFFERS, b"is_root\0\1\t\1\1\1\1h\2$\1")
"""`{"is_root": True}`: to create a repository, the FlexBuffers library needn't be loaded."""

_LAST_MILLISECOND = 32_503_680_000_000
"""The year 3000, in Unix milliseconds. Backup names count down from it to list the newest first."""


def backup_name(now: Nanoseconds, id: str) -> str:
    """Return the name of a backup, unique by its id."""
    return f"repo.{_LAST_MILLISECOND - now // 1_000_000:014}.{id}"


def newest_time(info: RepoInfo) -> Nanoseconds:
    """Return the time of the last update."""
    return info.latest_updates[0].updated_at if info.latest_updates else 0


def record_update(
    info: RepoInfo,
    kind: UpdateType,
    time: Nanoseconds,
    *,
    backup: str,
    num_updates_per_file: int,
) -> RepoInfo:
    """Return the repo info with one more update; `backup` names the backup of its previous state."""
    former = info.latest_updates
    updates: Sequence[Update] = (Update(kind, time),)
    if former:
        newest = former[0]
        replaced = Update(newest.kind, newest.updated_at, backup)
        updates = prepend((updates[0], replaced), former[1:])
    # Updates without a backup, as a migration creates them, are stored nowhere else: keep them.
    for index in range(num_updates_per_file, len(updates)):
        left_out = updates[index].backup_path
        if left_out is not None:
            return replace(info, latest_updates=updates[:index], repo_before_updates=left_out)
    return replace(info, latest_updates=updates)


def read_updates(
    info: RepoInfo, find_backup: Callable[[str], RepoInfo | LogPage | None]
) -> Iterator[Update]:
    """Yield all updates, newest first; reads backups lazily and stops at a missing one."""
    yield from info.latest_updates
    visited: set[str] = set()
    name = info.repo_before_updates
    while name is not None and name not in visited:
        visited.add(name)
        page = find_backup(name)
        if page is None:
            return
        # The newest update of a page has no backup, because the page itself is its backup.
        yield from with_backup(page.latest_updates, name)
        name = page.repo_before_updates


REPO = "repo"
"""Key of the repo info."""


@dataclass(frozen=True, slots=True)
class _Found:
    version: Version
    info: RepoInfo
    data: bytes
    """Bytes of the object, for its backup."""


_RECENT: WeightedCache[int, tuple[object, _Found]]
_RECENT = WeightedCache(8 << 20, lambda kept: len(kept[1].data))
"""Repo infos read lately over a network, by client, to ask the store only whether they changed."""


def _find_recent(client: object | None) -> _Found | None:
    kept = None if client is None else _RECENT.find(id(client))
    return None if kept is None else kept[1]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Attempted update: the state it replaces, the state it writes and its unique backup name."""

    replaced: _Found
    backup: str
    info: RepoInfo

    @property
    def replaced_time(self) -> Nanoseconds:
        return newest_time(self.replaced.info)


class RepoFile:
    """The repo info of one repository in its storage. Thread-safe."""

    def __init__(self, assets: Assets, policy: UpdatePolicy) -> None:
        self._storage = assets.storage
        self._assets = assets
        self._policy = policy
        # Replaced, never mutated, so that threads see a consistent value.
        self._known: _Found | None = None
        self._is_current = False

    def remember(self, other: "RepoFile") -> None:
        """Take over the repo info that another instance has read."""
        self._known = other._known

    def __reduce__(self) -> tuple[object, ...]:
        return (RepoFile, (self._assets, self._policy))

    # Reading

    def read(self) -> RepoInfo:
        """Read the current repo info; raises RepositoryNotFoundError."""
        known = self._known if self._is_current else None
        return (known or self._read()).info

    @contextmanager
    def reading_once(self) -> Iterator[None]:
        """Return the known repo info from `read` in a `with` block, if one is known."""
        self._is_current = True
        try:
            yield
        finally:
            self._is_current = False

    def read_log(self) -> Iterator[Update]:
        """Yield all updates, newest first."""
        return read_updates(self.read(), self._find_backup)

    def exists(self) -> bool:
        """Return whether the repo info exists."""
        try:
            self._storage.head(REPO)
        except ObjectNotFoundError:
            return False
        return True

    def _read(self) -> _Found:
        known = self._known or _find_recent(self._storage.shared_client)
        try:
            found = (
                self._storage.get_versioned(REPO)
                if known is None
                else self._storage.get_if_changed(REPO, known.version)
            )
        except ObjectNotFoundError as error:
            missing = RepositoryNotFoundError(
                f"the repository doesn't exist: there is none in {self._storage.place}"
            )
            missing.add_note("make one there with Repository.create or Repository.open_or_create")
            raise missing from error
        if found is not None:
            data = bytes(found.data)
            info = _decode(REPO, data, lambda data: decode_repo_info(data).value)
            known = self._keep(_Found(found.version, info, data))
        assert known is not None
        self._known = self._known or known
        return known

    def _keep(self, found: _Found) -> _Found:
        self._known = found
        client = self._storage.shared_client
        if client is not None:
            _RECENT.put(id(client), (client, found))
        return found

    @property
    def known(self) -> RepoInfo | None:
        """Return the repo info that was read or written last, without a request."""
        return None if self._known is None else self._known.info

    def _find_backup(self, name: str) -> LogPage | None:
        key = f"{BACKUPS}/{name}"
        try:
            data = self._storage.get(key)
        except ObjectNotFoundError:
            return None
        return _decode(key, bytes(data), decode_log_page)

    # Writing

    def create(self, info: RepoInfo) -> None:
        """Create the repo info; raises ConflictError if it exists."""
        data, recorded = self._encode(info)
        try:
            version = self._storage.create(REPO, data, self._options())
        except ObjectExistsError as error:
            raise already_created() from error
        self._keep(_Found(version, recorded, data))

    def update(
        self, change: Callable[[RepoInfo], Change], objects: Sequence[Object] = ()
    ) -> RepoInfo:
        """Apply a pure change to the current repo info and return what was written.

        Objects that it refers to are written first, together with the backup; a list of them is emptied
        then. After a lost race the
        change runs again on the winner's repo info. Raises ConflictError if too many races are lost.
        Exceptions of `change` propagate, and nothing is written.
        """
        attempt = self._begin(change)
        attempts = 0
        for pause in plan_pauses(self._policy):
            if self._write(attempt, objects):
                return attempt.info
            objects = ()
            time.sleep(pause)
            found = self._read()
            if self._has_landed(attempt, found):
                return attempt.info
            attempt = self._plan(found, change(found.info))
            attempts += 1
        raise ConflictError(
            message=f"the repository was updated by others {attempts} times in a row",
            kind="update-attempts-exhausted",
        )

    def _begin(self, change: Callable[[RepoInfo], Change]) -> _Attempt:
        """Plan the first attempt, without a request if a repo info is known.

        It was read when the repository or a session was opened, and replacing an outdated one fails.
        """
        known = self._known
        if known is not None and self._storage.can_replace_safely:
            try:
                return self._plan(known, change(known.info))
            except IcechunkError:  # which an outdated repo info may cause
                pass
        found = self._read()
        return self._plan(found, change(found.info))

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

    def _write(self, attempt: _Attempt, objects: Sequence[Object]) -> bool:
        """Write an attempt and return whether it won; False if it lost or the outcome is unknown."""
        data, recorded = self._encode(attempt.info)
        replaced = attempt.replaced
        backup = (f"{BACKUPS}/{attempt.backup}", replaced.data, self._options())
        try:
            # Everything that the repo info refers to is written before it.
            self._storage.put_many([*objects, backup])
            if isinstance(objects, list):
                objects.clear()
            version = self._storage.replace(REPO, data, replaced.version, self._options())
        except VersionMismatchError:
            return False
        except NotDurableError:  # written, but a power loss may undo it
            raise
        except StorageError:
            if self._may_have_landed(attempt):
                return True
            raise
        self._keep(_Found(version, recorded, data))
        return True

    def _may_have_landed(self, attempt: _Attempt) -> bool:
        with suppress(StorageError):
            return self._has_landed(attempt, self._read())
        return False

    def _has_landed(self, attempt: _Attempt, found: _Found) -> bool:
        """Return whether the ops log names the attempt's unique backup; resolves a lost response."""
        for update in read_updates(found.info, self._find_backup):
            if update.backup_path == attempt.backup:
                return True
            if update.updated_at < attempt.replaced_time:
                return False
        return False

    def _encode(self, info: RepoInfo) -> tuple[bytes, RepoInfo]:
        return record_repo_info(info, self._assets.options.encoding)

    def _options(self) -> PutOptions:
        return self._assets.describe("repo-info")


def already_created() -> ConflictError:
    """Return the error for creating a repository that exists."""
    return ConflictError(
        message="a repository was created here in the meantime", kind="repo-info-updated"
    )


def _decode(key: str, data: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(data)
    except FormatError as error:
        raise FormatError(f"{key}: {error.message}", kind=error.kind) from error


class V2Protocol(CommitProtocol):
    """Commit protocol of V2 repositories."""

    has_repo_info = True

    def __init__(self, assets: Assets, policy: UpdatePolicy) -> None:
        super().__init__(assets)
        self._policy = policy
        self._file = RepoFile(assets, policy)

    def at(self, assets: Assets) -> "V2Protocol":
        return V2Protocol(assets, self._policy)

    def reopen(self, assets: Assets, policy: UpdatePolicy) -> "V2Protocol":
        other = V2Protocol(assets, policy)
        other._file.remember(self._file)
        return other

    def reading_once(self) -> AbstractContextManager[None]:
        return self._file.reading_once()

    def read_repo_info(self) -> RepoInfo:
        return self._file.read()

    def update(
        self, change: Callable[[RepoInfo], Change], objects: Sequence[Object] = ()
    ) -> RepoInfo:
        return self._file.update(partial(_change_online, change=change), objects)

    def ops_log(self) -> Iterator[Update]:
        return self._file.read_log()

    # Refs

    def list_branches(self) -> Set[str]:
        return set(self._file.read().branches)

    def list_tags(self) -> Set[str]:
        return set(self._file.read().tags)

    def lookup_branch(self, name: str) -> SnapshotId:
        return repo_changes.branch_tip(self._file.read(), name)

    def guess(
        self, branch: str | None, tag: str | None = None, snapshot_id: str | None = None
    ) -> SnapshotId | None:
        known = self._file.known
        with suppress(IcechunkError, ValueError):
            return None if known is None else _resolve(known, branch, tag, snapshot_id)
        return None

    def resolve(
        self, branch: str | None, tag: str | None = None, snapshot_id: str | None = None
    ) -> SnapshotId:
        refuse_unless_one(branch, tag, snapshot_id)
        return _resolve(self._file.read(), branch, tag, snapshot_id)

    def lookup_tag(self, name: str) -> SnapshotId:
        return repo_changes.tagged_snapshot(self._file.read(), name)

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        validate_name(name)
        self.update(lambda info: repo_changes.create_branch(info, name, snapshot_id))

    def delete_branch(self, name: str) -> None:
        if name == MAIN:
            raise SessionStateError(f"{MAIN} branch cannot be deleted", kind="cannot-delete-main")
        self.update(lambda info: repo_changes.delete_branch(info, name))

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None = None
    ) -> None:
        self.update(lambda info: repo_changes.reset_branch(info, name, snapshot_id, expected))

    def advance_branch(self, name: str, snapshot_id: SnapshotId, expected: SnapshotId) -> None:
        self.update(lambda info: repo_changes.advance_branch(info, name, snapshot_id, expected))

    def lookup_branch_to_change(self, name: str) -> SnapshotId:
        info = self._file.read()
        refuse_protected(info.metadata, name)
        return repo_changes.branch_tip(info, name)

    def protect_branch(self, name: str, by: str | None) -> None:
        self.update(lambda info: repo_changes.protect_branch(info, name, by))

    def unprotect_branch(self, name: str) -> None:
        self.update(lambda info: repo_changes.unprotect_branch(info, name))

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        validate_name(name)
        self.update(lambda info: repo_changes.create_tag(info, name, snapshot_id))

    def delete_tag(self, name: str) -> None:
        self.update(lambda info: repo_changes.delete_tag(info, name))

    # History

    def lookup_snapshot(self, id: SnapshotId) -> SnapshotInfo:
        return repo_changes.snapshot_info(self._file.read(), id)

    def resolve_ancestry(
        self, branch: str | None, tag: str | None = None, snapshot_id: str | None = None
    ) -> Iterator[SnapshotInfo]:
        refuse_unless_one(branch, tag, snapshot_id)
        info = self._file.read()
        return _follow(info, _resolve(info, branch, tag, snapshot_id))

    def ancestry(self, id: SnapshotId) -> Iterator[SnapshotInfo]:
        return _follow(self._file.read(), id)

    def commit(
        self,
        branch: str,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
        objects: Sequence[Object] = (),
        earlier: Sequence[Snapshot] = (),
    ) -> None:
        chain = [*earlier, snapshot]
        parents = [parent_id, *(each.id for each in earlier)]
        entries = list(map(_describe, chain, parents))
        self._add(lambda info: repo_changes.commit(info, branch, entries), sources, objects)

    def amend(
        self,
        branch: str,
        snapshot: Snapshot,
        replaced: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
        objects: Sequence[Object] = (),
    ) -> None:
        entry = _describe(snapshot)
        self._add(lambda info: repo_changes.amend(info, branch, entry, replaced), sources, objects)

    def squash(
        self, branch: str, snapshot: Snapshot, replaced: Replaced, objects: Sequence[Object] = ()
    ) -> None:
        entry = replace(_describe(snapshot), pruned_ancestor_tx_logs=replaced.lost_logs)
        since, tip = replaced.since, replaced.tip
        self.update(lambda info: repo_changes.squash(info, branch, entry, since, tip), objects)

    def register(
        self,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
        objects: Sequence[Object] = (),
    ) -> None:
        entry = _describe(snapshot, parent_id)
        self._add(lambda info: repo_changes.register(info, entry, parent_id), sources, objects)

    def _add(
        self,
        change: Callable[[RepoInfo], Change],
        sources: Set[SnapshotId],
        objects: Sequence[Object],
    ) -> None:
        """Apply a change that adds a snapshot; raises SnapshotNotFoundError if a source is gone."""
        self.update(lambda info: repo_changes.with_sources(info, change, sources), objects)

    # State

    def refuse_unless_writable(self) -> None:
        repo_changes.refuse_unless_online(self._file.read())

    def resolve_to_write(self, branch: str) -> SnapshotId:
        info = self._file.read()
        repo_changes.refuse_unless_online(info)
        return repo_changes.branch_tip(info, branch)

    def resolve_to_move(self, branch: str) -> SnapshotId:
        info = self._file.read()
        repo_changes.refuse_unless_online(info)
        repo_changes.refuse_unless_enabled(info, repo_changes.MOVE_NODE)
        return repo_changes.branch_tip(info, branch)

    def read_config(self, *, again: bool = True) -> dict[str, JsonValue] | None:
        known = None if again else self._file.known
        config = (known or self._file.read()).config
        if config is None:
            return None
        tree = config.get()
        if not isinstance(tree, dict):
            raise FormatError("repo: the configuration is not a map", kind="config-deserialization")
        return deepcopy(tree)

    def write_config(self, config: Mapping[str, JsonValue]) -> None:
        # The last writer of a configuration wins, as in the official library.
        self.update(lambda info: repo_changes.set_config(info, config))

    def update_metadata(
        self, change: Callable[[Mapping[str, JsonValue]], Mapping[str, JsonValue]]
    ) -> Mapping[str, JsonValue]:
        return self.update(lambda info: repo_changes.change_metadata(info, change)).metadata

    def set_status(self, status: RepoStatus) -> None:
        # Not through `update`: a read-only repository must be able to go online again.
        self._file.update(lambda info: repo_changes.set_status(info, status))

    def set_feature_flag(self, id: int, setting: bool | None) -> None:
        self.update(lambda info: repo_changes.set_feature_flag(info, id, setting))


def create_v2(
    assets: Assets, config: Mapping[str, JsonValue] | None, policy: UpdatePolicy
) -> V2Protocol:
    """Create a repository with one empty snapshot; raises ConflictError if there is one."""
    file = RepoFile(assets, policy)
    # Never overwrite the first snapshot of an existing repository.
    if file.exists():
        raise already_created()
    first = Snapshot(
        FIRST_SNAPSHOT_ID,
        None,
        read_clock(),
        "Repository initialized",
        Metadata({"__icechunk": _IS_ROOT}),
    )
    log = assets.encode_transaction_log(TransactionLog(first.id))
    assets.storage.put_many([assets.encode_snapshot(first), *log])
    file.create(_first_repo_info(first, config))
    protocol = V2Protocol(assets, policy)
    protocol._file.remember(file)
    return protocol


def _first_repo_info(first: Snapshot, config: Mapping[str, JsonValue] | None) -> RepoInfo:
    now = read_clock()
    return RepoInfo(
        branches={MAIN: first.id},
        tags={},
        deleted_tags=frozenset(),
        snapshots={first.id: _describe(first)},
        status=RepoStatus(set_at=now),
        latest_updates=(Update(RepoInitialized(), now),),
        config=None if config is None else Value(dict(config)),
    )


def _follow(info: RepoInfo, id: SnapshotId) -> Iterator[SnapshotInfo]:
    repo_changes.snapshot_info(info, id)  # which raises at once if there is none
    return walk_ancestors(info.snapshots, id)


def _resolve(
    info: RepoInfo, branch: str | None, tag: str | None, snapshot_id: str | None
) -> SnapshotId:
    """Return the snapshot that one of the arguments names."""
    refuse_unless_one(branch, tag, snapshot_id)
    if branch is not None:
        return repo_changes.branch_tip(info, branch)
    if tag is not None:
        return repo_changes.tagged_snapshot(info, tag)
    assert snapshot_id is not None
    return repo_changes.snapshot_info(info, parse_id(SnapshotId, snapshot_id)).id


def _change_online(info: RepoInfo, change: Callable[[RepoInfo], Change]) -> Change:
    repo_changes.refuse_unless_online(info)
    return change(info)


def _describe(snapshot: Snapshot, parent_id: SnapshotId | None = None) -> SnapshotInfo:
    """Return the history entry of a snapshot."""
    return SnapshotInfo(
        id=snapshot.id,
        parent_id=parent_id,
        flushed_at=snapshot.flushed_at // MICROSECOND * MICROSECOND,
        message=snapshot.message,
        metadata=snapshot.metadata,
    )
