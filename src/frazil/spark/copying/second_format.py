"""Arrays of Zarr V2 in the third format.

The bytes of a chunk stay as they are where the codecs of Zarr V2 have an exact equivalent: zarr-python
translates the metadata, and a chunk is decoded in both ways to see whether it means the same.
"""

import base64
import json
import struct
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from frazil.errors import InvalidInputError
from frazil.spark.copying.zarr_keys import (
    DEFAULT_ENCODING,
    METADATA,
    ChunkKeys,
    Document,
    encode_document,
    find_keys,
)

try:
    from zarr.metadata.migrate_v3 import migrate_v2_to_v3
except ImportError:  # before zarr 3.1.2
    migrate_v2_to_v3 = None  # type: ignore[assignment]

_ARRAY = ".zarray"
_OF_BYTES = frozenset(
    {
        "shuffle",
        "fletcher32",
        "crc32",
        "adler32",
        "zlib",
        "gzip",
        "bz2",
        "lzma",
        "lz4",
        "zstd",
        "blosc",
    }
)
"""Filters that are codecs of bytes in the third format, behind those of arrays."""
_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""Where Xarray keeps the names of dimensions in Zarr V2, which has no place for them."""


@dataclass(frozen=True, slots=True)
class Translated:
    """An array in the third format."""

    metadata: bytes
    """Its `zarr.json`."""
    keeps_bytes: bool
    """Whether chunks stay as they are; otherwise they are decoded, and encoded anew."""


def translate(name: str, second: Document, attributes: Document, chunk: bytes | None) -> Translated:
    """What an array is in the third format, tried on one of its chunks, if it has any.

    Raises InvalidInputError for a type of data that the third format does not have.
    """
    try:
        third = _translate(second)
    except Exception as error:  # zarr-python says in many ways that it has no equivalent
        anew = _make_anew(name, second, error)
        return Translated(_finish(anew, second, attributes), keeps_bytes=False)
    if _means_the_same(second, third, chunk):
        return Translated(_finish(third, second, attributes), keeps_bytes=True)
    anew = _make_anew(name, second, None)
    return Translated(_finish(anew, second, attributes), keeps_bytes=False)


def _translate(second: Document) -> Document:
    """The metadata in the third format; raises where there is no equivalent."""
    if migrate_v2_to_v3 is None:
        raise NotImplementedError("this release of zarr can't translate")
    filters = second.get("filters") or []
    of_arrays = list(takewhile(lambda each: each["id"] not in _OF_BYTES, filters))
    changed = {**second, "fill_value": _find_fill(second), "filters": of_arrays or None}
    source, target = MemoryStore(), MemoryStore()
    _put(source, _ARRAY, encode_document(changed))
    migrate_v2_to_v3(input_store=source, output_store=target)
    third = _take_metadata(target)
    names = [each["name"] for each in third["codecs"]]
    at = names.index("bytes") + 1
    of_bytes = [_name_codec(each) for each in filters[len(of_arrays) :]]
    return {**third, "codecs": [*third["codecs"][:at], *of_bytes, *third["codecs"][at:]]}


def _name_codec(filter: Document) -> Document:
    configuration = {name: each for name, each in filter.items() if name != "id"}
    return {"name": f"numcodecs.{filter['id']}", "configuration": configuration}


def _find_fill(second: Document) -> object:
    """The fill value; that of its type where none is said, which the third format does not allow."""
    value = second.get("fill_value")
    if value is not None:
        return value
    dtype = open_second(encode_document(second), None).metadata.dtype
    return dtype.to_json_scalar(dtype.default_scalar(), zarr_format=2)


def _make_anew(name: str, second: Document, error: Exception | None) -> Document:
    """The metadata of an array of the same type and shape with codecs of the third format."""
    store = MemoryStore()
    try:
        array = open_second(encode_document(second), None)
        zarr.create_array(
            store, shape=array.shape, dtype=array.dtype, chunks=array.chunks,
            fill_value=array.fill_value,
        )  # fmt: skip
    except Exception as other:
        raise InvalidInputError(f"the array {name} has no equivalent in Zarr V3: {other}") from (
            error or other
        )
    return _take_metadata(store)


def _finish(third: Document, second: Document, attributes: Document) -> bytes:
    """The metadata with attributes, as Xarray reads them in the third format."""
    told = dict(attributes)
    names = told.pop(_DIMENSIONS, None)
    changed = {**third, "chunk_key_encoding": DEFAULT_ENCODING}
    if isinstance(names, list) and len(names) == len(second["shape"]):
        changed["dimension_names"] = names
        fill = _encode_fill(second, third)
        if fill is not None:
            told.setdefault("_FillValue", fill)
    return encode_document({**changed, "attributes": told})


def _encode_fill(second: Document, third: Document) -> object:
    """What Xarray takes for missing: in Zarr V2 the fill value, in the third format an attribute."""
    value, kind = second.get("fill_value"), str(third.get("data_type"))
    if value is None:
        return None
    if kind.startswith("float"):
        number = struct.pack("<d", float(value))
        return base64.standard_b64encode(number).decode()
    if kind.startswith(("int", "uint")):
        return int(value)
    return value if kind == "bool" else None


def _means_the_same(second: Document, third: Document, chunk: bytes | None) -> bool:
    """Whether a chunk has the same elements by either metadata; without one, whether Zarr takes it."""
    shape = [int(size) for size in second["chunks"]]
    store = MemoryStore()
    _put(store, METADATA, encode_document({**third, "shape": shape}))
    if chunk is not None:
        _put(store, find_keys(third, "").spell([0] * len(shape)), chunk)
    try:
        found = np.asarray(zarr.open_array(store, mode="r")[...])
    except Exception:
        return False
    wanted = (
        found if chunk is None else np.asarray(open_second(encode_document(second), chunk)[...])
    )
    # Which byte comes first is a matter of the file.
    is_of_type = wanted.dtype.newbyteorder("=") == found.dtype.newbyteorder("=")
    is_nullable = wanted.dtype.kind in "fcmM"
    return is_of_type and np.array_equal(wanted, found, equal_nan=is_nullable)


def open_second(data: bytes, chunk: bytes | None) -> "zarr.Array[Any]":
    """An array of Zarr V2 with one chunk, or none but its metadata."""
    second: Document = json.loads(data)
    store = MemoryStore()
    if chunk is not None:
        second = {**second, "shape": second["chunks"]}
        keys = ChunkKeys("", second.get("dimension_separator", "."), is_default=False)
        _put(store, keys.spell([0] * len(second["shape"])), chunk)
    _put(store, _ARRAY, encode_document(second))
    return zarr.open_array(store, mode="r", zarr_format=2)


def _put(store: MemoryStore, key: str, data: bytes) -> None:
    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def _take_metadata(store: MemoryStore) -> Document:
    found = sync(store.get(METADATA, default_buffer_prototype()))
    assert found is not None
    document: Document = json.loads(found.to_bytes())
    return document
