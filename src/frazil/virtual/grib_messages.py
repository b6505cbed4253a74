"""GRIB messages: find them by index or by scan, describe their headers, and decode their values."""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError

ReadRanges = Callable[[Sequence[int], Sequence[int]], list[bytes]]
"""Function that returns ranges of a file, from their starts to their ends."""

_END = b"7777"
_WINDOW_BYTES = 8 << 10
"""Bytes read at the start of a message; the sections before its values fit in it."""
_HEADER_BYTES = 2 << 10
"""Bytes read of each of many messages."""
_SEARCH_BYTES = 64 << 10
"""Bytes read at a time where something else than a message is in the file."""


# Bits per value by data representation template: simple, complex, complex with spatial differences,
# JPEG 2000, PNG, CCSDS.
_READABLE_BITS: Mapping[int | None, Container[int]] = {
    0: range(33), 2: range(33), 3: range(33), 40: range(25), 41: (8, 16), 42: (0, *range(8, 25)),
}  # fmt: skip


class DamagedError(ValueError):
    """Bytes that are no valid GRIB; the message gives the offset."""


def load_eccodes() -> Any:
    """Return the module `eccodes`; raise InvalidInputError if it can't be imported."""
    try:
        return import_module("eccodes")
    except (ImportError, RuntimeError) as error:  # RuntimeError: its shared library is missing
        raise InvalidInputError(
            f"GRIB files are read with eccodes, which can't be imported ({error}): "
            "pip install 'frazil[grib]'"
        ) from error


class Window:
    """Range reads that keep the last window, for headers that lie close together."""

    def __init__(self, read_ranges: ReadRanges, size_bytes: int, head: bytes = b"") -> None:
        self._read_ranges = read_ranges
        self.size_bytes = size_bytes
        self._start, self._data = 0, head
        self._fetched: dict[int, bytes] = {}

    def fetch(self, starts: Iterable[int]) -> None:
        """Read the headers of many messages at once, to be read one by one."""
        known = self._start, self._start + len(self._data) - _HEADER_BYTES
        wanted = []
        for each in starts:
            if known[0] <= each <= known[1]:
                self._fetched[each] = self._data[each - known[0] :]
            elif each not in self._fetched:
                wanted.append(each)
        ends = [min(each + _HEADER_BYTES, self.size_bytes) for each in wanted]
        data = self._read_ranges(wanted, ends) if wanted else []
        self._fetched.update(zip(wanted, data, strict=True))

    def choose(self, start: int) -> None:
        """Continue with the header at an offset, if it was fetched."""
        if start in self._fetched:
            self._start, self._data = start, self._fetched[start]

    def read(self, start: int, length: int, ahead: int = _WINDOW_BYTES) -> bytes:
        """Return some bytes, fewer at the end of the file."""
        end = min(start + length, self.size_bytes)
        if start >= end:
            return b""
        if not self._start <= start <= end <= self._start + len(self._data):
            stop = min(max(end, start + ahead), self.size_bytes)
            self._start, self._data = start, self._read_ranges([start], [stop])[0]
        at = start - self._start
        return self._data[at : at + end - start]


@dataclass(frozen=True, slots=True)
class FieldHeader:
    """Sections of one field of a message, without its values."""

    offset: int
    length: int
    """Byte range of the whole message."""
    number: int
    """Index of the field in the message; most messages have one field."""
    edition: int
    discipline: int
    sections: Mapping[int, bytes]
    """Sections 1 to 5 by number: all of GRIB2, 1 (product) and 2 (grid) of GRIB1."""

    @property
    def grid_section(self) -> bytes:
        """Return the grid definition."""
        return self.sections.get(3 if self.edition == 2 else 2, b"")

    @property
    def packing(self) -> int | None:
        """Return the number of the data representation template of GRIB2."""
        return int.from_bytes(self.sections[5][9:11]) if self.edition == 2 else None

    @property
    def is_readable(self) -> bool:
        """Return whether gribberish decodes the values as eccodes does, up to their last bit.

        It was found to differ in GRIB1, in CCSDS with few and with many bits, and it is not known
        to read the missing values of complex packing.
        """
        bits = _READABLE_BITS.get(self.packing if self.edition == 2 else None, ())
        section = self.sections.get(5, b"")
        is_marked = self.packing in (2, 3) and section[22] != 0
        return len(section) > 19 and section[19] in bits and not is_marked

    @property
    def time(self) -> datetime:
        """Return the reference time."""
        first = self.sections[1]
        try:
            if self.edition == 2:
                moment = datetime(int.from_bytes(first[12:14]), *first[14:19])
            else:
                # In GRIB1, the year 100 ends a century.
                moment = datetime((first[24] - 1) * 100 + first[12], *first[13:17])
        except ValueError as error:
            raise DamagedError(f"its reference time is invalid at byte {self.offset}") from error
        return moment.replace(tzinfo=UTC)


