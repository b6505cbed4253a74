"""Decoded draft and alpha files as trees of lists, maps and plain values."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

import numpy as np

from frazil.errors import FormatError, InvalidInputError
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.manifest import (
    ChunkRef,
    ChunkRefs,
    ChunkTable,
    InlineRef,
    Manifest,
    NativeChunks,
    NativeRef,
    VirtualRef,
)
from frazil.format.metadata import (
    UINT16_MAX,
    UINT32_MAX,
    UINT64_MAX,
    JsonValue,
    Metadata,
    Nanoseconds,
    as_int,
    as_json_map,
    as_list,
    as_map,
    as_path,
    as_text,
    as_variant,
    decode_rfc3339,
    encode_rfc3339,
    located,
    refused,
    segment_order,
    show,
)
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    History,
    HistoryEntry,
    ManifestRef,
    Node,
    Snapshot,
)
from frazil.format.zarr_metadata import (
    ArrayMetadata,
    Extension,
    GroupMetadata,
    check_attributes,
    check_dimension_names,
    check_extension,
    check_lengths,
    decode_zarr_json,
    encode_zarr_json,
    unwrap_fill_value,
    wrap_fill_value,
)
from frazil.lazy import dataclass

Id = TypeVar("Id", SnapshotId, ManifestId, ChunkId)


class TreeForm(ABC):
    """Encoding of one generation. Readers raise FormatError, writers InvalidInputError."""

    id_size: int
    """Size in bytes of the ids of snapshots, manifests and chunks."""

    @abstractmethod
    def read_struct(self, what: str, value: object, names: tuple[str, ...]) -> Mapping[str, object]:
        """Return the fields of a struct; None for an absent optional one."""

    @abstractmethod
    def write_struct(self, fields: Mapping[str, object]) -> object:
        """Return a struct of these fields in this order."""

    @abstractmethod
    def read_id(self, kind: type[Id], value: object) -> Id:
        """Return the id of a snapshot, manifest or chunk."""

    @abstractmethod
    def write_id(self, id: SnapshotId | ManifestId | ChunkId) -> object:
        """Encode an id; reverse of `read_id`."""

    @abstractmethod
    def read_node_id(self, value: object) -> NodeId:
        """Return the id of a node."""

    @abstractmethod
    def write_node_id(self, id: NodeId) -> object:
        """Encode a node id; reverse of `read_node_id`."""

    @abstractmethod
    def read_data_type(self, value: object) -> str:
        """Return a data type as in zarr.json."""

    @abstractmethod
    def write_data_type(self, data_type: str) -> object:
        """Encode a data type; reverse of `read_data_type`."""

    @abstractmethod
    def read_fill_content(self, value: object) -> object:
        """Return the content of a fill value's variant."""

    @abstractmethod
    def write_float(self, value: float | str, bits: int) -> object:
        """Encode a float of a fill value, given as a number or Zarr's word for one."""

    @abstractmethod
    def read_inline(self, value: object) -> bytes:
        """Return the bytes of an inline chunk."""

    @abstractmethod
    def write_inline(self, data: bytes) -> object:
        """Encode an inline chunk; reverse of `read_inline`."""

    @abstractmethod
    def read_virtual(self, value: object) -> VirtualRef:
        """Return a virtual chunk reference."""

    @abstractmethod
    def write_virtual(self, ref: VirtualRef) -> object:
        """Encode a virtual chunk reference; reverse of `read_virtual`."""

    @abstractmethod
    def read_manifest_ref(self, value: object) -> ManifestRef:
        """Return a node's reference to a manifest."""

    @abstractmethod
    def write_manifest_ref(self, ref: ManifestRef, axes: int) -> object:
        """Encode a manifest reference of an array with `axes` axes; reverse of `read_manifest_ref`."""

    def check_id_size(self, id: SnapshotId | ManifestId | ChunkId) -> None:
        """Raise InvalidInputError for an id with the length of another generation."""
        if len(id) != self.id_size:
            raise InvalidInputError(f"{id!r} has {len(id)} bytes, {self.id_size} are needed")


