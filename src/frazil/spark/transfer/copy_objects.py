"""Copy objects from one storage to another in tasks, each once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.format.chunk_table import NativeChunks
from frazil.format.ids import ALPHABET, ChunkId
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.id_ranges import Ids, distinct, ids_of, name_slice
from frazil.maintenance.reachability import Reduction, WalkLimits, map_manifests, uncached
from frazil.protocols.assets import Assets
from frazil.spark.job import Copied
from frazil.storage.interface import NO_OPTIONS, PutOptions, Storage

AT_ONCE = 16
_AT_ONCE_ON_DISKS = 4
"""More concurrent requests are not faster on local disks."""
_WORTH_LISTING = 200
"""Number of objects from which one listing is cheaper than a request per object."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Source and target of a copy, with the operations that copy objects."""

    source: Assets
    target: Assets
    is_empty: bool
    """True if the target has no objects yet."""
    at_once: int = AT_ONCE
    """Maximum number of objects a task holds in memory."""

    def copy_chunks(self, keys: Sequence[str], after: str, before: str) -> Copied:
        """Copy chunk objects whose names are all after one name and before another."""
        storage = self.target.storage
        if self.is_empty or storage.is_local or len(keys) < _WORTH_LISTING:
            return self.copy(keys)
        there = self._list_sizes(storage, after, before)
        try:
            here = self._list_sizes(self.source.storage, after, before) if there else {}
        except StorageError:  # plain HTTP servers can't list
            return self.copy(keys)
        missing = [key for key in keys if key not in there or there[key] != here.get(key)]
        copied = self._run(missing, self._copy_always)
        return copied + Copied(present=len(keys) - len(missing))

    def _list_sizes(self, storage: Storage, after: str, before: str) -> Mapping[str, int]:
        folder = f"{self.source.layout.chunks}/"
        found = storage.list_between(folder, folder + after, folder + before)
        return {info.key: info.size_bytes for info in found}

    def copy(self, keys: Sequence[str]) -> Copied:
        """Copy objects of any kind; skip those the target has with the same size."""
        return self._run(keys, self._copy_always if self.is_empty else self._copy_missing)

    def copy_again(self, keys: Sequence[str]) -> Copied:
        """Copy objects even if present: before V2 an expiry rewrites snapshots in place."""
        return self._run(keys, self._copy_always)

    def _run(self, keys: Sequence[str], copy: Callable[[str], Copied]) -> Copied:
        is_local = self.source.storage.is_local and self.target.storage.is_local
        at_once = min(self.at_once, _AT_ONCE_ON_DISKS) if is_local else self.at_once
        with ThreadPoolExecutor(at_once) as pool:
            return sum(pool.map(copy, keys), Copied())

    def _copy_missing(self, key: str) -> Copied:
        size = find_size(self.target.storage, key)
        if size is not None and size == find_size(self.source.storage, key):
            return Copied(present=1)
        return self._copy_always(key)

    def _copy_always(self, key: str) -> Copied:
        for spelled in self._spellings(key):
            try:
                data = self.source.storage.get(spelled)
            except ObjectNotFoundError:
                continue
            self.target.storage.put(spelled, data, self._describe(key))
            return Copied(1, len(data))
        if self._may_be_missing(key):
            return Copied()
        raise ObjectNotFoundError(
            f"{key} is not in the source any more: if it has expired and was collected since the copy"
            " began, copy again; otherwise check the source"
        )

    def _spellings(self, key: str) -> Iterable[str]:
        layout = self.source.layout
        return (key,) if key.startswith(f"{layout.chunks}/") else layout.spellings(key)

    def _may_be_missing(self, key: str) -> bool:
        layout = self.source.layout
        folder = key.partition("/")[0]
        # The recorded history may name snapshots whose objects were never kept.
        is_recorded = folder == layout.snapshots and self.source.dialect.records_history
        return folder == layout.transactions or is_recorded

    def _describe(self, key: str) -> PutOptions:
        layout = self.source.layout
        kinds = {
            layout.snapshots: "snapshot",
            layout.manifests: "manifest",
            layout.transactions: "transaction-log",
        }
        kind = kinds.get(key.partition("/")[0])
        return NO_OPTIONS if kind is None else self.target.describe(kind)


@dataclass(frozen=True, slots=True)
class CopyFiles:
    """Task that copies metadata objects."""

    passage: Passage
    is_always: bool = False

    def __call__(self, keys: Sequence[str]) -> Copied:
        """Copy objects and flush the target."""
        copied = (self.passage.copy_again if self.is_always else self.passage.copy)(keys)
        self.passage.target.storage.flush()
        return copied


def find_size(storage: Storage, key: str) -> int | None:
    """Return the size of an object, or None if it does not exist."""
    try:
        return storage.head(key).size_bytes
    except ObjectNotFoundError:
        return None


SLICES = len(ALPHABET) ** 2
"""One slice for all ids whose spelling starts with the same two letters."""
_BITS = 10
_MOST_BYTES_AT_ONCE = 256 << 20

Natives = tuple[Ids, int]
"""Ids, and the total bytes of all references."""