def read_message(window: Window, offset: int, most: int | None = None) -> list[FieldHeader]:
    """Return the fields of a message, `most` if there are more; raise DamagedError if it has none."""
    start = window.read(offset, 16)
    if not _is_start(start):
        raise DamagedError(f"there is no GRIB message at byte {offset}")
    if len(start) < 16:
        raise DamagedError(f"it is truncated in the message at byte {offset}")
    edition = start[7]
    length = int.from_bytes(start[8:16]) if edition == 2 else _measure_grib1(window, offset, start)
    if offset + length > window.size_bytes:
        raise DamagedError(
            f"it is truncated: its message at byte {offset} has {length} bytes, "
            f"and the file ends after {window.size_bytes - offset} of them"
        )
    if edition == 1:
        found = [_read_grib1(window, offset, length)]
    else:
        found = list(islice(_read_grib2(window, offset, length, start[6]), most))
    if not found:
        raise DamagedError(f"its message at byte {offset} has no values")
    return found


def _is_start(head: bytes) -> bool:
    return len(head) >= 8 and head[:4] == b"GRIB" and head[7] in (1, 2)


def _read_grib2(window: Window, offset: int, length: int, discipline: int) -> Iterator[FieldHeader]:
    sections: dict[int, bytes] = {}
    place, end, number, before = offset + 16, offset + length - len(_END), 0, 0
    while place < end:
        head = window.read(place, 5)
        size, section = int.from_bytes(head[:4]), head[-1]
        if size < 5 or place + size > end or (section == 7) != (before == 6) or section > 7:
            raise DamagedError(f"its message at byte {offset} has an invalid section at {place}")
        if section == 6:
            if not {1, 3, 4, 5} <= sections.keys() or len(sections[5]) < 11:
                raise DamagedError(f"its message at byte {offset} lacks a section")
            yield FieldHeader(offset, length, number, 2, discipline, dict(sections))
            number += 1
        elif section != 7:
            sections[section] = window.read(place, size)
        place, before = place + size, section


def _measure_grib1(window: Window, offset: int, start: bytes) -> int:
    length = int.from_bytes(start[4:7])
    if not length & 0x800000:
        return length
    # Messages past 8 MiB count in units of 120 bytes, and the section of values has the rest.
    place = _find_values(window, offset)
    rest = int.from_bytes(window.read(place, 3))
    return (length & 0x7FFFFF) * 120 - (rest - 4 if rest < 120 else 0)


def _find_values(window: Window, offset: int) -> int:
    """Return the offset of section 4 of GRIB1."""
    place = offset + 8
    size = int.from_bytes(window.read(place, 3))
    flags = window.read(place + 7, 1)
    for flag in (0x80, 0x40):
        place += size
        size = int.from_bytes(window.read(place, 3)) if flags and flags[0] & flag else 0
    return place + size


def _read_grib1(window: Window, offset: int, length: int) -> FieldHeader:
    place = offset + 8
    product = window.read(place, int.from_bytes(window.read(place, 3)))
    if len(product) < 28:
        raise DamagedError(f"its message at byte {offset} has an invalid section at {place}")
    place += len(product)
    grid = b""
    if product[7] & 0x80:
        grid = window.read(place, int.from_bytes(window.read(place, 3)))
    return FieldHeader(offset, length, 0, 1, 0, {1: product, 2: grid})


