"""Arrays that an ingest creates, extends or fills a region of, and the manifests it writes."""

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
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.repository.zarr_keys import SplitGrid, SplitRegion, plan_split
from frazil.spark.ingestion.ingest_options import (
    RegionOption,
    find_unit,
    item_bytes,
    refuse_unnamed,
)
from frazil.spark.ingestion.ingest_plan import (
    Choice,
    IngestPlan,
    NativeArray,
    Part,
    choose_native,
    find_one_way,
    find_run,
    find_unsolved,
    have_one_clock,
    refuse,
)
from frazil.spark.ingestion.ledger import Place, Region
from frazil.spark.ingestion.source_data import ParsedSource
from frazil.spark.regions import Box, plan_rule
from frazil.virtual.combine_axes import (
    THE_REPOSITORY,
    are_equal,
    compare,
    compare_meaning,
    compare_storage,
    find_obstacles,
)
from frazil.virtual.combine_plan import (
    NOT_PLACED,
    Plan,
    Problem,
    ProblemKind,
    Report,
    Treatment,
    VariablePlan,
    as_zarr,
    create_array,
    create_group,
    join,
)
from frazil.virtual.source import ArrayHeader, FileVersion, SourceHeader
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
    if variable.treatment is Treatment.INLINE and (
        array.ndim != len(variable.metadata["shape"]) or _means_something_else(array, variable)
    ):
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
            if len(shape) != len(array.dims):
                continue  # it gets the dimension with this ingest, and is rewritten
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


def needed_folders(found: IngestPlan, sources: Sequence[ParsedSource]) -> list[str]:
    """Return the folders that virtual references point to."""
    treatments = {each.treatment for each in found.plan.variables.values()}
    if Treatment.VIRTUAL not in treatments:
        return []
    return sorted({folder for each in sources for folder in each.folders})


def open_again(configured: Repository, session: Session) -> Session:
    """Open a session on the same snapshot with the new configuration; commits since are rebased on."""
    state = session.state
    context = configured.writable_session(str(session.branch)).state.context
    return Session(SessionState(context, state.view.snapshot, mode=state.mode, branch=state.branch))


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
    manifests: dict[str, list[PrewrittenManifest]] = {}
    for each in placed:
        manifests.setdefault(each.variable, []).append(each.manifest)
    for name, own in manifests.items():
        node, _ = state.view.get_array(paths[name])
        state.changes.edit_chunks(node).adopt(*own)


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


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """Sources, the arrays they fill, and the requested region."""

    headers: Sequence[SourceHeader]
    existing: SourceHeader
    append_dim: str | None
    region: RegionOption


def plan_filling(
    headers: Sequence[SourceHeader],
    existing: SourceHeader | None,
    append_dim: str | None,
    region: RegionOption,
    choice: Choice,
) -> IngestPlan:
    """Plan the region of each source; raise InvalidSourcesError with all problems and their files."""
    if existing is None:
        raise InvalidInputError(
            f"region= writes to existing arrays, and there are none for {headers[0].name}: ingest it "
            "without region= first"
        )
    filling = Filling(headers, existing, append_dim, region)
    _refuse_unknown(filling)
    problems: list[Problem] = []
    places: dict[str, Place] = {}
    for header in headers:
        places[header.name], found = _place(filling, header)
        problems += found
    if problems:
        refuse(problems, choice)
    rows = {header.name: row for row, header in enumerate(headers)}
    variables: dict[str, VariablePlan] = {}
    natives: dict[str, NativeArray] = {}
    for name in dict.fromkeys(name for header in headers for name in header.arrays):
        having = [header for header in headers if name in header.arrays]
        if not _is_filled(having[0].arrays[name], filling):
            continue
        found = list(_find_problems(filling, name, having, places))
        problems += found
        if name in existing.arrays and not any(e.kind is ProblemKind.DIMENSIONS for e in found):
            variables[name] = _plan_variable(filling, name, having, places, rows)
            natives[name] = _plan_native(filling, name, having, places)
    plan = Plan(rows, {}, variables, Report())
    native = choose_native(plan, headers, problems, existing.arrays, choice)
    unsolved = find_unsolved(problems, native)
    refuse([*unsolved, *find_one_way(existing.arrays, native)], choice)
    for name in native:
        old = variables[name]
        variables[name] = VariablePlan(
            name, Treatment.REENCODED, old.metadata, np.full_like(old.chunk_offsets, NOT_PLACED)
        )
    return IngestPlan(
        plan,
        () if append_dim is None else (append_dim,),
        tuple(headers),
        places,
        replaced=places,
        existing=existing,
        is_kept=True,
        natives={name: natives[name] for name in native},
        reasons={name: each.reason for name, each in native.items()},
    )


