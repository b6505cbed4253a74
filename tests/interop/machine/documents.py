"""The `zarr.json` documents that programs set, and the axes that an array of some name has.

The official library accepts keys of chunks with any number of axes, so a name stands for its number
of axes: programs never use another one.
"""

import json
from collections.abc import Sequence
from typing import Any

_AXES = {"x": 1, "xy": 2, "s": 0}


def axes_of(path: str) -> int:
    """How many axes the array at a path has, if there is one."""
    return _AXES.get(path.rpartition("/")[2], 1)


def group(number: int = 0) -> bytes:
    """A group with an attribute."""
    return _encode({"node_type": "group", "attributes": {"n": number}})


def array(
    shape: Sequence[int],
    chunks: Sequence[int],
    number: int = 0,
    names: Sequence[str | None] | None = None,
) -> bytes:
    """An array whose chunks are all of one shape."""
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    return _array(shape, grid, number, names)


def rectilinear(shape: Sequence[int], chunks: Sequence[Any], number: int = 0) -> bytes:
    """An array whose chunks have lengths of their own along each axis."""
    configuration = {"kind": "inline", "chunk_shapes": list(chunks)}
    return _array(shape, {"name": "rectilinear", "configuration": configuration}, number, None)


def _array(
    shape: Sequence[int], grid: dict[str, Any], number: int, names: Sequence[str | None] | None
) -> bytes:
    document: dict[str, Any] = {
        "node_type": "array",
        "shape": list(shape),
        "data_type": "int8",
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": {"n": number},
    }
    if names is not None:
        document["dimension_names"] = list(names)
    return _encode(document)


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps({"zarr_format": 3, **document}).encode()
