"""Plan sources that fill a region of existing arrays, and report all problems. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
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
from frazil.spark.regions import Box
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
)
from frazil.virtual.source import ArrayHeader, SourceHeader


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
