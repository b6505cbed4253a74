"""Commit protocol of V1, and what all generations before V2 share: refs and history in files.

V1 replaces the branch file with a compare-and-swap, and writes tag files once.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from typing import Generic, TypeVar
from urllib.parse import quote, unquote

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    ObjectExistsError,
    ObjectNotFoundError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
    VersionMismatchError,
)
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import NO_METADATA, JsonValue, Nanoseconds
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.format.text_files import (
    Ref,
    decode_config_yaml,
    decode_ref,
    encode_config_yaml,
    encode_ref,
)
from frazil.lazy import dataclass
from frazil.protocols.assets import Assets, Object, new_snapshot_id
from frazil.protocols.protocol import (
    MAIN,
    NO_SOURCES,
    CommitProtocol,
    Replaced,
    UpdatePolicy,
    lost_source,
    validate_folder_name,
)
from frazil.storage.interface import Buffer, Storage, Version, Versioned

At = TypeVar("At")


@dataclass(frozen=True, slots=True)
class Tip(Generic[At]):
    """Tip of a branch, with the file state that a conditional move expects."""

    snapshot_id: SnapshotId
    at: At


class BranchFiles(ABC, Generic[At]):
    """Branches of a repository as files. Each move has exactly one winner."""

    @abstractmethod
    def list_names(self) -> Set[str]:
        """Return the names of all branches."""

    @abstractmethod
    def find(self, name: str) -> Tip[At] | None:
        """Return the tip of a branch, or None if it does not exist."""

    @abstractmethod
    def create(self, name: str, snapshot_id: SnapshotId) -> bool:
        """Create a branch; returns False if another writer created it first."""

    @abstractmethod
    def move(self, tip: Tip[At], snapshot_id: SnapshotId) -> bool:
        """Move a branch to a snapshot; returns False if its tip has changed."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete an existing branch."""


_PLAIN = " !$&'()+,:;=@"
"""Characters that are not percent-encoded, besides letters, digits and `_.-`."""


@dataclass(frozen=True, slots=True)
class RefSpelling:
    """Spelling of ref names in the keys of a storage."""

    is_encoded: bool

    def spell(self, name: str) -> tuple[str, ...]:
        """Return all spellings of a name, the one to write first; raises InvalidInputError."""
        encoded = encode_name(validate_folder_name(name))
        both = (encoded, name) if self.is_encoded else (name, encoded)
        # A key can't contain a zero byte.
        return tuple(dict.fromkeys(each for each in both if "\0" not in each))

    def read(self, spelled: str) -> str:
        """Return the name that a spelling stands for."""
        name = unquote(spelled)
        return name if self.is_encoded and encode_name(name) == spelled else spelled


def encode_name(name: str) -> str:
    """Return a name with its unusual characters percent-encoded."""
    return quote(name, safe=_PLAIN).replace("~", "%7E")


def find_object(storage: Storage, key: str) -> Buffer | None:
    """Return the bytes of an object, or None if it does not exist."""
    try:
        return storage.get(key)
    except ObjectNotFoundError:
        return None


def decode_ref_file(key: str, data: Buffer) -> Ref:
    """Decode a ref file; raises FormatError that names the file."""
    try:
        return decode_ref(bytes(data))
    except FormatError as error:
        raise FormatError(f"{key}: {error.message}", kind="serialization") from error


_TOMBSTONE = ".deleted"


@dataclass(frozen=True, slots=True)
class TagLayout:
    """Key layout of tags: a prefix and a suffix around the name."""

    starts: tuple[str, ...]
    """Key prefixes; new tags use the first."""
    ending: str


FOLDERS = TagLayout(("refs/tag.",), "/ref.json")
ALPHA_FOLDERS = TagLayout(("refs/tag.", "refs/tag:"), "/ref.json")
DRAFT_FILES = TagLayout(("r/",), ".json")


