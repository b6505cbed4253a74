"""The chunks of many manifests, each once, without all of them in one place.

Tasks read manifests and list the native chunks, sorted by id. Ids are random, so the same cuts through
all lists give slices of about the same size, and each chunk is in one slice, however many manifests
name it. A list that is too long to return lies in the target's storage, as a chunk that nothing refers
to: if nobody deletes it, it is garbage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.format.ids import ALPHABET, ChunkId
from frazil.format.manifest import Manifest
from frazil.format.native_chunks import NativeChunks
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.id_columns import Ids, distinct, ids_of
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.walking import Reduction, map_manifests, uncached
from frazil.spark.copying.objects import AT_ONCE, Passage
from frazil.spark.copying.report import Copied

SLICES = len(ALPHABET) ** 2
"""One for all ids whose spelling begins with the same two letters."""
_BITS = 10
_MOST_BYTES_AT_ONCE = 256 << 20

Natives = tuple[Ids, int]
"""Ids, and the bytes of all references together."""


@dataclass(frozen=True, slots=True)
class ChunkList:
    """Native chunks, sorted by id."""

    data: bytes
    """The ids one after the other, unless they are in a file."""
    file: ChunkId | None
    starts: NDArray[np.int64]
    """Where each slice begins, and where the last one ends."""
    id_size: int
    bytes: int
    """Of all references together; a chunk that two manifests name counts twice."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, assets: Assets, number: int) -> Ids:
        """The ids of a slice."""
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
    """Lists the chunks of manifests: a task."""

    assets: Assets
    """Where the manifests are."""
    target: Assets
    limits: WalkLimits
    id_size: int
    most_returned: int

    def __call__(self, manifests: Sequence[ManifestFileInfo]) -> ChunkList:
        """The chunks of some manifests, each once."""
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
    """Where each slice of a sorted column begins, and where the last one ends."""
    rows = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, id_size)
    heads = rows[:, 0].astype(np.int64) << 8 | rows[:, 1]
    return np.searchsorted(heads >> (16 - _BITS), np.arange(SLICES + 1)).astype(np.int64)


def name_slice(number: int) -> str:
    """What the spelling of all ids of a slice begins with; beyond the last, what comes after all."""
    if number == SLICES:
        return chr(ord(ALPHABET[-1]) + 1)
    return ALPHABET[number >> 5] + ALPHABET[number & 31]


def cut_slices(lists: Sequence[ChunkList], most: int) -> list[range]:
    """Neighbouring slices for a task each: as many as have so many chunks, if none is in two lists."""
    sizes = sum((np.diff(each.starts) for each in lists), np.zeros(SLICES, np.int64))
    ends = np.cumsum(sizes)
    task = (ends - 1) // max(most, 1)
    cuts = [0, *(np.flatnonzero(task[1:] != task[:-1]) + 1).tolist(), SLICES]
    return [range(*each) for each in pairwise(cuts) if sizes[each[0] : each[1]].any()]


@dataclass(frozen=True, slots=True)
class CopyChunks:
    """Copies the chunks of slices: a task."""

    passage: Passage
    lists: tuple[ChunkList, ...]
    known: tuple[ChunkList, ...]
    """Chunks that are there."""

    def __call__(self, slices: range) -> Copied:
        """Copy the chunks of some slices, and make them last."""
        layout = self.passage.source.layout
        keys = [layout.chunk_key(id) for number in slices for id in self._find_missing(number)]
        after, before = name_slice(slices.start), name_slice(slices.stop)
        passage = replace(self.passage, at_once=self._find_at_once())
        copied = passage.copy_chunks(keys, after, before) if keys else Copied()
        self.passage.target.storage.flush()
        return copied

    def _find_at_once(self) -> int:
        """As many as are no more than so many bytes together, if they are of about the same size."""
        count, size = sum(map(len, self.lists)), sum(each.bytes for each in self.lists)
        return max(1, min(AT_ONCE, _MOST_BYTES_AT_ONCE * count // max(size, 1)))

    def _find_missing(self, number: int) -> Iterator[ChunkId]:
        wanted, known = self._read(self.lists, number), self._read(self.known, number)
        return _split(np.setdiff1d(wanted, known, assume_unique=True))

    def _read(self, lists: Sequence[ChunkList], number: int) -> Ids:
        columns = [each.read(self.passage.target, number) for each in lists]
        filled = [column for column in columns if len(column)]
        return distinct(np.concatenate(filled)) if filled else np.empty(0, "S12")


def _split(ids: Ids) -> Iterator[ChunkId]:
    size = ids.dtype.itemsize
    data = ids.tobytes()
    return (ChunkId(data[at : at + size]) for at in range(0, len(data), size))


def _reduce_natives(natives: NativeChunks) -> Natives:
    return ids_of(natives.ids), int(natives.lengths.sum())


def _reduce_manifest(manifest: Manifest) -> Natives:
    found = [refs.natives() for refs in manifest.arrays.values()]
    columns = [ids_of(each.ids) for each in found if len(each)]
    ids = np.concatenate(columns) if columns else np.empty(0, "S12")
    return ids, sum(int(each.lengths.sum()) for each in found)


_NATIVES: Reduction[Natives] = Reduction(_reduce_natives, _reduce_manifest)
