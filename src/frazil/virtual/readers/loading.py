"""Values of arrays that are small enough to travel with their header."""

from collections.abc import Collection
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from virtualizarr.manifests import ManifestStore

from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.sources import ArrayHeader

# Coordinates of dimensions are needed to plan, but not at any price.
_LARGEST_INDEX_BYTES = 64 << 20
# What a value without a fixed size may well take.
_GUESSED_ITEM_BYTES = 16


def choose_loaded(header: ArrayHeader, load: Collection[str], small_bytes: int) -> bool:
    """Whether the values of an array are to be read with its header."""
    if header.obstacle is not None:
        return False
    size = int(np.prod(header.shape, dtype=np.int64)) * _item_bytes(header.metadata["data_type"])
    return (
        header.name in load
        or size <= small_bytes
        or (header.is_index and size <= _LARGEST_INDEX_BYTES)
    )


def load_values(store: ManifestStore, name: str) -> NDArray[Any]:
    """All values of an array, as stored."""
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
