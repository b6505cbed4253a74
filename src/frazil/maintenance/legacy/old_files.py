"""The files that nobody needs once `repo` stands for them.

Files of an alpha lie in the same folders as those of V2. What they are is told by their first bytes:
all that belongs to V2 says so, and nothing that does is ever deleted here.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import compress

from frazil.assets import Layout
from frazil.errors import ObjectNotFoundError
from frazil.format.dialect import Dialect
from frazil.format.header import HEADER_SIZE, has_header
from frazil.format.ids import encode_base32
from frazil.maintenance.batches import in_batches
from frazil.protocols.config_file import KEY as CONFIG_KEY
from frazil.protocols.deleting import delete_files
from frazil.protocols.interface import MAIN
from frazil.protocols.sequence_files import ALPHA_BRANCHES, DRAFT_BRANCHES
from frazil.storage.interface import ByteRange, ObjectInfo, Storage

_BATCH = 1_000
_SPEC_VERSION_AT = 36
_NAME_LENGTH = len(encode_base32(bytes(12)))


@dataclass(frozen=True, slots=True)
class OldPlaces:
    """Where the files of an old generation are, in the order in which they are deleted."""

    prefixes: tuple[str, ...]
    """Folders and files of which all is old. Those of `main` come first: without them nobody takes
    this for an old repository."""
    shared_folders: tuple[str, ...] = ()
    """Where files of V2 are, too."""


_DRAFT = Layout.of(Dialect.DRAFT)
DRAFT_PLACES = OldPlaces(
    (
        *(f"{start}{MAIN}/" for start in DRAFT_BRANCHES.starts),
        *DRAFT_BRANCHES.starts,
        *(f"{name}/" for name in (_DRAFT.snapshots, _DRAFT.manifests, _DRAFT.chunks)),
    )
)

_ALPHA = Layout.of(Dialect.V2)
ALPHA_PLACES = OldPlaces(
    (*(f"{start}{MAIN}/" for start in ALPHA_BRANCHES.starts), "refs/", CONFIG_KEY),
    (_ALPHA.manifests, f"{_ALPHA.transactions}", _ALPHA.snapshots),
)


def delete_old_files(storage: Storage, places: OldPlaces) -> None:
    """Delete all of them; raises StorageError if one of them stays."""
    for keys in _find_stages(storage, places):
        for batch in in_batches(keys, _BATCH):
            delete_files(storage, batch)


def has_old_files(storage: Storage, places: OldPlaces) -> bool:
    """Whether there is one of them."""
    return any(True for keys in _find_stages(storage, places) for _ in keys)


def _find_stages(storage: Storage, places: OldPlaces) -> Iterator[Iterator[str]]:
    """The keys of all files, those that are deleted together at a time."""
    for place in places.prefixes:
        yield (info.key for info in storage.list(place) if _is_at(place, info.key))
    for folder in places.shared_folders:
        yield _find_old_among_new(storage, folder)


def _find_old_among_new(storage: Storage, folder: str) -> Iterator[str]:
    for batch in in_batches(storage.list(f"{folder}/"), _BATCH):
        yield from _select_old(storage, folder, batch)


def _is_at(place: str, key: str) -> bool:
    return key == place or place.endswith("/")


def is_free_for_v2(storage: Storage, key: str) -> bool:
    """Whether a key can be written to: nothing is there, or what a migration before this one wrote."""
    try:
        return not _is_old(storage, storage.head(key))
    except ObjectNotFoundError:
        return True


def _select_old(storage: Storage, folder: str, files: list[ObjectInfo]) -> list[str]:
    named = [file for file in files if len(file.key) == len(folder) + 1 + _NAME_LENGTH]
    with ThreadPoolExecutor(storage.concurrency) as pool:
        old = list(pool.map(lambda file: _is_old(storage, file), named))
    return [file.key for file in compress(named, old)]


def _is_old(storage: Storage, file: ObjectInfo) -> bool:
    if file.size_bytes < HEADER_SIZE:
        return True
    start = bytes(storage.get(file.key, ByteRange(0, HEADER_SIZE)))
    return not has_header(start) or start[_SPEC_VERSION_AT] != 2