class TagFiles:
    """Tags of a repository as files."""

    def __init__(self, storage: Storage, layout: TagLayout) -> None:
        self._storage = storage
        self._layout = layout
        self._spelling = RefSpelling(storage.has_encoded_names)

    def list_names(self) -> Set[str]:
        """Return the names of all tags, without deleted ones."""
        names, deleted = self._list()
        return names - deleted

    def list_deleted(self) -> dict[str, SnapshotId]:
        """Return the deleted tags, with the snapshots they pointed to."""
        names, deleted = self._list()
        found = {}
        for name in names & deleted:
            key = self.require(name)
            found[name] = decode_ref_file(key, self._storage.get(key)).snapshot_id
        return found

    def _list(self) -> tuple[set[str], set[str]]:
        """Return the names of all tags, and of those that have a tombstone."""
        names: set[str] = set()
        deleted: set[str] = set()
        for start in self._layout.starts:
            for info in self._storage.list(start):
                rest = info.key.removeprefix(start)
                is_deleted = rest.endswith(_TOMBSTONE)
                spelled = self._strip(rest.removesuffix(_TOMBSTONE) if is_deleted else rest)
                if spelled is not None:
                    (deleted if is_deleted else names).add(self._spelling.read(spelled))
        return names, deleted

    def lookup(self, name: str) -> SnapshotId:
        """Return the snapshot of a tag; raises RefNotFoundError, also for a deleted tag."""
        for key in self._keys(name):
            data = find_object(self._storage, key)
            if data is not None:
                if find_object(self._storage, key + _TOMBSTONE) is not None:
                    break
                return decode_ref_file(key, data).snapshot_id
        raise RefNotFoundError(f"ref not found `{name}`: there is no such tag")

    def create(self, name: str, ref: Ref) -> None:
        """Create a tag; raises AlreadyExistsError, also for the name of a deleted tag."""
        key, *others = self._keys(name)
        taken = AlreadyExistsError(
            f"tag already exists, tags are immutable: `{name}` exists or existed",
            kind="tag-already-exists",
        )
        if any(find_object(self._storage, other) is not None for other in others):
            raise taken
        try:
            self._storage.create(key, encode_ref(ref))
        except ObjectExistsError:
            raise taken from None

    def delete(self, name: str) -> None:
        """Write the tombstone of a tag; raises RefNotFoundError, also for a deleted tag."""
        key = self.require(name)
        try:
            self._storage.create(key + _TOMBSTONE, b"")
        except ObjectExistsError:
            raise RefNotFoundError(f"ref not found `{name}`: there is no such tag") from None

    def require(self, name: str) -> str:
        """Return the key of a tag, deleted or not; raises RefNotFoundError."""
        for key in self._keys(name):
            if find_object(self._storage, key) is not None:
                return key
        raise RefNotFoundError(f"ref not found `{name}`: there is no such tag")

    def _keys(self, name: str) -> list[str]:
        return [
            start + spelled + self._layout.ending
            for start in self._layout.starts
            for spelled in self._spelling.spell(name)
        ]

    def _strip(self, rest: str) -> str | None:
        """Return the spelled name of a tag from the rest of its key, or None for another file."""
        spelled = rest.removesuffix(self._layout.ending)
        return None if spelled == rest or "/" in spelled else spelled


KEY = "config.yaml"

# Backups count down to the year 3000, so that the newest sorts first.
_END_OF_COUNTDOWN_MS = 32_503_680_000_000


