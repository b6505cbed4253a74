"""A branch as a sequence of files, one for each move; the newest is where it points.

Names count down, so that the newest sorts first. Unreleased builds had `:` after `branch` and longer
names; a branch goes on in the form that it has.
"""

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from frazil.errors import InvalidInputError, ObjectExistsError
from frazil.format.ids import SnapshotId, decode_sequence, encode_base32, encode_sequence
from frazil.format.refs import Ref, encode_ref
from frazil.protocols.branch_files import BranchFiles, Tip
from frazil.protocols.deleting import delete_files
from frazil.protocols.reading import decode_ref_file, find_object
from frazil.protocols.ref_spelling import RefSpelling
from frazil.storage.interface import Storage

_ENDING = ".json"
_LONG_WIDTH = 13
_NAME = re.compile(r"([0-9A-HJKMNP-TV-Z]{8}|[0-9A-HJKMNP-TV-Z]{13})\.json")


@dataclass(frozen=True, slots=True)
class BranchLayout:
    """Where branches are: what stands before the name in a folder's key."""

    starts: tuple[str, ...]
    """The one to write first."""
    reserved: "re.Pattern[str]"
    """Names that a folder can't have here."""


ALPHA_BRANCHES = BranchLayout(("refs/branch.", "refs/branch:"), re.compile(r"(?!)"))
# A tag of the draft is a file beside the folders of branches.
DRAFT_BRANCHES = BranchLayout(("r/",), re.compile(r"\.{0,2}|.*\.json", re.DOTALL))


@dataclass(frozen=True, slots=True)
class SequenceFile:
    """One file of a sequence."""

    folder: str
    number: int
    width: int
    """Of the name, in characters."""

    @classmethod
    def find(cls, key: str) -> "SequenceFile | None":
        """What a key means, if it is that of such a file."""
        folder, _, name = key.rpartition("/")
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        file = cls(folder, decode_sequence(match[1]), len(match[1]))
        return file if file.key == key else None

    @property
    def key(self) -> str:
        """Where the file is."""
        name = (
            _long_name(self.number) if self.width == _LONG_WIDTH else encode_sequence(self.number)
        )
        return f"{self.folder}/{name}{_ENDING}"

    @property
    def next(self) -> "SequenceFile":
        """The file that the next move writes."""
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
        """Where a branch pointed when it began, if it is there."""
        files = self._find_files(name)
        tip = self._read(files[0]) if files else None
        return None if tip is None else tip.snapshot_id

    def create(self, name: str, snapshot_id: SnapshotId) -> bool:
        return self._write(SequenceFile(self._folders(name)[0], 0, 8), snapshot_id)

    def move(self, tip: Tip[SequenceFile], snapshot_id: SnapshotId) -> bool:
        return self._write(tip.at.next, snapshot_id)

    def delete(self, name: str) -> None:
        *older, newest = self._find_files(name)
        # The newest last: a branch that is half deleted still points where it did.
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
        """All files of a branch, oldest first; none if there is no such branch."""
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
                f"{name!r} can't be the name of a branch here", kind="invalid-ref-name"
            )
        spellings = self._spelling.spell(name)
        return [start + spelled for start in self._layout.starts for spelled in spellings]


def _long_name(number: int) -> str:
    return encode_base32((2**64 - 1 - number).to_bytes(8, "big"))
