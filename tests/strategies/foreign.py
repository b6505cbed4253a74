"""V2 files as another writer may lay them out: the `flatbuffers` package's builder, table by table.

Fields come in any order, defaults are written or left out, texts are shared or repeated, references
and nodes stand in any order: everything that FlatBuffers leave open, `chance` decides.
"""

import random
from collections.abc import Callable, Mapping, Sequence

import flatbuffers

from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import ChunkRef, ETag, InlineRef, LastModified, NativeRef, VirtualRef
from frazil.format.metadata import to_microseconds
from frazil.format.snapshot import ArrayData, Node, Snapshot
from frazil.format.v2.schema import (
    ArrayManifestSlot,
    ArraySlot,
    ChunkRefSlot,
    DimensionSlot,
    ManifestRefSlot,
    ManifestSlot,
    NodeDataType,
    NodeSlot,
    SnapshotSlot,
)

Rows = Mapping[tuple[int, ...], tuple[ChunkRef, bytes | None]]
"""References with their extra bytes."""

_PutField = Callable[[], None]


class ForeignWriter:
    """Builds one file."""

    def __init__(self, chance: random.Random) -> None:
        self._builder = flatbuffers.Builder(0)
        self._chance = chance
        self._shared: dict[bytes, int] = {}

    def manifest(self, id: ManifestId, arrays: Mapping[NodeId, Rows]) -> bytes:
        """A manifest without compressed locations."""
        tables = [self._array_manifest(node_id, rows) for node_id, rows in arrays.items()]
        self._chance.shuffle(tables)
        vector = self._offsets(tables)
        fields = [self._struct(ManifestSlot.ID, id), self._offset(ManifestSlot.ARRAYS, vector)]
        return self._finish(self._table(fields))

    def _array_manifest(self, node_id: NodeId, rows: Rows) -> int:
        items = list(rows.items())
        self._chance.shuffle(items)
        refs = self._offsets([self._ref(index, ref, extra) for index, (ref, extra) in items])
        return self._table(
            [
                self._struct(ArrayManifestSlot.NODE_ID, node_id),
                self._offset(ArrayManifestSlot.REFS, refs),
            ]
        )

    def _ref(self, index: tuple[int, ...], ref: ChunkRef, extra: bytes | None) -> int:
        fields = [self._offset(ChunkRefSlot.INDEX, self._numbers(index))]
        if extra is not None:
            fields.append(self._offset(ChunkRefSlot.EXTRA, self._bytes(extra)))
        match ref:
            case NativeRef():
                fields.append(self._struct(ChunkRefSlot.CHUNK_ID, ref.chunk_id))
                # Means nothing for a native chunk.
                fields.append(self._uint32(ChunkRefSlot.CHECKSUM_LAST_MODIFIED, len(index)))
            case InlineRef():
                fields.append(self._offset(ChunkRefSlot.INLINE, self._bytes(ref.data)))
            case VirtualRef():
                location = self._bytes(ref.location.encode())
                fields.append(self._offset(ChunkRefSlot.LOCATION, location))
                fields += self._checksum(ref)
        if not isinstance(ref, InlineRef):
            fields.append(self._uint64(ChunkRefSlot.OFFSET, ref.offset))
            fields.append(self._uint64(ChunkRefSlot.LENGTH, ref.length))
        return self._table(fields)

    def _checksum(self, ref: VirtualRef) -> list[_PutField]:
        match ref.checksum:
            case ETag(value):
                return [self._offset(ChunkRefSlot.CHECKSUM_ETAG, self._bytes(value.encode()))]
            case LastModified(seconds):
                return [self._uint32(ChunkRefSlot.CHECKSUM_LAST_MODIFIED, seconds)]
        return []

    def snapshot(self, snapshot: Snapshot) -> bytes:
        """A snapshot without metadata and manifest files."""
        nodes = [self._node(node) for node in snapshot.nodes.values()]
        self._chance.shuffle(nodes)
        return self._finish(
            self._table(
                [
                    self._offset(SnapshotSlot.NODES, self._offsets(nodes)),
                    self._offset(SnapshotSlot.MESSAGE, self._bytes(snapshot.message.encode())),
                    self._struct(SnapshotSlot.ID, snapshot.id),
                    self._uint64(SnapshotSlot.FLUSHED_AT, to_microseconds(snapshot.flushed_at)),
                ]
            )
        )

    def _node(self, node: Node) -> int:
        kind = NodeDataType.GROUP if node.array is None else NodeDataType.ARRAY
        data = self._table([]) if node.array is None else self._array(node.array)
        fields = [
            self._struct(NodeSlot.ID, node.id),
            self._offset(NodeSlot.PATH, self._bytes(node.path.encode())),
            self._offset(NodeSlot.USER_DATA, self._bytes(node.user_data)),
            self._uint8(NodeSlot.DATA_TYPE, kind),
            self._offset(NodeSlot.DATA, data),
        ]
        if node.extra is not None:
            fields.append(self._offset(NodeSlot.EXTRA, self._bytes(node.extra)))
        return self._table(fields)

    def _array(self, array: ArrayData) -> int:
        shape = self._offsets(
            [
                self._table(
                    [
                        self._uint64(DimensionSlot.ARRAY_LENGTH, dimension.array_length),
                        self._uint32(DimensionSlot.NUM_CHUNKS, dimension.num_chunks),
                    ]
                )
                for dimension in array.shape
            ]
        )
        manifests = self._offsets(
            [
                self._table(
                    [
                        self._struct(ManifestRefSlot.OBJECT_ID, ref.id),
                        self._offset(ManifestRefSlot.EXTENTS, self._pairs(ref.extents)),
                    ]
                )
                for ref in array.manifests
            ]
        )
        fields = [
            self._offset(ArraySlot.SHAPE_V2, shape),
            self._offset(ArraySlot.MANIFESTS, manifests),
        ]
        if array.dimension_names is not None:
            names = [
                self._table([] if name is None else [self._offset(0, self._bytes(name.encode()))])
                for name in array.dimension_names
            ]
            fields.append(self._offset(ArraySlot.DIMENSION_NAMES, self._offsets(names)))
        return self._table(fields)

    # What tables are made of

    def _finish(self, root: int) -> bytes:
        self._builder.Finish(root, file_identifier=b"Ichk")
        return bytes(self._builder.Output())

    def _table(self, fields: list[_PutField]) -> int:
        self._chance.shuffle(fields)
        self._builder.StartObject(16)
        for put in fields:
            put()
        place: int = self._builder.EndObject()
        return place

    def _bytes(self, data: bytes) -> int:
        if data in self._shared and self._chance.random() < 0.5:
            return self._shared[data]
        place: int = self._builder.CreateString(data)
        self._shared[data] = place
        return place

    def _offsets(self, places: Sequence[int]) -> int:
        self._builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self._builder.PrependUOffsetTRelative(place)
        vector: int = self._builder.EndVector()
        return vector

    def _numbers(self, numbers: Sequence[int]) -> int:
        self._builder.StartVector(4, len(numbers), 4)
        for number in reversed(numbers):
            self._builder.PrependUint32(number)
        vector: int = self._builder.EndVector()
        return vector

    def _pairs(self, pairs: Sequence[tuple[int, int]]) -> int:
        self._builder.StartVector(8, len(pairs), 4)
        for start, stop in reversed(pairs):
            self._builder.PrependUint32(stop)
            self._builder.PrependUint32(start)
        vector: int = self._builder.EndVector()
        return vector

    def _offset(self, slot: int, place: int) -> _PutField:
        return lambda: self._builder.PrependUOffsetTRelativeSlot(slot, place, 0)

    def _struct(self, slot: int, data: bytes) -> _PutField:
        def put() -> None:
            self._builder.Prep(1, len(data))
            for byte in reversed(data):
                self._builder.PrependUint8(byte)
            self._builder.PrependStructSlot(slot, self._builder.Offset(), 0)

        return put

    # A number that is the default may be written or left out.

    def _uint8(self, slot: int, number: int) -> _PutField:
        return lambda: self._builder.PrependUint8Slot(slot, number, self._default())

    def _uint32(self, slot: int, number: int) -> _PutField:
        return lambda: self._builder.PrependUint32Slot(slot, number, self._default())

    def _uint64(self, slot: int, number: int) -> _PutField:
        return lambda: self._builder.PrependUint64Slot(slot, number, self._default())

    def _default(self) -> int | None:
        return self._chance.choice([0, None])
