"""Give sources the dimensions that they lack, so that they can be placed along them. Pure.

A file that holds one step has no dimension for it. The coordinate of that step is a scalar variable, an
attribute, or part of the path. The data variables of such a file get a new first axis of length one.
"""

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import chain, combinations
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.virtual.combine_axes import align, are_equal, find_values
from frazil.virtual.combine_plan import Problem, ProblemKind
from frazil.virtual.source import ArrayHeader, ReferenceColumns, Source, SourceHeader, is_time
from frazil.virtual.source_formats import FoundGroup

TIME_UNITS = "seconds since 1970-01-01"
"""Units of times that are found in paths and attributes."""
_FINE_TIME_UNITS = "microseconds since 1970-01-01"
_EPOCH = np.datetime64("1970-01-01T00:00:00", "us")
_TIME_ATTRIBUTES = {
    "standard_name": "time", "units": TIME_UNITS, "calendar": "proleptic_gregorian"
}  # fmt: skip
_MISSING = ("_FillValue", "missing_value")
_STRING_DTYPE = "string"
_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_STRINGS = {"name": "vlen-utf8"}

_WRF_TIMES = "Times"
_WRF_TIME_FORMATS = ("%Y-%m-%d_%H:%M:%S", "%Y-%m-%d_%H_%M_%S")


@dataclass(frozen=True, slots=True)
class FromPath:
    """Coordinate value that is part of a file's path."""

    pattern: str
    format: str | None = None

    def __call__(self, header: SourceHeader) -> object:
        path = unquote(header.location)
        found = re.search(self.pattern, path)
        if found is None:
            raise InvalidInputError(f"its path does not match from_path({self.pattern!r})")
        return _parse_text("".join(found.groups()) or found.group(), self.format)


@dataclass(frozen=True, slots=True)
class FromAttribute:
    """Coordinate value that is an attribute of a file, or of one of its variables."""

    name: str
    variable: str | None = None
    format: str | None = None

    def __call__(self, header: SourceHeader) -> object:
        if self.variable is not None and self.variable not in header.arrays:
            raise InvalidInputError(f"it has no variable {self.variable!r}")
        attributes = (
            header.attributes if self.variable is None else header.arrays[self.variable].attributes
        )
        if self.name not in attributes:
            where = "it" if self.variable is None else f"its variable {self.variable!r}"
            raise InvalidInputError(f"{where} has no attribute {self.name!r}")
        value = attributes[self.name]
        if not isinstance(value, str):
            return value
        return _parse_text(value, self.format, is_time_likely=True)


Coordinate = Callable[[SourceHeader], object]
"""Function that returns the coordinate of a source along a dimension: one value, or one per index."""


