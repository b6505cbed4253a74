"""The coordinates of all dimensions, compared between sources."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.virtual.combining.agreement import are_equal
from frazil.virtual.combining.problems import Problem, ProblemKind
from frazil.virtual.sources import ArrayHeader, SourceHeader

_MEANING = ("units", "calendar", "scale_factor", "add_offset")


@dataclass(frozen=True, slots=True, eq=False)
class Indexes:
    """The coordinates of the dimensions that sources are combined along."""

    values: Mapping[str, Sequence[NDArray[Any]]]
    """By dimension, for each source, in the units of the first."""


def read_indexes(
    headers: Sequence[SourceHeader], along: Sequence[str]
) -> tuple[Indexes | None, list[Problem]]:
    """The coordinates to combine along; None where a source has no place."""
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
    return (Indexes(values) if len(values) == len(along) else None), problems


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
    """The values of a coordinate, if they mean what those of the first source do."""
    if array.metadata["data_type"] != first.metadata["data_type"]:
        return None
    is_same = all(array.attributes.get(each) == first.attributes.get(each) for each in _MEANING)
    return array.values if is_same else None


def _compare_other_dims(headers: Sequence[SourceHeader], along: Sequence[str]) -> Iterator[Problem]:
    dims = dict.fromkeys(dim for each in headers for dim in each.dims if dim not in along)
    for dim in dims:
        yield from _compare_lengths(dim, headers)
        yield from _compare_coordinates(dim, headers)


def _compare_lengths(dim: str, headers: Sequence[SourceHeader]) -> Iterator[Problem]:
    having = [each for each in headers if dim in each.dims]
    usual = _most_common([each.dims[dim] for each in having])
    others = tuple(each.name for each in having if each.dims[dim] != usual)
    if others:
        found = sorted({each.dims[dim] for each in having} - {usual})
        text = f"its length is {', '.join(map(str, found))}, and {usual} elsewhere"
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


def _most_common(lengths: Sequence[int]) -> int:
    distinct, counts = np.unique(np.array(lengths, np.int64), return_counts=True)
    return int(distinct[np.argmax(counts)])
