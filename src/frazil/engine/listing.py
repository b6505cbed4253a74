"""Keys of a session's store, given as they are found."""

from collections.abc import Iterator

import numpy as np

from frazil.engine.keys import METADATA, chunk_prefix, metadata_key, prefix_path
from frazil.engine.state import SessionState
from frazil.engine.writing import delete_chunks_below, delete_nodes_below
from frazil.format.coordinates import Coordinates
from frazil.format.paths import ROOT, path_name
from frazil.format.snapshot import Node

_BATCH = 10_000


def list_keys(state: SessionState, prefix: str = "") -> Iterator[str]:
    """All keys at and below a path: of its nodes, and of their chunks."""
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
    """The names right below a path."""
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
    """The bytes of all keys at and below a path."""
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
    """The array whose chunks a path like `/array/c/0` names, and the indices that it gives."""
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
