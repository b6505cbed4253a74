"""Read, write and list Zarr keys of a session."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NodeNotFoundError,
    SessionStateError,
)
from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId
from frazil.format.manifest import ChunkRef, InlineRef, NativeRef
from frazil.format.metadata import ROOT, path_name
from frazil.format.snapshot import Node
from frazil.lazy import dataclass
from frazil.protocols.assets import new_node_id
from frazil.repository.changes import with_manifests_of
from frazil.repository.context import SessionState
from frazil.repository.view import is_in_grid
from frazil.repository.zarr_keys import (
    METADATA,
    ChunkKey,
    Coordinate,
    MetadataKey,
    chunk_prefix,
    metadata_key,
    parse_key,
    prefix_path,
    read_node_metadata,
)
from frazil.storage.interface import Buffer, ByteOffset, ByteRange, ByteSuffix, Range


def read_key(state: SessionState, key: str, range: Range | None = None) -> Buffer | None:
    """Return the value of a key, or a byte range of it; None if the key does not exist."""
    view = state.view
    located = view.located.get(key) or (view.look_up(key) if type(key) is str else None)
    if located is None:
        found = _find(state, key)
        if not isinstance(found, _Chunk):
            return None if found is None else _slice(found, range)
        ref = view.find_chunk(found.node, found.coordinate)
        if ref is None:
            return None
        located = view.locate(key, ref)
        if located is None:
            return read_ref(state, ref, range)
    name, offset, length = located
    start, end = (0, length) if range is None else resolve(range, length)
    return view.assets.storage.get(name, ByteRange(offset + start, offset + end))


async def read_key_async(
    state: SessionState, key: str, range: Range | None = None
) -> Buffer | None:
    """Run `read_key` on an event loop."""
    view = state.view
    located = view.located.get(key) or (view.look_up(key) if type(key) is str else None)
    if located is None:
        found = _find(state, key)
        if not isinstance(found, _Chunk):
            return None if found is None else _slice(found, range)
        ref = await _find_ref_async(state, found)
        if ref is None:
            return None
        located = view.locate(key, ref)
        if located is None:
            return await read_ref_async(state, ref, range)
    name, offset, length = located
    start, end = (0, length) if range is None else resolve(range, length)
    return await view.assets.storage.get_async(name, ByteRange(offset + start, offset + end))


def read_ref(state: SessionState, ref: ChunkRef, range: Range | None = None) -> Buffer:
    """Return the data of a chunk, or a byte range of it."""
    if type(ref) is InlineRef:
        return _slice(ref.data, range)
    assert not isinstance(ref, InlineRef)
    start, end = resolve(range, ref.length)
    if type(ref) is NativeRef:
        return state.assets.read_chunk(ref.chunk_id, ref.offset + start, ref.offset + end)
    assert not isinstance(ref, NativeRef)
    return state.context.virtual.read(ref, start, end)


async def read_ref_async(state: SessionState, ref: ChunkRef, range: Range | None = None) -> Buffer:
    """Run `read_ref` on an event loop."""
    if isinstance(ref, InlineRef):
        return _slice(ref.data, range)
    start, end = resolve(range, ref.length)
    if isinstance(ref, NativeRef):
        return await state.assets.read_chunk_async(
            ref.chunk_id, ref.offset + start, ref.offset + end
        )
    return await state.context.virtual.read_async(ref, start, end)


def has_key(state: SessionState, key: str) -> bool:
    """Return True if a key exists; raises NodeNotFoundError for Zarr V2 keys."""
    match parse_key(key):
        case MetadataKey(path):
            return state.view.find_node(path) is not None
        case ChunkKey(path, coordinate):
            node = _find_array(state, path)
            return node is not None and state.view.find_chunk(node, coordinate) is not None
        case _:
            raise _zarr_v2_not_found(key)


def key_size(state: SessionState, key: str) -> int:
    """Return the size of a key's value in bytes; 0 for a chunk that does not exist."""
    match parse_key(key):
        case MetadataKey(path):
            return len(state.view.get_node(path).user_data)
        case ChunkKey(path, coordinate):
            node, _ = state.view.get_array(path)
            return ref_size(state.view.find_chunk(node, coordinate))
        case _:
            raise _zarr_v2_not_found(key)


def is_shard(state: SessionState, key: str) -> bool:
    """Return True if a key is that of a shard, whose chunks Zarr decodes one by one."""
    parsed = parse_key(key)
    node = state.view.find_node(parsed.path) if isinstance(parsed, ChunkKey) else None
    return node is not None and b'"sharding_indexed"' in node.user_data


def ref_size(ref: ChunkRef | None) -> int:
    """Return the size of a chunk in bytes; 0 if it does not exist."""
    if ref is None:
        return 0
    return len(ref.data) if isinstance(ref, InlineRef) else ref.length


def resolve(range: Range | None, length: int) -> tuple[int, int]:
    """Return start and end of a byte range; raises InvalidInputError if it exceeds the value."""
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


