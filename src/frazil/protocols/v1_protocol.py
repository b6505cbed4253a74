"""Commit protocol of V1: replace the branch file with a compare-and-swap; write tag files once."""

from collections.abc import Set

from frazil.errors import ObjectExistsError, ObjectNotFoundError, VersionMismatchError
from frazil.format.ids import SnapshotId
from frazil.format.text_files import Ref, encode_ref
from frazil.lazy import dataclass
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import MAIN
from frazil.protocols.ref_files import (
    FOLDERS,
    BranchFiles,
    FileProtocol,
    RefSpelling,
    TagFiles,
    Tip,
    decode_ref_file,
    delete_files,
)
from frazil.storage.interface import Storage, Version

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
