"""Plan an ingest: options, modes, and all problems of its sources. Pure."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.display import list_known
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.maintenance.reachability import pack
from frazil.spark.checks.audit import AnyCheck
from frazil.spark.ingestion.encoding_options import (
    EncodingOptions,
    can_encode,
    find_unit,
    item_bytes,
    plan_metadata,
)
from frazil.spark.ingestion.ledger import Region, find_group
from frazil.spark.regions import LEAST_TASK_BYTES, Box, Shape, choose_task_bytes, count_items, grow
from frazil.virtual.combine_plan import (
    Plan,
    Problem,
    ProblemKind,
    Report,
    Severity,
    Treatment,
    VariablePlan,
)
from frazil.virtual.combine_sources import (
    are_equal,
    combine,
    compare,
    compare_meaning,
    compare_storage,
)
from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.source import ArrayHeader, FileVersion, SourceHeader
from frazil.virtual.source_formats import Credentials, without_codec_warnings

RegionOption = Mapping[str, slice | tuple[int, int] | Literal["auto"]] | Literal["auto"]
"""Region by dimension, or `auto` for the region given by the values of coordinates."""

Mode = Literal["auto", "virtual", "native"]
OnOverlap = Literal["refuse", "replace"]
OnBadFile = Literal["fail", "skip"]
OnFailedCheck = Literal["fail", "quarantine"]

_ALTERNATIVES = {
    "mode": get_args(Mode), "on_overlap": get_args(OnOverlap), "on_bad_file": get_args(OnBadFile),
    "on_failed_check": get_args(OnFailedCheck),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an ingest."""

    branch: str
    group: str
    """Path without leading and trailing slashes; empty for the root."""
    append_dim: str | None
    on_overlap: OnOverlap
    on_bad_file: OnBadFile
    mode: Mode
    message: str | None
    dry_run: bool
    files_per_task: int
    checks: tuple[AnyCheck, ...] = ()
    on_failed_check: OnFailedCheck = "fail"
    containers: Sequence[VirtualChunkContainer] = ()
    credentials: Credentials = field(default_factory=dict, repr=False)
    encoding_options: EncodingOptions = field(default_factory=EncodingOptions)
    region: RegionOption | None = None
    statistics: bool = False


def refuse_unknown(**given: str) -> None:
    """Raise InvalidInputError for an unknown value of an option."""
    for name, value in given.items():
        if value not in _ALTERNATIVES[name]:
            known = ", ".join(map(repr, _ALTERNATIVES[name]))
            raise InvalidInputError(f"{name}={value!r} is none of {known}")


def refuse_mistyped(**given: object) -> None:
    """Raise InvalidInputError for an option of the wrong type, before anything is read."""
    for name, value in given.items():
        is_right, wanted = _SHAPES[name]
        if not is_right(value):
            raise InvalidInputError(f"invalid {name} {value!r}: it must be {wanted}")


def refuse_unnamed(
    option: str, names: Iterable[str], known: Collection[str], what: str, whose: str = "the files"
) -> None:
    """Raise InvalidInputError for a name that doesn't exist, and list the known names."""
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"invalid {option} {name!r}: {whose} have {list_known(name, known, what)}"
            )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    is_several = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return is_several and all(map(_is_name, value))


def _maps_names(value: Any) -> bool:
    is_mapping = value is None or isinstance(value, Mapping)
    return is_mapping and all(map(_is_name, value or ()))