@dataclass(frozen=True, slots=True)
class ChunkList:
    """Ids of native chunks, sorted."""

    data: bytes
    """Concatenated ids, unless they are in `file`."""
    file: ChunkId | None
    starts: NDArray[np.int64]
    """Index at which each slice begins, and at which the last one ends."""
    id_size: int
    bytes: int
    """Total of all references; a chunk that two manifests reference counts twice."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, assets: Assets, number: int) -> Ids:
        """Return the ids of a slice."""
        start, stop = self.starts[number : number + 2].tolist()
        if start == stop:
            return np.empty(0, f"S{self.id_size}")
        first, last = start * self.id_size, stop * self.id_size
        data = (
            self.data[first:last]
            if self.file is None
            else assets.read_chunk(self.file, first, last)
        )
        return ids_of(np.frombuffer(data, np.uint8).reshape(-1, self.id_size))


@dataclass(frozen=True, slots=True)
class ListChunks:
    """Task that lists the chunks of manifests."""

    assets: Assets
    """Assets that hold the manifests."""
    target: Assets
    limits: WalkLimits
    id_size: int
    most_returned: int

    def __call__(self, manifests: Sequence[ManifestFileInfo]) -> ChunkList:
        """Return the chunks of these manifests, each once."""
        source = uncached(self.assets)
        found = list(map_manifests(source, manifests, _NATIVES, self.limits))
        columns = [ids for ids, _ in found if len(ids)]
        ids = distinct(np.concatenate(columns)) if columns else np.empty(0, f"S{self.id_size}")
        data, file = ids.tobytes(), None
        if len(ids) > self.most_returned:
            file, data = self.target.write_chunk(data), b""
            self.target.storage.flush()
        total = sum(size for _, size in found)
        return ChunkList(data, file, find_starts(ids, self.id_size), self.id_size, total)


def find_starts(ids: Ids, id_size: int) -> NDArray[np.int64]:
    """Return the index at which each slice of a sorted column begins, and the end of the last one."""
    rows = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, id_size)
    heads = rows[:, 0].astype(np.int64) << 8 | rows[:, 1]
    return np.searchsorted(heads >> (16 - _BITS), np.arange(SLICES + 1)).astype(np.int64)


def cut_slices(lists: Sequence[ChunkList], most: int) -> list[range]:
    """Group neighbouring slices into tasks of about `most` chunks, counted once per list."""
    sizes = sum((np.diff(each.starts) for each in lists), np.zeros(SLICES, np.int64))
    ends = np.cumsum(sizes)
    task = (ends - 1) // max(most, 1)
    cuts = [0, *(np.flatnonzero(task[1:] != task[:-1]) + 1).tolist(), SLICES]
    return [range(*each) for each in pairwise(cuts) if sizes[each[0] : each[1]].any()]


@dataclass(frozen=True, slots=True)
class CopyChunks:
    """Task that copies the chunks of slices."""

    passage: Passage
    lists: tuple[ChunkList, ...]
    known: tuple[ChunkList, ...]
    """Chunks present in the target."""

    def __call__(self, slices: range) -> Copied:
        """Copy the chunks of these slices and flush the target."""
        layout = self.passage.source.layout
        keys = [layout.chunk_key(id) for number in slices for id in self._find_missing(number)]
        after, before = (name_slice(each, SLICES) for each in (slices.start, slices.stop))
        passage = replace(self.passage, at_once=self._find_at_once())
        copied = passage.copy_chunks(keys, after, before) if keys else Copied()
        self.passage.target.storage.flush()
        return copied

    def _find_at_once(self) -> int:
        """Return how many chunks of average size fit in the memory limit."""
        count, size = sum(map(len, self.lists)), sum(each.bytes for each in self.lists)
        return max(1, min(AT_ONCE, _MOST_BYTES_AT_ONCE * count // max(size, 1)))

    def _find_missing(self, number: int) -> Iterator[ChunkId]:
        wanted, known = self._read(self.lists, number), self._read(self.known, number)
        missing = np.setdiff1d(wanted, known, assume_unique=True)
        data, size = missing.tobytes(), missing.dtype.itemsize
        return (ChunkId(data[at : at + size]) for at in range(0, len(data), size))

    def _read(self, lists: Sequence[ChunkList], number: int) -> Ids:
        columns = [each.read(self.passage.target, number) for each in lists]
        filled = [column for column in columns if len(column)]
        return distinct(np.concatenate(filled)) if filled else np.empty(0, "S12")


def _reduce_natives(natives: NativeChunks) -> Natives:
    return ids_of(natives.ids), int(natives.lengths.sum())


def _reduce_manifest(manifest: Manifest) -> Natives:
    found = [refs.natives() for refs in manifest.arrays.values()]
    columns = [ids_of(each.ids) for each in found if len(each)]
    ids = np.concatenate(columns) if columns else np.empty(0, "S12")
    return ids, sum(int(each.lengths.sum()) for each in found)


_NATIVES: Reduction[Natives] = Reduction(_reduce_natives, _reduce_manifest)
