"""Encode and decode snapshots and transaction logs of V1 and V2."""

import struct
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    ValuesView,
)
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

import numpy as np

from frazil.errors import FormatError, InvalidInputError
from frazil.format.coordinates import Coordinates, is_strictly_sorted, sort_order
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.metadata import MICROSECOND, find_path_problem, from_microseconds, segment_order
from frazil.format.ragged import Integers, Part
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    ManifestFileInfo,
    ManifestRef,
    Move,
    Node,
    NodeType,
    Snapshot,
    TransactionLog,
)
from frazil.format.v2.flatbuffers_reader import Buffer, Source, Table, Tables
from frazil.format.v2.flatbuffers_writer import (
    ABSENT,
    FEW,
    LINK,
    WORDS,
    Attached,
    Kind,
    Writer,
)
from frazil.format.v2.schema import (
    ArraySlot,
    DimensionSlot,
    ManifestFileSlot,
    ManifestRefSlot,
    MoveSlot,
    NodeDataType,
    NodeSlot,
    SnapshotSlot,
    TransactionLogSlot,
    UpdatedChunksSlot,
    decode_metadata,
    encoding_of,
    write_metadata,
)

T = TypeVar("T")

DIMENSION_V1 = struct.Struct("<QQ")
_EXTENT = struct.Struct("<II")

_FEW_NODES = 64


def decode_nodes(root: Table, slot: int) -> Mapping[str, Node]:
    """Decode the nodes of a snapshot, by path, in file order."""
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
    """Nodes of a snapshot file: paths are read together, each node is decoded on demand."""

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

    def values(self) -> ValuesView[Node]:
        """Return all nodes, decoded together."""
        return self._load().values()

    def items(self) -> ItemsView[str, Node]:
        """Return all nodes with their paths, decoded together."""
        return self._load().items()

    def _load(self) -> dict[str, Node]:
        if len(self._nodes) < len(self._positions):
            # A new buffer, because some nodes may have been decoded before.
            source = Source.of(Buffer(self._buffer.data, self._buffer.what))
            try:
                found = _decode_many(source, self._positions)
            except FormatError:
                found = None  # one by one, a damaged node is named
            self._nodes = {path: self[path] for path in self} if found is None else found
        return self._nodes

    def __contains__(self, path: object) -> bool:
        return path in self._positions

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __reduce__(self) -> tuple[object, ...]:
        return (dict, (dict(self),))


def _decode_many(source: Source, positions: Mapping[str, int]) -> dict[str, Node] | None:
    """Decode nodes in columns; None if some are unusual, which only decoding one by one can tell."""
    tables = Tables(source, np.fromiter(positions.values(), np.int64, len(positions)))
    texts, data = tables.targets(NodeSlot.USER_DATA), tables.targets(NodeSlot.DATA)
    types = tables.numbers(NodeSlot.DATA_TYPE, "<u1")
    is_array = types == NodeDataType.ARRAY
    is_plain = is_array | (types == NodeDataType.GROUP)
    is_plain &= (texts >= 0) & (tables.targets(NodeSlot.EXTRA) < 0) & tables.has(NodeSlot.ID)
    if not is_plain.all() or any(map(find_path_problem, positions)):
        return None
    arrays = _decode_many_arrays(source, data[is_array])
    if arrays is None:
        return None
    each_array, pieces = iter(arrays), source.structs(texts, 1)
    columns = zip(
        _cut(tables.structs(NodeSlot.ID, 8).tobytes(), 8),
        positions,
        source.pieces(pieces.starts, pieces.lengths),
        is_array.tolist(),
        strict=True,
    )
    return {
        path: Node(NodeId(id_), path, text, next(each_array) if has_array else None)
        for id_, path, text, has_array in columns
    }


