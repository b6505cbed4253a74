"""What a session's store changes: metadata of nodes, and chunks."""

from dataclasses import replace

from frazil.assets import new_node_id
from frazil.engine.array_metadata import read_node_metadata
from frazil.engine.changes import with_manifests_of
from frazil.engine.keys import ChunkKey, Coordinate, MetadataKey, parse_key
from frazil.engine.state import SessionState
from frazil.engine.view import is_in_grid
from frazil.errors import AlreadyExistsError, InvalidInputError, SessionStateError
from frazil.format.dialect import Dialect
from frazil.format.ids import NodeId
from frazil.format.references import ChunkRef, InlineRef, NativeRef
from frazil.format.snapshot import Node
from frazil.storage.interface import Buffer

_NUMBERED_NODES = frozenset({Dialect.DRAFT, Dialect.ALPHA_A})


def set_key(state: SessionState, key: str, data: Buffer) -> None:
    """Set the metadata of a node, or a chunk."""
    match parse_key(key):
        case ChunkKey(path, coordinate):
            set_chunk(state, path, coordinate, data)
        case MetadataKey(path):
            set_metadata(state, path, bytes(data))
        case _:
            raise second_format(key)


async def set_key_async(state: SessionState, key: str, data: Buffer) -> None:
    """`set_key` for an event loop."""
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
            raise second_format(key)


def second_format(key: str) -> SessionStateError:
    """The error for keys of Zarr's second format."""
    return SessionStateError(
        f"{key!r} belongs to Zarr's second format, which can't be stored", kind="unimplemented"
    )


# Nodes


def set_metadata(state: SessionState, path: str, data: bytes) -> None:
    """Make a node, or give one other metadata; the same metadata is no change."""
    array = read_node_metadata(data, state.surroundings.dialect)
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
    """Delete an array, or a group and all below it; nothing where there is no node."""
    with state.lock:
        state.refuse_unless_writable()
        node = state.view.find_node(path)
        if node is not None and node.array is not None:
            state.changes.delete(node)
        elif node is not None:
            delete_nodes_below(state, path)


def delete_nodes_below(state: SessionState, path: str) -> None:
    """Delete all nodes at and below a path, where there need not be one."""
    with state.lock:
        state.refuse_unless_writable()
        for node in list(state.view.descendants(path)):
            state.changes.delete(node)


def _next_node_id(state: SessionState) -> NodeId:
    if state.surroundings.dialect not in _NUMBERED_NODES:
        return new_node_id()
    ids = [node.id for node in state.view.snapshot.nodes.values()]
    return NodeId.from_number(
        1 + max((id.to_number() for id in [*ids, *state.changes.created]), default=0)
    )


# Chunks


def set_chunk(state: SessionState, path: str, coordinate: Coordinate, data: Buffer) -> None:
    """Write a chunk: into the manifest if it is small, else into a file of its own."""
    refuse_place(state, path, coordinate, len(data))
    ref = _inline(state, data) or NativeRef(state.assets.write_chunk(data), 0, len(data))
    set_ref(state, path, coordinate, ref)


def refuse_place(state: SessionState, path: str, coordinate: Coordinate, size: int) -> None:
    """Refuse a chunk that has no place, or no bytes, before anything is written."""
    state.refuse_unless_writable()
    state.view.get_array(path)
    if not size:
        raise InvalidInputError(
            f"chunk {list(coordinate)} of {path!r} has no bytes, which can't be a whole chunk",
            kind="zero-length-chunk",
        )
    _array_with_place(state, path, coordinate)


def set_ref(state: SessionState, path: str, coordinate: Coordinate, ref: ChunkRef | None) -> None:
    """Set where a chunk is, or with None that there is none."""
    with state.lock:
        # Others may have committed the session while the chunk was written.
        state.refuse_unless_writable()
        node = _array_with_place(state, path, coordinate)
        state.changes.edit_chunks(node).set(coordinate, ref)


def delete_chunk(state: SessionState, path: str, coordinate: Coordinate) -> None:
    """Delete a chunk; nothing where there is no place for one."""
    with state.lock:
        state.refuse_unless_writable()
        node = state.view.find_node(path)
        if node is not None and node.array is not None and is_in_grid(node.array, coordinate):
            state.changes.edit_chunks(node).set(coordinate, None)


def _inline(state: SessionState, data: Buffer) -> InlineRef | None:
    if len(data) > state.surroundings.settings.inline_chunk_threshold_bytes:
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


# Many at once


def delete_key(state: SessionState, key: str) -> None:
    """Delete a node with all below it, or a chunk; nothing where there is none."""
    match parse_key(key):
        case ChunkKey(path, coordinate):
            delete_chunk(state, path, coordinate)
        case MetadataKey(path):
            delete_node(state, path)
        case _:
            state.refuse_unless_writable()


def delete_chunks_below(state: SessionState, path: str, start: Coordinate) -> None:
    """Delete the chunks of an array whose coordinates start so."""
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
    """Delete everything."""
    delete_nodes_below(state, "/")
