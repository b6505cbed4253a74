"""Import a plain Zarr hierarchy into a group of a repository, as one commit."""

import base64
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product, takewhile
from math import prod
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from frazil.arguments import verb
from frazil.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError, StorageError
from frazil.format.coordinates import Coordinates
from frazil.format.metadata import ROOT
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession, Session
from frazil.repository.store_io import set_chunk, set_metadata
from frazil.spark.copy_plan import find_storage
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import LEAST_TASK_BYTES, Box, Shape, cut, grow, path_of, whole
from frazil.spark.transaction import AnyRepository, committing, write_regions
from frazil.spark.zarr_export import (
    DEFAULT_ENCODING,
    GROUP,
    METADATA,
    ChunkKeys,
    Document,
    count_chunk_bytes,
    encode_document,
    find_keys,
)
from frazil.storage.interface import KEYS_PER_BATCH, Storage, batches_of
from frazil.storage.memory import MemoryStorage
from frazil.urls import Location

try:
    from zarr.metadata.migrate_v3 import migrate_v2_to_v3
except ImportError:  # before zarr 3.1.2
    migrate_v2_to_v3 = None  # type: ignore[assignment]

_AT_ONCE = 8
"""Maximum number of chunks a task holds in memory."""
_MOST_CHUNKS = 1_000
"""Maximum number of chunks of a part."""
_WORTH_LISTING = 10_000
"""Number of chunks of a grid above which the existing chunks are listed first."""
_SPARSE = 2
"""An array is sparse if fewer than one in this many of its chunks exist."""
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
    root = _get(storage, METADATA)
    if root is not None:
        third: Document = json.loads(root).get("consolidated_metadata") or {}
        below: Document = third.get("metadata", {})
        files = {f"{path}/{METADATA}": encode_document(each) for path, each in below.items()}
        return {METADATA: root, **files} if below or b'"array"' in root else None
    old = _get(storage, _CONSOLIDATED)
    if old is None:
        return None
    metadata: Document = json.loads(old)["metadata"]
    return {key: encode_document(each) for key, each in metadata.items()}


def _get(storage: Storage, key: str) -> bytes | None:
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
    first = _get(storage, keys.spell([0] * axes))
    if first is not None:
        return first
    with suppress(StorageError):
        # A key that ends with a slash marks a folder; a name that starts with a dot is metadata.
        named = ((info.key, info.key.rpartition("/")[2]) for info in storage.list(keys.prefix))
        chunk = next((key for key, name in named if name and name[0] != "."), None)
        return None if chunk is None else _get(storage, chunk)
    return None


