"""Combine sources: place each one along the dimensions, and plan each variable. Pure."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.virtual.combine_plan import (
    NOT_PLACED,
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

# A jump is a gap if at least half a step is missing, so that months may differ in length.
_GAP_IN_STEPS = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Concatenation dimension, split into blocks in the order of its values."""

    dim: str
    values: NDArray[Any]
    block_of: NDArray[np.int64]
    """Block of each source."""
    starts: NDArray[np.int64]
    """Start of each block along the dimension."""
    lengths: NDArray[np.int64]

    @property
    def last_block(self) -> int:
        """Return the index of the last block."""
        return len(self.starts) - 1

    @property
    def regions(self) -> NDArray[np.int64]:
        """Return the start and end of each source along the dimension."""
        starts = self.starts[self.block_of]
        return np.stack([starts, starts + self.lengths[self.block_of]], axis=1)


def order_blocks(dim: str, coordinates: Sequence[NDArray[Any]]) -> Axis:
    """Order sources by their coordinate; sources with equal values share a block."""
    blocks: dict[bytes, int] = {}
    distinct: list[NDArray[Any]] = []
    members: list[int] = []
    for values in coordinates:
        key = values.tobytes()
        if key not in blocks:
            blocks[key] = len(blocks)
            distinct.append(values)
        members.append(blocks[key])
    order = sorted(range(len(distinct)), key=lambda each: _first(distinct[each]))
    if _is_descending(distinct, order):
        order.reverse()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ordered = [distinct[each] for each in order]
    lengths = np.array([len(each) for each in ordered], np.int64)
    return Axis(
        dim,
        np.concatenate(ordered),
        rank[np.array(members, np.int64)],
        np.cumsum(lengths) - lengths,
        lengths,
    )


def find_axis_problems(axis: Axis, names: Sequence[str]) -> Iterator[Problem]:
    """Report overlaps and gaps between blocks, and non-monotonic values inside blocks."""
    files = _files_of_blocks(axis, names)
    steps = np.diff(_as_numbers(axis.values))
    crooked = list(_find_crooked_blocks(axis))
    for block in crooked:
        text = "its values go neither up nor down all the way"
        yield Problem(ProblemKind.NOT_MONOTONIC, axis.dim, text, files[block])
    if crooked:
        return
    direction = -1 if axis.lengths.max() > 1 and np.median(steps) < 0 else 1
    usual = float(np.median(np.abs(steps))) if len(steps) else 0.0
    for block in range(1, len(axis.starts)):
        at = int(axis.starts[block])
        jump = float(steps[at - 1]) * direction
        both = files[block - 1] + files[block]
        before, after = axis.values[at - 1], axis.values[at]
        if jump <= 0:
            text = f"one ends at {before}, and the other starts at {after}"
            yield Problem(ProblemKind.OVERLAP, axis.dim, text, both)
        elif usual and jump > _GAP_IN_STEPS * usual:
            text = f"nothing between {before} and {after}, where a step is {usual:g}"
            yield Problem(ProblemKind.GAP, axis.dim, text, both)


def find_cell_problems(axes: Sequence[Axis], names: Sequence[str]) -> Iterator[Problem]:
    """Report sources that cover the same region, and regions that no source covers."""
    cells: dict[tuple[int, ...], list[str]] = {}
    blocks = np.stack([axis.block_of for axis in axes], axis=1)
    for name, cell in zip(names, map(tuple, blocks.tolist()), strict=True):
        cells.setdefault(cell, []).append(name)
    dims = ", ".join(axis.dim for axis in axes)
    for held_by in cells.values():
        if len(held_by) > 1:
            yield Problem(ProblemKind.DUPLICATE, dims, "they cover the same", tuple(held_by))
    empty = int(np.prod([len(axis.starts) for axis in axes])) - len(cells)
    if empty:
        text = f"{empty} of the places that the dimensions make together are in no file"
        yield Problem(ProblemKind.GAP, dims, text, tuple(names))


def _find_crooked_blocks(axis: Axis) -> Iterator[int]:
    values = _as_numbers(axis.values)
    for block, (start, length) in enumerate(zip(axis.starts, axis.lengths, strict=True)):
        steps = np.diff(values[start : start + length])
        if len(steps) and not (np.all(steps > 0) or np.all(steps < 0)):
            yield block


