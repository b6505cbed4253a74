"""The nodes of a plain Zarr hierarchy of either format, and what they are in the third."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from frazil.errors import InvalidInputError, ObjectNotFoundError, StorageError
from frazil.spark.copying.second_format import translate
from frazil.spark.copying.zarr_keys import (
    DEFAULT_ENCODING,
    METADATA,
    ChunkKeys,
    Document,
    encode_document,
    find_keys,
)
from frazil.storage import Storage

_GROUP, _ARRAY, _ATTRIBUTES = ".zgroup", ".zarray", ".zattrs"
_NAMES = (METADATA, _GROUP, _ARRAY, _ATTRIBUTES)
_CONSOLIDATED = ".zmetadata"


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node of a hierarchy, as it shall be in a repository."""

    folder: str
    """What its keys begin with: empty, or with a slash at its end."""
    metadata: bytes
    """Its `zarr.json`."""
    keys: ChunkKeys | None
    """Where the chunks of an array are."""
    second: bytes | None = None
    """The `.zarray` by which chunks are decoded, if their bytes can't stay as they are."""


def read_hierarchy(storage: Storage) -> list[SourceNode]:
    """All nodes, the groups before what is in them; raises InvalidInputError where there are none.

    They are listed; where a storage can't list, its consolidated metadata tells what there is.
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
    """All metadata files, by their keys."""
    try:
        keys = [info.key for info in storage.list_chosen("", _choose)]
    except StorageError:
        found = _read_consolidated(storage)
        if found is None:
            raise
        return found
    return dict(zip(keys, map(bytes, storage.get_many([(key, None) for key in keys])), strict=True))


def _read_consolidated(storage: Storage) -> dict[str, bytes] | None:
    """What the root tells of all nodes, if it does."""
    root = _find(storage, METADATA)
    if root is not None:
        third: Document = json.loads(root).get("consolidated_metadata") or {}
        below: Document = third.get("metadata", {})
        files = {f"{path}/{METADATA}": encode_document(each) for path, each in below.items()}
        return {METADATA: root, **files} if below or b'"array"' in root else None
    old = _find(storage, _CONSOLIDATED)
    if old is None:
        return None
    told: Document = json.loads(old)["metadata"]
    return {key: encode_document(each) for key, each in told.items()}


def _find(storage: Storage, key: str) -> bytes | None:
    try:
        return bytes(storage.get(key))
    except ObjectNotFoundError:
        return None


def _choose(keys: Sequence[str]) -> Iterable[bool]:
    return [key.rpartition("/")[2] in _NAMES for key in keys]


def _read_node(storage: Storage, folder: str, documents: Mapping[str, bytes]) -> SourceNode:
    if METADATA in documents:
        return _read_third(folder, documents[METADATA])
    attributes: Document = json.loads(documents.get(_ATTRIBUTES, b"{}"))
    if _ARRAY not in documents:
        return SourceNode(folder, encode_document(_group(attributes)), None)
    return _read_second(storage, folder, documents[_ARRAY], attributes)


def _group(attributes: Document) -> Document:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


# Zarr V3


def _read_third(folder: str, data: bytes) -> SourceNode:
    """A node whose metadata stays as it is, but for the names of chunks and copies of others'."""
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
    """Some chunk of an array, if it has any: the first one, or that which the storage lists first."""
    first = _find(storage, keys.spell([0] * axes))
    if first is not None:
        return first
    with suppress(StorageError):
        listed = (info.key for info in storage.list(keys.prefix))
        chunk = next((key for key in listed if key.rpartition("/")[2][0] != "."), None)
        return None if chunk is None else _find(storage, chunk)
    return None
