"""Decode manifests; references stay encoded until one is looked up or all are needed."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from frazil.errors import FormatError
from frazil.format import ragged
from frazil.format.coordinates import Coordinates, is_strictly_sorted
from frazil.format.ids import ChunkId, ManifestId, NodeId
from frazil.format.manifest import (
    LARGEST_LOCATION,
    ChunkKind,
    ChunkRef,
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    Manifest,
    NativeChunks,
    NativeRef,
    VirtualRef,
    constant_column,
)
from frazil.format.ragged import NO_STRINGS, Bytes, Integers, Strings, unite
from frazil.format.v2.flatbuffers_reader import Buffer, Source, Table, Tables
from frazil.format.v2.schema import ArrayManifestSlot, ChunkRefSlot, ManifestSlot
from frazil.lazy import dataclass

Codes = NDArray[np.int32]

_HONEST_SHARES = 8


def decode_table(tables: Tables, dictionary: bytes | None) -> ChunkTable:
    """Decode references into a sorted table, regardless of their order in the file."""
    source = tables.source
    # First, before the other columns are allocated, because it needs the most temporary memory.
    coordinates = _decode_coordinates(tables)
    kind = _decode_kinds(tables)
    location, locations = _decode_locations(tables, kind, dictionary)
    etag, etags = _decode_texts(source, _only(tables, ChunkRefSlot.CHECKSUM_ETAG, kind))
    offset, length, inline = _decode_places(tables, kind)
    extra, extras = _decode_extras(tables)
    return ChunkTable(
        coordinates=coordinates,
        kind=kind,
        offset=offset,
        length=length,
        chunk_id=tables.structs(ChunkRefSlot.CHUNK_ID, 12),
        location=location,
        etag=etag,
        last_modified=_decode_last_modified(tables, kind, etag),
        extra=extra,
        locations=locations,
        etags=etags,
        inline=inline,
        extras=extras,
    ).sort()


def decode_natives(tables: Tables) -> NativeChunks:
    """Return the native chunks in file order, without decoding other references."""
    is_native = tables.has(ChunkRefSlot.CHUNK_ID)
    ids = tables.structs(ChunkRefSlot.CHUNK_ID, 12)
    lengths = tables.numbers(ChunkRefSlot.LENGTH, "<u8")
    if is_native.all():
        return NativeChunks(ids, lengths)
    return NativeChunks(ids[is_native], lengths[is_native])


def _decode_coordinates(tables: Tables) -> Coordinates:
    index = tables.targets(ChunkRefSlot.INDEX)
    if np.any(index < 0):
        raise tables.source.damaged("a reference has no index")
    return tables.source.matrix(index, "<u4")


def _decode_kinds(tables: Tables) -> Bytes:
    """Return the kind of each reference, with the official precedence: id, location, inline bytes."""
    native = tables.has(ChunkRefSlot.CHUNK_ID)
    virtual = tables.has(ChunkRefSlot.COMPRESSED_LOCATION) | tables.has(ChunkRefSlot.LOCATION)
    if not np.all(native | virtual | tables.has(ChunkRefSlot.INLINE)):
        raise tables.source.damaged("a reference has no chunk id, location or inline bytes")
    kind = np.full(len(tables), ChunkKind.INLINE, np.uint8)
    kind[virtual] = ChunkKind.VIRTUAL
    kind[native] = ChunkKind.NATIVE
    return kind


def _decode_places(
    tables: Tables, kind: Bytes
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Bytes]:
    """Return offsets and lengths; those of inline rows refer to one blob with their bytes."""
    offset = tables.numbers(ChunkRefSlot.OFFSET, "<u8")
    length = tables.numbers(ChunkRefSlot.LENGTH, "<u8")
    rows = np.flatnonzero(kind == ChunkKind.INLINE)
    if not rows.size:
        return offset, length, NO_STRINGS.blob
    source = tables.source
    vectors = tables.targets(ChunkRefSlot.INLINE)[rows]
    code, starts, lengths = _distinct_vectors(source, vectors)
    blob, offsets = ragged.pack(source.data, starts, lengths)
    offset, length = np.array(offset), np.array(length)
    offset[rows] = offsets[:-1][code]
    length[rows] = lengths[code]
    return offset, length, blob


def _decode_locations(
    tables: Tables, kind: Bytes, dictionary: bytes | None
) -> tuple[Codes, Strings]:
    source = tables.source
    compressed = _only(tables, ChunkRefSlot.COMPRESSED_LOCATION, kind)
    plain = _only(tables, ChunkRefSlot.LOCATION, kind)
    plain[compressed >= 0] = -1
    if not np.any(compressed >= 0):
        return _decode_texts(source, plain)
    frame_code, starts, lengths = _distinct_present_vectors(source, compressed)
    frames = source.pieces(starts, lengths)
    decoded = decompress_locations(Decompressor(dictionary, source.what), frames)
    plain_code, texts = _decode_texts(source, plain)
    if not len(texts):
        return frame_code, decoded
    locations, (numbers, plain_numbers) = unite([decoded, texts])
    code = np.append(numbers, -1)[frame_code]
    code = np.where(plain_code >= 0, np.append(plain_numbers, -1)[plain_code], code)
    return code.astype(np.int32), locations


def _decode_texts(source: Source, positions: Integers) -> tuple[Codes, Strings]:
    """Return codes into distinct texts, -1 for a negative position; a broadcast if all are negative."""
    if not np.any(positions >= 0):
        return constant_column(-1, positions.size, np.int32), NO_STRINGS
    code, starts, lengths = _distinct_present_vectors(source, positions)
    return code, Strings(*ragged.pack(source.data, starts, lengths)).validate(source.what)


def _decode_last_modified(tables: Tables, kind: Bytes, etag: Codes) -> NDArray[np.uint32]:
    """Return times of virtual references without an ETag, which takes precedence; 0 otherwise."""
    column = tables.numbers(ChunkRefSlot.CHECKSUM_LAST_MODIFIED, "<u4")
    void = (column != 0) & ((etag >= 0) | (kind != ChunkKind.VIRTUAL))
    return np.where(void, np.uint32(0), column) if void.any() else column


def _decode_extras(tables: Tables) -> tuple[Codes, tuple[bytes, ...]]:
    positions = tables.targets(ChunkRefSlot.EXTRA)
    if not np.any(positions >= 0):
        return constant_column(-1, len(tables), np.int32), ()
    code, starts, lengths = _distinct_present_vectors(tables.source, positions)
    return code, tuple(tables.source.pieces(starts, lengths))


def _only(tables: Tables, slot: int, kind: Bytes) -> Integers:
    """Return the targets of a field of virtual references, -1 for all others."""
    targets = tables.targets(slot)
    targets[kind != ChunkKind.VIRTUAL] = -1
    return targets


def _distinct_present_vectors(
    source: Source, positions: Integers
) -> tuple[Codes, Integers, Integers]:
    present = positions >= 0
    if present.all():
        return _distinct_vectors(source, positions)
    code = np.full(positions.size, -1, np.int32)
    code[present], starts, lengths = _distinct_vectors(source, positions[present])
    return code, starts, lengths


def _distinct_vectors(source: Source, positions: Integers) -> tuple[Codes, Integers, Integers]:
    """Return codes into distinct byte vectors, and the starts and lengths of these.

    References to one position are equal; so are equal bytes at different positions, as written by
    writers that share no texts.
    """
    first, by_place = ragged.distinct_numbers(positions)
    places = positions[first]
    lengths = source.vectors(places, 1)
    # Arrays may share locations, which are then read once per array.
    source.buffer.spend(int(lengths.sum()) // _HONEST_SHARES)
    rows, by_content = ragged.distinct(source.data, places + 4, lengths)
    return by_content[by_place].astype(np.int32), places[rows] + 4, lengths[rows]


_WHAT = "manifest"


def decode_manifest_payload(payload: bytes) -> Manifest:
    """Decode a manifest's FlatBuffer; references stay encoded until they are needed."""
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
    """Storage of virtual chunk locations in a manifest."""

    dictionary_size_bytes: int | None = None
    """Size of the dictionary; None without one."""
    num_compressed_refs: int = 0