def from_path(pattern: str, format: str | None = None) -> FromPath:
    r"""Read the coordinate of a file from its path.

    Parameters
    ----------
    pattern
        Regular expression; the value is the text of its groups, or of the whole match.
    format
        Format of `datetime.strptime` if the value is a time. Without one, digits are an integer and
        anything else is a string.

    Returns
    -------
    FromPath
        Value for `coords=` of an ingest.

    Examples
    --------
    >>> coords = {"time": from_path(r"A(\d{7})", "%Y%j"), "member": from_path(r"member=r(\d+)")}
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidInputError(f"invalid pattern {pattern!r} of from_path: {error}") from error
    return FromPath(pattern, format)


def from_attribute(
    name: str, variable: str | None = None, *, format: str | None = None
) -> FromAttribute:
    """Read the coordinate of a file from an attribute.

    Parameters
    ----------
    name
        Name of the attribute.
    variable
        Variable that has the attribute; without one it is a global attribute.
    format
        Format of `datetime.strptime`; without one, ISO 8601 is recognised.

    Returns
    -------
    FromAttribute
        Value for `coords=` of an ingest.

    Examples
    --------
    >>> coords = {"time": from_attribute("time_coverage_start")}
    """
    return FromAttribute(name, variable, format)


def _parse_text(text: str, format: str | None, *, is_time_likely: bool = False) -> object:
    if format is not None:
        try:
            return datetime.strptime(text, format)
        except ValueError as error:
            raise InvalidInputError(
                f"{text!r} does not match the time format {format!r}"
            ) from error
    if is_time_likely:
        try:
            return datetime.fromisoformat(text.strip())
        except ValueError:
            pass
    try:
        return int(text)
    except ValueError:
        return text


def add_dimensions(
    source: Source, dims: Sequence[str], coords: Mapping[str, Coordinate] | None = None
) -> Source:
    """Return the source with a coordinate for each of some dimensions, where one can be found.

    A dimension that the source lacks becomes the first axis, of length one, of its data variables, and
    of the bounds of its coordinate. Coordinates, the bounds of other coordinates and grid mappings stay
    as they are.

    Parameters
    ----------
    source
        Parsed source.
    dims
        Concatenation dimensions, outermost first.
    coords
        Function that returns the value of a coordinate, by dimension. Without one, a scalar variable
        with the name of the dimension is taken, or the `Times` of WRF.

    Raises
    ------
    InvalidInputError
        If a value can't be found, or has another length than the dimension.
    """
    given = coords or {}
    lacking: list[str] = []
    source = _with_unsigned(source, dims)
    arrays = dict(source.arrays)
    for dim in dims:
        length = source.dims.get(dim)
        index = _find_index(source, dim, length, given.get(dim))
        if index is None:
            continue
        arrays[dim] = index
        if length is None:
            lacking.append(dim)
    if arrays == source.arrays:
        return source
    changed = Source(replace(source.header, arrays=arrays), source.references)
    references = dict(source.references)
    for dim in reversed(lacking):
        for name in _find_growing(changed.header, dim):
            arrays[name] = add_axis(arrays[name], dim)
            if name in references:
                references[name] = _add_axis_to_references(references[name])
        references.pop(dim, None)
    return Source(replace(source.header, arrays=arrays), references)


def _with_unsigned(source: Source, dims: Sequence[str]) -> Source:
    """Return the source with coordinates of a type that has the order of their values."""
    arrays, references = dict(source.arrays), dict(source.references)
    for dim in dims:
        own = arrays.get(dim)
        is_unsigned = own is not None and str(own.attributes.get("_Unsigned")).lower() == "true"
        if own is None or own.values is None or own.values.dtype.kind != "i" or not is_unsigned:
            continue
        dtype = np.dtype(f"u{own.values.dtype.itemsize}")
        attributes = {
            name: each % (1 << 8 * dtype.itemsize)
            if isinstance(each, int) and name in _MISSING
            else each
            for name, each in own.attributes.items()
            if name != "_Unsigned"
        }
        stored = {
            "data_type": dtype.name,
            "fill_value": 0,
            "codecs": [_BYTES],
            "attributes": attributes,
        }
        arrays[dim] = replace(
            own, metadata={**own.metadata, **stored}, values=own.values.astype(dtype)
        )
        references.pop(dim, None)
    return Source(replace(source.header, arrays=arrays), references)


def _find_index(
    source: Source, dim: str, length: int | None, given: Coordinate | None
) -> ArrayHeader | None:
    """Return the coordinate of a dimension, or None if the source has it or it can't be found."""
    own = source.arrays.get(dim)
    if given is not None:
        return make_index(dim, given(source.header), length)
    if own is not None and not own.dims and own.values is not None:
        shape = {"shape": [1], "dimension_names": [dim], "chunk_grid": _regular([1])}
        return replace(own, metadata={**own.metadata, **shape}, values=own.values.reshape(1))
    if own is not None and len(own.dims) == 2 and own.dims[0] == dim and own.values is not None:
        texts = _join_characters(own.values)
        return None if texts is None else make_index(dim, texts, len(texts))
    times = source.arrays.get(_WRF_TIMES)
    if own is None and length is not None and times is not None and times.dims[:1] == (dim,):
        return _read_wrf_times(times, dim)
    return None


def _read_wrf_times(times: ArrayHeader, dim: str) -> ArrayHeader | None:
    """Return the times that WRF writes as text, one character an element."""
    if times.values is None:
        return None
    texts = _join_characters(times.values)
    if texts is None:
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in times.values]
    for format in _WRF_TIME_FORMATS:
        try:
            found = [datetime.strptime(text.rstrip("\0 "), format) for text in texts]
        except ValueError:
            continue
        return make_index(dim, found, len(found))
    return None


