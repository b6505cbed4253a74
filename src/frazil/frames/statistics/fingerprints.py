"""Fingerprints of chunks: numbers that change when the cells of a chunk may have changed. Pure.

Of a chunk that was written it is a hash of its reference, of others a constant; both are mixed with the
shape that the array leaves of the chunk, because an array that grows shows more of its last
chunks. A chunk in a file outside the repository has none unless its reference has a checksum: nobody
could tell that the file was replaced.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from frazil.format.chunks import ChunkTable
from frazil.format.references import ChunkKind
from frazil.format.strings import Strings
from frazil.frames.grids import Grid

Fingerprints = NDArray[np.uint64]

NONE = np.uint64(0)
"""The fingerprint of what has none."""
_NOT_WRITTEN = np.uint64(0x6E6F742077726974)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def take_fingerprints(grid: Grid, tables: Iterable[ChunkTable]) -> Fingerprints:
    """Of all chunks of a grid, given the references of those that were written."""
    found = np.full(grid.shape, _NOT_WRITTEN)
    for table in tables:
        found[tuple(table.coordinates.T.astype(np.int64))] = hash_references(table)
    return _mix_with_extents(found, [np.diff(each) for each in grid.offsets])


def take_some_fingerprints(
    grid: Grid, chunks: NDArray[np.int64], tables: Iterable[ChunkTable]
) -> Fingerprints:
    """Of some chunks of a grid, a row of coordinates each, given at least their references."""
    found = np.full(len(chunks), _NOT_WRITTEN)
    for table in tables:
        rows = table.locate(chunks.astype(np.uint32))
        is_there = rows >= 0
        found[is_there] = hash_references(table)[rows[is_there]]
    extents = [np.diff(each)[column] for each, column in zip(grid.offsets, chunks.T, strict=True)]
    return _mix_all(found, extents)


def hash_references(table: ChunkTable) -> Fingerprints:
    """Of each reference, without the shape of its chunk."""
    if not len(table):
        return np.zeros(0, np.uint64)
    texts = {name: _hash_texts(getattr(table, name)) for name in ("locations", "etags")}
    is_inline = table.kind == ChunkKind.INLINE
    words = [
        table.kind.astype(np.uint64),
        # Where inline bytes are in their table says nothing about them.
        np.where(is_inline, 0, table.offset).astype(np.uint64),
        table.length.astype(np.uint64),
        *_words_of(table.chunk_id),
        texts["locations"][table.location],
        texts["etags"][table.etag],
        table.last_modified.astype(np.uint64),
        _hash_inline(table, is_inline),
    ]
    found = _mix_all(np.full(len(table), _STEP), words)
    is_unsure = (table.kind == ChunkKind.VIRTUAL) & (table.etag < 0) & (table.last_modified == 0)
    found[is_unsure] = NONE
    return found


def _words_of(ids: NDArray[np.uint8]) -> list[Fingerprints]:
    """Ids as numbers of eight bytes."""
    count, size = ids.shape
    padded = np.zeros((count, -(-size // 8) * 8), np.uint8)
    padded[:, :size] = ids
    return list(padded.view("<u8").astype(np.uint64).T)


def _hash_texts(texts: Strings) -> Fingerprints:
    """Of each text, and a last one for none, which -1 finds."""
    return np.array([*map(_hash, texts.encoded_list()), 0], np.uint64)


def _hash_inline(table: ChunkTable, is_inline: NDArray[np.bool_]) -> Fingerprints:
    found = np.zeros(len(table), np.uint64)
    for row in np.flatnonzero(is_inline).tolist():
        start, length = int(table.offset[row]), int(table.length[row])
        found[row] = _hash(table.inline[start : start + length].tobytes())
    return found


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _mix_with_extents(found: Fingerprints, extents: Sequence[NDArray[np.int64]]) -> Fingerprints:
    axes = len(extents)
    spread = [
        each.reshape([-1 if i == axis else 1 for i in range(axes)])
        for axis, each in enumerate(extents)
    ]
    return _mix_all(found, spread)


def _mix_all(found: Fingerprints, words: Sequence[NDArray[np.generic]]) -> Fingerprints:
    """Each with the words at its place; what is none stays none, and nothing else becomes it."""
    mixed = found
    for word in words:
        mixed = _mix(mixed ^ word.astype(np.uint64))
    return np.where(found == NONE, NONE, np.maximum(mixed, np.uint64(1)))


def _mix(words: Fingerprints) -> Fingerprints:
    """The step of SplitMix64, which changes half of the bits whichever one was changed."""
    found = words + _STEP
    found = (found ^ (found >> np.uint64(30))) * _FIRST
    found = (found ^ (found >> np.uint64(27))) * _SECOND
    return found ^ (found >> np.uint64(31))