@verb(job=Job)
def import_zarr(
    repo: AnyRepository,
    source: Storage | Location,
    *,
    group: str = "/",
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Import a Zarr V2 or V3 hierarchy into a group of a repository, as one commit.

    Chunks are copied without decoding them if their codecs stay the same, shards as a whole. Arrays of
    Zarr V2 without an exact equivalent in V3 are decoded and encoded again; `notes` of the report name
    them.

    Parameters
    ----------
    source
        Storage or location of the hierarchy.
    group
        Path of the group to import into.

    Returns
    -------
    CommitReport

    Raises
    ------
    AlreadyExistsError
        If the group is not empty.
    InvalidInputError
        If there is no Zarr hierarchy, or an array has no equivalent in Zarr V3.
    """
    storage = find_storage(source)
    with committing("import_zarr", repo, branch, job, spark) as run:
        session = run.open_session()
        root = path_of(group)
        nodes = read_hierarchy(storage)
        _refuse_if_filled(session, root)
        _write_metadata(session, root, nodes)
        parts = [part for node in nodes for part in _plan_parts(session, storage, root, node)]
        groups = pack(parts, [part.size_bytes for part in parts], LEAST_TASK_BYTES)
        is_small = len(groups) <= 1 or isinstance(storage, MemoryStorage)
        runner = run.choose_runner(is_small=is_small)
        anew = [node.folder.rstrip("/") or ROOT for node in nodes if node.second is not None]
        run.notes += [f"encoded anew: {', '.join(anew)}"] if anew else []
        if groups:
            run.job.expect("importing", chunks=sum(part.count for part in parts))
            write_regions(runner, session, partial(import_chunks, storage), groups, "importing")
        return run.commit(session, message, metadata)


def _refuse_if_filled(session: Session, root: str) -> None:
    below = [node.path for node in session.state.view.descendants(root) if node.path != root]
    if below:
        raise AlreadyExistsError(f"{root} is not empty, it has {below[0]}: import to another group")


def _write_metadata(session: Session, root: str, nodes: Sequence[SourceNode]) -> None:
    for node in nodes:
        path = _path(root, node)
        _make_groups_above(session, path)
        set_metadata(session.state, path, node.metadata)


def _make_groups_above(session: Session, path: str) -> None:
    """Create the missing groups above a node, which have no metadata in the source."""
    while path != ROOT:
        path = path.rpartition("/")[0] or ROOT
        if session.state.view.find_node(path) is None:
            set_metadata(session.state, path, GROUP)


def _path(root: str, node: SourceNode) -> str:
    return path_of(f"{root}/{node.folder}")


# Chunks


@dataclass(frozen=True, slots=True)
class Part:
    """Chunks of an array: a box of its grid, or those that were listed."""

    path: str
    keys: ChunkKeys
    chunks: Box | Coordinates
    size_bytes: int
    """Estimated size."""
    second: bytes | None
    """Zarr V2 metadata to decode them with; None if their bytes are copied."""

    @property
    def count(self) -> int:
        """Maximum number of chunks."""
        return _count(self.chunks)

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Yield the coordinates of the chunks."""
        if isinstance(self.chunks, np.ndarray):
            return map(tuple, self.chunks.tolist())
        return product(*(range(start, stop) for start, stop in self.chunks))


def _count(chunks: Box | Coordinates) -> int:
    is_listed = isinstance(chunks, np.ndarray)
    return len(chunks) if is_listed else prod(stop - start for start, stop in chunks)


def _plan_parts(session: Session, storage: Storage, root: str, node: SourceNode) -> Iterator[Part]:
    if node.keys is None:
        return
    path = _path(root, node)
    _, array = session.state.view.get_array(path)
    grid = tuple(each.num_chunks for each in array.shape)
    size = count_chunk_bytes(json.loads(node.metadata))
    most = max(1, min(_MOST_CHUNKS, LEAST_TASK_BYTES // max(size, 1)))
    for chunks in _cut(storage, node.keys, grid, most):
        yield Part(path, node.keys, chunks, _count(chunks) * size, node.second)


def _cut(storage: Storage, keys: ChunkKeys, grid: Shape, most: int) -> Iterable[Box | Coordinates]:
    """Split the chunks of an array into parts; for a large sparse array, only those that exist."""
    if prod(grid) > _WORTH_LISTING:
        with suppress(StorageError):
            there = _list_chunks(storage, keys, grid)
            if len(there) * _SPARSE < prod(grid):
                return [there[start : start + most] for start in range(0, len(there), most)]
    return cut(whole(grid), grow((1,) * len(grid), grid, most) if grid else ())


def _list_chunks(storage: Storage, keys: ChunkKeys, grid: Shape) -> Coordinates:
    """List the existing chunks of an array, except those outside of its grid."""
    axes, columns = len(grid), []
    for batch in batches_of(storage.list(keys.prefix), KEYS_PER_BATCH):
        parsed = (keys.parse(info.key, axes) for info in batch)
        rows = [coordinate for coordinate in parsed if coordinate is not None]
        columns.append(np.array(rows, np.uint32).reshape(-1, axes))
    found = np.concatenate([np.empty((0, axes), np.uint32), *columns])
    return found[(found < np.array(grid)).all(axis=1)]


def import_chunks(storage: Storage, session: ForkSession, part: Part) -> None:
    """Read chunks from the source and write them to the repository."""
    write = _copy_chunk if part.second is None else _encode_chunk
    with ThreadPoolExecutor(_AT_ONCE if part.second is None else 1) as pool:
        for _ in pool.map(partial(write, storage, session, part), part.coordinates()):
            pass


def _copy_chunk(
    storage: Storage, session: ForkSession, part: Part, coordinate: tuple[int, ...]
) -> None:
    data = _find(storage, part, coordinate)
    if data is not None:
        set_chunk(session.state, part.path, coordinate, data)


def _encode_chunk(
    storage: Storage, session: ForkSession, part: Part, coordinate: tuple[int, ...]
) -> None:
    data = _find(storage, part, coordinate)
    if data is None:
        return
    assert part.second is not None
    values = np.asarray(open_second(part.second, data)[...])
    target = zarr.open_array(session.store, path=part.path.lstrip("/"), mode="r+")
    starts = [index * size for index, size in zip(coordinate, target.chunks, strict=True)]
    stops = [
        min(start + size, length)
        for start, size, length in zip(starts, target.chunks, target.shape, strict=True)
    ]
    inside = tuple(slice(0, stop - start) for start, stop in zip(starts, stops, strict=True))
    region = tuple(slice(start, stop) for start, stop in zip(starts, stops, strict=True))
    target[region] = values[inside]


def _find(storage: Storage, part: Part, coordinate: tuple[int, ...]) -> bytes | None:
    try:
        return bytes(storage.get(part.keys.spell(coordinate)))
    except ObjectNotFoundError:
        return None