def _join_characters(values: NDArray[Any]) -> list[str] | None:
    """Return the texts of an array of one character an element, or None for another array."""
    if values.ndim != 2 or values.dtype.kind not in "SU":
        return None
    return [b"".join(row).decode("utf-8", "replace").rstrip("\0 ") for row in values.astype("S1")]


def make_index(dim: str, value: object, length: int | None = None) -> ArrayHeader:
    """Return the coordinate of a dimension from its value or values.

    Raises InvalidInputError if there is another number of values than the dimension is long.
    """
    given = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    if len(given) != (length or 1):
        raise InvalidInputError(
            f"invalid coordinate of {dim!r}: {len(given)} values, and its length is {length or 1}"
        )
    values, attributes = _to_values(dim, given)
    is_text = values.dtype.kind == "U"
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [len(values)],
        "data_type": _STRING_DTYPE if is_text else values.dtype.name,
        "chunk_grid": _regular([len(values)]),
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "" if is_text else 0,
        "codecs": [_STRINGS if is_text else _BYTES],
        "attributes": attributes,
        "dimension_names": [dim],
    }
    return ArrayHeader(dim, metadata, values)


def _to_values(dim: str, given: Sequence[object]) -> tuple[NDArray[Any], dict[str, Any]]:
    if all(isinstance(each, datetime | date | np.datetime64) for each in given):
        ticks = np.array([_to_microseconds(each) for each in given], np.int64)
        attributes = dict(_TIME_ATTRIBUTES)
        if np.any(ticks % 1_000_000):
            attributes["units"] = _FINE_TIME_UNITS
            return ticks, attributes
        return ticks // 1_000_000, attributes
    values = np.array(given)
    if values.dtype.kind in "iu":
        return values.astype(np.int64), {}
    if values.dtype.kind == "f":
        return values.astype(np.float64), {}
    if values.dtype.kind == "U":
        return values, {}
    raise InvalidInputError(
        f"invalid coordinate {given[0]!r} of {dim!r}: expected a time, a number or a string"
    )


def _to_microseconds(moment: Any) -> int:
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return int((np.datetime64(moment, "us") - _EPOCH).astype(np.int64))


def _find_growing(header: SourceHeader, dim: str) -> list[str]:
    """Return the arrays that get a new axis for a dimension."""
    arrays = header.arrays
    named = set(_find_words(header.attributes, "coordinates"))
    mappings: set[str] = set()
    bounds: dict[str, str] = {}
    for name, array in arrays.items():
        named.update(_find_words(array.attributes, "coordinates"))
        mappings.update(re.split(r"[:\s]+", str(array.attributes.get("grid_mapping", ""))))
        for attribute in ("bounds", "climatology"):
            bounds |= dict.fromkeys(_find_words(array.attributes, attribute), name)
    named -= {dim}
    static = {name for name, array in arrays.items() if array.is_index or name in named}
    static |= {name for name, owner in bounds.items() if owner != dim and owner in static}
    return [name for name in arrays if name not in static | mappings]


def _find_words(attributes: Mapping[str, Any], name: str) -> list[str]:
    return str(attributes.get(name, "")).split()


def add_axis(array: ArrayHeader, dim: str, length: int = 1, at: int = 0) -> ArrayHeader:
    """Return the array with a new axis, the first one by default, along which its values are equal."""

    def add(given: Sequence[Any], value: Any) -> list[Any]:
        return [*given[:at], value, *given[at:]]

    metadata = dict(array.metadata)
    if metadata.get("dimension_names") or not array.shape:
        metadata["dimension_names"] = add(metadata.get("dimension_names") or (), dim)
    else:
        metadata["dimension_names"] = add(array.dims, dim)
    metadata["shape"] = add(array.shape, length)
    if "chunk_grid" in metadata:
        metadata["chunk_grid"] = _regular(add(array.chunk_shape, 1))
    if "codecs" in metadata:
        metadata["codecs"] = [_add_axis_to_codec(each, at) for each in metadata["codecs"]]
    values = array.values
    if values is not None:
        values = np.broadcast_to(np.expand_dims(values, at), metadata["shape"])
    return replace(array, metadata=metadata, values=values)