def scan(window: Window) -> list[FieldHeader]:
    """Return all fields of a file, by hops from message to message; skip bytes between them."""
    found: list[FieldHeader] = []
    place = 0
    while (start := _find_start(window, place)) is not None:
        fields = read_message(window, start)
        place = start + fields[0].length
        if window.read(place - len(_END), len(_END)) != _END:
            raise DamagedError(f"its message at byte {start} does not end with {_END!r}")
        found += fields
    if not found:
        raise DamagedError("it has no GRIB message")
    return found


def _find_start(window: Window, place: int) -> int | None:
    while place < window.size_bytes:
        if _is_start(window.read(place, 8)):
            return place
        data = window.read(place, _SEARCH_BYTES, ahead=_SEARCH_BYTES)
        at = data.find(b"GRIB", 1)
        # A marker may begin in the last bytes of the block.
        place += at if at > 0 else max(len(data) - 3, 1)
    return None


def assemble(header: FieldHeader) -> bytes:
    """Return a message with the metadata of a field, and constant values of zero."""
    sections = header.sections
    if header.edition == 1:
        product = bytearray(sections[1])
        product[7] &= 0xBF  # no bitmap
        values = (12).to_bytes(3) + bytes(9)
        body = bytes(product) + sections[2] + values + _END
        return b"GRIB" + (8 + len(body)).to_bytes(3) + b"\1" + body
    constant = (21).to_bytes(4) + b"\5" + sections[5][5:9] + bytes(12)
    kept = [sections[1], sections.get(2, b""), sections[3], sections[4]]
    body = b"".join((*kept, constant, (6).to_bytes(4), b"\6\xff", (5).to_bytes(4), b"\7", _END))
    start = b"GRIB\0\0" + bytes((header.discipline, 2)) + (16 + len(body)).to_bytes(8)
    return start + body


class Parameter(NamedTuple):
    """Parameter of a field, as eccodes names it."""

    name: str
    """`cfVarName`, else `shortName`, else the numbers of the parameter."""
    short_name: str
    id: int
    long_name: str
    standard_name: str
    units: str


@dataclass(frozen=True, slots=True)
class Product:
    """Metadata of a field apart from its grid and its reference time."""

    parameter: Parameter
    level_type: str
    level: float | None
    """None where the type of level has no value."""
    layer: tuple[float, float] | None
    step_type: str
    start: int
    end: int
    """Begin and end of the step, in seconds since the reference time."""
    member: int | None
    kind: str
    """Suffix of derived forecasts and probabilities; empty for others."""
    extra: tuple[tuple[str, int], ...] = ()
    """Further dimensions: percentile, wave direction and frequency."""


def describe(header: FieldHeader) -> Product:
    """Return the metadata of a field; raise DamagedError if eccodes can't read it."""
    if header.edition == 1:
        dated = _change(_change(header, 1, 12, b"\x64\1\1\0\0"), 1, 24, b"\x14")
        return _describe(assemble(dated))
    template = int.from_bytes(header.sections[4][7:9])
    if template >= 8:
        return _describe(assemble(header))  # it has the end of an interval as a date
    plain = _change(header, 1, 12, b"\x07\xd0\1\1\0\0\0")
    product = header.sections[4]
    said: dict[str, Any] = {}
    if template == 1:
        plain = _change(plain, 4, 35, b"\0")
        said["member"] = product[35]
    step = int.from_bytes(product[18:22])
    # The files of a forecast differ in their steps alone.
    if product[17:18] in _STEP_SECONDS and step < _NEGATIVE:
        plain = _change(plain, 4, 18, bytes(4))
        said["start"] = said["end"] = step * _STEP_SECONDS[product[17:18]]
    return replace(_describe(assemble(plain)), **said)


_STEP_SECONDS = {
    b"\x00": 60, b"\x01": 3600, b"\x02": 86400, b"\x0a": 3 * 3600, b"\x0b": 6 * 3600,
    b"\x0c": 12 * 3600, b"\x0d": 1,
}  # fmt: skip
"""Units of steps that have a fixed length (code table 4.4)."""
_NEGATIVE = 1 << 31


def _change(header: FieldHeader, section: int, at: int, data: bytes) -> FieldHeader:
    """Return a header with some bytes changed, so that products that differ there are one."""
    old = header.sections[section]
    if len(old) < at + len(data):
        raise DamagedError(f"its message at byte {header.offset} has a short section {section}")
    changed = old[:at] + data + old[at + len(data) :]
    return replace(header, sections={**header.sections, section: changed})