def read_location_encoding(payload: bytes) -> LocationEncoding:
    """Return how a manifest's FlatBuffer stores virtual chunk locations."""
    buffer = Buffer(payload, _WHAT)
    root = buffer.root()
    dictionary = root.find_data(ManifestSlot.LOCATION_DICTIONARY)
    arrays = [EncodedRefs(table, dictionary) for table in root.tables(ManifestSlot.ARRAYS)]
    size = None if dictionary is None else len(dictionary)
    return LocationEncoding(size, sum(refs.count_compressed_locations() for refs in arrays))


class EncodedRefs:
    """References of one array in a manifest file, decoded on demand."""

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
        """Return the reference of one chunk, by binary search from its expected row in a full box."""
        # A new buffer, because many lookups in one manifest would exhaust the budget.
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
        """Return the row of a chunk if the box between first and last chunk were full."""
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

    def rows(self, axes: int) -> dict[tuple[int, ...], ChunkRef] | None:
        """Return all references by coordinate; None if one has extra bytes."""
        buffer = Buffer(self._buffer.data, _WHAT)
        refs = {}
        for row in range(self._count):
            table = self._table_at(buffer, row)
            if table.find(ChunkRefSlot.EXTRA) is not None:
                return None
            refs[_index_of(table, axes)] = self._decode_ref(table)
        return refs

    def table(self) -> ChunkTable:
        """Return all references as sorted columns, regardless of their order in the file."""
        return decode_table(self._tables(), self._dictionary)

    def natives(self) -> NativeChunks:
        """Return the native chunks, without decoding anything else."""
        return decode_natives(self._tables())

    def is_in_order(self) -> bool:
        """Return whether coordinates are strictly ascending in the file, which `find` requires."""
        tables = self._tables()
        targets = tables.targets(ChunkRefSlot.INDEX)
        return is_strictly_sorted(tables.source.matrix(targets, "<u4"))

    def count_compressed_locations(self) -> int:
        """Return the number of references with a dictionary-compressed location."""
        return int(self._tables().has(ChunkRefSlot.COMPRESSED_LOCATION).sum())

    def _tables(self) -> Tables:
        # The first decoding counts towards the budget that all arrays of the file share.
        again = self._is_decoded
        self._is_decoded = True
        source = Source.of(Buffer(self._buffer.data, _WHAT) if again else self._buffer)
        positions = self._start + 4 * np.arange(self._count, dtype=np.int64)
        return Tables(source, source.follow(positions))

    def with_axes(self, axes: int) -> ChunkTable:
        """Return all references as columns, for an array with this number of axes."""
        return self.table().with_axes(axes)


