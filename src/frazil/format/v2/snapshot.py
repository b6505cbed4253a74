"""Snapshots in V1 and V2."""

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from frazil.errors import InvalidInputError
from frazil.format.flatbuffers.fields import (
    ABSENT,
    Attached,
    Link,
    Number,
    Struct,
    numbers,
    one,
    row,
    rows,
)
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.flatbuffers.writer import Writer
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.paths import byte_order
from frazil.format.ragged import Integers, Part
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    ManifestFileInfo,
    Node,
    Snapshot,
)
from frazil.format.times import from_microseconds, to_microseconds
from frazil.format.v2.metadata_items import decode_metadata, encoding_of, write_metadata
from frazil.format.v2.nodes import DIMENSION_V1, decode_nodes
from frazil.format.v2.schema import (
    ArraySlot,
    DimensionSlot,
    ManifestFileSlot,
    ManifestRefSlot,
    NodeDataType,
    NodeSlot,
    SnapshotSlot,
)

_MANIFEST_FILE_V1 = struct.Struct("<12s4xQI4x")


def decode_snapshot_payload(payload: bytes, spec_version: int) -> Snapshot:
    """Read a snapshot's FlatBuffer."""
    root = Buffer(payload, "snapshot").root()
    parent_id = root.find_struct(SnapshotSlot.PARENT_ID, 12)
    return Snapshot(
        id=SnapshotId(root.struct(SnapshotSlot.ID, 12, "the id")),
        parent_id=None if parent_id is None else SnapshotId(parent_id),
        flushed_at=from_microseconds(root.number(SnapshotSlot.FLUSHED_AT, "Q")),
        message=root.text(SnapshotSlot.MESSAGE, "the message"),
        metadata=decode_metadata(root, SnapshotSlot.METADATA, encoding_of(spec_version)),
        nodes=decode_nodes(root, SnapshotSlot.NODES),
        manifest_files=_decode_manifest_files(root),
        extra=root.find_data(SnapshotSlot.EXTRA),
    )


def decode_used_manifests(payload: bytes) -> tuple[ManifestFileInfo, ...]:
    """The manifests that a snapshot lists, and those that only its nodes name; nothing else is read."""
    root = Buffer(payload, "snapshot").root()
    listed = _decode_manifest_files(root)
    named = dict.fromkeys(_decode_manifest_ids(root))
    unlisted = named.keys() - {info.id for info in listed}
    return (*listed, *(ManifestFileInfo(ManifestId(id_)) for id_ in named if id_ in unlisted))


def _decode_manifest_ids(root: Table) -> Iterator[bytes]:
    for node in root.tables(SnapshotSlot.NODES):
        if node.number(NodeSlot.DATA_TYPE, "B") == NodeDataType.ARRAY:
            array = node.table(NodeSlot.DATA, "an array")
            for ref in array.tables(ArraySlot.MANIFESTS):
                yield ref.struct(ManifestRefSlot.OBJECT_ID, 12, "a manifest's id")


def _decode_manifest_files(root: Table) -> tuple[ManifestFileInfo, ...]:
    # The first pre-releases of V2 still used the V1 field.
    old = root.structs(SnapshotSlot.MANIFEST_FILES, _MANIFEST_FILE_V1.size)
    if old:
        fields = map(_MANIFEST_FILE_V1.unpack, old)
        return tuple(ManifestFileInfo(ManifestId(id_), size, refs) for id_, size, refs in fields)
    return tuple(
        ManifestFileInfo(
            id=ManifestId(table.struct(ManifestFileSlot.ID, 12, "a manifest file's id")),
            size_bytes=table.number(ManifestFileSlot.SIZE_BYTES, "Q"),
            num_chunk_refs=table.number(ManifestFileSlot.NUM_CHUNK_REFS, "I"),
            extra=table.find_data(ManifestFileSlot.EXTRA),
        )
        for table in root.tables(SnapshotSlot.MANIFEST_FILES_V2)
    )


def encode_snapshot_payload(snapshot: Snapshot, spec_version: int) -> list[Part]:
    """The FlatBuffer of a snapshot, in the form of V1 or of V2."""
    if len(snapshot.id) != 12:
        raise InvalidInputError("snapshot: it needs an id of 12 bytes")
    if spec_version == 2 and snapshot.parent_id is not None:
        raise InvalidInputError("snapshot: in V2 the parent belongs into the repo info")
    writer = Writer("snapshot")
    nodes = sorted(snapshot.nodes.values(), key=lambda node: byte_order(node.path))
    node_vector = writer.link_vector(_write_nodes(writer, nodes, spec_version))
    metadata = write_metadata(writer, [snapshot.metadata], encoding_of(spec_version))
    files = sorted(snapshot.manifest_files, key=lambda file: file.id)
    old_files, new_files = _write_manifest_files(writer, files, spec_version)
    root = writer.table(
        Struct(SnapshotSlot.ID, row(snapshot.id)),
        *([Struct(SnapshotSlot.PARENT_ID, row(snapshot.parent_id))] if snapshot.parent_id else []),
        Link(SnapshotSlot.NODES, one(node_vector)),
        Number(SnapshotSlot.FLUSHED_AT, numbers([to_microseconds(snapshot.flushed_at)], "<u8")),
        Link(SnapshotSlot.MESSAGE, writer.text(snapshot.message)),
        Link(SnapshotSlot.METADATA, metadata),
        Link(SnapshotSlot.MANIFEST_FILES, one(old_files)),
        Link(SnapshotSlot.MANIFEST_FILES_V2, one(new_files)),
        Link(SnapshotSlot.EXTRA, writer.optional_bytes([snapshot.extra])),
    )
    return writer.finish(root)


