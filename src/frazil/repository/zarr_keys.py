"""Zarr keys, array metadata and split regions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from frazil.errors import InvalidInputError, InvalidTypeError
from frazil.format.coordinates import Coordinates, Extents, rows_inside, split_rows
from frazil.format.header import Dialect
from frazil.format.metadata import MOST_AXES, ROOT, UINT64_MAX, find_path_problem
from frazil.format.snapshot import ArrayData, Dimension
from frazil.lazy import dataclass, lazy_modules

if TYPE_CHECKING:
    from frazil.format import draft, zarr_metadata
else:
    zarr_metadata, draft = lazy_modules("frazil.format.zarr_metadata", "frazil.format.draft")

METADATA = "zarr.json"
_SECOND_FORMAT = frozenset({".zgroup", ".zarray", ".zattrs", ".zmetadata"})
_LARGEST_INDEX = 2**32 - 1

Coordinate = tuple[int, ...]
"""Coordinate of one chunk, in chunks."""


@dataclass(frozen=True, slots=True)
class MetadataKey:
    """Key of a node's metadata."""

    path: str


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """Key of a chunk."""

    path: str
    coordinate: Coordinate


@dataclass(frozen=True, slots=True)
class SecondFormatKey:
    """Key of Zarr V2 metadata, which is not supported."""

    key: str


Key = MetadataKey | ChunkKey | SecondFormatKey


def parse_key(key: str) -> Key:
    """Parse a key; raises InvalidInputError if it is invalid."""
    if not isinstance(key, str):
        raise InvalidTypeError(f"invalid key {key!r}: expected a str, such as 'path/zarr.json'")
    head, _, name = key.rpartition("/")
    if name == METADATA:
        return MetadataKey(_node_path(head, key))
    if name in _SECOND_FORMAT:
        return SecondFormatKey(key)
    return _parse_chunk_key(key)


def _parse_chunk_key(key: str) -> ChunkKey:
    if key == "c" or key.endswith("/c"):
        return ChunkKey(_node_path(key[:-2], key), ())
    head, separator, tail = key.rpartition("/c/")
    if not separator:
        if not key.startswith("c/"):
            raise invalid_key(key)
        head, tail = "", key[2:]
    return ChunkKey(_node_path(head, key), _parse_coordinate(tail, key))


def _parse_coordinate(text: str, key: str) -> Coordinate:
    if not text.isascii() or "_" in text:
        raise invalid_key(key)
    try:
        coordinate = tuple(map(int, text.split("/")))
    except ValueError as error:
        raise invalid_key(key) from error
    if min(coordinate) < 0 or max(coordinate) > _LARGEST_INDEX or " " in text:
        raise invalid_key(key)
    return coordinate


def _node_path(head: str, key: str) -> str:
    path = head if head.startswith("/") else f"/{head}"
    # The full check is slow, and hardly any path needs it.
    is_odd = "//" in path or "/." in path or (path[-1] == "/" and path != ROOT)
    if (is_odd or not path.isascii()) and find_path_problem(path):
        raise invalid_key(key)
    return path


def invalid_key(key: str) -> InvalidInputError:
    """Return the error for an invalid key."""
    return InvalidInputError(f"{key!r} is not a Zarr key", kind="invalid-key")


def metadata_key(path: str) -> str:
    """Return the key of a node's metadata."""
    return METADATA if path == ROOT else f"{path[1:]}/{METADATA}"


def chunk_prefix(path: str) -> str:
    """Return the prefix of an array's chunk keys; the indices follow, each after a slash."""
    return "c" if path == ROOT else f"{path[1:]}/c"


def chunk_key(path: str, coordinate: Coordinate) -> str:
    """Return the key of a chunk."""
    return "/".join((chunk_prefix(path), *map(str, coordinate)))


def prefix_path(prefix: str) -> str:
    """Return the path of the node that a key prefix names: `` and `/` are the root."""
    return "/" + prefix.strip("/")


_LARGEST_COUNT = 2**32 - 1