class _Keys:
    """Keys of a message; None for keys it does not have."""

    def __init__(self, eccodes: Any, handle: Any) -> None:
        self._eccodes, self._handle = eccodes, handle

    def get(self, key: str, kind: type = str) -> Any:
        try:
            return self._eccodes.codes_get(self._handle, key, kind)
        except self._eccodes.CodesInternalError:
            return None


@lru_cache(maxsize=8192)
def _describe(message: bytes) -> Product:
    eccodes = load_eccodes()
    try:
        handle = eccodes.codes_new_from_message(message)
    except eccodes.CodesInternalError as error:
        raise DamagedError(f"eccodes can't read the header of a message: {error}") from error
    try:
        keys = _Keys(eccodes, handle)
        level_type, level, layer = _describe_level(keys)
        step_type = keys.get("stepType") or "instant"
        eccodes.codes_set(handle, "stepUnits", "s")
        end = int(keys.get("endStep", int) or 0)
        start = int(keys.get("startStep", int) or 0)
        return Product(
            _describe_parameter(keys), level_type, level, layer, step_type,
            start, end, _find_member(keys), _find_kind(keys),
            tuple(
                (name, found)
                for key, name in _EXTRA_DIMS.items()
                if (found := keys.get(key, int)) is not None
            ),
        )  # fmt: skip
    except eccodes.CodesInternalError as error:
        raise DamagedError(f"eccodes can't read the header of a message: {error}") from error
    finally:
        eccodes.codes_release(handle)


_EXTRA_DIMS = {
    "percentileValue": "percentile",
    "directionNumber": "direction",
    "frequencyNumber": "frequency",
}
_UNKNOWN = (None, "", "unknown", "~")


def _describe_parameter(keys: _Keys) -> Parameter:
    short = keys.get("shortName")
    name = keys.get("cfVarName")
    if short in _UNKNOWN:
        numbers = (
            ("discipline", "parameterCategory", "parameterNumber", "constituentType")
            if keys.get("edition") == "2"
            else ("table2Version", "indicatorOfParameter")
        )
        found = [keys.get(each, int) for each in numbers]
        short = "_".join(["param", *(str(each) for each in found if each is not None)])
    texts = [keys.get(each) for each in ("name", "cfName", "units")]
    plain = ["" if each in _UNKNOWN else each for each in texts]
    chosen = short if name in _UNKNOWN else name
    return Parameter(chosen, short, int(keys.get("paramId", int) or 0), *plain)


# Types of level whose values tell nothing (code table 4.5 of GRIB2, table 3 of GRIB1).
_WITHOUT_VALUE = frozenset((*range(1, 13), *range(14, 20)))
_FIRST_LOCAL = 200
_DECIMALS = 9
"""Eccodes multiplies levels by a power of ten, which is seldom exact."""
_ENSEMBLE_STREAMS = frozenset(
    (
        "enfo", "enda", "elda", "efov", "efhs", "enfh", "ewda", "mmaf", "mmsf", "mofc", "msmm", "swmm",
        "waef", "wamf", "wmfm",
    )
)  # fmt: skip


def _describe_level(keys: _Keys) -> tuple[str, float | None, tuple[float, float] | None]:
    """Return type and value of a level; pressure is in hPa, a layer has its middle."""
    is_second = keys.get("edition") == "2"
    code = keys.get("typeOfFirstFixedSurface" if is_second else "indicatorOfTypeOfLevel", int) or 0
    name = keys.get("typeOfLevel")
    name = f"level{code}" if name in _UNKNOWN else name
    value = keys.get("level", float)
    if value is None or code in _WITHOUT_VALUE or code == (101 if is_second else 102):
        return name, None, None
    if code >= _FIRST_LOCAL and value == 0:
        return name, None, None
    if name == "isobaricInPa":
        return "isobaricInhPa", round(value / 100, _DECIMALS), None
    top, bottom = keys.get("topLevel", float), keys.get("bottomLevel", float)
    if name.endswith("Layer") and top is not None and bottom is not None:
        layer = round(top, _DECIMALS), round(bottom, _DECIMALS)
        return name, round((top + bottom) / 2, _DECIMALS), layer
    return name, round(value, _DECIMALS), None


