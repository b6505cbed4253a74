"""Where the chunks of a dataset are."""

from math import prod
from typing import Any

import numpy as np
from h5py import h5d
from numpy.typing import NDArray

from frazil.virtual.sources import ReferenceColumns
from frazil.virtual.sources.columns import no_references

Shape = tuple[int, ...]


def chunk_shape_of(shape: Shape, stored: Shape | None, filters: int) -> Shape:
    """The chunk shape of an array, which HDF5 lets be larger than the array.

    A chunk that only goes beyond the end of the first axis is cut there, if nothing is to be decoded:
    what is left is the start of its bytes, and arrays of such chunks can follow each other.
    """
    if stored is None:
        return tuple(max(extent, 1) for extent in shape)
    cut = tuple(min(step, max(extent, 1)) for step, extent in zip(stored, shape, strict=True))
    return cut if not filters and cut[1:] == stored[1:] else stored


def find_contiguous(dataset: Any, axes: int, location: str) -> ReferenceColumns:
    """The reference to a dataset that is in one piece, if any of it was written."""
    offset, length = dataset.get_offset(), dataset.get_storage_size()
    if offset is None or length == 0:
        return no_references(axes)
    lengths = np.array([length], np.uint64)
    return _columns(np.zeros((1, axes), np.int64), np.array([offset], np.uint64), lengths, location)


def find_chunks(
    dataset: Any, shape: Shape, stored: Shape, chunk_shape: Shape, item_bytes: int, location: str
) -> tuple[ReferenceColumns, bool]:
    """References to all chunks that were written, and whether all went through all filters."""
    infos: list[h5d.StoreInfo] = []
    dataset.chunk_iter(infos.append)
    if not infos:
        return no_references(len(shape)), True
    steps = np.array(chunk_shape, np.int64)
    grid = -(-np.array(shape, np.int64) // steps)
    starts, masks, byte_offsets, sizes = zip(*infos, strict=True)
    places = np.array(starts, np.int64) // steps
    offsets = np.array(byte_offsets, np.uint64)
    if chunk_shape == stored:
        lengths = np.array(sizes, np.uint64)
    else:
        lengths = np.full(len(infos), prod(chunk_shape) * item_bytes, np.uint64)
    rows = _order(places, grid)
    if rows is not None:
        places, offsets, lengths = places[rows], offsets[rows], lengths[rows]
    return _columns(places, offsets, lengths, location), not any(masks)


def _order(places: NDArray[np.int64], grid: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The rows by their place, without those beyond the array; None where that is how they are."""
    rows = None
    if not (places < grid).all():
        rows = np.flatnonzero(np.all(places < grid, axis=1))
    numbers = np.ravel_multi_index(
        tuple((places if rows is None else places[rows]).T), grid.tolist()
    )
    if (numbers[1:] > numbers[:-1]).all():
        return rows
    sorting = np.argsort(numbers)
    return sorting if rows is None else rows[sorting]


def _columns(
    places: NDArray[np.int64],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    location: str,
) -> ReferenceColumns:
    return ReferenceColumns(
        coordinates=places,
        location_codes=np.zeros(len(places), np.int32),
        locations=(location,),
        offsets=offsets,
        lengths=lengths,
        inline_coordinates=np.empty((0, places.shape[1]), np.int64),
    )
