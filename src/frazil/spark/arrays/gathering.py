"""References that tasks have left in the storage, gathered into the manifests that they belong to.

A task that has set many references of an array writes them to a manifest of its own, a part, and
returns its name. Other tasks have all parts of a cell each, lay them over what the base has there, and
write the manifest that the commit points to. So no reference passes through the driver, nor its inline
bytes through Java. A commit over parts would come to the same by itself; it would only hold them all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from frazil.assets import Assets
from frazil.engine.cells import WrittenCell, write_cell, write_part
from frazil.engine.changes import ChangeSet
from frazil.engine.edits import ChunkEdits
from frazil.engine.manifests import SHARED_MANIFEST_DIALECTS, manifests_by_cell
from frazil.engine.splitting import Cell, plan_split
from frazil.engine.state import SessionState
from frazil.errors import IcechunkError
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Coordinates, Extents
from frazil.format.ids import NodeId
from frazil.format.snapshot import ManifestRef, Node
from frazil.maintenance.batches import pack
from frazil.spark.arrays.runner import Runner

_TASK_REFERENCES = 200_000
_READ_AT_ONCE = 8
"""Parts that a task waits for."""
_WHAT = "writing references"


def plan_limit(runner: Runner, state: SessionState, tasks: int) -> int | None:
    """How many references of an array a task returns; None for any number."""
    if runner.spark is None or state.surroundings.dialect in SHARED_MANIFEST_DIALECTS:
        return None
    return runner.returned_references // max(1, tasks)


def leave_parts(assets: Assets, changes: ChangeSet, limit: int | None) -> None:
    """Write the references of arrays that have more than so many, and keep what was written."""
    for id, edits in changes.chunks.items():
        written, deleted = edits.settled()
        if limit is not None and len(written) > limit:
            part = ChunkEdits(edits.axes, edits.id_size)
            part.adopt(*edits.cells, write_part(assets, id, written, deleted))
            changes.chunks[id] = part


def find_parts(runner: Runner, changes: Iterable[ChangeSet]) -> dict[NodeId, list[WrittenCell]]:
    """What tasks have left, by array; nothing if the driver may as well read it."""
    parts: defaultdict[NodeId, list[WrittenCell]] = defaultdict(list)
    for each in changes:
        for id, edits in each.chunks.items():
            if edits.cells:
                parts[id] += edits.cells
    count = sum(part.count for each in parts.values() for part in each)
    return dict(parts) if count > runner.returned_references else {}


def gather(
    runner: Runner, state: SessionState, parts: Mapping[NodeId, Sequence[WrittenCell]]
) -> None:
    """Let tasks write the manifests of arrays that have parts."""
    if not parts:
        return
    chosen = [node for node in state.view.nodes() if node.id in parts and _has_place(node)]
    plans = [plan for node in chosen for plan in plan_cells(state, node)]
    groups = pack(plans, [coords_.count_places(each.box) for each in plans], _TASK_REFERENCES)
    runner.job.expect(_WHAT, manifests=len(plans))
    found = runner.run(_WHAT, _WriteCells(state.assets), groups)
    cells = [cell for group in found for cell in group]
    for node in chosen:
        own = [each for each in zip(plans, cells, strict=True) if each[0].node_id == node.id]
        state.changes.chunks[node.id] = _take_over(state, node, own)
    _delete(state.assets, [part for node in chosen for part in parts[node.id]])


@dataclass(frozen=True, slots=True, eq=False)
class CellPlan:
    """A manifest to write, and what it is made of."""

    node_id: NodeId
    box: Extents
    base: tuple[ManifestRef, ...]
    parts: tuple[WrittenCell, ...]
    over: ChunkTable
    """References over those of the parts."""
    deleted: Coordinates


def plan_cells(state: SessionState, node: Node) -> list[CellPlan]:
    """The cells of an array that a session has changed."""
    assert node.array is not None
    edits = state.changes.chunks[node.id]
    grid = plan_split(node.path, node.array, state.surroundings.settings.split_sizes)
    written, deleted = edits.settled()
    over = written.select(grid.everything).split(grid.edges)
    gone = coords_.unite([deleted, *(each.deleted for each in edits.cells)])
    gone_by_cell = grid.split(gone)
    parts: defaultdict[Cell, list[WrittenCell]] = defaultdict(list)
    for each in edits.cells:
        sent = _to_send(each)
        for cell in grid.split(each.written()):
            parts[cell].append(sent)
    former = manifests_by_cell(node.array, grid, state.surroundings.dialect)
    nothing, nowhere = ChunkTable.empty(edits.axes, edits.id_size), gone[:0]
    return [
        CellPlan(
            node.id, grid.extents(cell), tuple(former[cell]), tuple(parts[cell]),
            over.get(cell, nothing), gone_by_cell.get(cell, nowhere),
        )
        for cell in sorted({*parts, *over, *gone_by_cell})
    ]  # fmt: skip


def write_gathered(assets: Assets, plan: CellPlan) -> WrittenCell | None:
    """Write the manifest of a cell; None where nothing is set, but only deleted."""

    def read(part: WrittenCell) -> ChunkTable:
        return part.read_changes(assets, plan.node_id).select(plan.box)

    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        tables = [table for table in pool.map(read, plan.parts) if len(table)]
    table = concatenate(tables).remove(plan.deleted).merge(plan.over) if tables else plan.over
    if not len(table):
        return None
    deleted = coords_.without(plan.deleted, plan.over.coordinates)
    return write_cell(assets, plan.node_id, plan.box, plan.base, table, deleted)


@dataclass(frozen=True, slots=True)
class _WriteCells:
    assets: Assets

    def __call__(self, plans: Sequence[CellPlan]) -> list[WrittenCell | None]:
        cells = [write_gathered(self.assets, plan) for plan in plans]
        self.assets.storage.flush()
        return cells


def _take_over(
    state: SessionState, node: Node, cells: Sequence[tuple[CellPlan, WrittenCell | None]]
) -> ChunkEdits:
    former = state.changes.chunks[node.id]
    edits = ChunkEdits(former.axes, former.id_size)
    edits.adopt(*(cell for _, cell in cells if cell is not None))
    gone = [plan.deleted for plan, cell in cells if cell is None]
    if gone:
        edits.delete_many(coords_.unite(gone))
    return edits


def _delete(assets: Assets, parts: Sequence[WrittenCell]) -> None:
    """Delete parts that nothing leads to any more; what can't be is left for garbage collection."""
    with suppress(IcechunkError):
        assets.storage.delete_many(assets.layout.manifest_key(part.file.id) for part in parts)


def _has_place(node: Node) -> bool:
    return node.array is not None and all(each.num_chunks for each in node.array.shape)


def _to_send(cell: WrittenCell) -> WrittenCell:
    """The same without lists of chunks, if all that is in the file is its writer's."""
    nothing = np.empty((0, len(cell.box)), np.uint32)
    is_whole = cell.file.num_chunk_refs == cell.count
    return replace(cell, changed=None if is_whole else cell.changed, deleted=nothing)