def read_node_metadata(data: bytes, dialect: Dialect) -> ArrayData | None:
    """Parse a `zarr.json`: return the array without manifests, or None for a group.

    Raises InvalidInputError if it is invalid or not supported by the dialect.
    """
    document = _load(data)
    node_type = document.get("node_type")
    if node_type not in ("group", "array"):
        raise _bad(f"node_type is {node_type!r}, neither 'group' nor 'array'")
    if dialect.is_legacy:
        _refuse_what_has_no_place(data, dialect)
    return _read_array(document, dialect) if node_type == "array" else None


def _refuse_what_has_no_place(data: bytes, dialect: Dialect) -> None:
    pieces = zarr_metadata.decode_zarr_json(data)
    if dialect is Dialect.DRAFT and isinstance(pieces, zarr_metadata.ArrayMetadata):
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
        case "rectilinear" if dialect.has_repo_info:
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
    """Count the chunks of an axis, given as one length, or as lengths or pairs of length and count."""
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
    # Names that don't match the axes are dropped, not refused: Zarr itself refuses them.
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
    """Return True if an array's `zarr.json` has a rectilinear chunk grid."""
    grid = _load(data).get("chunk_grid")
    return isinstance(grid, dict) and grid.get("name") == "rectilinear"


SplitRegion = tuple[int, ...]
"""Index of a split region along each axis."""


class PathCondition(Protocol):
    """Condition that selects the arrays of a split rule."""

    def matches(self, path: str) -> bool:
        """Return True if the rule applies to the array at a path."""


class AxisCondition(Protocol):
    """Condition that selects the axes of a split size."""

    def matches(self, axis: int, dimension_name: str | None) -> bool:
        """Return True if the size applies to an axis."""


SplitRule = tuple[PathCondition, Sequence[tuple[AxisCondition, int]]]


@dataclass(frozen=True, slots=True)
class SplitGrid:
    """Split grid of one array."""

    shape: tuple[int, ...]
    """Number of chunks along each axis."""
    sizes: tuple[int, ...]
    """Number of chunks of a split region along each axis; the last region may have fewer."""

    @property
    def edges(self) -> list[list[int]]:
        """Return the boundaries of split regions for each axis: `0, s, 2s, …` and the end."""
        return [
            [*range(0, count, size), count]
            for count, size in zip(self.shape, self.sizes, strict=True)
        ]

    @property
    def everything(self) -> Extents:
        """Return the extents of all chunks."""
        return tuple((0, count) for count in self.shape)

    def count_regions(self) -> int:
        """Return the number of split regions."""
        return prod(-(-count // size) for count, size in zip(self.shape, self.sizes, strict=True))

    def extents(self, region: SplitRegion) -> Extents:
        """Return the extents of a split region."""
        return tuple(
            (number * size, min((number + 1) * size, count))
            for number, size, count in zip(region, self.sizes, self.shape, strict=True)
        )

    def regions_touching(self, box: Extents) -> Iterator[SplitRegion]:
        """Return the split regions that overlap a box; all of them if the box is empty."""
        ranges = [
            range(start // size, -(-min(stop, count) // size))
            for (start, stop), size, count in zip(
                box or self.everything, self.sizes, self.shape, strict=True
            )
        ]
        return product(*ranges)

    def split(self, coordinates: Coordinates) -> dict[SplitRegion, Coordinates]:
        """Group chunks by split region, without those outside the grid."""
        inside = coordinates[rows_inside(coordinates, self.everything)]
        return {region: inside[rows] for region, rows in split_rows(inside, self.edges).items()}


def plan_split(path: str, array: ArrayData, rules: Sequence[SplitRule]) -> SplitGrid:
    """Return the split grid of the array at a path."""
    names = array.dimension_names or (None,) * len(array.shape)
    sizes: list[int | None] = [None] * len(array.shape)
    for condition, axes in rules:
        if None not in sizes:
            break
        if not condition.matches(path):
            continue
        for axis, name in enumerate(names):
            if sizes[axis] is None:
                sizes[axis] = next((n for each, n in axes if each.matches(axis, name)), None)
    shape = tuple([each.num_chunks for each in array.shape])
    return SplitGrid(
        shape,
        tuple([max(1, size or count) for size, count in zip(sizes, shape, strict=True)]),
    )