def _files_of_blocks(axis: Axis, names: Sequence[str]) -> Mapping[int, tuple[str, ...]]:
    files: dict[int, list[str]] = {}
    for name, block in zip(names, axis.block_of.tolist(), strict=True):
        files.setdefault(block, []).append(name)
    return {block: tuple(each) for block, each in files.items()}


def _first(values: NDArray[Any]) -> Any:
    return values[0] if len(values) else np.inf


def _is_descending(distinct: Sequence[NDArray[Any]], order: Sequence[int]) -> bool:
    """Return whether the first block with more than one value is descending."""
    longer = [distinct[each] for each in order if len(distinct[each]) > 1]
    return bool(longer) and bool(longer[0][-1] < longer[0][0])


def _as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Convert values so that their differences are numbers."""
    if values.dtype.kind in "mM":
        return values.astype(np.int64)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    # Strings have an order, but no distance.
    return np.unique(values, return_inverse=True)[1].astype(np.float64)


Contributors = Sequence[tuple[str, ArrayHeader]]
"""Sources that have a variable, with their names."""

CF_ENCODING = (
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "calendar",
    "dtype", "flag_values", "flag_masks", "flag_meanings",
)  # fmt: skip
"""Attributes that define the meaning of stored values."""
_ABSENT = "none"


def find_outsiders(
    contributors: Contributors, property: Callable[[ArrayHeader], object]
) -> tuple[str, Mapping[str, tuple[str, ...]]]:
    """Return the most common value of a property, and the sources with other values, by value."""
    first = property(contributors[0][1])
    first_text = json.dumps(first, sort_keys=True)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, header in contributors:
        value = property(header)
        # Serializing a value is slow, and most are equal to the first.
        text = first_text if value == first else json.dumps(value, sort_keys=True)
        groups[text].append(name)
    usual = max(groups, key=lambda value: len(groups[value]))
    return usual, {value: tuple(names) for value, names in groups.items() if value != usual}


def compare(
    contributors: Contributors,
    kind: ProblemKind,
    what: str,
    property: Callable[[ArrayHeader], object],
) -> Iterator[Problem]:
    """Report each value of a property that is not the most common one."""
    usual, outsiders = find_outsiders(contributors, property)
    subject = contributors[0][1].name
    for value, names in outsiders.items():
        text = f"{what} is {_unquote(value)}, and {_unquote(usual)} elsewhere"
        yield Problem(kind, subject, text, names)


def compare_meaning(contributors: Contributors) -> Iterator[Problem]:
    """Report differences in the meaning of stored values."""
    yield from compare(
        contributors, ProblemKind.DATA_TYPE, "data type", lambda each: each.metadata["data_type"]
    )
    for name in CF_ENCODING:
        yield from compare(
            contributors,
            ProblemKind.ENCODING,
            name,
            lambda each, name=name: each.attributes.get(name, _ABSENT),  # type: ignore[misc]
        )


def compare_storage(contributors: Contributors) -> Iterator[Problem]:
    """Report differences in chunk storage, which must be equal for all chunks of an array."""
    yield from compare(
        contributors,
        ProblemKind.CODECS,
        "codecs",
        lambda each: [*map(_essential_codec, each.metadata["codecs"])],
    )
    yield from compare(
        contributors, ProblemKind.CHUNKS, "chunk shape", lambda each: each.chunk_shape
    )
    yield from compare(
        contributors,
        ProblemKind.FILL_VALUE,
        "fill value",
        lambda each: each.metadata.get("fill_value"),
    )


def find_obstacles(contributors: Contributors) -> Iterator[Problem]:
    """Report arrays whose bytes can't be referenced."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, header in contributors:
        if header.obstacle is not None:
            groups[header.obstacle].append(name)
    for obstacle, names in groups.items():
        yield Problem(ProblemKind.UNREACHABLE, contributors[0][1].name, obstacle, tuple(names))


