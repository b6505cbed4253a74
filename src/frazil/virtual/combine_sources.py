"""Combine sources: place each one, and plan each variable. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.virtual import combine_axes
from frazil.virtual.combine_axes import THE_REPOSITORY, Contributors
from frazil.virtual.combine_plan import (
    NOT_PLACED,
    Axis,
    Plan,
    Problem,
    ProblemKind,
    Report,
    Severity,
    Treatment,
    VariablePlan,
    for_values,
    with_shape,
)
from frazil.virtual.source import ArrayHeader, Source, SourceHeader
from frazil.virtual.time_units import count_alike


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """Sources with their places along the concatenation dimensions, and the group they extend."""

    headers: Sequence[SourceHeader]
    names: Sequence[str]
    axes: Mapping[str, Axis]
    there: Mapping[str, ArrayHeader]
    """Arrays of the group that the sources extend."""

    def shape_of(self, header: ArrayHeader) -> tuple[int, ...]:
        """Return the shape of the combined array."""
        return tuple(
            len(self.axes[dim].values) if dim in self.axes else extent
            for dim, extent in zip(header.dims, header.shape, strict=True)
        )

    def is_static(self, header: ArrayHeader) -> bool:
        """Return whether a variable has none of the concatenation dimensions."""
        return not self.axes.keys() & set(header.dims)


def plan_variable(name: str, group: Combination) -> tuple[VariablePlan | None, list[Problem]]:
    """Plan one variable, with all its problems; the plan is None if its parts don't fit together."""
    rows = [row for row, header in enumerate(group.headers) if name in header.arrays]
    contributors = [(group.names[row], group.headers[row].arrays[name]) for row in rows]
    there = group.there.get(name)
    values = [header.values for _, header in contributors] + (
        [] if there is None else [there.values]
    )
    is_loaded = all(each is not None for each in values)
    obstacles = [] if is_loaded else list(combine_axes.find_obstacles(contributors))
    known = [(each, header) for each, header in contributors if "codecs" in header.metadata]
    if not known:
        return _refused(name, contributors, len(group.headers), obstacles), obstacles
    first = there or find_usual(known)
    all_known = known if there is None else [(THE_REPOSITORY, there), *known]
    shapes = [*_compare_dims(all_known), *_compare_extents(all_known, group)]
    shapes += _compare_counts(name, rows, group)
    if shapes:
        return None, [*obstacles, *shapes]
    problems = [*obstacles, *_find_missing(name, group, first)]
    if name in group.axes:
        return _plan_index(name, group, first), problems
    problems += combine_axes.compare_meaning(all_known)
    problems += _compare_values(name, rows, contributors, group)
    if not is_loaded:
        problems += combine_axes.compare_storage(all_known)
        problems += _find_ragged(name, first, rows, group)
    reasons = tuple(dict.fromkeys(e.text for e in problems if e.severity is Severity.REENCODES))
    reachable = Treatment.INLINE if is_loaded else Treatment.VIRTUAL
    treatment = Treatment.REENCODED if reasons else reachable
    return _plan(first, treatment, rows, group, reasons), problems


def find_usual(contributors: Contributors) -> ArrayHeader:
    """Return the first array that is stored as most of them are."""
    distinct = {id(header): header for _, header in contributors}
    keys = {each: combine_axes.storage_key(header) for each, header in distinct.items()}
    usual, _ = Counter(keys[id(header)] for _, header in contributors).most_common(1)[0]
    return next(header for each, header in distinct.items() if keys[each] == usual)


def _plan(
    first: ArrayHeader,
    treatment: Treatment,
    rows: Sequence[int],
    group: Combination,
    reasons: tuple[str, ...],
) -> VariablePlan:
    shape = group.shape_of(first)
    offsets = np.full((len(group.headers), len(shape)), NOT_PLACED, np.int64)
    if treatment is Treatment.INLINE:
        values = _combine_values(first, rows, shape, group)
        metadata = for_values(first.metadata, shape, first.attributes)
        return VariablePlan(first.name, treatment, metadata, offsets, values, reasons)
    placed = rows[:1] if group.is_static(first) else rows
    for at, (dim, step) in enumerate(zip(first.dims, first.chunk_shape, strict=True)):
        axis = group.axes.get(dim)
        offsets[placed, at] = 0 if axis is None else axis.regions[placed, 0] // step
    metadata = with_shape(first.metadata, shape)
    return VariablePlan(first.name, treatment, metadata, offsets, reasons=reasons)


