"""Plan an ingest: options, modes, and all problems of its sources. Pure."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.spark.ingestion.ingest_options import (
    EncodingOptions,
    Mode,
    OnLate,
    OnOverlap,
    can_encode,
    find_unit,
    item_bytes,
    plan_metadata,
)
from frazil.spark.ingestion.ledger import Covered, Place, Region, find_group
from frazil.spark.regions import Box, Shape, count_items, subtract_box
from frazil.virtual.combine_axes import (
    THE_REPOSITORY,
    Boxes,
    are_equal,
    boxes_of,
    compare,
    compare_meaning,
    compare_storage,
    read_indexes,
)
from frazil.virtual.combine_plan import (
    NOT_PLACED,
    Plan,
    Problem,
    ProblemKind,
    Report,
    Severity,
    Treatment,
    VariablePlan,
)
from frazil.virtual.combine_sources import (
    adopt_fill_value,
    combine,
    drop_superseded,
    group_runs,
    order_overlapping,
    refuse_other_lengths,
)
from frazil.virtual.conversions import (
    CONVERTED,
    PACKED_DIFFERENTLY,
    Conversion,
    Packing,
    Repacking,
    convert_arrays,
    is_decoded,
    plan_packings,
    repack_arrays,
    unpack_array,
)
from frazil.virtual.new_dimensions import align_coordinates, make_index
from frazil.virtual.source import ArrayHeader, FileVersion, SourceHeader
from frazil.virtual.source_formats import without_codec_warnings
from frazil.virtual.time_units import count_alike, show_region


@dataclass(frozen=True, slots=True)
class Part:
    """Box of an array that a source fills."""

    source: str
    box: Box
    origin: Shape
    """Position of the source's first element in the array; may be negative."""


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


SOLVED_BY_DECODING = frozenset({
    ProblemKind.CODECS, ProblemKind.CHUNKS, ProblemKind.FILL_VALUE, ProblemKind.RAGGED,
    ProblemKind.UNREACHABLE,
})  # fmt: skip
"""Problems that decoding solves; values must still have equal meaning."""
_IN_ANY_MODE = (ProblemKind.VALUES, ProblemKind.DATA_TYPE)


@dataclass(frozen=True, slots=True)
class Choice:
    """Options and facts that decide between virtual and native variables."""

    mode: Mode = "virtual"
    encoding_options: EncodingOptions = field(default_factory=EncodingOptions)
    native_there: frozenset[str] = frozenset()
    """Existing arrays with native chunks."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Reason why values of a variable are decoded and written, and of which files."""

    reason: str
    files: frozenset[str] | None = None
    """None if those of all files are."""
    is_overlapping: bool = False
    """True if files overlap in part, and later ones replace earlier ones."""


def choose_native(
    plan: Plan,
    headers: Iterable[SourceHeader],
    problems: Iterable[Problem],
    there: Mapping[str, ArrayHeader],
    choice: Choice,
) -> dict[str, Decoding]:
    """Return the variables of sources to decode and write, with the reason for each.

    A minority of files that are stored in another way than the array is decoded file by file.
    """
    if choice.mode == "virtual":
        return {}
    brought = {name for header in headers for name in header.arrays}
    blamed: defaultdict[str, list[Problem]] = defaultdict(list)
    for each in problems:
        if each.kind in SOLVED_BY_DECODING:
            blamed[each.subject].append(each)
    found = {}
    for name, variable in plan.variables.items():
        is_known = "data_type" in variable.metadata and name in brought
        if variable.treatment is Treatment.INLINE or not is_known:
            continue
        converted = (variable.metadata.get("attributes") or {}).get(CONVERTED)
        if converted:
            found[name] = Decoding(f"convert: {', '.join(converted)}")
        elif choice.mode == "native":
            found[name] = Decoding("; ".join(["mode='native'", *_find_repacked(blamed[name])]))
        elif name in choice.native_there:
            found[name] = Decoding("it is native in the repository")
        elif name in blamed:
            found[name] = _decode_blamed(variable, blamed[name], name in there)
        elif choice.encoding_options.names(name) and name not in there:
            found[name] = Decoding("its encoding was asked for")
    return found