def _decode_many_arrays(source: Source, positions: Integers) -> list[ArrayData] | None:
    if np.any(positions < 0):
        return None
    tables = Tables(source, positions)
    shapes, names = tables.targets(ArraySlot.SHAPE_V2), tables.targets(ArraySlot.DIMENSION_NAMES)
    refs = tables.targets(ArraySlot.MANIFESTS)
    if np.any(shapes < 0):
        return None
    axes, axis_counts = source.links(shapes)
    dimensions = Tables(source, axes)
    columns = (
        dimensions.numbers(DimensionSlot.ARRAY_LENGTH, "<u8").tolist(),
        dimensions.numbers(DimensionSlot.NUM_CHUNKS, "<u4").tolist(),
    )
    named = np.flatnonzero(names >= 0)
    labels, label_counts = source.links(names[named])
    pieces = source.structs(Tables(source, labels).targets(0), 1)
    # An empty name means no name, as in the official reader.
    try:
        texts = [t.decode() or None for t in source.pieces(pieces.starts, pieces.lengths)]
    except UnicodeDecodeError:
        return None
    manifests = _decode_many_manifest_refs(source, refs)
    if manifests is None:
        return None
    names_of = dict(zip(named.tolist(), _divide(texts, label_counts), strict=True))
    shape_of = _divide([*map(Dimension, *columns)], axis_counts)
    each = enumerate(zip(shape_of, manifests, strict=True))
    return [ArrayData(shape, names_of.get(row), found) for row, (shape, found) in each]


def _decode_many_manifest_refs(
    source: Source, vectors: Integers
) -> list[tuple[ManifestRef, ...]] | None:
    counts = np.zeros(vectors.size, np.int64)
    present = np.flatnonzero(vectors >= 0)
    links, counts[present] = source.links(vectors[present])
    tables = Tables(source, links)
    if not tables.has(ManifestRefSlot.OBJECT_ID).all():
        return None
    boxes = source.structs(tables.targets(ManifestRefSlot.EXTENTS), _EXTENT.size)
    ids = _cut(tables.structs(ManifestRefSlot.OBJECT_ID, 12).tobytes(), 12)
    extents = source.pieces(boxes.starts, boxes.lengths)
    found = [
        ManifestRef(ManifestId(id_), tuple(_EXTENT.iter_unpack(box)))
        for id_, box in zip(ids, extents, strict=True)
    ]
    return _divide(found, counts)


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _divide(items: Sequence[T], counts: Integers) -> list[tuple[T, ...]]:
    """Divide items into tuples of these lengths."""
    each = iter(items)
    return [tuple(islice(each, count)) for count in counts.tolist()]


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


_MANIFEST_FILE_V1 = struct.Struct("<12s4xQI4x")


def decode_snapshot_payload(payload: bytes, spec_version: int) -> Snapshot:
    """Decode a snapshot's FlatBuffer."""
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
    """Return the listed manifests, followed by those only nodes refer to; decode nothing else."""
    root = Buffer(payload, "snapshot").root()
    listed = _decode_manifest_files(root)
    named = dict.fromkeys(_decode_manifest_ids(root))
    unlisted = named.keys() - {info.id for info in listed}
    return (*listed, *(ManifestFileInfo(ManifestId(id_)) for id_ in named if id_ in unlisted))


def _decode_manifest_ids(root: Table) -> Iterable[bytes]:
    nodes = root.columns(SnapshotSlot.NODES, _FEW_NODES)
    if nodes is None:
        return _decode_few_manifest_ids(root)
    source = nodes.source
    is_array = nodes.numbers(NodeSlot.DATA_TYPE, "<u1") == NodeDataType.ARRAY
    arrays = nodes.targets(NodeSlot.DATA)[is_array]
    if np.any(arrays < 0):
        raise source.damaged("an array is missing")
    vectors = Tables(source, arrays).targets(ArraySlot.MANIFESTS)
    links, _ = source.links(vectors[vectors >= 0])
    refs = Tables(source, links)
    if not refs.has(ManifestRefSlot.OBJECT_ID).all():
        raise source.damaged("a manifest's id is missing")
    return _cut(refs.structs(ManifestRefSlot.OBJECT_ID, 12).tobytes(), 12)


