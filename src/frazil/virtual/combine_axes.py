"""Place sources along dimensions by their coordinates, and report disagreements."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.virtual.combine_plan import Axis, Problem, ProblemKind, Run
from frazil.virtual.source import ArrayHeader, SourceHeader, is_time
from frazil.virtual.time_units import (
    find_missing,
    read_missing,
    show_region,
    show_step,
    show_values,
)

# A jump is a gap if at least half a step is missing, so that months may differ in length.
_GAP_IN_STEPS = 1.5


def merge_axis(
    dim: str,
    coordinates: Sequence[NDArray[Any]],
    names: Sequence[str],
    there: NDArray[Any] | None = None,
    expected: NDArray[Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> tuple[Axis, list[Problem]]:
    """Place sources along a dimension by the values of its coordinate.

    Numbers are sorted, up or down as in the first source or in what is there. New texts are appended in
    alphabetical order.

    Parameters
    ----------
    dim
        Dimension.
    coordinates
        Values of each source.
    names
        Names of the sources, for problems.
    there
        Values that are in the repository.
    expected
        Values that the dimension has even where no source brings them; sources may bring no others.
    attributes
        Attributes of the coordinate.
    """
    expected = None if expected is None else _take_last_digits(expected, [there, *coordinates])
    parts = [each for each in (there, expected) if each is not None]
    problems = list(_find_crooked(dim, coordinates, names))
    whole = np.concatenate([*parts, *coordinates]) if parts or coordinates else np.empty(0)
    values, places = _order(whole, parts, coordinates)
    kept = 0 if there is None else len(there)
    moved = places[:kept]
    at = sum(map(len, parts))
    runs = []
    for each in coordinates:
        runs.append(_find_runs(places[at : at + len(each)]))
        at += len(each)
    ends = [(each[0].start, each[-1].stop) if each else (0, 0) for each in runs]
    regions = np.array(ends, np.int64).reshape(-1, 2)
    axis = Axis(dim, values, tuple(runs), regions, moved, attributes or {})
    if expected is not None and len(expected):
        is_allowed = np.zeros(len(values), bool)
        is_allowed[places[: sum(map(len, parts))]] = True
        problems += _find_unexpected(axis, is_allowed, names)
    return axis, problems


_MOST_SHOWN = 3


def _find_unexpected(
    axis: Axis, is_allowed: NDArray[np.bool_], names: Sequence[str]
) -> Iterator[Problem]:
    """Report sources with values that are neither expected nor there."""
    if is_allowed.all():
        return
    first, last = show_values(axis, np.flatnonzero(is_allowed)[[0, -1]].tolist())
    for name, runs in zip(names, axis.runs, strict=True):
        own = np.concatenate([np.arange(e.start, e.stop) for e in runs] or [np.empty(0, np.int64)])
        others = own[~is_allowed[own]].tolist()
        if others:
            shown = ", ".join(show_values(axis, others[:_MOST_SHOWN]))
            rest = len(others) - _MOST_SHOWN
            text = (
                f"{shown}{f' and {rest} more' if rest > 0 else ''} in the file, and not among the "
                f"expected values from {first} to {last}: add to expected=, or leave the file out "
                "with on_bad_file='skip'"
            )
            yield Problem(ProblemKind.COORDINATE, axis.dim, text, (name,))


def _take_last_digits(expected: NDArray[Any], parts: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    """Return expected floats with the last digits of the coordinates that there are."""
    known = [each for each in parts if each is not None and each.dtype.kind == "f"]
    if expected.dtype.kind != "f" or not known:
        return expected
    aligned = align(expected, np.unique(np.concatenate(known)))
    return expected if aligned is None else aligned


def _order(
    whole: NDArray[Any], parts: Sequence[NDArray[Any]], coordinates: Sequence[NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values in order, and the position of each given value among them."""
    values, first, places = np.unique(whole, return_index=True, return_inverse=True)
    places = places.reshape(-1)
    before = parts[0] if parts else np.empty(0, whole.dtype)
    if (len(before) > 1 and not _is_monotonic(before)) or whole.dtype.kind not in "iufbmM":
        # Labels without an order of their own: those that are there keep their position.
        order = np.argsort(np.where(first < len(before), first, len(before)), kind="stable")
    elif _is_descending([*parts, *coordinates]):
        order = np.arange(len(values))[::-1]
    else:
        return values, places
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return values[order], rank[places]


