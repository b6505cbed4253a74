"""Values of arrays that are small enough to travel with their header."""

from math import prod
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers.found import Loading
from frazil.virtual.sources import ArrayHeader

# Coordinates of dimensions are needed to plan, but not at any price.
_LARGEST_INDEX_BYTES = 64 << 20
# What a value without a fixed size may well take.
_GUESSED_ITEM_BYTES = 16


def choose_loaded(header: ArrayHeader, loading: Loading) -> bool:
    """Whether the values of an array are to be read with its header."""
    if header.obstacle is not None:
        return False
    size = prod(header.shape) * _item_bytes(header.metadata["data_type"])
    return (
        header.name in loading.names
        or size <= loading.small_bytes
        or (header.is_index and size <= _LARGEST_INDEX_BYTES)
    )


def load_values(store: Any, name: str) -> NDArray[Any]:
    """All values of an array in a Zarr store, as stored."""
    with without_codec_warnings():
        array = zarr.open_array(store, path=name, mode="r", zarr_format=3)
        return np.asarray(array[...])


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