def _refuse_unknown(filling: Filling) -> None:
    if isinstance(filling.region, str):
        if filling.region != "auto":
            raise InvalidInputError(f"region={filling.region!r} is neither 'auto' nor by dimension")
        return
    refuse_unnamed(
        "region", filling.region, filling.existing.dims, "dimensions", "the arrays there"
    )


def _is_filled(array: ArrayHeader, filling: Filling) -> bool:
    """Return whether a part of an array is filled; index coordinates are only compared."""
    if array.is_index:
        return False
    if isinstance(filling.region, str):
        return bool(array.dims)
    return bool(set(array.dims) & {*filling.region, filling.append_dim})


# Regions of sources


def _place(filling: Filling, header: SourceHeader) -> tuple[Place, list[Problem]]:
    places: dict[str, Region] = {}
    problems: list[Problem] = []
    for dim, length in header.dims.items():
        if dim not in filling.existing.dims:
            text = f"it is no dimension of the repository, which has {list(filling.existing.dims)}"
            problems.append(Problem(ProblemKind.DIMENSIONS, dim, text, (header.name,)))
            continue
        place = _find_place(filling, header, dim)
        if isinstance(place, str):
            problems.append(Problem(ProblemKind.COORDINATE, dim, place, (header.name,)))
        elif place[1] - place[0] != length:
            text = f"its length is {length}, and the region [{place[0]}:{place[1]}]"
            problems.append(Problem(ProblemKind.LENGTH, dim, text, (header.name,)))
        else:
            places[dim] = place
    return places, problems


def _find_place(filling: Filling, header: SourceHeader, dim: str) -> Region | str:
    """Return the region of a source along a dimension, or a description of the problem."""
    whole = (0, filling.existing.dims[dim])
    asked = "auto" if isinstance(filling.region, str) else filling.region.get(dim)
    if asked is None and dim == filling.append_dim:
        asked = "auto"
    mine, theirs = _values(header, dim), _values(filling.existing, dim)
    if asked == "auto":
        if mine is None or theirs is None:
            is_whole = header.dims[dim] == whole[1]
            return whole if is_whole else "no values of a coordinate to place it by"
        found = find_run(theirs, mine) if have_one_clock(header, filling.existing, dim) else None
        return found or "its values are not there in the repository, one after the other"
    place = whole if asked is None else _to_region(asked, whole[1], dim)
    if mine is None or theirs is None or len(mine) != place[1] - place[0]:
        return place
    is_same = have_one_clock(header, filling.existing, dim)
    if not is_same or not are_equal(mine, theirs[slice(*place)]):
        return f"its values are not those of the repository in [{place[0]}:{place[1]}]"
    return place


def _to_region(asked: object, length: int, dim: str) -> Region:
    if isinstance(asked, tuple) and len(asked) == 2:
        asked = slice(*asked)
    if not isinstance(asked, slice):
        raise InvalidInputError(f"invalid region {asked!r} of {dim}: expected a slice or 'auto'")
    start, stop, step = asked.indices(length)
    if step != 1 or stop <= start or (asked.stop is not None and asked.stop > length):
        raise InvalidInputError(
            f"region= of {dim} is {asked}, which is no region of its {length} elements"
        )
    return start, stop