def _find_member(keys: _Keys) -> int | None:
    if keys.get("edition") == "2":
        found = keys.get("perturbationNumber", int)
        return None if found is None else int(found)
    number = keys.get("number", int)
    if number is None:
        return None
    # ECMWF's local section has a number in all messages.
    is_member = (
        number > 0
        or (keys.get("totalNumber", int) or 0) > 0
        or keys.get("dataType") in ("cf", "pf")
        or keys.get("stream") in _ENSEMBLE_STREAMS
    )
    return int(number) if is_member else None


_DERIVED = {
    0: "mean", 1: "weighted_mean", 2: "std", 3: "normalized_std", 4: "spread", 5: "large_anomaly",
    6: "cluster_mean", 7: "interquartile", 8: "min", 9: "max",
}  # fmt: skip


def _find_kind(keys: _Keys) -> str:
    derived = keys.get("derivedForecast", int)
    if derived is not None:
        return f"ensemble_{_DERIVED.get(derived, derived)}"
    kind = keys.get("probabilityType", int)
    if kind is None:
        return ""
    limits = []
    for which in ("Lower", "Upper"):
        scaled = keys.get(f"scaledValueOf{which}Limit", int)
        factor = keys.get(f"scaleFactorOf{which}Limit", int)
        is_missing = scaled is None or factor is None or abs(scaled) >= 2**31 - 1 or factor == 255
        limits.append("" if is_missing else f"{scaled * 10.0**-factor:g}")
    return "_".join(["probability", str(kind), *(each for each in limits if each)])


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Grid of a field: dimensions in the order of the values, and coordinates in degrees."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    latitude: NDArray[np.float64] | None
    longitude: NDArray[np.float64] | None
    """One axis each on regular grids, all axes on others; None if there are no points."""
    kind: str
    alternates: bool
    """True if every second row runs backwards."""

    @property
    def is_regular(self) -> bool:
        """Return whether the coordinates are those of dimensions."""
        return self.kind in _REGULAR and len(self.dims) == 2 and self.latitude is not None

    @property
    def size(self) -> int:
        """Return the number of points."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class GridKey:
    """Grid definition, and a message that has it."""

    edition: int
    section: bytes
    message: bytes = field(compare=False)

    @classmethod
    def of(cls, header: FieldHeader) -> "GridKey":
        """Return the key of a field's grid."""
        return cls(header.edition, header.grid_section, assemble(header))


_REGULAR = ("regular_ll", "regular_gg")


@lru_cache(maxsize=16)
def read_grid(key: GridKey) -> Grid:
    """Return a grid; raise DamagedError if eccodes can't read it."""
    eccodes = load_eccodes()
    handle = eccodes.codes_new_from_message(key.message)
    try:
        keys = _Keys(eccodes, handle)
        kind = keys.get("gridType") or "unknown"
        rows, columns = keys.get("Nj", int), keys.get("Ni", int)
        points = keys.get("numberOfDataPoints", int)
        if kind == "sh":
            order = keys.get("J", int)
            return Grid(("values",), ((order + 1) * (order + 2),), None, None, kind, False)
        try:
            latitudes = eccodes.codes_get_array(handle, "latitudes")
            longitudes = eccodes.codes_get_array(handle, "longitudes")
        except eccodes.CodesInternalError:
            latitudes = longitudes = None
        if points is None or not points:
            raise DamagedError("eccodes can't read the grid of a message")
        if rows is None or columns is None or rows * columns != points:
            return Grid(("values",), (points,), latitudes, longitudes, kind, False)
        alternates = bool(keys.get("alternativeRowScanning", int))
        names, shape = ("y", "x"), (rows, columns)
        if kind in _REGULAR and latitudes is not None and longitudes is not None:
            names = ("latitude", "longitude")
        if keys.get("jPointsAreConsecutive", int):
            names, shape = names[::-1], shape[::-1]
        grid = Grid(names, shape, latitudes, longitudes, kind, alternates)
        return _shape_coordinates(grid)
    except eccodes.CodesInternalError as error:
        raise DamagedError(f"eccodes can't read the grid of a message: {error}") from error
    finally:
        eccodes.codes_release(handle)