def _zarr_v2_not_found(key: str) -> NodeNotFoundError:
    return NodeNotFoundError(
        f"{key!r} is a key of Zarr V2: only Zarr V3 is supported", kind="key-not-found"
    )


def set_key(state: SessionState, key: str, data: Buffer) -> None:
    """Set the metadata of a node, or a chunk."""
    match parse_key(key):
        case ChunkKey(path, coordinate):
            set_chunk(state, path, coordinate, data)
        case MetadataKey(path):
            set_metadata(state, path, bytes(data))
        case _:
            raise zarr_v2_refused(key)


async def set_key_async(state: SessionState, key: str, data: Buffer) -> None:
    """Run `set_key` on an event loop."""
    match parse_key(key):
        case ChunkKey(path, coordinate):
            refuse_place(state, path, coordinate, len(data))
            ref = _inline(state, data) or NativeRef(
                await state.assets.write_chunk_async(data), 0, len(data)
            )
            set_ref(state, path, coordinate, ref)
        case MetadataKey(path):
            set_metadata(state, path, bytes(data))
        case _:
            raise zarr_v2_refused(key)


def zarr_v2_refused(key: str) -> SessionStateError:
    """Return the error for writing Zarr V2 keys."""
    return SessionStateError(
        f"{key!r} is a key of Zarr V2, which can't be stored: write with zarr_format=3",
        kind="unimplemented",
    )


# Nodes


def set_metadata(state: SessionState, path: str, data: bytes) -> None:
    """Create a node, or replace its metadata; identical metadata is no change."""
    array = read_node_metadata(data, state.context.dialect)
    with state.lock:
        node = state.view.find_node(path)
        if node is not None and node.user_data == data and not state.is_read_only:
            return
        state.refuse_unless_writable()
        if node is None:
            state.changes.create(Node(_next_node_id(state), path, data, array))
        elif (node.array is None) is not (array is None):
            raise AlreadyExistsError(
                f"at {path!r} is {'a group' if node.array is None else 'an array'} already"
            )
        else:
            kept = array and node.array and with_manifests_of(array, node.array)
            state.changes.update(replace(node, user_data=data, array=kept))


def delete_node(state: SessionState, path: str) -> None:
    """Delete an array, or a group and its descendants; does nothing if there is no node."""
    with state.lock:
        state.refuse_unless_writable()
        node = state.view.find_node(path)
        if node is not None and node.array is not None:
            state.changes.delete(node)
        elif node is not None:
            delete_nodes_below(state, path)


def delete_nodes_below(state: SessionState, path: str) -> None:
    """Delete all nodes at and below a path, if there are any."""
    with state.lock:
        state.refuse_unless_writable()
        for node in list(state.view.descendants(path)):
            state.changes.delete(node)


def _next_node_id(state: SessionState) -> NodeId:
    if not state.context.dialect.numbers_nodes:
        return new_node_id()
    ids = [node.id for node in state.view.snapshot.nodes.values()]
    return NodeId.from_number(
        1 + max((id.to_number() for id in [*ids, *state.changes.created]), default=0)
    )


# Chunks


def set_chunk(state: SessionState, path: str, coordinate: Coordinate, data: Buffer) -> None:
    """Write a chunk: inline if it is small, otherwise as an object of its own."""
    refuse_place(state, path, coordinate, len(data))
    ref = _inline(state, data) or NativeRef(state.assets.write_chunk(data), 0, len(data))
    set_ref(state, path, coordinate, ref)


def refuse_place(state: SessionState, path: str, coordinate: Coordinate, size: int) -> None:
    """Refuse a chunk that is outside the grid or empty, before anything is written."""
    state.refuse_unless_writable()
    state.view.get_array(path)
    if not size:
        raise InvalidInputError(
            f"chunk {list(coordinate)} of {path!r} has no bytes: delete the key to clear the chunk",
            kind="zero-length-chunk",
        )
    _array_with_place(state, path, coordinate)


def set_ref(state: SessionState, path: str, coordinate: Coordinate, ref: ChunkRef | None) -> None:
    """Set the reference of a chunk, or delete it if `ref` is None."""
    with state.lock:
        # Another thread may have committed the session while the chunk was written.
        state.refuse_unless_writable()
        node = _array_with_place(state, path, coordinate)
        state.changes.edit_chunks(node).set(coordinate, ref)


def delete_chunk(state: SessionState, path: str, coordinate: Coordinate) -> None:
    """Delete a chunk; does nothing outside the grid."""
    with state.lock:
        state.refuse_unless_writable()
        node = state.view.find_node(path)
        if node is not None and node.array is not None and is_in_grid(node.array, coordinate):
            state.changes.edit_chunks(node).set(coordinate, None)


def _inline(state: SessionState, data: Buffer) -> InlineRef | None:
    if len(data) > state.context.settings.inline_chunk_threshold_bytes:
        return None
    return InlineRef(bytes(data))