def _plan_index(name: str, group: Combination, first: ArrayHeader) -> VariablePlan:
    values = group.axes[name].values
    offsets = np.full((len(group.headers), 1), NOT_PLACED, np.int64)
    metadata = for_values(first.metadata, values.shape, first.attributes)
    return VariablePlan(name, Treatment.INLINE, metadata, offsets, values)


def _refused(
    name: str, contributors: Contributors, count: int, obstacles: Sequence[Problem]
) -> VariablePlan:
    shape = contributors[0][1].shape
    return VariablePlan(
        name,
        Treatment.REENCODED,
        {"shape": shape},
        np.full((count, len(shape)), NOT_PLACED, np.int64),
        reasons=tuple(dict.fromkeys(each.text for each in obstacles)),
    )


def _combine_values(
    first: ArrayHeader, rows: Sequence[int], shape: tuple[int, ...], group: Combination
) -> NDArray[Any]:
    parts = [(row, group.headers[row].arrays[first.name].values) for row in rows]
    known = [(row, values) for row, values in parts if values is not None]
    if group.is_static(first):
        return known[0][1]
    dtype = np.result_type(*{values.dtype for _, values in known})
    whole = np.full(shape, _blank(first, dtype), dtype)
    there = group.there.get(first.name)
    if there is not None and there.values is not None:
        axes = [group.axes.get(dim) for dim in there.dims]
        places = [
            np.arange(extent) if axis is None else axis.moved
            for axis, extent in zip(axes, there.shape, strict=True)
        ]
        whole[np.ix_(*places)] = there.values
    for row, values in known:
        for place, part in group_runs(first, row, group.axes):
            whole[place] = values[part]
    return whole