class ConfigFile:
    """The file `config.yaml`. Remembers the version that was read, for the conditional write."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._is_known = False
        self._version: Version | None = None

    def find(self) -> dict[str, JsonValue] | None:
        """Return the saved configuration as a tree, or None."""
        found = self._find()
        self._remember(None if found is None else found.version)
        return None if found is None else decode_config_yaml(bytes(found.data))

    def write(self, config: Mapping[str, JsonValue]) -> None:
        """Save the configuration; raises ConflictError if it has changed since it was read."""
        if not self._is_known:
            found = self._find()
            self._remember(None if found is None else found.version)
        data = encode_config_yaml(config)
        try:
            self._remember(self._put(data))
        except (ObjectExistsError, VersionMismatchError) as error:
            raise ConflictError(
                message=f"{KEY} was saved by somebody else since it was read", kind="config-updated"
            ) from error

    def _find(self) -> Versioned | None:
        try:
            return self._storage.get_versioned(KEY)
        except ObjectNotFoundError:
            return None

    def _put(self, data: Buffer) -> Version:
        if self._version is None:
            return self._storage.create(KEY, data)
        self._storage.copy(KEY, _backup_key(), self._version)
        return self._storage.replace(KEY, data, self._version)

    def _remember(self, version: Version | None) -> None:
        self._is_known = True
        self._version = version


def _backup_key() -> str:
    countdown = _END_OF_COUNTDOWN_MS - time.time_ns() // 10**6
    return f"overwritten/{KEY}.{countdown:014}.{new_snapshot_id(Dialect.V1)}"


class SnapshotFileNotFoundError(SnapshotNotFoundError, ObjectNotFoundError):
    """A snapshot file does not exist: officially a storage error, for callers an unknown snapshot."""

    default_kind = ObjectNotFoundError.default_kind


def read_snapshot(assets: Assets, id: SnapshotId) -> Snapshot:
    """Read a snapshot; raises SnapshotFileNotFoundError."""
    try:
        return assets.read_snapshot(id)
    except ObjectNotFoundError as error:
        raise SnapshotFileNotFoundError(f"snapshot not found: `{id}`") from error


def read_snapshot_anew(assets: Assets, id: SnapshotId) -> Snapshot:
    """Read a snapshot past the cache; raises SnapshotFileNotFoundError, also for a collected one."""
    try:
        return assets.read_snapshot_file_anew(id).value
    except ObjectNotFoundError as error:
        raise SnapshotFileNotFoundError(f"snapshot not found: `{id}`") from error


def describe_snapshot(snapshot: Snapshot) -> SnapshotInfo:
    """Return the history entry of a snapshot."""
    return SnapshotInfo(
        id=snapshot.id,
        parent_id=snapshot.parent_id,
        flushed_at=snapshot.flushed_at,
        message=snapshot.message,
        metadata=snapshot.metadata,
    )


def follow_parents(
    lookup: Callable[[SnapshotId], SnapshotInfo], info: SnapshotInfo
) -> Iterator[SnapshotInfo]:
    """Yield a snapshot and its ancestors, newest first, by the parent ids in their files."""
    yield info
    while info.parent_id is not None:
        info = lookup(info.parent_id)
        yield info


class FileProtocol(CommitProtocol, Generic[At]):
    """Commit protocol with branches, tags and the configuration in separate files.

    Creating an existing branch is a ConflictError, and so is a commit to a branch that does not exist:
    the official library treats both as a branch that is not where it was expected. Parents, and
    whether a snapshot exists, are read past the cache, because other processes rewrite and delete
    snapshot files.
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
        other = self.at(assets)
        other._config = self._config
        return other

    @abstractmethod
    def at(self, assets: Assets) -> "FileProtocol[At]": ...

    # Creation

    def refuse_if_begun(self) -> None:
        """Raise ConflictError if `main` exists."""
        if self._branches.find(MAIN) is not None:
            raise self._update_conflict(MAIN, None)

    def begin(self, first: SnapshotId, tip: SnapshotId | None = None) -> None:
        if not self._branches.create(MAIN, tip or first):
            raise self._update_conflict(MAIN, None)

    # Refs

    def list_branches(self) -> Set[str]:
        return self._branches.list_names()

    def list_tags(self) -> Set[str]:
        return self._tags.list_names()

    def list_deleted_tags(self) -> Mapping[str, SnapshotId]:
        return self._tags.list_deleted()

    def reserve_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        self._tags.create(name, self._make_ref(snapshot_id))
        self._tags.delete(name)

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
        objects: Sequence[Object] = (),
        earlier: Sequence[Snapshot] = (),
    ) -> None:
        tip = self._require_tip(branch, parent_id)
        self.assets.storage.put_many(objects)
        self._refuse_lost(sources)
        storage = self.assets.storage
        if not (storage.can_create_safely and storage.can_replace_safely):
            tip = self._require_tip(branch, parent_id)
        if not self._branches.move(tip, snapshot.id):
            raise self._commit_conflict(branch, parent_id)
        try:
            # Garbage collection reads the branches again after it has deleted snapshots: either it
            # sees this commit then, or this commit sees now that a source is gone.
            self._refuse_lost(sources)
        except SnapshotNotFoundError:
            self._move_back(branch, snapshot.id, parent_id)
            raise

    def _require_tip(self, branch: str, parent_id: SnapshotId) -> Tip[At]:
        """Return the tip of a branch, which is moved on only if nobody else has moved it."""
        tip = self._branches.find(branch)
        if tip is None or tip.snapshot_id != parent_id:
            raise self._commit_conflict(branch, parent_id)
        return tip

    def _commit_conflict(self, branch: str, parent_id: SnapshotId) -> ConflictError:
        actual = self._find_actual(branch)
        return ConflictError(
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

    def squash(
        self, branch: str, snapshot: Snapshot, replaced: Replaced, objects: Sequence[Object] = ()
    ) -> None:
        self.assets.storage.put_many(objects)
        self.reset_branch(branch, snapshot.id, replaced.tip)

    def register(
        self,
        snapshot: Snapshot,
        parent_id: SnapshotId,
        sources: Set[SnapshotId] = NO_SOURCES,
        objects: Sequence[Object] = (),
    ) -> None:
        """Write the objects and check the sources; the history is in the snapshot files."""
        self.assets.storage.put_many(objects)
        self._refuse_lost({parent_id, *sources})
        self.assets.storage.flush()

    # Configuration

    def read_config(self, *, again: bool = True) -> dict[str, JsonValue] | None:
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


def delete_files(storage: Storage, keys: Sequence[str]) -> None:
    """Delete files; raises StorageError if any of them can't be deleted."""
    failed = storage.delete_many(keys).failed
    if failed:
        reasons = "; ".join(f"{key}: {reason}" for key, reason in failed.items())
        raise StorageError(f"could not be deleted: {reasons}")


LONGEST_TEXT = 2**16 - 1
"""Maximum number of recorded ancestors (a 16-bit count); the last one's file records older ones."""


def next_history(parent: Snapshot, dialect: Dialect, started_at: Nanoseconds) -> History | None:
    """Return the history of a child of `parent`, or None if the dialect records none."""
    if not dialect.records_history:
        return None
    entries = (HistoryEntry(parent.id, parent.flushed_at, parent.message), *_ancestors(parent))
    kept = entries[:LONGEST_TEXT]
    total = parent.history.total_parents + 1 if parent.history else len(entries)
    return History(total, len(kept), kept, started_at)


def first_history(dialect: Dialect, started_at: Nanoseconds) -> History | None:
    """Return the history of a repository's first snapshot, or None if the dialect records none."""
    return History(0, 0, (), started_at) if dialect.records_history else None


def snapshot_parent_id(parent: Snapshot, dialect: Dialect) -> SnapshotId | None:
    """Return the parent id to store in a snapshot file; None in V2, where only the repo info has it."""
    return parent.id if dialect.names_parents else None


def _ancestors(parent: Snapshot) -> tuple[HistoryEntry, ...]:
    return parent.history.short_term_history if parent.history else ()


def continue_history(
    assets: Assets, parent_id: SnapshotId, started_at: Nanoseconds
) -> History | None:
    """Return the history of a child of a snapshot, from the current file of that snapshot.

    None if the dialect records no history. Raises SnapshotNotFoundError.
    """
    if not assets.dialect.records_history:
        return None
    return next_history(read_snapshot_anew(assets, parent_id), assets.dialect, started_at)


class RecordedHistory:
    """History of one repository, as its snapshots record it."""

    def __init__(self, assets: Assets, find_first: Callable[[], SnapshotId | None]) -> None:
        self._assets = assets
        self._find_first = find_first
        """Returns the id that names the first snapshot's file, or None if unknown."""

    def describe(self, snapshot: Snapshot, history: History) -> SnapshotInfo:
        """Return the history entry of a snapshot."""
        info = describe_snapshot(snapshot)
        if history.total_parents != 1 or not history.short_term_history:
            return info
        return replace(info, parent_id=self._file_id(history.short_term_history[0]))

    def follow(self, snapshot: Snapshot, history: History) -> Iterator[SnapshotInfo]:
        """Yield a snapshot and its ancestors, newest first."""
        entries = list(self._entries(snapshot, history))
        ids = [entry.id for entry in entries]
        ids[-1] = self._file_id(entries[-1])
        parents = [*ids[1:], None]
        for entry, id, parent_id in zip(entries, ids, parents, strict=True):
            found = self._find(id)
            metadata = NO_METADATA if found is None else found.metadata
            yield SnapshotInfo(id, parent_id, entry.written_at, entry.message, metadata)

    def _entries(self, snapshot: Snapshot, history: History) -> Iterator[HistoryEntry]:
        yield HistoryEntry(snapshot.id, snapshot.flushed_at, snapshot.message)
        yield from history.short_term_history
        if history.total_parents > len(history.short_term_history) > 0:
            # The record is truncated: its last snapshot's file continues it. Read that file uncached.
            last_id = history.short_term_history[-1].id
            self._assets.drop_snapshots([last_id])
            last = self._find(last_id)
            if last is not None and last.history is not None:
                _, *older = self._entries(last, last.history)
                yield from older

    def _file_id(self, entry: HistoryEntry) -> SnapshotId:
        """Return the id that names an ancestor's file; for the first it may differ from the record."""
        if self._find(entry.id) is not None:
            return entry.id
        first_id = self._find_first()
        first = None if first_id is None else self._find(first_id)
        if first is None or (first.flushed_at, first.message) != (entry.written_at, entry.message):
            return entry.id
        return first.id

    def _find(self, id: SnapshotId) -> Snapshot | None:
        try:
            return self._assets.read_snapshot(id)
        except ObjectNotFoundError:
            return None


_START = "refs/branch."
_ENDING = "/ref.json"

MAIN_KEY = f"{_START}{MAIN}{_ENDING}"
"""Key of the branch file of `main`, which every V1 repository has."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Key of a branch file and the version that was read."""

    key: str
    version: Version


class ReplacedFiles(BranchFiles[FileVersion]):
    """Branches as files replaced by conditional writes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._spelling = RefSpelling(storage.has_encoded_names)

    def list_names(self) -> Set[str]:
        keys = [info.key.removeprefix(_START) for info in self._storage.list(_START)]
        spelled = [key.removesuffix(_ENDING) for key in keys if key.endswith(_ENDING)]
        return {self._spelling.read(each) for each in spelled if "/" not in each}

    def find(self, name: str) -> Tip[FileVersion] | None:
        for key in self._keys(name):
            try:
                found = self._storage.get_versioned(key)
            except ObjectNotFoundError:
                continue
            ref = decode_ref_file(key, found.data)
            return Tip(ref.snapshot_id, FileVersion(key, found.version))
        return None

    def create(self, name: str, snapshot_id: SnapshotId) -> bool:
        try:
            self._storage.create(self._keys(name)[0], encode_ref(Ref(snapshot_id)))
        except ObjectExistsError:
            return False
        return True

    def move(self, tip: Tip[FileVersion], snapshot_id: SnapshotId) -> bool:
        data = encode_ref(Ref(snapshot_id))
        try:
            self._storage.replace(tip.at.key, data, tip.at.version)
        except VersionMismatchError:
            return False
        return True

    def delete(self, name: str) -> None:
        delete_files(self._storage, self._keys(name))

    def _keys(self, name: str) -> list[str]:
        return [_START + spelled + _ENDING for spelled in self._spelling.spell(name)]


class V1Protocol(FileProtocol[FileVersion]):
    """Commit protocol of V1 repositories."""

    def __init__(self, assets: Assets) -> None:
        storage = assets.storage
        super().__init__(assets, ReplacedFiles(storage), TagFiles(storage, FOLDERS))

    def at(self, assets: Assets) -> "V1Protocol":
        return V1Protocol(assets)