def _add_axis_to_codec(codec: Mapping[str, Any], at: int) -> Mapping[str, Any]:
    settings = codec.get("configuration") or {}
    match codec["name"]:
        case "transpose":
            order = [at, *(axis + (axis >= at) for axis in settings["order"])]
            return {**codec, "configuration": {**settings, "order": order}}
        case "sharding_indexed":
            inner = [_add_axis_to_codec(each, at) for each in settings["codecs"]]
            sizes = settings["chunk_shape"]
            shape = [*sizes[:at], 1, *sizes[at:]]
            changed = {**settings, "chunk_shape": shape, "codecs": inner}
            return {**codec, "configuration": changed}
    return codec


def _add_axis_to_references(columns: ReferenceColumns) -> ReferenceColumns:
    def widen(coordinates: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.pad(coordinates, ((0, 0), (1, 0)))

    return replace(
        columns,
        coordinates=widen(columns.coordinates),
        inline_coordinates=widen(columns.inline_coordinates),
    )


def _regular(chunk_shape: Sequence[int]) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}}


_TRANSFORM = ("model_pixel_scale", "model_tiepoint", "model_transformation")
_GEO_KEYS = ("geog_", "geographic_type", "proj_", "projected_type", "projection", "model_type",
             "citation", "vertical", "raster_type")  # fmt: skip
_CRS = "spatial_ref"
_USER_DEFINED = 32767
_POINT = 2
"""Raster type of GeoTIFF whose coordinates are those of points, not of areas."""


def georeference(found: FoundGroup) -> FoundGroup:
    """Return the images of a GeoTIFF with their coordinates, and with a grid mapping of CF.

    Coordinates are the centres of pixels. The transform of one file says nothing of many, so that it
    is left out of the attributes, as are overviews, which are smaller images without a transform, or
    with larger pixels.
    """
    first = next((each for each in found.arrays.values() if _find_transform(each)), None)
    transform = None if first is None else _find_transform(first)
    if first is None or transform is None:
        return found
    whole = first.shape[-2:]
    keys = {name: each for name, each in first.attributes.items() if name.startswith(_GEO_KEYS)}
    arrays = {}
    for name, array in found.arrays.items():
        is_overview = any(a < b for a, b in zip(array.shape[-2:], whole, strict=False))
        own = _find_transform(array)
        if is_overview and (own is None or abs(own[0][1]) > abs(transform[0][1])):
            continue
        kept = {n: e for n, e in array.attributes.items() if n not in (*keys, *_TRANSFORM)}
        if array.shape[-2:] == whole:
            kept["grid_mapping"] = _CRS
        arrays[name] = replace(array, metadata={**array.metadata, "attributes": kept})
    half = 0.0 if keys.get("raster_type") == _POINT else 0.5
    (x_start, x_step), (y_start, y_step) = transform
    is_projected = "projected_type" in keys
    for dim, length, start, step in zip(
        first.dims[-2:], whole, (y_start, x_start), (y_step, x_step), strict=True
    ):
        index = make_index(dim, start + (np.arange(length) + half) * step, length)
        attributes = _AXES[is_projected][dim]
        arrays[dim] = replace(index, metadata={**index.metadata, "attributes": dict(attributes)})
    mapping = make_index(_CRS, 0)
    shape = {"shape": [], "dimension_names": [], "chunk_grid": _regular([])}
    arrays[_CRS] = replace(
        mapping,
        metadata={**mapping.metadata, **shape, "attributes": _describe_crs(keys)},
        values=np.zeros((), np.int64),
    )
    references = {name: each for name, each in found.references.items() if name in arrays}
    return replace(found, arrays=arrays, references=references)


