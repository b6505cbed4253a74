"""Quality checks of coordinates: order, completeness, duplicates."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.spark.checks.audit import Finding, NewVersion
from frazil.spark.checks.value_checks import find_missing

Step = str | float | np.timedelta64
"""Number, or time span such as "6h" or "1D"."""

_TOLERANCE = 1e-6
_SLACK = 1.5
"""Tolerance for inferred steps, which may vary a little, for example months."""


@dataclass(frozen=True, slots=True)
class Monotonic:
    """Check that the values of a coordinate only increase, or only decrease.

    Parameters
    ----------
    dim
        Name of the coordinate. Default: the append dimension.
    """

    dim: str | None = None
    name: str = field(default="monotonic", init=False)

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """Return a finding for each value that is out of order or missing."""
        values, dim = _values(version, self.dim)
        return [
            _at(version, self.name, dim, position, f"{_show(values, position)} is out of order")
            for position in find_turns(values)
            if _is_new(version, dim, position)
        ]


@dataclass(frozen=True, slots=True)
class Unique:
    """Check that the values of a coordinate are distinct.

    Parameters
    ----------
    dim
        Name of the coordinate. Default: the append dimension.
    """

    dim: str | None = None
    name: str = field(default="unique", init=False)

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """Return a finding for each duplicate value."""
        values, dim = _values(version, self.dim)
        return [
            _at(version, self.name, dim, position, f"{_show(values, position)} is at {first}, too")
            for position, first in find_duplicates(values)
            if _is_new(version, dim, position) or _is_new(version, dim, first)
        ]


@dataclass(frozen=True, slots=True)
class Complete:
    """Check that a coordinate has no gaps.

    A finding names the files after a gap: excluding them postpones them until the missing files arrive.

    Parameters
    ----------
    step
        Number or time span between values. Default: the most frequent one.
    dim
        Name of the coordinate. Default: the append dimension.

    Raises
    ------
    InvalidInputError
        If `step` is not a valid time span.
    """

    step: Step | None = None
    dim: str | None = None
    name: str = field(default="complete", init=False)

    def __post_init__(self) -> None:
        if self.step is not None:
            _to_number(self.step)

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """Return a finding for each gap, with the files after it."""
        values, dim = _values(version, self.dim)
        found = []
        for position in find_gaps(values, self.step):
            if _is_new(version, dim, position) or _is_new(version, dim, position - 1):
                text = f"a gap from {_show(values, position - 1)} to {_show(values, position)}"
                files = version.files_from(position) if dim == version.dim else ()
                if not files and dim == version.dim:
                    files = version.files_at(position)
                found.append(Finding(text, self.name, dim, files, (position - 1, position + 1)))
        return found


monotonic, unique, complete = Monotonic, Unique, Complete


def find_turns(values: NDArray[Any]) -> list[int]:
    """Return the positions of values that break the prevailing order, and of missing values."""
    rises, falls = values[1:] > values[:-1], values[1:] < values[:-1]
    turns = falls if np.sum(rises) >= np.sum(falls) else rises
    wrong = find_missing(values)
    wrong[1:] |= turns
    return [int(each) for each in np.flatnonzero(wrong)]


def find_duplicates(values: NDArray[Any]) -> list[tuple[int, int]]:
    """Return the position of each duplicate value with the first position of its value."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    firsts = first[inverse]
    return [(int(p), int(firsts[p])) for p in np.flatnonzero(firsts != np.arange(len(values)))]


def find_gaps(values: NDArray[Any], step: Step | None = None) -> list[int]:
    """Return the positions of values that are more than a step from the previous value."""
    apart = _distances(values)
    if not len(apart):
        return []
    if step is None:
        distinct, counts = np.unique(apart, return_counts=True)
        usual, slack = distinct[np.argmax(counts)], _SLACK
    else:
        usual, slack = _to_number(step), 1 + _TOLERANCE
    return [int(each) + 1 for each in np.flatnonzero(apart > usual * slack)]


def _distances(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the absolute differences of consecutive values; for times, in nanoseconds."""
    apart = np.diff(values)
    if apart.dtype == object:
        apart = np.array([np.timedelta64(each) for each in apart], "timedelta64[ns]")
    if apart.dtype.kind == "m":
        apart = apart.astype("timedelta64[ns]").astype(np.int64)
    return np.abs(apart.astype(np.float64))


def _to_number(step: Step) -> float:
    if isinstance(step, str | np.timedelta64):
        return float(_to_span(step) / np.timedelta64(1, "ns"))
    return float(step)


def _to_span(step: str | np.timedelta64) -> np.timedelta64:
    if isinstance(step, np.timedelta64):
        return step
    found = re.fullmatch(r"\s*(\d*)\s*(W|D|h|min|s)\s*", step)
    if found is None:
        raise InvalidInputError(
            f"invalid step {step!r}: expected a number and a unit, W, D, h, min or s"
        )
    unit = {"min": "m"}.get(found[2], found[2])
    return np.timedelta64(int(found[1] or 1), unit)  # type: ignore[call-overload, no-any-return]


def _values(version: NewVersion, dim: str | None) -> tuple[NDArray[Any], str]:
    name = dim or version.dim
    if name is None or name not in version.dataset.variables:
        raise ValueError(f"there is no coordinate {name!r} to check: name a dimension that has one")
    return np.asarray(version.dataset[name].values), name


def _is_new(version: NewVersion, dim: str, position: int) -> bool:
    """Return True if a position belongs to a new file; for other dimensions always True."""
    return dim != version.dim or bool(version.files_at(position))


def _at(version: NewVersion, check: str, dim: str, position: int, text: str) -> Finding:
    files = version.files_at(position) if dim == version.dim else ()
    return Finding(text, check, dim, files, (position, position + 1))


def _show(values: NDArray[Any], position: int) -> str:
    value = values[position]
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, "s"))
    return str(value)
