"""What is different in two snapshots, found without transaction logs: nodes by path and id, chunks by
their references."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.engine.changes import ChangeSet
from frazil.engine.view import View
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import Coordinates
from frazil.format.references import ChunkKind
from frazil.format.snapshot import ArrayData, Node, Snapshot
from frazil.format.strings import Strings, unite
from frazil.snapshots import Diff


def compare_snapshots(assets: Assets, old: Snapshot, new: Snapshot) -> Diff:
    """What became of one snapshot's nodes and chunks in another."""
    # Numbers of nodes are used again after a deletion, so that a node is its path and its id.
    before = {(node.path, node.id): node for node in old.nodes.values()}
    after = {(node.path, node.id): node for node in new.nodes.values()}
    created = [after[key] for key in after.keys() - before.keys()]
    deleted = [before[key] for key in before.keys() - after.keys()]
    kept = [(before[key], after[key]) for key in after.keys() & before.keys()]
    updated = [node for former, node in kept if former.user_data != node.user_data]
    old_view = View(assets, old, ChangeSet.of(assets.dialect))
    new_view = View(assets, new, ChangeSet.of(assets.dialect))
    chunks = {node.path: new_view.table(node).coordinates for node in created if node.array}
    chunks |= {
        node.path: changed_chunks(old_view.table(former), new_view.table(node))
        for former, node in kept
        if former.array and node.array and _may_differ(former.array, node.array)
    }
    return Diff(
        new_groups=group_paths(created),
        new_arrays=array_paths(created),
        deleted_groups=group_paths(deleted),
        deleted_arrays=array_paths(deleted),
        updated_groups=group_paths(updated),
        updated_arrays=array_paths(updated),
        chunk_coordinates={path: found for path, found in chunks.items() if len(found)},
    )


def _may_differ(old: ArrayData, new: ArrayData) -> bool:
    """False where the same manifests are read through the same grid."""
    return (old.manifests, old.shape) != (new.manifests, new.shape)


def group_paths(nodes: Iterable[Node]) -> set[str]:
    """The paths of those that are groups."""
    return {node.path for node in nodes if node.array is None}


def array_paths(nodes: Iterable[Node]) -> set[str]:
    """The paths of those that are arrays."""
    return {node.path for node in nodes if node.array is not None}


def changed_chunks(old: ChunkTable, new: ChunkTable) -> Coordinates:
    """Where references were added, replaced or removed."""
    if old.axes != new.axes:
        return new.coordinates
    rows = old.locate(new.coordinates)
    former, current = old.take(rows[rows >= 0]), new.take(rows >= 0)
    replaced = current.coordinates[_differ(former, current)]
    removed = coords_.without(old.coordinates, new.coordinates)
    return coords_.unite([new.coordinates[rows < 0], replaced, removed])


def _differ(old: ChunkTable, new: ChunkTable) -> NDArray[np.bool_]:
    """Which rows of two tables of equal coordinates refer to something else."""
    differ: NDArray[np.bool_] = (old.kind != new.kind) | (old.length != new.length)
    differ |= (old.offset != new.offset) & (new.kind != ChunkKind.INLINE)
    differ |= np.any(old.chunk_id != new.chunk_id, axis=1)
    differ |= old.last_modified != new.last_modified
    differ |= _texts_differ(old.locations, old.location, new.locations, new.location)
    differ |= _texts_differ(old.etags, old.etag, new.etags, new.etag)
    for row in np.flatnonzero((new.kind == ChunkKind.INLINE) & ~differ).tolist():
        differ[row] = old.ref(row) != new.ref(row)
    return differ


def _texts_differ(
    old: Strings, old_codes: NDArray[np.int32], new: Strings, new_codes: NDArray[np.int32]
) -> NDArray[np.bool_]:
    _, (old_numbers, new_numbers) = unite([old, new])
    # The last number stands for -1, "no text", which indexes from the end.
    return np.asarray(
        np.append(old_numbers, -1)[old_codes] != np.append(new_numbers, -1)[new_codes], np.bool_
    )
