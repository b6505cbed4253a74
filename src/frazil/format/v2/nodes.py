"""Decoding the nodes of a snapshot: all at once where they are few, else each when it is asked for."""

import struct
from collections.abc import Iterator, Mapping

import numpy as np

from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.ids import ManifestId, NodeId
from frazil.format.paths import find_path_problem
from frazil.format.snapshot import ArrayData, Dimension, ManifestRef, Node
from frazil.format.v2.schema import (
    ArraySlot,
    DimensionSlot,
    ManifestRefSlot,
    NodeDataType,
    NodeSlot,
)

DIMENSION_V1 = struct.Struct("<QQ")
_EXTENT = struct.Struct("<II")

_FEW_NODES = 64


def decode_nodes(root: Table, slot: int) -> Mapping[str, Node]:
    """The nodes in a snapshot's vector, by path, in the order of the file."""
    buffer = root.buffer
    start, count = buffer.vector(buffer.follow(root.field(slot, "the list of nodes")), 4)
    if count > _FEW_NODES:
        return EncodedNodes(buffer, start, count)
    nodes: dict[str, Node] = {}
    for table in root.tables(slot):
        node = _decode_node(table)
        if node.path in nodes:
            raise buffer.damaged(f"node {node.path!r} is there twice")
        nodes[node.path] = node
    return nodes


class EncodedNodes(Mapping[str, Node]):
    """Nodes in a snapshot file: their paths are read together, each node when it is asked for."""

    __slots__ = ("_buffer", "_nodes", "_positions")

    def __init__(self, buffer: Buffer, start: int, count: int) -> None:
        source = Source.of(buffer)
        positions = source.follow(start + 4 * np.arange(count, dtype=np.int64))
        texts = Tables(source, positions).targets(NodeSlot.PATH)
        if np.any(texts < 0):
            raise buffer.damaged("a node's path is missing")
        lengths = source.vectors(texts, 1)
        if int(lengths.sum()) > len(buffer.data):
            raise buffer.damaged("its paths lie on top of each other")
        try:
            paths = [path.decode() for path in source.pieces(texts + 4, lengths)]
        except UnicodeDecodeError as error:
            raise buffer.damaged(f"a node's path is not UTF-8: {error}") from error
        self._buffer = buffer
        self._positions = dict(zip(paths, positions.tolist(), strict=True))
        self._nodes: dict[str, Node] = {}
        if len(self._positions) != count:
            raise buffer.damaged("a node is there twice")

    def __getitem__(self, path: str) -> Node:
        node = self._nodes.get(path)
        if node is None:
            node = self._nodes[path] = _decode_node(Table(self._buffer, self._positions[path]))
        return node

    def __contains__(self, path: object) -> bool:
        return path in self._positions

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __reduce__(self) -> tuple[object, ...]:
        return (dict, (dict(self),))


def _decode_node(table: Table) -> Node:
    path = table.text(NodeSlot.PATH, "a node's path")
    if problem := find_path_problem(path):
        raise table.buffer.damaged(f"{path!r} is no node path: {problem}")
    data_type = table.number(NodeSlot.DATA_TYPE, "B")
    if data_type not in (NodeDataType.ARRAY, NodeDataType.GROUP):
        raise table.buffer.damaged(f"node {path!r} is of the unknown type {data_type}")
    array = None
    if data_type == NodeDataType.ARRAY:
        array = _decode_array(table.table(NodeSlot.DATA, f"the array at {path!r}"))
    return Node(
        id=NodeId(table.struct(NodeSlot.ID, 8, f"the id of node {path!r}")),
        path=path,
        user_data=table.data(NodeSlot.USER_DATA, f"the metadata of node {path!r}"),
        array=array,
        extra=table.find_data(NodeSlot.EXTRA),
    )


def _decode_array(table: Table) -> ArrayData:
    names = None
    if table.find(ArraySlot.DIMENSION_NAMES) is not None:
        # An empty name means no name, as in the official reader.
        names = tuple(name.find_text(0) or None for name in table.tables(ArraySlot.DIMENSION_NAMES))
    return ArrayData(
        shape=_decode_shape(table),
        dimension_names=names,
        manifests=tuple(map(_decode_manifest_ref, table.tables(ArraySlot.MANIFESTS))),
    )


def _decode_shape(table: Table) -> tuple[Dimension, ...]:
    if table.find(ArraySlot.SHAPE_V2) is not None:
        return tuple(
            Dimension(
                dimension.number(DimensionSlot.ARRAY_LENGTH, "Q"),
                dimension.number(DimensionSlot.NUM_CHUNKS, "I"),
            )
            for dimension in table.tables(ArraySlot.SHAPE_V2)
        )
    pairs = map(DIMENSION_V1.unpack, table.structs(ArraySlot.SHAPE, DIMENSION_V1.size))
    return tuple(
        Dimension(length, -(-length // chunk) if chunk else 0, chunk) for length, chunk in pairs
    )


def _decode_manifest_ref(table: Table) -> ManifestRef:
    extents = table.structs(ManifestRefSlot.EXTENTS, _EXTENT.size)
    return ManifestRef(
        id=ManifestId(table.struct(ManifestRefSlot.OBJECT_ID, 12, "a manifest's id")),
        extents=tuple(map(_EXTENT.unpack, extents)),
    )
