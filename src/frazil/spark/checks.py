"""Quality checks that validate a new version before a job publishes it (write-audit-publish).

Checks are named after the property they validate. Dataset checks read
coordinates and metadata once. Region checks read the data of each source file, on workers. A user
function is a region check: it receives the dataset of a file's region and the `FileRegion`, and
returns None, a text, a `Finding`, or several of them.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.spark.audit import AnyCheck, FileRegion, Finding, NewRegion, NewVersion
from frazil.spark.regions import Box, cut, grow, slices_of, whole
from frazil.virtual.source import is_time

__all__ = [
    "CF_ATTRIBUTES", "FileRegion", "Finding", "OwnFunction", "complete", "fill_share", "monotonic",
    "same_metadata", "samples_equal_source", "unique", "values_between",
]  # fmt: skip


def find_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the values that are NaN or NaT."""
    match values.dtype.kind:
        case "f" | "c":
            return np.isnan(values)
        case "m" | "M":
            return np.isnat(values)
        case "O":
            same: NDArray[np.bool_] = np.array([each == each for each in values.flat], np.bool_)
            return ~same.reshape(values.shape)
    return np.zeros(values.shape, np.bool_)


def _freeze(check: object, name: str) -> None:
    """Make a sequence of names a tuple, so that checks can be compared and hashed."""
    names = getattr(check, name)
    object.__setattr__(check, name, None if names is None else tuple(names))


_BLOCK_BYTES = 64 << 20
_NUMBERS = "biufc"
_TIMES = "mM"


@dataclass(frozen=True, slots=True)
class FillShare:
    """Check that at most a given fraction of the values of a file is missing.

    Missing values are NaN, NaT and decoded fill values.

    Parameters
    ----------
    at_most
        Maximum fraction of missing values.
    variables
        Variables to check. Default: all data variables of numbers or times.
    """

    at_most: float
    variables: Sequence[str] | None = None
    name: str = field(default="fill_share", init=False)
    share_read: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        _freeze(self, "variables")

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """Return a finding for each variable with more missing values."""
        found = []
        for name, array in select_arrays(region.dataset, self.variables, _NUMBERS + _TIMES):
            missing = sum(count_missing(block) for block in read_blocks(array))
            if missing > self.at_most * array.size:
                share = missing / array.size
                text = f"{share:.1%} of its values are missing, more than {self.at_most:.1%}"
                found.append(region.find(self.name, text, name))
        return found


@dataclass(frozen=True, slots=True)
class ValuesBetween:
    """Check that values are within a range; missing values are ignored.

    Values are compared decoded, with scale and offset applied.

    Parameters
    ----------
    low, high
        Inclusive limits of the range.
    variables
        Variables to check. Default: all data variables of real numbers.
    """

    low: float
    high: float
    variables: Sequence[str] | None = None
    name: str = field(default="values_between", init=False)
    share_read: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        _freeze(self, "variables")

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """Return a finding for each variable with values outside of the range."""
        found = []
        for name, array in select_arrays(region.dataset, self.variables, "biuf"):
            outside = [
                each
                for block in read_blocks(array)
                if (each := find_outside(block, self.low, self.high)) is not None
            ]
            if outside:
                counts, lows, highs = zip(*outside, strict=True)
                text = (
                    f"{sum(counts)} values are outside of {self.low:g} to {self.high:g}: "
                    f"{min(lows):g} to {max(highs):g}"
                )
                found.append(region.find(self.name, text, name))
        return found


def count_missing(values: NDArray[Any]) -> int:
    """Return the number of values that are NaN or NaT."""
    return int(np.count_nonzero(find_missing(values)))


def find_outside(values: NDArray[Any], low: float, high: float) -> tuple[int, float, float] | None:
    """Return count, minimum and maximum of the values outside of a range; None if there are none."""
    outside = values[(values < low) | (values > high)]
    if not outside.size:
        return None
    return outside.size, float(outside.min()), float(outside.max())


def select_arrays(
    dataset: xr.Dataset, names: Sequence[str] | None, kinds: str
) -> Iterator[tuple[str, xr.DataArray]]:
    """Yield the named variables, or all data variables of these dtype kinds."""
    if names is not None:
        absent = [name for name in names if name not in dataset.variables]
        if absent:
            raise KeyError(f"there are no variables {', '.join(absent)}")
        yield from ((name, dataset[name]) for name in names if dataset[name].size)
        return
    for name, array in dataset.data_vars.items():
        if array.dtype.kind in kinds and array.size:
            yield str(name), array


