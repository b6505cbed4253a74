"""One dataset of HDF5 as the header and the references of an array."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from h5py import h5d, h5s, h5z
from numpy.typing import NDArray

from frazil.virtual.readers.found import Loading
from frazil.virtual.readers.hdf5.attributes import (
    NotPlainError,
    encode_fill_value,
    find_plain_dtype,
    read_attributes,
)
from frazil.virtual.readers.hdf5.chunks import chunk_shape_of, find_chunks, find_contiguous
from frazil.virtual.readers.hdf5.dims import dims_of
from frazil.virtual.readers.hdf5.filters import filters_of
from frazil.virtual.readers.hdf5.metadata import Kind, make_metadata
from frazil.virtual.readers.hdf5.refusals import NotReadable, RefusedError
from frazil.virtual.readers.hdf5.texts import (
    TEXT,
    encode_texts,
    is_text,
    read_texts,
    text_chunk_shape,
)
from frazil.virtual.readers.loading import choose_loaded
from frazil.virtual.sources import ArrayHeader, ReferenceColumns
from frazil.virtual.sources.columns import no_references

Described = tuple[ArrayHeader, ReferenceColumns]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What datasets of one group have in common."""

    location: str
    """Of the file, as references have it."""
    group: str
    loading: Loading


def describe(dataset: Any, name: str, around: Surroundings) -> Described:
    """What a dataset holds; one that can't be referred to has the reason for it."""
    space = dataset.get_space()
    shape: Shape = ()
    try:
        if space.get_simple_extent_type() == h5s.NULL:
            raise RefusedError("it is an HDF5 dataset without a shape")
        shape = tuple(space.get_simple_extent_dims())
        return _describe(dataset, name, shape, around)
    except (RefusedError, NotPlainError, UnicodeDecodeError) as error:
        return ArrayHeader(name, {"shape": shape}, None, str(error)), no_references(len(shape))


def _describe(dataset: Any, name: str, shape: Shape, around: Surroundings) -> Described:
    plain = find_plain_dtype(dataset.get_type())
    dtype = np.dtype(plain) if plain else dataset.dtype
    if not plain and is_text(dtype):
        return _describe_texts(dataset, name, shape, around)
    _refuse_pointers(dtype)
    properties = dataset.get_create_plist()
    layout = properties.get_layout()
    stored = tuple(properties.get_chunk()) if layout == h5d.CHUNKED else None
    filters = filters_of(properties)
    chunk_shape = chunk_shape_of(shape, stored, len(filters))
    metadata = make_metadata(
        Kind(dtype, _fill_bytes(properties, dtype), filters),
        shape,
        chunk_shape,
        dims_of(dataset, name, len(shape), around.group),
        _attributes(dataset, dtype),
    )
    header = ArrayHeader(name, metadata)
    if layout == h5d.COMPACT:
        return _inline_compact(dataset, header, dtype)
    obstacle = None
    if stored is not None:
        columns, is_filtered = find_chunks(
            dataset, shape, stored, chunk_shape, dtype.itemsize, around.location
        )
        if not is_filtered:
            obstacle = "some of its chunks were stored without the filters of the others"
    else:
        columns = find_contiguous(dataset, len(shape), around.location)
    header = replace(header, obstacle=_elsewhere(layout, properties) or obstacle)
    if choose_loaded(header, around.loading):
        header = replace(header, values=_load(dataset, shape, dtype, filters))
    return header, columns


def _elsewhere(layout: int, properties: Any) -> str | None:
    if layout == h5d.VIRTUAL:
        return "it is a virtual dataset of HDF5, whose values are in other files"
    if properties.get_external_count():
        return "its values are in external files of HDF5"
    return None


def _refuse_pointers(dtype: np.dtype[Any]) -> None:
    """Values outside of the chunks can't be referred to."""
    if dtype.kind == "O":
        raise RefusedError(
            "its chunks have no values but pointers: lists of any length, or references"
        )
    if dtype.names is not None and any(dtype[each].hasobject for each in dtype.names):
        raise NotReadable("records with texts of any length")


def _fill_bytes(properties: Any, dtype: np.dtype[Any]) -> bytes:
    value = np.zeros((1,), dtype)
    try:
        properties.get_fill_value(value)
    except RuntimeError:  # it was said that there is none
        value[0] = np.ma.default_fill_value(dtype)
    return value.tobytes()


def _attributes(dataset: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    found = read_attributes(dataset)
    if "_FillValue" in found:
        found["_FillValue"] = encode_fill_value(found["_FillValue"], dtype)
    return found


def _inline_compact(dataset: Any, header: ArrayHeader, dtype: np.dtype[Any]) -> Described:
    """A dataset inside of the header: one chunk, without filters, and here."""
    values = np.empty(header.shape, dtype)
    dataset.read(h5s.ALL, h5s.ALL, values)
    columns = replace(
        no_references(values.ndim),
        inline_coordinates=np.zeros((1, values.ndim), np.int64),
        inline_chunks=(values.tobytes(),),
    )
    return replace(header, values=values), columns


def _load(dataset: Any, shape: Shape, dtype: np.dtype[Any], filters: Any) -> NDArray[Any]:
    if not all(h5z.filter_avail(code) for code, _, _ in filters):
        raise NotReadable("values behind a filter that HDF5 does not have")
    values = np.empty(shape, dtype.newbyteorder("="))
    if prod(shape):
        dataset.read(h5s.ALL, h5s.ALL, values)
    return values


def _describe_texts(dataset: Any, name: str, shape: Shape, around: Surroundings) -> Described:
    properties = dataset.get_create_plist()
    stored = tuple(properties.get_chunk()) if properties.get_layout() == h5d.CHUNKED else None
    chunk_shape = text_chunk_shape(shape, stored)
    fill = _fill_text(properties, dataset.dtype)
    metadata = make_metadata(
        Kind(TEXT, fill), shape, chunk_shape,
        dims_of(dataset, name, len(shape), around.group), read_attributes(dataset),
    )  # fmt: skip
    header = ArrayHeader(name, metadata, None, _elsewhere(properties.get_layout(), properties))
    texts = read_texts(dataset, shape, dataset.dtype)
    if choose_loaded(header, around.loading):
        filled = np.full(shape, fill, object) if texts is None else texts
        # A single text is as Zarr gives it.
        values = filled.astype(TEXT) if shape else np.asarray(filled[()])
        header = replace(header, values=values)
    return header, encode_texts(texts, chunk_shape, fill)


def _fill_text(properties: Any, dtype: np.dtype[Any]) -> str:
    value = np.zeros((1,), dtype)
    try:
        properties.get_fill_value(value)
    except RuntimeError:
        return ""
    found = value[0] or b""
    return found.decode() if isinstance(found, bytes) else str(found)
