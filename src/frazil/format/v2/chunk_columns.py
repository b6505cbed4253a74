"""Decoding the chunk references of an array as columns, all at once."""

import numpy as np
from numpy.typing import NDArray

from frazil.format import ragged
from frazil.format.chunks import ChunkTable, constant_column
from frazil.format.coordinates import Coordinates
from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.native_chunks import NativeChunks
from frazil.format.ragged import Bytes, Integers
from frazil.format.references import ChunkKind
from frazil.format.strings import NO_STRINGS, Strings, unite
from frazil.format.v2.locations import Decompressor, decompress_locations
from frazil.format.v2.schema import ChunkRefSlot

Codes = NDArray[np.int32]

_HONEST_SHARES = 8


def decode_table(tables: Tables, dictionary: bytes | None) -> ChunkTable:
    """The table of these references, sorted, whatever their order in the file."""
    source = tables.source
    # Before the other columns take their memory, because it takes the most on the way.
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
    """What the native references name, in the order of the file; the others are not looked at."""
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
    """The official reader's precedence: an id, then a location, then inline bytes."""
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
    """Offsets and lengths; in inline rows those of the bytes gathered into one blob."""
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
    """Numbers into distinct texts, -1 where the position is; a broadcast where all are."""
    if not np.any(positions >= 0):
        return constant_column(-1, positions.size, np.int32), NO_STRINGS
    code, starts, lengths = _distinct_present_vectors(source, positions)
    return code, Strings(*ragged.pack(source.data, starts, lengths)).validate(source.what)


def _decode_last_modified(tables: Tables, kind: Bytes, etag: Codes) -> NDArray[np.uint32]:
    """A virtual reference has at most one checksum, the etag where there are two; others have none."""
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
    """Where a field of virtual references points to, -1 for all others."""
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
    """Numbers into distinct byte vectors, whose starts and lengths follow.

    References to one place are the same; then equal bytes at different places are, which is how
    writers that share nothing write them.
    """
    first, by_place = ragged.distinct_numbers(positions)
    places = positions[first]
    lengths = source.vectors(places, 1)
    # Arrays honestly share locations, so that these are read once for each array.
    source.buffer.spend(int(lengths.sum()) // _HONEST_SHARES)
    rows, by_content = ragged.distinct(source.data, places + 4, lengths)
    return by_content[by_place].astype(np.int32), places[rows] + 4, lengths[rows]