def _decode_few_manifest_ids(root: Table) -> Iterator[bytes]:
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
    files = root.columns(SnapshotSlot.MANIFEST_FILES_V2, _FEW_NODES)
    # A missing id is an error that names its table; what is unknown is kept.
    if (
        files
        and files.has(ManifestFileSlot.ID).all()
        and not files.has(ManifestFileSlot.EXTRA).any()
    ):
        return tuple(
            map(
                ManifestFileInfo,
                map(ManifestId, _cut(files.structs(ManifestFileSlot.ID, 12).tobytes(), 12)),
                files.numbers(ManifestFileSlot.SIZE_BYTES, "<u8").tolist(),
                files.numbers(ManifestFileSlot.NUM_CHUNK_REFS, "<u4").tolist(),
            )
        )
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
    """Encode a snapshot as FlatBuffer of V1 or V2."""
    if len(snapshot.id) != 12:
        raise InvalidInputError("snapshot: it needs an id of 12 bytes")
    if spec_version == 2 and snapshot.parent_id is not None:
        raise InvalidInputError("snapshot: in V2 the parent belongs into the repo info")
    writer = Writer("snapshot")
    nodes = sorted(snapshot.nodes.values(), key=_node_order)
    node_vector = writer.links(_write_nodes(writer, nodes, spec_version))
    metadata = write_metadata(writer, [snapshot.metadata], encoding_of(spec_version))
    files = sorted(snapshot.manifest_files, key=attrgetter("id"))
    old_files, new_files = _write_manifest_files(writer, files, spec_version)
    root = writer.row(
        _SNAPSHOT,
        snapshot.id,
        snapshot.parent_id,
        node_vector,
        snapshot.flushed_at // MICROSECOND,
        writer.vector(snapshot.message),
        *metadata,
        old_files,
        new_files,
        writer.vector(snapshot.extra),
    )
    return writer.finish(root)


_node_order = attrgetter("path")
"""Sort key of nodes: the order of characters is that of UTF-8 bytes."""

_SNAPSHOT = Kind(
    (SnapshotSlot.ID, "12s"), (SnapshotSlot.PARENT_ID, "12s"), (SnapshotSlot.NODES, LINK),
    (SnapshotSlot.FLUSHED_AT, "Q"), (SnapshotSlot.MESSAGE, LINK), (SnapshotSlot.METADATA, LINK),
    (SnapshotSlot.MANIFEST_FILES, LINK), (SnapshotSlot.MANIFEST_FILES_V2, LINK),
    (SnapshotSlot.EXTRA, LINK),
)  # fmt: skip
_MANIFEST_FILE = Kind(
    (ManifestFileSlot.ID, "12s"), (ManifestFileSlot.SIZE_BYTES, "Q"),
    (ManifestFileSlot.NUM_CHUNK_REFS, "I"), (ManifestFileSlot.EXTRA, LINK),
)  # fmt: skip
_NODE = Kind(
    (NodeSlot.ID, "8s"), (NodeSlot.PATH, LINK), (NodeSlot.USER_DATA, LINK),
    (NodeSlot.DATA_TYPE, "B"), (NodeSlot.DATA, LINK), (NodeSlot.EXTRA, LINK),
)  # fmt: skip
_GROUP = Kind()
_ARRAY = Kind(
    (ArraySlot.SHAPE, LINK), (ArraySlot.DIMENSION_NAMES, LINK), (ArraySlot.MANIFESTS, LINK),
    (ArraySlot.SHAPE_V2, LINK),
)  # fmt: skip
_DIMENSION = Kind((DimensionSlot.ARRAY_LENGTH, "Q"), (DimensionSlot.NUM_CHUNKS, "I"))
_DIMENSION_NAME = Kind((0, LINK))
_MANIFEST_REF = Kind(
    (ManifestRefSlot.OBJECT_ID, "12s"), (ManifestRefSlot.EXTENTS, WORDS), words_per_item=2
)