def _write_manifest_files(
    writer: Writer, files: Sequence[ManifestFileInfo], spec_version: int
) -> tuple[int, int]:
    for file in files:
        if file.size_bytes is None or file.num_chunk_refs is None:
            raise InvalidInputError(f"snapshot: manifest {file.id} has no size or no count")
    if spec_version == 1:
        packed = [_MANIFEST_FILE_V1.pack(f.id, f.size_bytes, f.num_chunk_refs) for f in files]
        return writer.struct_vector(rows(packed, _MANIFEST_FILE_V1.size), 8), ABSENT
    tables = writer.tables(
        len(files),
        Struct(ManifestFileSlot.ID, rows([file.id for file in files], 12)),
        Number(ManifestFileSlot.SIZE_BYTES, numbers((f.size_bytes or 0 for f in files), "<u8")),
        Number(
            ManifestFileSlot.NUM_CHUNK_REFS, numbers((f.num_chunk_refs or 0 for f in files), "<u4")
        ),
        Link(ManifestFileSlot.EXTRA, writer.optional_bytes([file.extra for file in files])),
    )
    empty = writer.link_vector(np.empty(0, np.int64))
    return empty, writer.link_vector(tables)


def _write_nodes(writer: Writer, nodes: Sequence[Node], spec_version: int) -> Integers:
    data = np.full(len(nodes), writer.table(), np.int64)  # all groups share one empty table
    is_array = np.array([node.array is not None for node in nodes], np.bool_)
    arrays = [node.array for node in nodes if node.array is not None]
    data[is_array] = _write_arrays(writer, arrays, spec_version)
    types = np.where(is_array, NodeDataType.ARRAY, NodeDataType.GROUP).astype(np.uint8)
    return writer.tables(
        len(nodes),
        Struct(NodeSlot.ID, rows([node.id for node in nodes], 8)),
        Link(NodeSlot.PATH, writer.texts([node.path for node in nodes])),
        Link(NodeSlot.USER_DATA, writer.byte_vectors([node.user_data for node in nodes])),
        Number(NodeSlot.DATA_TYPE, types),
        Link(NodeSlot.DATA, data),
        Link(NodeSlot.EXTRA, writer.optional_bytes([node.extra for node in nodes])),
    )


def _write_arrays(writer: Writer, arrays: Sequence[ArrayData], spec_version: int) -> Integers:
    shapes, shapes_v2 = _write_shapes(writer, arrays, spec_version)
    return writer.tables(
        len(arrays),
        Link(ArraySlot.SHAPE, shapes),
        Link(ArraySlot.DIMENSION_NAMES, _write_dimension_names(writer, arrays)),
        Link(ArraySlot.MANIFESTS, _write_manifest_refs(writer, arrays)),
        Link(ArraySlot.SHAPE_V2, shapes_v2),
    )


def _write_shapes(
    writer: Writer, arrays: Sequence[ArrayData], spec_version: int
) -> tuple[Integers, Integers]:
    if spec_version == 1:
        packed = [rows([_pack_dimension(d) for d in array.shape], 16) for array in arrays]
        places = [writer.struct_vector(shape, 8) for shape in packed]
        return np.array(places, np.int64), np.full(len(arrays), ABSENT, np.int64)
    dimensions = [dimension for array in arrays for dimension in array.shape]
    tables = writer.tables(
        len(dimensions),
        Number(DimensionSlot.ARRAY_LENGTH, numbers((d.array_length for d in dimensions), "<u8")),
        Number(DimensionSlot.NUM_CHUNKS, numbers((d.num_chunks for d in dimensions), "<u4")),
    )
    empty = writer.link_vector(np.empty(0, np.int64))
    vectors = writer.link_vectors(tables, [len(array.shape) for array in arrays])
    return np.full(len(arrays), empty, np.int64), vectors


def _pack_dimension(dimension: Dimension) -> bytes:
    length, chunks = dimension.array_length, dimension.num_chunks
    chunk_length = dimension.chunk_length
    if chunk_length is None:
        chunk_length = -(-length // chunks) if chunks else 0
    return DIMENSION_V1.pack(length, chunk_length)


def _write_dimension_names(writer: Writer, arrays: Sequence[ArrayData]) -> Integers:
    places = np.full(len(arrays), ABSENT, np.int64)
    named = [index for index, array in enumerate(arrays) if array.dimension_names is not None]
    names = [arrays[index].dimension_names or () for index in named]
    tables = writer.tables(
        sum(map(len, names)), Link(0, writer.texts([n for group in names for n in group]))
    )
    places[named] = writer.link_vectors(tables, list(map(len, names)))
    return places


def _write_manifest_refs(writer: Writer, arrays: Sequence[ArrayData]) -> Integers:
    refs = [ref for array in arrays for ref in array.manifests]
    places = np.empty(len(refs), np.int64)
    axes = np.array([len(ref.extents) for ref in refs], np.int64)
    for count in np.unique(axes).tolist():
        members = np.flatnonzero(axes == count)
        group = [refs[member] for member in members]
        extents = np.array([ref.extents for ref in group], "<u4").reshape(len(group), 2 * count)
        places[members] = writer.tables(
            len(group),
            Struct(ManifestRefSlot.OBJECT_ID, rows([ref.id for ref in group], 12)),
            Attached(ManifestRefSlot.EXTENTS, extents, words_per_item=2),
        )
    return writer.link_vectors(places, [len(array.manifests) for array in arrays])
