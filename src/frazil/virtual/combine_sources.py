"""Combine sources: place each one, and plan each variable. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.virtual import combine_axes
from frazil.virtual.combine_axes import (
    Axis,
    Contributors,
    Indexes,
    find_axis_problems,
    find_cell_problems,
    order_blocks,
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
    for_values,
    with_shape,
)
from frazil.virtual.source import ArrayHeader, Source, SourceHeader
from frazil.virtual.time_units import count_alike


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
    obstacles = list(combine_axes.find_obstacles(contributors))
    known = [(each, header) for each, header in contributors if "codecs" in header.metadata]
    if not known:
        return _refused(name, contributors, len(headers), obstacles), obstacles
    shapes = [*_compare_dims(known), *_compare_extents(known, placement)]
    if shapes:
        return None, [*obstacles, *shapes]
    first = known[0][1]
    problems = [*obstacles, *_find_missing(name, headers, names, placement, first)]
    if name in placement.indexes.values:
        return _plan_index(name, headers, placement), problems
    problems += combine_axes.compare_meaning(known)
    is_loaded = all(header.values is not None for _, header in contributors)
    problems += _compare_values(contributors, placement)
    if not is_loaded:
        problems += combine_axes.compare_storage(known)
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


def _compare_dims(known: Contributors) -> Iterator[Problem]:
    yield from combine_axes.compare(
        known, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims
    )


def _compare_extents(known: Contributors, placement: Placement) -> Iterator[Problem]:
    """Report axes whose lengths differ between sources."""

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for dim, extent in pairs if dim not in placement.axes]

    yield from combine_axes.compare(known, ProblemKind.LENGTH, "length of its other axes", fixed)


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
        if header.values is not None and not combine_axes.are_equal(header.values, first.values)
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
    axes = [order_blocks(dim, indexes.values[dim]) for dim in along]
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