def _write_manifest_files(
    writer: Writer, files: Sequence[ManifestFileInfo], spec_version: int
) -> tuple[int, int]:
    for file in files:
        if file.size_bytes is None or file.num_chunk_refs is None:
            raise InvalidInputError(f"snapshot: manifest {file.id} has no size or no count")
    if spec_version == 1:
        packed = [_MANIFEST_FILE_V1.pack(f.id, f.size_bytes, f.num_chunk_refs) for f in files]
        return writer.structs(packed, 8), ABSENT
    tables = writer.rows(
        _MANIFEST_FILE,
        len(files),
        [file.id for file in files],
        [file.size_bytes for file in files],
        [file.num_chunk_refs for file in files],
        writer.vectors([file.extra for file in files]),
    )
    return writer.empty(), writer.links(tables)


def _write_nodes(writer: Writer, nodes: Sequence[Node], spec_version: int) -> list[int]:
    group = writer.row(_GROUP)  # all groups share one empty table
    arrays = [node.array for node in nodes if node.array is not None]
    places = iter(_write_arrays(writer, arrays, spec_version))
    extras = [node.extra for node in nodes]
    return writer.rows(
        _NODE,
        len(nodes),
        [node.id for node in nodes],
        writer.vectors([node.path for node in nodes]),
        _write_user_data(writer, [node.user_data for node in nodes]),
        [NodeDataType.GROUP if node.array is None else NodeDataType.ARRAY for node in nodes],
        [group if node.array is None else next(places) for node in nodes],
        None if extras.count(None) == len(extras) else writer.vectors(extras),
    )


_SHORT = 128
"""Size of metadata up to which it is shared: readers limit how often they read the bytes of a file."""


def _write_user_data(writer: Writer, datas: Sequence[bytes]) -> list[int]:
    """Write the Zarr metadata of nodes; that of groups, short and mostly equal, is written once."""
    short = [data for data in datas if len(data) <= _SHORT]
    if len(short) < 2:
        return writer.vectors(datas)
    distinct = [*dict.fromkeys(short)]
    found = dict(zip(distinct, writer.vectors(distinct), strict=True))
    others = iter(writer.vectors([data for data in datas if len(data) > _SHORT]))
    return [found[data] if len(data) <= _SHORT else next(others) for data in datas]


def _write_arrays(writer: Writer, arrays: Sequence[ArrayData], spec_version: int) -> list[int]:
    if not arrays:
        return []
    shapes, shapes_v2 = _write_shapes(writer, arrays, spec_version)
    names = _write_dimension_names(writer, arrays)
    refs = _write_manifest_refs(writer, arrays)
    return writer.rows(_ARRAY, len(arrays), shapes, names, refs, shapes_v2)


def _write_shapes(
    writer: Writer, arrays: Sequence[ArrayData], spec_version: int
) -> tuple[list[int], list[int] | None]:
    if spec_version == 1:
        packed = [[_pack_dimension(each) for each in array.shape] for array in arrays]
        return [writer.structs(shape, 8) for shape in packed], None
    dimensions = [dimension for array in arrays for dimension in array.shape]
    tables = writer.rows(
        _DIMENSION,
        len(dimensions),
        [dimension.array_length for dimension in dimensions],
        [dimension.num_chunks for dimension in dimensions],
    )
    vectors = writer.link_lists(tables, [len(array.shape) for array in arrays])
    return [writer.empty()] * len(arrays), vectors