def group_runs(
    header: ArrayHeader, row: int, axes: Mapping[str, Axis]
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Yield each place of a source in the combined array, with the part of the source."""
    places: list[tuple[tuple[slice, ...], tuple[slice, ...]]] = [((), ())]
    for dim, extent in zip(header.dims, header.shape, strict=True):
        axis = axes.get(dim)
        runs = [(slice(0, extent), slice(0, extent))]
        if axis is not None:
            runs = [
                (slice(e.start, e.stop), slice(e.first, e.first + e.length)) for e in axis.runs[row]
            ]
        places = [((*a, b[0]), (*c, b[1])) for a, c in places for b in runs]
    yield from places


def _blank(header: ArrayHeader, dtype: np.dtype[Any]) -> Any:
    """Return the value of elements that no source has."""
    fill = header.metadata.get("fill_value")
    if dtype.kind == "c" and isinstance(fill, list | tuple):
        return dtype.type(complex(*map(float, fill)))
    try:
        return np.array(fill).astype(dtype)
    except (TypeError, ValueError):
        return np.zeros((), dtype)


def _compare_dims(known: Contributors) -> Iterator[Problem]:
    yield from combine_axes.compare(
        known, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims
    )


def _compare_extents(known: Contributors, group: Combination) -> Iterator[Problem]:
    """Report axes whose lengths differ between sources."""

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for dim, extent in pairs if dim not in group.axes]

    yield from combine_axes.compare(known, ProblemKind.LENGTH, "length of its other axes", fixed)


def _compare_counts(name: str, rows: Sequence[int], group: Combination) -> Iterator[Problem]:
    """Report sources in which a variable is not as long as the coordinate of a dimension."""
    for dim, axis in group.axes.items():
        for row in rows:
            header = group.headers[row].arrays[name]
            count = sum(each.length for each in axis.runs[row])
            extent = header.shape[header.dims.index(dim)] if dim in header.dims else count
            if extent != count:
                text = f"its length along {dim} is {extent}, and {dim} has {count} values"
                yield Problem(ProblemKind.LENGTH, name, text, (group.names[row],))


def _find_missing(name: str, group: Combination, first: ArrayHeader) -> Iterator[Problem]:
    """Report sources at whose place no source has a variable."""
    if group.is_static(first):
        return
    dims = [dim for dim in group.axes if dim in first.dims]
    places = combine_axes.boxes_of([group.axes[dim] for dim in dims])
    covered = {
        places[row].tobytes() for row, each in enumerate(group.headers) if name in each.arrays
    }
    absent = tuple(
        each
        for row, each in enumerate(group.names)
        if name not in group.headers[row].arrays and places[row].tobytes() not in covered
    )
    if absent:
        yield Problem(ProblemKind.MISSING, name, "not there: reads as the fill value", absent)


def _compare_values(
    name: str, rows: Sequence[int], contributors: Contributors, group: Combination
) -> Iterator[Problem]:
    """Report variables without a concatenation dimension whose values differ between sources."""
    there = group.there.get(name)
    both = contributors if there is None else [(THE_REPOSITORY, there), *contributors]
    first_name, first = both[0]
    if len(both) == 1:
        return
    if not group.is_static(first):
        yield from _compare_sharing(rows, contributors, group)
        return
    unread = tuple(name for name, header in contributors if header.values is None)
    if first.values is None or unread:
        yield from _compare_digests(both, unread)
        return
    others = tuple(
        name
        for name, header in contributors
        if header.values is not None and not combine_axes.are_equal(header.values, first.values)
    )
    if others:
        text = f"its values are not those of {first_name}, and no dimension distinguishes them"
        yield Problem(ProblemKind.VALUES, first.name, text, others)


def _compare_sharing(
    rows: Sequence[int], contributors: Contributors, group: Combination
) -> Iterator[Problem]:
    """Report variables with some of the dimensions whose bytes differ between sources for one place."""
    dims = [dim for dim in group.axes if dim in contributors[0][1].dims]
    if len(dims) == len(group.axes):
        return
    places = combine_axes.boxes_of([group.axes[dim] for dim in dims])
    sharing: defaultdict[bytes, list[tuple[str, ArrayHeader]]] = defaultdict(list)
    for row, each in zip(rows, contributors, strict=True):
        sharing[places[row].tobytes()].append(each)
    for some in sharing.values():
        if len({each.digest for _, each in some if each.values is None}) > 1:
            yield from _compare_digests(some, ())


def _compare_digests(both: Contributors, unread: tuple[str, ...]) -> Iterator[Problem]:
    """Report variables whose values are not read, and those whose bytes differ between sources."""
    first_name, first = both[0]
    digests = [(name, header.digest) for name, header in both if header.digest]
    differing = tuple(name for name, digest in digests if digest != digests[0][1])
    if differing:
        helps = "load= compares its values, and gives it one if they differ"
        if digests[0][0] == THE_REPOSITORY:
            helps = "another group= has room for these files, or for all of them, with load="
        text = (
            f"its stored bytes are not those of {digests[0][0]}, and no dimension distinguishes "
            f"them: {helps}"
        )
        yield Problem(ProblemKind.VALUES, first.name, text, differing)
        return
    text = f"taken from {first_name}, without a look at the values of the others"
    yield Problem(ProblemKind.NOT_COMPARED, first.name, text, unread)


def _find_ragged(
    name: str, first: ArrayHeader, rows: Sequence[int], group: Combination
) -> Iterator[Problem]:
    """Report sources that start or end inside a chunk, other than at the end of the array."""
    for dim, step in zip(first.dims, first.chunk_shape, strict=True):
        axis = group.axes.get(dim)
        if axis is None:
            continue
        own = list(rows)
        starts, stops = axis.regions[own].T
        # A source that follows one that ends inside of a chunk starts inside of it as well.
        is_ragged = ((stops % step != 0) & (stops != len(axis.values))) | (starts % step != 0)
        is_split = np.array([len(axis.runs[row]) > 1 for row in own], bool)
        for mask, text in (
            (is_ragged, f"its chunks of {step} along {dim} don't end where the file does"),
            (is_split, f"values of others along {dim} lie between its own"),
        ):
            files = tuple(group.names[own[each]] for each in np.flatnonzero(mask).tolist())
            if files:
                yield Problem(ProblemKind.RAGGED, name, text, files)


def combine(
    sources: Iterable[Source | SourceHeader],
    dims: Sequence[str] | str = (),
    *,
    there: SourceHeader | None = None,
    expected: Mapping[str, NDArray[Any]] | None = None,
    is_static: bool = False,
) -> Plan:
    """Plan one group from many sources, concatenated along `dims`.

    Sources are ordered by the values of each dimension's coordinate, not by the given order. Nothing is
    read, and problems of the sources raise no error: `Plan.report` lists them with their files.

    Parameters
    ----------
    sources
        Sources or their headers.
    dims
        Concatenation dimensions; may be empty for one source.
    there
        Header of a group that the sources extend.
    expected
        Values of a dimension that no source needs to bring, by dimension, in the units of the sources.
    is_static
        Whether the sources hold the same arrays, which are taken from the first one.

    Returns
    -------
    Plan
        Plan for `write`, with a report of all problems.
    """
    given = [each.header if isinstance(each, Source) else each for each in sources]
    along = (dims,) if isinstance(dims, str) else tuple(dims)
    rows = _number(given)
    before = [] if there is None else [there]
    headers, time_problems = count_alike([*before, *given])
    compared = headers[:1] if is_static else headers
    indexes, problems = combine_axes.read_indexes(compared, along)
    problems += time_problems
    if indexes is None:
        return Plan(rows, dict(headers[0].attributes), {}, Report(tuple(problems)))
    names = tuple(rows)
    new = headers[len(before) :]
    axes: dict[str, Axis] = {}
    for dim in along:
        values = indexes[dim]
        axes[dim], wrong = combine_axes.merge_axis(
            dim,
            values[len(before) :],
            names,
            values[0] if before else None,
            (expected or {}).get(dim),
            headers[0].arrays[dim].attributes,
        )
        problems += [*wrong, *(combine_axes.find_gaps(axes[dim], names) if not wrong else ())]
    group = Combination(new, names, axes, {} if there is None else headers[0].arrays)
    if axes and not any(each.kind is ProblemKind.NOT_MONOTONIC for each in problems):
        problems += combine_axes.find_overlaps(list(axes.values()), names, _variables_of(group))
        problems += combine_axes.find_absent(list(axes.values()), names)
    variables, found = _plan_variables(group)
    return Plan(
        rows,
        dict(headers[0].attributes),
        {each.name: each for each in variables},
        Report((*problems, *found)),
        axes,
    )


def _variables_of(group: Combination) -> list[frozenset[str]]:
    """Return the variables of each source that have a concatenation dimension."""
    sets: dict[frozenset[str], frozenset[str]] = {}
    found = []
    for header in group.headers:
        names = frozenset(
            name
            for name, array in header.arrays.items()
            if name not in group.axes and not group.is_static(array)
        )
        found.append(sets.setdefault(names, names))
    return found


def _number(headers: Sequence[SourceHeader]) -> dict[str, int]:
    rows = {header.name: row for row, header in enumerate(headers)}
    if not headers:
        raise InvalidInputError("there are no sources to combine")
    if len(rows) < len(headers):
        given = [header.name for header in headers]
        twice = sorted({name for name in given if given.count(name) > 1})
        raise InvalidInputError(f"sources are given more than once: {', '.join(twice)}")
    return rows


def _plan_variables(group: Combination) -> tuple[list[VariablePlan], list[Problem]]:
    planned: list[VariablePlan] = []
    problems: list[Problem] = []
    names = dict.fromkeys(chain.from_iterable(header.arrays for header in group.headers))
    for name in names:
        variable, found = plan_variable(name, group)
        planned += [_share_offsets(variable, planned)] if variable is not None else []
        problems += found
    for name, array in group.there.items():
        if name not in names and not group.is_static(array):
            # It grows with the others, and reads as the fill value where it is new.
            offsets = np.full((len(group.headers), len(array.shape)), NOT_PLACED, np.int64)
            metadata = with_shape(array.metadata, group.shape_of(array))
            planned.append(VariablePlan(name, Treatment.VIRTUAL, metadata, offsets))
            problems += _find_missing(name, group, array)
    return planned, problems


def _share_offsets(variable: VariablePlan, others: Iterable[VariablePlan]) -> VariablePlan:
    """Return the plan with the offsets of another one that has equal ones: there are many sources."""
    mine = variable.chunk_offsets
    equal = (e.chunk_offsets for e in others if np.array_equal(e.chunk_offsets, mine))
    return replace(variable, chunk_offsets=next(equal, mine))


_DEFAULT_FILLS = frozenset(np.array([0, 9.969209968386869e36], np.float32).tolist())
"""Fill values of floats for which nobody asked: those of HDF5, and of the NetCDF library."""
_DECLARED = ("_FillValue", "missing_value")


def _reads_fill(array: ArrayHeader) -> bool:
    """Return whether a float has the fill value of its library, which nobody declared."""
    kind, fill = array.metadata.get("data_type"), array.metadata.get("fill_value")
    is_default = isinstance(fill, int | float) and float(np.float32(fill)) in _DEFAULT_FILLS
    is_float = kind in ("float32", "float64")
    return is_float and is_default and not any(each in array.attributes for each in _DECLARED)


def adopt_fill_value(array: ArrayHeader, there: ArrayHeader | None) -> ArrayHeader:
    """Return an array of a file with the fill value of the repository, if it doesn't need its own."""
    if there is None or not array.is_whole or not _reads_fill(array):
        return array
    fill = there.metadata.get("fill_value")
    is_free = fill == "NaN" or _reads_fill(there)
    if not is_free or fill == array.metadata["fill_value"]:
        return array
    return replace(array, metadata={**array.metadata, "fill_value": fill})


def choose_fill_values(
    headers: Sequence[SourceHeader],
    there: Mapping[str, ArrayHeader],
    dims: Collection[str],
    *,
    is_decoded: bool,
) -> list[SourceHeader]:
    """Return the sources with NaN as fill value of floats that declare none and have all their chunks.

    Elements that no file has read as NaN then, and not as the number with which the library fills
    chunks that were never written. Arrays of the repository keep their fill value. `is_decoded` says
    whether all values are written, those of such chunks as well.
    """
    free: dict[str, bool] = {}
    for header in headers:
        for name, array in header.arrays.items():
            is_free = (
                (array.is_whole or is_decoded)
                and bool(set(array.dims) & set(dims))
                and name not in dims
                and header.format != "zarr"
                and _reads_fill(array)
            )
            free[name] = free.get(name, True) and is_free
    made = {}
    for name in (each for each, is_free in free.items() if is_free and each not in there):
        first = next(each.arrays[name] for each in headers if name in each.arrays)
        made[name] = replace(first, metadata={**first.metadata, "fill_value": "NaN"})
    targets = {**made, **there}

    # Files of an archive share most arrays, and should afterwards as well.
    adopted: dict[int, ArrayHeader] = {}

    def adopt(array: ArrayHeader) -> ArrayHeader:
        if id(array) not in adopted:
            whole = array if array.is_whole or not is_decoded else replace(array, is_whole=True)
            adopted[id(array)] = adopt_fill_value(whole, targets.get(array.name))
        return adopted[id(array)]

    def adopt_all(header: SourceHeader) -> SourceHeader:
        arrays = {name: adopt(array) for name, array in header.arrays.items()}
        is_same = all(arrays[name] is array for name, array in header.arrays.items())
        return header if is_same else replace(header, arrays=arrays)

    return list(map(adopt_all, headers))


def drop_superseded(
    headers: Sequence[SourceHeader], dims: Sequence[str]
) -> tuple[list[SourceHeader], list[Problem]]:
    """Leave each variable to the newest of the sources for the same place, and report the others.

    Sources of one age are ordered by name, and the last is taken.
    """
    found = {header.name: header for header in headers}
    newest: dict[tuple[str, ...], str] = {}
    lost: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for header in sorted(headers, key=_age, reverse=True):
        indexes = [combine_axes.find_values(header, dim) for dim in dims]
        if any(each is None for each in indexes):
            continue
        place = tuple(str(each.tolist()) for each in indexes if each is not None)
        for name, array in header.arrays.items():
            if name in dims or not set(dims) & set(array.dims):
                continue
            taken = newest.setdefault((name, *place), header.name)
            if taken != header.name:
                lost[taken, header.name].append(name)
    problems = []
    for (taken, name), names in lost.items():
        kept = {key: each for key, each in found[name].arrays.items() if key not in names}
        found[name] = replace(found[name], arrays=kept)
        text = f"{taken} is newer, and its values are taken"
        problems.append(Problem(ProblemKind.SUPERSEDED, ", ".join(names), text, (name,)))
    return list(found.values()), problems


def order_overlapping(
    plan: Plan, headers: Sequence[SourceHeader], dims: Collection[str]
) -> tuple[list[SourceHeader], list[Problem], list[Problem]] | None:
    """Order sources that overlap in part by age, so that the newest is taken where they do.

    Parameters
    ----------
    plan
        Plan of the sources.
    headers
        Headers of the sources.
    dims
        Concatenation dimensions.

    Returns
    -------
    tuple or None
        Headers in order, notes, and a problem for each variable with chunks that two sources fill; None
        if no sources overlap in part.
    """
    pairs = [each.files for each in plan.report if each.kind is ProblemKind.OVERLAP]
    pairs = [each for each in pairs if len(each) > 1]
    if not pairs:
        return None
    ordered = sorted(headers, key=_age)
    rank = {header.name: at for at, header in enumerate(ordered)}
    arrays = {header.name: header.arrays for header in headers}
    blamed: defaultdict[str, dict[str, None]] = defaultdict(dict)
    newer: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for one, other in pairs:
        last, first = sorted((one, other), key=rank.__getitem__, reverse=True)
        newer[last][first] = None
        for name in (arrays[one].keys() & arrays[other].keys()) - set(dims):
            is_inline = plan.variables[name].values is not None if name in plan.variables else True
            if set(dims) & set(arrays[one][name].dims) and not is_inline:
                blamed[name] |= {one: None, other: None}
    what, notes = ", ".join(dims), []
    for last, files in newer.items():
        text = f"{last} is newer, and taken where they overlap"
        notes.append(Problem(ProblemKind.SUPERSEDED, what, text, tuple(files)))
    text = "they overlap in part, and the newest is taken where they do"
    wrong = [Problem(ProblemKind.CHUNKS, name, text, tuple(each)) for name, each in blamed.items()]
    return ordered, notes, wrong


def refuse_other_lengths(dim: str, arrays: Iterable[ArrayHeader]) -> None:
    """Raise InvalidInputError if arrays of the repository have different lengths along a dimension."""
    lengths = {each.name: each.shape[each.dims.index(dim)] for each in arrays if dim in each.dims}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} {length}" for name, length in sorted(lengths.items()))
        raise InvalidInputError(
            f"the repository's arrays have different lengths along {dim}: {listed}. Append to those "
            "that are shorter, or reset the branch to a version whose arrays have one length"
        )


