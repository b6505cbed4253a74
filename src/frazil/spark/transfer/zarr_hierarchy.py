"""Read plain Zarr hierarchies, V2 and V3, and describe their arrays in V3."""

import base64
import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from frazil.errors import InvalidInputError, ObjectNotFoundError, StorageError
from frazil.spark.transfer.export_zarr import (
    DEFAULT_ENCODING,
    METADATA,
    ChunkKeys,
    Document,
    encode_document,
    find_keys,
)
from frazil.storage.interface import Storage

try:
    from zarr.metadata.migrate_v3 import migrate_v2_to_v3
except ImportError:  # before zarr 3.1.2
    migrate_v2_to_v3 = None  # type: ignore[assignment]

_ARRAY_V2 = ".zarray"
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
"""Zarr V2 filters that are bytes-to-bytes codecs in Zarr V3, after the array codecs."""
_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""Attribute in which xarray stores dimension names in Zarr V2."""


@dataclass(frozen=True, slots=True)
class Translated:
    """Zarr V3 metadata of an array of Zarr V2."""

    metadata: bytes
    """Its `zarr.json`."""
    keeps_bytes: bool
    """True if the bytes of chunks are kept; otherwise chunks are decoded and encoded again."""


def translate(name: str, second: Document, attributes: Document, chunk: bytes | None) -> Translated:
    """Translate an array to Zarr V3, verified with one of its chunks, if it has any.

    Raises InvalidInputError for a data type that Zarr V3 does not have.
    """
    try:
        third = _translate(second)
    except Exception as error:  # zarr-python raises many types if there is no equivalent
        anew = _make_anew(name, second, error)
        return Translated(_finish(anew, second, attributes), keeps_bytes=False)
    if _means_the_same(second, third, chunk):
        return Translated(_finish(third, second, attributes), keeps_bytes=True)
    anew = _make_anew(name, second, None)
    return Translated(_finish(anew, second, attributes), keeps_bytes=False)


def _translate(second: Document) -> Document:
    """Translate metadata to Zarr V3; raise if there is no equivalent."""
    if migrate_v2_to_v3 is None:
        raise NotImplementedError("this release of zarr can't translate")
    filters = second.get("filters") or []
    of_arrays = list(takewhile(lambda each: each["id"] not in _OF_BYTES, filters))
    changed = {**second, "fill_value": _find_fill(second), "filters": of_arrays or None}
    source, target = MemoryStore(), MemoryStore()
    _put(source, _ARRAY_V2, encode_document(changed))
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
    """Return the fill value, by default that of the data type: Zarr V3 requires one."""
    value = second.get("fill_value")
    if value is not None:
        return value
    dtype = open_second(encode_document(second), None).metadata.dtype
    return dtype.to_json_scalar(dtype.default_scalar(), zarr_format=2)


def _make_anew(name: str, second: Document, error: Exception | None) -> Document:
    """Return the metadata of an array of the same type and shape with default Zarr V3 codecs."""
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
    """Add the attributes to the metadata, in the form xarray reads from Zarr V3."""
    kept = dict(attributes)
    names = kept.pop(_DIMENSIONS, None)
    changed = {**third, "chunk_key_encoding": DEFAULT_ENCODING}
    if isinstance(names, list) and len(names) == len(second["shape"]):
        changed["dimension_names"] = names
        fill = _encode_fill(second, third)
        if fill is not None:
            kept.setdefault("_FillValue", fill)
    return encode_document({**changed, "attributes": kept})


def _encode_fill(second: Document, third: Document) -> object:
    """Return `_FillValue`: xarray masks the fill value in Zarr V2, but this attribute in Zarr V3."""
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
    """Test whether a chunk decodes to the same elements with both; without one, if Zarr accepts it."""
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
    # The byte order is a property of the encoding, not of the values.
    is_of_type = wanted.dtype.newbyteorder("=") == found.dtype.newbyteorder("=")
    is_nullable = wanted.dtype.kind in "fcmM"
    return is_of_type and np.array_equal(wanted, found, equal_nan=is_nullable)


def open_second(data: bytes, chunk: bytes | None) -> "zarr.Array[Any]":
    """Open an array of Zarr V2 with one chunk, or only its metadata."""
    second: Document = json.loads(data)
    store = MemoryStore()
    if chunk is not None:
        second = {**second, "shape": second["chunks"]}
        keys = ChunkKeys("", second.get("dimension_separator", "."), is_default=False)
        _put(store, keys.spell([0] * len(second["shape"])), chunk)
    _put(store, _ARRAY_V2, encode_document(second))
    return zarr.open_array(store, mode="r", zarr_format=2)


def _put(store: MemoryStore, key: str, data: bytes) -> None:
    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def _take_metadata(store: MemoryStore) -> Document:
    found = sync(store.get(METADATA, default_buffer_prototype()))
    assert found is not None
    document: Document = json.loads(found.to_bytes())
    return document


_GROUP, _ARRAY_NODE, _ATTRIBUTES = ".zgroup", ".zarray", ".zattrs"
_NAMES = (METADATA, _GROUP, _ARRAY_NODE, _ATTRIBUTES)
_CONSOLIDATED = ".zmetadata"


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Node of a hierarchy, in the form it has in a repository."""

    folder: str
    """Key prefix: empty, or ending with a slash."""
    metadata: bytes
    """Its `zarr.json`."""
    keys: ChunkKeys | None
    """Chunk keys of an array."""
    second: bytes | None = None
    """The `.zarray` to decode chunks with; None if their bytes are copied."""


