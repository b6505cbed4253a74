"""What the generations before V2 have in common: refs are files, and so is the history."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cache
from typing import Generic, TypeVar

from frazil.assets import Assets
from frazil.errors import (
    ConflictError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.refs import Ref
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Snapshot
from frazil.protocols.branch_files import BranchFiles, Tip
from frazil.protocols.config_file import ConfigFile
from frazil.protocols.interface import (
    MAIN,
    NO_SOURCES,
    CommitProtocol,
    Replaced,
    UpdatePolicy,
    lost_source,
)
from frazil.protocols.snapshot_infos import (
    describe_snapshot,
    follow_parents,
    read_snapshot_anew,
)
from frazil.protocols.tag_files import TagFiles

At = TypeVar("At")


class FileProtocol(CommitProtocol, Generic[At]):
    """Branches, tags and the configuration in files of their own.

    A second branch of a name is a ConflictError, and so is a commit to a branch that is gone: to the
    official library both are a branch that is not where it was expected. Where parents matter, and
    whether a snapshot is there, files are read anew: others rewrite and delete them.
    """

    def __init__(
        self,
        assets: Assets,
        branches: BranchFiles[At],
        tags: TagFiles,
        make_ref: Callable[[SnapshotId], Ref] = Ref,
    ) -> None:
        super().__init__(assets)
        self._make_ref = make_ref
        self._branches = branches
        self._tags = tags
        self._config = ConfigFile(assets.storage)

    def reopen(self, assets: Assets, policy: UpdatePolicy) -> "FileProtocol[At]":
        other = self._on(assets)
        other._config = self._config
        return other

    @abstractmethod
    def _on(self, assets: Assets) -> "FileProtocol[At]":
        """A protocol of the same kind."""

    # Creation

    def refuse_if_begun(self) -> None:
        """Raise ConflictError where `main` is."""
        if self._branches.find(MAIN) is not None:
            raise self._update_conflict(MAIN, None)

    def begin(self, first: SnapshotId) -> None:
        """Let `main` point to the first snapshot; ConflictError where somebody else just did that."""
        if not self._branches.create(MAIN, first):
            raise self._update_conflict(MAIN, None)

    # Refs

    def list_branches(self) -> Set[str]:
        return self._branches.list_names()

    def list_tags(self) -> Set[str]:
        return self._tags.list_names()

    def list_deleted_tags(self) -> Mapping[str, SnapshotId]:
        """The tags that were deleted, whose names stay taken, and where they pointed."""
        return self._tags.list_deleted()

    def lookup_branch(self, name: str) -> SnapshotId:
        return self._require_branch(name).snapshot_id

    def lookup_tag(self, name: str) -> SnapshotId:
        return self._tags.lookup(name)

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        read_snapshot_anew(self.assets, snapshot_id)
        tip = self._branches.find(name)
        if tip is not None or not self._branches.create(name, snapshot_id):
            raise self._update_conflict(name, None)

    def delete_branch(self, name: str) -> None:
        if name == MAIN:
            raise SessionStateError(f"{MAIN} branch cannot be deleted", kind="cannot-delete-main")
        self._require_branch(name)
        self._branches.delete(name)

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None = None
    ) -> None:
        read_snapshot_anew(self.assets, snapshot_id)
        tip = self._require_branch(name) if expected is None else self._branches.find(name)
        is_expected = tip is not None and expected in (None, tip.snapshot_id)
        if tip is None or not is_expected or not self._branches.move(tip, snapshot_id):
            raise self._update_conflict(name, expected)

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        read_snapshot_anew(self.assets, snapshot_id)
        self._tags.create(name, self._make_ref(snapshot_id))

    def delete_tag(self, name: str) -> None:
        self._tags.delete(name)

    def _require_branch(self, name: str) -> Tip[At]:
        tip = self._branches.find(name)
        if tip is None:
            raise RefNotFoundError(f"ref not found `{name}`: there is no such branch")
        return tip

    # History

    def lookup_snapshot(self, id: SnapshotId) -> SnapshotInfo:
        return describe_snapshot(read_snapshot_anew(self.assets, id))

    def ancestry(self, id: SnapshotId) -> Iterator[SnapshotInfo]:
        return next(self.ancestries([id]))

    def ancestries(self, ids: Iterable[SnapshotId]) -> Iterator[Iterator[SnapshotInfo]]:
        lookup = cache(self.lookup_snapshot)
        return (follow_parents(lookup, lookup(id)) for id in ids)

    def commit(
        self,
        branch: str,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
    ) -> None:
        self._refuse_lost(sources)
        self._move_on(branch, snapshot.id, parent_id)
        try:
            # Who collects garbage looks at the branches again after snapshots were deleted: either
            # this commit is seen then, or it sees now what is gone.
            self._refuse_lost(sources)
        except SnapshotNotFoundError:
            self._move_back(branch, snapshot.id, parent_id)
            raise

    def _move_on(self, branch: str, id: SnapshotId, parent_id: SnapshotId) -> None:
        tip = self._branches.find(branch)
        is_parent = tip is not None and tip.snapshot_id == parent_id
        if tip is None or not is_parent or not self._branches.move(tip, id):
            actual = self._find_actual(branch)
            raise ConflictError(
                addition=f"the tip of {branch!r} is {actual}, not the parent {parent_id}",
                expected_parent=str(parent_id),
                actual_parent=actual,
            )

    def _move_back(self, branch: str, id: SnapshotId, parent_id: SnapshotId) -> None:
        tip = self._branches.find(branch)
        if tip is not None and tip.snapshot_id == id:
            self._branches.move(tip, parent_id)

    def _refuse_lost(self, sources: Set[SnapshotId]) -> None:
        for id in sorted(sources):
            try:
                read_snapshot_anew(self.assets, id)
            except SnapshotNotFoundError as error:
                raise lost_source(id) from error

    def squash(self, branch: str, snapshot: Snapshot, replaced: Replaced) -> None:
        self.reset_branch(branch, snapshot.id, replaced.tip)

    def register(
        self, snapshot: Snapshot, parent_id: SnapshotId, sources: Set[SnapshotId] = NO_SOURCES
    ) -> None:
        """Nothing to write: a snapshot's file is all that is known of it."""
        self._refuse_lost({parent_id, *sources})

    # Configuration

    def read_config(self) -> dict[str, JsonValue] | None:
        return self._config.find()

    def write_config(self, config: Mapping[str, JsonValue]) -> None:
        self._config.write(config)

    # Errors

    def _update_conflict(self, name: str, expected: SnapshotId | None) -> ConflictError:
        actual = self._find_actual(name)
        return ConflictError(
            addition=f"the tip of {name!r} is {actual}, where {expected} was expected",
            expected_parent=None if expected is None else str(expected),
            actual_parent=actual,
            kind="branch-update-conflict",
        )

    def _find_actual(self, name: str) -> str | None:
        tip = self._branches.find(name)
        return None if tip is None else str(tip.snapshot_id)
