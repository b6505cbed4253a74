"""Arrays that an ingest creates or extends, and the manifests it writes."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.config.conditions import SplitSizes
from frazil.errors import InvalidInputError
from frazil.format.coordinates import Extents, grid_of
from frazil.format.ids import NodeId
from frazil.format.snapshot import ManifestRef
from frazil.repository.changes import PrewrittenManifest
from frazil.repository.commit import manifests_by_region
from frazil.repository.context import SessionState
from frazil.repository.moves import move_chunks
from frazil.repository.session import Session
from frazil.repository.zarr_keys import SplitGrid, SplitRegion, plan_split
from frazil.spark.ingestion.ingest_plan import IngestPlan
from frazil.spark.ingestion.ledger import Region
from frazil.spark.regions import plan_rule
from frazil.virtual.combine_plan import (
    NOT_PLACED,
    Treatment,
    VariablePlan,
    as_zarr,
    create_array,
    create_group,
    join,
)
from frazil.virtual.source import ArrayHeader, FileVersion
from frazil.virtual.source_formats import without_codec_warnings

_ROOM_ITEMS = 1 << 14
"""Target number of items in a chunk of a small array that grows."""


def make_room(found: IngestPlan, session: Session, group: str) -> None:
    """Create or resize the arrays of a plan, and write the values of those kept inline."""
    store = session.store
    there = found.existing.arrays if found.existing is not None else {}
    with without_codec_warnings():
        _decode_existing(found, session, group)
        shift_existing(found, session, group)
        if found.existing is None:
            create_group(store, group, found.plan.attributes)
        for name, variable in found.plan.variables.items():
            path = join(group, name)
            if name not in there:
                dims = () if name in found.asked else found.dims
                array = create_array(store, path, _with_room(variable, dims))
                if variable.values is not None:
                    array[...] = variable.values
            else:
                _grow(found, variable, store, path)


def _grow(found: IngestPlan, variable: VariablePlan, store: Any, path: str) -> None:
    array: zarr.Array[Any] = zarr.open_array(as_zarr(store), path=path, mode="r+", zarr_format=3)
    if variable.treatment is Treatment.INLINE and _means_something_else(array, variable):
        _rewrite(found, variable, store, path)
        return
    shape = tuple(variable.metadata["shape"])
    if array.shape != shape:
        array.resize(shape)
    if variable.treatment is not Treatment.INLINE or variable.values is None:
        return
    growing = [dim for dim in found.dims if _axis(variable, dim) is not None]
    if variable.name in found.dims:
        axis_plan = found.plan.axes[variable.name]
        kept = 0 if axis_plan.is_shifted else len(axis_plan.moved)
        if kept < len(variable.values):
            array[kept:] = variable.values[kept:]
    elif len(growing) > 1:
        array[...] = variable.values
    elif growing:
        axis = _axis(variable, growing[0]) or 0
        regions = (each[growing[0]] for each in found.places.values() if growing[0] in each)
        for region in unite(regions):
            place = (slice(None),) * axis + (slice(*region),)
            array[place] = variable.values[place]
    elif not found.is_kept:
        array[...] = variable.values


def _decode_existing(found: IngestPlan, session: Session, group: str) -> None:
    """Replace packed arrays that can't hold the values of the sources by decoded ones."""
    if not found.decoded or found.existing is None:
        return
    former = Session(SessionState(session.state.context, session.state.view.snapshot))
    parent = zarr.open_group(as_zarr(session.store), path=group, mode="r+", zarr_format=3)
    for name, packing in found.decoded.items():
        path = join(group, name)
        old = zarr.open_array(as_zarr(former.store), path=path, mode="r", zarr_format=3)
        del parent[name]
        new = create_array(session.store, path, found.existing.arrays[name].metadata)
        length, step = (new.shape[0], new.chunks[0]) if new.ndim else (1, 1)
        rows = max(1, _MOVED_BYTES // max(1, new.nbytes // max(1, length)) // step) * step
        for start in range(0, length, rows):
            part = slice(start, start + rows) if new.ndim else ...
            new[part] = packing.decode(np.asarray(old[part]))


_MOVED_BYTES = 64 << 20
"""Decoded size of what is moved at once where chunks can't be moved as they are."""


def can_move_chunks(array: ArrayHeader, axis: int, moved: NDArray[np.int64]) -> bool:
    """Return whether elements move with whole chunks along an axis."""
    step = array.chunk_shape[axis]
    starts = np.arange(0, len(moved), step)
    is_aligned = moved[starts] % step == 0
    ends = np.minimum(starts + step, len(moved)) - 1
    return bool(np.all(is_aligned & (moved[ends] - moved[starts] == ends - starts)))


def shift_existing(found: IngestPlan, session: Session, group: str) -> None:
    """Move the elements of existing arrays where sources have values in front of or between them."""
    for dim, moved in found.shifts.items():
        length = len(found.plan.axes[dim].values)
        for name, array in (found.existing.arrays if found.existing is not None else {}).items():
            if dim not in array.dims or array.is_index:
                continue
            axis = array.dims.index(dim)
            path = join(group, name)
            opened = zarr.open_array(as_zarr(session.store), path=path, mode="r+", zarr_format=3)
            shape = list(opened.shape)
            shape[axis] = length
            opened.resize(tuple(shape))
            if can_move_chunks(array, axis, moved):
                step = array.chunk_shape[axis]
                move_chunks(session.state, f"/{path}", axis, moved[::step] // step)
            else:
                _move_values(opened, axis, moved)


def _move_values(array: zarr.Array[Any], axis: int, moved: NDArray[np.int64]) -> None:
    """Rewrite the values of an array at their new positions, from the last to the first."""
    first = int(np.flatnonzero(moved != np.arange(len(moved)))[0])
    row_bytes = max(1, array.nbytes // max(1, array.shape[axis]))
    step = array.chunks[axis]
    rows = max(1, _MOVED_BYTES // row_bytes // step) * step
    before = (slice(None),) * axis
    stop = len(moved)
    while stop > first:
        start = max(first, (stop - 1) // rows * rows)
        values = np.asarray(array[(*before, slice(start, stop))])
        low, high = int(moved[start]), int(moved[stop - 1]) + 1
        shape = list(values.shape)
        shape[axis] = high - low
        block = np.full(shape, array.fill_value, values.dtype)
        place: tuple[Any, ...] = (*before, moved[start:stop] - low)
        block[place] = values
        array[(*before, slice(low, high))] = block
        gap = (int(moved[start - 1]) + 1 if start else 0, low)
        if gap[0] < gap[1]:
            shape[axis] = gap[1] - gap[0]
            array[(*before, slice(*gap))] = np.full(shape, array.fill_value, values.dtype)
        stop = start


def _means_something_else(array: zarr.Array[Any], variable: VariablePlan) -> bool:
    """Return whether stored times were widened, or have finer units."""
    stored = json.loads(json.dumps(array.metadata.to_dict()))
    if stored["data_type"] != variable.metadata["data_type"]:
        return True
    attributes = variable.metadata.get("attributes") or {}
    return any(array.attrs.get(each) != attributes.get(each) for each in ("units", "calendar"))


def _rewrite(found: IngestPlan, variable: VariablePlan, store: Any, path: str) -> None:
    """Replace an array by one with all its values, old and new."""
    if variable.values is None:
        raise InvalidInputError(
            f"invalid type or units of {path!r}: its values in the repository can't be converted to "
            f"those of the files; leave it out with skip="
        )
    parent, _, name = path.rpartition("/")
    del zarr.open_group(as_zarr(store), path=parent, mode="r+", zarr_format=3)[name]
    array = create_array(store, path, _with_room(variable, found.dims))
    array[...] = variable.values


def unite(regions: Iterable[Region]) -> Iterator[Region]:
    """Merge adjacent and overlapping regions."""
    start, stop = -1, -1
    for each in sorted(regions):
        if each[0] > stop or start < 0:
            if start >= 0:
                yield start, stop
            start = each[0]
        stop = max(stop, each[1])
    if start >= 0:
        yield start, stop


def _axis(variable: VariablePlan, dim: str | None) -> int | None:
    dims = list(variable.metadata.get("dimension_names") or ())
    return dims.index(dim) if dim in dims else None


def _with_room(variable: VariablePlan, dims: Sequence[str]) -> dict[str, Any]:
    """Return the metadata of an array; a small array that grows gets longer chunks."""
    axes = [axis for dim in dims if (axis := _axis(variable, dim)) is not None]
    axis = axes[0] if axes else None
    metadata = dict(variable.metadata)
    if axis is None or variable.treatment is not Treatment.INLINE:
        return metadata
    chunk = list(metadata["chunk_grid"]["configuration"]["chunk_shape"])
    items = 1
    for each, extent in enumerate(chunk):
        items *= extent if each != axis else 1
    chunk[axis] = max(chunk[axis], _ROOM_ITEMS // max(1, items))
    metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    return metadata


_TASK_REFERENCES = 200_000
_TASKS_A_SLOT = 3


@dataclass(frozen=True, slots=True, eq=False)
class SplitRegionTask:
    """Split region whose manifest is to be written."""

    variable: str
    node_id: NodeId
    box: Extents
    base: tuple[ManifestRef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Array that receives references."""

    offsets: NDArray[np.int64]
    """Chunk offset of each source."""
    edges: Sequence[Sequence[int]]
    numbers: Mapping[SplitRegion, int]
    """Index of each of its split regions among those of all arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Target of every reference; equal for all workers."""

    sources: Mapping[str, int]
    versions: Mapping[str, FileVersion]
    targets: Mapping[str, Target]
    regions: tuple[SplitRegionTask, ...]
    tasks: tuple[int, ...]
    """Task of each split region."""
    id_size: int
    inline_bytes: int
    """Maximum size of chunks stored inline in the manifest."""

    def is_like(self, other: "Placement") -> bool:
        """Return whether the same references go to the same places of the same arrays.

        Others may have changed manifests of the base: the commit merges those.
        """
        own, theirs = (
            [(each.variable, each.node_id, each.box) for each in placement.regions]
            for placement in (self, other)
        )
        return (
            own == theirs
            and self.sources == other.sources
            and self.versions == other.versions
            and self.targets.keys() == other.targets.keys()
            and all(
                np.array_equal(target.offsets, other.targets[name].offsets)
                for name, target in self.targets.items()
            )
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlacedManifest:
    """Manifest written for a split region."""

    variable: str
    manifest: PrewrittenManifest
    references: int
    bytes: int


def plan_placement(
    found: IngestPlan,
    versions: Mapping[str, FileVersion],
    state: SessionState,
    group: str,
    slots: int = 1,
) -> Placement:
    """Plan the split regions that sources touch; the session's arrays must have their new shape."""
    rules = state.context.settings.split_sizes
    targets: dict[str, Target] = {}
    regions: list[SplitRegionTask] = []
    for name, variable in found.plan.variables.items():
        if variable.treatment is not Treatment.VIRTUAL:
            continue
        node, array = state.view.get_array(f"/{group}/{name}" if group else f"/{name}")
        grid = plan_split(node.path, array, rules)
        touched = _touched(found, name, grid)
        former = manifests_by_region(array, grid, state.context.dialect)
        numbers = {region: len(regions) + each for each, region in enumerate(touched)}
        regions += [
            SplitRegionTask(name, node.id, grid.extents(region), tuple(former[region]))
            for region in touched
        ]
        targets[name] = Target(variable.chunk_offsets, grid.edges, numbers)
    return Placement(
        {name: found.plan.sources[name] for name in found.places},
        versions,
        targets,
        tuple(regions),
        assign_tasks([_count(each.box) for each in regions], slots),
        state.changes.id_size,
        state.context.settings.inline_chunk_threshold_bytes,
    )


def assign_tasks(
    counts: Sequence[int], slots: int, most: int = _TASK_REFERENCES
) -> tuple[int, ...]:
    """Return the task of each split region; small consecutive regions share a task if slots allow."""
    most = min(most, sum(counts) // (_TASKS_A_SLOT * slots))
    tasks: list[int] = []
    task, filled = 0, 0
    for count in counts:
        if filled and filled + count > most:
            task, filled = task + 1, 0
        tasks.append(task)
        filled += count
    return tuple(tasks)


def _touched(found: IngestPlan, name: str, grid: SplitGrid) -> list[SplitRegion]:
    """Return the split regions that any source may have chunks in."""
    if 0 in grid.shape:
        return []
    variable = found.plan.variables[name]
    regions: set[SplitRegion] = set()
    for source in found.places:
        if np.any(variable.chunk_offsets[found.plan.sources[source]] == NOT_PLACED):
            continue
        regions.update(grid.regions_touching(_chunk_box(found, variable, grid.shape, source)))
    return sorted(regions)


def _chunk_box(
    found: IngestPlan, variable: VariablePlan, counts: Sequence[int], source: str
) -> Extents:
    """Return the range of chunks that a source covers."""
    box = [(0, count) for count in counts]
    steps = variable.metadata["chunk_grid"]["configuration"]["chunk_shape"]
    for axis, dim in enumerate(variable.metadata.get("dimension_names") or ()):
        place = found.places[source].get(dim)
        if place is not None:
            box[axis] = (place[0] // steps[axis], -(-place[1] // steps[axis]))
    return tuple(box)


def _count(box: Extents) -> int:
    return int(np.prod([stop - start for start, stop in box], dtype=np.int64))


def adopt(
    found: IngestPlan, state: SessionState, group: str, placed: Iterable[PlacedManifest]
) -> None:
    """Adopt the manifests of workers in the session, after deleting the replaced regions."""
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
        state.changes.edit_chunks(node).adopt(each.manifest)


def plan_rules(found: IngestPlan, group: str, configured: SplitSizes | None) -> SplitSizes:
    """Return split rules for the arrays that no configured rule matches."""
    rules: SplitSizes = ()
    for name, variable in found.plan.variables.items():
        if variable.treatment is Treatment.INLINE:
            continue
        shape = variable.metadata["shape"]
        steps = variable.metadata["chunk_grid"]["configuration"]["chunk_shape"]
        counts = [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]
        dims = variable.metadata.get("dimension_names") or ()
        growing = next((dims.index(dim) for dim in found.dims if dim in dims), None)
        path = f"/{group}/{name}" if group else f"/{name}"
        rules = (*rules, *plan_rule(path, counts, growing, configured))
    return rules