def make_id(kind: type[Id], data: bytes, size: int) -> Id:
    """Return an id of exactly this size, or raise FormatError."""
    if len(data) != size:
        raise FormatError(f"{kind.__name__}: {show(data)} has {len(data)} bytes, {size} are needed")
    return kind(data)


def write_node_number(id: NodeId) -> int:
    """Return a node id as the number that the draft and the first alphas store."""
    number = id.to_number()
    if number >= 2**32:
        raise InvalidInputError(f"{id!r} is no node number: it does not fit 32 bits")
    return number


_ARRAY_FIELDS = (
    "shape",
    "data_type",
    "chunk_shape",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
)
_EXTENSION_FIELDS = ("name", "configuration")


def read_array_metadata(
    value: object, attributes: dict[str, JsonValue] | None, form: TreeForm
) -> ArrayMetadata:
    """Return the array metadata with the attributes, which are stored separately."""
    fields = form.read_struct("zarr_metadata", value, _ARRAY_FIELDS)
    data_type = form.read_data_type(fields["data_type"])
    variant, content = as_variant("fill_value", fields["fill_value"])
    transformers = fields["storage_transformers"]
    return ArrayMetadata(
        attributes=attributes,
        shape=check_lengths("shape", fields["shape"]),
        data_type=data_type,
        chunk_shape=check_lengths("chunk_shape", fields["chunk_shape"]),
        chunk_key_encoding=as_text("chunk_key_encoding", fields["chunk_key_encoding"]),
        fill_value=unwrap_fill_value(data_type, variant, form.read_fill_content(content)),
        codecs=_read_extensions("codecs", fields["codecs"], form),
        storage_transformers=None
        if transformers is None
        else _read_extensions("storage_transformers", transformers, form),
        dimension_names=check_dimension_names(fields["dimension_names"]),
    )


def write_array_metadata(metadata: ArrayMetadata, form: TreeForm) -> object:
    """Encode array metadata; reverse of `read_array_metadata`. The attributes are stored separately."""
    transformers = metadata.storage_transformers
    return form.write_struct(
        {
            "shape": metadata.shape,
            "data_type": form.write_data_type(metadata.data_type),
            "chunk_shape": metadata.chunk_shape,
            "chunk_key_encoding": metadata.chunk_key_encoding,
            "fill_value": wrap_fill_value(
                metadata.data_type, metadata.fill_value, form.write_float
            ),
            "codecs": _write_extensions(metadata.codecs, form),
            "storage_transformers": None
            if transformers is None
            else _write_extensions(transformers, form),
            "dimension_names": metadata.dimension_names,
        }
    )


def _read_extensions(what: str, value: object, form: TreeForm) -> tuple[Extension, ...]:
    def read(item: object) -> Extension:
        fields: Mapping[str, object] = form.read_struct(what, item, _EXTENSION_FIELDS)
        return check_extension(what, fields["name"], fields["configuration"])

    return tuple(map(read, as_list(what, value)))


def _write_extensions(extensions: tuple[Extension, ...], form: TreeForm) -> object:
    # A configuration keeps its key order: the official library wrote keys in arbitrary order.
    return tuple(
        form.write_struct({"name": item.name, "configuration": item.configuration})
        for item in extensions
    )


_REF_FIELDS = ("id", "offset", "length")

Row = tuple[NodeId, tuple[int, ...], ChunkRef]
PayloadRows = list[tuple[tuple[int, ...], dict[str, object]]]


