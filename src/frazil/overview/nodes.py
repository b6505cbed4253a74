"""Groups and arrays of a version: Zarr metadata, axes with units and directions, decoded numbers."""

import base64
import binascii
import json
import re
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.metadata import validate_path
from frazil.format.snapshot import Node
from frazil.repository.session import Session


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """Group or array in a listing."""

    path: str
    kind: str
    """`group` or `array`."""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    dims: tuple[str | None, ...] = ()


def list_nodes(session: Session, path: str = "/") -> list[NodeEntry]:
    """List a node and its descendants, sorted by path.

    Parameters
    ----------
    session
        Session at the version to list.
    path
        Path of the topmost node.

    Returns
    -------
    list of NodeEntry
        Empty for the root of a repository without commits.

    Raises
    ------
    NodeNotFoundError
        If there is no node at the path.
    """
    root = normalize(path)
    if root != "/":
        session.state.view.get_node(root)
    return [_describe(node) for node in session.state.view.descendants(root)]


def normalize(path: str) -> str:
    """Normalize a path given with or without slashes around it."""
    return validate_path("/" + path.strip("/"))


def read_metadata(node: Node) -> Mapping[str, Any]:
    """Return the Zarr metadata of a node, as stored."""
    metadata: dict[str, Any] = json.loads(bytes(node.user_data) or b"{}")
    return metadata


def _describe(node: Node) -> NodeEntry:
    if node.array is None:
        return NodeEntry(node.path, "group")
    data_type = read_metadata(node).get("data_type")
    return NodeEntry(
        node.path,
        "array",
        tuple(each.array_length for each in node.array.shape),
        spell_data_type(data_type),
        tuple(node.array.dimension_names or ()),
    )


def spell_data_type(data_type: object) -> str:
    """Return the name of a Zarr data type, with the parameters of types that have some."""
    if not isinstance(data_type, Mapping):
        return str(data_type)
    name = str(data_type.get("name")).removeprefix("numpy.")
    given = data_type.get("configuration")
    known = given if isinstance(given, Mapping) else {}
    if "unit" in known:
        scale = known.get("scale_factor", 1)
        return f"{name}[{'' if scale == 1 else scale}{known['unit']}]"
    if "length_bytes" in known:
        return f"{name}[{known['length_bytes']} bytes]"
    return name if not known or "fields" in known else json.dumps(data_type)


def read_attributes(node: Node) -> Mapping[str, Any]:
    """Return the attributes of a node."""
    found = read_metadata(node).get("attributes")
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of an array, with the coordinate of its dimension."""

    number: int
    name: str
    """Name of the dimension; `axis 0` and so on without one."""
    length: int
    kind: str = "other"
    """`time`, `latitude`, `longitude`, `north`, `east` (of a projection) or `other`."""
    units: str | None = None
    coordinate: str | None = None
    """Path of the coordinate, a one-dimensional array named like the dimension."""

    @property
    def points_north(self) -> bool:
        """Return True if the coordinate increases towards north."""
        return self.kind in ("latitude", "north")

    @property
    def points_east(self) -> bool:
        """Return True if the coordinate increases towards east."""
        return self.kind in ("longitude", "east")


def find_axes(session: Session, node: Node) -> tuple[Axis, ...]:
    """Return the axes of an array, from metadata alone."""
    assert node.array is not None
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    lengths = [each.array_length for each in node.array.shape]
    return tuple(
        _describe_axis(session, node, number, name, length)
        for number, (name, length) in enumerate(zip(names, lengths, strict=True))
    )


def _describe_axis(
    session: Session, node: Node, number: int, name: str | None, length: int
) -> Axis:
    if not name:
        return Axis(number, f"axis {number}", length)
    found = find_variable(session, node, name)
    if found is None or found.array is None:
        return Axis(number, name, length)
    attributes = read_attributes(found)
    units = attributes.get("units")
    is_own = (found.array.dimension_names or ()) == (name,) and _length(found) == length
    return Axis(
        number,
        name,
        length,
        find_kind(name, attributes) or "other",
        units if isinstance(units, str) and units else None,
        found.path if is_own else None,
    )


def _length(node: Node) -> int:
    assert node.array is not None
    return node.array.shape[0].array_length


def choose_axes(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return the two axes of a map, rows first: north and east if known, else the last two."""
    rows = next((each for each in reversed(axes) if each.points_north), None)
    columns = next((each for each in reversed(axes) if each.points_east), None)
    if rows is not None and columns is not None:
        return rows, columns
    return axes[-2:]


