"""Decoding manifests: references stay in the file until one is searched or all are wanted."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import is_strictly_sorted
from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.ids import ChunkId, ManifestId, NodeId
from frazil.format.manifest import Manifest
from frazil.format.native_chunks import NativeChunks
from frazil.format.references import ChunkRef, ETag, InlineRef, LastModified, NativeRef, VirtualRef
from frazil.format.v2.chunk_columns import decode_natives, decode_table
from frazil.format.v2.locations import Decompressor, decompress_locations
from frazil.format.v2.schema import ArrayManifestSlot, ChunkRefSlot, ManifestSlot

_WHAT = "manifest"


def decode_manifest_payload(payload: bytes) -> Manifest:
    """Read a manifest's FlatBuffer; references stay encoded until they are asked for."""
    root = Buffer(payload, _WHAT).root()
    dictionary = root.find_data(ManifestSlot.LOCATION_DICTIONARY)
    arrays: dict[NodeId, EncodedRefs] = {}
    extras: dict[NodeId, bytes] = {}
    for table in root.tables(ManifestSlot.ARRAYS):
        node_id = NodeId(table.struct(ArrayManifestSlot.NODE_ID, 8, "an array's node id"))
        arrays[node_id] = EncodedRefs(table, dictionary)
        extra = table.find_data(ArrayManifestSlot.EXTRA)
        if extra is not None:
            extras[node_id] = extra
    return Manifest(
        id=ManifestId(root.struct(ManifestSlot.ID, 12, "the id")),
        arrays=arrays,
        extra=root.find_data(ManifestSlot.EXTRA),
        array_extras=extras,
    )


@dataclass(frozen=True, slots=True)
class LocationEncoding:
    """How the locations of virtual chunks are kept in a manifest."""

    dictionary_size_bytes: int | None = None
    """None where there is no dictionary."""
    num_compressed_refs: int = 0


def read_location_encoding(payload: bytes) -> LocationEncoding:
    """How a manifest's FlatBuffer keeps the locations of virtual chunks."""
    buffer = Buffer(payload, _WHAT)
    root = buffer.root()
    dictionary = root.find_data(ManifestSlot.LOCATION_DICTIONARY)
    arrays = [EncodedRefs(table, dictionary) for table in root.tables(ManifestSlot.ARRAYS)]
    size = None if dictionary is None else len(dictionary)
    return LocationEncoding(size, sum(refs.count_compressed_locations() for refs in arrays))


class EncodedRefs:
    """The references of one array in a manifest file."""

    __slots__ = ("_box", "_buffer", "_count", "_dictionary", "_is_decoded", "_start")

    def __init__(self, array: Table, dictionary: bytes | None) -> None:
        self._buffer = array.buffer
        self._dictionary = dictionary
        self._is_decoded = False
        self._box: list[tuple[int, int]] | None = None
        position = array.buffer.follow(array.field(ArrayManifestSlot.REFS, "an array's references"))
        self._start, self._count = array.buffer.vector(position, 4)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        table = getattr(other, "table", None)
        return bool(table is not None and self.table() == table())

    __hash__ = None  # type: ignore[assignment]

    # One reference

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """The reference of one chunk, by binary search from where it would be in a full box."""
        # Steps of this search are few, but a long-lived manifest is searched without end.
        buffer = Buffer(self._buffer.data, _WHAT)
        key = tuple(wanted)
        low, high = 0, self._count
        middle = self._guess_row(buffer, key)
        while low < high:
            table = self._table_at(buffer, middle)
            index = _index_of(table, len(key))
            if index == key:
                return self._decode_ref(table)
            if index < key:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        return None

    def _guess_row(self, buffer: Buffer, key: Sequence[int]) -> int:
        """Where a chunk would be if there were one for every place between the first and the last."""
        if not self._count:
            return 0
        if self._box is None:
            first, last = (
                _index_of(self._table_at(buffer, row), len(key)) for row in (0, self._count - 1)
            )
            self._box = [(start, end - start + 1) for start, end in zip(first, last, strict=True)]
        row = 0
        for index, (start, size) in zip(key, self._box, strict=False):
            row = row * size + index - start
        return min(max(row, 0), self._count - 1)

    def _table_at(self, buffer: Buffer, row: int) -> Table:
        return Table(buffer, buffer.follow(self._start + 4 * row))

    def _decode_ref(self, table: Table) -> ChunkRef:
        offset = table.number(ChunkRefSlot.OFFSET, "Q")
        length = table.number(ChunkRefSlot.LENGTH, "Q")
        chunk_id = table.find_struct(ChunkRefSlot.CHUNK_ID, 12)
        if chunk_id is not None:
            return NativeRef(ChunkId(chunk_id), offset, length)
        location = self._find_location(table)
        if location is None:
            return InlineRef(table.data(ChunkRefSlot.INLINE, "a chunk's place"))
        etag = table.find_text(ChunkRefSlot.CHECKSUM_ETAG)
        seconds = table.number(ChunkRefSlot.CHECKSUM_LAST_MODIFIED, "I")
        checksum = LastModified(seconds) if seconds else None
        return VirtualRef(location, offset, length, checksum if etag is None else ETag(etag))

    def _find_location(self, table: Table) -> str | None:
        frame = table.find_data(ChunkRefSlot.COMPRESSED_LOCATION)
        if frame is None:
            return table.find_text(ChunkRefSlot.LOCATION)
        return decompress_locations(Decompressor(self._dictionary, _WHAT), [frame])[0]

    # All references

    def table(self) -> ChunkTable:
        """All references as columns, sorted, whatever the order in the file."""
        return decode_table(self._tables(), self._dictionary)

    def natives(self) -> NativeChunks:
        """What the native references name; nothing else is decoded."""
        return decode_natives(self._tables())

    def is_in_order(self) -> bool:
        """Whether the file has them in the order of their coordinates, none twice: `find` needs it."""
        tables = self._tables()
        targets = tables.targets(ChunkRefSlot.INDEX)
        return is_strictly_sorted(tables.source.matrix(targets, "<u4"))

    def count_compressed_locations(self) -> int:
        """How many references have a location that the dictionary compresses."""
        return int(self._tables().has(ChunkRefSlot.COMPRESSED_LOCATION).sum())

    def _tables(self) -> Tables:
        # The first time counts as work that all arrays of the file do together.
        again = self._is_decoded
        self._is_decoded = True
        source = Source.of(Buffer(self._buffer.data, _WHAT) if again else self._buffer)
        positions = self._start + 4 * np.arange(self._count, dtype=np.int64)
        return Tables(source, source.follow(positions))

    def with_axes(self, axes: int) -> ChunkTable:
        """All references as columns, if they are for an array of so many axes."""
        return self.table().with_axes(axes)


def _index_of(table: Table, axes: int) -> tuple[int, ...]:
    buffer = table.buffer
    start, count = buffer.vector(buffer.follow(table.field(ChunkRefSlot.INDEX, "an index")), 4)
    if count != axes:
        raise buffer.damaged(f"a coordinate of {count} axes where {axes} were asked for")
    return struct.unpack_from(f"<{axes}I", buffer.data, start)