def _pack_dimension(dimension: Dimension) -> bytes:
    length, chunks = dimension.array_length, dimension.num_chunks
    chunk_length = dimension.chunk_length
    if chunk_length is None:
        chunk_length = -(-length // chunks) if chunks else 0
    return DIMENSION_V1.pack(length, chunk_length)


def _write_dimension_names(writer: Writer, arrays: Sequence[ArrayData]) -> list[int]:
    groups = [array.dimension_names for array in arrays if array.dimension_names is not None]
    if not groups:
        return [ABSENT] * len(arrays)
    names = [name for group in groups for name in group]
    tables = writer.rows(_DIMENSION_NAME, len(names), writer.vectors(names))
    places = iter(writer.link_lists(tables, [*map(len, groups)]))
    return [ABSENT if array.dimension_names is None else next(places) for array in arrays]


def _write_manifest_refs(writer: Writer, arrays: Sequence[ArrayData]) -> list[int]:
    refs = [ref for array in arrays for ref in array.manifests]
    axes = [len(ref.extents) for ref in refs]
    places = [0] * len(refs)
    # Tables with vectors of equal length are written together.
    for count in sorted(set(axes)):
        members = [number for number, each in enumerate(axes) if each == count]
        group = [refs[number] for number in members]
        words = [[*chain.from_iterable(ref.extents)] for ref in group]
        tables = writer.rows(_MANIFEST_REF, len(group), [ref.id for ref in group], words)
        for number, place in zip(members, tables, strict=True):
            places[number] = place
    return writer.link_lists(places, [len(array.manifests) for array in arrays])


_NODE_SETS = {
    "new_groups": TransactionLogSlot.NEW_GROUPS,
    "new_arrays": TransactionLogSlot.NEW_ARRAYS,
    "deleted_groups": TransactionLogSlot.DELETED_GROUPS,
    "deleted_arrays": TransactionLogSlot.DELETED_ARRAYS,
    "updated_arrays": TransactionLogSlot.UPDATED_ARRAYS,
    "updated_groups": TransactionLogSlot.UPDATED_GROUPS,
}

_NODE_SET_NAMES = {slot: name for name, slot in _NODE_SETS.items()}
_VECTORS = (
    *_NODE_SET_NAMES, TransactionLogSlot.UPDATED_CHUNKS, TransactionLogSlot.MOVED_NODES,
)  # fmt: skip

_FEW_CHUNKS = 16
"""Number of chunks up to which they are decoded one by one."""
_CHUNKS_AT_ONCE = 1 << 15
"""Chunks read together, limited by the size of a processor cache."""


def decode_transaction_log_payload(payload: bytes) -> TransactionLog:
    """Decode a transaction log's FlatBuffer."""
    form = _forms.get((len(payload), payload[:4]))
    if form is not None and (found := form.fill(payload)) is not None:
        return found
    log = _decode_log(payload)
    if [*map(len, log.updated_chunks.values())] == [1]:
        _learn_form(payload)
    return log


class _LogForm(NamedTuple):
    """Bytes of logs of one chunk, which differ only in the ids of log and array and its coordinates."""

    split: Callable[[bytes], tuple[bytes, ...]]
    """Split a log before and behind each of these fields."""
    others: tuple[bytes, ...]
    """All parts but the fields."""
    order: Callable[[Sequence[bytes]], tuple[bytes, ...]]
    """Take the fields in this order."""

    def fill(self, payload: bytes) -> TransactionLog | None:
        """Decode a log of this size; None if it has another form."""
        parts = self.split(payload)
        if parts[::2] != self.others:
            return None
        id_, node_id, place = self.order(parts)
        rows = np.frombuffer(place, "<u4").astype(np.uint32).reshape(1, -1)
        return TransactionLog(SnapshotId(id_), updated_chunks={NodeId(node_id): rows})


_forms: dict[tuple[int, bytes], _LogForm] = {}
"""Forms read last, by size and place of the root: the histories that rebase reads are mostly of one."""
_MOST_FORMS = 64


def _learn_form(payload: bytes) -> None:
    """Remember the form of a log of one chunk, unless it has more than that."""
    try:
        wanted = _find_fields(payload)
        fields = sorted(wanted)
        text, end, other = "<", 0, bytearray(payload)
        for at, size in fields:
            text += f"{at - end}s{size}s"
            end = at + size
            other[at:end] = bytes(0xFF ^ byte for byte in payload[at:end])
        split = struct.Struct(f"{text}{len(payload) - end}s").unpack
        order = itemgetter(*[1 + 2 * fields.index(each) for each in wanted])
        form = _LogForm(split, split(payload)[::2], order)
        # Other fields make another log of this form, unless something else reads their bytes.
        if form.fill(bytes(other)) != _decode_log(bytes(other)):
            return
    except (FormatError, ValueError, struct.error):
        return
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    _forms[len(payload), payload[:4]] = form


def _find_fields(payload: bytes) -> list[tuple[int, int]]:
    """Return position and size of the ids of log and array, and of the coordinates of the chunk."""
    root = Buffer(payload, "transaction-log").root()
    (array,) = root.tables(TransactionLogSlot.UPDATED_CHUNKS)
    (chunk,) = array.tables(UpdatedChunksSlot.CHUNKS)
    place = root.buffer.follow(chunk.field(0, "coordinates"))
    start, axes = root.buffer.vector(place, 4)
    return [
        (root.field(TransactionLogSlot.ID, "the id"), 12),
        (array.field(UpdatedChunksSlot.NODE_ID, "an array's node id"), 8),
        (start, 4 * axes),
    ]


def _decode_log(payload: bytes) -> TransactionLog:
    root = Buffer(payload, "transaction-log").root()
    # Most logs are of a commit that changed nothing but chunks.
    filled = root.find_filled(_VECTORS)
    updated_chunks = {}
    if TransactionLogSlot.UPDATED_CHUNKS in filled:
        for table in root.tables(TransactionLogSlot.UPDATED_CHUNKS):
            node_id = NodeId(table.struct(UpdatedChunksSlot.NODE_ID, 8, "an array's node id"))
            updated_chunks[node_id] = _decode_coordinates(table)
    moves: tuple[Move, ...] = ()
    if TransactionLogSlot.MOVED_NODES in filled:
        moves = tuple(map(_decode_move, root.tables(TransactionLogSlot.MOVED_NODES)))
    return TransactionLog(
        id=SnapshotId(root.struct(TransactionLogSlot.ID, 12, "the id")),
        updated_chunks=updated_chunks,
        moves=moves,
        extra=root.find_data(TransactionLogSlot.EXTRA),
        **{
            _NODE_SET_NAMES[slot]: frozenset(map(NodeId, root.structs(slot, 8)))
            for slot in filled
            if slot in _NODE_SET_NAMES
        },
    )


def _decode_coordinates(array: Table) -> Coordinates:
    buffer = array.buffer
    start, count = buffer.vector(buffer.follow(array.field(UpdatedChunksSlot.CHUNKS, "chunks")), 4)
    if 0 < count <= _FEW_CHUNKS:
        rows = [_decode_chunk(buffer, buffer.follow(start + 4 * n)) for n in range(count)]
        if len(set(map(len, rows))) == 1:
            return np.array(sorted(rows), np.uint32).reshape(count, len(rows[0]))
    source = Source.of(buffer)
    blocks = [
        _decode_block(source, start + 4 * first, min(_CHUNKS_AT_ONCE, count - first))
        for first in range(0, max(count, 1), _CHUNKS_AT_ONCE)
    ]
    if len({block.shape[1] for block in blocks}) > 1:
        raise buffer.damaged("coordinates of one array have different numbers of axes")
    coordinates = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    if is_strictly_sorted(coordinates):
        return coordinates
    return coordinates[sort_order(coordinates)]


def _decode_chunk(buffer: Buffer, table: int) -> tuple[int, ...]:
    distance, *size = buffer.vtable(table)
    if not size or not distance:
        raise buffer.damaged("a chunk has no coordinates")
    start, axes = buffer.vector(buffer.follow(table + distance), 4)
    return struct.unpack_from(f"<{axes}I", buffer.data, start)


def _decode_block(source: Source, start: int, count: int) -> Coordinates:
    links = start + 4 * np.arange(count, dtype=np.int64)
    vectors = Tables(source, source.follow(links)).targets(0)
    if np.any(vectors < 0):
        raise source.damaged("a chunk has no coordinates")
    return source.matrix(vectors, "<u4")


def _decode_move(table: Table) -> Move:
    node_id = table.find_struct(MoveSlot.NODE_ID, 8)
    node_type = table.number(MoveSlot.NODE_TYPE, "B")
    if node_type not in (NodeType.GROUP, NodeType.ARRAY):
        raise table.buffer.damaged(f"a moved node is of the unknown type {node_type}")
    return Move(
        from_path=_decode_path(table, MoveSlot.FROM, "the source of a move"),
        to_path=_decode_path(table, MoveSlot.TO, "the target of a move"),
        node_id=None if node_id is None else NodeId(node_id),
        node_type=NodeType(node_type),
    )


def _decode_path(table: Table, slot: int, name: str) -> str:
    path = table.text(slot, name)
    if problem := find_path_problem(path):
        raise table.buffer.damaged(f"{name}, {path!r}, is no node path: {problem}")
    return path


def encode_transaction_log_payload(log: TransactionLog, spec_version: int) -> list[Part]:
    """Encode a transaction log as FlatBuffer; V1 has no moves."""
    if spec_version == 1 and log.moves:
        raise InvalidInputError("transaction log: V1 can't record moves")
    if log.updated_attributes:
        raise InvalidInputError("transaction log: only alpha logs list updated attributes")
    writer = Writer("transaction log")
    moved_nodes = writer.empty() if spec_version == 2 else ABSENT
    if log.moves:
        moves = sorted(log.moves, key=lambda move: segment_order(move.to_path))
        moved_nodes = writer.links(_write_moves(writer, moves))
    chunks = writer.links(_write_updated_chunks(writer, sorted(log.updated_chunks.items())))
    places = [writer.structs(sorted(ids)) if ids else writer.empty() for ids in _node_sets(log)]
    extra = writer.vector(log.extra)
    root = writer.row(_TRANSACTION_LOG, log.id, *places, chunks, moved_nodes, extra)
    return writer.finish(root)


_TRANSACTION_LOG = Kind(
    (TransactionLogSlot.ID, "12s"),
    *((slot, LINK) for slot in _NODE_SETS.values()),
    (TransactionLogSlot.UPDATED_CHUNKS, LINK),
    (TransactionLogSlot.MOVED_NODES, LINK),
    (TransactionLogSlot.EXTRA, LINK),
)
_UPDATED_CHUNKS = Kind((UpdatedChunksSlot.NODE_ID, "8s"), (UpdatedChunksSlot.CHUNKS, LINK))
_CHUNK = Kind((0, WORDS))
_MOVE = Kind(
    (MoveSlot.FROM, LINK), (MoveSlot.TO, LINK), (MoveSlot.NODE_ID, "8s"), (MoveSlot.NODE_TYPE, "B")
)


_node_sets = attrgetter(*_NODE_SETS)


def _write_updated_chunks(
    writer: Writer, updated: Sequence[tuple[NodeId, Coordinates]]
) -> list[int]:
    vectors = [
        writer.linked_tables(len(coordinates), Attached(0, coordinates))
        if len(coordinates) > FEW
        else writer.links(writer.rows(_CHUNK, len(coordinates), coordinates.tolist()))
        for _, coordinates in updated
    ]
    ids = [node_id for node_id, _ in updated]
    return writer.rows(_UPDATED_CHUNKS, len(updated), ids, vectors)


def _write_moves(writer: Writer, moves: Sequence[Move]) -> list[int]:
    places = [0] * len(moves)
    # Pre-releases of V2 recorded moves without node ids; such logs are written back as they were.
    for has_id in (True, False):
        members = [i for i, move in enumerate(moves) if (move.node_id is not None) is has_id]
        group = [moves[member] for member in members]
        tables = writer.rows(
            _MOVE,
            len(group),
            writer.vectors([move.from_path for move in group]),
            writer.vectors([move.to_path for move in group]),
            [move.node_id for move in group] if has_id else None,
            [move.node_type for move in group],
        )
        for member, place in zip(members, tables, strict=True):
            places[member] = place
    return places
