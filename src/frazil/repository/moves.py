"""Move nodes, and move chunks within an array, without copying data."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from frazil.errors import AlreadyExistsError, InvalidInputError, ReadOnlyError, SessionStateError
from frazil.format import coordinates as coords_
from frazil.format.manifest import ChunkTable
from frazil.format.metadata import parent_path, validate_path
from frazil.format.snapshot import Node
from frazil.ops import SessionMode
from frazil.repository.context import SessionState
from frazil.repository.zarr_keys import Coordinate, is_rectilinear

Reindexing = Callable[[Iterable[int]], Iterable[int] | None]
"""Function from the old to the new coordinates of a chunk; None leaves the chunk in place."""


def move_node(state: SessionState, from_path: str, to_path: str) -> None:
    """Move a node and its descendants to another path."""
    validate_path(from_path)
    validate_path(to_path)
    if not state.context.protocol.has_repo_info:
        raise state.context.protocol.unsupported("moves")
    with state.lock:
        _refuse_move(state, from_path, to_path)
        _refuse_mode(state)
        for node in list(state.view.descendants(from_path)):
            state.changes.move(node, to_path + node.path[len(from_path) :])


def _refuse_move(state: SessionState, from_path: str, to_path: str) -> None:
    state.view.get_node(from_path)
    if f"{to_path}/".startswith(f"{from_path}/") or from_path == "/":
        raise SessionStateError(
            f"cannot move `{from_path}` into itself or its own descendant `{to_path}`",
            kind="move-into-self-or-descendant",
        )
    if state.view.find_node(to_path) is not None:
        raise AlreadyExistsError(
            f"move cannot overwrite existing node at `{to_path}`", kind="move-wont-overwrite"
        )
    parent = state.view.find_node(parent_path(to_path))
    if parent is None:
        raise SessionStateError(
            f"cannot move to `{to_path}`: the destination's parent group `{parent_path(to_path)}` does"
            f" not exist, create it in a writable session before moving `{from_path}`",
            kind="move-destination-parent-missing",
        )
    if parent.array is not None:
        raise SessionStateError(
            f"cannot move to `{to_path}`: the destination's parent `{parent.path}` is an array, not a"
            f" group, and nothing can be moved into it",
            kind="move-destination-parent-not-group",
        )


def _refuse_mode(state: SessionState) -> None:
    if state.mode is SessionMode.readonly:
        raise ReadOnlyError(
            "Read only sessions cannot modify the repository: move nodes in a rearrange session"
        )
    if state.mode is not SessionMode.rearrange:
        raise SessionStateError(
            "To move nodes in the hierarchy you need to create a rearrange session: this one is for"
            " edits",
            kind="non-rearrange-session",
        )


def shift_array(state: SessionState, path: str, offset: Sequence[int]) -> None:
    """Shift all chunks of an array by an offset in chunks; those that leave the grid are dropped."""
    with state.lock:
        node, grid = _regular_array(state, path)
        state.refuse_unless_writable()
        if len(offset) != len(grid):
            raise InvalidInputError(
                f"invalid offset of {len(offset)} axes: {path!r} has {len(grid)}",
                kind="invalid-chunk-index",
            )
        table = state.view.table(node)
        moved = table.coordinates.astype(np.int64) + np.array(offset, np.int64)
        stays = np.all((moved >= 0) & (moved < np.array(grid, np.int64)), axis=1)
        _replace_all(state, node, table, stays, moved[stays])


def move_chunks(
    state: SessionState, path: str, axis: int, places: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> None:
    """Move the chunks of an array along one axis to new indices, by old index."""
    with state.lock:
        node, _ = _regular_array(state, path)
        state.refuse_unless_writable()
        table = state.view.table(node)
        moved = table.coordinates.astype(np.int64)
        moved[:, axis] = places[moved[:, axis]]
        _replace_all(state, node, table, np.ones(len(table), bool), moved)


def reindex_array(
    state: SessionState, path: str, forward: Reindexing, backward: Reindexing | None
) -> None:
    """Move each chunk of an array to the coordinates that `forward` returns.

    Without `backward`, coordinates that nothing moves to keep their chunk. With it, coordinates
    whose origin has no chunk are cleared.
    """
    with state.lock:
        node, grid = _regular_array(state, path)
        table = state.view.table(node)
        edits = {}
        for row, old in enumerate(map(tuple, table.coordinates.tolist())):
            new = _apply(forward, old, grid, path)
            if new is not None:
                edits[new] = table.ref(row)
        cleared = _cleared(table, grid, path, backward) if backward else []
        state.refuse_unless_writable()
        for place in cleared:
            if place not in edits:
                state.changes.edit_chunks(node).set(place, None)
        state.changes.sources |= state.origins
        for place, ref in edits.items():
            state.changes.edit_chunks(node).set(place, ref)


def _cleared(
    table: ChunkTable, grid: Coordinate, path: str, backward: Reindexing
) -> list[Coordinate]:
    there = set(map(tuple, table.coordinates.tolist()))
    return [place for place in there if _apply(backward, place, grid, path) not in there]


def _apply(function: Reindexing, old: Coordinate, grid: Coordinate, path: str) -> Coordinate | None:
    result = function(list(old))
    if result is None:
        return None
    new = tuple(result)
    if len(new) != len(grid) or any(
        not 0 <= index < count for index, count in zip(new, grid, strict=True)
    ):
        raise InvalidInputError(
            f"{path!r} has {list(grid)} chunks, and so no chunk {list(new)}",
            kind="invalid-chunk-index",
        )
    return new


def _regular_array(state: SessionState, path: str) -> tuple[Node, Coordinate]:
    node, array = state.view.get_array(validate_path(path))
    if is_rectilinear(node.user_data):
        raise InvalidInputError(
            f"{path!r} has a rectilinear chunk grid: only chunks of a regular grid can be moved",
            kind="invalid-array-metadata",
        )
    return node, tuple(each.num_chunks for each in array.shape)


def _replace_all(
    state: SessionState,
    node: Node,
    table: ChunkTable,
    stays: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    places: "np.ndarray[tuple[int, int], np.dtype[np.int64]]",
) -> None:
    """Clear all chunks of an array, and set the remaining ones at their new coordinates."""
    if not len(table):
        return
    state.changes.sources |= state.origins
    edits = state.changes.edit_chunks(node)
    moved = replace(table.take(stays), coordinates=places.astype(np.uint32)).sort()
    edits.delete_many(coords_.without(table.coordinates, moved.coordinates))
    edits.set_table(moved)
