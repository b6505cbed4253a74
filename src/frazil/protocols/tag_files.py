"""Tags in files of their own, written once.

A deleted tag keeps its file and gets a second one beside it, so that its name is never free again.
"""

from collections.abc import Set
from dataclasses import dataclass

from frazil.errors import AlreadyExistsError, ObjectExistsError, RefNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.refs import Ref, encode_ref
from frazil.protocols.reading import decode_ref_file, find_object
from frazil.protocols.ref_spelling import RefSpelling
from frazil.storage.interface import Storage

_TOMBSTONE = ".deleted"


@dataclass(frozen=True, slots=True)
class TagLayout:
    """Where tags are: a start and an ending around the name."""

    starts: tuple[str, ...]
    """The one to write first."""
    ending: str


FOLDERS = TagLayout(("refs/tag.",), "/ref.json")
ALPHA_FOLDERS = TagLayout(("refs/tag.", "refs/tag:"), "/ref.json")
DRAFT_FILES = TagLayout(("r/",), ".json")


class TagFiles:
    """The tags of a repository."""

    def __init__(self, storage: Storage, layout: TagLayout) -> None:
        self._storage = storage
        self._layout = layout
        self._spelling = RefSpelling(storage.has_encoded_names)

    def list_names(self) -> Set[str]:
        """The names of all tags that were not deleted."""
        names, deleted = self._list()
        return names - deleted

    def list_deleted(self) -> dict[str, SnapshotId]:
        """The tags that were deleted, and where they pointed."""
        names, deleted = self._list()
        found = {}
        for name in names & deleted:
            key = self.require(name)
            found[name] = decode_ref_file(key, self._storage.get(key)).snapshot_id
        return found

    def _list(self) -> tuple[set[str], set[str]]:
        """The names of all tags, deleted or not, and of those that were deleted."""
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
        """The snapshot of a tag; raises RefNotFoundError, also for one that was deleted."""
        for key in self._keys(name):
            data = find_object(self._storage, key)
            if data is not None:
                if find_object(self._storage, key + _TOMBSTONE) is not None:
                    break
                return decode_ref_file(key, data).snapshot_id
        raise RefNotFoundError(f"ref not found `{name}`: there is no such tag")

    def create(self, name: str, ref: Ref) -> None:
        """Write a tag; raises AlreadyExistsError, also for a name that was deleted."""
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
        """Put a tombstone beside a tag; raises RefNotFoundError, also for one that was deleted."""
        key = self.require(name)
        try:
            self._storage.create(key + _TOMBSTONE, b"")
        except ObjectExistsError:
            raise RefNotFoundError(f"ref not found `{name}`: there is no such tag") from None

    def require(self, name: str) -> str:
        """The key of a tag, deleted or not; raises RefNotFoundError."""
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
        """A name as it is spelled, if this is the file of a tag."""
        spelled = rest.removesuffix(self._layout.ending)
        return None if spelled == rest or "/" in spelled else spelled