def _shape_coordinates(grid: Grid) -> Grid:
    if grid.latitude is None or grid.longitude is None:
        return grid
    # Eccodes gives the points in rows of one direction, even where the values alternate.
    latitude = grid.latitude.reshape(grid.shape)
    longitude = grid.longitude.reshape(grid.shape)
    if grid.is_regular:
        rows, columns = (slice(None), 0), (0, slice(None))
        is_rows_first = grid.dims[0] == "latitude"
        latitude = latitude[rows if is_rows_first else columns]
        longitude = longitude[columns if is_rows_first else rows]
    return replace(grid, latitude=latitude.copy(), longitude=longitude.copy())


def arrange(values: NDArray[Any], grid: Grid) -> NDArray[Any]:
    """Return values of a message in the shape of its grid, all rows in the same direction."""
    shaped = values.reshape(grid.shape)
    if grid.alternates:
        shaped = shaped.copy()
        shaped[1::2] = shaped[1::2, ::-1]
    return shaped


_MISSING = -1.0e300


def decode(message: bytes, number: int = 0) -> NDArray[np.float64]:
    """Return the values of a field of a message with eccodes; NaN where they are missing."""
    eccodes = load_eccodes()
    try:
        handle = eccodes.codes_new_from_message(_take_field(message, number))
        try:
            eccodes.codes_set(handle, "missingValue", _MISSING)
            values: NDArray[np.float64] = eccodes.codes_get_values(handle)
        finally:
            eccodes.codes_release(handle)
    except eccodes.CodesInternalError as error:
        raise DamagedError(f"eccodes can't decode a message: {error}") from error
    return np.where(values == _MISSING, np.nan, values)


def _take_field(message: bytes, number: int) -> bytes:
    """Return a message with one field of a message that may have several."""
    if message[7] == 1:
        return message
    sections: dict[int, bytes] = {}
    bitmap, place, fields = b"", 16, 0
    end = int.from_bytes(message[8:16]) - len(_END)
    while place < end:
        size = int.from_bytes(message[place : place + 4])
        if size < 5:
            raise DamagedError(f"it has an invalid section at byte {place} of a message")
        section = message[place : place + size]
        if section[4] == 6:
            bitmap = bitmap if section[5] == 254 and bitmap else section
        elif section[4] == 7:
            if fields == number:
                if number == 0 and place + size == end:
                    return message
                kept = b"".join(sections[each] for each in sorted(sections))
                body = kept + bitmap + section + _END
                return message[:8] + (16 + len(body)).to_bytes(8) + body
            fields += 1
        else:
            sections[section[4]] = section
        place += size
    raise DamagedError(f"a message has no field {number}")


@dataclass(frozen=True, slots=True)
class Field:
    """Field of a file: its message, metadata and grid."""

    header: FieldHeader
    product: Product
    time: datetime

    @classmethod
    def of(cls, header: FieldHeader) -> "Field":
        """Describe a field with eccodes."""
        return cls(header, describe(header), header.time)


def seconds_of(moment: datetime) -> int:
    """Return a time in seconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


class StaleIndexError(ValueError):
    """Index that does not fit to the messages of its file."""


class Cell(NamedTuple):
    """Place of a field as its line of an index says it; None for what it does not say."""

    time: datetime
    start: int | None
    end: int
    level: float | None
    member: int | None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Line of an index: the byte range of a message, and its place."""

    offset: int
    length: int
    number: int
    """Index of the field in its message."""
    kind: tuple[str, ...]
    """Whatever else the line says: fields of one kind differ only in their place."""
    cell: Cell | None
    """None if the line can't be interpreted."""