_NAMES = (_are_names, "a list of names of arrays")
_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "append_dim": (
        lambda value: value is None or _is_name(value),
        "the name of one dimension, or None for a single file",
    ),
    "group": (lambda value: isinstance(value, str), "the path of a group"),
    "source_group": (lambda value: isinstance(value, str), "the path of a group"),
    "skip": _NAMES,
    "load": _NAMES,
    "rename": (
        lambda value: _maps_names(value) and all(map(_is_name, (value or {}).values())),
        "a dict of new names by old ones",
    ),
    "chunks": (_maps_names, "a dict by dimension, or by variable and dimension"),
    "encoding": (_maps_names, "a dict of settings by variable"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """Box of an array that a whole source fills."""

    source: str
    box: Box


@dataclass(frozen=True, slots=True)
class NativeArray:
    """Array whose values are decoded and written."""

    name: str
    shape: Shape
    unit: Shape
    """Shape of what is stored as one object: a chunk or a shard."""
    source_chunks: Shape
    """Chunk shape of the sources; tasks read whole source chunks where possible."""
    itemsize: int
    axis: int | None
    """Axis of the append dimension."""
    parts: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        """Return the decoded size of all its parts."""
        return sum(count_items(each.box) for each in self.parts) * self.itemsize


@dataclass(frozen=True, slots=True)
class Fragment:
    """Part of a source that goes to a box of the array."""

    source: str
    box: Box
    origin: Shape
    """Position of the source's first element in the array."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Fragments of an array that one task writes together."""

    array: str
    fragments: tuple[Fragment, ...]
    bytes: int
    start: int
    """Position along the append dimension."""


@dataclass(frozen=True, slots=True)
class Written:
    """Chunks and bytes that tasks wrote of an array."""

    chunks: int
    bytes: int
    """Encoded size."""


def plan_tasks(arrays: Sequence[NativeArray], slots: int) -> list[list[Piece]]:
    """Return the pieces of all arrays, grouped by task."""
    limit = choose_task_bytes(sum(each.bytes for each in arrays), slots)
    pieces = [
        piece for array in arrays for piece in plan_pieces(array, min(limit, LEAST_TASK_BYTES))
    ]
    pieces.sort(key=lambda each: each.start)
    return pack(pieces, [each.bytes for each in pieces], limit)


def plan_pieces(array: NativeArray, most_bytes: int) -> list[Piece]:
    """Split the array into pieces of whole chunks of about the given size."""
    cell = _choose_cell(array, most_bytes)
    found: defaultdict[Shape, list[Fragment]] = defaultdict(list)
    for part in array.parts:
        origin = tuple(start for start, _ in part.box)
        for place, box in _slice_native(part.box, cell):
            found[place].append(Fragment(part.source, box, origin))
    pieces = []
    for place in sorted(found):
        fragments = tuple(found[place])
        size = sum(count_items(each.box) for each in fragments) * array.itemsize
        start = 0 if array.axis is None else place[array.axis] * cell[array.axis]
        pieces.append(Piece(array.name, fragments, size, start))
    return pieces


def bounding(boxes: Sequence[Box]) -> Box | None:
    """Return the box that disjoint boxes fill without gaps, or None."""
    ends = [list(zip(*each, strict=True)) for each in zip(*boxes, strict=True)]
    whole = tuple((min(starts), max(stops)) for starts, stops in ends)
    return whole if sum(map(count_items, boxes)) == count_items(whole) else None


def _choose_cell(array: NativeArray, most_bytes: int) -> Shape:
    goals = [
        min(-(-size // unit) * unit, length)
        for size, unit, length in zip(array.source_chunks, array.unit, array.shape, strict=True)
    ]
    size = grow(array.unit, array.shape, most_bytes // max(array.itemsize, 1), goals)
    # A whole axis need not be a multiple of the unit, but cells must end at chunk boundaries.
    return tuple(-(-each // unit) * unit for each, unit in zip(size, array.unit, strict=True))


def _slice_native(box: Box, cell: Shape) -> Iterable[tuple[Shape, Box]]:
    """Yield the parts of a box with the grid cell they lie in."""
    axes = [
        [
            (number, (max(start, number * size), min(stop, (number + 1) * size)))
            for number in range(start // size, -(-stop // size))
        ]
        for (start, stop), size in zip(box, cell, strict=True)
    ]
    for combination in product(*axes):
        yield tuple(each[0] for each in combination), tuple(each[1] for each in combination)


SOLVED_BY_DECODING = frozenset({
    ProblemKind.CODECS, ProblemKind.CHUNKS, ProblemKind.FILL_VALUE, ProblemKind.RAGGED,
    ProblemKind.UNREACHABLE,
})  # fmt: skip
"""Problems that decoding solves; values must still have equal meaning."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Options and facts that decide between virtual and native variables."""

    mode: Mode = "virtual"
    encoding_options: EncodingOptions = field(default_factory=EncodingOptions)
    native_there: frozenset[str] = frozenset()
    """Existing arrays with native chunks."""


def choose_native(
    plan: Plan, problems: Iterable[Problem], there: Mapping[str, ArrayHeader], choice: Choice
) -> dict[str, str]:
    """Return the variables to decode and write, with the reason for each."""
    if choice.mode == "virtual":
        return {}
    reasons: dict[str, list[str]] = {}
    for each in problems:
        if each.kind in SOLVED_BY_DECODING:
            reasons.setdefault(each.subject, []).append(each.text)
    found = {}
    for name, variable in plan.variables.items():
        if variable.treatment is Treatment.INLINE or "data_type" not in variable.metadata:
            continue
        if choice.mode == "native":
            found[name] = "mode='native'"
        elif name in choice.native_there:
            found[name] = "it is native in the repository"
        elif name in reasons:
            found[name] = "; ".join(dict.fromkeys(reasons[name]))
        elif choice.encoding_options.names(name) and name not in there:
            found[name] = "its encoding was asked for"
    return found


def find_unsolved(problems: Iterable[Problem], native: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems that remain after some variables are decoded."""
    for each in problems:
        if each.kind not in SOLVED_BY_DECODING or each.subject not in native:
            yield each


def find_one_way(there: Mapping[str, ArrayHeader], native: Iterable[str]) -> Iterator[Problem]:
    """Report existing arrays whose codecs can decode but not encode."""
    for name in native:
        if name in there and not can_encode(there[name].metadata):
            text = (
                "its codecs in the repository can only decode: rechunk it with other compressors, or "
                "leave it out with skip="
            )
            yield Problem(ProblemKind.CODECS, name, text, ())


@dataclass(frozen=True, slots=True, eq=False)
class IngestContext:
    """Sources, regions and existing arrays that native arrays are planned for."""

    headers: Sequence[SourceHeader]
    """Headers of the sources to ingest."""
    regions: Mapping[str, Region | None]
    there: Mapping[str, ArrayHeader]
    is_kept: bool
    """True if any part of the group is kept."""
    append_dim: str | None
    encoding_options: EncodingOptions


def plan_native(
    variable: VariablePlan, around: IngestContext
) -> tuple[dict[str, object], NativeArray]:
    """Return the metadata of an array, and the box of each source in it."""
    having = [each for each in around.headers if variable.name in each.arrays]
    first = having[0].arrays[variable.name]
    shape = tuple(variable.metadata["shape"])
    there = around.there.get(variable.name)
    if there is not None:
        metadata = {**there.metadata, "shape": list(shape)}
    else:
        metadata = plan_metadata(first, shape, around.append_dim, around.encoding_options)
    axis = first.dims.index(around.append_dim) if around.append_dim in first.dims else None
    if axis is None:
        having = [] if there is not None and around.is_kept else having[:1]
    parts = [
        Part(each.name, _place(each.arrays[variable.name], axis, around.regions[each.name]))
        for each in having
    ]
    return metadata, NativeArray(
        variable.name,
        shape,
        find_unit(metadata),
        first.chunk_shape,
        item_bytes(first),
        axis,
        tuple(parts),
    )


def _place(header: ArrayHeader, axis: int | None, region: Region | None) -> tuple[Region, ...]:
    box = [(0, extent) for extent in header.shape]
    if axis is not None and region is not None:
        box[axis] = region
    return tuple(box)


THE_REPOSITORY = "the repository"
_NO_VERSION = FileVersion(None, datetime(1970, 1, 1, tzinfo=UTC), 0)


def read_existing(
    store: object,
    group: str,
    fresh: Mapping[str, ArrayHeader],
    append_dim: str | None,
    times: Collection[str] = (),
) -> SourceHeader | None:
    """Return the header of a group, to be combined with those of sources, or None without arrays.

    `fresh` are the arrays whose values all new headers include. For arrays that are inline here as
    well, only values to compare are read, and those of `times`, which may need conversion.
    """
    with without_codec_warnings():
        found = find_group(store, group)
        if found is None:
            return None
        arrays = {
            name: _read_array(
                array,
                ArrayHeader(name, _metadata(array)),
                fresh.get(name),
                None if name in times else append_dim,
            )
            for name, array in found.arrays()
        }
    if not arrays:
        return None
    attributes = dict(found.attrs)
    return SourceHeader(THE_REPOSITORY, "zarr", "", _NO_VERSION, attributes, arrays)


def _metadata(array: zarr.Array[Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(array.metadata.to_dict()))
    return found


def _read_array(
    array: zarr.Array[Any], header: ArrayHeader, fresh: ArrayHeader | None, append_dim: str | None
) -> ArrayHeader:
    if header.is_index:
        return replace(header, values=np.asarray(array[...]))
    if fresh is None or _is_virtual(header, fresh):
        return header
    if append_dim in header.dims:
        # The existing values are kept and never compared; any values mark the array as loaded.
        return replace(header, values=np.broadcast_to(np.zeros((), array.dtype), array.shape))
    return replace(header, values=np.asarray(array[...]))


def _is_virtual(header: ArrayHeader, fresh: ArrayHeader) -> bool:
    """Return whether an array is stored as in the files, so that references can be added."""
    return header.chunk_shape == fresh.chunk_shape and not list(
        compare_storage([(THE_REPOSITORY, header), ("a file", fresh)])
    )


def cut_out(header: SourceHeader, dim: str | None, holes: Sequence[Region]) -> list[SourceHeader]:
    """Return the parts of a group that remain beside the regions to be ingested again."""
    if not holes:
        return [header]
    if dim is None:
        return []
    length = header.dims[dim]
    return [_slice_existing(header, dim, part) for part in _between(sorted(holes), length)]


def _between(holes: Sequence[Region], length: int) -> Iterator[Region]:
    start = 0
    for hole_start, hole_stop in [*holes, (length, length)]:
        if start < hole_start:
            yield start, hole_start
        start = hole_stop


def _slice_existing(header: SourceHeader, dim: str, part: Region) -> SourceHeader:
    arrays = {name: _cut_array(array, dim, part) for name, array in header.arrays.items()}
    return replace(header, location=f"{header.location} [{part[0]}:{part[1]}]", arrays=arrays)


def _cut_array(array: ArrayHeader, dim: str, part: Region) -> ArrayHeader:
    if dim not in array.dims:
        return array
    axis = array.dims.index(dim)
    shape = list(array.shape)
    shape[axis] = part[1] - part[0]
    values = array.values
    if values is not None:
        values = values[(slice(None),) * axis + (slice(*part),)]
    return replace(array, metadata={**array.metadata, "shape": shape}, values=values)


Replacing = tuple[SourceHeader, Region | None]
"""Source and the region it replaces."""


@dataclass(frozen=True, slots=True, eq=False)
class IngestPlan:
    """Plan of an ingest into a group."""

    plan: Plan
    append_dim: str | None
    regions: Mapping[str, Region | None]
    """Region of each ingested source along the append dimension."""
    replaced: Mapping[str, Region | None] = field(default_factory=dict)
    """Regions of the sources that were ingested before."""
    existing: SourceHeader | None = None
    kept: tuple[str, ...] = ()
    """Parts of the group that are kept unchanged."""
    natives: Mapping[str, NativeArray] = field(default_factory=dict)
    """Variables whose values are decoded and written."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason for each native variable."""
    asked: frozenset[str] = frozenset()
    """Variables created with the encoding the caller requested."""
    places: Mapping[str, Mapping[str, Region]] = field(default_factory=dict)
    """Region by dimension of sources that fill a part of existing arrays."""


def plan_ingest(
    new: Sequence[SourceHeader],
    changed: Sequence[Replacing],
    existing: SourceHeader | None,
    append_dim: str | None,
    choice: Choice | None = None,
) -> IngestPlan:
    """Plan the region of each source; raise InvalidSourcesError with all problems and their files.

    Without a choice every variable is virtual.
    """
    choice = choice or Choice()
    replaced = {header.name: region for header, region in changed}
    holes = [region or (0, 0) for region in replaced.values()]
    kept = cut_out(existing, append_dim, holes) if existing is not None else []
    headers = [*new, *(header for header, _ in changed)]
    plan = combine([*kept, *headers], append_dim or ())
    found = IngestPlan(
        plan,
        append_dim,
        {header.name: _region(plan, append_dim, header.name) for header in headers},
        replaced,
        existing,
        tuple(each.name for each in kept),
    )
    problems = [*_serious(plan), *_find_displaced(found), *_find_misfits(found)]
    there = existing.arrays if existing is not None else {}
    reasons = choose_native(plan, problems, there, choice)
    refuse([*find_unsolved(problems, reasons), *find_one_way(there, reasons)], choice)
    return _with_natives(found, headers, reasons, choice)


def _with_natives(
    found: IngestPlan, headers: Sequence[SourceHeader], reasons: Mapping[str, str], choice: Choice
) -> IngestPlan:
    """Return the plan with its native variables."""
    there = found.existing.arrays if found.existing is not None else {}
    around = IngestContext(
        headers, found.regions, there, bool(found.kept), found.append_dim, choice.encoding_options
    )
    variables = dict(found.plan.variables)
    natives = {}
    for name in reasons:
        metadata, natives[name] = plan_native(variables[name], around)
        variables[name] = replace(variables[name], treatment=Treatment.REENCODED, metadata=metadata)
    asked = {
        name for name in variables if choice.encoding_options.names(name) and name not in there
    }
    for name in asked - natives.keys():
        header = next(each.arrays[name] for each in headers if name in each.arrays)
        shape = variables[name].metadata["shape"]
        metadata = plan_metadata(header, shape, found.append_dim, choice.encoding_options)
        variables[name] = replace(variables[name], metadata=metadata)
    return replace(
        found,
        plan=replace(found.plan, variables=variables),
        natives=natives,
        reasons=reasons,
        asked=frozenset(asked),
    )


def find_unread(
    existing: SourceHeader, counted: SourceHeader, names: Iterable[str]
) -> Iterator[Problem]:
    """Report virtual times in the repository that would need conversion."""
    for name in sorted(names):
        before, after = existing.arrays[name], counted.arrays[name]
        is_kept = before.metadata["data_type"] == after.metadata["data_type"]
        if not is_kept or before.attributes != after.attributes:
            text = (
                "it is virtual in the repository, and neither its type nor its units hold the times "
                "of the files: rechunk it first"
            )
            yield Problem(ProblemKind.COORDINATE, name, text, ())


def find_converted(
    headers: Sequence[SourceHeader], counted: Sequence[SourceHeader]
) -> Iterator[Problem]:
    """Report arrays with converted values, because a region is filled with unconverted chunks."""
    for before, after in zip(headers, counted, strict=True):
        for name, array in after.arrays.items():
            if array is not before.arrays[name] and not array.is_index:
                text = "it is counted from another moment, or in another type, than the repository"
                yield Problem(ProblemKind.COORDINATE, name, text, (after.name,))


def have_one_clock(one: SourceHeader, other: SourceHeader, dim: str) -> bool:
    """Return whether the coordinates of two sources have the same units and calendar."""
    first, second = one.arrays[dim].attributes, other.arrays[dim].attributes
    return all(first.get(each) == second.get(each) for each in ("units", "calendar"))


def split_replacing(
    new: Sequence[SourceHeader], existing: SourceHeader, dim: str | None
) -> tuple[list[SourceHeader], list[Replacing]]:
    """Split sources into those with new coordinate values, and those that replace existing ones."""
    there = _values_along(existing, dim)
    bringing: list[SourceHeader] = []
    replacing: list[Replacing] = []
    for header in new:
        values = _values_along(header, dim)
        region = None
        if dim is not None and there is not None and values is not None:
            region = find_run(there, values) if have_one_clock(header, existing, dim) else None
        if region is None:
            bringing.append(header)
        else:
            replacing.append((header, region))
    return bringing, replacing


def _values_along(header: SourceHeader, dim: str | None) -> NDArray[Any] | None:
    return header.arrays[dim].values if dim is not None and dim in header.arrays else None


def find_run(there: NDArray[Any], values: NDArray[Any]) -> Region | None:
    """Return the region where values occur as a run in existing values, or None."""
    for start in np.flatnonzero(there == values[0]).tolist() if len(values) else ():
        if are_equal(there[start : start + len(values)], values):
            return start, start + len(values)
    return None


def loaded_everywhere(headers: Sequence[SourceHeader]) -> dict[str, ArrayHeader]:
    """Return the arrays whose values every header with the array includes."""
    arrays = [array for header in headers for array in header.arrays.values()]
    unread = {array.name for array in arrays if array.values is None}
    return {array.name: array for array in arrays if array.name not in unread}


def refuse(wrong: Sequence[Problem], choice: Choice) -> None:
    """Raise InvalidSourcesError if there are problems."""
    if wrong:
        files = [file for problem in wrong for file in problem.files]
        hint = "variables can be left out with skip="
        if choice.mode == "virtual":
            hint = (
                "what must be re-encoded needs mode='auto' or 'native', or is left out with skip="
            )
        raise InvalidSourcesError(
            f"the sources can't be ingested as they are; {hint}:\n{Report(tuple(wrong))}",
            files=[file for file in files if not file.startswith(THE_REPOSITORY)],
        )


def _serious(plan: Plan) -> Iterator[Problem]:
    yield from plan.report.with_severity(Severity.STOPS)
    yield from plan.report.with_severity(Severity.REENCODES)


def _region(plan: Plan, dim: str | None, name: str) -> Region | None:
    if dim is None or dim not in plan.regions:
        return None
    start, stop = plan.regions[dim][plan.sources[name]].tolist()
    return start, stop


def _find_displaced(found: IngestPlan) -> Iterator[Problem]:
    """Report sources that would move existing data."""
    dim = found.append_dim
    if dim is None:
        return
    end = found.existing.dims.get(dim, 0) if found.existing is not None else 0
    for name, region in found.regions.items():
        if region is None:
            continue
        before = found.replaced.get(name)
        if before is not None and before != region:
            text = f"it is in {_show(before)} and would be in {_show(region)} now"
            yield Problem(ProblemKind.LENGTH, dim, text, (name,))
        if before is None and region[0] < end:
            text = f"it would come to {_show(region)}, before the end of what is there, {end}"
            yield Problem(ProblemKind.OVERLAP, dim, text, (name,))


def _show(region: Region) -> str:
    return f"[{region[0]}:{region[1]}]"


def _find_misfits(found: IngestPlan) -> Iterator[Problem]:
    """Report variables that don't fit the existing ones when no part of the group is kept."""
    if found.existing is None or found.kept:
        return
    dim = found.append_dim

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for each, extent in pairs if each != dim]

    for name, variable in found.plan.variables.items():
        there = found.existing.arrays.get(name)
        if there is None:
            continue
        both = [(THE_REPOSITORY, there), *((each, ArrayHeader(name, variable.metadata))
                for each in found.regions)]  # fmt: skip
        yield from compare(both, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims)
        yield from compare(both, ProblemKind.LENGTH, "length of its other axes", fixed)
        yield from compare_meaning(both)
        if variable.values is None:
            yield from compare_storage(both)