def are_equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether two arrays are equal; NaN equals NaN."""
    if one.shape != other.shape:
        return False
    is_same = one == other
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        is_same = is_same | (np.isnan(one) & np.isnan(other))
    return bool(np.all(is_same))


# The compression level does not affect decompression.
_EFFORTS = frozenset(("level", "clevel", "acceleration"))


def _essential_codec(codec: Mapping[str, Any]) -> dict[str, Any]:
    settings = codec.get("configuration") or {}
    return {
        "name": codec["name"],
        "configuration": {name: settings[name] for name in settings if name not in _EFFORTS},
    }


def _unquote(text: str) -> str:
    return text[1:-1] if text.startswith('"') else text


_MEANING = ("units", "calendar", "scale_factor", "add_offset")


Indexes = Mapping[str, Sequence[NDArray[Any]]]
"""Coordinates of the concatenation dimensions, for each source, in the units of the first."""


def read_indexes(
    headers: Sequence[SourceHeader], along: Sequence[str]
) -> tuple[Indexes | None, list[Problem]]:
    """Read the coordinates to concatenate along; None if a source can't be placed."""
    problems: list[Problem] = []
    if not along and len(headers) > 1:
        text = "there is more than one source, and no dimension to combine them along"
        return None, [
            Problem(ProblemKind.NO_COORDINATE, "", text, tuple(each.name for each in headers))
        ]
    values: dict[str, Sequence[NDArray[Any]]] = {}
    for dim in along:
        found, wrong = _read_index(dim, headers)
        problems += wrong
        if found is not None:
            values[dim] = found
    for dim in dict.fromkeys(dim for each in headers for dim in each.dims if dim not in along):
        problems += _compare_lengths(dim, headers)
        problems += _compare_coordinates(dim, headers)
    return (values if len(values) == len(along) else None), problems


def _read_index(
    dim: str, headers: Sequence[SourceHeader]
) -> tuple[Sequence[NDArray[Any]] | None, list[Problem]]:
    lacking = tuple(each.name for each in headers if _find_values(each, dim) is None)
    if lacking:
        text = f"no values of a coordinate {dim}({dim}) to place them by"
        return None, [Problem(ProblemKind.NO_COORDINATE, dim, text, lacking)]
    first = headers[0].arrays[dim]
    values: list[NDArray[Any]] = []
    strangers: list[str] = []
    for header in headers:
        found = _comparable(header.arrays[dim], first)
        values += [] if found is None else [found]
        strangers += [header.name] if found is None else []
    if strangers:
        text = (
            f"its values can't be given as {first.metadata['data_type']} in the units "
            f"{first.attributes.get('units')!r} of {headers[0].name}"
        )
        return None, [Problem(ProblemKind.COORDINATE, dim, text, tuple(strangers))]
    return values, []


def _find_values(header: SourceHeader, dim: str) -> NDArray[Any] | None:
    array = header.arrays.get(dim)
    return array.values if array is not None and array.is_index else None


def _comparable(array: ArrayHeader, first: ArrayHeader) -> NDArray[Any] | None:
    """Return the values of a coordinate if type and units are those of the first source."""
    if array.metadata["data_type"] != first.metadata["data_type"]:
        return None
    is_same = all(array.attributes.get(each) == first.attributes.get(each) for each in _MEANING)
    return array.values if is_same else None


def _compare_lengths(dim: str, headers: Sequence[SourceHeader]) -> Iterator[Problem]:
    having = [each for each in headers if dim in each.dims]
    lengths, counts = np.unique([each.dims[dim] for each in having], return_counts=True)
    usual = int(lengths[np.argmax(counts)])
    others = tuple(each.name for each in having if each.dims[dim] != usual)
    if others:
        found = ", ".join(map(str, lengths[lengths != usual].tolist()))
        text = f"its length is {found}, and {usual} elsewhere"
        yield Problem(ProblemKind.LENGTH, dim, text, others)


