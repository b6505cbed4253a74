"""The keys of chunks in a plain Zarr hierarchy, as its metadata says: pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.errors import InvalidInputError

METADATA = "zarr.json"
Document = dict[str, Any]
"""Metadata, decoded."""
GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
"""The metadata of a group that nobody has said anything about."""
DEFAULT_ENCODING: Mapping[str, Any] = {"name": "default", "configuration": {"separator": "/"}}


@dataclass(frozen=True, slots=True)
class ChunkKeys:
    """How coordinates become the keys of an array's chunks."""

    prefix: str
    """Of the array: empty, or with a slash at its end."""
    separator: str
    is_default: bool
    """Whether keys begin with a `c`, as those of Zarr V2 don't."""

    def spell(self, coordinate: Sequence[int]) -> str:
        """The key of a chunk."""
        parts = list(map(str, coordinate))
        if self.is_default:
            return self.prefix + self.separator.join(["c", *parts])
        return self.prefix + (self.separator.join(parts) or "0")

    def parse(self, key: str, axes: int) -> tuple[int, ...] | None:
        """The coordinate of a chunk, if it is the key of one."""
        parts = key.removeprefix(self.prefix).split(self.separator)
        if self.is_default and axes:
            parts = parts[1:]
        if len(parts) != axes or not all(each.isascii() and each.isdigit() for each in parts):
            return None
        coordinate = tuple(map(int, parts))
        return coordinate if self.spell(coordinate) == key else None


def find_keys(document: Mapping[str, Any], prefix: str) -> ChunkKeys:
    """The keys of an array by its `zarr.json`; raises InvalidInputError for an unknown encoding."""
    encoding = document.get("chunk_key_encoding", DEFAULT_ENCODING)
    if isinstance(encoding, str):
        encoding = {"name": encoding}
    name = encoding.get("name")
    if name not in ("default", "v2"):
        raise InvalidInputError(f"{prefix}: the chunk key encoding {name!r} is not known")
    usual = "/" if name == "default" else "."
    separator = encoding.get("configuration", {}).get("separator", usual)
    return ChunkKeys(prefix, str(separator), name == "default")


def folder_of(path: str, root: str) -> str:
    """What the keys of a node begin with in a hierarchy whose root is a node: '' or 'a/b/'."""
    below = path[len(root.rstrip("/")) :].strip("/")
    return f"{below}/" if below else ""


def consolidate(nodes: Mapping[str, bytes]) -> bytes:
    """The metadata of a root with that of all nodes below in it, by their folders; '' is the root."""
    root: dict[str, Any] = json.loads(nodes[""])
    below = {
        folder.rstrip("/"): json.loads(data) for folder, data in sorted(nodes.items()) if folder
    }
    kind = {"kind": "inline", "must_understand": False, "metadata": below}
    return encode_document({**root, "consolidated_metadata": kind})


def count_chunk_bytes(document: Mapping[str, Any]) -> int:
    """About how many bytes a chunk of an array has when it is not compressed."""
    items = 1
    for size in document.get("chunk_grid", {}).get("configuration", {}).get("chunk_shape", ()):
        items *= size if isinstance(size, int) else 1
    digits = "".join(each for each in str(document.get("data_type")) if each.isdigit())
    return items * max(int(digits[:3] or 64) // 8, 1)


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Metadata as it is stored."""
    return json.dumps(document).encode()
