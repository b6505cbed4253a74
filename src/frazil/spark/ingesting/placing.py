"""Which manifests an ingest writes: the cells of arrays that sources touch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.engine.cells import WrittenCell
from frazil.engine.manifests import manifests_by_cell
from frazil.engine.splitting import Cell, SplitGrid, plan_split
from frazil.engine.state import SessionState
from frazil.format.coordinates import Extents, grid_of
from frazil.format.ids import NodeId
from frazil.format.snapshot import ManifestRef
from frazil.spark.ingesting.ledger import Region
from frazil.spark.ingesting.planning import IngestPlan
from frazil.virtual import FileVersion, Treatment, VariablePlan
from frazil.virtual.combining.plan import NOT_PLACED

_TASK_REFERENCES = 200_000
_TASKS_A_SLOT = 3


@dataclass(frozen=True, slots=True, eq=False)
class CellTask:
    """A manifest to write."""

    variable: str
    node_id: NodeId
    box: Extents
    base: tuple[ManifestRef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """An array that gets references."""

    offsets: NDArray[np.int64]
    """For each source, how many chunks before its first."""
    edges: Sequence[Sequence[int]]
    numbers: Mapping[Cell, int]
    """The number of each of its cells among all."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where all references go; the same for all workers."""

    sources: Mapping[str, int]
    versions: Mapping[str, FileVersion]
    targets: Mapping[str, Target]
    cells: tuple[CellTask, ...]
    tasks: tuple[int, ...]
    """The task of each cell."""
    id_size: int
    inline_bytes: int
    """Chunks up to this size are kept in the manifest."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedCell:
    """A manifest that was written."""

    variable: str
    cell: WrittenCell
    references: int
    bytes: int


def plan_placement(
    found: IngestPlan,
    versions: Mapping[str, FileVersion],
    state: SessionState,
    group: str,
    slots: int = 1,
) -> Placement:
    """The cells that sources touch, of arrays that the session has in their new shape."""
    rules = state.surroundings.settings.split_sizes
    targets: dict[str, Target] = {}
    cells: list[CellTask] = []
    for name, variable in found.plan.variables.items():
        if variable.treatment is not Treatment.VIRTUAL:
            continue
        node, array = state.view.get_array(f"/{group}/{name}" if group else f"/{name}")
        grid = plan_split(node.path, array, rules)
        touched = _touched(found, name, grid)
        former = manifests_by_cell(array, grid, state.surroundings.dialect)
        numbers = {cell: len(cells) + each for each, cell in enumerate(touched)}
        cells += [
            CellTask(name, node.id, grid.extents(cell), tuple(former[cell])) for cell in touched
        ]
        targets[name] = Target(variable.chunk_offsets, grid.edges, numbers)
    return Placement(
        {name: found.plan.sources[name] for name in found.regions},
        versions,
        targets,
        tuple(cells),
        share_out([_count(each.box) for each in cells], slots),
        state.changes.id_size,
        state.surroundings.settings.inline_chunk_threshold_bytes,
    )


def share_out(counts: Sequence[int], slots: int, most: int = _TASK_REFERENCES) -> tuple[int, ...]:
    """The task of each cell: small cells that follow each other share one, if others have work."""
    most = min(most, sum(counts) // (_TASKS_A_SLOT * slots))
    tasks: list[int] = []
    task, filled = 0, 0
    for count in counts:
        if filled and filled + count > most:
            task, filled = task + 1, 0
        tasks.append(task)
        filled += count
    return tuple(tasks)


def _touched(found: IngestPlan, name: str, grid: SplitGrid) -> list[Cell]:
    """The cells that any of the sources may have chunks in."""
    if 0 in grid.shape:
        return []
    variable = found.plan.variables[name]
    cells: set[Cell] = set()
    for source in found.regions:
        if np.any(variable.chunk_offsets[found.plan.sources[source]] == NOT_PLACED):
            continue
        cells.update(grid.cells_touching(_chunk_box(found, variable, grid.shape, source)))
    return sorted(cells)


def _chunk_box(
    found: IngestPlan, variable: VariablePlan, counts: Sequence[int], source: str
) -> Extents:
    """The chunks that a source has a place in."""
    box = [(0, count) for count in counts]
    steps = variable.metadata["chunk_grid"]["configuration"]["chunk_shape"]
    for axis, dim in enumerate(variable.metadata.get("dimension_names") or ()):
        place = _find_place(found, source, dim)
        if place is not None:
            box[axis] = (place[0] // steps[axis], -(-place[1] // steps[axis]))
    return tuple(box)


def _find_place(found: IngestPlan, source: str, dim: str) -> Region | None:
    if source in found.places:
        return found.places[source].get(dim)
    return found.regions[source] if dim == found.append_dim else None


def _count(box: Extents) -> int:
    return int(np.prod([stop - start for start, stop in box], dtype=np.int64))


def adopt(found: IngestPlan, state: SessionState, group: str, placed: Iterable[PlacedCell]) -> None:
    """Let the session take over what workers wrote, in place of what was in replaced regions."""
    paths = {name: f"/{group}/{name}" if group else f"/{name}" for name in found.plan.variables}
    for name, variable in found.plan.variables.items():
        if variable.treatment is not Treatment.VIRTUAL:
            continue
        for source in found.replaced:
            if np.all(variable.chunk_offsets[found.plan.sources[source]] != NOT_PLACED):
                node, array = state.view.get_array(paths[name])
                counts = [each.num_chunks for each in array.shape]
                box = _chunk_box(found, variable, counts, source)
                state.changes.edit_chunks(node).delete_many(grid_of(box))
    for each in placed:
        node, _ = state.view.get_array(paths[each.variable])
        state.changes.edit_chunks(node).adopt(each.cell)
