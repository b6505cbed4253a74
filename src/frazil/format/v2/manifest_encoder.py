"""Encode manifests: all references of a kind in one block with one stride."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
import zstandard
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format import ragged
from frazil.format.ids import ChunkId, ManifestId, NodeId
from frazil.format.manifest import (
    FEW,
    LARGEST_LOCATION,
    ChunkKind,
    ChunkRef,
    ChunkRefs,
    ChunkRows,
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    LocationCompression,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.ragged import Integers, Part, Strings, unite
from frazil.format.v2.flatbuffers_writer import (
    ABSENT,
    LINK,
    WORDS,
    Attached,
    Field,
    Kind,
    Link,
    Number,
    Struct,
    Writer,
)
from frazil.format.v2.schema import ArrayManifestSlot, ChunkRefSlot, ManifestSlot
from frazil.lazy import dataclass

_AT_ONCE = 100_000
"""Number of locations that are compressed in one call."""


@dataclass(frozen=True, slots=True)
class CompressedLocations:
    """Locations compressed with a dictionary."""

    dictionary: bytes
    frames: bytes
    """zstd frames of the compressed locations, one after another."""
    sizes: Integers
    """Size of each location's frame; 0 for those stored uncompressed."""


def compress_locations(
    locations: Strings, options: LocationCompression
) -> CompressedLocations | None:
    """Compress distinct locations; return None if no dictionary can be trained."""
    dictionary = _train(locations, options)
    if dictionary is None:
        return None
    compressor = zstandard.ZstdCompressor(level=options.compression_level, dict_data=dictionary)
    lengths = locations.lengths
    rows = np.flatnonzero((lengths > 0) & (lengths <= LARGEST_LOCATION))
    blob, segments = locations.blob.tobytes(), np.stack((locations.offsets[:-1], lengths), axis=1)
    sizes, frames = np.zeros(len(locations), np.int64), []
    for start in range(0, rows.size, _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        source = zstandard.BufferWithSegments(blob, segments[part].astype(np.uint64).tobytes())
        found = compressor.multi_compress_to_buffer(source)
        made = [found[number].tobytes() for number in range(part.size)]
        sizes[part] = np.fromiter(map(len, made), np.int64, len(made))
        frames.append(b"".join(made))
    return CompressedLocations(dictionary.as_bytes(), b"".join(frames), sizes)


def _train(
    locations: Strings, options: LocationCompression
) -> zstandard.ZstdCompressionDict | None:
    step = max(1, len(locations) // options.dictionary_max_training_samples)
    items = locations.take(np.arange(0, len(locations), step)).encoded_list()
    samples: list[bytes | bytearray | memoryview] = [
        item for item in items if 8 <= len(item) <= LARGEST_LOCATION
    ]
    size = options.dictionary_max_size_bytes
    if 2 * len(samples) <= len(items) or size < 256:
        return None
    # zstd needs at least as much input as the dictionary size, so few samples are repeated.
    samples *= 1 + size // max(1, sum(map(len, samples)))
    try:
        return zstandard.train_dictionary(size, samples, level=options.compression_level)
    except zstandard.ZstdError:
        return None


_LARGEST_APPARENT_SIZE = 2**31
"""Maximum bytes that the official reader visits; shared ones count each time."""


def encode_manifest_payload(
    manifest: Manifest, compression: LocationCompression | None
) -> list[Part]:
    """Encode a manifest as FlatBuffer; raise InvalidInputError if it is too large for readers.

    Without compression, locations are stored as plain text, as V1 requires.
    """
    if manifest.id is None or len(manifest.id) != 12:
        raise InvalidInputError("manifest: it needs an id of 12 bytes")
    arrays = dict(sorted(manifest.arrays.items()))
    few = _find_few(arrays, compression)
    if few and len(few) == len(few[0].refs) == 1 and not manifest.array_extras:
        ((coordinate, ref),) = few[0].refs.items()
        if manifest.extra is None and type(ref) is InlineRef:
            single = _lay_out_single(len(coordinate), len(ref.data))
            return [single(manifest.id, *arrays, *coordinate, ref.data)]
        if manifest.extra is None and type(ref) is NativeRef and not ref.offset:
            single = _lay_out_single(len(coordinate), None)
            return [single(manifest.id, *arrays, ref.length, ref.chunk_id, *coordinate)]
    return _encode_all(manifest, arrays, few, compression)


@lru_cache(maxsize=64)
def _lay_out_single(axes: int, size: int | None) -> Callable[..., bytes]:
    """Return a function that encodes a manifest of one chunk of so many bytes inline, or of none.

    All such manifests are equal but for its parameters: the ids of manifest and array, then length and
    id of the chunk and its coordinate, or the coordinate and the bytes.
    """
    ids = [bytes(range(*ends)) for ends in ((100, 112), (120, 128), (140, 152))]
    coordinate = [0xE1E2E3E4 + axis for axis in range(axes)]
    words = [struct.pack("<I", index) for index in coordinate]
    number = 0xF1F2F3F4F5F6F7F8
    if size is None:
        ref: ChunkRef = NativeRef(ChunkId(ids[2]), 0, number)
        fields = [*ids[:2], struct.pack("<Q", number), ids[2], *words]
        types = ["12s", "8s", "Q", "12s", *("I" * axes)]
    else:
        ref = InlineRef(bytes(size))
        fields, types = [*ids[:2], *words], ["12s", "8s", *("I" * axes), f"{size}s"]
    arrays: dict[NodeId, ChunkRefs] = {NodeId(ids[1]): ChunkRows(axes, {tuple(coordinate): ref})}
    few = [each for each in arrays.values() if isinstance(each, ChunkRows)]
    sample = Manifest(ManifestId(ids[0]), arrays)
    payload = b"".join(map(bytes, _encode_all(sample, arrays, few, None)))
    places = [payload.index(field) for field in fields]
    if size is not None:  # at the end, with their count before, and a zero and padding behind
        places.append(len(payload) - ((size + 8) & ~3) + 4)
    text, constants, end = "<", [], 0
    for place, type_ in zip(places, types, strict=True):
        constants.append(payload[end:place])
        text += f"{place - end}s{type_}"
        end = place + struct.calcsize(f"<{type_}")
    pack = struct.Struct(f"{text}{len(payload) - end}s").pack
    rest = payload[end:]
    return lambda *values: pack(*chain.from_iterable(zip(constants, values, strict=True)), rest)


def _encode_all(
    manifest: Manifest,
    arrays: Mapping[NodeId, ChunkRefs],
    few: Sequence[ChunkRows] | None,
    compression: LocationCompression | None,
) -> list[Part]:
    """Encode a manifest whose references are `few`, or else by columns."""
    assert manifest.id is not None
    writer = Writer("manifest")
    if few is not None:
        dictionary, is_compressed = ABSENT, False
        kinds = {type(ref) for rows in few for ref in rows.refs.values()}
        places, etags = _write_few_texts(writer, few) if VirtualRef in kinds else ({}, {})
        vectors = [_write_rows(writer, rows, places, etags) for rows in few]
    else:
        tables = {node_id: refs.table() for node_id, refs in arrays.items()}
        texts = _write_texts(writer, tables, compression)
        dictionary, is_compressed = texts.dictionary, bool(texts.frames.size)
        vectors = [
            _write_refs(writer, texts, number, table)
            for number, table in enumerate(tables.values())
        ]
        _refuse_if_unreadable(writer, texts, tables)
    extras = None
    if manifest.array_extras:
        extras = writer.vectors([manifest.array_extras.get(node_id) for node_id in arrays])
    tables_place = writer.links(writer.rows(_ARRAY, len(arrays), list(arrays), vectors, extras))
    extra = writer.vector(manifest.extra)
    # The schema's default is 1, so only "none" is written.
    algorithm = None if is_compressed else 0
    root = writer.row(_MANIFEST, manifest.id, tables_place, dictionary, algorithm, extra)
    return writer.finish(root)


_MANIFEST = Kind(
    (ManifestSlot.ID, "12s"), (ManifestSlot.ARRAYS, LINK), (ManifestSlot.LOCATION_DICTIONARY, LINK),
    (ManifestSlot.COMPRESSION_ALGORITHM, "B"), (ManifestSlot.EXTRA, LINK),
)  # fmt: skip
_ARRAY = Kind(
    (ArrayManifestSlot.NODE_ID, "8s"), (ArrayManifestSlot.REFS, LINK),
    (ArrayManifestSlot.EXTRA, LINK),
)  # fmt: skip
_NATIVE = Kind(
    (ChunkRefSlot.INDEX, WORDS), (ChunkRefSlot.LENGTH, "Q"), (ChunkRefSlot.CHUNK_ID, "12s"),
    (ChunkRefSlot.OFFSET, "Q"),
)  # fmt: skip
_VIRTUAL = Kind(
    (ChunkRefSlot.INDEX, WORDS), (ChunkRefSlot.OFFSET, "Q"), (ChunkRefSlot.LENGTH, "Q"),
    (ChunkRefSlot.LOCATION, LINK), (ChunkRefSlot.CHECKSUM_ETAG, LINK),
    (ChunkRefSlot.CHECKSUM_LAST_MODIFIED, "I"),
)  # fmt: skip
_INLINE = Kind((ChunkRefSlot.INDEX, WORDS), (ChunkRefSlot.INLINE, LINK))


def _find_few(
    arrays: Mapping[NodeId, ChunkRefs], compression: LocationCompression | None
) -> list[ChunkRows] | None:
    """Return the references of all arrays if they are few and need no compression."""
    few = [refs for refs in arrays.values() if type(refs) is ChunkRows]
    count = sum([len(rows.refs) for rows in few])
    if len(few) < len(arrays) or count > FEW:
        return None
    return None if compression and compression.min_num_chunks <= count else few


def _write_few_texts(
    writer: Writer, few: Sequence[ChunkRows]
) -> tuple[dict[str, int], dict[str, int]]:
    """Write the distinct ETags and locations of virtual references; return their positions."""
    virtual = [ref for rows in few for ref in rows.refs.values() if type(ref) is VirtualRef]
    checksums = [ref.checksum for ref in virtual]
    etags = list(dict.fromkeys([each.value for each in checksums if type(each) is ETag]))
    etag_places = writer.vectors(etags)
    locations = list(dict.fromkeys([ref.location for ref in virtual]))
    places = dict(zip(locations, writer.vectors(locations), strict=True))
    return places, dict(zip(etags, etag_places, strict=True))


def _write_rows(
    writer: Writer, rows: ChunkRows, locations: Mapping[str, int], etags: Mapping[str, int]
) -> int:
    inlines = [ref.data for ref in rows.refs.values() if type(ref) is InlineRef]
    if len(inlines) == len(rows.refs) > 0:
        datas = writer.vectors(inlines)
        return writer.links(writer.rows(_INLINE, len(inlines), [*rows.refs], datas))
    found: dict[tuple[int, ...], int] = {}
    native = {place: ref for place, ref in rows.refs.items() if type(ref) is NativeRef}
    if native:
        refs = list(native.values())
        offsets = [ref.offset for ref in refs]
        tables = writer.rows(
            _NATIVE,
            len(refs),
            list(native),
            [ref.length for ref in refs],
            [ref.chunk_id for ref in refs],
            offsets if any(offsets) else None,
        )
        found.update(zip(native, tables, strict=True))
    if locations:
        found.update(_write_virtual_rows(writer, rows, locations, etags))
    inline = {place: ref.data for place, ref in rows.refs.items() if type(ref) is InlineRef}
    if inline:
        datas = writer.vectors(list(inline.values()))
        tables = writer.rows(_INLINE, len(inline), list(inline), datas)
        found.update(zip(inline, tables, strict=True))
    return writer.links([found[place] for place in rows.refs])


def _write_virtual_rows(
    writer: Writer, rows: ChunkRows, locations: Mapping[str, int], etags: Mapping[str, int]
) -> dict[tuple[int, ...], int]:
    virtual = {place: ref for place, ref in rows.refs.items() if type(ref) is VirtualRef}
    refs = list(virtual.values())
    checksums = [ref.checksum for ref in refs]
    times = [each.seconds if type(each) is LastModified else 0 for each in checksums]
    tables = writer.rows(
        _VIRTUAL,
        len(refs),
        list(virtual),
        [ref.offset for ref in refs],
        [ref.length for ref in refs],
        [locations[ref.location] for ref in refs],
        [etags[each.value] if type(each) is ETag else ABSENT for each in checksums],
        times if any(times) else None,
    )
    return dict(zip(virtual, tables, strict=True))


@dataclass(frozen=True, slots=True)
class _Texts:
    """Positions of locations and ETags in the file, by their merged codes."""

    dictionary: int
    plain: Integers
    frames: Integers
    """Positions of compressed locations; empty without compression."""
    etags: Integers
    location_numbers: list[Integers]
    etag_numbers: list[Integers]
    location_lengths: Integers
    """Stored sizes, to compute the bytes that a reader visits."""
    etag_lengths: Integers


def _write_texts(
    writer: Writer, tables: Mapping[NodeId, ChunkTable], compression: LocationCompression | None
) -> _Texts:
    compact = [_used_texts(table) for table in tables.values()]
    locations, location_numbers = unite(used for used, _, _ in compact)
    etags, etag_numbers = unite(table.etags for table in tables.values())
    virtual = sum(count for _, _, count in compact)
    numbers = [n[m] for n, (_, m, _) in zip(location_numbers, compact, strict=True)]
    etag_places = writer.packed_vectors(etags.blob, etags.offsets)
    compressed = None
    if compression and min(virtual, len(locations)) >= compression.min_num_chunks:
        compressed = compress_locations(locations, compression)
    if compressed is None:
        plain = writer.packed_vectors(locations.blob, locations.offsets)
        none = np.empty(0, np.int64)
        return _Texts(ABSENT, plain, none, etag_places, numbers, etag_numbers,
                      locations.lengths, etags.lengths)  # fmt: skip
    sizes = compressed.sizes
    long = sizes == 0
    plain = np.full(len(locations), ABSENT, np.int64)
    kept = locations.take(np.flatnonzero(long))
    plain[long] = writer.packed_vectors(kept.blob, kept.offsets)
    frames = np.full(len(locations), ABSENT, np.int64)
    blob = np.frombuffer(compressed.frames, np.uint8)
    frames[~long] = writer.packed_vectors(blob, ragged.offsets_of(sizes[~long]))
    dictionary = int(writer.byte_vectors([compressed.dictionary])[0])
    lengths = np.where(long, locations.lengths, sizes)
    return _Texts(dictionary, plain, frames, etag_places, numbers, etag_numbers, lengths,
                  etags.lengths)  # fmt: skip


def _used_texts(table: ChunkTable) -> tuple[Strings, Integers, int]:
    """Return the locations of virtual references, their new codes, and the number of references."""
    codes = table.location[table.kind == ChunkKind.VIRTUAL]
    used = np.zeros(len(table.locations), np.bool_)
    used[codes] = True
    numbers = np.cumsum(used) - 1
    locations = table.locations if used.all() else table.locations.take(np.flatnonzero(used))
    return locations, numbers, codes.size


def _write_refs(writer: Writer, texts: _Texts, number: int, table: ChunkTable) -> int:
    places = np.empty(len(table), np.int64)
    extras = writer.byte_vectors(table.extras)
    for kind, fields_of in _FIELDS_OF.items():
        rows = np.flatnonzero(table.kind == kind)
        if not rows.size:
            continue
        part = table if rows.size == len(table) else table.take(rows)
        places[rows] = writer.tables(
            rows.size,
            Attached(ChunkRefSlot.INDEX, part.coordinates),
            *fields_of(writer, part, texts, number),
            Link(ChunkRefSlot.EXTRA, _places_of(part.extra, extras)),
        )
    return writer.link_vector(places)


def _native_fields(_: Writer, part: ChunkTable, __: _Texts, ___: int) -> list[Field]:
    if part.chunk_id.shape[1] != 12:
        raise InvalidInputError("manifest: chunk ids must have 12 bytes")
    fields: list[Field] = [
        Number(ChunkRefSlot.LENGTH, part.length),
        Struct(ChunkRefSlot.CHUNK_ID, part.chunk_id),
    ]
    if part.offset.any():
        fields.append(Number(ChunkRefSlot.OFFSET, part.offset))
    return fields


def _inline_fields(writer: Writer, part: ChunkTable, _: _Texts, __: int) -> list[Field]:
    starts, lengths = part.offset.astype(np.int64), part.length.astype(np.int64)
    blob, offsets = ragged.pack(part.inline, starts, lengths)
    return [Link(ChunkRefSlot.INLINE, writer.packed_vectors(blob, offsets))]


def _virtual_fields(_: Writer, part: ChunkTable, texts: _Texts, number: int) -> list[Field]:
    locations = texts.location_numbers[number][part.location]
    fields: list[Field] = [
        Number(ChunkRefSlot.OFFSET, part.offset),
        Number(ChunkRefSlot.LENGTH, part.length),
        Link(ChunkRefSlot.LOCATION, texts.plain[locations]),
        Link(ChunkRefSlot.CHECKSUM_ETAG,
             _places_of(part.etag, texts.etags[texts.etag_numbers[number]])),
    ]  # fmt: skip
    if texts.frames.size:
        fields.append(Link(ChunkRefSlot.COMPRESSED_LOCATION, texts.frames[locations]))
    if part.last_modified.any():
        fields.append(Number(ChunkRefSlot.CHECKSUM_LAST_MODIFIED, part.last_modified))
    return fields


_FIELDS_OF = {
    ChunkKind.NATIVE: _native_fields,
    ChunkKind.VIRTUAL: _virtual_fields,
    ChunkKind.INLINE: _inline_fields,
}


def _refuse_if_unreadable(
    writer: Writer, texts: _Texts, tables: Mapping[NodeId, ChunkTable]
) -> None:
    """Raise InvalidInputError if the official reader would stop: it revisits shared texts."""
    visited = writer.size
    for number, table in enumerate(tables.values()):
        # Two offsets, the vtable (4 bytes and 2 per slot), and a visit of each of its 10 slots.
        visited += len(table) * (10 + 24 + 20)
        rows = table.kind == ChunkKind.VIRTUAL
        codes = texts.location_numbers[number][table.location[rows]]
        visited += int((texts.location_lengths[codes] + 4).sum())
        etags = table.etag[rows][table.etag[rows] >= 0]
        visited += int((texts.etag_lengths[texts.etag_numbers[number]][etags] + 4).sum())
    if visited > _LARGEST_APPARENT_SIZE:
        references = sum(map(len, tables.values()))
        raise InvalidInputError(
            f"manifest: {references} references are more than one file can hold "
            f"({visited} bytes for a reader to visit, {_LARGEST_APPARENT_SIZE} are allowed): "
            "split it (see the manifest splitting configuration)"
        )


def _places_of(codes: NDArray[np.int32], places: Integers) -> Integers:
    if codes.size and codes.strides[0] == 0 and codes[0] < 0:
        return np.broadcast_to(np.int64(ABSENT), codes.shape)
    found: Integers = np.append(places, ABSENT)[codes]
    return found
