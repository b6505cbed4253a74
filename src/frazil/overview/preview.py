"""Previews of values and nodes, from few chunks."""

import base64
import binascii
import json
import math
import re
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.display import show_bytes
from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.paths import validate_path
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
        data_type if isinstance(data_type, str) else json.dumps(data_type),
        tuple(node.array.dimension_names or ()),
    )


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
            return _spell_time(float(number), str(self.units), self.calendar) or (
                f"{number:g} {self.units}"
            )
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


def _spell_time(number: float, units: str, calendar: str | None) -> str | None:
    """Format a time as xarray decodes it; None without xarray, or if decoding fails."""
    try:
        import xarray as xr  # noqa: PLC0415 (an extra)
    except ImportError:
        return None
    attributes = {"units": units} | ({} if calendar is None else {"calendar": calendar})
    stored = xr.Dataset({"x": ("i", np.array([number]), attributes)})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (date,) = xr.decode_cf(stored)["x"].values
    except (ValueError, TypeError, OverflowError, KeyError, ImportError):
        return None
    if isinstance(date, np.datetime64):
        return str(date.astype("datetime64[s]"))
    return str(date.isoformat()) if hasattr(date, "isoformat") else None


MOST_SAMPLE_CHUNKS = 16
"""Maximum chunks read for a summary of an array."""
MOST_WINDOW_CHUNKS = 128
"""Maximum chunks read for a picture."""
MOST_BYTES = 1 << 28
"""Maximum bytes decoded for either."""
_MOST_SAMPLE_SECONDS = 10.0
"""Time after which a summary reads no further chunk."""
_LARGEST_SIDE = 1024
"""Maximum elements of a picture along an axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of an array, split into the smallest readable chunks: the inner ones of shards."""

    length: int
    chunk: int
    """Chunk length; the last one may be shorter."""

    @property
    def count(self) -> int:
        """Return the number of chunks."""
        return -(-self.length // self.chunk)

    def span(self, first: int, count: int = 1) -> slice:
        """Return the elements of some chunks."""
        start = first * self.chunk
        return slice(start, min(self.length, start + count * self.chunk))


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """Slice of an array along its last two axes, or its only one, ready to draw."""

    values: NDArray[Any]
    """Decoded values. The first row is the top one: north, if known."""
    decoding: Decoding
    window: tuple[slice, ...]
    """Part of these axes, in the order of the array."""
    lengths: tuple[int, ...]
    """Lengths of these axes."""
    is_north_up: bool = False

    @property
    def is_whole(self) -> bool:
        """Return True if the window covers the whole slice."""
        return all(
            each.stop - each.start == length
            for each, length in zip(self.window, self.lengths, strict=True)
        )


# Planning


def limit_chunks(axes: Sequence[Axis], itemsize: int, most: int) -> int:
    """Return the maximum chunks to read; raises InvalidInputError if one alone is too large."""
    size = itemsize * math.prod(min(each.chunk, each.length) for each in axes)
    if size > MOST_BYTES:
        raise InvalidInputError(
            f"a chunk holds {show_bytes(size)}, and a preview reads at most {show_bytes(MOST_BYTES)}"
        )
    return min(most, MOST_BYTES // max(1, size))


def plan_window(axes: Sequence[Axis], most_chunks: int) -> tuple[slice, ...]:
    """Return a centred window of some axes within at most `most_chunks` chunks."""
    counts = [-(-min(each.length, _LARGEST_SIDE) // each.chunk) for each in axes]
    while math.prod(counts) > most_chunks:
        # Shorten the side with more elements, to keep the window about square.
        widest = max(
            range(len(axes)), key=lambda i: (counts[i] > 1, counts[i] * axes[i].chunk, counts[i])
        )
        counts[widest] -= 1
    spans = (
        axis.span((axis.count - count) // 2, count)
        for axis, count in zip(axes, counts, strict=True)
    )
    return tuple(map(_cut, spans))


def _cut(span: slice) -> slice:
    """Return the middle of a span that is too long to draw."""
    extra = max(0, span.stop - span.start - _LARGEST_SIDE)
    start = span.start + extra // 2
    return slice(start, span.stop - (extra - extra // 2))


def plan_sample(
    axes: Sequence[Axis], written: Sequence[Sequence[int]], inner: Sequence[int], most_chunks: int
) -> Iterator[tuple[slice, ...]]:
    """Yield one chunk of some written objects, which hold `inner` chunks along each axis."""
    for place in _spread(written, most_chunks):
        middle = (
            min(number * size + size // 2, axis.count - 1)
            for number, size, axis in zip(place, inner, axes, strict=True)
        )
        yield tuple(axis.span(at) for axis, at in zip(axes, middle, strict=True))


def _spread(items: Sequence[Any], most: int) -> Iterator[Any]:
    """Return a few items, evenly spread from first to last."""
    count = min(len(items), most)
    return (items[number * (len(items) - 1) // max(1, count - 1)] for number in range(count))


# Reading


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Decoded values of some chunks."""

    values: NDArray[Any]
    chunks: int
    """Number of chunks read."""
    decoding: Decoding


def read_sample(session: Session, path: str, written: Sequence[Sequence[int]]) -> Sample | None:
    """Read a few of the written chunks; None unless they hold numbers or times."""
    array = _open(session, path)
    if array.dtype.kind not in f"{NUMBERS}mM":
        return None
    decoding = Decoding.of(array.attrs.asdict(), array.dtype)
    axes = _find_axes(array)
    most = limit_chunks(axes, array.dtype.itemsize, MOST_SAMPLE_CHUNKS)
    stored = array.shards or array.chunks
    inner = [whole // part for whole, part in zip(stored, array.chunks, strict=True)]
    parts: list[NDArray[Any]] = []
    end = monotonic() + _MOST_SAMPLE_SECONDS
    # Read sequentially, so that unreadable data fails once and slow storage gets fewer requests.
    for region in plan_sample(axes, written, inner, most):
        if parts and monotonic() > end:
            break
        parts.append(decoding.decode(np.asarray(array[region])).ravel())
    values = np.concatenate(parts) if parts else np.empty(0, array.dtype)
    return Sample(values, len(parts), decoding)


def read_preview(session: Session, path: str, at: tuple[int, ...]) -> Preview | None:
    """Read a slice along the last two axes.

    Parameters
    ----------
    session
        Session at the version to read.
    path
        Path of the array.
    at
        Index along each axis but the last two.

    Returns
    -------
    Preview or None
        None if the values aren't numbers or the array is empty.
    """
    array = _open(session, path)
    if array.dtype.kind not in NUMBERS or 0 in array.shape:
        return None
    decoding = Decoding.of(array.attrs.asdict(), array.dtype)
    axes = _find_axes(array)
    most = limit_chunks(axes, array.dtype.itemsize, MOST_WINDOW_CHUNKS)
    window = plan_window(axes[-2:], most)
    place: tuple[int | slice, ...] = (*at, *window)
    values = decoding.decode(np.asarray(array[place]))
    lengths = array.shape[-2:]
    if values.ndim != 2:
        return Preview(values, decoding, window, lengths)
    node, _ = session.state.view.get_array(normalize(path))
    heading = find_heading(session, node)
    return Preview(heading.turn(values), decoding, window, lengths, heading.is_known)


def _open(session: Session, path: str) -> zarr.Array[Any]:
    return zarr.open_array(session.store, path=path.strip("/"), mode="r")


def _find_axes(array: zarr.Array[Any]) -> list[Axis]:
    return [
        Axis(length, max(1, chunk)) for length, chunk in zip(array.shape, array.chunks, strict=True)
    ]


# North


@dataclass(frozen=True, slots=True)
class Heading:
    """Orientation of a slice with north up; longitudes keep their order."""

    is_known: bool = False
    is_transposed: bool = False
    """True if north lies along the second axis instead of the first."""
    is_ascending: bool = False
    """True if the first stored row is the southernmost."""

    def turn(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a slice with north up."""
        turned = values.T if self.is_transposed else values
        return turned[::-1] if self.is_ascending else turned


def find_heading(session: Session, node: Node) -> Heading:
    """Find the direction of north along the last two axes from coordinates; unknown if none tells."""
    assert node.array is not None
    dims = (node.array.dimension_names or ())[-2:]
    if len(dims) != 2 or len(set(dims)) != 2:
        return Heading()
    row, column = dims
    for first, last in _find_ends(session, node, row, column):
        return Heading(True, False, first < last)
    if _find_face(session, node, row) == "east":
        for first, last in _find_ends(session, node, column, row):
            return Heading(True, True, first < last)
    return Heading()


def _find_ends(
    session: Session, node: Node, northward: str | None, other: str | None
) -> Iterator[tuple[float, float]]:
    """Yield the first and last value along a dimension of coordinates that point north."""
    for name in _candidates(session, node, northward):
        found = _find_variable(session, node, name)
        if found is None or found.array is None or _face(name, _attributes(found)) != "north":
            continue
        dims = found.array.dimension_names or ()
        if northward not in dims[-2:] or not set(dims[-2:]) <= {northward, other}:
            continue
        try:
            ends = _read_ends(session, found, dims.index(northward))
        except (IcechunkError, ValueError, TypeError, OSError):
            continue
        if ends[0] != ends[1] and all(map(math.isfinite, ends)):
            yield ends


def _candidates(session: Session, node: Node, dim: str | None) -> Iterable[str]:
    """Return candidate coordinates: that of the dimension, those in attributes, usual names."""
    named = str(_attributes(node).get("coordinates", "")).split()
    group = session.state.view.find_node(node.path.rpartition("/")[0] or "/")
    listed = str(_attributes(group).get("coordinates", "")).split() if group is not None else []
    return dict.fromkeys((*([dim] if dim else []), *named, *listed, "lat", "latitude"))


def _find_variable(session: Session, node: Node, name: str) -> Node | None:
    """Find a variable in the group of an array or an ancestor, as xarray's trees inherit them."""
    group = node.path
    while group not in ("", "/"):
        group = group.rpartition("/")[0]
        found = session.state.view.find_node(f"{group}/{name}")
        if found is not None:
            return found
    return None


def _read_ends(session: Session, node: Node, axis: int) -> tuple[float, float]:
    """Return the first and last value along an axis, in the middle of the last two axes."""
    array = _open(session, node.path)
    decoding = Decoding.of(array.attrs.asdict(), array.dtype)
    limit_chunks(_find_axes(array), array.dtype.itemsize, 2)
    place = [length // 2 if number >= array.ndim - 2 else 0
             for number, length in enumerate(array.shape)]  # fmt: skip
    ends = []
    for at in (0, array.shape[axis] - 1):
        place[axis] = at
        ends.append(float(decoding.decode(np.asarray(array[tuple(place)]).reshape(1))[0]))
    return ends[0], ends[1]


def _find_face(session: Session, node: Node, dim: str | None) -> str | None:
    if dim is None:
        return None
    found = _find_variable(session, node, dim)
    return _face(dim, {} if found is None else _attributes(found))


_STANDARD_NAMES = {
    "latitude": "north", "grid_latitude": "north", "projection_y_coordinate": "north",
    "longitude": "east", "grid_longitude": "east", "projection_x_coordinate": "east",
}  # fmt: skip
_UNITS = re.compile(r"degrees?_?(n|e)(?:orth|ast)?")
_NAMES = {
    "north": re.compile(r"(?:nav_|x|r|g|grid_)?lat(?:itude)?(?:_.*|\d*)|y[cg]?|northing.*"),
    "east": re.compile(r"(?:nav_|x|r|g|grid_)?lon(?:g|gitude)?(?:_.*|\d*)|x[cg]?|easting.*"),
}  # fmt: skip


def _face(name: str, attributes: Mapping[str, Any]) -> str | None:
    """Return the direction in which a coordinate increases: `north`, `east`, or None."""
    standard = attributes.get("standard_name")
    if isinstance(standard, str):
        return _STANDARD_NAMES.get(standard.lower())
    units = _UNITS.fullmatch(str(attributes.get("units", "")).lower())
    if units is not None:
        return "north" if units[1] == "n" else "east"
    axis = {"Y": "north", "X": "east"}.get(str(attributes.get("axis", "")).upper())
    if axis is not None:
        return axis
    plain = name.lower()
    return next((face for face, names in _NAMES.items() if names.fullmatch(plain)), None)


def _attributes(node: Node) -> Mapping[str, Any]:
    found = read_metadata(node).get("attributes")
    return found if isinstance(found, dict) else {}