def _compare_coordinates(dim: str, headers: Sequence[SourceHeader]) -> Iterator[Problem]:
    found = [(each.name, _find_values(each, dim)) for each in headers]
    having = [(name, values) for name, values in found if values is not None]
    if not having:
        return
    first_name, first = having[0]
    others = tuple(
        name
        for name, values in having
        if values.shape == first.shape and not are_equal(values, first)
    )
    if others:
        text = f"its values are not those of {first_name}"
        yield Problem(ProblemKind.COORDINATE, dim, text, others)


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Position of the sources along the concatenation dimensions."""

    axes: Mapping[str, Axis]
    indexes: Indexes

    def shape_of(self, header: ArrayHeader) -> tuple[int, ...]:
        """Return the shape of the combined array."""
        return tuple(
            len(self.axes[dim].values) if dim in self.axes else extent
            for dim, extent in zip(header.dims, header.shape, strict=True)
        )

    def starts_of(self, header: ArrayHeader, row: int) -> list[int]:
        """Return the start of a source in the combined array, along each axis."""
        return [
            int(axis.starts[axis.block_of[row]]) if (axis := self.axes.get(dim)) else 0
            for dim in header.dims
        ]

    def is_static(self, header: ArrayHeader) -> bool:
        """Return whether a variable has none of the concatenation dimensions."""
        return not self.axes.keys() & set(header.dims)


def plan_variable(
    name: str, headers: Sequence[SourceHeader], names: Sequence[str], placement: Placement
) -> tuple[VariablePlan | None, list[Problem]]:
    """Plan one variable, with all its problems; the plan is None if its parts don't fit together."""
    rows = [row for row, header in enumerate(headers) if name in header.arrays]
    contributors = [(names[row], headers[row].arrays[name]) for row in rows]
    obstacles = list(find_obstacles(contributors))
    known = [(each, header) for each, header in contributors if "codecs" in header.metadata]
    if not known:
        return _refused(name, contributors, len(headers), obstacles), obstacles
    dims = compare(known, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims)
    shapes = [*dims, *_compare_extents(known, placement)]
    if shapes:
        return None, [*obstacles, *shapes]
    first = known[0][1]
    problems = [*obstacles, *_find_missing(name, headers, names, placement, first)]
    if name in placement.indexes:
        return _plan_index(name, headers, placement), problems
    problems += compare_meaning(known)
    is_loaded = all(header.values is not None for _, header in contributors)
    problems += _compare_values(contributors, placement)
    if not is_loaded:
        problems += compare_storage(known)
        problems += _find_ragged(known, rows, placement)
    reasons = tuple(dict.fromkeys(e.text for e in problems if e.severity is Severity.REENCODES))
    reachable = Treatment.INLINE if is_loaded else Treatment.VIRTUAL
    treatment = Treatment.REENCODED if reasons else reachable
    return _plan(first, treatment, headers, rows, placement, reasons), problems


def _plan(
    first: ArrayHeader,
    treatment: Treatment,
    headers: Sequence[SourceHeader],
    rows: Sequence[int],
    placement: Placement,
    reasons: tuple[str, ...],
) -> VariablePlan:
    shape = placement.shape_of(first)
    offsets = np.full((len(headers), len(shape)), NOT_PLACED, np.int64)
    if treatment is not Treatment.VIRTUAL:
        values = None
        if treatment is Treatment.INLINE:
            values = _combine_values(first, headers, rows, shape, placement)
        metadata = for_values(first.metadata, shape, first.attributes)
        return VariablePlan(first.name, treatment, metadata, offsets, values, reasons)
    steps = np.array(first.chunk_shape, np.int64)
    for row in rows[:1] if placement.is_static(first) else rows:
        offsets[row] = np.array(placement.starts_of(first, row), np.int64) // steps
    metadata = with_shape(first.metadata, shape)
    return VariablePlan(first.name, treatment, metadata, offsets)


def _plan_index(name: str, headers: Sequence[SourceHeader], placement: Placement) -> VariablePlan:
    first = headers[0].arrays[name]
    values = placement.axes[name].values
    offsets = np.full((len(headers), 1), NOT_PLACED, np.int64)
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
    first: ArrayHeader,
    headers: Sequence[SourceHeader],
    rows: Sequence[int],
    shape: tuple[int, ...],
    placement: Placement,
) -> NDArray[Any]:
    parts = [(row, headers[row].arrays[first.name].values) for row in rows]
    known = [(row, values) for row, values in parts if values is not None]
    if placement.is_static(first):
        return known[0][1]
    whole = np.full(shape, _blank(first, known[0][1].dtype), known[0][1].dtype)
    for row, values in known:
        starts = placement.starts_of(first, row)
        region = tuple(slice(s, s + n) for s, n in zip(starts, values.shape, strict=True))
        whole[region] = values
    return whole


def _blank(header: ArrayHeader, dtype: np.dtype[Any]) -> Any:
    """Return the value of elements that no source has."""
    fill = header.metadata.get("fill_value")
    try:
        return np.array(fill).astype(dtype)
    except (TypeError, ValueError):
        return np.zeros((), dtype)


def _compare_extents(known: Contributors, placement: Placement) -> Iterator[Problem]:
    """Report axes whose lengths differ between sources."""

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for dim, extent in pairs if dim not in placement.axes]

    yield from compare(known, ProblemKind.LENGTH, "length of its other axes", fixed)


