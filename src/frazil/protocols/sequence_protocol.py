"""Commit protocol of the draft and the alphas: create the next file of a branch's sequence.

Only one writer can create it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cache

from frazil.errors import InvalidInputError, ObjectExistsError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId, decode_sequence, encode_base32, encode_sequence
from frazil.format.metadata import JsonValue
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Snapshot
from frazil.format.text_files import Ref, encode_ref
from frazil.lazy import dataclass
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import MAIN, read_clock
from frazil.protocols.v1_protocol import (
    ALPHA_FOLDERS,
    DRAFT_FILES,
    BranchFiles,
    FileProtocol,
    RecordedHistory,
    RefSpelling,
    TagFiles,
    Tip,
    decode_ref_file,
    delete_files,
    describe_snapshot,
    find_object,
    follow_parents,
    read_snapshot_anew,
)
from frazil.storage.interface import Storage

_ENDING = ".json"
_LONG_WIDTH = 13
_NAME = re.compile(r"([0-9A-HJKMNP-TV-Z]{8}|[0-9A-HJKMNP-TV-Z]{13})\.json")


@dataclass(frozen=True, slots=True)
class BranchLayout:
    """Key layout of branches: the prefix before the branch name."""

    starts: tuple[str, ...]
    """Key prefixes; new branches use the first."""
    reserved: "re.Pattern[str]"
    """Branch names that are not allowed."""


ALPHA_BRANCHES = BranchLayout(("refs/branch.", "refs/branch:"), re.compile(r"(?!)"))
# In the draft, tags are files next to the folders of branches.
DRAFT_BRANCHES = BranchLayout(("r/",), re.compile(r"\.{0,2}|.*\.json", re.DOTALL))


@dataclass(frozen=True, slots=True)
class SequenceFile:
    """One file of a branch's sequence."""

    folder: str
    number: int
    width: int
    """Length of the number in the file name, in characters."""

    @classmethod
    def find(cls, key: str) -> "SequenceFile | None":
        """Parse the key of a sequence file; returns None for other keys."""
        folder, _, name = key.rpartition("/")
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        file = cls(folder, decode_sequence(match[1]), len(match[1]))
        return file if file.key == key else None

    @property
    def key(self) -> str:
        """Key of the file."""
        name = (
            _long_name(self.number) if self.width == _LONG_WIDTH else encode_sequence(self.number)
        )
        return f"{self.folder}/{name}{_ENDING}"

    @property
    def next(self) -> "SequenceFile":
        """File that the next move creates."""
        return SequenceFile(self.folder, self.number + 1, self.width)


class SequencedBranches(BranchFiles[SequenceFile]):
    """Branches as sequences of files."""

    def __init__(
        self, storage: Storage, layout: BranchLayout, make_ref: Callable[[SnapshotId], Ref]
    ) -> None:
        self._storage = storage
        self._layout = layout
        self._make_ref = make_ref
        self._spelling = RefSpelling(storage.has_encoded_names)

    def list_names(self) -> Set[str]:
        return {
            self._spelling.read(file.folder.removeprefix(start))
            for start in self._layout.starts
            for file in self._list_files(start)
            if "/" not in file.folder.removeprefix(start)
        }

    def find(self, name: str) -> Tip[SequenceFile] | None:
        files = self._find_files(name)
        return self._read(files[-1]) if files else None

    def find_first(self, name: str) -> SnapshotId | None:
        """Return the first snapshot a branch pointed to, or None if the branch does not exist."""
        files = self._find_files(name)
        tip = self._read(files[0]) if files else None
        return None if tip is None else tip.snapshot_id

    def create(self, name: str, snapshot_id: SnapshotId) -> bool:
        return self._write(SequenceFile(self._folders(name)[0], 0, 8), snapshot_id)

    def move(self, tip: Tip[SequenceFile], snapshot_id: SnapshotId) -> bool:
        return self._write(tip.at.next, snapshot_id)

    def delete(self, name: str) -> None:
        *older, newest = self._find_files(name)
        # The newest file last: a partially deleted branch still has its tip.
        if older:
            delete_files(self._storage, [file.key for file in older])
        delete_files(self._storage, [newest.key])

    def _read(self, file: SequenceFile) -> Tip[SequenceFile] | None:
        data = find_object(self._storage, file.key)
        # Deleted since it was listed.
        if data is None:
            return None
        return Tip(decode_ref_file(file.key, data).snapshot_id, file)

    def _write(self, file: SequenceFile, snapshot_id: SnapshotId) -> bool:
        try:
            self._storage.create(file.key, encode_ref(self._make_ref(snapshot_id)))
        except ObjectExistsError:
            return False
        return True

    def _find_files(self, name: str) -> list[SequenceFile]:
        """Return all files of a branch, oldest first; empty if the branch does not exist."""
        for folder in self._folders(name):
            files = [file for file in self._list_files(f"{folder}/") if file.folder == folder]
            if files:
                return sorted(files, key=lambda file: file.number)
        return []

    def _list_files(self, prefix: str) -> Iterator[SequenceFile]:
        files = (SequenceFile.find(info.key) for info in self._storage.list(prefix))
        return (file for file in files if file is not None)

    def _folders(self, name: str) -> list[str]:
        if self._layout.reserved.fullmatch(name):
            raise InvalidInputError(
                f"invalid branch name {name!r} for a repository of this generation",
                kind="invalid-ref-name",
            )
        spellings = self._spelling.spell(name)
        return [start + spelled for start in self._layout.starts for spelled in spellings]