def _array_with_place(state: SessionState, path: str, coordinate: Coordinate) -> Node:
    node, array = state.view.get_array(path)
    if not is_in_grid(array, coordinate):
        shape = [each.num_chunks for each in array.shape]
        raise InvalidInputError(
            f"{path!r} has {shape} chunks, and so no chunk {list(coordinate)}",
            kind="invalid-chunk-index",
        )
    return node


# Bulk operations


def delete_key(state: SessionState, key: str) -> None:
    """Delete a node and its descendants, or a chunk; does nothing if the key does not exist."""
    match parse_key(key):
        case ChunkKey(path, coordinate):
            delete_chunk(state, path, coordinate)
        case MetadataKey(path):
            delete_node(state, path)
        case _:
            state.refuse_unless_writable()


def delete_chunks_below(state: SessionState, path: str, start: Coordinate) -> None:
    """Delete the chunks of an array whose coordinates start with `start`."""
    with state.lock:
        state.refuse_unless_writable()
        node, _ = state.view.get_array(path)
        for coordinates in list(state.view.coordinates(node)):
            chosen = coordinates
            for axis, index in enumerate(start):
                chosen = chosen[chosen[:, axis] == index]
            if len(chosen):
                state.changes.edit_chunks(node).delete_many(chosen)


def clear(state: SessionState) -> None:
    """Delete all nodes."""
    delete_nodes_below(state, "/")


_BATCH = 10_000


def list_keys(state: SessionState, prefix: str = "") -> Iterator[str]:
    """Yield all keys at and below a path: of nodes and of their chunks."""
    path = prefix_path(prefix)
    array, start = _find_array_above(state, path)
    if array is not None:
        yield from _chunk_keys(state, array, start)
        return
    for node in state.view.descendants(path):
        yield metadata_key(node.path)
        if node.array is not None:
            yield from _chunk_keys(state, node, ())


def list_names(state: SessionState, prefix: str = "") -> Iterator[str]:
    """Yield the names directly below a path."""
    path = prefix_path(prefix)
    array, start = _find_array_above(state, path)
    if array is not None:
        yield from _next_indices(state, array, start)
        return
    node = state.view.find_node(path)
    if node is not None:
        yield METADATA
    if node is not None and node.array is not None:
        yield "c"
    for child in state.view.children(path):
        yield path_name(child.path)


def total_size(state: SessionState, prefix: str = "") -> int:
    """Return the total size in bytes of all keys at and below a path."""
    path = prefix_path(prefix)
    array, start = _find_array_above(state, path)
    if array is not None:
        return _size_of_chunks(state, array, start)
    total = 0
    for node in state.view.descendants(path):
        total += len(node.user_data)
        if node.array is not None:
            total += _size_of_chunks(state, node, ())
    return total


def _size_of_chunks(state: SessionState, node: Node, start: tuple[int, ...]) -> int:
    total = 0
    for table in state.view.tables(node):
        chosen = np.ones(len(table), np.bool_)
        for axis, index in enumerate(start):
            chosen &= table.coordinates[:, axis] == index
        total += int(table.length[chosen].sum())
    return total


def _find_array_above(state: SessionState, path: str) -> tuple[Node | None, tuple[int, ...]]:
    """Return the array of a chunk path such as `/array/c/0`, and the indices in the path."""
    head, separator, tail = f"{path}/".rpartition("/c/")
    indices = tail.rstrip("/").split("/") if tail else []
    if not separator or not all(each.isdecimal() for each in indices):
        return None, ()
    if state.view.find_node(path) is not None:
        return None, ()  # a group or an array may well be called `c`
    node = state.view.find_node(head or ROOT)
    if node is None or node.array is None or len(indices) > len(node.array.shape):
        return None, ()
    return node, tuple(map(int, indices))


def _chunk_keys(state: SessionState, node: Node, start: tuple[int, ...]) -> Iterator[str]:
    prefix = chunk_prefix(node.path)
    for coordinates in _starting_with(state, node, start):
        for first in range(0, len(coordinates), _BATCH):
            for each in coordinates[first : first + _BATCH].tolist():
                yield "/".join((prefix, *map(str, each)))


def _next_indices(state: SessionState, node: Node, start: tuple[int, ...]) -> Iterator[str]:
    assert node.array is not None
    if len(start) == len(node.array.shape):
        return
    seen: set[int] = set()
    for coordinates in _starting_with(state, node, start):
        new = set(coordinates[:, len(start)].tolist()) - seen
        seen |= new
        yield from map(str, sorted(new))


def _starting_with(
    state: SessionState, node: Node, start: tuple[int, ...]
) -> Iterator[Coordinates]:
    for coordinates in state.view.coordinates(node):
        chosen = coordinates
        for axis, index in enumerate(start):
            chosen = chosen[chosen[:, axis] == index]
        yield chosen


def delete_below(state: SessionState, prefix: str) -> None:
    """Delete all keys at and below a path."""
    path = prefix_path(prefix)
    array, start = _find_array_above(state, path)
    if array is not None:
        delete_chunks_below(state, array.path, start)
    else:
        delete_nodes_below(state, path)
