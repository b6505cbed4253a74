"""The native chunks of many manifests at once: a small manifest takes longer to open than to read.

The payloads lie behind each other in one buffer, and each step is taken in all of them together.
Every position is checked against the ends of its own payload. Only manifests of the plainest form
are read here: one array, all of whose references are native and of one layout. Whatever is different
or damaged in any way is left to the reader of one manifest, which knows what to say about it.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.format import ragged
from frazil.format.native_chunks import NativeChunks
from frazil.format.ragged import Bytes, Integers
from frazil.format.v2.schema import ArrayManifestSlot, ChunkRefSlot, ManifestSlot

Booleans = NDArray[np.bool_]


def find_natives(payloads: Sequence[bytes]) -> tuple[NativeChunks, Booleans]:
    """The native chunks of all manifests of the plainest form, and which of the payloads these are."""
    files = _Files(payloads)
    root = _Tables(files, files.follow(files.starts))
    root.know(ManifestSlot)
    root.require(ManifestSlot.ID, 12)
    root.refuse(ManifestSlot.LOCATION_DICTIONARY)
    root.refuse(ManifestSlot.EXTRA)
    arrays, count = files.vector(root.target(ManifestSlot.ARRAYS))
    files.is_plain &= count == 1
    array = _Tables(files, files.follow(arrays))
    array.know(ArrayManifestSlot)
    array.require(ArrayManifestSlot.NODE_ID, 8)
    array.refuse(ArrayManifestSlot.EXTRA)
    links, count = files.vector(array.target(ArrayManifestSlot.REFS))
    return _read_refs(files, links, count)


def _read_refs(files: "_Files", links: Integers, count: Integers) -> tuple[NativeChunks, Booleans]:
    """Follow all references, of which the first of each file says how all are laid out."""
    files.is_plain &= count > 0
    first = _Tables(files, files.follow(links))
    id_at = first.require(ChunkRefSlot.CHUNK_ID, 12)
    length_at = first.require(ChunkRefSlot.LENGTH, 8)
    # References that share bytes are for the other reader, which counts how often they are read.
    files.is_plain &= count * first.size <= files.ends - files.starts
    count = np.where(files.is_plain, count, 0)
    file = np.repeat(np.arange(count.size), count)
    links = ragged.runs(links, count, 4)
    refs = links + ragged.windows(files.data, "<u4")[links]
    is_plain = (refs >= files.starts[file]) & (refs + first.size[file] <= files.ends[file])
    refs[~is_plain] = first.positions[file][~is_plain]
    is_plain &= refs - ragged.windows(files.data, "<i4")[refs] == first.vtables[file]
    files.is_plain[file[~is_plain]] = False
    is_wanted = files.is_plain[file]
    refs, file = refs[is_wanted], file[is_wanted]
    ids = ragged.gather(files.data, refs + id_at[file], 12)
    lengths = ragged.windows(files.data, "<u8")[refs + length_at[file]]
    return NativeChunks(ids, lengths), files.is_plain


class _Files:
    """Payloads behind each other; what is not plain stays, and is read where it does no harm."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        offsets = ragged.offsets_of(np.fromiter(map(len, payloads), np.int64, len(payloads)))
        self.starts, self.ends = offsets[:-1], offsets[1:]
        self.data: Bytes = np.frombuffer(b"".join([*payloads, _PADDING]), np.uint8)
        self._padding = int(offsets[-1])
        self.is_plain = np.ones(len(payloads), np.bool_)

    def numbers(self, positions: Integers, dtype: str) -> Integers:
        """The number at one position of each file."""
        is_inside = positions >= self.starts
        is_inside &= positions + np.dtype(dtype).itemsize <= self.ends
        self.is_plain &= is_inside
        items: NDArray[Any] = ragged.windows(self.data, dtype)
        return items[np.where(is_inside, positions, self._padding)].astype(np.int64)

    def follow(self, positions: Integers) -> Integers:
        """Where the offsets at these positions point to."""
        return positions + self.numbers(positions, "<u4")

    def vector(self, positions: Integers) -> tuple[Integers, Integers]:
        """Where the offsets of a vector start in each file, and how many there are."""
        count = self.numbers(positions, "<u4")
        self.is_plain &= positions + 4 + 4 * count <= self.ends
        return positions + 4, count


_PADDING = bytes(16)
"""Behind all payloads; what is not plain is read here."""


class _Tables:
    """One table of each file."""

    def __init__(self, files: _Files, positions: Integers) -> None:
        self._files = files
        self.positions = positions
        self.vtables = positions - files.numbers(positions, "<i4")
        self._vtable_size = files.numbers(self.vtables, "<u2")
        self.size = files.numbers(self.vtables + 2, "<u2")
        files.is_plain &= (self._vtable_size >= 4) & (self._vtable_size % 2 == 0)
        files.is_plain &= self.vtables + self._vtable_size <= files.ends
        files.is_plain &= (self.size >= 4) & (positions + self.size <= files.ends)

    def know(self, slots: type[IntEnum]) -> None:
        """There must be no other fields, and none outside of its table."""
        self._files.is_plain &= self._vtable_size <= 4 + 2 * len(slots)
        for slot in slots:
            self._files.is_plain &= self._distance(slot) < self.size

    def require(self, slot: int, size: int) -> Integers:
        """How far from its table a field is that must be there."""
        distance = self._distance(slot)
        self._files.is_plain &= (distance > 0) & (distance + size <= self.size)
        return distance

    def refuse(self, slot: int) -> None:
        """A field must not be there."""
        self._files.is_plain &= self._distance(slot) == 0

    def target(self, slot: int) -> Integers:
        """Where a field points to that must be there."""
        return self._files.follow(self.positions + self.require(slot, 4))

    def _distance(self, slot: int) -> Integers:
        is_there = self._vtable_size >= 6 + 2 * slot
        # A vtable without the slot is read at its start, for nothing.
        distance = self._files.numbers(self.vtables + np.where(is_there, 4 + 2 * slot, 0), "<u2")
        return np.where(is_there, distance, 0)