@lru_cache(maxsize=4096)
def _run_of(position: int) -> tuple[Run, ...]:
    """Return the run of one element; many files have the same one along one of two dimensions."""
    return (Run(position, 1),)


def _find_runs(places: NDArray[np.int64]) -> tuple[Run, ...]:
    if len(places) == 1:
        return _run_of(int(places[0]))
    edges = np.flatnonzero(np.diff(places) != 1) + 1
    starts = [0, *edges.tolist()] if len(places) else []
    stops = [*starts[1:], len(places)]
    return tuple(
        Run(int(places[first]), stop - first, first)
        for first, stop in zip(starts, stops, strict=bool(starts))
    )


def find_jumps(axis: Axis) -> tuple[list[int], float]:
    """Return the positions after jumps that are longer than the usual step, and that step."""
    steps = np.abs(np.diff(_as_numbers(axis.values)))
    if not len(steps) or axis.values.dtype.kind not in "iufbmM":
        return [], 0.0
    # Of an even number of steps the shorter one in the middle, which occurs, unlike their mean.
    usual = float(np.sort(steps)[(len(steps) - 1) // 2])
    is_jump = steps > _GAP_IN_STEPS * usual if usual else np.zeros(len(steps), bool)
    return (np.flatnonzero(is_jump) + 1).tolist(), usual


def find_gaps(axis: Axis, names: Sequence[str]) -> Iterator[Problem]:
    """Report jumps between sources that are longer than the usual step."""
    jumps, usual = find_jumps(axis)
    starts = {each[0].start: row for row, each in enumerate(axis.runs) if each}
    stops = {each[-1].stop: row for row, each in enumerate(axis.runs) if each}
    for at in jumps:
        rows = [row for row in (stops.get(at), starts.get(at)) if row is not None]
        # A jump inside of a file, or of what was there before, is not new.
        if rows:
            before, after = show_values(axis, [at - 1, at])
            text = f"nothing between {before} and {after}, where a step is {show_step(axis, usual)}"
            yield Problem(ProblemKind.GAP, axis.dim, text, tuple(names[row] for row in rows))


_NOISE = 1e-3, 1e-6
"""Parts of a step and of the largest number by which numbers for one coordinate may differ."""


def align(own: NDArray[Any], grid: NDArray[Any]) -> NDArray[Any] | None:
    """Return values with the numbers of a grid where they are close; None if they stay as they are."""
    steps = np.abs(np.diff(own.astype(np.float64)))
    if not len(steps) or not np.all(np.isfinite(own)) or not np.all(np.isfinite(grid)):
        return None
    at = np.clip(np.searchsorted(grid, own), 1, max(1, len(grid) - 1))
    before, after = grid[at - 1], grid[np.minimum(at, len(grid) - 1)]
    nearest = np.where(np.abs(own - before) <= np.abs(after - own), before, after)
    noise = min(_NOISE[0] * steps.min(), _NOISE[1] * np.abs(own).max())
    is_close = np.abs(nearest.astype(np.float64) - own) <= noise
    found = np.where(is_close, nearest, own).astype(grid.dtype)
    is_exact = is_close | (found == own)
    is_same = own.dtype == grid.dtype and np.array_equal(found, own)
    return None if is_same or not np.all(is_exact) else found


Boxes = NDArray[np.int64]
"""Start and end by source and dimension, (sources, dimensions, 2)."""


def boxes_of(axes: Sequence[Axis]) -> Boxes:
    """Return the box of each source along the concatenation dimensions."""
    return np.stack([axis.regions for axis in axes], axis=1)


def find_overlaps(
    axes: Sequence[Axis], names: Sequence[str], variables: Sequence[frozenset[str]]
) -> Iterator[Problem]:
    """Report sources that bring the same variable for the same place."""
    dims = ", ".join(axis.dim for axis in axes)
    boxes = boxes_of(axes)
    same: dict[bytes, list[int]] = {}
    for row in range(len(names)):
        same.setdefault(boxes[row].tobytes(), []).append(row)
    for rows in same.values():
        shared = [
            row for row in rows if any(variables[row] & variables[o] for o in rows if o != row)
        ]
        if shared:
            files = tuple(names[row] for row in shared)
            covered = [show_region(each, tuple(each.regions[shared[0]])) for each in axes]
            text = f"they cover the same, {', '.join(covered)}"
            yield Problem(ProblemKind.DUPLICATE, dims, text, files)
    distinct = np.array([rows[0] for rows in same.values()], np.int64)
    for one, other in _find_crossing(boxes[distinct]):
        pairs = [
            (a, b)
            for a in same[boxes[distinct[one]].tobytes()]
            for b in same[boxes[distinct[other]].tobytes()]
            if variables[a] & variables[b]
        ]
        if pairs and not _are_apart(axes, *pairs[0]):
            yield _describe_overlap(axes, names, *pairs[0])


def _are_apart(axes: Sequence[Axis], one: int, other: int) -> bool:
    """Return whether the runs of two sources have no element in common along a dimension."""
    return any(
        not any(
            a.start < b.stop and b.start < a.stop for a in axis.runs[one] for b in axis.runs[other]
        )
        for axis in axes
    )


def _describe_overlap(axes: Sequence[Axis], names: Sequence[str], one: int, other: int) -> Problem:
    first, second = sorted(
        (one, other), key=lambda row: [tuple(each.regions[row]) for each in axes]
    )
    shared = [
        (max(each.regions[one][0], each.regions[other][0]),
         min(each.regions[one][1], each.regions[other][1]))
        for each in axes
    ]  # fmt: skip
    regions = [f"{e.dim} {show_region(e, each)}" for e, each in zip(axes, shared, strict=True)]
    text = f"they overlap in part, at {', '.join(regions)}"
    dims = ", ".join(each.dim for each in axes)
    return Problem(ProblemKind.OVERLAP, dims, text, (names[first], names[second]))


def _find_crossing(boxes: Boxes) -> Iterator[tuple[int, int]]:
    """Yield the pairs of distinct boxes that have elements in common."""
    if len(boxes) < 2:
        return
    # A sweep along the dimension that tells most boxes apart keeps few of them open.
    counts = [len(np.unique(boxes[:, axis], axis=0)) for axis in range(boxes.shape[1])]
    along = int(np.argmax(counts))
    order = np.lexsort((boxes[:, along, 1], boxes[:, along, 0]))
    open_rows = np.empty(0, np.int64)
    for row in order.tolist():
        open_rows = open_rows[boxes[open_rows, along, 1] > boxes[row, along, 0]]
        meets = (boxes[open_rows, :, 0] < boxes[row, :, 1]) & (
            boxes[row, :, 0] < boxes[open_rows, :, 1]
        )
        for other in open_rows[meets.all(axis=1)].tolist():
            yield other, row
        open_rows = np.append(open_rows, row)


def find_absent(axes: Sequence[Axis], names: Sequence[str]) -> Iterator[Problem]:
    """Report how many places of the product of the dimensions no source covers."""
    if any(len(axis.moved) for axis in axes):
        return
    boxes = np.unique(boxes_of(axes), axis=0)
    blocks = [len(np.unique(boxes[:, axis], axis=0)) for axis in range(boxes.shape[1])]
    empty = int(np.prod(blocks)) - len(boxes)
    if empty > 0:
        text = f"{empty} of the places that the dimensions make together are in no file"
        dims = ", ".join(axis.dim for axis in axes)
        yield Problem(ProblemKind.GAP, dims, text, tuple(names))


def _find_crooked(
    dim: str, coordinates: Sequence[NDArray[Any]], names: Sequence[str]
) -> Iterator[Problem]:
    """Report sources whose own values are neither ascending nor descending."""
    is_down = _is_descending(coordinates)
    for values, name in zip(coordinates, names, strict=True):
        if values.dtype.kind not in "iufbmM":
            if len(np.unique(values)) < len(values):
                text = "one of its values is there twice"
                yield Problem(ProblemKind.NOT_MONOTONIC, dim, text, (name,))
            continue
        numbers = _as_numbers(values)
        if not _is_monotonic(values) and not (values.dtype.kind == "f" and np.isnan(values).any()):
            text = "its values go neither up nor down all the way"
            yield Problem(ProblemKind.NOT_MONOTONIC, dim, text, (name,))
        elif len(values) > 1 and (numbers[-1] < numbers[0]) != is_down:
            text = f"its values go {'up' if is_down else 'down'}, and those of others the other way"
            yield Problem(ProblemKind.NOT_MONOTONIC, dim, text, (name,))


def _is_monotonic(values: NDArray[Any]) -> bool:
    steps = np.diff(_as_numbers(values))
    return bool(np.all(steps > 0) or np.all(steps < 0))


def _is_descending(parts: Sequence[NDArray[Any]]) -> bool:
    """Return whether the first part with more than one value is descending."""
    longer = next((each for each in parts if len(each) > 1), None)
    return longer is not None and bool(longer[-1] < longer[0])


def _as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Convert values so that their differences are numbers."""
    if values.dtype.kind in "mMib" or (values.dtype.kind == "u" and values.itemsize < 8):
        return values.astype(np.int64)
    if values.dtype.kind in "uf":
        return values.astype(np.float64)
    # Strings have an order, but no distance.
    return np.unique(values, return_inverse=True)[1].astype(np.float64)


Contributors = Sequence[tuple[str, ArrayHeader]]
"""Sources that have a variable, with their names."""

CF_ENCODING = (
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "calendar",
    "dtype", "flag_values", "flag_masks", "flag_meanings", "frazil_convert",
)  # fmt: skip
"""Attributes that define the meaning of stored values."""
_REFERENCE_SYSTEMS = frozenset({"grid_mapping_name", "spatial_ref", "crs_wkt"})
_ABSENT = "none"


THE_REPOSITORY = "the repository"
"""Name of what is there before, among the contributors of a variable."""


def find_outsiders(
    contributors: Contributors, property: Callable[[ArrayHeader], object]
) -> tuple[str, Mapping[str, tuple[str, ...]]]:
    """Return the usual value of a property, and the sources with other values, by value.

    The usual value is that of the repository if it is among the contributors, or the most common one.
    """
    # Files of an archive share most headers, and serializing a value is slow.
    distinct = {id(header): header for _, header in contributors}
    values = {key: property(header) for key, header in distinct.items()}
    first = values[id(contributors[0][1])]
    first_text = json.dumps(first, sort_keys=True)
    if all(value == first for value in values.values()):
        return first_text, {}
    texts = {
        key: first_text if value == first else json.dumps(value, sort_keys=True)
        for key, value in values.items()
    }
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, header in contributors:
        groups[texts[id(header)]].append(name)
    usual = max(groups, key=lambda value: (THE_REPOSITORY in groups[value], len(groups[value])))
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
    for name in (*CF_ENCODING, *_find_parameters(contributors)):
        yield from compare(
            contributors,
            ProblemKind.ENCODING,
            name,
            lambda each, name=name: _state(each, name),  # type: ignore[misc]
        )


def _find_parameters(contributors: Contributors) -> list[str]:
    """Return the attributes of a grid mapping that define its coordinate reference system.

    They are its name and numbers; its texts, which differ between writers, only without these.
    """
    if not any(each.attributes.keys() & _REFERENCE_SYSTEMS for _, each in contributors):
        return []
    stated = {name: value for _, each in contributors for name, value in each.attributes.items()}
    numbers = [
        name
        for name, value in stated.items()
        if not isinstance(value, str) and name not in (*CF_ENCODING, "raster_type")
    ]
    return [*(["grid_mapping_name"] if numbers else sorted(_REFERENCE_SYSTEMS)), *numbers]


def _state(array: ArrayHeader, name: str) -> Any:
    """Return an attribute; a fill value of floats, which is stored as Xarray encodes it, as number."""
    found = array.attributes.get(name, _ABSENT)
    if name == "_FillValue" and isinstance(found, str) and found != _ABSENT:
        return next(iter(read_missing(array, name)), found)
    return found


def compare_storage(contributors: Contributors) -> Iterator[Problem]:
    """Report differences in chunk storage, which must be equal for all chunks of an array."""
    yield from compare(
        contributors, ProblemKind.CODECS, "codecs", lambda each: _essential_codecs(each.metadata)
    )
    yield from compare(
        contributors, ProblemKind.CHUNKS, "chunk shape", lambda each: each.chunk_shape
    )
    fill_values = compare(
        contributors,
        ProblemKind.FILL_VALUE,
        "fill value",
        lambda each: each.metadata.get("fill_value"),
    )
    for problem in fill_values:
        own = [header for name, header in contributors if name in problem.files]
        if not any(each.is_whole or "_FillValue" in each.attributes for each in own):
            fill = own[0].metadata.get("fill_value")
            text = f"{problem.text}: chunks that were never written read as {fill}"
            problem = replace(problem, text=text)
        yield problem


def storage_key(header: ArrayHeader) -> str:
    """Return a text that is equal for arrays whose chunks are stored in the same way."""
    fill = header.metadata.get("fill_value")
    return json.dumps(
        [_essential_codecs(header.metadata), header.chunk_shape, fill], sort_keys=True
    )


def find_obstacles(contributors: Contributors) -> Iterator[Problem]:
    """Report arrays whose bytes can't be referenced, and those that can be read in other files only."""
    groups: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    is_known = any("codecs" in header.metadata for _, header in contributors)
    for name, header in contributors:
        if header.obstacle is not None:
            is_readable = "codecs" in header.metadata or not is_known
            groups[header.obstacle, is_readable].append(name)
    for (obstacle, is_readable), names in groups.items():
        kind = ProblemKind.UNREACHABLE if is_readable else ProblemKind.UNREADABLE
        yield Problem(kind, contributors[0][1].name, obstacle, tuple(names))


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


def _essential_codecs(metadata: Mapping[str, Any]) -> list[Any]:
    return [_essential_codec(each) for each in metadata["codecs"]]


def _essential_codec(codec: Mapping[str, Any]) -> dict[str, Any]:
    settings = codec.get("configuration") or {}
    return {
        "name": codec["name"],
        "configuration": {name: settings[name] for name in settings if name not in _EFFORTS},
    }


def _unquote(text: str) -> str:
    return text[1:-1] if text.startswith('"') else text


_MEANING = ("units", "calendar", "scale_factor", "add_offset")


def read_indexes(
    headers: Sequence[SourceHeader], along: Sequence[str]
) -> tuple[Mapping[str, Sequence[NDArray[Any]]] | None, list[Problem]]:
    """Read the coordinates to concatenate along, by dimension; None if a source can't be placed.

    Values of each source are in the units of the first.
    """
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
    problems += _compare_other_dims(headers, along)
    return (values if len(values) == len(along) else None), problems


def _read_index(
    dim: str, headers: Sequence[SourceHeader]
) -> tuple[Sequence[NDArray[Any]] | None, list[Problem]]:
    lacking = tuple(each.name for each in headers if find_values(each, dim) is None)
    if lacking:
        hint = suggest_coordinate(headers, dim)
        text = f"no values of a coordinate {dim}({dim}) to place them by{hint}"
        return None, [Problem(ProblemKind.NO_COORDINATE, dim, text, lacking)]
    first = headers[0].arrays[dim]
    values: list[NDArray[Any]] = []
    strangers: list[str] = []
    for header in headers:
        found = _comparable(header.arrays[dim], first)
        values += [] if found is None else [found]
        strangers += [header.name] if found is None else []
    if strangers:
        calendar = first.attributes.get("calendar")
        text = (
            f"its values can't be given as {first.metadata['data_type']} in the units "
            f"{first.attributes.get('units')!r}{f' ({calendar})' if calendar else ''} of "
            f"{headers[0].name}"
        )
        return None, [Problem(ProblemKind.COORDINATE, dim, text, tuple(strangers))]
    blank = tuple(
        header.name
        for header in headers
        if header.name != THE_REPOSITORY and _lacks_values(header.arrays[dim])
    )
    text = "one of its values is missing, so that it has no place"
    return values, [Problem(ProblemKind.NOT_MONOTONIC, dim, text, blank)] if blank else []


def _lacks_values(index: ArrayHeader) -> bool:
    assert index.values is not None
    return bool(find_missing(index, index.values).any())


def suggest_coordinate(headers: Sequence[SourceHeader], dim: str) -> str:
    """Return where the missing coordinate may be, with the option that takes it from there."""
    lacking = next(each for each in headers if find_values(each, dim) is None)
    scalars = [
        name
        for name, array in lacking.arrays.items()
        if not array.dims and is_time(array.attributes) and name != dim
    ]
    if scalars:
        return f"; it has a scalar {scalars[0]!r}, which append_dim={scalars[0]!r} takes"
    times = [
        name
        for name, value in lacking.attributes.items()
        if "time" in name.lower() and "start" in name.lower() and isinstance(value, str)
    ]
    where = f"from_attribute({times[0]!r})" if times else "from_path(…) or from_attribute(…)"
    return f"; coords={{{dim!r}: {where}}} takes them from elsewhere"


def find_values(header: SourceHeader, dim: str) -> NDArray[Any] | None:
    """Return the values of the coordinate of a dimension, or None."""
    array = header.arrays.get(dim)
    if array is None or not array.is_index or array.values is None:
        return None
    return _text_or_values(array) if array.values.dtype.kind in "OT" else array.values


def _comparable(array: ArrayHeader, first: ArrayHeader) -> NDArray[Any] | None:
    """Return the values of a coordinate in type and units of the first source, if they are exact."""
    if any(array.attributes.get(each) != first.attributes.get(each) for each in _MEANING):
        return None
    values, wanted = _text_or_values(array), _text_or_values(first)
    if array.metadata["data_type"] == first.metadata["data_type"] or values is None:
        return values
    assert wanted is not None
    is_text = values.dtype.kind == "U"
    if is_text or wanted.dtype.kind == "U":
        return values if is_text and wanted.dtype.kind == "U" else None
    with np.errstate(invalid="ignore"):
        given = values.astype(wanted.dtype)
    return given if are_equal(given.astype(values.dtype), values) else None


def _text_or_values(array: ArrayHeader) -> NDArray[Any] | None:
    values = array.values
    if values is not None and values.dtype.kind == "T":
        # NumPy casts strings of variable length to those of a given length only.
        values = values.astype(object)
    return values.astype(str) if values is not None and values.dtype.kind in "OS" else values


def _compare_other_dims(headers: Sequence[SourceHeader], along: Sequence[str]) -> Iterator[Problem]:
    lengths: dict[str, dict[str, int]] = {}
    for each in headers:
        for dim, length in each.dims.items():
            lengths.setdefault(dim, {})[each.name] = length
    for dim in [each for each in lengths if each not in along]:
        yield from _compare_lengths(dim, lengths[dim])
        yield from _compare_coordinates(dim, headers)


def _compare_lengths(dim: str, lengths: Mapping[str, int]) -> Iterator[Problem]:
    first = next(iter(lengths))
    usual = _most_common(list(lengths.values()))
    if first.startswith(THE_REPOSITORY):
        usual = lengths[first]
    others = tuple(name for name, length in lengths.items() if length != usual)
    if others:
        found = sorted({*lengths.values()} - {usual})
        text = f"its length is {', '.join(map(str, found))}, and {usual} elsewhere"
        yield Problem(ProblemKind.LENGTH, dim, text, others)


def _compare_coordinates(dim: str, headers: Sequence[SourceHeader]) -> Iterator[Problem]:
    found = [(each.name, find_values(each, dim)) for each in headers]
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


def _most_common(lengths: Sequence[int]) -> int:
    distinct, counts = np.unique(np.array(lengths, np.int64), return_counts=True)
    return int(distinct[np.argmax(counts)])
