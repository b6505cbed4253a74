"""Convert times with different CF units to common units.

Bounds and climatologies have no units of their own: they have those of the coordinate that names them,
and are converted with it.
"""

import base64
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.virtual.combine_plan import Axis, Problem, ProblemKind
from frazil.virtual.source import ArrayHeader, SourceHeader, find_bounds, is_time

_SAME_CALENDARS = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
_GREGORIAN = frozenset({"standard", "proleptic_gregorian"})
_SHARED_DATE = "days since 1582-10-15"
"""First day on which both calendars agree."""
_FINER_UNITS = {
    "hours": 3_600_000_000_000, "minutes": 60_000_000_000, "seconds": 1_000_000_000,
    "milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1,
}  # fmt: skip
_WIDEST: Mapping[str, tuple[str, ...]] = {
    "i": ("int64", "float64"), "u": ("int64", "float64"), "f": ("float64", "int64")
}  # fmt: skip

_CLOCK = ("units", "calendar")
_MISSING = ("_FillValue", "missing_value")
_UNWRITTEN: Mapping[str, float] = {
    "f4": 9.969209968386869e36, "f8": 9.969209968386869e36, "i4": -2147483647,
    "i8": -9223372036854775806,
}  # fmt: skip
"""Numbers that the NetCDF library leaves where no time was written, with or without an attribute."""
_STORED = ("data_type", "fill_value", "codecs")

Ticks = list[int | None]
"""Nanoseconds since a reference date; None for missing values."""