def _age(header: SourceHeader) -> tuple[datetime, str]:
    return header.version.modified_at, header.name


def choose_rivals(
    rivals: Iterable[Sequence[str]],
    headers: Mapping[str, SourceHeader],
    dims: Collection[str],
    former: Collection[str],
) -> dict[str, str]:
    """Return the sources to leave out of those that overlap each other, each with the one it overlaps.

    Sources that were ingested before come first, and then the oldest, as if they had come one by one.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, names in enumerate(rivals):
        for name in names:
            places[name].append(number)
    kept: defaultdict[int, list[str]] = defaultdict(list)
    left_out: dict[str, str] = {}

    def rank(name: str) -> tuple[object, ...]:
        # Of one age, a copy has the longer name: `a-copy.nc`, `a (1).nc`.
        return name not in former, headers[name].version.modified_at, len(name), name

    for name in sorted(places, key=rank):
        near = [other for number in places[name] for other in kept[number]]
        rival = next((e for e in near if _share_variables(headers[e], headers[name], dims)), None)
        if rival is None:
            for number in places[name]:
                kept[number].append(name)
        else:
            left_out[name] = rival
    return left_out


def _share_variables(one: SourceHeader, other: SourceHeader, dims: Collection[str]) -> bool:
    """Return whether two sources have a variable in common that grows."""
    shared = (one.arrays.keys() & other.arrays.keys()) - set(dims)
    return any(set(dims) & set(one.arrays[name].dims) for name in shared)


ERA = "frazil_era"
"""Attribute of the group of an era that has the storage of its variables."""
_MISSING = ("_FillValue", "missing_value", "_Unsigned")


def split_eras(
    headers: Sequence[SourceHeader],
    known: Mapping[str, Mapping[str, Any]],
    dims: Sequence[str],
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the era of each source, and the storage of the variables of each era.

    In an era each variable has one type, storage and fill value. A source belongs to the first era that
    it fits, or begins one with the next number; sources are tried in the order of their coordinates.

    Parameters
    ----------
    headers
        Sources.
    known
        Eras that there are, with the storage of their variables.
    dims
        Concatenation dimensions.
    """
    eras = {name: dict(known[name]) for name in sorted(known, key=_number_of)}
    found: dict[str, str] = {}
    for header in _order(headers, dims):
        own = {
            name: _describe_storage(array)
            for name, array in header.arrays.items()
            if not array.is_index and "data_type" in array.metadata
        }
        era = next((name for name, there in eras.items() if _fits(own, there)), None)
        if era is None:
            era = f"era_{1 + max(map(_number_of, eras), default=0)}"
            eras[era] = {}
        eras[era] |= {name: {**eras[era].get(name, {}), **each} for name, each in own.items()}
        found[header.name] = era
    return found, eras