def read_blocks(array: xr.DataArray, most_bytes: int = _BLOCK_BYTES) -> Iterator[NDArray[Any]]:
    """Yield the values of an array, a few chunks at a time."""
    size = grow(find_chunks(array), array.shape, most_bytes // max(1, array.dtype.itemsize))
    for box in cut(whole(array.shape), size):
        yield np.asarray(array[slices_of(box)].values)


def find_chunks(array: xr.DataArray) -> tuple[int, ...]:
    """Return the shape of the chunks, or that of the array if it is unknown."""
    chunks = array.encoding.get("chunks") or array.shape
    return tuple(
        max(1, min(size, length)) for size, length in zip(chunks, array.shape, strict=True)
    )


_COMPARED = "biufcmM"
_WHOLE_ITEMS = 1 << 20
"""Maximum size of arrays of times that are compared as a whole."""


@dataclass(frozen=True, slots=True)
class SamplesEqualSource:
    """Check that sampled chunks of each file decode and equal the source file.

    Decoded values are compared. The sample of a file is always the same. All times are compared,
    including bounds and climatologies.

    Parameters
    ----------
    share
        Fraction of the chunks of a file to compare.
    at_least
        Minimum number of chunks to compare.
    variables
        Variables to check. Default: all data variables of numbers or times.
    """

    share: float = 0.01
    at_least: int = 1
    variables: Sequence[str] | None = None
    name: str = field(default="samples_equal_source", init=False)

    def __post_init__(self) -> None:
        _freeze(self, "variables")

    @property
    def share_read(self) -> float:
        """Twice the compared fraction: chunk and source are read."""
        return min(1.0, 2 * self.share)

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """Return a finding for each variable that differs from the source file."""
        dataset = decode_climatologies(region.dataset)
        arrays = dict(select_arrays(dataset, self.variables, _COMPARED))
        times = {} if self.variables is not None else find_times(dataset, region.region.dim)
        boxes = [
            (name, box)
            for name, array in arrays.items()
            if name not in times
            for box in cut(whole(array.shape), find_chunks(array))
        ]
        selected = [(name, whole(array.shape)) for name, array in times.items()]
        selected += self._sample(boxes, region.region.file)
        arrays |= times
        found: dict[str, Finding] = {}
        with decode_climatologies(region.open_source()) as source:
            for name, box in selected:
                if name in found or name not in source.variables:
                    continue
                mine = np.asarray(arrays[name][slices_of(box)].values)
                theirs = source[name]
                new = arrays[name].dims[: arrays[name].ndim - theirs.ndim]
                text = _compare(mine, theirs.expand_dims(new) if new else theirs, box)
                if text is not None:
                    found[name] = region.find(self.name, text, name)
        return list(found.values())

    def _sample(self, boxes: Sequence[tuple[str, Box]], file: str) -> Iterator[tuple[str, Box]]:
        count = count_samples(len(boxes), self.share, self.at_least)
        for each in sample_chunks(len(boxes), count, crc32(file.encode())):
            yield boxes[each]


def count_samples(chunks: int, share: float, at_least: int) -> int:
    """Return the number of chunks to compare."""
    return min(chunks, max(at_least, ceil(share * chunks)))


def sample_chunks(chunks: int, count: int, seed: int) -> list[int]:
    """Return the indices of a random sample of chunks, sorted."""
    if not count:
        return []
    selected = np.random.default_rng(seed).choice(chunks, count, replace=False)
    return sorted(int(each) for each in selected)


def decode_climatologies(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with climatologies decoded as times, as xarray decodes bounds.

    Climatologies have the units of the coordinate that names them.
    """
    decoded = {}
    for variable in dataset.variables.values():
        name = variable.attrs.get("climatology", variable.encoding.get("climatology"))
        clock = {key: variable.encoding.get(key) for key in ("units", "calendar")}
        if name not in dataset.variables or not is_time(clock):
            continue
        raw = dataset.variables[name]
        if raw.dtype.kind in "iuf" and "units" not in raw.attrs:
            given = {key: value for key, value in clock.items() if value is not None}
            timed = raw.copy(deep=False)
            timed.attrs = {**raw.attrs, **given}
            decoded[name] = xr.decode_cf(xr.Dataset({name: timed})).variables[name]
    return dataset.assign(decoded)


def find_times(dataset: xr.Dataset, dim: str | None) -> dict[str, xr.DataArray]:
    """Return the small arrays of times along a dimension, or all of them without one."""
    return {
        str(name): dataset[name]
        for name, variable in dataset.variables.items()
        if (dim is None or dim in variable.dims)
        and 0 < variable.size <= _WHOLE_ITEMS
        and (variable.dtype.kind == "M" or is_time(variable.encoding))
    }


def _compare(mine: NDArray[Any], source: Any, box: Box) -> str | None:
    where = ", ".join(f"{start}:{stop}" for start, stop in box)
    if source.ndim != mine.ndim:
        return f"it has {source.ndim} dimensions in the file, and {mine.ndim} here"
    theirs = np.asarray(source[slices_of(box)].values)
    if theirs.shape != mine.shape:
        return f"[{where}] of the file has the shape {theirs.shape}, and {mine.shape} here"
    count = count_different(mine, theirs)
    return f"{count} values in [{where}] of the file are others here" if count else None


def count_different(one: NDArray[Any], other: NDArray[Any]) -> int:
    """Return the number of values that differ; NaN equals NaN."""
    if {one.dtype.kind, other.dtype.kind} == {"M", "O"}:
        # Times of a long axis may be beyond the range of datetime64.
        one, other = _spell_times(one), _spell_times(other)
    differs = one != other
    if one.dtype.kind in "fcmM" and other.dtype.kind in "fcmM":
        differs &= ~(np.isnan(one) & np.isnan(other))
    return int(np.count_nonzero(differs))


def _spell_times(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "M":
        return values.astype("M8[us]").astype(str)
    return np.array([_spell(each) for each in values.flat]).reshape(values.shape)


def _spell(moment: Any) -> str:
    return "NaT" if moment != moment else moment.isoformat(timespec="microseconds")


CF_ATTRIBUTES = (
    "standard_name", "units", "calendar", "positive", "axis", "cell_methods", "grid_mapping",
    "bounds", "valid_min", "valid_max", "valid_range", "flag_values", "flag_masks", "flag_meanings",
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned",
)  # fmt: skip
"""Attributes that define the meaning of values."""

_OF_TIMES = frozenset({"units", "calendar"})


@dataclass(frozen=True, slots=True)
class SameMetadata:
    """Check that data types and attributes equal those of the previous version and of all files.

    Parameters
    ----------
    attributes
        Attributes to compare.
    """

    attributes: Sequence[str] = CF_ATTRIBUTES
    name: str = field(default="same_metadata", init=False)

    def __post_init__(self) -> None:
        _freeze(self, "attributes")

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """Return a finding for each property of a variable that differs."""
        found = []
        for variable, new in version.metadata.items():
            old = version.before.get(variable)
            if old is not None:
                for text in self._compare(old, new, "it was", "now"):
                    found.append(Finding(text, self.name, variable))
        for each in version.file_metadata:
            mine = version.metadata.get(each.variable)
            if mine is None:
                continue
            theirs = {"data_type": each.data_type, "attributes": each.attributes}
            # Times with another reference date in each file are encoded again with one.
            without = _OF_TIMES if each.variable == version.dim else frozenset[str]()
            for text in self._compare(mine, theirs, "in the repository", "in the file", without):
                found.append(Finding(text, self.name, each.variable, each.files))
        return found

    def _compare(
        self,
        one: Mapping[str, Any],
        other: Mapping[str, Any],
        where: str,
        there: str,
        without: frozenset[str] = frozenset(),
    ) -> Iterator[str]:
        names = [name for name in self.attributes if name not in without]
        for what, here, elsewhere in find_differences(one, other, names):
            yield f"{what} is {elsewhere} {there}, {here} {where}"


def find_differences(
    one: Mapping[str, Any], other: Mapping[str, Any], attributes: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each differing property of two arrays, with both values as JSON."""
    pairs = [("data type", one["data_type"], other["data_type"])]
    mine, theirs = one.get("attributes") or {}, other.get("attributes") or {}
    pairs += [(name, mine.get(name), theirs.get(name)) for name in attributes]
    for name, here, there in pairs:
        # Compared as JSON, because NaN does not equal itself.
        said, answered = json.dumps(here, sort_keys=True), json.dumps(there, sort_keys=True)
        if said != answered:
            yield name, said, answered


fill_share, values_between = FillShare, ValuesBetween
samples_equal_source, same_metadata = SamplesEqualSource, SameMetadata

Reported = None | str | Finding | Iterable[str | Finding]
Function = Callable[[xr.Dataset, FileRegion], Reported]


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """Check that calls a user function for the region of each file."""

    function: Function
    share_read: float = 1.0

    @property
    def name(self) -> str:
        """Name of the function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """Return the findings of the function, completed with the file and the region."""
        reported = self.function(region.dataset, region.region)
        return [self._complete(each, region) for each in _listed(reported)]

    def _complete(self, reported: str | Finding, region: NewRegion) -> Finding:
        if not isinstance(reported, Finding):
            return region.find(self.name, str(reported))
        return replace(
            reported,
            check=reported.check or self.name,
            files=reported.files or (region.region.file,),
            region=reported.region or region.region.ends,
        )


def as_checks(given: Iterable[AnyCheck | Function]) -> tuple[AnyCheck, ...]:
    """Convert functions to checks; raise InvalidInputError for anything else."""
    return tuple(map(_as_check, given))


def _as_check(given: AnyCheck | Function) -> AnyCheck:
    if hasattr(given, "check_whole") or hasattr(given, "check_region"):
        return given  # type: ignore[return-value]
    if isinstance(given, type) or not callable(given):
        raise InvalidInputError(f"invalid check {given!r}: expected a check or a function")
    return OwnFunction(given)


def _listed(reported: Reported) -> Iterator[str | Finding]:
    if reported is None:
        return
    if isinstance(reported, str | Finding):
        yield reported
    else:
        yield from reported


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
