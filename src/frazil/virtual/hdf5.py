"""Read HDF5 and NetCDF4 with h5py's low-level calls, directly into headers and columns."""

import base64
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import h5py
import numpy as np
import obstore
from h5py import h5, h5a, h5d, h5ds, h5f, h5fd, h5g, h5i, h5l, h5o, h5p, h5s, h5t, h5z
from numcodecs.vlen import VLenUTF8
from numpy.lib.recfunctions import repack_fields
from numpy.typing import NDArray
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore
from zarr.core.buffer import default_buffer_prototype
from zarr.core.dtype import parse_data_type
from zarr.core.metadata.v3 import ArrayV3Metadata

from frazil.errors import IcechunkError, InvalidInputError
from frazil.storage.ranges import BlockFile
from frazil.virtual.source import (
    PHONY,
    ArrayHeader,
    ReferenceColumns,
    name_phony_dims,
    no_references,
)
from frazil.virtual.source_formats import (
    INTERRUPTIONS,
    FoundGroup,
    Loading,
    NotReadable,
    RefusedError,
    SourceStores,
    escape_url,
    find_unread_bounds,
    first_line,
    is_loaded,
    without_codec_warnings,
)

# Internal attributes of NetCDF4 and of dimension scales.
_HIDDEN = frozenset(
    (
        b"REFERENCE_LIST", b"CLASS", b"DIMENSION_LIST", b"NAME", b"_Netcdf4Dimid",
        b"_Netcdf4Coordinates", b"_nc3_strict", b"_NCProperties",
    )
)  # fmt: skip
_SCALE = "DIMENSION_SCALE"
_ORDERS = {h5t.ORDER_LE: "<", h5t.ORDER_BE: ">"}


Shape = tuple[int, ...]


class NotPlainError(ValueError):
    """Attribute that JSON can't represent."""


def read_attributes(owner: Any) -> dict[str, Any]:
    """Return the user's attributes of an object; raise NotPlainError or UnicodeDecodeError."""
    names: list[bytes] = []
    h5a.iterate(owner, lambda name, *_: names.append(name))
    found = {}
    for name in names:
        if name not in _HIDDEN:
            value = _read(owner, name)
            if value != _SCALE:
                found[name.decode("utf-8", "surrogateescape")] = value
    return found


def encode_fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """Encode the attribute `_FillValue` as Xarray writes it to Zarr; raise NotPlainError."""
    if dtype.kind in "SUOT":
        return value
    if isinstance(value, bool | int | float | complex):
        match dtype.kind:
            case "b":
                return bool(value)
            case "i" | "u" if not isinstance(value, complex):
                return int(value)
            case "f" if not isinstance(value, complex):
                return _encode_float(value)
            case "c" if isinstance(value, complex):
                return [_encode_float(value.real), _encode_float(value.imag)]
    raise NotPlainError(f"its attribute _FillValue is {value!r}, which is no {dtype}")


