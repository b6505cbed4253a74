"""References on their way to the manifest that they belong to.

The plan tells which cells of which arrays are touched. A worker that has the references of a source
cuts them by cell; another one has all parts of a cell, and writes its manifest.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.engine.cells import WrittenCell, write_cell
from frazil.engine.lookup import manifests_of
from frazil.engine.splitting import Cell, SplitGrid, plan_split
from frazil.engine.state import SessionState
from frazil.engine.virtual_columns import ChecksumColumn, TextColumn
from frazil.engine.virtual_refs import make_table
from frazil.errors import InvalidSourcesError
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Extents, grid_of
from frazil.format.ids import NodeId
from frazil.format.references import ChunkRef, InlineRef, NativeRef
from frazil.format.snapshot import ManifestRef
from frazil.spark.ingesting.ledger import Region, is_same_version
from frazil.spark.ingesting.planning import IngestPlan
from frazil.virtual import FileVersion, ReferenceColumns, Treatment, VariablePlan
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
        former = defaultdict(list)
        for ref in manifests_of(array, state.surroundings.dialect):
            for cell in grid.cells_touching(ref.extents):
                former[cell].append(ref)
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
    for source, region in found.regions.items():
        if np.any(variable.chunk_offsets[found.plan.sources[source]] == NOT_PLACED):
            continue
        cells.update(grid.cells_touching(_chunk_box(found, variable, grid.shape, region)))
    return sorted(cells)


def _chunk_box(
    found: IngestPlan, variable: VariablePlan, counts: Sequence[int], region: Region | None
) -> Extents:
    """The chunks of a region."""
    box = [(0, count) for count in counts]
    dims = list(variable.metadata.get("dimension_names") or ())
    if found.append_dim in dims and region is not None:
        axis = dims.index(found.append_dim)
        step = variable.metadata["chunk_grid"]["configuration"]["chunk_shape"][axis]
        box[axis] = (region[0] // step, -(-region[1] // step))
    return tuple(box)


def _count(box: Extents) -> int:
    return int(np.prod([stop - start for start, stop in box], dtype=np.int64))


def adopt(found: IngestPlan, state: SessionState, group: str, placed: Iterable[PlacedCell]) -> None:
    """Let the session take over what workers wrote, in place of what was in replaced regions."""
    paths = {name: f"/{group}/{name}" if group else f"/{name}" for name in found.plan.variables}
    for name, variable in found.plan.variables.items():
        if variable.treatment is not Treatment.VIRTUAL:
            continue
        for source, region in found.replaced.items():
            if np.all(variable.chunk_offsets[found.plan.sources[source]] != NOT_PLACED):
                node, array = state.view.get_array(paths[name])
                counts = [each.num_chunks for each in array.shape]
                box = _chunk_box(found, variable, counts, region)
                state.changes.edit_chunks(node).delete_many(grid_of(box))
    for each in placed:
        node, _ = state.view.get_array(paths[each.variable])
        state.changes.edit_chunks(node).adopt(each.cell)


# On workers


def place(
    placement: Placement,
    source: str,
    version: FileVersion,
    references: Mapping[str, ReferenceColumns],
    assets: Assets,
) -> Iterator[tuple[int, ChunkTable]]:
    """The references of a source by the number of their cell."""
    if source not in placement.sources:
        return
    if not is_same_version(version, placement.versions[source]):
        raise InvalidSourcesError(f"{source} was changed while it was ingested", files=[source])
    for name, target in placement.targets.items():
        offset = target.offsets[placement.sources[source]]
        if name not in references or np.any(offset == NOT_PLACED):
            continue
        table = to_table(references[name].shift(offset), placement, assets)
        for cell, part in table.split(target.edges).items():
            yield target.numbers[cell], part.compact()


def to_table(columns: ReferenceColumns, placement: Placement, assets: Assets) -> ChunkTable:
    """References as manifests hold them; chunks that came with a header are written if large."""
    tables = [
        make_table(
            np.ascontiguousarray(part.coordinates, np.uint32),
            TextColumn(part.location_codes, part.locations),
            part.offsets,
            part.lengths,
            ChecksumColumn.of(checksums, len(part)),
            placement.id_size,
        )
        for part, checksums in columns.by_checksum_kind()
    ]
    inline: dict[tuple[int, ...], ChunkRef] = {
        tuple(where): _keep(data, placement, assets)
        for where, data in zip(
            columns.inline_coordinates.tolist(), columns.inline_chunks, strict=True
        )
    }
    if inline:
        tables.append(ChunkTable.of(columns.axes, inline, placement.id_size))
    return concatenate([ChunkTable.empty(columns.axes, placement.id_size), *tables]).sort()


def _keep(data: bytes, placement: Placement, assets: Assets) -> ChunkRef:
    if len(data) <= placement.inline_bytes:
        return InlineRef(data)
    return NativeRef(assets.write_chunk(data), 0, len(data))


def write(assets: Assets, task: CellTask, parts: Iterable[ChunkTable]) -> PlacedCell:
    """Write the manifest of a cell of all its parts."""
    # In any order of arrival the same: no two sources have a chunk in common.
    table = concatenate(parts).sort()
    cell = write_cell(assets, task.node_id, task.box, task.base, table)
    return PlacedCell(task.variable, cell, len(table), int(table.length.sum()))
