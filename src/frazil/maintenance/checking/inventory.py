"""What a storage lists, as columns: a million chunk files are two arrays, ids and sizes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets, Layout
from frazil.format.coordinates import Rows
from frazil.maintenance.batches import in_batches
from frazil.maintenance.id_columns import Ids, IdSet, column_of, parse_names
from frazil.maintenance.listing import Folder, chunk_folder, find_id_size
from frazil.maintenance.shares import Share
from frazil.protocols.config_file import KEY as CONFIG_KEY
from frazil.protocols.ops_log import BACKUPS
from frazil.protocols.repo_file import REPO
from frazil.storage.interface import ObjectInfo

_SORTED_AT_ONCE = 10_000
_AFTER_SLASH = chr(ord("/") + 1)


class ChunkFiles(Protocol):
    """What is known of the files of native chunks."""

    def measure(self, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Which ids have a file, and how many bytes of it there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The objects of a folder that are named by an id, sorted."""

    ids: Ids
    sizes: NDArray[np.uint64]
    strangers: tuple[ObjectInfo, ...] = ()
    """Objects that are named otherwise."""

    def __len__(self) -> int:
        return len(self.ids)

    def locate(self, wanted: Ids) -> Rows:
        """The row of each id, or -1."""
        if not len(self.ids):
            return np.full(len(wanted), -1, np.intp)
        rows = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        rows[self.ids[rows] != wanted] = -1
        return rows

    def measure(self, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Which ids have an object, and how many bytes that has."""
        rows = self.locate(ids)
        is_there = rows >= 0
        sizes = np.zeros(len(ids), np.uint64)
        sizes[is_there] = self.sizes[rows[is_there]]
        return is_there, sizes

    def find_size(self, id: bytes) -> int | None:
        """How many bytes the object of an id has, if there is one."""
        (row,) = self.locate(column_of([id], len(id))).tolist()
        return None if row < 0 else int(self.sizes[row])

    def measure_unused(self, used: IdSet) -> tuple[int, int]:
        """How many objects are not in a set, and how many bytes they have."""
        unused = ~used.contains(self.ids)
        return int(unused.sum()), int(self.sizes[unused].sum())

    def measure_strangers(self) -> tuple[int, int]:
        """How many objects are named otherwise, and how many bytes they have."""
        return len(self.strangers), sum(each.size_bytes for each in self.strangers)


@dataclass(frozen=True, slots=True, eq=False)
class WrongFiles:
    """The chunk files that are gone or too short; all others are as they should be."""

    ids: Ids
    is_there: NDArray[np.bool_]
    sizes: NDArray[np.uint64]

    @classmethod
    def unite(cls, parts: "Sequence[WrongFiles]") -> "WrongFiles":
        """Those of several parts that have no id in common."""
        ids = np.concatenate([each.ids for each in parts])
        order = np.argsort(ids)
        is_there = np.concatenate([each.is_there for each in parts])
        sizes = np.concatenate([each.sizes for each in parts])
        return cls(ids[order], is_there[order], sizes[order])

    def measure(self, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Which ids have a file, and how many bytes of it there are: all, where nothing is wrong."""
        rows = Listed(self.ids, self.sizes).locate(ids)
        is_wrong = rows >= 0
        is_there = np.ones(len(ids), np.bool_)
        sizes = np.full(len(ids), np.iinfo(np.uint64).max, np.uint64)
        is_there[is_wrong] = self.is_there[rows[is_wrong]]
        sizes[is_wrong] = self.sizes[rows[is_wrong]]
        return is_there, sizes


@dataclass(frozen=True, slots=True, eq=False)
class Inventory:
    """All objects of a repository."""

    id_size: int
    snapshots: Listed
    manifests: Listed
    transaction_logs: Listed
    chunks: Listed
    others: Mapping[str, ObjectInfo] = field(default_factory=dict)
    """By key: refs, backups, the configuration."""


def take_inventory(assets: Assets, *, with_chunks: bool = True) -> Inventory:
    """List a repository's storage, once; without the chunks, if somebody else lists them."""
    storage, size = assets.storage, find_id_size(assets)
    folders = _folders(assets.layout, size)
    with ThreadPoolExecutor(storage.concurrency) as pool:
        parts = pool.map(
            lambda prefix: [
                _sort(batch, folders) for batch in in_batches(storage.list(prefix), _SORTED_AT_ONCE)
            ],
            _plan_listings(assets, with_chunks=with_chunks),
        )
        batches = list(chain.from_iterable(parts))
    listed = {
        name: _unite([batch.listed[name] for batch in batches if name in batch.listed], size)
        for name in folders
    }
    return Inventory(
        size,
        listed[assets.layout.snapshots],
        listed[assets.layout.manifests],
        listed.get(assets.layout.transactions or "", _unite([], size)),
        listed[assets.layout.chunks],
        {info.key: info for batch in batches for info in batch.others},
    )


def list_chunks(assets: Assets, share: Share) -> Listed:
    """A share of the chunk files: names that spell no id are in the share that they sort into."""
    folder = chunk_folder(assets)
    name = folder.name
    after, before = (f"{name}/{each}" for each in share.find_names())
    after = f"{name}/" if share.number == 0 else after
    before = f"{name}{_AFTER_SLASH}" if share.number == share.count - 1 else before
    if assets.storage.is_local:  # which lists all names of a folder in any case
        found = assets.storage.list_chosen(
            f"{name}/", lambda keys: np.array([after < key < before for key in keys], np.bool_)
        )
    else:
        found = assets.storage.list_between(f"{name}/", after, before)
    parts = [_parse(each, folder) for each in in_batches(found, _SORTED_AT_ONCE)]
    return _unite(parts, folder.id_size)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some objects, by the folder that they are in."""

    listed: Mapping[str, Listed]
    others: Sequence[ObjectInfo]


def _folders(layout: Layout, size: int) -> dict[str, Folder]:
    endings = (layout.ending, *layout.other_endings)
    metadata = [Folder(name, size, endings) for name in (layout.snapshots, layout.manifests)]
    binary = [Folder(name, size) for name in (layout.transactions, layout.chunks) if name]
    return {folder.name: folder for folder in (*metadata, *binary)}


def _plan_listings(assets: Assets, *, with_chunks: bool) -> list[str]:
    """Everything at once, or where each request takes a trip, all folders at a time."""
    if assets.storage.is_local and with_chunks:
        return [""]
    folders = [f"{name}/" for name in _folders(assets.layout, find_id_size(assets))]
    if not with_chunks:
        folders.remove(f"{assets.layout.chunks}/")
    return [*folders, "refs/", "r/", f"{BACKUPS}/", CONFIG_KEY, REPO]


def _sort(objects: Sequence[ObjectInfo], folders: Mapping[str, Folder]) -> _Batch:
    by_folder: dict[str, list[ObjectInfo]] = defaultdict(list)
    for each in objects:
        by_folder[each.key.partition("/")[0]].append(each)
    listed = {
        name: _parse(found, folders[name]) for name, found in by_folder.items() if name in folders
    }
    others = [each for name, found in by_folder.items() if name not in folders for each in found]
    return _Batch(listed, others)


def _parse(files: Sequence[ObjectInfo], folder: Folder) -> Listed:
    ids, is_named = parse_names(folder.find_stems([each.key for each in files]), folder.id_size)
    sizes = np.fromiter((each.size_bytes for each in files), np.uint64, len(files))
    return Listed(ids, sizes[is_named], tuple(compress(files, ~is_named)))


def _unite(parts: Sequence[Listed], id_size: int) -> Listed:
    ids = np.concatenate([np.empty(0, f"S{id_size}"), *(each.ids for each in parts)])
    sizes = np.concatenate([np.empty(0, np.uint64), *(each.sizes for each in parts)])
    # A metadata file of the draft may be there under two endings.
    ids, first = np.unique(ids, return_index=True)
    strangers = tuple(chain.from_iterable(each.strangers for each in parts))
    return Listed(ids, sizes[first], strangers)
