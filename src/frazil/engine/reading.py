"""What a session's store reads: metadata of nodes, and chunks, whole or in part."""

import asyncio
from dataclasses import dataclass

from frazil.engine.keys import ChunkKey, Coordinate, MetadataKey, parse_key
from frazil.engine.state import SessionState
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.format.references import ChunkRef, InlineRef, NativeRef
from frazil.format.snapshot import Node
from frazil.storage.interface import Buffer, ByteOffset, ByteRange, ByteSuffix, Range


def read_key(state: SessionState, key: str, range: Range | None = None) -> Buffer | None:
    """The bytes of a key, or some of them; None where there are none."""
    found = _find(state, key)
    if found is None:
        return None
    if isinstance(found, _Chunk):
        ref = state.view.find_chunk(found.node, found.coordinate)
        return None if ref is None else read_ref(state, ref, range)
    return _slice(found, range)


async def read_key_async(
    state: SessionState, key: str, range: Range | None = None
) -> Buffer | None:
    """`read_key` for an event loop."""
    found = _find(state, key)
    if found is None:
        return None
    if isinstance(found, _Chunk):
        ref = await _find_ref_async(state, found)
        return None if ref is None else await read_ref_async(state, ref, range)
    return _slice(found, range)


def read_ref(state: SessionState, ref: ChunkRef, range: Range | None = None) -> Buffer:
    """The bytes of a chunk, or some of them."""
    if type(ref) is InlineRef:
        return _slice(ref.data, range)
    assert not isinstance(ref, InlineRef)
    start, end = resolve(range, ref.length)
    if type(ref) is NativeRef:
        return state.assets.read_chunk(ref.chunk_id, ref.offset + start, ref.offset + end)
    assert not isinstance(ref, NativeRef)
    return state.surroundings.virtual.read(ref, start, end)


async def read_ref_async(state: SessionState, ref: ChunkRef, range: Range | None = None) -> Buffer:
    """`read_ref` for an event loop."""
    if isinstance(ref, InlineRef):
        return _slice(ref.data, range)
    start, end = resolve(range, ref.length)
    if isinstance(ref, NativeRef):
        return await state.assets.read_chunk_async(
            ref.chunk_id, ref.offset + start, ref.offset + end
        )
    return await state.surroundings.virtual.read_async(ref, start, end)


def has_key(state: SessionState, key: str) -> bool:
    """Whether a key has bytes; raises NodeNotFoundError for keys of Zarr's second format."""
    match parse_key(key):
        case MetadataKey(path):
            return state.view.find_node(path) is not None
        case ChunkKey(path, coordinate):
            node = _find_array(state, path)
            return node is not None and state.view.find_chunk(node, coordinate) is not None
        case _:
            raise _second_format(key)


def key_size(state: SessionState, key: str) -> int:
    """How many bytes a key has; a chunk that is not there has none."""
    match parse_key(key):
        case MetadataKey(path):
            return len(state.view.get_node(path).user_data)
        case ChunkKey(path, coordinate):
            node, _ = state.view.get_array(path)
            return ref_size(state.view.find_chunk(node, coordinate))
        case _:
            raise _second_format(key)


def ref_size(ref: ChunkRef | None) -> int:
    """How many bytes a chunk has."""
    if ref is None:
        return 0
    return len(ref.data) if isinstance(ref, InlineRef) else ref.length


def resolve(range: Range | None, length: int) -> tuple[int, int]:
    """Where a range of bytes starts and ends; raises InvalidInputError outside of the bytes."""
    match range:
        case None:
            return 0, length
        case ByteRange(start, end) if end <= length and start < max(length, 1):
            return start, end
        case ByteOffset(start) if start < length:
            return start, length
        case ByteSuffix(count) if count <= length:
            return length - count, length
    raise InvalidInputError(
        f"{range} is not within the {length} bytes that there are", kind="invalid-byte-range"
    )


@dataclass(slots=True)
class _Chunk:
    node: Node
    coordinate: Coordinate


def _find(state: SessionState, key: str) -> _Chunk | bytes | None:
    match parse_key(key):
        case ChunkKey(path, coordinate):
            node = _find_array(state, path)
            return None if node is None else _Chunk(node, coordinate)
        case MetadataKey(path):
            node = state.view.find_node(path)
            return None if node is None else node.user_data
    return None


def _find_array(state: SessionState, path: str) -> Node | None:
    node = state.view.find_node(path)
    if node is not None and node.array is None:
        raise InvalidInputError(f"{path!r} is a group and has no chunks", kind="not-an-array")
    return node


async def _find_ref_async(state: SessionState, chunk: _Chunk) -> ChunkRef | None:
    view = state.view
    if state.assets.storage.is_local or view.is_cached(chunk.node, chunk.coordinate):
        return view.find_chunk(chunk.node, chunk.coordinate)
    return await asyncio.to_thread(view.find_chunk, chunk.node, chunk.coordinate)


def _slice(data: bytes, range: Range | None) -> Buffer:
    if range is None:
        return data
    start, end = resolve(range, len(data))
    return data[start:end]


def _second_format(key: str) -> NodeNotFoundError:
    return NodeNotFoundError(f"{key!r} belongs to Zarr's second format", kind="key-not-found")