def _index_of(table: Table, axes: int) -> tuple[int, ...]:
    buffer = table.buffer
    start, count = buffer.vector(buffer.follow(table.field(ChunkRefSlot.INDEX, "an index")), 4)
    if count != axes:
        raise buffer.damaged(f"a coordinate of {count} axes where {axes} were asked for")
    return struct.unpack_from(f"<{axes}I", buffer.data, start)


Booleans = NDArray[np.bool_]


def find_natives(payloads: Sequence[bytes]) -> tuple[NativeChunks, Booleans]:
    """Return the native chunks of all plain manifests, and a mask of the plain payloads."""
    files = _Files(payloads)
    root = _Tables(files, files.follow(files.starts))
    root.know(ManifestSlot.EXTRA)
    root.require(ManifestSlot.ID, 12)
    root.refuse(ManifestSlot.LOCATION_DICTIONARY)
    root.refuse(ManifestSlot.EXTRA)
    arrays, count = files.vector(root.target(ManifestSlot.ARRAYS))
    files.is_plain &= count == 1
    array = _Tables(files, files.follow(arrays))
    array.know(ArrayManifestSlot.EXTRA)
    array.require(ArrayManifestSlot.NODE_ID, 8)
    array.refuse(ArrayManifestSlot.EXTRA)
    links, count = files.vector(array.target(ArrayManifestSlot.REFS))
    return _read_refs(files, links, count)


def _read_refs(files: "_Files", links: Integers, count: Integers) -> tuple[NativeChunks, Booleans]:
    """Read all references; the first of each file determines the layout of the others."""
    files.is_plain &= count > 0
    first = _Tables(files, files.follow(links))
    id_at = first.require(ChunkRefSlot.CHUNK_ID, 12)
    length_at = first.require(ChunkRefSlot.LENGTH, 8)
    # References that share bytes are left to the other reader, which has a budget.
    files.is_plain &= count * first.size <= files.ends - files.starts
    count = np.where(files.is_plain, count, 0)
    file = np.repeat(np.arange(count.size), count)
    links = ragged.runs(links, count, 4)
    refs = links + ragged.windows(files.data, "<u4")[links]
    is_plain = (refs >= files.starts[file]) & (refs + first.size[file] <= files.ends[file])
    refs[~is_plain] = first.positions[file][~is_plain]
    is_plain &= refs - ragged.windows(files.data, "<i4")[refs] == first.vtables[file]
    files.is_plain[file[~is_plain]] = False
    is_wanted = files.is_plain[file]
    refs, file = refs[is_wanted], file[is_wanted]
    ids = ragged.gather(files.data, refs + id_at[file], 12)
    lengths = ragged.windows(files.data, "<u8")[refs + length_at[file]]
    return NativeChunks(ids, lengths), files.is_plain