def _find_repacked(problems: Iterable[Problem]) -> dict[str, None]:
    texts = (each.text for each in problems if each.text.startswith(PACKED_DIFFERENTLY))
    return dict.fromkeys(texts)


def _decode_blamed(variable: VariablePlan, problems: Sequence[Problem], is_there: bool) -> Decoding:
    text = "; ".join(dict.fromkeys(each.text for each in problems))
    files = frozenset(file for each in problems for file in each.files)
    placed = int(np.sum(np.all(variable.chunk_offsets != NOT_PLACED, axis=1)))
    is_minority = len(files) * 2 < placed and can_encode(variable.metadata)
    if is_there or is_minority:
        return Decoding(f"{len(files)} of {placed} files: {text}", files)
    return Decoding(text)


def find_unsolved(problems: Iterable[Problem], native: Collection[str]) -> Iterator[Problem]:
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


def plan_native(
    variable: VariablePlan, found: "IngestPlan", decoding: Decoding, choice: Choice
) -> tuple[dict[str, object], NativeArray]:
    """Return the metadata of an array, and the boxes that sources fill in it."""
    name = variable.name
    having = [each for each in found.headers if name in each.arrays]
    if decoding.files is not None:
        having = [each for each in having if each.name in decoding.files]
    first = having[0].arrays[name]
    shape = tuple(variable.metadata["shape"])
    there = found.existing.arrays.get(name) if found.existing is not None else None
    growing = next((dim for dim in found.dims if dim in first.dims), None)
    if there is not None:
        metadata = {**there.metadata, "shape": list(shape)}
    elif decoding.files is not None:
        metadata = dict(variable.metadata)
    else:
        lengths = _lengths_of(name, having, found.dims)
        metadata = plan_metadata(first, shape, growing, choice.encoding_options, lengths)
    if growing is None:
        having = [] if there is not None and found.is_kept else having[:1]
    parts = [
        Part(each.name, _box_of(place), _origin_of(place, part))
        for each in having
        for place, part in group_runs(
            each.arrays[name], found.plan.sources[each.name], found.plan.axes
        )
    ]
    return metadata, NativeArray(
        name,
        shape,
        find_unit(metadata),
        first.chunk_shape,
        item_bytes(first),
        first.dims.index(growing) if growing is not None else None,
        tuple(_make_disjoint(parts) if decoding.is_overlapping else parts),
    )


def _make_disjoint(parts: Sequence[Part]) -> list[Part]:
    """Return parts of which later ones replace earlier ones where they overlap."""
    found: list[Part] = []
    for at, part in enumerate(parts):
        boxes = [part.box]
        for later in parts[at + 1 :]:
            boxes = [each for box in boxes for each in subtract_box(box, later.box)]
        found += [replace(part, box=each) for each in boxes]
    return found


def _lengths_of(
    name: str, headers: Iterable[SourceHeader], dims: Sequence[str]
) -> dict[str, list[int]]:
    """Return the lengths of the files that have a variable, by dimension that grows."""
    arrays = [each.arrays[name] for each in headers if name in each.arrays]
    growing = [dim for dim in dims if dim in arrays[0].dims]
    return {dim: [each.shape[each.dims.index(dim)] for each in arrays] for dim in growing}


def _box_of(place: Sequence[slice]) -> Box:
    return tuple((each.start, each.stop) for each in place)


def _origin_of(place: Sequence[slice], part: Sequence[slice]) -> Shape:
    return tuple(a.start - b.start for a, b in zip(place, part, strict=True))


_NO_VERSION = FileVersion(None, datetime(1970, 1, 1, tzinfo=UTC), 0)


