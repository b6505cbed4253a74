"""Zarr keys taken apart: which node, which chunk.

A key is `zarr.json` or `path/zarr.json`, `path/c/0/1` for a chunk, `path/c` for the chunk of an array
without axes. Keys of Zarr's second format are told apart from nonsense, because Zarr asks for them.
"""

from dataclasses import dataclass

from frazil.errors import InvalidInputError, InvalidTypeError
from frazil.format.paths import ROOT, find_path_problem

METADATA = "zarr.json"
_SECOND_FORMAT = frozenset({".zgroup", ".zarray", ".zattrs", ".zmetadata"})
_LARGEST_INDEX = 2**32 - 1

Coordinate = tuple[int, ...]
"""Of one chunk, in chunks."""


@dataclass(frozen=True, slots=True)
class MetadataKey:
    """The metadata of a node."""

    path: str


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """A chunk of an array."""

    path: str
    coordinate: Coordinate


@dataclass(frozen=True, slots=True)
class SecondFormatKey:
    """Metadata of Zarr's second format, of which there is none."""

    key: str


Key = MetadataKey | ChunkKey | SecondFormatKey


def parse_key(key: str) -> Key:
    """Take a key apart; raises InvalidInputError where it is none."""
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
    # The check is slow, and hardly any path has what it looks for.
    is_odd = "//" in path or "/." in path or (path[-1] == "/" and path != ROOT)
    if (is_odd or not path.isascii()) and find_path_problem(path):
        raise invalid_key(key)
    return path


def invalid_key(key: str) -> InvalidInputError:
    """The error that says so."""
    return InvalidInputError(f"{key!r} is no Zarr key", kind="invalid-key")


def metadata_key(path: str) -> str:
    """The key of a node's metadata."""
    return METADATA if path == ROOT else f"{path[1:]}/{METADATA}"


def chunk_prefix(path: str) -> str:
    """What the keys of an array's chunks start with: the indices follow, each after a slash."""
    return "c" if path == ROOT else f"{path[1:]}/c"


def chunk_key(path: str, coordinate: Coordinate) -> str:
    """The key of a chunk."""
    return "/".join((chunk_prefix(path), *map(str, coordinate)))


def prefix_path(prefix: str) -> str:
    """The node that a prefix without its key stands for: `` and `/` are the root."""
    return "/" + prefix.strip("/")
