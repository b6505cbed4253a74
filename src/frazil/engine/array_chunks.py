"""Chunk references of arrays as users ask for them: in columns, as locations, or one's kind."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from frazil.engine.keys import Coordinate
from frazil.engine.state import SessionState
from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import Coordinates
from frazil.format.ids import ALPHABET
from frazil.format.references import ChunkKind, InlineRef, NativeRef
from frazil.storage import ChunkType
from frazil.virtual.locations import ContainerIndex, index_containers

ChunkBatch = tuple[
    Coordinates,
    NDArray[np.uint8],
    list[str],
    NDArray[np.uint64],
    NDArray[np.uint64],
    dict[int, bytes],
]
"""Coordinates, kinds, places (a URL, the id of a chunk, or nothing), offsets, lengths, and the bytes
of inline chunks by their row."""

_RELATIVE = "vcc://"
_LETTERS = np.frombuffer(ALPHABET.encode(), np.uint8)


def chunk_batches(state: SessionState, path: str, batch_size: int) -> Iterator[ChunkBatch]:
    """The chunks of an array, a manifest at a time, up to so many at once; none where no array is."""
    node = state.view.find_node(path)
    if node is None or node.array is None:
        return
    for table in state.view.tables(node):
        locations = _absolute_locations(state, table)
        for start in range(0, len(table), batch_size):
            yield _batch(table.take(slice(start, start + batch_size)), locations)


def all_virtual_chunk_locations(state: SessionState) -> list[str]:
    """Where the virtual chunks of all arrays are, as absolute URLs, one for each chunk."""
    found: list[str] = []
    for node in state.view.nodes():
        if node.array is not None:
            for table in state.view.tables(node):
                codes = table.location[table.kind == ChunkKind.VIRTUAL]
                found += _absolute_locations(state, table)[codes].tolist()
    return found


def chunk_type(state: SessionState, path: str, coordinate: Coordinate) -> ChunkType:
    """How a chunk is kept; raises NodeNotFoundError, or InvalidInputError for a group."""
    node, _ = state.view.get_array(path)
    match state.view.find_chunk(node, coordinate):
        case None:
            return ChunkType.uninitialized
        case NativeRef():
            return ChunkType.native
        case InlineRef():
            return ChunkType.inline
    return ChunkType.virtual


def _batch(table: ChunkTable, locations: NDArray[np.object_]) -> ChunkBatch:
    places = np.full(len(table), "", object)
    virtual, native = table.kind == ChunkKind.VIRTUAL, table.kind == ChunkKind.NATIVE
    places[virtual] = locations[table.location[virtual]]
    places[native] = spell_ids(table.chunk_id[native])
    inline = np.flatnonzero(table.kind == ChunkKind.INLINE).tolist()
    offsets = np.where(table.kind == ChunkKind.INLINE, np.uint64(0), table.offset)
    return (
        np.ascontiguousarray(table.coordinates),
        np.ascontiguousarray(table.kind),
        places.tolist(),
        offsets,
        np.ascontiguousarray(table.length),
        {row: _inline_bytes(table, row) for row in inline},
    )


def _inline_bytes(table: ChunkTable, row: int) -> bytes:
    start = int(table.offset[row])
    return table.inline[start : start + int(table.length[row])].tobytes()


def _absolute_locations(state: SessionState, table: ChunkTable) -> NDArray[np.object_]:
    """The URLs of a table's locations, by number; each is looked at once."""
    index = index_containers(state.surroundings.virtual.containers)
    texts = [_absolute_location(index, text) for text in table.locations]
    return np.array([*texts, ""], object)[:-1]


def _absolute_location(index: ContainerIndex, location: str) -> str:
    """As it was given: to be shown, a location is not spelled anew as it is to be read."""
    if not location.startswith(_RELATIVE):
        return location
    name, _, path = location.removeprefix(_RELATIVE).partition("/")
    container = index.named.get(name)
    return index.absolute_location(location) if container is None else container.url_prefix + path


def spell_ids(ids: NDArray[np.uint8]) -> list[str]:
    """The base32 spelling of ids that are rows of bytes, as `str` gives it one by one."""
    count, size = ids.shape
    length = (size * 8 + 4) // 5
    bits = np.zeros((count, length * 5), np.uint8)
    bits[:, : size * 8] = np.unpackbits(np.ascontiguousarray(ids), axis=1)
    digits = np.packbits(bits.reshape(count, length, 5), axis=2)[:, :, 0] >> 3
    spelled: list[bytes] = _LETTERS[digits].view(f"S{length}").ravel().tolist()
    return [each.decode() for each in spelled]
