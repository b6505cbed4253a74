"""What the engine reads in a `zarr.json`: group or array, and the chunk grid of an array.

The bytes are kept as they are given. Only the type of the node, the shape, the chunk grid and the
names of the dimensions are looked at.
"""

import json
from collections.abc import Mapping
from typing import Any

from frazil.errors import InvalidInputError
from frazil.format import draft
from frazil.format.checked import MOST_AXES, UINT64_MAX
from frazil.format.dialect import Dialect
from frazil.format.snapshot import ArrayData, Dimension
from frazil.format.zarr_metadata import ArrayMetadata, decode_zarr_json

_LARGEST_COUNT = 2**32 - 1


def read_node_metadata(data: bytes, dialect: Dialect) -> ArrayData | None:
    """The array that a `zarr.json` describes, without its chunks; None if it describes a group.

    Raises InvalidInputError, also for what the dialect can't hold.
    """
    document = _load(data)
    node_type = document.get("node_type")
    if node_type not in ("group", "array"):
        raise _bad(f"node_type is {node_type!r}, neither 'group' nor 'array'")
    if dialect not in (Dialect.V1, Dialect.V2):
        _refuse_what_has_no_place(data, dialect)
    return _read_array(document, dialect) if node_type == "array" else None


def _refuse_what_has_no_place(data: bytes, dialect: Dialect) -> None:
    pieces = decode_zarr_json(data)
    if dialect is Dialect.DRAFT and isinstance(pieces, ArrayMetadata):
        draft.refuse_data_type(pieces.data_type)


def _load(data: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad(f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise _bad(f"it is a {type(document).__name__}, no object")
    return document


def _read_array(document: Mapping[str, Any], dialect: Dialect) -> ArrayData:
    shape = _integers("shape", document.get("shape"))
    grid = _object("chunk_grid", document.get("chunk_grid"))
    configuration = _object("chunk_grid.configuration", grid.get("configuration"))
    match grid.get("name"):
        case "regular":
            dimensions = _regular(shape, configuration)
        case "rectilinear" if dialect is Dialect.V2:
            dimensions = _rectilinear(shape, configuration)
        case "rectilinear":
            raise _bad(f"a repository of the generation {dialect.value} has no rectilinear grids")
        case name:
            raise _bad(f"chunk_grid is {name!r}, neither 'regular' nor 'rectilinear'")
    return ArrayData(dimensions, _names(document.get("dimension_names"), len(shape)))


def _regular(shape: tuple[int, ...], configuration: Mapping[str, Any]) -> tuple[Dimension, ...]:
    chunks = _integers("chunk_shape", configuration.get("chunk_shape"))
    if len(chunks) != len(shape):
        raise _bad(f"chunk_shape has {len(chunks)} axes, shape has {len(shape)}")
    return tuple(
        _dimension(length, -(-length // chunk) if chunk else 0, chunk)
        for length, chunk in zip(shape, chunks, strict=True)
    )


def _rectilinear(shape: tuple[int, ...], configuration: Mapping[str, Any]) -> tuple[Dimension, ...]:
    axes = configuration.get("chunk_shapes")
    if not isinstance(axes, list) or len(axes) != len(shape):
        raise _bad(f"chunk_shapes needs a list for each of {len(shape)} axes")
    return tuple(
        _dimension(length, _count_chunks(length, axis), None)
        for length, axis in zip(shape, axes, strict=True)
    )


def _count_chunks(length: int, axis: Any) -> int:
    """Chunks of an axis: a number for all of them, or lengths, or pairs of a length and a count."""
    if isinstance(axis, int):
        return -(-length // axis) if axis > 0 else 0
    if not isinstance(axis, list):
        raise _bad(f"chunk_shapes has {axis!r} where the lengths of an axis should be")
    count, covered = 0, 0
    for item in axis:
        size, times = item if isinstance(item, list) and len(item) == 2 else (item, 1)
        if not _is_count(size) or not _is_count(times):
            raise _bad(f"chunk_shapes has {item!r} where a length should be")
        count += times
        covered += size * times
    if covered < length:
        raise _bad(f"chunk_shapes cover {covered} of {length} elements")
    return count


def _dimension(length: int, count: int, chunk: int | None) -> Dimension:
    if count > _LARGEST_COUNT:
        raise _bad(f"{count} chunks along one axis, {_LARGEST_COUNT} are the most")
    return Dimension(length, count, chunk)


def _names(names: Any, axes: int) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(n, str | None) for n in names):
        raise _bad("dimension_names are neither texts nor null")
    # Names that do not go with the axes are no reason to refuse what Zarr itself will refuse.
    return tuple(name or None for name in names) if len(names) == axes else None


def _integers(what: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(map(_is_count, value)):
        raise _bad(f"{what} is {value!r}, no list of lengths")
    if len(value) > MOST_AXES:
        raise _bad(f"{what} has {len(value)} axes, {MOST_AXES} are the most")
    return tuple(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= UINT64_MAX


def _object(what: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _bad(f"{what} is {value!r}, no object")
    return value


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError(f"zarr.json: {problem}", kind="bad-metadata")


def is_rectilinear(data: bytes) -> bool:
    """Whether an array's `zarr.json` gives its chunks sizes of their own."""
    grid = _load(data).get("chunk_grid")
    return isinstance(grid, dict) and grid.get("name") == "rectilinear"
