"""Slot numbers, orders and metadata items of the FlatBuffers schemas of V1 and V2.

Slots are plain numbers: enumerations of them would be a tenth of the time to load a repository.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from frazil.errors import FormatError
from frazil.format import ragged
from frazil.format.coordinates import is_strictly_sorted
from frazil.format.metadata import NO_METADATA, Encoding, Metadata, Value, segment_order
from frazil.format.ragged import Integers, Pieces
from frazil.format.v2.flatbuffers_reader import Buffer, Source, Table, Tables
from frazil.format.v2.flatbuffers_writer import LINK, Kind, Link, Writer
from frazil.lazy import dataclass


class RepoSlot:
    """Fields of a `Repo`."""

    SPEC_VERSION, TAGS, BRANCHES, DELETED_TAGS, SNAPSHOTS, STATUS, METADATA, LATEST_UPDATES = range(
        8
    )
    REPO_BEFORE_UPDATES, CONFIG, ENABLED_FEATURE_FLAGS, DISABLED_FEATURE_FLAGS, EXTRA = range(8, 13)


class RefSlot:
    """Fields of a `Ref`."""

    NAME, SNAPSHOT_INDEX = range(2)


class SnapshotInfoSlot:
    """Fields of a `SnapshotInfo`."""

    ID, PARENT_OFFSET, FLUSHED_AT, MESSAGE, METADATA, PRUNED_ANCESTOR_TX_LOGS = range(6)


class StatusSlot:
    """Fields of a `RepoStatus`."""

    AVAILABILITY, SET_AT, LIMITED_AVAILABILITY_REASON = range(3)


class UpdateSlot:
    """Fields of an `Update`."""

    TYPE, VALUE, UPDATED_AT, BACKUP_PATH = range(4)


class MetadataSlot:
    """Fields of a `MetadataItem`."""

    NAME, VALUE = range(2)


class SnapshotSlot:
    """Fields of a `Snapshot`."""

    ID, PARENT_ID, NODES, FLUSHED_AT, MESSAGE, METADATA, MANIFEST_FILES = range(7)
    MANIFEST_FILES_V2, EXTRA = 7, 8


class ManifestFileSlot:
    """Fields of a `ManifestFileInfoV2`."""

    ID, SIZE_BYTES, NUM_CHUNK_REFS, EXTRA = range(4)


class NodeSlot:
    """Fields of a `NodeSnapshot`."""

    ID, PATH, USER_DATA, DATA_TYPE, DATA, EXTRA = range(6)


class NodeDataType:
    """Kinds of the union `NodeData`."""

    ARRAY, GROUP = 1, 2


class ArraySlot:
    """Fields of an `ArrayNodeData`."""

    SHAPE, DIMENSION_NAMES, MANIFESTS, SHAPE_V2 = range(4)


class DimensionSlot:
    """Fields of a `DimensionShapeV2`."""

    ARRAY_LENGTH, NUM_CHUNKS = range(2)


class ManifestRefSlot:
    """Fields of a `ManifestRef`."""

    OBJECT_ID, EXTENTS = range(2)


class ManifestSlot:
    """Fields of a `Manifest`."""

    ID, ARRAYS, LOCATION_DICTIONARY, COMPRESSION_ALGORITHM, EXTRA = range(5)


class ArrayManifestSlot:
    """Fields of an `ArrayManifest`."""

    NODE_ID, REFS, EXTRA = range(3)


class ChunkRefSlot:
    """Fields of a `ChunkRef`."""

    INDEX, INLINE, OFFSET, LENGTH, CHUNK_ID, LOCATION, CHECKSUM_ETAG = range(7)
    CHECKSUM_LAST_MODIFIED, COMPRESSED_LOCATION, EXTRA = 7, 8, 9


class TransactionLogSlot:
    """Fields of a `TransactionLog`."""

    ID, NEW_GROUPS, NEW_ARRAYS, DELETED_GROUPS, DELETED_ARRAYS, UPDATED_ARRAYS = range(6)
    UPDATED_GROUPS, UPDATED_CHUNKS, MOVED_NODES, EXTRA = range(6, 10)


class UpdatedChunksSlot:
    """Fields of an `ArrayUpdatedChunks`."""

    NODE_ID, CHUNKS = range(2)


class MoveSlot:
    """Fields of a `MoveOperation`."""

    FROM, TO, NODE_ID, NODE_TYPE = range(4)


T = TypeVar("T")

_NODE_LISTS = (
    "NEW_GROUPS", "NEW_ARRAYS", "DELETED_GROUPS", "DELETED_ARRAYS", "UPDATED_ARRAYS",
    "UPDATED_GROUPS",
)  # fmt: skip


def find_unordered_in_log(payload: bytes) -> Iterator[str]:
    """Yield the lists of a transaction log's FlatBuffer that are not sorted; raise FormatError."""
    root = Buffer(payload, "transaction-log").root()
    for name in _NODE_LISTS:
        if not is_ascending(root.structs(getattr(TransactionLogSlot, name), 8)):
            yield name.lower()
    arrays = list(root.tables(TransactionLogSlot.UPDATED_CHUNKS))
    if not is_ascending(
        [each.struct(UpdatedChunksSlot.NODE_ID, 8, "a node id") for each in arrays]
    ):
        yield "updated_chunks"
    if not all(map(_has_ordered_chunks, arrays)):
        yield "the chunks of an array"
    moves = root.tables(TransactionLogSlot.MOVED_NODES)
    if not is_ascending([each.text(MoveSlot.TO, "a path") for each in moves], segment_order):
        yield "moved_nodes"