def parse_index(text: str, size_bytes: int) -> list[IndexEntry]:
    """Return the entries of a NOAA `.idx` or ECMWF `.index`; raise StaleIndexError if invalid."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        if lines and lines[0].startswith("{"):
            entries = [_parse_ecmwf(json.loads(line)) for line in lines]
        else:
            entries = _parse_noaa(lines, size_bytes)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StaleIndexError(f"its line can't be parsed: {error}") from error
    if not entries or any(
        each.length <= 0 or each.offset + each.length > size_bytes for each in entries
    ):
        raise StaleIndexError("it leads past the end of the file")
    return entries


# Only on these levels, the name of a parameter never depends on the value of its level.
_LEVEL = re.compile(r"(\d+)( mb| hybrid level)")
_LEVEL_TYPES = ("pl", "ml")
_STEP = re.compile(r"(?:(\d+)-)?(\d+) (sec|min|hour|day)\b(.*)")
_SECONDS = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}
_MEMBER = re.compile(r"ENS=([+-])(\d+)")


@lru_cache(maxsize=256)
def _parse_time(digits: str) -> datetime:
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _parse_noaa(lines: Sequence[str], size_bytes: int) -> list[IndexEntry]:
    parts = [line.split(":") for line in lines]
    offsets = [int(each[1]) for each in parts]
    starts = sorted(set(offsets))
    ends = dict(zip(starts, [*starts[1:], size_bytes], strict=True))
    fields: dict[int, int] = {}
    entries = []
    for offset, words in zip(offsets, parts, strict=True):
        number = fields[offset] = fields.get(offset, -1) + 1
        kind, cell = place_noaa(words[2:])
        entries.append(IndexEntry(offset, ends[offset] - offset, number, kind, cell))
    return entries


def place_noaa(words: Sequence[str]) -> tuple[tuple[str, ...], Cell | None]:
    """Return kind and place of a field from the words of its line, after its offset."""
    date, name, level, step, *others = words
    time, interval = parse_date(date), parse_step(step)
    if time is None or interval is None:
        return tuple(words), None
    start, end, tail = interval
    value, layer = parse_level(level)
    member, rest = parse_others(tuple(others))
    return (name, layer, *tail, *rest), Cell(time, start, end, value, member)


def parse_date(date: str) -> datetime | None:
    """Return the reference time, or None if the word is no date."""
    digits = date.removeprefix("d=").ljust(14, "0")
    return _parse_time(digits) if len(digits) == 14 and digits.isdigit() else None


def parse_step(step: str) -> tuple[int, int, tuple[str, ...]] | None:
    """Return begin and end of an interval, and what else its words say."""
    if step == "anl":
        return 0, 0, ("anl",)
    matched = _STEP.fullmatch(step)
    if matched is None:
        return None
    unit = _SECONDS[matched[3]]
    end = int(matched[2]) * unit
    start = int(matched[1]) * unit if matched[1] else end
    # The name of a parameter may depend on the length of its interval.
    return start, end, (str(end - start), matched[4])


def parse_level(level: str) -> tuple[float | None, str]:
    """Return the value of a level, None if its words are a name, and the rest of its words."""
    matched = _LEVEL.fullmatch(level)
    return (float(matched[1]), matched[2]) if matched else (None, level)


def parse_others(others: tuple[str, ...]) -> tuple[int | None, tuple[str, ...]]:
    """Return the member, None if no word says it, and the words without it."""
    member = next((found for each in others if (found := _MEMBER.fullmatch(each))), None)
    return int(member[2]) if member else None, tuple(
        _MEMBER.sub(r"ENS=\1", each) for each in others
    )


_PLACES = ("_offset", "_length", "date", "time", "step", "number", "levelist")


def _parse_ecmwf(line: Mapping[str, Any]) -> IndexEntry:
    is_level = line.get("levtype") in _LEVEL_TYPES and "levelist" in line
    places = _PLACES if is_level else _PLACES[:-1]
    kind = tuple(f"{key}={line[key]}" for key in sorted(line) if key not in places)
    offset, length = int(line["_offset"]), int(line["_length"])
    try:
        start, dash, end = str(line["step"]).rpartition("-")
        cell = Cell(
            _parse_time(f"{line['date']}{int(line['time']):04d}00"),
            int(start) * 3600 if dash else None,
            int(end) * 3600,
            float(line["levelist"]) if is_level else None,
            int(line["number"]) if "number" in line else None,
        )
    except (KeyError, ValueError):
        return IndexEntry(offset, length, 0, kind, None)
    interval = str(int(end) - int(start)) if dash else ""
    return IndexEntry(offset, length, 0, (*kind, interval), cell)
