"""V2: refs, history and state are one object, `repo`, and every operation replaces it."""

from collections.abc import Callable, Iterator, Mapping, Set
from copy import deepcopy
from dataclasses import replace
from functools import partial

from frazil.assets import Assets
from frazil.errors import FormatError, SessionStateError
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.metadata import Metadata, Value
from frazil.format.repo_info import (
    RepoInfo,
    RepoInitialized,
    RepoStatus,
    SnapshotInfo,
    Update,
)
from frazil.format.snapshot import Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.protocols import repo_changes
from frazil.protocols.clock import MICROSECOND, read_clock
from frazil.protocols.interface import MAIN, NO_SOURCES, CommitProtocol, Replaced, UpdatePolicy
from frazil.protocols.protection import refuse_protected
from frazil.protocols.ref_names import validate_name
from frazil.protocols.repo_changes import Change
from frazil.protocols.repo_file import RepoFile, already_created


class RepoObject(CommitProtocol):
    """A V2 repository."""

    def __init__(self, assets: Assets, policy: UpdatePolicy) -> None:
        super().__init__(assets)
        self._file = RepoFile(assets, policy)

    def reopen(self, assets: Assets, policy: UpdatePolicy) -> "RepoObject":
        other = RepoObject(assets, policy)
        other._file.remember(self._file)
        return other

    def read_repo_info(self) -> RepoInfo:
        return self._file.read()

    def update(self, change: Callable[[RepoInfo], Change]) -> RepoInfo:
        """Apply a pure change, again where a race was lost; gives the repo info that was written.

        Raises ReadOnlyError unless the repository is online, ConflictError kind
        `update-attempts-exhausted` where others are always faster, and whatever the change raises.
        """
        return self._file.update(partial(_change_online, change=change))

    def ops_log(self) -> Iterator[Update]:
        return self._file.read_log()

    # Refs

    def list_branches(self) -> Set[str]:
        return set(self._file.read().branches)

    def list_tags(self) -> Set[str]:
        return set(self._file.read().tags)

    def lookup_branch(self, name: str) -> SnapshotId:
        return repo_changes.branch_tip(self._file.read(), name)

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

    def ancestry(self, id: SnapshotId) -> Iterator[SnapshotInfo]:
        info = self._file.read()
        return _walk(info.snapshots, repo_changes.snapshot_info(info, id))

    def commit(
        self,
        branch: str,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
    ) -> None:
        entry = _describe(snapshot)
        self._add(lambda info: repo_changes.commit(info, branch, entry, parent_id), sources)

    def amend(
        self,
        branch: str,
        snapshot: Snapshot,
        replaced: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
    ) -> None:
        entry = _describe(snapshot)
        self._add(lambda info: repo_changes.amend(info, branch, entry, replaced), sources)

    def squash(self, branch: str, snapshot: Snapshot, replaced: Replaced) -> None:
        entry = replace(_describe(snapshot), pruned_ancestor_tx_logs=replaced.lost_logs)
        since, tip = replaced.since, replaced.tip
        self.update(lambda info: repo_changes.squash(info, branch, entry, since, tip))

    def register(
        self, snapshot: Snapshot, parent_id: SnapshotId, sources: Set[SnapshotId] = NO_SOURCES
    ) -> None:
        entry = _describe(snapshot)
        self._add(lambda info: repo_changes.register(info, entry, parent_id), sources)

    def _add(self, change: Callable[[RepoInfo], Change], sources: Set[SnapshotId]) -> None:
        """Apply a change that adds a snapshot, unless chunks of it may be deleted."""
        self.update(lambda info: repo_changes.with_sources(info, change, sources))

    # State

    def refuse_unless_writable(self) -> None:
        repo_changes.refuse_unless_online(self._file.read())

    def read_config(self) -> dict[str, JsonValue] | None:
        config = self._file.read().config
        if config is None:
            return None
        tree = config.get()
        if not isinstance(tree, dict):
            raise FormatError("repo: the configuration is no map", kind="config-deserialization")
        return deepcopy(tree)

    def write_config(self, config: Mapping[str, JsonValue]) -> None:
        # Of two who save a configuration the later one wins, as in the official library.
        self.update(lambda info: repo_changes.set_config(info, config))

    def update_metadata(
        self, change: Callable[[Mapping[str, JsonValue]], Mapping[str, JsonValue]]
    ) -> Mapping[str, JsonValue]:
        return self.update(lambda info: repo_changes.change_metadata(info, change)).metadata

    def set_status(self, status: RepoStatus) -> None:
        # Not through `update`: a read-only repository must be able to come online again.
        self._file.update(lambda info: repo_changes.set_status(info, status))

    def set_feature_flag(self, id: int, setting: bool | None) -> None:
        self.update(lambda info: repo_changes.set_feature_flag(info, id, setting))


def create_v2(
    assets: Assets, config: Mapping[str, JsonValue] | None, policy: UpdatePolicy
) -> RepoObject:
    """Make a repository of one empty snapshot; ConflictError where one is or comes in between."""
    file = RepoFile(assets, policy)
    # Who finds a repository must not touch the first snapshot that it has.
    if file.exists():
        raise already_created()
    first = Snapshot(
        FIRST_SNAPSHOT_ID,
        None,
        read_clock(),
        "Repository initialized",
        Metadata({"__icechunk": {"is_root": True}}),
    )
    assets.write_snapshot(first)
    assets.write_transaction_log(TransactionLog(first.id))
    file.create(_first_repo_info(first, config))
    return RepoObject(assets, policy)


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


def _change_online(info: RepoInfo, change: Callable[[RepoInfo], Change]) -> Change:
    repo_changes.refuse_unless_online(info)
    return change(info)


def _describe(snapshot: Snapshot) -> SnapshotInfo:
    """A snapshot as the history lists it; its parent is entered with it."""
    return SnapshotInfo(
        id=snapshot.id,
        parent_id=None,
        flushed_at=snapshot.flushed_at // MICROSECOND * MICROSECOND,
        message=snapshot.message,
        metadata=snapshot.metadata,
    )


def _walk(
    snapshots: Mapping[SnapshotId, SnapshotInfo], start: SnapshotInfo
) -> Iterator[SnapshotInfo]:
    current: SnapshotInfo | None = start
    while current is not None:
        yield current
        current = None if current.parent_id is None else snapshots[current.parent_id]
