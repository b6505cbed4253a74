"""Texts of any length: their chunks hold no more than pointers, so that they become chunks anew."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import h5py
import numpy as np
from h5py import h5s
from numcodecs.vlen import VLenUTF8
from numpy.typing import NDArray

from frazil.virtual.sources import ReferenceColumns
from frazil.virtual.sources.columns import no_references

Shape = tuple[int, ...]

TEXT = np.dtypes.StringDType()
"""The type that Zarr has for them."""


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether values are texts of any length, of either character set."""
    return h5py.check_vlen_dtype(dtype) in (str, bytes)


def text_chunk_shape(shape: Shape, stored: Shape | None) -> Shape:
    """The shape of their chunks, which never go beyond the array."""
    steps = shape if stored is None else stored
    return tuple(max(min(step, extent), 1) for step, extent in zip(steps, shape, strict=True))


def read_texts(dataset: Any, shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """All texts of a dataset; None where nobody wrote any. Raises UnicodeDecodeError."""
    if 0 in shape or dataset.get_storage_size() == 0:
        return None
    raw = np.empty(shape, dtype)
    dataset.read(h5s.ALL, h5s.ALL, raw)
    texts = np.empty(raw.size, object)
    texts[:] = [each.decode() if isinstance(each, bytes) else each for each in raw.flat]
    return texts.reshape(shape)


def encode_texts(texts: NDArray[Any] | None, chunk_shape: Shape, fill: str) -> ReferenceColumns:
    """Texts as chunks that come with the header."""
    columns = no_references(len(chunk_shape))
    if texts is None:
        return columns
    encode = VLenUTF8().encode
    counts = [-(-extent // step) for extent, step in zip(texts.shape, chunk_shape, strict=True)]
    places = list(product(*map(range, counts)))
    chunks = []
    for place in places:
        region = [slice(i * s, (i + 1) * s) for i, s in zip(place, chunk_shape, strict=True)]
        part = _view(texts, region)
        chunk = np.full(chunk_shape, fill, object)
        _view(chunk, [slice(0, extent) for extent in part.shape])[...] = part
        chunks.append(bytes(encode(np.ascontiguousarray(chunk))))
    return ReferenceColumns(
        coordinates=columns.coordinates,
        location_codes=columns.location_codes,
        locations=(),
        offsets=columns.offsets,
        lengths=columns.lengths,
        inline_coordinates=np.array(places, np.int64).reshape(len(places), len(chunk_shape)),
        inline_chunks=tuple(chunks),
    )


def _view(values: NDArray[Any], region: Sequence[slice]) -> NDArray[Any]:
    """A region as an array, also where there are no axes."""
    index: Any = (*region, ...)
    found: NDArray[Any] = values[index]
    return found
