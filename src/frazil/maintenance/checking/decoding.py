"""Decoding chunks as Zarr would: what only the bytes themselves can tell."""

import json
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.errors import StorageError
from frazil.format.chunks import ChunkTable
from frazil.format.references import ChunkKind, ChunkRef, NativeRef, VirtualRef
from frazil.maintenance.checking.chunks import Place
from frazil.maintenance.checking.problems import Problem, Problems, error, note
from frazil.maintenance.checking.snapshots import EncodedArray

Kinds = frozenset[ChunkKind]

OWN = frozenset({ChunkKind.NATIVE, ChunkKind.INLINE})
"""Chunks that a repository itself holds."""
ALL = OWN | {ChunkKind.VIRTUAL}

ReadChunk = Callable[[ChunkRef], bytes | None]
"""The bytes of a chunk; None where others tell why there are none."""

_Region = tuple[slice, ...]


def find_rows(table: ChunkTable, num_chunks: tuple[int, ...], kinds: Kinds) -> list[int]:
    """The rows of chunks of some kinds that an array has a place for."""
    inside = np.all(table.coordinates < np.array(num_chunks, np.uint64), axis=1)
    rows: list[int] = np.flatnonzero(np.isin(table.kind, list(kinds)) & inside).tolist()
    return rows


def check_row(
    array: EncodedArray, table: ChunkTable, place: Place, read: ReadChunk, row: int
) -> Problem | None:
    """What is wrong with the bytes of a chunk, if anything is."""
    ref = table.ref(row)
    key, coordinate = _name(ref, place), tuple(table.coordinates[row].tolist())
    try:
        data = read(ref)
    except StorageError as failure:
        if isinstance(ref, VirtualRef):
            return error(key, failure.message, path=array.path, coordinate=coordinate)
        raise
    return None if data is None else next(check_chunk(array, coordinate, data, key), None)


def _name(ref: ChunkRef, place: Place) -> str:
    """The object that has the bytes of a chunk."""
    match ref:
        case NativeRef():
            return f"{place.folder}/{ref.chunk_id}"
        case VirtualRef():
            return ref.location
    return place.key


def check_chunk(
    array: EncodedArray, coordinate: tuple[int, ...], data: bytes, key: str
) -> Problems:
    """Whether a chunk's bytes decode to a chunk of its array."""
    try:
        opened = _open(array.user_data, coordinate, data)
    # Zarr and its plugins raise whatever they like.
    except Exception as failure:
        yield note(key, f"Zarr can't open its array here: {failure}", path=array.path)
        return
    region = _region(json.loads(array.user_data), coordinate)
    try:
        opened[region]
    except Exception as failure:
        what = f"its bytes can't be decoded: {type(failure).__name__}: {failure}"
        yield error(key, what, path=array.path, coordinate=coordinate)


def _open(user_data: bytes, coordinate: tuple[int, ...], data: bytes) -> "zarr.Array[Any]":
    """The array with one chunk."""
    buffer = default_buffer_prototype().buffer
    name = "/".join(["c", *map(str, coordinate)])
    files = {"zarr.json": buffer.from_bytes(user_data), name: buffer.from_bytes(data)}
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(MemoryStore(files), mode="r", zarr_format=3)


def _region(document: Mapping[str, Any], coordinate: tuple[int, ...]) -> _Region:
    """The elements of a chunk."""
    configuration = document["chunk_grid"]["configuration"]
    lengths = configuration.get("chunk_shape") or configuration.get("chunk_shapes") or []
    return tuple(_extent(each, at) for each, at in zip(lengths, coordinate, strict=True))


def _extent(lengths: Any, at: int) -> slice:
    if isinstance(lengths, int):
        return slice(lengths * at, lengths * (at + 1))
    pairs = (item if isinstance(item, list) else (item, 1) for item in lengths)
    edges = [0, *accumulate(size for size, times in pairs for _ in range(times))]
    return slice(edges[at], edges[at + 1])