def _values(header: SourceHeader, dim: str) -> NDArray[Any] | None:
    array = header.arrays.get(dim)
    return array.values if array is not None and array.is_index else None


# Plans of variables


def _box(header: ArrayHeader, places: Place) -> Box:
    return tuple(
        places.get(dim, (0, extent)) for dim, extent in zip(header.dims, header.shape, strict=True)
    )


def _find_problems(
    filling: Filling, name: str, having: Sequence[SourceHeader], places: Mapping[str, Place]
) -> Iterator[Problem]:
    files = tuple(each.name for each in having)
    there = filling.existing.arrays.get(name)
    if there is None:
        text = "it is not in the repository, and region= fills only what is there"
        yield Problem(ProblemKind.DIMENSIONS, name, text, files)
        return
    both = [(THE_REPOSITORY, there), *((each.name, each.arrays[name]) for each in having)]
    dims = list(compare(both, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims))
    if dims:
        yield from dims
        return
    yield from compare_meaning(both)
    yield from compare_storage(both)
    yield from find_obstacles(both)
    boxes = [_box(each.arrays[name], places[each.name]) for each in having]
    yield from _find_overlaps(name, files, boxes)
    yield from _find_ragged(there, files, boxes)


def _find_overlaps(name: str, files: Sequence[str], boxes: Sequence[Box]) -> Iterator[Problem]:
    corners = np.array(boxes, np.int64).reshape(len(boxes), -1, 2)
    for row in range(1, len(boxes)):
        before = corners[:row]
        meets = (before[:, :, 0] < corners[row, :, 1]) & (corners[row, :, 0] < before[:, :, 1])
        for other in np.flatnonzero(meets.all(axis=1)).tolist():
            text = "they fill the same"
            yield Problem(ProblemKind.DUPLICATE, name, text, (files[other], files[row]))


def _find_ragged(
    there: ArrayHeader, files: Sequence[str], boxes: Sequence[Box]
) -> Iterator[Problem]:
    """Report regions that start or end inside a chunk, other than at the end of the array."""
    inside = []
    for file, box in zip(files, boxes, strict=True):
        axes = zip(box, there.chunk_shape, there.shape, strict=True)
        if any(a % step or (b % step and b != length) for (a, b), step, length in axes):
            inside.append(file)
    if inside:
        text = f"its region is not along the edges of chunks of {list(there.chunk_shape)}"
        yield Problem(ProblemKind.RAGGED, there.name, text, tuple(inside))


def _plan_variable(
    filling: Filling,
    name: str,
    having: Sequence[SourceHeader],
    places: Mapping[str, Place],
    rows: Mapping[str, int],
) -> VariablePlan:
    there = filling.existing.arrays[name]
    offsets = np.full((len(rows), len(there.shape)), NOT_PLACED, np.int64)
    for each in having:
        starts = [start for start, _ in _box(each.arrays[name], places[each.name])]
        offsets[rows[each.name]] = np.array(starts, np.int64) // np.array(there.chunk_shape)
    return VariablePlan(name, Treatment.VIRTUAL, there.metadata, offsets)


def _plan_native(
    filling: Filling, name: str, having: Sequence[SourceHeader], places: Mapping[str, Place]
) -> NativeArray:
    there, first = filling.existing.arrays[name], having[0].arrays[name]
    dim = filling.append_dim
    boxes = {each.name: _box(each.arrays[name], places[each.name]) for each in having}
    parts = [Part(each, box, tuple(start for start, _ in box)) for each, box in boxes.items()]
    return NativeArray(
        name,
        there.shape,
        find_unit(there.metadata),
        first.chunk_shape if "chunk_grid" in first.metadata else there.chunk_shape,
        item_bytes(there),
        there.dims.index(dim) if dim in there.dims else None,
        tuple(parts),
    )