_AXES: Mapping[bool, Mapping[str, Mapping[str, str]]] = {
    True: {
        "x": {"standard_name": "projection_x_coordinate", "axis": "X", "units": "m"},
        "y": {"standard_name": "projection_y_coordinate", "axis": "Y", "units": "m"},
    },
    False: {
        "x": {"standard_name": "longitude", "axis": "X", "units": "degrees_east"},
        "y": {"standard_name": "latitude", "axis": "Y", "units": "degrees_north"},
    },
}


def _find_transform(array: ArrayHeader) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return start and step of x and of y; None without a transform, or with a rotation."""
    if array.dims[-2:] != ("y", "x"):
        return None
    scale, tie, matrix = (array.attributes.get(name) for name in _TRANSFORM)
    if matrix is not None and len(matrix) == 16 and not matrix[1] and not matrix[4]:
        return (float(matrix[3]), float(matrix[0])), (float(matrix[7]), float(matrix[5]))
    if matrix is None and scale is not None and tie is not None and len(tie) == 6:
        column, row, _, x, y, _ = map(float, tie)
        x_step, y_step = float(scale[0]), -float(scale[1])
        return (x - column * x_step, x_step), (y - row * y_step, y_step)
    return None


def _describe_crs(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a grid mapping: of CF where the code says enough, and all keys."""
    code = keys.get("projected_type", keys.get("geographic_type"))
    found: dict[str, Any] = dict(keys)
    if isinstance(code, int) and code != _USER_DEFINED:
        found[_CRS] = f"EPSG:{code}"
        zone, south = code % 100, code // 100 == 327
        if code in (4326, 4258, 4269):
            found["grid_mapping_name"] = "latitude_longitude"
        elif code // 100 in (326, 327) and 1 <= zone <= 60:
            found |= {
                "grid_mapping_name": "transverse_mercator",
                "longitude_of_central_meridian": 6.0 * zone - 183,
                "latitude_of_projection_origin": 0.0,
                "scale_factor_at_central_meridian": 0.9996,
                "false_easting": 500_000.0,
                "false_northing": 10_000_000.0 if south else 0.0,
            }
    return found


__all__ = ["FromAttribute", "FromPath", "add_dimensions", "from_attribute", "from_path"]


def loaded_everywhere(headers: Sequence[SourceHeader]) -> dict[str, ArrayHeader]:
    """Return the arrays whose values every header with the array includes."""
    arrays = [array for header in headers for array in header.arrays.values()]
    unread = {array.name for array in arrays if array.values is None}
    return {array.name: array for array in arrays if array.name not in unread}


def spread_differing(
    headers: Sequence[SourceHeader],
    existing: SourceHeader | None,
    dims: Sequence[str],
    changed: Container[str] = (),
) -> tuple[SourceHeader | None, list[SourceHeader]]:
    """Return the group and the sources with a dimension for small variables that differ between them.

    A variable without a concatenation dimension, such as the reference time of a forecast, gets the
    first dimension along which its values tell the files apart, or as few as do so together. One that
    the repository has without gets it there as well, with its values everywhere. Sources that have
    `changed` since they were ingested give no variable a dimension that the repository has without any.
    """
    loaded = loaded_everywhere(headers) if dims else {}
    indexes = [each.attributes for each in loaded.values() if each.is_index]
    bounds = {
        w
        for each in indexes
        for w in (*_find_words(each, "bounds"), *_find_words(each, "climatology"))
    }
    spread: dict[str, tuple[str, ...]] = {}
    for name, first in loaded.items():
        having = [each for each in headers if name in each.arrays]
        inner = set(dims) & set(first.dims)
        # A dimension has one coordinate, with its bounds: files with another one are refused.
        is_fixed = first.is_index or len(inner) == len(dims) or (inner and name in bounds)
        if is_fixed or any(set(dims) & set(each.arrays[name].dims) != inner for each in having):
            continue
        there = existing.arrays.get(name) if existing is not None else None
        own = () if there is None else there.dims[: len(there.dims) - len(first.dims)]
        if there is not None and (there.dims != (*own, *first.dims) or not set(own) <= set(dims)):
            continue
        if there is not None and not own:
            having = [each for each in having if each.name not in changed]
        former = existing if there is not None else None
        spread[name] = _find_distinguishing(having, former, name, dims, own) or own
    spread = {name: each for name, each in spread.items() if each}
    if existing is not None:
        known = {name: each for name, each in spread.items() if name in existing.arrays}
        existing = _spread(existing, known, dims)
    if not spread:
        return existing, list(headers)
    return existing, [_spread(header, spread, dims) for header in headers]