@dataclass(frozen=True, slots=True, eq=False)
class RankedRefs:
    """References of one node, grouped by their number of axes."""

    tables: tuple[ChunkTable, ...]
    """Tables by number of axes, ascending."""
    id_size: int

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def __eq__(self, other: object) -> bool:
        """Compare references; a `ChunkTable` can be equal as well."""
        if isinstance(other, ChunkTable):
            return self.tables == (other,)
        return isinstance(other, RankedRefs) and self.tables == other.tables

    __hash__ = None  # type: ignore[assignment]

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """Return the reference of one chunk among those with the number of axes of `wanted`."""
        return self.with_axes(len(wanted)).find(wanted)

    def with_axes(self, axes: int) -> ChunkTable:
        """Return the references with this number of axes; the others belong to no array."""
        matching = (table for table in self.tables if table.axes == axes)
        return next(matching, None) or ChunkTable.empty(axes, self.id_size)

    def rows(self, axes: int) -> dict[tuple[int, ...], ChunkRef] | None:
        """Return the references with this number of axes by coordinate."""
        return self.with_axes(axes).rows(axes)

    def table(self) -> ChunkTable:
        """Return the largest table, of equals the one with most axes: a guess without the array."""
        if not self.tables:
            return ChunkTable.empty(0, self.id_size)
        return max(reversed(self.tables), key=len)

    def natives(self) -> NativeChunks:
        """Return the native chunks of every number of axes: any of them may be the array's."""
        tables = self.tables or (ChunkTable.empty(0, self.id_size),)
        parts = [table.natives() for table in tables]
        return NativeChunks(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )


def gather_rows(rows: Iterable[Row], id_size: int) -> dict[NodeId, ChunkRefs]:
    """Group references by node; of two rows at one coordinate the later one is kept."""
    nodes: dict[NodeId, dict[int, dict[tuple[int, ...], ChunkRef]]] = {}
    for node_id, coordinates, ref in rows:
        nodes.setdefault(node_id, {}).setdefault(len(coordinates), {})[coordinates] = ref
    return {
        node_id: RankedRefs(
            tuple(ChunkTable.of(axes, by_axes[axes], id_size) for axes in sorted(by_axes)), id_size
        )
        for node_id, by_axes in nodes.items()
    }


def scatter_rows(manifest: Manifest, form: TreeForm) -> Iterator[tuple[NodeId, PayloadRows]]:
    """Yield each node with its rows, nodes sorted by id and rows by coordinates."""
    if manifest.extra is not None or manifest.array_extras:
        raise InvalidInputError("manifest: there is no place for extra bytes")
    for node_id in sorted(manifest.arrays):
        refs = manifest.arrays[node_id]
        tables = refs.tables if isinstance(refs, RankedRefs) else (refs.table(),)
        with refused(f"chunks of {node_id!r}"):
            rows = [row for table in tables for row in _scatter_table(table, form)]
        yield node_id, sorted(rows, key=itemgetter(0))


def _scatter_table(table: ChunkTable, form: TreeForm) -> PayloadRows:
    if table.extras:
        raise InvalidInputError("there is no place for extra bytes")
    return [(where, write_payload(ref, form)) for where, ref in table.refs().items()]


def read_payload(value: object, form: TreeForm) -> ChunkRef:
    """Return one chunk reference."""
    variant, content = as_variant("chunk payload", value)
    if variant == "Inline":
        return InlineRef(form.read_inline(content))
    if variant == "Virtual":
        return form.read_virtual(content)
    if variant == "Ref":
        fields = form.read_struct("chunk reference", content, _REF_FIELDS)
        return NativeRef(
            chunk_id=form.read_id(ChunkId, fields["id"]),
            offset=as_int("offset", fields["offset"], 0, UINT64_MAX),
            length=as_int("length", fields["length"], 0, UINT64_MAX),
        )
    raise FormatError(f"chunk payload: {show(variant)} is not known")


def write_payload(ref: ChunkRef, form: TreeForm) -> dict[str, object]:
    """Encode a chunk reference; reverse of `read_payload`."""
    if isinstance(ref, InlineRef):
        return {"Inline": form.write_inline(ref.data)}
    if isinstance(ref, VirtualRef):
        return {"Virtual": form.write_virtual(ref)}
    fields = {"id": form.write_id(ref.chunk_id), "offset": ref.offset, "length": ref.length}
    return {"Ref": form.write_struct(fields)}


