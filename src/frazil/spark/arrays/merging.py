"""What tasks changed, brought together: pure but for the reading of paths.

Two tasks never own the same chunk: where they have set one both, it would be chance whose counts.
"""

from collections.abc import Sequence

import numpy as np

from frazil.engine import forks
from frazil.engine.changes import ChangeSet
from frazil.engine.edits import ChunkEdits, unite
from frazil.engine.state import SessionState
from frazil.errors import OverlappingTasksError
from frazil.format.coordinates import Coordinates, Extents, bounding_box, sort_order
from frazil.format.ids import NodeId

_NAMED_CHUNKS = 5
"""So many of an array are in the message; the error has them all."""


def fresh_fork(fork: SessionState, changes: ChangeSet | None = None) -> SessionState:
    """A fork of the same base with these changes, or none."""
    fresh = SessionState(fork.surroundings, fork.view.snapshot, is_fork=True)
    fresh.rest_on(fork.view.snapshot, changes)
    fresh.origins = fork.origins
    return fresh


def merge_changes(state: SessionState, fork: SessionState, changes: Sequence[ChangeSet]) -> None:
    """Take over what tasks have changed in forks of one base.

    Raises OverlappingTasksError, and changes nothing, if two of them set the same chunk.
    """
    edits = _edits_by_node(changes)
    overlaps = {id: found for id, each in edits.items() if len(found := _find_repeated(each))}
    if overlaps:
        raise _overlapping(fork, overlaps)
    only_nodes = [each for each in changes if _has_nodes(each)]
    for each in only_nodes:
        forks.merge(state, fresh_fork(fork, _without_chunks(each)))
    together = ChangeSet.of(state.surroundings.dialect)
    together.chunks = {id: unite(each) for id, each in edits.items()}
    for each in changes:
        together.nodes.update(each.nodes)
        together.sources |= each.sources
    forks.merge(state, fresh_fork(fork, together))


def _edits_by_node(changes: Sequence[ChangeSet]) -> dict[NodeId, list[ChunkEdits]]:
    found: dict[NodeId, list[ChunkEdits]] = {}
    for each in changes:
        for id, edits in each.chunks.items():
            found.setdefault(id, []).append(edits)
    return found


def _find_repeated(edits: Sequence[ChunkEdits]) -> Coordinates:
    """The chunks that more than one has set or deleted."""
    meeting = _find_meeting(edits)
    if not meeting:
        return np.empty((0, edits[0].axes), np.uint32)
    rows = np.concatenate([each.coordinates() for each in meeting])
    if rows.shape[1] == 0:
        return rows[:1] if len(rows) > 1 else rows[:0]
    ordered = rows[sort_order(rows)] if len(rows) else rows
    is_repeated = np.all(ordered[1:] == ordered[:-1], axis=1)
    return np.unique(ordered[1:][is_repeated], axis=0)


def _find_meeting(edits: Sequence[ChunkEdits]) -> list[ChunkEdits]:
    """Those whose smallest box meets that of another one; the others have their chunks alone."""
    filled = [(each, box) for each in edits if (box := _find_box(each)) is not None]
    boxes = np.array([box for _, box in filled], np.int64).reshape(len(filled), edits[0].axes, 2)
    starts, stops = boxes[:, :, 0], boxes[:, :, 1]
    return [
        each
        for row, (each, _) in enumerate(filled)
        if np.sum(np.all((starts < stops[row]) & (starts[row] < stops), axis=1)) > 1
    ]


def _find_box(edits: ChunkEdits) -> Extents | None:
    rows = edits.coordinates()
    return bounding_box(rows) if len(rows) else None


def _has_nodes(changes: ChangeSet) -> bool:
    return bool(changes.created or changes.updated or changes.deleted)


def _without_chunks(changes: ChangeSet) -> ChangeSet:
    nodes = changes.copy()
    nodes.chunks = {}
    return nodes


def _overlapping(fork: SessionState, overlaps: dict[NodeId, Coordinates]) -> Exception:
    paths = {node.id: node.path for node in fork.view.nodes()}
    chunks = {
        paths.get(id, str(id)): [tuple(each) for each in found.tolist()]
        for id, found in overlaps.items()
    }
    text = "; ".join(_name_chunks(path, found) for path, found in sorted(chunks.items()))
    return OverlappingTasksError(
        f"several tasks have written the same chunks: {text}. Nothing was committed; cut the regions "
        "along the edges of chunks",
        chunks=chunks,
    )


def _name_chunks(path: str, chunks: Sequence[tuple[int, ...]]) -> str:
    named = ", ".join("/".join(map(str, each)) or "0" for each in chunks[:_NAMED_CHUNKS])
    more = f" and {len(chunks) - _NAMED_CHUNKS} more" if len(chunks) > _NAMED_CHUNKS else ""
    return f"{path} at {named}{more}"