def _encode_float(value: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", value)).decode()


def _read(owner: Any, name: bytes) -> Any:
    attribute = h5a.open(owner, name)
    space = attribute.get_space()
    if space.get_simple_extent_type() == h5s.NULL:
        return ""
    kind = attribute.get_type()
    shape = space.get_simple_extent_dims()
    if isinstance(kind, h5t.TypeStringID):
        return _read_texts(attribute, kind, shape)
    dtype = find_plain_dtype(kind)
    if dtype is None:
        return _read_slowly(owner, name)
    values = np.zeros(shape, dtype)
    if values.size:
        attribute.read(values, mtype=kind)
    return _to_plain(values, name)


@lru_cache(maxsize=64)
def _make_kind(dtype: str) -> Any:
    return h5t.py_create(np.dtype(dtype))


def find_plain_dtype(kind: Any) -> str | None:
    """Return the dtype of plain numbers in few calls, or None for other types."""
    size, order = kind.get_size(), None
    if type(kind) in (h5t.TypeIntegerID, h5t.TypeFloatID) and size in (1, 2, 4, 8):
        order = _ORDERS.get(kind.get_order())
    if order is None:
        return None
    if type(kind) is h5t.TypeIntegerID:
        is_plain = kind.get_precision() == 8 * size
        return f"{order}{'i' if kind.get_sign() else 'u'}{size}" if is_plain else None
    return f"{order}f{size}" if size > 1 and kind.equal(_make_kind(f"{order}f{size}")) else None


def _find_converted(kind: Any) -> str | None:
    """Return why bytes of numbers are not those of memory, if HDF5 must convert them."""
    parts: list[Any] = []
    if isinstance(kind, h5t.TypeCompoundID):
        parts = [kind.get_member_type(each) for each in range(kind.get_nmembers())]
        if kind.get_size() != sum(each.get_size() for each in parts):
            return "its records have unused bytes between their fields"
    elif isinstance(kind, h5t.TypeEnumID | h5t.TypeArrayID):
        parts = [kind.get_super()]
    elif isinstance(kind, h5t.TypeIntegerID | h5t.TypeFloatID) and find_plain_dtype(kind) is None:
        form = f"{kind.get_precision()} of {8 * kind.get_size()} bits from bit {kind.get_offset()}"
        return f"its numbers have a form of their own, which only HDF5 reads: {form}"
    return next(filter(None, map(_find_converted, parts)), None)


def _read_texts(attribute: Any, kind: Any, shape: tuple[int, ...]) -> Any:
    is_variable = kind.is_variable_str()
    found = np.zeros(shape, h5t.string_dtype() if is_variable else f"S{kind.get_size()}")
    if not is_variable and not shape and kind.get_strpad() == h5t.STR_NULLTERM:
        attribute.read(found, mtype=kind)
        return _decode(found.tobytes().partition(b"\0")[0]) or " "
    if found.size:
        attribute.read(found)
    words = [_decode(each) for each in found.flat]
    if not shape or (is_variable and len(words) == 1):
        return words[0] or ("" if is_variable else " ")
    return np.array(words, object).reshape(shape).tolist()


def _decode(text: bytes) -> str:
    """Decode the text of an attribute, which in old files is Latin-1 where it isn't UTF-8."""
    with suppress(UnicodeDecodeError):
        return text.decode()
    return text.decode("latin-1")


def _read_slowly(owner: Any, name: bytes) -> Any:
    """Read an attribute of a rare type with h5py's high-level interface."""
    kind = h5py.Dataset if isinstance(owner, h5d.DatasetID) else h5py.Group
    return _to_plain(kind(owner).attrs[name], name)


def _to_plain(value: Any, name: bytes) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return value.item() if value.size == 1 else value.tolist()
    raise NotPlainError(f"its attribute {_decode(name)} is {value!r}, which has no place in JSON")


def chunk_shape_of(shape: Shape, stored: Shape | None, filters: int) -> Shape:
    """Return the chunk shape of an array; in HDF5 a chunk may be larger than the array.

    An unfiltered chunk that only exceeds the first axis is shortened: what is left is the start of its
    bytes, and arrays with such chunks can be concatenated.
    """
    if stored is None:
        return tuple(max(extent, 1) for extent in shape)
    cut = tuple(min(step, max(extent, 1)) for step, extent in zip(stored, shape, strict=True))
    return cut if not filters and cut[1:] == stored[1:] else stored


def find_contiguous(dataset: Any, axes: int, location: str) -> ReferenceColumns:
    """Return the reference to a contiguous dataset, none if it was never written."""
    offset, length = dataset.get_offset(), dataset.get_storage_size()
    if offset is None or length == 0:
        return no_references(axes)
    lengths = np.array([length], np.uint64)
    return _columns(np.zeros((1, axes), np.int64), np.array([offset], np.uint64), lengths, location)


def find_chunks(
    dataset: Any, shape: Shape, stored: Shape, chunk_shape: Shape, item_bytes: int, location: str
) -> tuple[ReferenceColumns, bool]:
    """Return references to all written chunks, and whether all passed through all filters."""
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
    """Return the rows inside the array, sorted by position; None if they are already in order."""
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


def dims_of(dataset: Any, name: str, axes: int, group: str) -> list[str]:
    """Return the name of each axis, relative to the group if inside; unnamed axes are numbered."""
    has_scales = h5a.exists(dataset, b"DIMENSION_LIST")
    is_scale = h5ds.is_scale(dataset)
    found = []
    for axis in range(axes):
        scales = _scale_names(dataset, axis) if has_scales else []
        if len(scales) == 1:
            path = scales[0].decode("utf-8", "surrogateescape")
            found.append(path.removeprefix(f"/{group}" if group else "").removeprefix("/"))
        elif is_scale:
            found.append(name)
        elif scales:
            raise RefusedError(f"its axis {axis} has {len(scales)} dimension scales")
        else:
            found.append(f"{PHONY}{axis}")
    return found


def _scale_names(dataset: Any, axis: int) -> list[bytes]:
    names: list[bytes] = []
    if h5ds.get_num_scales(dataset, axis):
        h5ds.iterate(dataset, axis, lambda scale: names.append(h5i.get_name(scale)))
    return names


Filter = tuple[int, tuple[int, ...], bytes]
"""Filter id, parameters and name."""

# Filter ids that the HDF Group has registered for third parties.
_BLOSC, _ZSTD = 32001, 32015
_BLOSC_NAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_NAMES = {h5z.FILTER_LZF: "lzf", h5z.FILTER_SZIP: "szip", h5z.FILTER_SCALEOFFSET: "scale-offset"}


def _to_codec(code: int, values: tuple[int, ...], name: bytes) -> dict[str, Any]:
    if code == h5z.FILTER_DEFLATE:
        return _codec("zlib", level=values[0])
    if code == h5z.FILTER_SHUFFLE:
        return _codec("shuffle", elementsize=values[0])
    if code == h5z.FILTER_FLETCHER32:
        return _codec("fletcher32")
    if code == _ZSTD:
        return _codec("zstd", level=values[0] if values else 0, checksum=False)
    if code == _BLOSC and len(values) >= 7 and values[6] < len(_BLOSC_NAMES):
        blocksize, clevel, shuffle, compressor = values[-4:]
        return _codec(
            "blosc",
            cname=_BLOSC_NAMES[compressor],
            clevel=clevel,
            shuffle=shuffle,
            blocksize=blocksize,
        )
    known = _NAMES.get(code) or name.decode(errors="replace") or "without a name"
    raise RefusedError(f"it has the filter {code} of HDF5 ({known}), which Zarr has no codec for")


@lru_cache(maxsize=1024)
def _find_unread_filter(filters: tuple[Filter, ...]) -> str | None:
    """Return why Zarr can't undo the filters, or None."""
    try:
        for each in filters:
            _to_codec(*each)
    except RefusedError as error:
        if not all(h5z.filter_avail(code) for code, _, _ in filters):
            raise
        return str(error)
    return None


def _codec(name: str, **configuration: object) -> dict[str, Any]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


_ENCODING_OF_KEYS = {"name": "default", "configuration": {"separator": "/"}}


@dataclass(frozen=True, slots=True)
class Kind:
    """Data type, fill value and filters of a dataset."""

    dtype: np.dtype[Any]
    fill: bytes | str | None
    """Fill value in memory representation, or as text; None for Zarr's default."""
    filters: tuple[Filter, ...] = ()


def make_metadata(
    kind: Kind,
    shape: tuple[int, ...],
    chunk_shape: tuple[int, ...],
    dims: list[str],
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the `zarr.json` of an array; raise RefusedError for unsupported types and filters."""
    return {
        **_describe_dtype(kind),
        "shape": list(shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        "chunk_key_encoding": _ENCODING_OF_KEYS,
        "attributes": dict(attributes),
        "dimension_names": dims,
    }


@lru_cache(maxsize=1024)
def _describe_dtype(kind: Kind) -> dict[str, Any]:
    codecs = [_serializer(kind.dtype), *(_to_codec(*each) for each in kind.filters)]
    with without_codec_warnings():
        try:
            data_type = parse_data_type(kind.dtype, zarr_format=3)
            fill_value = data_type.default_scalar() if kind.fill is None else _fill_value(kind)
            made = ArrayV3Metadata(
                shape=(),
                data_type=data_type,
                chunk_grid={"name": "regular", "configuration": {"chunk_shape": ()}},
                chunk_key_encoding={"name": "default"},
                fill_value=fill_value,
                codecs=codecs,
                attributes={},
                dimension_names=(),
                storage_transformers=None,
            )
            encoded = made.to_buffer_dict(default_buffer_prototype())["zarr.json"]
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            raise RefusedError(f"Zarr can't represent it: {error}") from error
    found: dict[str, Any] = json.loads(encoded.to_bytes())
    return found


def _fill_value(kind: Kind) -> Any:
    if isinstance(kind.fill, str):
        return kind.fill
    value = np.frombuffer(kind.fill or b"", kind.dtype)[0]
    return value.item() if isinstance(value, np.generic) else value


def _serializer(dtype: np.dtype[Any]) -> dict[str, Any]:
    if dtype.kind == "T":
        return {"name": "vlen-utf8"}
    orders = _byte_orders(dtype)
    if len(orders) > 1:
        raise RefusedError(f"its fields are of both byte orders: {dtype}")
    endian = "big" if ">" in orders else "little"
    return {"name": "bytes", "configuration": {"endian": endian}}


def _byte_orders(dtype: np.dtype[Any]) -> set[str]:
    base = dtype.base
    if base.fields is None:
        return set() if base.byteorder == "|" else {">" if base.byteorder == ">" else "<"}
    return set[str]().union(*(_byte_orders(field[0]) for field in base.fields.values()))


TEXT = np.dtypes.StringDType()
"""NumPy type of variable-length strings in Zarr."""


def is_text(dtype: np.dtype[Any]) -> bool:
    """Return whether values are variable-length strings, of either character set."""
    return h5py.check_vlen_dtype(dtype) in (str, bytes)


def text_chunk_shape(shape: Shape, stored: Shape | None) -> Shape:
    """Return the chunk shape of strings, whose chunks never exceed the array."""
    steps = shape if stored is None else stored
    return tuple(max(min(step, extent), 1) for step, extent in zip(steps, shape, strict=True))


def read_texts(dataset: Any, shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return all strings of a dataset, or None if none was written; raise UnicodeDecodeError."""
    if 0 in shape or dataset.get_storage_size() == 0:
        return None
    raw = np.empty(shape, dtype)
    dataset.read(h5s.ALL, h5s.ALL, raw)
    texts = np.empty(raw.size, object)
    texts[:] = [each.decode() if isinstance(each, bytes) else each for each in raw.flat]
    return texts.reshape(shape)


def encode_texts(texts: NDArray[Any] | None, chunk_shape: Shape, fill: str) -> ReferenceColumns:
    """Encode strings as inline chunks."""
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
    inside = np.array(places, np.int64).reshape(len(places), len(chunk_shape))
    return replace(columns, inline_coordinates=inside, inline_chunks=tuple(chunks))


def _view(values: NDArray[Any], region: Sequence[slice]) -> NDArray[Any]:
    """Return a region as an array, also for a scalar."""
    index: Any = (*region, ...)
    found: NDArray[Any] = values[index]
    return found


Described = tuple[ArrayHeader, ReferenceColumns]


@dataclass(frozen=True, slots=True)
class FileContext:
    """Context shared by the datasets of one group."""

    location: str
    """Location of the file, as in references."""
    group: str
    loading: Loading


def describe(
    dataset: Any, name: str, context: FileContext, shape: Shape | None = None
) -> Described:
    """Describe a dataset; the header of one that can't be referenced has the reason.

    A shape that is larger than the dataset's has fill values at the end.
    """
    space = dataset.get_space()
    has_shape = space.get_simple_extent_type() != h5s.NULL
    shape = shape or (tuple(space.get_simple_extent_dims()) if has_shape else ())
    try:
        if not has_shape:
            raise RefusedError("it is an HDF5 dataset without a shape")
        return _describe_dataset(dataset, name, shape, context)
    except (RefusedError, NotPlainError, UnicodeDecodeError, TypeError) as error:
        return ArrayHeader(name, {"shape": shape}, None, str(error)), no_references(len(shape))


def _describe_dataset(dataset: Any, name: str, shape: Shape, context: FileContext) -> Described:
    plain = find_plain_dtype(dataset.get_type())
    dtype = np.dtype(plain) if plain else dataset.dtype
    if not plain and is_text(dtype):
        return _describe_texts(dataset, name, shape, context)
    _refuse_pointers(dtype)
    dtype = repack_fields(dtype, recurse=True) if dtype.names else dtype
    properties = dataset.get_create_plist()
    layout = properties.get_layout()
    stored = tuple(properties.get_chunk()) if layout == h5d.CHUNKED else None
    found = (properties.get_filter(each) for each in range(properties.get_nfilters()))
    filters = tuple((code, values, name) for code, _, values, name in found)
    chunk_shape = chunk_shape_of(shape, stored, len(filters))
    # Values that only HDF5 can decode are read by an ingest.
    decoded = _find_unread_filter(filters) or (
        None if plain else _find_converted(dataset.get_type())
    )
    metadata = make_metadata(
        Kind(dtype, _fill_bytes(properties, dtype), () if decoded else filters),
        shape,
        chunk_shape,
        dims_of(dataset, name, len(shape), context.group),
        _attributes(dataset, dtype),
    )
    header = ArrayHeader(name, metadata)
    if layout == h5d.COMPACT:
        return _inline_compact(dataset, header, dtype)
    obstacle = None
    if stored is not None:
        columns, is_filtered = find_chunks(
            dataset, shape, stored, chunk_shape, dtype.itemsize, context.location
        )
        if not is_filtered:
            obstacle = "some of its chunks were stored without the filters of the others"
    else:
        columns = find_contiguous(dataset, len(shape), context.location)
    header = replace(header, obstacle=_elsewhere(layout, properties))
    if is_loaded(header, context.loading):
        values = _load(dataset, dtype, filters)
        if values.shape != shape:
            blank = np.frombuffer(_fill_bytes(properties, dtype), dtype)[0]
            values = _pad(values, shape, blank)
        header = replace(header, values=values)
    if decoded:
        columns = no_references(len(shape))
    return replace(header, obstacle=header.obstacle or decoded or obstacle), columns


def _elsewhere(layout: int, properties: Any) -> str | None:
    if layout == h5d.VIRTUAL:
        return "it is a virtual dataset of HDF5, whose values are in other files"
    if properties.get_external_count():
        return "its values are in external files of HDF5"
    return None


def _refuse_pointers(dtype: np.dtype[Any]) -> None:
    """Raise RefusedError if values are stored outside the chunks, or have axes of their own."""
    if dtype.subdtype is not None:
        raise RefusedError(f"its values are arrays of {dtype.shape}, which Zarr has no type for")
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
    except RuntimeError:  # no fill value is defined
        value[0] = np.ma.default_fill_value(dtype)
    return value.tobytes()


def _attributes(dataset: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    found = read_attributes(dataset)
    if "_FillValue" in found:
        found["_FillValue"] = encode_fill_value(found["_FillValue"], dtype)
    return found


def _inline_compact(dataset: Any, header: ArrayHeader, dtype: np.dtype[Any]) -> Described:
    """Return a compact dataset, stored in its object header, as one inline chunk."""
    values = np.empty(header.shape, dtype)
    dataset.read(h5s.ALL, h5s.ALL, values)
    place, chunks = np.zeros((1, values.ndim), np.int64), (values.tobytes(),)
    columns = no_references(values.ndim)
    columns = replace(columns, inline_coordinates=place, inline_chunks=chunks)
    return replace(header, values=values), columns


def _load(dataset: Any, dtype: np.dtype[Any], filters: Any) -> NDArray[Any]:
    if not all(h5z.filter_avail(code) for code, _, _ in filters):
        raise NotReadable("values behind a filter that HDF5 does not have")
    values = np.empty(dataset.shape, dtype.newbyteorder("="))
    if prod(dataset.shape):
        dataset.read(h5s.ALL, h5s.ALL, values)
    return values


def _pad(values: NDArray[Any], shape: Shape, blank: Any) -> NDArray[Any]:
    """Return values with fill values at the end of each axis."""
    whole = np.full(shape, blank, values.dtype)
    whole[tuple(slice(0, extent) for extent in values.shape)] = values
    return whole


def _describe_texts(dataset: Any, name: str, shape: Shape, context: FileContext) -> Described:
    properties = dataset.get_create_plist()
    stored = tuple(properties.get_chunk()) if properties.get_layout() == h5d.CHUNKED else None
    chunk_shape = text_chunk_shape(shape, stored)
    fill = _fill_text(properties, dataset.dtype)
    metadata = make_metadata(
        Kind(TEXT, fill), shape, chunk_shape,
        dims_of(dataset, name, len(shape), context.group), read_attributes(dataset),
    )  # fmt: skip
    header = ArrayHeader(name, metadata, None, _elsewhere(properties.get_layout(), properties))
    texts = read_texts(dataset, dataset.shape, dataset.dtype)
    if texts is not None and texts.shape != shape:
        texts = _pad(texts, shape, fill)
    if is_loaded(header, context.loading):
        filled = np.full(shape, fill, object) if texts is None else texts
        # A scalar string has the form in which Zarr returns it.
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


@contextmanager
def open_file(stores: SourceStores, url: str, size_bytes: int, start: bytes) -> Iterator[Any]:
    """Open the file at a URL whose first bytes are known; raise OSError if it is not HDF5."""
    store, key = stores.resolve(url)
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    name = b"/" + key.encode("utf-8", "surrogateescape")
    if isinstance(store, LocalStore):
        # Without a lock, so that others can write; changes are detected afterwards.
        access.set_file_locking(False, True)
        yield from _open_file(name, access)
        return
    blocks = BlockFile(lambda *range: _read_range(store, key, *range), size_bytes, start)
    access.set_fileobj_driver(h5fd.fileobj_driver, blocks)
    try:
        yield from _open_file(name, access)
    except Exception:
        if blocks.failure is not None:
            # HDF5 only reports that a read failed.
            raise blocks.failure from None
        raise


def is_open_otherwise(error: OSError) -> bool:
    """Return whether this process has a file open in another way, such as with locks."""
    return "match" in str(error)


def _open_file(name: bytes, access: Any) -> Iterator[Any]:
    try:
        file = h5f.open(name, h5f.ACC_RDONLY, access)
    except OSError as error:
        if not is_open_otherwise(error):
            raise
        file = h5f.open(name, h5f.ACC_RDONLY, h5p.create(h5p.FILE_ACCESS))
    try:
        yield file
    finally:
        file.close()


def _read_range(store: ObjectStore, key: str, start: int, end: int) -> bytes:
    return bytes(obstore.get_range(store, key, start=start, end=end))


_NOT_A_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def is_dimension_only(dataset: Any) -> bool:
    """Return whether a dataset stands for a NetCDF4 dimension without a variable.

    The NetCDF library marks it in the name of the scale. Its storage tells nothing: HDF5 may have
    allocated space for it, and real variables may be empty.
    """
    if h5a.exists(dataset, b"NAME"):
        with suppress(NotPlainError, UnicodeDecodeError):
            return str(_read(dataset, b"NAME")).startswith(_NOT_A_VARIABLE)
    return False


def read_group(file: Any, context: FileContext) -> FoundGroup:
    """Return the arrays of a group; raise NotReadable for features that another reader supports."""
    group = _open_group(file, context)
    headers: dict[str, ArrayHeader] = {}
    references: dict[str, ReferenceColumns] = {}
    groups: list[str] = []
    for key, link in _list_links(group):
        name = key.decode("utf-8", "surrogateescape")
        try:
            member = h5o.open(group, key)
        except KeyError:
            continue  # a dangling link
        if isinstance(member, h5g.GroupID):
            groups.append(name)
        elif isinstance(member, h5d.DatasetID) and not is_dimension_only(member):
            headers[name], references[name] = describe(member, name, context)
            if link == h5l.TYPE_EXTERNAL:
                obstacle = "it is a link of HDF5 into another file"
                headers[name] = replace(headers[name], obstacle=obstacle, values=None)
                references[name] = no_references(len(headers[name].shape))
    for name, shape in _find_short(headers).items():
        member = h5o.open(group, name.encode("utf-8", "surrogateescape"))
        most = member.get_space().get_simple_extent_dims(maxdims=True)
        if all(a == b or c == h5s.UNLIMITED
               for a, b, c in zip(member.shape, shape, most, strict=True)):  # fmt: skip
            headers[name], references[name] = describe(member, name, context, shape)
    bounds = find_unread_bounds(headers)
    for name in bounds:
        again = replace(context, loading=replace(context.loading, names=frozenset(bounds)))
        member = h5o.open(group, name.encode("utf-8", "surrogateescape"))
        headers[name], references[name] = describe(member, name, again)
    try:
        attributes = read_attributes(group)
    except (NotPlainError, UnicodeDecodeError) as error:
        raise NotReadable(str(error)) from error
    return FoundGroup(attributes, _name_axes(headers), references, tuple(groups))


def _find_short(headers: Mapping[str, ArrayHeader]) -> dict[str, Shape]:
    """Return the arrays that end before others along a dimension, with the shape that they shall have.

    The NetCDF library extends a variable along an unlimited dimension when it writes to it, and reads
    fill values up to the length that the longest variable gives the dimension.
    """
    lengths: dict[str, int] = {}
    for each in headers.values():
        for dim, extent in zip(each.dims, each.shape, strict=True):
            if not dim.startswith(PHONY):
                lengths[dim] = max(extent, lengths.get(dim, 0))
    found = {
        name: tuple(lengths.get(dim, n) for dim, n in zip(each.dims, each.shape, strict=True))
        for name, each in headers.items()
        if "codecs" in each.metadata
    }
    return {name: shape for name, shape in found.items() if shape != headers[name].shape}


def _list_links(group: Any) -> list[tuple[bytes, int]]:
    """Return names and kinds of links, in creation order if the group tracks it."""
    found: list[tuple[bytes, int]] = []
    is_tracked = group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
    order = h5.INDEX_CRT_ORDER if is_tracked else h5.INDEX_NAME
    group.links.iterate(
        lambda name, info: found.append((name, info.type)), idx_type=order, info=True
    )
    return found


def _open_group(file: Any, context: FileContext) -> Any:
    path = context.group.encode("utf-8", "surrogateescape") or b"/"
    try:
        found = h5o.open(file, path)
    except KeyError:
        found = None
    if not isinstance(found, h5g.GroupID):
        raise InvalidInputError(f"{context.location} has no group {context.group!r}")
    return found


def _name_axes(headers: dict[str, ArrayHeader]) -> dict[str, ArrayHeader]:
    named = name_phony_dims({name: each.metadata for name, each in headers.items()})
    return {
        name: each if named[name] is each.metadata else replace(each, metadata=named[name])
        for name, each in headers.items()
    }


def read_hdf5(
    stores: SourceStores, url: str, size_bytes: int, start: bytes, group: str, loading: Loading
) -> FoundGroup:
    """Read one group of a file; `start` holds its first bytes.

    Raises NotReadable for features that another reader supports, and InvalidInputError for a damaged
    file or a missing group.
    """
    try:
        with open_file(stores, url, size_bytes, start) as file:
            return read_group(file, FileContext(escape_url(url), group, loading))
    except (NotReadable, IcechunkError, BaseError, *INTERRUPTIONS):
        raise
    except BaseException as error:
        # HDF5 raises many kinds of errors for a damaged file.
        raise InvalidInputError(f"{url} can't be parsed as hdf5: {first_line(error)}") from error
