"""What statistics of a version tell of a condition, as far as they are fresh."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from frazil.engine.view import View
from frazil.format.chunks import ChunkTable
from frazil.format.snapshot import Node
from frazil.frames.arrays import Arrays
from frazil.frames.chunk_truths import ChunkTruth
from frazil.frames.columns import Column, group_path
from frazil.frames.conditions import Leaf
from frazil.frames.grids import Grid
from frazil.frames.statistics.digests import take_digest
from frazil.frames.statistics.fingerprints import (
    NONE,
    Fingerprints,
    take_some_fingerprints,
)
from frazil.frames.statistics.storing import group_of, read_statistics
from frazil.frames.statistics.telling import tell_of_measures

_LOOKED_UP = 64
"""References of so many chunks are looked up one by one; for more of them all are read."""


def tell_of_chunks(
    arrays: Arrays,
    column: Column,
    grid: Grid,
    leaves: Sequence[Leaf],
    wanted: NDArray[np.bool_],
) -> Mapping[Leaf, ChunkTruth]:
    """What is known of leaves about an array, for those of its chunks that are wanted.

    Of a chunk that has changed since it was measured, nothing is.
    """
    path = array_path(arrays.group, column.name)
    view = arrays.session.state.view
    if not grid.dims or view.find_node(group_of(path)) is None:
        return {}
    node, _ = view.get_array(path)
    digest = take_digest(node, arrays.open().variables[column.name], column.type)
    kept = read_statistics(arrays.session, path, grid, column.type, digest)
    if kept is None:
        return {}
    found = {leaf: tell_of_measures(leaf, kept.columns) for leaf in leaves}
    says_something = np.logical_or.reduce(
        [~(np.asarray(each.can_be_true) & each.can_be_false) for each in found.values()]
    )
    # References may be read for nothing but this, so of no more chunks than can be left out by it.
    asked = np.argwhere(says_something & wanted & (kept.fingerprints != NONE)).astype(np.int64)
    is_fresh = np.zeros(grid.shape, np.bool_)
    if len(asked):
        now = find_fingerprints(view, node, grid, asked)
        index = tuple(asked.T)
        is_fresh[index] = (now != NONE) & (now == kept.fingerprints[index])
    return {
        leaf: ChunkTruth(grid, each.can_be_true | ~is_fresh, each.can_be_false | ~is_fresh)
        for leaf, each in found.items()
    }


def find_fingerprints(
    view: View, node: Node, grid: Grid, chunks: NDArray[np.int64]
) -> Fingerprints:
    """Of some chunks of an array, as they are in a version."""
    if len(chunks) > _LOOKED_UP:
        return take_some_fingerprints(grid, chunks, view.tables(node))
    places = [tuple(each) for each in chunks.tolist()]
    refs = {place: view.find_chunk(node, place) for place in places}
    written = {place: ref for place, ref in refs.items() if ref is not None}
    table = ChunkTable.of(len(grid.dims), written, view.changes.id_size)
    return take_some_fingerprints(grid, chunks, [table])


def array_path(group: str, name: str) -> str:
    """The path of an array of a group."""
    return f"{group_path(group).rstrip('/')}/{name}"