def find_variable(session: Session, node: Node, name: str) -> Node | None:
    """Find a variable in the group of an array or an ancestor, as xarray's trees inherit them."""
    group = node.path
    while group not in ("", "/"):
        group = group.rpartition("/")[0]
        found = session.state.view.find_node(f"{group}/{name}")
        if found is not None:
            return found
    return None


def find_curved(session: Session, node: Node, rows: str, columns: str) -> Iterator[Node]:
    """Yield coordinates with two axes that point north, of grids without latitudes as an axis."""
    for name in _candidates(session, node):
        found = find_variable(session, node, name)
        if found is None or found.array is None:
            continue
        dims = found.array.dimension_names or ()
        if len(dims) >= 2 and set(dims[-2:]) == {rows, columns}:
            kind = find_kind(name, read_attributes(found))
            if kind in ("latitude", "north"):
                yield found


def _candidates(session: Session, node: Node) -> Iterable[str]:
    named = str(read_attributes(node).get("coordinates", "")).split()
    group = session.state.view.find_node(node.path.rpartition("/")[0] or "/")
    listed = str(read_attributes(group).get("coordinates", "")).split() if group is not None else []
    return dict.fromkeys((*named, *listed, "lat", "latitude"))


def describe_crs(session: Session, node: Node) -> str | None:
    """Return the name of the coordinate reference system, from CF's grid mapping, or None."""
    name = read_attributes(node).get("grid_mapping")
    if not isinstance(name, str) or not name:
        return None
    found = find_variable(session, node, name.split(":")[0].split()[0])
    attributes = {} if found is None else read_attributes(found)
    for key in ("projected_crs_name", "geographic_crs_name", "grid_mapping_name"):
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value.replace("_", " ")
    return name


def is_projected(session: Session, node: Node) -> bool:
    """Return True if a grid mapping other than plain longitudes and latitudes is declared."""
    name = read_attributes(node).get("grid_mapping")
    if not isinstance(name, str) or not name:
        return False
    found = find_variable(session, node, name.split(":")[0].split()[0])
    mapping = {} if found is None else read_attributes(found)
    return mapping.get("grid_mapping_name") not in (None, "latitude_longitude")


_STANDARD_NAMES = {
    "latitude": "latitude", "grid_latitude": "north", "projection_y_coordinate": "north",
    "longitude": "longitude", "grid_longitude": "east", "projection_x_coordinate": "east",
    "time": "time",
}  # fmt: skip
_UNITS = re.compile(r"degrees?_?(n|e)(?:orth|ast)?")
_NAMES = {
    "latitude": re.compile(r"(?:nav_)?lat(?:itude)?(?:_.*|\d*)"),
    "longitude": re.compile(r"(?:nav_)?lon(?:g|gitude)?(?:_.*|\d*)"),
    "north": re.compile(r"(?:x|r|g|grid_)lat(?:itude)?(?:_.*|\d*)|y[cg]?|northing.*"),
    "east": re.compile(r"(?:x|r|g|grid_)lon(?:g|gitude)?(?:_.*|\d*)|x[cg]?|easting.*"),
}  # fmt: skip


def find_kind(name: str, attributes: Mapping[str, Any]) -> str | None:
    """Return the kind of a coordinate from CF attributes or its name, or None."""
    units = str(attributes.get("units", ""))
    if " since " in units:
        return "time"
    standard = attributes.get("standard_name")
    if isinstance(standard, str):
        return _STANDARD_NAMES.get(standard.lower())
    found = _UNITS.fullmatch(units.lower())
    if found is not None:
        return "latitude" if found[1] == "n" else "longitude"
    axis = {"Y": "north", "X": "east", "T": "time"}.get(str(attributes.get("axis", "")).upper())
    plain = name.lower()
    by_name = next((kind for kind, names in _NAMES.items() if names.fullmatch(plain)), None)
    if axis is not None:
        is_same = {"north": "latitude", "east": "longitude"}.get(axis) == by_name
        return by_name if is_same else axis
    return by_name