def _find_distinguishing(
    headers: Sequence[SourceHeader],
    existing: SourceHeader | None,
    name: str,
    dims: Sequence[str],
    own: Sequence[str],
) -> tuple[str, ...]:
    """Return the fewest dimensions for whose values a variable has one value each, or none.

    It has its `own` in the repository, to which others may be added. Those that it has in the files
    are none of them: values are compared where files share coordinates along these.
    """
    group = [] if existing is None else [existing]
    indexes = {dim: [find_values(each, dim) for each in (*headers, *group)] for dim in dims}
    keys = {
        dim: [each.tobytes() for each in found if each is not None]
        for dim, found in indexes.items()
    }
    known = [dim for dim in dims if len(keys[dim]) == len(headers) + len(group)]
    places = [{d: np.asarray(indexes[d][row]) for d in known} for row in range(len(headers))]
    there = {} if existing is None else {d: np.asarray(indexes[d][-1]) for d in known}
    differing = [
        place
        for header, place in zip(headers, places, strict=True)
        if existing is not None and _differs(header, existing, name, own, place, there)
    ]
    inner = [dim for dim in headers[0].arrays[name].dims if dim in dims] if headers else []
    outer = [dim for dim in known if dim not in inner]
    if not set(inner) <= set(known):
        return ()
    parts: dict[tuple[Any, ...], Parts] = {}
    values = [
        _split(each.arrays[name], place, inner, parts)
        for each, place in zip(headers, places, strict=True)
    ]

    def tell_apart(some: Sequence[str]) -> bool:
        seen: dict[tuple[Any, ...], NDArray[Any] | None] = {}
        done: set[tuple[Any, ...]] = set()
        for row, mine in enumerate(values):
            key = tuple(keys[dim][row] for dim in some)
            if (id(mine), key) in done:
                continue
            done.add((id(mine), key))
            for where, value in mine.items():
                other = seen.setdefault((key, where), value)
                if value is None or other is None or not are_equal(value, other):
                    return False
        return True

    if not headers or not (differing or not tell_apart(())):
        return ()
    last: tuple[str, ...] = ()
    for some in chain.from_iterable(combinations(outer, n) for n in range(1, len(outer) + 1)):
        if tell_apart(some):
            if not set(own) <= set(some):
                continue
            last = some
            new = [dim for dim in some if dim not in own]
            if any(all(np.isin(e[dim], there[dim]).any() for dim in new) for e in differing):
                continue  # it has a value at this place, unless more dimensions tell them apart
            # A time may differ along a dimension that has one value so far, such as the first run.
            is_open = is_time(headers[0].arrays[name].attributes)
            return tuple(
                dim for dim in dims
                if dim in some or (is_open and dim in outer and len(set(keys[dim])) == 1)
            )  # fmt: skip
    return last if differing else ()


Parts = dict[tuple[Any, ...], NDArray[Any] | None]
"""Values of a variable by their place along the dimensions that it has itself."""


def _split(
    array: ArrayHeader,
    place: Mapping[str, NDArray[Any]],
    inner: Sequence[str],
    known: dict[tuple[Any, ...], Parts],
) -> Parts:
    """Return the parts of a variable; equal variables share them, as many files have equal ones."""
    values = array.values
    if values is None:
        return {(): None}
    if not inner:
        return {(): values}
    indexes = [place[dim] for dim in inner]
    key = (str(values.tolist()), *(each.tobytes() for each in indexes))
    if key not in known:
        moved = np.moveaxis(values, [array.dims.index(dim) for dim in inner], range(len(inner)))
        known[key] = {
            tuple(each[at] for each, at in zip(indexes, where, strict=True)): moved[where]
            for where in np.ndindex(
                *(min(*each) for each in zip(moved.shape, map(len, indexes), strict=False))
            )
        }
    return known[key]