def read_existing(
    store: object,
    group: str,
    fresh: Mapping[str, ArrayHeader],
    dims: Collection[str],
    wanted: Collection[str] = (),
) -> SourceHeader | None:
    """Return the header of a group, to be combined with those of sources, or None without arrays.

    `fresh` are the arrays whose values all new headers include. For arrays that are inline here as
    well, only values to compare are read, and those of `wanted`: times, which may need conversion, and
    arrays without the dimensions, which look as in the files wherever they are.
    """
    with without_codec_warnings():
        found = find_group(store, group)
        if found is None:
            return None
        arrays = {
            name: _read_array(
                array, ArrayHeader(name, _metadata(array)), fresh.get(name), dims, name in wanted
            )
            for name, array in found.arrays()
        }
    if not arrays:
        return None
    for dim in dims:
        refuse_other_lengths(dim, arrays.values())
    attributes = dict(found.attrs)
    return SourceHeader(THE_REPOSITORY, "zarr", "", _NO_VERSION, attributes, arrays)


def _metadata(array: zarr.Array[Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(array.metadata.to_dict()))
    return found


def _read_array(
    array: zarr.Array[Any],
    header: ArrayHeader,
    fresh: ArrayHeader | None,
    dims: Collection[str],
    is_wanted: bool,
) -> ArrayHeader:
    if header.is_index or (fresh is not None and is_wanted):
        return replace(header, values=np.asarray(array[...]))
    if fresh is None or _is_virtual(header, fresh):
        return header
    if len(dims) == 1 and set(dims) & set(header.dims):
        # The existing values are kept and never compared; any values mark the array as loaded.
        return replace(header, values=np.broadcast_to(np.zeros((), array.dtype), array.shape))
    return replace(header, values=np.asarray(array[...]))


def _is_virtual(header: ArrayHeader, fresh: ArrayHeader) -> bool:
    """Return whether an array is stored as in the files, so that references can be added."""
    fresh = adopt_fill_value(fresh, header)
    return header.chunk_shape == fresh.chunk_shape and not list(
        compare_storage([(THE_REPOSITORY, header), ("a file", fresh)])
    )


@dataclass(frozen=True, slots=True, eq=False)
class IngestPlan:
    """Plan of an ingest into a group."""

    plan: Plan
    dims: tuple[str, ...]
    headers: tuple[SourceHeader, ...]
    """Sources to ingest."""
    places: Mapping[str, Place]
    """Region by dimension of each ingested source."""
    replaced: Mapping[str, Place] = field(default_factory=dict)
    """Places of sources whose data replaces what was there."""
    existing: SourceHeader | None = None
    is_kept: bool = False
    """True if any part of the group is kept unchanged."""
    natives: Mapping[str, NativeArray] = field(default_factory=dict)
    """Variables with values that are decoded and written."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason for each of them."""
    asked: frozenset[str] = frozenset()
    """Variables created with the encoding the caller requested."""
    packings: Mapping[str, Repacking | None] = field(default_factory=dict)
    """Variables whose scale and offset differ between files, with those that they get, if any."""
    decoded: Mapping[str, Packing] = field(default_factory=dict)
    """Existing arrays that are rewritten as float64, with the packing that they have now."""
    changed: frozenset[str] = frozenset()
    """Sources of which an earlier version was ingested before."""

    def move(self, boxes: Boxes) -> Boxes:
        """Return places of the repository in the positions of the plan.

        A place that is negative along a dimension is that of all there is.
        """
        found = np.zeros_like(boxes)
        for at, axis in enumerate(self.plan.axes.values()):
            count = len(axis.moved)
            is_whole = boxes[:, at, 0] < 0
            start = np.where(is_whole, 0, boxes[:, at, 0])
            stop = np.where(is_whole, count, np.minimum(boxes[:, at, 1], count))
            kept = np.flatnonzero(start < stop)
            found[kept, at, 0] = axis.moved[start[kept]]
            found[kept, at, 1] = axis.moved[stop[kept] - 1] + 1
        return found

    @property
    def shifts(self) -> dict[str, NDArray[np.int64]]:
        """Return the new position of each existing element, by dimension in which any moves."""
        return {dim: each.moved for dim, each in self.plan.axes.items() if each.is_shifted}


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Group that an ingest extends."""

    existing: SourceHeader | None = None
    covered: Covered | None = None
    """Places of sources that were ingested before, without those that have changed."""
    changed: Mapping[str, Place] = field(default_factory=dict)
    """Former places of sources that have changed, by name."""
    is_static: bool = False
    """True if all sources hold the same arrays, which none of the dimensions tells apart."""


def plan_ingest(
    headers: Sequence[SourceHeader],
    target: Target,
    dims: Sequence[str],
    choice: Choice | None = None,
    *,
    on_overlap: OnOverlap = "refuse",
    on_late: OnLate = "insert",
    expected: Mapping[str, NDArray[Any]] | None = None,
) -> IngestPlan:
    """Plan the place of each source; raise InvalidSourcesError with all problems and their files.

    Without a choice every variable is virtual.
    """
    choice = choice or Choice()
    existing = target.existing
    headers, notes = align_coordinates(headers, existing)
    if on_overlap == "replace" and dims:
        headers, superseded = drop_superseded(headers, dims)
        notes += superseded
    packings: dict[str, Repacking | None] = {}
    decoded: dict[str, Packing] = {}
    if choice.mode != "virtual":
        packings = plan_packings(headers, existing.arrays if existing is not None else {})
        existing, decoded = _decode_existing(existing, packings, dims)
        packings = {
            name: each
            for name, each in packings.items()
            if each or name in decoded or existing is None or name not in existing.arrays
            or is_decoded(existing.arrays[name])
        }  # fmt: skip
        headers = [repack_arrays(each, packings) for each in headers] if packings else headers
    is_kept = existing is not None and not _is_replaced(existing, dims, target)
    there, is_static = existing if is_kept else None, target.is_static
    plan = combine(headers, dims, there=there, expected=expected, is_static=is_static)
    overlapping: list[Problem] = []
    ordered = order_overlapping(plan, headers, dims) if on_overlap == "replace" else None
    # References can't be cut: virtual files that overlap come one after the other.
    if ordered is not None and (choice.mode != "virtual" or not ordered[-1]):
        headers, superseded, overlapping = ordered
        plan = combine(headers, dims, there=there, expected=expected, is_static=is_static)
        settled = [e for e in plan.report if e.kind is not ProblemKind.OVERLAP or len(e.files) < 2]
        plan, notes = replace(plan, report=Report(tuple(settled))), [*notes, *superseded]
    plan = replace(plan, report=Report((*plan.report, *notes)))
    places = {header.name: _place(plan, header.name) for header in headers}
    found = IngestPlan(
        plan,
        tuple(dims),
        tuple(headers),
        places,
        {name: places[name] for name in target.changed if name in places},
        existing,
        is_kept,
        packings=packings,
        decoded=decoded,
        changed=frozenset(target.changed),
    )
    problems = [*_serious(plan), *overlapping, *_find_misfits(found)]
    if plan.axes:
        problems += _find_shrunk(found, target)
        if on_late == "refuse":
            problems += _find_late(found)
        occupied = list(_find_occupied(found, target))
        if on_overlap == "replace":
            replaced = {**found.replaced, **{name: places[name] for name, _ in occupied}}
            found = replace(found, replaced=replaced)
        else:
            problems += [problem for _, problem in occupied]
    arrays = existing.arrays if existing is not None else {}
    native = choose_native(plan, headers, problems, arrays, choice)
    refuse([*find_unsolved(problems, native), *find_one_way(arrays, native)], choice)
    blamed = {each.subject for each in overlapping}
    native = {k: replace(each, is_overlapping=k in blamed) for k, each in native.items()}
    return _with_natives(_keep_static(found), native, choice)


_MOST_DECODED_BYTES = 1 << 30
"""Maximum size of an existing array that is rewritten as float64."""


def _decode_existing(
    existing: SourceHeader | None, packings: Mapping[str, Repacking | None], dims: Sequence[str]
) -> tuple[SourceHeader | None, dict[str, Packing]]:
    """Return the group as if small arrays that don't hold the values of sources were decoded."""
    decoded: dict[str, Packing] = {}
    arrays = dict(existing.arrays) if existing is not None else {}
    for name, repacking in packings.items():
        packing = Packing.of(arrays[name]) if name in arrays else None
        if repacking is not None or packing is None or is_decoded(arrays[name]):
            continue
        array = unpack_array(arrays[name])
        if np.prod(array.shape) * item_bytes(array) <= _MOST_DECODED_BYTES:
            growing = next((dim for dim in dims if dim in array.dims), None)
            metadata = plan_metadata(array, array.shape, growing, EncodingOptions())
            arrays[name] = replace(array, metadata=metadata)
            decoded[name] = packing
    return (existing if existing is None else replace(existing, arrays=arrays)), decoded


def _keep_static(found: IngestPlan) -> IngestPlan:
    """Return the plan without new references to an array that grows along no dimension.

    It is there already, and stays as it is unless a source that replaces data brings it.
    """
    if found.existing is None or not found.is_kept:
        return found
    variables = dict(found.plan.variables)
    for name, variable in variables.items():
        there = found.existing.arrays.get(name)
        if there is None or set(there.dims) & set(found.dims):
            continue
        offsets = np.full_like(variable.chunk_offsets, NOT_PLACED)
        replacing = [e.name for e in found.headers if e.name in found.replaced and name in e.arrays]
        for source in replacing[:1]:
            offsets[found.plan.sources[source]] = 0
        if variable.treatment is Treatment.VIRTUAL:
            variables[name] = replace(variable, chunk_offsets=offsets)
    return replace(found, plan=replace(found.plan, variables=variables))


def plan_expected(
    expected: Mapping[str, Any], existing: SourceHeader | None, headers: Sequence[SourceHeader]
) -> dict[str, NDArray[Any]]:
    """Return the values that dimensions shall have, in type and units of their coordinates."""
    found = {}
    for dim, values in expected.items():
        sources = [each for each in (existing, *headers) if each is not None]
        having = [each.arrays[dim] for each in sources if dim in each.arrays]
        index = next(iter(having), None)
        if index is None:
            continue
        if callable(values):
            found[dim] = values(having)
            continue
        made = replace(make_index(dim, list(values), len(values)), name=dim)
        pair = [replace(sources[0], arrays={dim: index}), replace(sources[0], arrays={dim: made})]
        (_, counted), problems = count_alike(pair)
        indexes, wrong = read_indexes([pair[0], counted], [dim])
        if problems or wrong or indexes is None:
            raise InvalidInputError(
                f"invalid expected values of {dim!r}: they can't be given as "
                f"{index.metadata['data_type']} in the units {index.attributes.get('units')!r}"
            )
        found[dim] = indexes[dim][1]
    return found


def _is_replaced(existing: SourceHeader, dims: Sequence[str], target: Target) -> bool:
    """Return whether sources that have changed brought all that is there."""
    if not dims:
        return not target.is_static
    if target.covered or not target.changed:
        return False
    lengths = [existing.dims.get(dim, 0) for dim in dims]
    boxes = [[place.get(dim, (0, n)) for dim, n in zip(dims, lengths, strict=True)]
             for place in target.changed.values()]  # fmt: skip
    return sum(count_items(tuple(each)) for each in boxes) >= int(np.prod(lengths))


def _place(plan: Plan, name: str) -> Place:
    row = plan.sources[name]
    ends = {dim: axis.regions[row].tolist() for dim, axis in plan.axes.items()}
    return {dim: (start, stop) for dim, (start, stop) in ends.items()}


def _with_natives(found: IngestPlan, native: Mapping[str, Decoding], choice: Choice) -> IngestPlan:
    """Return the plan with its native variables."""
    there = found.existing.arrays if found.existing is not None else {}
    variables = dict(found.plan.variables)
    natives = {}
    for name, decoding in native.items():
        variable = variables[name]
        metadata, natives[name] = plan_native(variable, found, decoding, choice)
        offsets = variable.chunk_offsets.copy()
        treatment = Treatment.REENCODED
        if decoding.files is None:
            offsets[:] = NOT_PLACED
        else:
            treatment = Treatment.VIRTUAL
            offsets[[found.plan.sources[each] for each in decoding.files]] = NOT_PLACED
        variables[name] = replace(
            variable, treatment=treatment, metadata=metadata, chunk_offsets=offsets
        )
    asked = {
        name for name in variables if choice.encoding_options.names(name) and name not in there
    }
    for name in asked - natives.keys():
        header = next(each.arrays[name] for each in found.headers if name in each.arrays)
        shape = variables[name].metadata["shape"]
        growing = next((dim for dim in found.dims if dim in header.dims), None)
        lengths = _lengths_of(name, found.headers, found.dims)
        metadata = plan_metadata(header, shape, growing, choice.encoding_options, lengths)
        variables[name] = replace(variables[name], metadata=metadata)
    return replace(
        found,
        plan=replace(found.plan, variables=variables),
        natives=natives,
        reasons={name: each.reason for name, each in native.items()},
        asked=frozenset(asked),
    )


def convert_header(
    header: SourceHeader, conversions: Mapping[str, tuple[Conversion, ...]]
) -> SourceHeader:
    """Return the header of a source as if its arrays were stored converted."""
    try:
        return convert_arrays(header, conversions)
    except InvalidInputError as error:
        raise InvalidSourcesError(
            f"{header.name} can't be ingested: {error.message}", files=[header.name]
        ) from error


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


def find_run(there: NDArray[Any], values: NDArray[Any]) -> Region | None:
    """Return the region where values occur as a run in existing values, or None."""
    for start in np.flatnonzero(there == values[0]).tolist() if len(values) else ():
        if are_equal(there[start : start + len(values)], values):
            return start, start + len(values)
    return None


def refuse(wrong: Sequence[Problem], choice: Choice) -> None:
    """Raise InvalidSourcesError if there are problems."""
    if wrong:
        files = [file for problem in wrong for file in problem.files]
        hint = "variables can be left out with skip="
        encoded = [e for e in wrong if e.severity is Severity.REENCODES]
        if choice.mode == "virtual" and any(e.kind not in _IN_ANY_MODE for e in encoded):
            hint = (
                "what must be re-encoded needs mode='auto' or 'native', or is left out with skip="
            )
        if any(each.text.startswith(CONVERTED) for each in wrong):
            hint += ", and values of an array must all be converted alike: pass the same convert="
        if any(each.text.startswith(("scale_factor is", "add_offset is")) for each in wrong):
            hint += ", and a large array keeps its scale: ingest files of others into another group"
        if any(each.kind is ProblemKind.DATA_TYPE for each in wrong):
            hint += ", and eras='groups' puts files of another type into a group of their own"
        if any(each.kind is ProblemKind.DUPLICATE for each in wrong):
            hint += (
                ", of files for the same place on_overlap='replace' takes the newest, and files that "
                "differ in their paths alone need one more dimension in append_dim=, with "
                "coords={…: from_path(…)}"
            )
        elif any(each.is_rivalry for each in wrong):
            hint += ", and of files that overlap in part on_overlap='replace' takes the newest"
            if choice.mode == "virtual":
                hint += " with mode='auto', or in several ingests with on_bad_file='skip'"
        raise InvalidSourcesError(
            f"the sources can't be ingested as they are; {hint}:\n{Report(tuple(wrong))}",
            files=[file for file in files if not file.startswith(THE_REPOSITORY)],
            problems=wrong,
        )


def _serious(plan: Plan) -> Iterator[Problem]:
    yield from plan.report.with_severity(Severity.STOPS)
    yield from plan.report.with_severity(Severity.REENCODES)


def _find_shrunk(found: IngestPlan, target: Target) -> Iterator[Problem]:
    """Report sources that no longer have all the steps they had when they were ingested before."""
    for name, before in target.changed.items():
        if not found.is_kept or name not in found.places:
            continue
        axes = found.plan.axes
        box = np.array([[before.get(dim, (-1, -1)) for dim in axes]], np.int64).reshape(1, -1, 2)
        for dim, region in zip(axes, found.move(box)[0].tolist(), strict=True):
            now = found.places[name].get(dim, region)
            if now[0] > region[0] or now[1] < region[1]:
                axis = found.plan.axes[dim]
                was, is_now = show_region(axis, region), show_region(axis, now)
                text = f"it brought {was}, and would bring {is_now} now"
                yield Problem(ProblemKind.LENGTH, dim, text, (name,))


def _find_late(found: IngestPlan) -> Iterator[Problem]:
    """Report sources that would move existing data."""
    for name, problem in find_late(found):
        yield replace(problem, files=(name,))


def find_late(found: IngestPlan) -> Iterator[tuple[str, Problem]]:
    """Yield the sources with values before the end of what is there that are not there themselves."""
    for dim in found.shifts:
        axis = found.plan.axes[dim]
        is_new = np.ones(len(axis.values), bool)
        is_new[axis.moved] = False
        end = int(axis.moved[-1])
        for name, row in found.plan.sources.items():
            runs = axis.runs[row]
            if any(is_new[each.start : min(each.stop, end)].any() for each in runs):
                region = show_region(axis, found.places[name][dim])
                last = show_region(axis, (end, end + 1))
                text = f"it brings {region}, before the end of what is there, {last}"
                yield name, Problem(ProblemKind.OVERLAP, dim, text, (name,))


def _find_occupied(found: IngestPlan, target: Target) -> Iterator[tuple[str, Problem]]:
    """Yield the new sources whose place holds data already."""
    if not found.is_kept or found.existing is None:
        return
    new = [name for name in found.places if name not in target.changed]
    if not new:
        return
    dims = list(found.plan.axes)
    boxes = boxes_of(list(found.plan.axes.values()))
    everything: Boxes = np.full((1, len(dims), 2), -1, np.int64)
    edges = found.move(target.covered.boxes if target.covered else everything)
    variables = {header.name: header.arrays.keys() - set(dims) for header in found.headers}
    there = found.existing.arrays.keys()
    for name in new:
        box = boxes[found.plan.sources[name]]
        meets = ((edges[:, :, 0] < box[:, 1]) & (box[:, 0] < edges[:, :, 1])).all(axis=1)
        for at in np.flatnonzero(meets).tolist():
            other = target.covered.read(at) if target.covered else None
            brought = None if other is None else other.variables
            shared = variables[name] & (there if brought is None else brought)
            moving = [each for each in shared if set(found.existing.arrays[each].dims) & set(dims)
                      ] if shared <= there else shared  # fmt: skip
            if moving and _is_filled(found, name, edges[at]):
                source = THE_REPOSITORY if other is None else other.source
                text = (
                    f"its place {_show_place(found, name)} holds data of {source}: "
                    "on_overlap='replace' replaces it"
                )
                is_same = shared == variables[name] and np.array_equal(edges[at], box)
                occupants = (source,) if is_same and other is not None else ()
                what = ", ".join(dims)
                yield name, Problem(ProblemKind.OVERLAP, what, text, (name,), occupants)
                break


def _is_filled(found: IngestPlan, name: str, box: NDArray[np.int64]) -> bool:
    """Return whether an element of a source was there before, in a box."""
    row = found.plan.sources[name]
    for axis, (start, stop) in zip(found.plan.axes.values(), box.tolist(), strict=True):
        is_there = np.zeros(len(axis.values), bool)
        is_there[axis.moved] = True
        if not any(
            is_there[max(start, each.start) : min(stop, each.stop)].any() for each in axis.runs[row]
        ):
            return False
    return True


def _show_place(found: IngestPlan, name: str) -> str:
    axes = found.plan.axes
    regions = found.places[name].items()
    return ", ".join(f"{dim} {show_region(axes[dim], region)}" for dim, region in regions)


def _find_misfits(found: IngestPlan) -> Iterator[Problem]:
    """Report variables that don't fit the existing ones when no part of the group is kept."""
    if found.existing is None or found.is_kept:
        return

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for each, extent in pairs if each not in found.dims]

    for name, variable in found.plan.variables.items():
        there = found.existing.arrays.get(name)
        if there is None:
            continue
        both = [(THE_REPOSITORY, there), *((each, ArrayHeader(name, variable.metadata))
                for each in found.places)]  # fmt: skip
        yield from compare(both, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims)
        yield from compare(both, ProblemKind.LENGTH, "length of its other axes", fixed)
        yield from compare_meaning(both)
        if variable.values is None:
            yield from compare_storage(both)