@dataclass(frozen=True, slots=True)
class Clock:
    """CF units and calendar of times."""

    units: str
    calendar: str | None
    """Calendar as written in the file, or None."""

    @property
    def canonical_calendar(self) -> str:
        """Return the canonical name of the calendar."""
        given = (self.calendar or "standard").lower()
        return _SAME_CALENDARS.get(given, given)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Array of times of one source."""

    row: int
    array: ArrayHeader
    clock: Clock


_DURATIONS = frozenset(f"{each}s" for each in (
    "day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond",
))  # fmt: skip
_AS_TIME = " since 1970-01-01"


def count_alike(
    headers: Sequence[SourceHeader],
) -> tuple[list[SourceHeader], list[Problem]]:
    """Return the sources with all times and durations in the units of the first that has them.

    A type that can't hold the times exactly is widened to int64 or float64. If no type suffices in the
    units of the first source, finer units are used. Arrays that can't be converted are unchanged, and
    reported if their units are those of another array: comparing attributes would not find them.
    """
    units: dict[str, set[Any]] = {}
    for header in headers:
        for name, array in header.arrays.items():
            units.setdefault(name, set()).add(str(array.attributes.get("units")))
    # Xarray chooses the units of a duration for each file: 6 hours, 1 day.
    durations = {name for name, each in units.items() if len(each) > 1 and each <= _DURATIONS}
    marked = [_with_units(each, durations, lambda text: text + _AS_TIME) for each in headers]
    found, problems = _count_times_alike(marked)
    plain = [
        _with_units(each, durations, lambda text: text.removesuffix(_AS_TIME)) for each in found
    ]
    return plain, problems


def _with_units(
    header: SourceHeader, names: AbstractSet[str], change: Callable[[str], str]
) -> SourceHeader:
    if not names & header.arrays.keys():
        return header
    arrays = dict(header.arrays)
    for name in names & header.arrays.keys():
        array = arrays[name]
        attributes = {**array.attributes, "units": change(str(array.attributes["units"]))}
        arrays[name] = replace(array, metadata={**array.metadata, "attributes": attributes})
    return replace(header, arrays=arrays)


def _count_times_alike(
    headers: Sequence[SourceHeader],
) -> tuple[list[SourceHeader], list[Problem]]:
    parents: dict[str, str] = {}
    for header in headers:
        for name, parent in find_bounds(header.arrays).items():
            parents.setdefault(name, parent)
    changed: dict[tuple[int, str], ArrayHeader] = {}
    problems: list[Problem] = []
    for family in _gather(headers, parents):
        if _agree(family):
            continue
        found = _convert(family)
        if found is not None:
            changed |= found
            continue
        problems += _find_strangers(family, headers, parents)
    if not changed:
        return list(headers), problems
    return [
        replace(
            header,
            arrays={name: changed.get((row, name), each) for name, each in header.arrays.items()},
        )
        for row, header in enumerate(headers)
    ], problems


def find_times(headers: Iterable[SourceHeader]) -> set[str]:
    """Return the names of all arrays of times, bounds included."""
    found: set[str] = set()
    for header in headers:
        found |= find_bounds(header.arrays).keys()
        found |= {name for name, array in header.arrays.items() if is_time(array.attributes)}
    return found


def show_values(axis: Axis, positions: Sequence[int]) -> list[str]:
    """Return values of a dimension as people write them: times as dates."""
    values = axis.values[list(positions)]
    if is_time(axis.attributes) and values.dtype.kind in "iuf":
        calendar = axis.attributes.get("calendar")
        clock = Clock(axis.attributes["units"], None if calendar is None else str(calendar))
        start, step = _measure(clock, False) or (None, 0)
        if isinstance(start, np.datetime64):
            # Decoding with Xarray costs a millisecond, and there may be thousands of gaps.
            seconds = np.rint(values * (step / 1e9)).astype("m8[s]")
            moments = np.datetime_as_string(start.astype("M8[s]") + seconds)
            return [_shorten(text) for text in moments.tolist()]
        decoded = _decode(values, clock, use_cftime=True)
        if decoded is not None:
            return [_shorten(each.isoformat()) for each in decoded.tolist()]
    return [str(each) for each in values.tolist()]


def show_region(axis: Axis, region: tuple[int, int]) -> str:
    """Return the first and the last value of a region of a dimension."""
    start, stop = region
    if start >= stop:
        return "nothing"
    first, last = show_values(axis, [start, stop - 1])
    return first if first == last else f"{first} to {last}"


def show_step(axis: Axis, step: float) -> str:
    """Return a distance between values of a dimension, with its unit for times."""
    unit = str(axis.attributes["units"]).partition(" since ")[0] if is_time(axis.attributes) else ""
    return f"{step:g} {unit.rstrip('s') if step == 1 else unit}".rstrip()


def _shorten(moment: str) -> str:
    return moment.removesuffix("T00:00:00").removesuffix(":00")


Family = Mapping[str, Sequence[_Entry]]
"""Arrays with common units, a coordinate and its bounds, by name."""


def _gather(headers: Sequence[SourceHeader], parents: Mapping[str, str]) -> Iterator[Family]:
    entries: dict[str, list[_Entry]] = {}
    for row, header in enumerate(headers):
        for name, array in header.arrays.items():
            clock = _find_clock(header, array, parents)
            if clock is not None and "data_type" in array.metadata:
                entries.setdefault(name, []).append(_Entry(row, array, clock))
    families: dict[str, dict[str, Sequence[_Entry]]] = {}
    for name, found in entries.items():
        parent = parents.get(name, name)
        first = entries.get(parent, found)[0]
        # Bounds with units that differ from those of their coordinate are converted separately.
        is_apart = "units" in found[0].array.attributes and found[0].clock != first.clock
        root = name if is_apart or parent not in entries else parent
        families.setdefault(root, {root: entries[root]})[name] = found
    yield from families.values()


def _find_clock(
    header: SourceHeader, array: ArrayHeader, parents: Mapping[str, str]
) -> Clock | None:
    attributes: Mapping[str, Any] = array.attributes
    if "units" not in attributes:
        parent = header.arrays.get(parents.get(array.name, ""))
        attributes = {**(parent.attributes if parent is not None else {}), **attributes}
    if not is_time(attributes):
        return None
    calendar = attributes.get("calendar")
    return Clock(str(attributes["units"]), None if calendar is None else str(calendar))


def _agree(family: Family) -> bool:
    clocks = {each.clock for entries in family.values() for each in entries}
    return len(clocks) == 1 and all(
        len({str(each.array.metadata["data_type"]) for each in entries}) == 1
        for entries in family.values()
    )


def _find_strangers(
    family: Family, headers: Sequence[SourceHeader], parents: Mapping[str, str]
) -> Iterator[Problem]:
    for name, entries in family.items():
        inheriting = [each for each in entries if "units" not in each.array.attributes]
        wanted = entries[0].clock
        files = tuple(headers[each.row].name for each in inheriting if each.clock != wanted)
        if files:
            text = (
                f"its units are those of {parents[name]}, and its values can't be given in "
                f"{wanted.units!r} of {headers[entries[0].row].name}"
            )
            yield Problem(ProblemKind.COORDINATE, name, text, files)


# Conversion


def _convert(family: Family) -> dict[tuple[int, str], ArrayHeader] | None:
    """Convert arrays to common units and one type each; return None if that is impossible."""
    first = next(iter(family.values()))[0].clock
    for clock in (first, *_finer(first)):
        types = ("int64",) if clock != first else None
        found: dict[tuple[int, str], ArrayHeader] = {}
        for name, entries in family.items():
            if clock == first and _agree({name: entries}) and entries[0].clock == clock:
                continue
            arrays = _convert_array(entries, clock, types)
            if arrays is None:
                break
            found |= {(each.row, name): array for each, array in zip(entries, arrays, strict=True)}
        else:
            return found
    return None


def _is_convertible(array: ArrayHeader) -> bool:
    """Return whether values are loaded, unpacked plain numbers."""
    data_type = array.metadata["data_type"]
    is_plain = isinstance(data_type, str) and data_type.startswith(("int", "uint", "float"))
    is_packed = any(each in array.attributes for each in ("scale_factor", "add_offset"))
    return array.values is not None and is_plain and not is_packed


def _finer(clock: Clock) -> Iterator[Clock]:
    """Yield finer units with an unchanged reference date."""
    measured = _measure(clock, False)
    since = clock.units.partition(" since ")[2]
    for unit, step in _FINER_UNITS.items():
        if measured is not None and step < measured[1]:
            finer = Clock(f"{unit} since {since}", clock.calendar)
            if _measure(finer, False) is not None:
                yield finer


def _convert_array(
    entries: Sequence[_Entry], clock: Clock, types: Sequence[str] | None
) -> list[ArrayHeader] | None:
    if not all(_is_convertible(each.array) for each in entries):
        return None
    moments: list[Ticks] = []
    for each in entries:
        ticks = _ticks(each.array, each.clock)
        moved = None if ticks is None else _shift(ticks, each.clock, clock)
        if moved is None:
            return None
        moments.append(moved)
    first = entries[0].array
    own = np.dtype(first.metadata["data_type"])
    for name in types or dict.fromkeys((own.name, *_WIDEST[own.kind])):
        wanted = _retype(first, clock, np.dtype(name))
        found = [_encode(ticks, wanted, clock) for ticks in moments]
        if all(each is not None for each in found):
            return [
                _describe(each.array, wanted, values)
                for each, values in zip(entries, found, strict=True)
            ]
    return None


def _ticks(array: ArrayHeader, clock: Clock) -> Ticks | None:
    """Return the times of an array since its reference date, as Xarray decodes them."""
    assert array.values is not None
    values = array.values.reshape(-1)
    present = ~find_missing(array, values)
    measured = _measure(clock, False)
    if measured is None:
        return None
    step = measured[1]
    whole = np.where(present, values, 0)
    ticks: list[int] | None = None
    if values.dtype.kind in "iu" or not np.any(whole % 1):
        ticks = [int(each) * step for each in whole.tolist()]
    for use_cftime in (False, True):
        if ticks is None:
            ticks = _decode_ticks(whole, clock, use_cftime)
    if ticks is None:
        return None
    return [n if is_there else None for n, is_there in zip(ticks, present, strict=True)]


def _decode_ticks(values: NDArray[Any], clock: Clock, use_cftime: bool) -> list[int] | None:
    decoded, measured = _decode(values, clock, use_cftime), _measure(clock, use_cftime)
    if decoded is None or measured is None:
        return None
    if (decoded.dtype.kind == "M") != isinstance(measured[0], np.datetime64):
        return None
    return _differences(decoded, measured[0])


def _shift(ticks: Ticks, old: Clock, new: Clock) -> Ticks | None:
    """Convert times to another reference date; return None for another calendar."""
    if old.canonical_calendar != new.canonical_calendar:
        return _shift_calendar(ticks, old, new)
    starts = _starts(old, new)
    if starts is None:
        return None
    before, after = starts
    is_plain = isinstance(before, np.datetime64)
    (moved,) = _differences(np.array([before], dtype=None if is_plain else object), after)
    return [None if each is None else each + moved for each in ticks]


def _shift_calendar(ticks: Ticks, old: Clock, new: Clock) -> Ticks | None:
    """Convert times between calendars that agree from 1582 on, by a date that both have."""
    if {old.canonical_calendar, new.canonical_calendar} != _GREGORIAN:
        return None
    moved = _shift([0], Clock(_SHARED_DATE, old.calendar), old)
    back = _shift([0], Clock(_SHARED_DATE, new.calendar), new)
    if moved is None or back is None or moved[0] is None or back[0] is None:
        return None
    since = [None if each is None else each - moved[0] for each in ticks]
    if any(each is not None and each < 0 for each in since):
        return None
    return [None if each is None else each + back[0] for each in since]


def _encode(ticks: Ticks, wanted: ArrayHeader, clock: Clock) -> NDArray[Any] | None:
    """Encode times as numbers of an array; return None if its type can't hold them exactly."""
    measured = _measure(clock, False)
    if measured is None:
        return None
    step, dtype = measured[1], np.dtype(wanted.metadata["data_type"])
    is_missing = np.array([each is None for each in ticks], bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype.name)
        numbers = [0 if each is None else each // step for each in ticks]
        if any(each is not None and each % step for each in ticks) or not all(
            limits.min <= each <= limits.max for each in numbers
        ):
            return None
        found = np.array(numbers, dtype)
    else:
        found = np.array([0.0 if each is None else each / step for each in ticks]).astype(dtype)
    if is_missing.any():
        blanks = [n for name in _MISSING for n in read_missing(wanted, name)]
        blanks += [np.nan] if dtype.kind == "f" else []
        if not blanks:
            return None
        found[is_missing] = blanks[0]
    # Decoding again reveals rounded numbers, and numbers that equal a missing value.
    return found if _ticks(replace(wanted, values=found), clock) == ticks else None


def _describe(array: ArrayHeader, wanted: ArrayHeader, values: NDArray[Any] | None) -> ArrayHeader:
    """Return the header of an array with values converted to the units and type of another."""
    assert array.values is not None
    assert values is not None
    attributes = {
        name: each for name, each in array.attributes.items() if name not in (*_CLOCK, *_MISSING)
    }
    attributes |= {n: e for n, e in wanted.attributes.items() if n in (*_CLOCK, *_MISSING)}
    kept = {name: wanted.metadata[name] for name in _STORED if name in wanted.metadata}
    return replace(
        array,
        metadata={**array.metadata, **kept, "attributes": attributes},
        values=values.reshape(array.values.shape),
    )


def _retype(array: ArrayHeader, clock: Clock, dtype: np.dtype[Any]) -> ArrayHeader:
    """Return the header of an array with other units and another type."""
    attributes, metadata = dict(array.attributes), dict(array.metadata)
    if "units" in attributes:
        attributes["units"] = clock.units
    if dtype.name != metadata["data_type"]:
        metadata["data_type"] = dtype.name
        metadata["fill_value"] = _retype_fill(metadata.get("fill_value"), dtype)
        metadata["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        for name in _MISSING:
            if name in attributes:
                attributes[name] = _retype_missing(array, name, dtype)
        attributes = {name: each for name, each in attributes.items() if each is not None}
    return replace(array, metadata={**metadata, "attributes": attributes})


def _retype_missing(array: ArrayHeader, name: str, dtype: np.dtype[Any]) -> Any:
    """Convert a missing-value attribute to another type; return None if that has no such value."""
    given, found = array.attributes[name], read_missing(array, name)
    if dtype.kind == "f":
        is_packed = name == "_FillValue" and len(found) == 1
        return (
            base64.standard_b64encode(struct.pack("<d", found[0])).decode() if is_packed else given
        )
    limits = np.iinfo(dtype)
    kept = [
        int(n) for n in found if np.isfinite(n) and n == int(n) and limits.min <= n <= limits.max
    ]
    if len(kept) != 1:
        return kept or None
    return kept[0]


def _retype_fill(fill: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a fill value to another type, as JSON."""
    if dtype.kind == "f":
        if fill in _UNWRITTEN.values():
            return "NaN"
        return float(fill) if isinstance(fill, int | float) else fill
    limits = np.iinfo(dtype)
    is_whole = isinstance(fill, int | float) and fill % 1 == 0
    return int(fill) if is_whole and limits.min <= fill <= limits.max else 0


def find_missing(array: ArrayHeader, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers are no values: not finite, marked as missing, or times never written."""
    missing = np.zeros(values.shape, bool)
    if values.dtype.kind not in "iuf":
        return missing
    if values.dtype.kind == "f":
        missing |= ~np.isfinite(values)
    blanks = [each for name in _MISSING for each in read_missing(array, name)]
    if is_time(array.attributes):
        blanks += [_UNWRITTEN[k] for k in (values.dtype.str[1:],) if k in _UNWRITTEN]
    for each in blanks:
        with np.errstate(over="ignore"):
            missing |= values == values.dtype.type(each)
    return missing


def read_missing(array: ArrayHeader, name: str) -> list[int | float]:
    """Return the numbers that mark missing values; Xarray encodes those of floats in base64."""
    if name not in array.attributes:
        return []
    given = array.attributes[name]
    found: list[int | float] = []
    for each in given if isinstance(given, list) else [given]:
        if isinstance(each, str):
            try:
                (number,) = struct.unpack("<d", base64.standard_b64decode(each))
            except (ValueError, struct.error):
                continue
            found.append(number)
        elif isinstance(each, int | float):
            found.append(each)
    return found


# Units and reference dates


def _starts(one: Clock, other: Clock) -> tuple[Any, Any] | None:
    """Return the reference dates of two units, as one type."""
    for use_cftime in (False, True):
        found = [_measure(each, use_cftime) for each in (one, other)]
        if found[0] is None or found[1] is None:
            continue
        first, second = found[0][0], found[1][0]
        if isinstance(first, np.datetime64) == isinstance(second, np.datetime64):
            return first, second
    return None


@lru_cache(maxsize=4096)
def _measure(clock: Clock, use_cftime: bool) -> tuple[Any, int] | None:
    """Return reference date and step in nanoseconds, or None if Xarray can't decode the units."""
    decoded = _decode(np.array([0, 1]), clock, use_cftime)
    if decoded is None:
        return None
    (_, step) = _differences(decoded, decoded[0])
    return decoded[0], step


def _decode(values: NDArray[Any], clock: Clock, use_cftime: bool) -> NDArray[Any] | None:
    # Decoding times needs xarray, and only if files have different units.
    import xarray  # noqa: PLC0415

    attributes = {"units": clock.units}
    if clock.calendar is not None:
        attributes["calendar"] = clock.calendar
    coder = xarray.coders.CFDatetimeCoder(use_cftime=use_cftime or None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(coder.decode(xarray.Variable(("t",), values, attributes)).data)
        except (ValueError, TypeError, OverflowError, ImportError):
            return None


def _differences(moments: NDArray[Any], start: Any) -> list[int]:
    """Return nanoseconds since a start."""
    if moments.dtype.kind == "M":
        found: list[int] = (
            moments.astype("M8[ns]").astype(np.int64) - start.astype("M8[ns]").astype(np.int64)
        ).tolist()
        return found
    return [_nanoseconds(each - start) for each in moments.tolist()]


def _nanoseconds(delta: Any) -> int:
    seconds = int(delta.days) * 86_400 + int(delta.seconds)
    return (seconds * 1_000_000 + int(delta.microseconds)) * 1_000