NUMBERS = "iufb"
"""Kinds of types that have a minimum, a maximum and a picture."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding of stored numbers, from the attributes of an array."""

    missing: tuple[int | float, ...] = ()
    """Stored numbers that mark missing values."""
    scale: float | None = None
    offset: float | None = None
    stored_as: str | None = None
    """Type to view the stored bytes as, if `_Unsigned` changes the signedness."""
    is_bool: bool = False
    units: str | None = None
    calendar: str | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> "Decoding":
        """Parse the attributes of an array; raises InvalidInputError for invalid ones."""
        stored = _find_signedness(attributes, dtype)
        fill = [_read_fill(each, dtype) for each in _listed(attributes, "_FillValue")]
        if stored is not None:
            fill = [int(np.array(int(each)).astype(dtype).view(stored)) for each in fill]
        missing = [
            _read_number(each, "missing_value") for each in _listed(attributes, "missing_value")
        ]
        units, calendar = attributes.get("units"), attributes.get("calendar")
        return cls(
            missing=(*fill, *missing),
            scale=_find_number(attributes, "scale_factor"),
            offset=_find_number(attributes, "add_offset"),
            stored_as=None if stored is None else stored.str,
            is_bool=attributes.get("dtype") == "bool" and dtype.kind in "iu",
            units=units if isinstance(units, str) and units else None,
            calendar=calendar if isinstance(calendar, str) else None,
        )

    @property
    def is_time(self) -> bool:
        """Return True if the numbers are offsets from a time, such as `days since 2000-01-01`."""
        return self.units is not None and " since " in self.units

    def decode(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Decode numbers, with NaN for missing ones. Times stay numbers; `spell` formats them."""
        if stored.dtype.kind not in NUMBERS:
            return stored
        numbers = stored if self.stored_as is None else stored.view(self.stored_as)
        # Compare in double precision, as xarray does: float32 can't represent -999.9.
        absent = [numbers == np.asarray(each)[()] for each in self.missing if each == each]
        if self.missing or self.scale is not None or self.offset is not None:
            decoded = numbers.astype(np.float64)
            if self.scale is not None:
                decoded *= self.scale
            if self.offset is not None:
                decoded += self.offset
            for each in absent:
                decoded[each] = np.nan
            return decoded
        return numbers.astype(np.bool_) if self.is_bool else numbers

    def spell(self, number: Any) -> str:
        """Format a decoded number with its units, or as a time."""
        if isinstance(number, np.datetime64 | np.timedelta64):
            return str(number)
        if self.is_time:
            found = _decode_times(np.array([float(number)]), str(self.units), self.calendar)
            return found[0] if found else f"{number:g} {self.units}"
        return f"{number:g}" if self.units in (None, "1") else f"{number:g} {self.units}"


def _find_signedness(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    other = {("i", "true"): "u", ("u", "false"): "i"}.get(
        (dtype.kind, str(attributes.get("_Unsigned")).lower())
    )
    return None if other is None else np.dtype(f"{dtype.byteorder}{other}{dtype.itemsize}")


def _listed(attributes: Mapping[str, Any], name: str) -> list[Any]:
    value = attributes.get(name)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _read_fill(value: Any, dtype: np.dtype[Any]) -> int | float:
    """Parse a fill value as xarray encodes it: floats as base64 of their eight bytes."""
    if isinstance(value, str) and dtype.kind == "f":
        try:
            return float(struct.unpack("<d", base64.b64decode(value, validate=True))[0])
        except (binascii.Error, struct.error, ValueError):
            pass
    return _read_number(value, "_FillValue")


def _read_number(value: Any, name: str) -> int | float:
    if isinstance(value, int | float):
        return value
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"invalid {name} {value!r}: the attribute must be a number, so that values can be decoded"
        ) from error


def _find_number(attributes: Mapping[str, Any], name: str) -> float | None:
    found = _listed(attributes, name)
    if len(found) > 1:
        raise InvalidInputError(f"invalid {name} {found!r}: the attribute must be one number")
    return float(_read_number(found[0], name)) if found else None


_SINCE = re.compile(
    r"(day|hour|hr|minute|min|second|sec|millisecond|microsecond|nanosecond|h|d|s|ms|us|ns)s?"
    r" since (\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.0*)?)?)?"
    r"\s*(?:Z|UTC|\+?00:?00)?",
    re.IGNORECASE,
)
_STEPS = {
    "day": 86_400_000_000, "d": 86_400_000_000, "hour": 3_600_000_000, "hr": 3_600_000_000,
    "h": 3_600_000_000, "minute": 60_000_000, "min": 60_000_000, "second": 1_000_000,
    "sec": 1_000_000, "s": 1_000_000, "millisecond": 1000, "ms": 1000, "microsecond": 1, "us": 1,
    "nanosecond": 0.001, "ns": 0.001,
}  # fmt: skip
_GREGORIAN = np.datetime64("1582-10-16")


def spell_times(
    numbers: Sequence[float] | NDArray[Any], units: str, calendar: str | None
) -> list[str] | None:
    """Format CF times, all with the same precision; None if they can't be decoded."""
    known = np.asarray(numbers, np.float64)
    is_missing = ~np.isfinite(known)
    dates = _decode_times(np.where(is_missing, 0.0, known), units, calendar)
    if dates is None:
        return None
    return [
        "missing" if absent else text
        for absent, text in zip(is_missing.tolist(), trim_times(dates), strict=True)
    ]


def trim_times(dates: Sequence[str]) -> list[str]:
    """Drop seconds, or hours, that are zero in all ISO times."""
    known = [each for each in dates if each != "NaT"]
    for end in ("T00:00:00", ":00"):
        if known and all(each.endswith(end) for each in known):
            dates = [each.removesuffix(end) for each in dates]
            break
    return [each if each == "NaT" else each.replace("T", " ") for each in dates]


def _decode_times(
    numbers: NDArray[np.float64], units: str, calendar: str | None
) -> list[str] | None:
    """Return ISO times to the second, as xarray decodes them."""
    standard = calendar is None or calendar.lower() in (
        "standard", "gregorian", "proleptic_gregorian",
    )  # fmt: skip
    found = _SINCE.fullmatch(units.strip())
    if standard and found is not None:
        year, month, day = (int(found[number]) for number in (2, 3, 4))
        clock = [int(found[number] or 0) for number in (5, 6, 7)]
        try:
            epoch = np.datetime64(f"{year:04}-{month:02}-{day:02}", "us")
        except ValueError:
            return None
        with np.errstate(over="ignore"):
            offset = numbers * _STEPS[found[1].lower()]
        if np.all(np.abs(offset) < 2**62):
            seconds = clock[0] * 3600 + clock[1] * 60 + clock[2]
            times = epoch + np.timedelta64(seconds, "s") + np.rint(offset).astype("m8[us]")
            # Earlier dates of the standard calendar are Julian.
            if calendar == "proleptic_gregorian" or bool((times >= _GREGORIAN).all()):
                return [str(each) for each in times.astype("M8[s]")]
    return _decode_with_xarray(numbers, units, calendar)


def _decode_with_xarray(
    numbers: NDArray[np.float64], units: str, calendar: str | None
) -> list[str] | None:
    try:
        import xarray as xr  # noqa: PLC0415 (an extra)
    except ImportError:
        return None
    attributes = {"units": units} | ({} if calendar is None else {"calendar": calendar})
    stored = xr.Dataset({"x": ("i", numbers, attributes)})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dates = xr.decode_cf(stored)["x"].values
    except (ValueError, TypeError, OverflowError, KeyError, ImportError):
        return None
    if dates.dtype.kind == "M":
        return [str(each) for each in dates.astype("M8[s]")]
    return [str(each.isoformat()) for each in dates] if dates.dtype == object else None
