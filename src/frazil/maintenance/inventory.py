"""Inventory of a storage as columns: ids and sizes of its objects, orphans and temporary files."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from itertools import chain, compress
from operator import add
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from frazil.errors import FormatError, ObjectNotFoundError, StorageError
from frazil.format.coordinates import Rows
from frazil.format.ids import SnapshotId
from frazil.maintenance.findings import Orphans, Problem, Problems, Repair, error, note, warning
from frazil.maintenance.gc import Folder, chunk_folder, find_id_size
from frazil.maintenance.reachability import IdRange, Ids, IdSet, column_of, in_batches, parse_names
from frazil.protocols.assets import Assets, Layout
from frazil.protocols.v1_protocol import KEY as CONFIG_KEY
from frazil.protocols.v2_protocol import BACKUPS, REPO
from frazil.storage.interface import ObjectInfo, Storage

_SORTED_AT_ONCE = 10_000
_AFTER_SLASH = chr(ord("/") + 1)


class ChunkFiles(Protocol):
    """Existence and sizes of native chunk files."""

    def measure(self, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Return which ids have a file, and the sizes of the files."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Objects of a folder that are named by an id, sorted."""

    ids: Ids
    sizes: NDArray[np.uint64]
    strangers: tuple[ObjectInfo, ...] = ()
    """Objects with other names."""

    def __len__(self) -> int:
        return len(self.ids)

    def locate(self, wanted: Ids) -> Rows:
        """Return the row of each id, or -1."""
        if not len(self.ids):
            return np.full(len(wanted), -1, np.intp)
        rows = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        rows[self.ids[rows] != wanted] = -1
        return rows

    def measure(self, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Return which ids have an object, and the sizes of the objects."""
        rows = self.locate(ids)
        is_there = rows >= 0
        sizes = np.zeros(len(ids), np.uint64)
        sizes[is_there] = self.sizes[rows[is_there]]
        return is_there, sizes

    def find_size(self, id: bytes) -> int | None:
        """Return the size of an id's object in bytes, or None if there is none."""
        (row,) = self.locate(column_of([id], len(id))).tolist()
        return None if row < 0 else int(self.sizes[row])

    def measure_unused(self, used: IdSet) -> tuple[int, int]:
        """Return number and bytes of the objects that are not in a set."""
        unused = ~used.contains(self.ids)
        return int(unused.sum()), int(self.sizes[unused].sum())

    def measure_strangers(self) -> tuple[int, int]:
        """Return number and bytes of the objects with other names."""
        return len(self.strangers), sum(each.size_bytes for each in self.strangers)


@dataclass(frozen=True, slots=True, eq=False)
class WrongFiles:
    """Chunk files that are missing or too short; all others are intact."""

    ids: Ids
    is_there: NDArray[np.bool_]
    sizes: NDArray[np.uint64]

    @classmethod
    def unite(cls, parts: "Sequence[WrongFiles]") -> "WrongFiles":
        """Merge several parts without common ids."""
        ids = np.concatenate([each.ids for each in parts])
        order = np.argsort(ids)
        is_there = np.concatenate([each.is_there for each in parts])
        sizes = np.concatenate([each.sizes for each in parts])
        return cls(ids[order], is_there[order], sizes[order])

    def measure(self, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Return which ids have a file, and their sizes; an intact file has the maximum size."""
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
    """Other objects by key: refs, backups, the configuration."""


def take_inventory(assets: Assets, *, with_chunks: bool = True) -> Inventory:
    """List a repository's storage once; without chunks, if other workers list them."""
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


def list_chunks(assets: Assets, id_range: IdRange) -> Listed:
    """List the chunk files of an id range; other names belong to the range they sort into."""
    folder = chunk_folder(assets)
    name = folder.name
    after, before = (f"{name}/{each}" for each in id_range.find_names())
    after = f"{name}/" if id_range.number == 0 else after
    before = f"{name}{_AFTER_SLASH}" if id_range.number == id_range.count - 1 else before
    if assets.storage.is_local:  # which always lists all names of a folder
        found = assets.storage.list_selected(
            f"{name}/", lambda keys: np.array([after < key < before for key in keys], np.bool_)
        )
    else:
        found = assets.storage.list_between(f"{name}/", after, before)
    parts = [_parse(each, folder) for each in in_batches(found, _SORTED_AT_ONCE)]
    return _unite(parts, folder.id_size)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Batch of objects by folder."""

    listed: Mapping[str, Listed]
    others: Sequence[ObjectInfo]


def _folders(layout: Layout, size: int) -> dict[str, Folder]:
    endings = (layout.ending, *layout.other_endings)
    metadata = [Folder(name, size, endings) for name in (layout.snapshots, layout.manifests)]
    binary = [Folder(name, size) for name in (layout.transactions, layout.chunks) if name]
    return {folder.name: folder for folder in (*metadata, *binary)}


def _plan_listings(assets: Assets, *, with_chunks: bool) -> list[str]:
    """Return the prefixes to list: everything at once, or on remote storage each folder."""
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
    # A metadata file of the draft may exist with two extensions.
    ids, first = np.unique(ids, return_index=True)
    strangers = tuple(chain.from_iterable(each.strangers for each in parts))
    return Listed(ids, sizes[first], strangers)


YOUNG = timedelta(hours=1)
"""Age below which a temporary file may be in use."""


@runtime_checkable
class KeepsTemporaryFiles(Protocol):
    """Storage on which a killed process can leave temporary files."""

    def list_temporary_files(self) -> Iterator[ObjectInfo]:
        """Yield the temporary files."""


def list_temporary_files(storage: Storage) -> Iterator[ObjectInfo]:
    """List the temporary files of killed or running processes in a storage."""
    return storage.list_temporary_files() if isinstance(storage, KeepsTemporaryFiles) else iter(())


def check_temporary_files(files: Iterable[ObjectInfo], now: datetime) -> Problems:
    """Yield a problem for each temporary file; a note for young ones, which may be in use."""
    for each in files:
        if now - each.created_at < YOUNG:
            yield note(each.key, "a temporary file, of a writer that is at work or was just killed")
        else:
            what = f"a temporary file of {each.size_bytes} bytes, of a writer that was killed"
            yield warning(each.key, what, Repair.REMOVE_TEMPORARY_FILE)


_REPO_BACKUPS = f"{BACKUPS}/repo."


@dataclass(frozen=True, slots=True)
class Used:
    """Referenced objects."""

    snapshots: Set[SnapshotId]
    transaction_logs: Set[SnapshotId]
    manifests: Collection[bytes]
    backups: Set[str] = field(default=frozenset())


@dataclass(frozen=True, slots=True)
class ChunkTotals:
    """Totals of the comparison of chunk references with chunk files."""

    num_used: int = 0
    """Distinct chunks that manifests refer to."""
    num_unused: int = 0
    unused_bytes: int = 0
    num_strangers: int = 0
    """Objects whose names spell no id."""
    stranger_bytes: int = 0

    @classmethod
    def of(cls, listed: Listed, used: IdSet) -> "ChunkTotals":
        """Compare listed chunk files with the referenced chunks of the same id range."""
        return cls(len(used), *listed.measure_unused(used), *listed.measure_strangers())

    def __add__(self, other: "ChunkTotals") -> "ChunkTotals":
        return ChunkTotals(*map(add, astuple(self), astuple(other)))


def count_orphans(inventory: Inventory, used: Used, chunks: ChunkTotals) -> tuple[Orphans, ...]:
    """Count the unreferenced objects of each kind; omits kinds without any."""
    size = inventory.id_size
    found = [
        _count("snapshots", inventory.snapshots, IdSet(column_of(used.snapshots, size))),
        _count("transaction logs", inventory.transaction_logs,
               IdSet(column_of(used.transaction_logs, size))),
        _count("manifests", inventory.manifests, IdSet(column_of(used.manifests, size))),
        Orphans("chunks", chunks.num_unused, chunks.unused_bytes),
        _measure("backups", _find_unnamed_backups(inventory, used)),
        _count_strangers(inventory, chunks),
    ]  # fmt: skip
    return tuple(each for each in found if each.count)


def _find_unnamed_backups(inventory: Inventory, used: Used) -> Iterator[ObjectInfo]:
    for key, info in inventory.others.items():
        if key.startswith(_REPO_BACKUPS) and key not in used.backups:
            yield info


def _count_strangers(inventory: Inventory, chunks: ChunkTotals) -> Orphans:
    folders = (inventory.snapshots, inventory.transaction_logs, inventory.manifests)
    counts, sizes = zip(*(each.measure_strangers() for each in folders), strict=True)
    return Orphans(
        "objects of other names",
        sum(counts) + chunks.num_strangers,
        sum(sizes) + chunks.stranger_bytes,
    )


def _count(kind: str, listed: Listed, used: IdSet) -> Orphans:
    return Orphans(kind, *listed.measure_unused(used))


def _measure(kind: str, objects: Iterator[ObjectInfo]) -> Orphans:
    sizes = [each.size_bytes for each in objects]
    return Orphans(kind, len(sizes), sum(sizes))


def report_orphans(orphans: Collection[Orphans], layout: Layout) -> Problems:
    """Yield a note for each kind of orphans."""
    folders = {
        "snapshots": layout.snapshots,
        "transaction logs": layout.transactions or "",
        "manifests": layout.manifests,
        "chunks": layout.chunks,
    }
    for each in orphans:
        folder = folders.get(each.kind)
        what = f"nothing refers to {each.count} {each.kind} of {each.size_bytes} bytes"
        if folder is None:
            yield note(f"{BACKUPS}/" if each.kind == "backups" else "", what)
        else:
            yield note(f"{folder}/", what, Repair.COLLECT_GARBAGE)


T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Failed:
    """File that can't be read."""

    problem: Problem


def read_files(
    pool: ThreadPoolExecutor, items: Iterable[T], read: Callable[[T], R]
) -> Iterator[tuple[T, R]]:
    """Yield each item with its read result, in order, with few in memory at a time."""
    for batch in in_batches(items, _AT_ONCE):
        yield from zip(batch, pool.map(read, batch), strict=True)


def read_or_fail(
    assets: Assets, key: str, check: Callable[[bytes], R], repair: Repair | None = None
) -> R | Failed:
    """Read a metadata file and apply a check to its bytes; returns Failed if it can't be read."""
    try:
        data = get_metadata_file(assets, key)
    except ObjectNotFoundError:
        return Failed(error(key, "there is no such file, though it was listed", repair))
    except StorageError as failure:
        return Failed(error(key, f"the storage does not give it: {failure.message}"))
    try:
        return check(data)
    except FormatError as failure:
        return Failed(error(key, f"it can't be read: {failure.message}", repair))


def get_metadata_file(assets: Assets, key: str) -> bytes:
    """Read a metadata file under any of its keys; raises StorageError."""
    *first, last = assets.layout.spellings(key)
    for spelling in first:
        try:
            return bytes(assets.storage.get(spelling))
        except ObjectNotFoundError:
            continue
    return bytes(assets.storage.get(last))


class Pace:
    """Rate limiter for the threads of a process."""

    def __init__(self, per_second: float | None) -> None:
        self._seconds = 0.0 if per_second is None else 1 / per_second
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait for the next slot; returns immediately without a rate."""
        if self._seconds:
            time.sleep(self.take_turn(time.monotonic()))

    def take_turn(self, now: float) -> float:
        """Reserve the next slot and return the seconds until it."""
        with self._lock:
            turn = max(now, self._next)
            self._next = turn + self._seconds
        return turn - now