def _differs(
    header: SourceHeader,
    existing: SourceHeader,
    name: str,
    own: Sequence[str],
    place: Mapping[str, NDArray[Any]],
    there: Mapping[str, NDArray[Any]],
) -> bool:
    """Return whether a variable has other values in the repository at the place of a source."""
    values, mine = existing.arrays[name].values, header.arrays[name].values
    if values is None or mine is None or not set(own) <= place.keys():
        return False
    rows = [np.flatnonzero(np.isin(there[dim], place[dim])) for dim in own]
    for axis, dim in enumerate(header.arrays[name].dims):
        here = np.arange(values.shape[len(own) + axis])
        if dim in place:
            _, here, shared = np.intersect1d(there[dim], place[dim], return_indices=True)
            mine = np.take(mine, shared, axis)
        rows.append(here)
    found = values[np.ix_(*rows)] if rows else values
    is_same = found == mine
    if found.dtype.kind == "f":
        # Places of no source have no value.
        is_same |= np.isnan(found) & (np.isnan(mine) | bool(own))
    return not np.all(is_same)


def _spread(
    header: SourceHeader, spread: Mapping[str, Sequence[str]], growing: Collection[str]
) -> SourceHeader:
    arrays = dict(header.arrays)
    for name, dims in spread.items():
        if name in arrays and set(dims) <= header.dims.keys():
            for at, dim in enumerate(dims):
                if dim not in arrays[name].dims:
                    arrays[name] = add_axis(arrays[name], dim, header.dims[dim], at)
            if len({*arrays[name].dims} & {*growing}) > 1:
                arrays[name] = _mark_missing(arrays[name])
    return replace(header, arrays=arrays)


def _mark_missing(array: ArrayHeader) -> ArrayHeader:
    """Return the array with a missing value for times, which have none where no source is."""
    name, attributes = str(array.metadata.get("data_type")), array.attributes
    is_marked = any(each in attributes for each in ("_FillValue", "missing_value"))
    if is_marked or not is_time(attributes) or not name.startswith(("int", "uint", "float")):
        return array
    if name.startswith("float"):
        return replace(array, metadata={**array.metadata, "fill_value": "NaN"})
    limits = np.iinfo(name)
    blank = int(limits.min or limits.max)
    attributes = {**attributes, "_FillValue": blank}
    return replace(
        array, metadata={**array.metadata, "fill_value": blank, "attributes": attributes}
    )


_STORED = ("data_type", "fill_value", "codecs")


def align_coordinates(
    headers: Sequence[SourceHeader], existing: SourceHeader | None
) -> tuple[list[SourceHeader], list[Problem]]:
    """Return the sources with one number for each coordinate, and a note of those that differed.

    Coordinates of one grid that were computed in different ways differ in their last digits. Those of
    the repository are taken, or those of the first source.
    """
    grids: dict[str, tuple[ArrayHeader, NDArray[Any]]] = {}
    aligned: dict[tuple[str, str, bytes], NDArray[Any] | None] = {}
    noted: dict[str, list[str]] = {}
    found = []
    for header in headers if existing is None else [existing, *headers]:
        changed: dict[str, ArrayHeader] = {}
        for name, array in header.arrays.items():
            own = array.values
            if (
                own is None
                or own.dtype.kind != "f"
                or not array.is_index
                or is_time(array.attributes)
            ):
                continue
            first, grid = grids.setdefault(name, (array, np.unique(own)))
            key = (name, own.dtype.str, own.tobytes())
            if key in aligned:
                values = aligned[key]
            else:
                values = aligned[key] = align(own, grid)
                grids[name] = (first, np.union1d(grid, own if values is None else values))
            if values is not None:
                stored = {each: first.metadata[each] for each in _STORED}
                changed[name] = replace(array, metadata={**array.metadata, **stored}, values=values)
                noted.setdefault(name, []).append(header.name)
        found.append(replace(header, arrays={**header.arrays, **changed}) if changed else header)
    text = "its values differ from those of others in their last digits, and those are taken"
    return found[len(found) - len(headers) :], [
        Problem(ProblemKind.ROUNDED, name, text, tuple(files)) for name, files in noted.items()
    ]