def _long_name(number: int) -> str:
    return encode_base32((2**64 - 1 - number).to_bytes(8, "big"))


_WITHOUT_CONFIG = frozenset((Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B))
_WITHOUT_TOMBSTONES = frozenset(Dialect) - {Dialect.ALPHA_H, Dialect.V1, Dialect.V2}


class SequenceProtocol(FileProtocol[SequenceFile]):
    """Commit protocol of draft and alpha repositories."""

    def __init__(self, assets: Assets) -> None:
        storage, is_draft = assets.storage, assets.dialect is Dialect.DRAFT
        make_ref = make_timed_ref if is_draft else Ref
        branches = SequencedBranches(
            storage, DRAFT_BRANCHES if is_draft else ALPHA_BRANCHES, make_ref
        )
        tags = TagFiles(storage, DRAFT_FILES if is_draft else ALPHA_FOLDERS)
        super().__init__(assets, branches, tags, make_ref)
        self._sequences = branches

    def at(self, assets: Assets) -> "SequenceProtocol":
        return SequenceProtocol(assets)

    def begin(self, first: SnapshotId, tip: SnapshotId | None = None) -> None:
        # The first file of `main` leads to the first snapshot.
        super().begin(first)
        if tip not in (None, first):
            self.reset_branch(MAIN, tip, first)

    def delete_tag(self, name: str) -> None:
        if self.dialect in _WITHOUT_TOMBSTONES:
            raise self.unsupported("deleted tags")
        super().delete_tag(name)

    # History

    def lookup_snapshot(self, id: SnapshotId) -> SnapshotInfo:
        snapshot = read_snapshot_anew(self.assets, id)
        if snapshot.history is None:
            return describe_snapshot(snapshot)
        return self._recorded_history().describe(snapshot, snapshot.history)

    def ancestries(self, ids: Iterable[SnapshotId]) -> Iterator[Iterator[SnapshotInfo]]:
        lookup = cache(self.lookup_snapshot)
        return (self._follow(read_snapshot_anew(self.assets, id), lookup) for id in ids)

    def _follow(
        self, snapshot: Snapshot, lookup: Callable[[SnapshotId], SnapshotInfo]
    ) -> Iterator[SnapshotInfo]:
        if snapshot.history is None:
            return follow_parents(lookup, describe_snapshot(snapshot))
        return self._recorded_history().follow(snapshot, snapshot.history)

    def _recorded_history(self) -> RecordedHistory:
        return RecordedHistory(self.assets, lambda: self._sequences.find_first(MAIN))

    # Configuration

    def read_config(self, *, again: bool = True) -> dict[str, JsonValue] | None:
        return None if self.dialect in _WITHOUT_CONFIG else super().read_config(again=again)

    def write_config(self, config: Mapping[str, JsonValue]) -> None:
        if self.dialect in _WITHOUT_CONFIG:
            raise self.unsupported("saved configuration")
        super().write_config(config)


def make_timed_ref(snapshot_id: SnapshotId) -> Ref:
    """Return a ref of the draft, with the current time."""
    return Ref(snapshot_id, timestamp=read_clock())