_NODE_FIELDS = ("id", "path", "user_attributes", "node_data")


def read_nodes(value: object, form: TreeForm) -> dict[str, Node]:
    """Return all nodes by path, in file order."""
    nodes: dict[str, Node] = {}
    for key, item in as_map("nodes", value).items():
        path = as_path("nodes", key)
        with located(f"node {show(path)}"):
            nodes[path] = _read_node(path, item, form)
    return nodes


def write_nodes(nodes: Mapping[str, Node], form: TreeForm) -> dict[str, object]:
    """Encode nodes, sorted by path segments; reverse of `read_nodes`."""
    for path, node in nodes.items():
        with refused(f"node {show(path)}"):
            if as_path("path", path) != node.path:
                raise InvalidInputError(f"it calls itself {show(node.path)}")
    return {path: _write_node(nodes[path], form) for path in sorted(nodes, key=segment_order)}


def sort_keys(value: JsonValue) -> JsonValue:
    """Return a JSON value with sorted object keys, as the official library stored them."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sort_keys(item) for item in value]
    return value


def _read_node(path: str, value: object, form: TreeForm) -> Node:
    fields = form.read_struct("node", value, _NODE_FIELDS)
    if as_text("path", fields["path"]) != path:
        raise FormatError(f"it calls itself {show(fields['path'])}")
    attributes = _read_attributes(fields["user_attributes"])
    node_id = form.read_node_id(fields["id"])
    if fields["node_data"] == "Group":
        return Node(node_id, path, encode_zarr_json(GroupMetadata(attributes)))
    variant, content = as_variant("node_data", fields["node_data"])
    if variant != "Array":
        raise FormatError(f"node_data: {show(variant)} is neither Group nor Array")
    metadata_tree, manifests = as_list("node_data", content, 2)
    metadata = read_array_metadata(metadata_tree, attributes, form)
    array = ArrayData(
        shape=_dimensions(metadata),
        dimension_names=metadata.dimension_names,
        manifests=tuple(map(form.read_manifest_ref, as_list("manifests", manifests))),
    )
    return Node(node_id, path, encode_zarr_json(metadata), array)


def _write_node(node: Node, form: TreeForm) -> object:
    with refused(f"node {show(node.path)}"):
        if node.extra is not None:
            raise InvalidInputError("there is no place for extra bytes")
        metadata = decode_zarr_json(node.user_data)
        return form.write_struct(
            {
                "id": form.write_node_id(node.id),
                "path": node.path,
                "user_attributes": _write_attributes(metadata.attributes),
                "node_data": _write_data(node, metadata, form),
            }
        )


def _write_data(node: Node, metadata: GroupMetadata | ArrayMetadata, form: TreeForm) -> object:
    if isinstance(metadata, GroupMetadata):
        if node.array is not None:
            raise InvalidInputError("it has array data, but its zarr.json is a group's")
        return "Group"
    array = node.array
    if array is None:
        raise InvalidInputError("it has no array data, but its zarr.json is an array's")
    if array.shape != _dimensions(metadata) or array.dimension_names != metadata.dimension_names:
        raise InvalidInputError("its array data and its zarr.json differ")
    axes = len(metadata.shape)
    manifests = tuple(form.write_manifest_ref(ref, axes) for ref in array.manifests)
    return {"Array": (write_array_metadata(metadata, form), manifests)}


def _dimensions(metadata: ArrayMetadata) -> tuple[Dimension, ...]:
    return tuple(
        Dimension(length, -(-length // chunk) if chunk else 0, chunk)
        for length, chunk in zip(metadata.shape, metadata.chunk_shape, strict=True)
    )


def _read_attributes(value: object) -> dict[str, JsonValue] | None:
    if value is None:
        return None
    variant, content = as_variant("user_attributes", value)
    if variant != "Inline":
        # Attribute files were planned but never defined.
        raise FormatError(f"user_attributes: {show(variant)} can't be read, only Inline can")
    return check_attributes(as_map("user_attributes", content))


def _write_attributes(attributes: dict[str, JsonValue] | None) -> object:
    return None if attributes is None else {"Inline": sort_keys(attributes)}


HISTORY_FIELDS = (
    "total_parents",
    "short_term_parents",
    "short_term_history",
    "metadata",
    "started_at",
)
# Years that RFC 3339 can represent; a time zone can lead outside of them.
_FIRST_TIME = -62_135_596_800 * 10**9
_END_OF_TIME = 253_402_300_800 * 10**9

_ENTRY_FIELDS = ("id", "written_at", "message")


def read_history(fields: Mapping[str, object], form: TreeForm) -> tuple[HistoryEntry, History]:
    """Return the snapshot's own entry, and its ancestors."""
    entries = as_list("short_term_history", fields["short_term_history"])
    history = History(
        total_parents=as_int("total_parents", fields["total_parents"], 0, UINT32_MAX),
        short_term_parents=as_int(
            "short_term_parents", fields["short_term_parents"], 0, UINT16_MAX
        ),
        short_term_history=tuple(_read_entry(entry, form) for entry in entries),
        started_at=read_time("started_at", fields["started_at"]),
    )
    return _read_entry(fields["metadata"], form), history