class _Files:
    """Concatenated payloads; positions of payloads that are not plain are read from the padding."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        offsets = ragged.offsets_of(np.fromiter(map(len, payloads), np.int64, len(payloads)))
        self.starts, self.ends = offsets[:-1], offsets[1:]
        self.data: Bytes = np.frombuffer(b"".join([*payloads, _PADDING]), np.uint8)
        self._padding = int(offsets[-1])
        self.is_plain = np.ones(len(payloads), np.bool_)

    def numbers(self, positions: Integers, dtype: str) -> Integers:
        """Return the number at one position of each file."""
        is_inside = positions >= self.starts
        is_inside &= positions + np.dtype(dtype).itemsize <= self.ends
        self.is_plain &= is_inside
        items: NDArray[Any] = ragged.windows(self.data, dtype)
        return items[np.where(is_inside, positions, self._padding)].astype(np.int64)

    def follow(self, positions: Integers) -> Integers:
        """Return the targets of the offsets at these positions."""
        return positions + self.numbers(positions, "<u4")

    def vector(self, positions: Integers) -> tuple[Integers, Integers]:
        """Return start and length of a vector of offsets in each file."""
        count = self.numbers(positions, "<u4")
        self.is_plain &= positions + 4 + 4 * count <= self.ends
        return positions + 4, count


_PADDING = bytes(16)
"""Padding after all payloads, read in place of invalid positions."""


class _Tables:
    """One table per file."""

    def __init__(self, files: _Files, positions: Integers) -> None:
        self._files = files
        self.positions = positions
        self.vtables = positions - files.numbers(positions, "<i4")
        self._vtable_size = files.numbers(self.vtables, "<u2")
        self.size = files.numbers(self.vtables + 2, "<u2")
        files.is_plain &= (self._vtable_size >= 4) & (self._vtable_size % 2 == 0)
        files.is_plain &= self.vtables + self._vtable_size <= files.ends
        files.is_plain &= (self.size >= 4) & (positions + self.size <= files.ends)

    def know(self, last: int) -> None:
        """Require that tables have no fields after the last, and none outside the table."""
        self._files.is_plain &= self._vtable_size <= 4 + 2 * (last + 1)
        for slot in range(last + 1):
            self._files.is_plain &= self._distance(slot) < self.size

    def require(self, slot: int, size: int) -> Integers:
        """Return the distance of a required field from its table."""
        distance = self._distance(slot)
        self._files.is_plain &= (distance > 0) & (distance + size <= self.size)
        return distance

    def refuse(self, slot: int) -> None:
        """Require that a field is absent."""
        self._files.is_plain &= self._distance(slot) == 0

    def target(self, slot: int) -> Integers:
        """Return the target of a required field."""
        return self._files.follow(self.positions + self.require(slot, 4))

    def _distance(self, slot: int) -> Integers:
        is_there = self._vtable_size >= 6 + 2 * slot
        # For a vtable without the slot the value read at its start is ignored.
        distance = self._files.numbers(self.vtables + np.where(is_there, 4 + 2 * slot, 0), "<u2")
        return np.where(is_there, distance, 0)


def decompress_locations(decompressor: "Decompressor", frames: list[bytes]) -> Strings:
    """Decompress locations."""
    items = list(map(decompressor.decompress, frames))
    lengths = np.fromiter(map(len, items), np.int64, len(items))
    blob = np.frombuffer(b"".join(items), np.uint8)
    return Strings(blob, ragged.offsets_of(lengths)).validate(decompressor.what)


class Decompressor:
    """Decompressor of locations, with the dictionary of a manifest if it has one."""

    __slots__ = ("_decompressor", "what")

    def __init__(self, dictionary: bytes | None, what: str) -> None:
        self.what = what
        try:
            self._decompressor = zstandard.ZstdDecompressor(
                dict_data=None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
            )
        except zstandard.ZstdError as error:
            raise FormatError(f"{what}: the location dictionary is damaged: {error}") from error

    def decompress(self, frame: bytes) -> bytes:
        """Decompress one location; raise FormatError if damaged or larger than 1024 bytes."""
        try:
            # Checked first, because decompressing allocates the declared size.
            size = zstandard.frame_content_size(frame)
            if size > LARGEST_LOCATION:
                raise FormatError(f"{self.what}: a location of {size} bytes")
            return self._decompressor.decompress(frame, max_output_size=LARGEST_LOCATION)
        except zstandard.ZstdError as error:
            raise FormatError(f"{self.what}: a compressed location is damaged: {error}") from error
