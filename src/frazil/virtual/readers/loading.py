"""Values of arrays that are small enough to travel with their header."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers.found import Loading
from frazil.virtual.sources import ArrayHeader
from frazil.virtual.sources.headers import find_bounds

# Coordinates of dimensions are needed to plan, but not at any price.
_LARGEST_INDEX_BYTES = 64 << 20
# What a value without a fixed size may well take.
_GUESSED_ITEM_BYTES = 16


def choose_loaded(header: ArrayHeader, loading: Loading) -> bool:
    """Whether the values of an array are to be read with its header."""
    if header.obstacle is not None:
        return False
    size = _count_bytes(header)
    return (
        header.name in loading.names
        or size <= loading.small_bytes
        or (header.is_index and size <= _LARGEST_INDEX_BYTES)
    )


def find_unread_bounds(headers: Mapping[str, ArrayHeader]) -> list[str]:
    """Return the bounds of times that have no values yet.

    They are needed with the header: files that count from different moments have to be converted.
    """
    return [
        name
        for name in find_bounds(headers)
        if (header := headers[name]).values is None
        and header.obstacle is None
        and _count_bytes(header) <= _LARGEST_INDEX_BYTES
    ]


def load_values(store: Any, name: str) -> NDArray[Any]:
    """All values of an array in a Zarr store, as stored."""
    with without_codec_warnings():
        array = zarr.open_array(store, path=name, mode="r", zarr_format=3)
        return np.asarray(array[...])


def _count_bytes(header: ArrayHeader) -> int:
    return prod(header.shape) * _item_bytes(header.metadata["data_type"])


def _item_bytes(data_type: Any) -> int:
    match data_type:
        case str():
            try:
                return np.dtype(data_type).itemsize
            except TypeError:
                return _GUESSED_ITEM_BYTES
        case {"configuration": {"length_bytes": int(length)}}:
            return length
    return _GUESSED_ITEM_BYTES