def read_hierarchy(storage: Storage) -> list[SourceNode]:
    """Read all nodes, groups before their members.

    Falls back to consolidated metadata if the storage can't list. Raises InvalidInputError if there are
    no nodes.
    """
    found: dict[str, dict[str, bytes]] = {}
    for key, data in _read_documents(storage).items():
        folder, _, name = key.rpartition("/")
        found.setdefault(f"{folder}/" if folder else "", {})[name] = data
    nodes = [
        _read_node(storage, folder, documents)
        for folder, documents in sorted(found.items())
        if documents.keys() - {_ATTRIBUTES}
    ]
    if not nodes:
        raise InvalidInputError(
            f"there is no Zarr hierarchy in {storage.place}: neither zarr.json, .zgroup nor .zarray",
            kind="key-not-found",
        )
    return nodes


def _read_documents(storage: Storage) -> dict[str, bytes]:
    """Return all metadata documents by key."""
    try:
        found = storage.list_selected(
            "", lambda keys: [k.rpartition("/")[2] in _NAMES for k in keys]
        )
        keys = [info.key for info in found]
    except StorageError:
        documents = _read_consolidated(storage)
        if documents is None:
            raise
        return documents
    return dict(zip(keys, map(bytes, storage.get_many([(key, None) for key in keys])), strict=True))


def _read_consolidated(storage: Storage) -> dict[str, bytes] | None:
    """Return the documents in the consolidated metadata of the root, or None."""
    root = _find(storage, METADATA)
    if root is not None:
        third: Document = json.loads(root).get("consolidated_metadata") or {}
        below: Document = third.get("metadata", {})
        files = {f"{path}/{METADATA}": encode_document(each) for path, each in below.items()}
        return {METADATA: root, **files} if below or b'"array"' in root else None
    old = _find(storage, _CONSOLIDATED)
    if old is None:
        return None
    metadata: Document = json.loads(old)["metadata"]
    return {key: encode_document(each) for key, each in metadata.items()}


def _find(storage: Storage, key: str) -> bytes | None:
    try:
        return bytes(storage.get(key))
    except ObjectNotFoundError:
        return None


def _read_node(storage: Storage, folder: str, documents: Mapping[str, bytes]) -> SourceNode:
    if METADATA in documents:
        return _read_third(folder, documents[METADATA])
    attributes: Document = json.loads(documents.get(_ATTRIBUTES, b"{}"))
    if _ARRAY_NODE not in documents:
        return SourceNode(folder, encode_document(_group(attributes)), None)
    return _read_second(storage, folder, documents[_ARRAY_NODE], attributes)


def _group(attributes: Document) -> Document:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


# Zarr V3


def _read_third(folder: str, data: bytes) -> SourceNode:
    """Return a node with its metadata, but default chunk keys and no consolidated metadata."""
    document: Document = json.loads(data)
    is_array = document.get("node_type") == "array"
    keys = find_keys(document, folder) if is_array else None
    changed = {name: each for name, each in document.items() if name != "consolidated_metadata"}
    if keys is not None and (keys.separator, keys.is_default) != ("/", True):
        changed["chunk_key_encoding"] = DEFAULT_ENCODING
    return SourceNode(folder, data if changed == document else encode_document(changed), keys)


# Zarr V2


def _read_second(storage: Storage, folder: str, data: bytes, attributes: Document) -> SourceNode:
    second: Document = json.loads(data)
    keys = ChunkKeys(folder, second.get("dimension_separator", "."), is_default=False)
    name, chunk = folder.rstrip("/") or "/", _find_chunk(storage, keys, len(second["shape"]))
    translated = translate(name, second, attributes, chunk)
    return SourceNode(folder, translated.metadata, keys, None if translated.keeps_bytes else data)


def _find_chunk(storage: Storage, keys: ChunkKeys, axes: int) -> bytes | None:
    """Return the first chunk of an array, or the first the storage lists; None if it has none."""
    first = _find(storage, keys.spell([0] * axes))
    if first is not None:
        return first
    with suppress(StorageError):
        # A key that ends with a slash marks a folder; a name that starts with a dot is metadata.
        named = ((info.key, info.key.rpartition("/")[2]) for info in storage.list(keys.prefix))
        chunk = next((key for key, name in named if name and name[0] != "."), None)
        return None if chunk is None else _find(storage, chunk)
    return None