def find_unordered_in_repo_info(payload: bytes) -> Iterator[str]:
    """Yield the lists of a repo info's FlatBuffer that are not sorted; raise FormatError."""
    root = Buffer(payload, "repo-info").root()
    for name, slot in (("branches", RepoSlot.BRANCHES), ("tags", RepoSlot.TAGS)):
        if not is_ascending(
            [each.text(RefSlot.NAME, "a name") for each in root.tables(slot)], str.encode
        ):
            yield name
    if not is_ascending(root.texts(RepoSlot.DELETED_TAGS), str.encode):
        yield "deleted_tags"
    infos = root.tables(RepoSlot.SNAPSHOTS)
    if not is_ascending([each.struct(SnapshotInfoSlot.ID, 12, "an id") for each in infos]):
        yield "snapshots"


def is_ascending(items: Sequence[T], order: Callable[[T], Any] = lambda item: item) -> bool:
    """Return whether items are strictly ascending."""
    keys = [order(item) for item in items]
    return all(a < b for a, b in itertools.pairwise(keys))


def _has_ordered_chunks(array: Table) -> bool:
    buffer = array.buffer
    start, count = buffer.vector(buffer.follow(array.field(UpdatedChunksSlot.CHUNKS, "chunks")), 4)
    source = Source.of(buffer)
    tables = Tables(source, source.follow(start + 4 * np.arange(count, dtype=np.int64)))
    return is_strictly_sorted(source.matrix(tables.targets(0), "<u4"))


def encoding_of(spec_version: int) -> Encoding:
    """Return the value encoding of files of a specification version."""
    return Encoding.MESSAGEPACK if spec_version == 1 else Encoding.FLEXBUFFERS


def decode_metadata(table: Table, slot: int, encoding: Encoding) -> Metadata:
    """Decode the metadata in a field; empty if the field is absent."""
    items: dict[str, Value] = {}
    for item in table.tables(slot):
        name = item.text(MetadataSlot.NAME, "a metadata name")
        if name in items:
            raise FormatError(f"{table.buffer.what}: metadata has {name!r} twice")
        value = item.data(MetadataSlot.VALUE, "a metadata value")
        items[name] = Value.encoded(encoding, value)
    return Metadata(items) if items else NO_METADATA


_ITEM = Kind((MetadataSlot.NAME, LINK), (MetadataSlot.VALUE, LINK))


def write_metadata(
    writer: Writer, all_metadata: Sequence[Metadata], encoding: Encoding
) -> list[int]:
    """Write the metadata vectors of several owners; return their positions."""
    encoded = [() if m is NO_METADATA else m.encode(encoding) for m in all_metadata]
    items = [item for items in encoded for item in items]
    if not items:
        return [writer.empty()] * len(encoded)
    values = writer.vectors([value for _, value in items])
    names = writer.vectors([name for name, _ in items])
    tables = writer.rows(_ITEM, len(items), names, values)
    return writer.link_lists(tables, [*map(len, encoded)])


# Columns, for owners whose metadata is copied without decoding


@dataclass(frozen=True, slots=True, eq=False)
class EncodedMetadata:
    """Encoded metadata of several owners: item counts, and all items concatenated."""

    counts: Integers
    names: Pieces
    """Names, sorted by bytes within each owner."""
    values: Pieces


def read_metadata(tables: Tables, slot: int) -> EncodedMetadata:
    """Read the metadata in a field of all tables; empty where the field is absent."""
    source = tables.source
    vectors = tables.targets(slot)
    owners = np.flatnonzero(vectors >= 0)
    counts = np.zeros(len(tables), np.int64)
    positions, counts[owners] = source.links(vectors[owners])
    items = Tables(source, positions)
    names, values = items.targets(MetadataSlot.NAME), items.targets(MetadataSlot.VALUE)
    if np.any(names < 0) or np.any(values < 0):
        raise source.damaged("a metadata name or value is missing")
    texts = source.texts(names, "a metadata name")
    order = _order_items(source, texts, counts)
    return EncodedMetadata(counts, texts.take(order), source.structs(values, 1).take(order))


def _order_items(source: Source, names: Pieces, counts: Integers) -> Integers:
    if counts.max(initial=0) < 2:
        return np.arange(len(names))
    owners = np.repeat(np.arange(counts.size), counts)
    ranks = _rank(source, names)
    order = np.lexsort((ranks, owners))
    owners, ranks = owners[order], ranks[order]
    if np.any((owners[:-1] == owners[1:]) & (ranks[:-1] == ranks[1:])):
        raise source.damaged("metadata has a name twice")
    return order


def _rank(source: Source, names: Pieces) -> Integers:
    first, codes = ragged.distinct(names.buffer, names.starts, names.lengths)
    distinct = names.take(first)
    texts = source.pieces(distinct.starts, distinct.lengths)
    ranks = np.empty(first.size, np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(first.size)
    return ranks[codes]


def copy_metadata(writer: Writer, metadata: EncodedMetadata, owners: Integers) -> Integers:
    """Copy the metadata vectors of some owners unchanged; return their positions."""
    starts = ragged.offsets_of(metadata.counts)[:-1]
    counts = metadata.counts[owners]
    items = ragged.runs(starts[owners], counts)
    values = writer.copies(metadata.values.take(items))
    names = writer.copies(metadata.names.take(items))
    tables = writer.tables(
        items.size, Link(MetadataSlot.NAME, names), Link(MetadataSlot.VALUE, values)
    )
    return writer.link_vectors(tables, counts)