def _number_of(era: str) -> int:
    number = era.rpartition("_")[2]
    return int(number) if number.isdecimal() else 0


def _order(headers: Sequence[SourceHeader], dims: Sequence[str]) -> list[SourceHeader]:
    """Return sources by the first values of their coordinates, or by name if they have none."""
    counted, _ = count_alike(headers)
    keys: list[tuple[Any, ...]] = []
    for header in counted:
        indexes = [combine_axes.find_values(header, dim) for dim in dims]
        firsts = [each[0].item() for each in indexes if each is not None and len(each)]
        keys.append((*firsts, header.name) if len(firsts) == len(dims) else (header.name,))
    rows = range(len(headers))
    try:
        return [headers[row] for row in sorted(rows, key=keys.__getitem__)]
    except TypeError:
        return sorted(headers, key=lambda each: each.name)


def _describe_storage(array: ArrayHeader) -> dict[str, Any]:
    """Return what must be equal in an era; chunks of values that were loaded don't matter."""
    metadata = array.metadata
    missing = {name: array.attributes[name] for name in _MISSING if name in array.attributes}
    found: dict[str, Any] = {"data_type": metadata["data_type"], "missing": missing}
    if array.values is None:
        codecs, chunks, fill_value = json.loads(combine_axes.storage_key(array))
        found |= {"codecs": codecs, "chunks": chunks, "fill_value": fill_value}
    return found


def _fits(own: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    return all(
        there[name].get(key, value) == value
        for name, each in own.items()
        if name in there
        for key, value in each.items()
    )


__all__ = [
    "Plan",
    "Problem",
    "ProblemKind",
    "Report",
    "Severity",
    "Treatment",
    "VariablePlan",
    "combine",
]