def write_history(snapshot: Snapshot, form: TreeForm) -> dict[str, object]:
    """Encode the history, which must exist and name the parent; reverse of `read_history`."""
    history = snapshot.history
    if history is None:
        raise InvalidInputError("the snapshot needs a history, which this generation stores in it")
    if snapshot.parent_id != parent_of(history):
        raise InvalidInputError(
            f"the parent is {snapshot.parent_id!r}, the history says {parent_of(history)!r}"
        )
    own = HistoryEntry(snapshot.id, snapshot.flushed_at, snapshot.message)
    with refused("history"):
        return {
            "total_parents": as_int("total_parents", history.total_parents, 0, UINT32_MAX),
            "short_term_parents": as_int(
                "short_term_parents", history.short_term_parents, 0, UINT16_MAX
            ),
            "short_term_history": tuple(
                _write_entry(entry, form) for entry in history.short_term_history
            ),
            "metadata": _write_entry(own, form),
            "started_at": write_time(history.started_at),
        }


def parent_of(history: History) -> SnapshotId | None:
    """Return the newest ancestor, or None."""
    entries = history.short_term_history
    return entries[0].id if entries else None


def read_properties(what: str, value: object) -> Metadata:
    """Return the metadata of a commit."""
    return Metadata(as_json_map(what, value))


def write_properties(metadata: Metadata) -> dict[str, object]:
    """Encode commit metadata, sorted by name; reverse of `read_properties`."""
    with refused("metadata"):
        properties: dict[str, object] = sort_keys(as_json_map("metadata", dict(metadata)))
        return properties


def read_time(what: str, value: object) -> Nanoseconds:
    """Return a timestamp."""
    return _check_time(decode_rfc3339(as_text(what, value)))


def write_time(time: Nanoseconds) -> str:
    """Encode a timestamp; reverse of `read_time`."""
    return encode_rfc3339(_check_time(time))


def _check_time(time: Nanoseconds) -> Nanoseconds:
    if _FIRST_TIME <= time < _END_OF_TIME:
        return time
    raise FormatError(f"the time {time} is not in the years 1 to 9999")


def _read_entry(value: object, form: TreeForm) -> HistoryEntry:
    fields = form.read_struct("snapshot metadata", value, _ENTRY_FIELDS)
    return HistoryEntry(
        id=form.read_id(SnapshotId, fields["id"]),
        written_at=read_time("written_at", fields["written_at"]),
        message=as_text("message", fields["message"]),
    )


def _write_entry(entry: HistoryEntry, form: TreeForm) -> object:
    return form.write_struct(
        {
            "id": form.write_id(entry.id),
            "written_at": write_time(entry.written_at),
            "message": as_text("message", entry.message),
        }
    )
