"""The metadata of combined arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from frazil.virtual.sources.headers import Metadata

_INLINE_CHUNK_ITEMS = 1 << 19
# What turns an array into bytes; the codecs before and after it are filters and compressors.
_SERIALIZERS = frozenset(("bytes", "vlen-utf8", "vlen-bytes"))
_COMPRESSOR = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}


def with_shape(metadata: Metadata, shape: Sequence[int]) -> dict[str, Any]:
    """The metadata of an array that is larger, and stored the same way."""
    return {**metadata, "shape": list(shape)}


def for_values(
    metadata: Metadata, shape: Sequence[int], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """The metadata of an array whose values are written anew: large chunks, one compressor."""
    kept = [each for each in metadata["codecs"] if each["name"] in _SERIALIZERS]
    return {
        **metadata,
        "shape": list(shape),
        "attributes": dict(attributes),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": _large_chunks(shape)},
        },
        "codecs": [
            *(kept or [{"name": "bytes", "configuration": {"endian": "little"}}]),
            _COMPRESSOR,
        ],
    }


def _large_chunks(shape: Sequence[int]) -> list[int]:
    """As much of the array as is comfortable, cut along its first axis."""
    if not shape:
        return []
    row_items = max(1, int(np.prod(shape[1:], dtype=np.int64)))
    rows = max(1, min(shape[0], _INLINE_CHUNK_ITEMS // row_items))
    return [rows, *(max(1, extent) for extent in shape[1:])]