def _find_missing(
    name: str,
    headers: Sequence[SourceHeader],
    names: Sequence[str],
    placement: Placement,
    first: ArrayHeader,
) -> Iterator[Problem]:
    absent = tuple(
        each for each, header in zip(names, headers, strict=True) if name not in header.arrays
    )
    if absent and not placement.is_static(first):
        yield Problem(ProblemKind.MISSING, name, "not there: reads as the fill value", absent)


def _compare_values(contributors: Contributors, placement: Placement) -> Iterator[Problem]:
    """Report variables without a concatenation dimension whose values differ between sources."""
    first_name, first = contributors[0]
    if not placement.is_static(first) or len(contributors) == 1:
        return
    unread = tuple(name for name, header in contributors if header.values is None)
    if first.values is None or unread:
        text = f"taken from {first_name}, without a look at the values of the others"
        yield Problem(ProblemKind.NOT_COMPARED, first.name, text, unread)
        return
    others = tuple(
        name
        for name, header in contributors
        if header.values is not None and not are_equal(header.values, first.values)
    )
    if others:
        text = f"its values are not those of {first_name}, and no dimension tells them apart"
        yield Problem(ProblemKind.VALUES, first.name, text, others)


def _find_ragged(
    known: Contributors, rows: Sequence[int], placement: Placement
) -> Iterator[Problem]:
    """Report sources that end inside a chunk where another source follows."""
    first = known[0][1]
    for dim, step in zip(first.dims, first.chunk_shape, strict=True):
        axis = placement.axes.get(dim)
        if axis is None:
            continue
        blocks = axis.block_of[list(rows)]
        is_ragged = (axis.lengths[blocks] % step != 0) & (blocks != axis.last_block)
        files = tuple(known[each][0] for each in np.flatnonzero(is_ragged).tolist())
        if files:
            text = f"its chunks of {step} along {dim} don't end where the file does"
            yield Problem(ProblemKind.RAGGED, first.name, text, files)


def combine(sources: Iterable[Source | SourceHeader], dims: Sequence[str] | str = ()) -> Plan:
    """Plan one group from many sources, concatenated along `dims`.

    Sources are ordered by the values of each dimension's coordinate, not by the given order. Nothing is
    read, and problems of the sources raise no error: `Plan.report` lists them with their files.

    Parameters
    ----------
    sources
        Sources or their headers.
    dims
        Concatenation dimensions; may be empty for one source.

    Returns
    -------
    Plan
        Plan for `write`, with a report of all problems.
    """
    given = [each.header if isinstance(each, Source) else each for each in sources]
    along = (dims,) if isinstance(dims, str) else tuple(dims)
    rows = _number(given)
    headers, time_problems = count_alike(given)
    indexes, index_problems = read_indexes(headers, along)
    index_problems += time_problems
    if indexes is None:
        attributes = dict(headers[0].attributes)
        return Plan(rows, attributes, {}, Report(tuple(index_problems)))
    names = tuple(rows)
    axes = [order_blocks(dim, indexes[dim]) for dim in along]
    problems = [
        *index_problems,
        *chain.from_iterable(find_axis_problems(axis, names) for axis in axes),
        *(find_cell_problems(axes, names) if axes else ()),
    ]
    variables, variable_problems = _plan_variables(headers, names, axes, indexes)
    return Plan(
        rows,
        dict(headers[0].attributes),
        {each.name: each for each in variables},
        Report((*problems, *variable_problems)),
        {axis.dim: axis.regions for axis in axes},
    )


def _number(headers: Sequence[SourceHeader]) -> dict[str, int]:
    rows = {header.name: row for row, header in enumerate(headers)}
    if not headers:
        raise InvalidInputError("there are no sources to combine")
    if len(rows) < len(headers):
        given = [header.name for header in headers]
        twice = sorted({name for name in given if given.count(name) > 1})
        raise InvalidInputError(f"sources are given more than once: {', '.join(twice)}")
    return rows


def _plan_variables(
    headers: Sequence[SourceHeader], names: Sequence[str], axes: Sequence[Axis], indexes: Indexes
) -> tuple[list[VariablePlan], list[Problem]]:
    placement = Placement({axis.dim: axis for axis in axes}, indexes)
    planned: list[VariablePlan] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(chain.from_iterable(header.arrays for header in headers)):
        variable, found = plan_variable(name, headers, names, placement)
        planned += [variable] if variable is not None else []
        problems += found
    return planned, problems


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
