"""Alpha snapshots, manifests and transaction logs: MessagePack in eight layouts, A to H."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgpack
import numpy as np
import zstandard

from frazil.errors import FormatError, InvalidInputError
from frazil.format.coordinates import Coordinates, Extents
from frazil.format.header import (
    DEFAULT_LEVEL,
    ZSTD_MAGIC,
    Decoded,
    Dialect,
    FileType,
    Header,
    decode_file,
    decompress,
    encode_file,
    has_header,
)
from frazil.format.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId, decode_base32
from frazil.format.legacy_trees import (
    HISTORY_FIELDS,
    Id,
    RankedRefs,
    Row,
    TreeForm,
    gather_rows,
    make_id,
    parent_of,
    read_history,
    read_nodes,
    read_payload,
    read_properties,
    read_time,
    scatter_rows,
    write_history,
    write_node_number,
    write_nodes,
    write_properties,
    write_time,
)
from frazil.format.manifest import Checksum, ChunkRefs, ETag, LastModified, Manifest, VirtualRef
from frazil.format.metadata import (
    UINT16_MAX,
    UINT32_MAX,
    UINT64_MAX,
    as_bytes,
    as_coordinates,
    as_int,
    as_list,
    as_map,
    as_text,
    as_variant,
    located,
    refused,
    show,
    unpack_messagepack,
)
from frazil.format.snapshot import ManifestFileInfo, ManifestRef, Snapshot, TransactionLog
from frazil.format.zarr_metadata import DATA_TYPES, NON_FINITE
from frazil.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Properties of one alpha layout."""

    dialect: Dialect
    format_version: int | None
    """Version number in most structs; 0.1.0 dropped it."""
    has_numbered_nodes: bool = False
    has_binary_ids: bool = False
    """Ids are bytes; base32 text otherwise."""
    manifest_file_sizes: tuple[str, ...] = ()
    """Fields that a snapshot records of a manifest file, named as in `ManifestFileInfo`."""
    has_checksums: bool = True
    """Virtual references can have a checksum."""
    has_header: bool = True
    """Files have a header, and are compressed with zstd."""
    has_bare_zstd_manifests: bool = False
    has_chunks_by_node: bool = False
    """Manifests are `{node: {coordinates: payload}}`; `{(node, coordinates): payload}` otherwise."""
    has_manifest_id: bool = False
    has_extents: bool = False
    has_history: bool = True
    has_transaction_logs: bool = True


_A = Layout(
    Dialect.ALPHA_A,
    format_version=0,
    has_numbered_nodes=True,
    has_checksums=False,
    has_header=False,
    has_transaction_logs=False,
)
_B = Layout(Dialect.ALPHA_B, format_version=0, has_checksums=False, has_header=False)
_C = Layout(Dialect.ALPHA_C, format_version=0, has_header=False)
_D = Layout(
    Dialect.ALPHA_D,
    format_version=0,
    manifest_file_sizes=("size_bytes",),
    has_header=False,
    has_bare_zstd_manifests=True,
)
_E = Layout(Dialect.ALPHA_E, format_version=1, manifest_file_sizes=("size_bytes",))
_F = Layout(
    Dialect.ALPHA_F,
    format_version=1,
    manifest_file_sizes=("size_bytes",),
    has_binary_ids=True,
    has_chunks_by_node=True,
)
_G = Layout(
    Dialect.ALPHA_G,
    format_version=1,
    manifest_file_sizes=("size_bytes", "num_chunk_refs"),
    has_binary_ids=True,
    has_chunks_by_node=True,
    has_manifest_id=True,
    has_extents=True,
)
_H = Layout(
    Dialect.ALPHA_H,
    format_version=None,
    manifest_file_sizes=("size_bytes", "num_chunk_refs"),
    has_binary_ids=True,
    has_chunks_by_node=True,
    has_manifest_id=True,
    has_extents=True,
    has_history=False,
)

LAYOUTS = {layout.dialect: layout for layout in (_A, _B, _C, _D, _E, _F, _G, _H)}
"""Layouts by dialect, oldest first."""


def get_layout(dialect: Dialect) -> Layout:
    """Return the layout of an alpha dialect."""
    layout = LAYOUTS.get(dialect)
    if layout is None:
        raise InvalidInputError(f"{dialect} is no dialect of the alpha releases")
    return layout


_SPEC_VERSION = 1


class Envelope(NamedTuple):
    """Payload and header of a file."""

    payload: bytes
    header: Header | None
    has_bare_zstd: bool


def open_envelope(data: bytes, file_type: FileType) -> Envelope:
    """Extract the payload of a file."""
    if has_header(data):
        header, payload = decode_file(data, file_type)
        return Envelope(payload, header, has_bare_zstd=False)
    if data[:4] == ZSTD_MAGIC:
        return Envelope(decompress(data, "file"), None, has_bare_zstd=True)
    return Envelope(data, None, has_bare_zstd=False)


def seal_envelope(
    payload: bytes, file_type: FileType, layout: Layout, implementation: str, level: int
) -> bytes:
    """Build a file from a payload, as the layout requires."""
    if layout.has_header:
        return encode_file(Header(implementation, _SPEC_VERSION, file_type), [payload], level)
    if layout.has_bare_zstd_manifests and file_type is FileType.MANIFEST:
        return zstandard.ZstdCompressor(level=level).compress(payload)
    return payload


class Single(float):
    """Float stored in 32 bits."""

    __slots__ = ()


def unpack(payload: bytes) -> Any:
    """Decode a whole payload; arrays become tuples, so that they can be map keys."""
    try:
        return unpack_messagepack(payload, use_list=False, strict_map_key=False)
    except ValueError as error:
        raise FormatError(f"not MessagePack: {error}") from error


def pack(tree: object) -> bytes:
    """Encode a tree without `Single` values."""
    with _translated_errors():
        return bytes(msgpack.packb(tree))


def pack_with_singles(tree: object) -> bytes:
    """Encode a tree with `Single` values in its tuples and dicts, but not in lists."""
    with _translated_errors():
        return b"".join(_pack_parts(tree, msgpack.Packer(), msgpack.Packer(use_single_float=True)))


def _pack_parts(value: object, double: Any, single: Any) -> Iterator[bytes]:
    if type(value) is tuple:
        yield double.pack_array_header(len(value))
        for item in value:
            yield from _pack_parts(item, double, single)
    elif type(value) is dict:
        yield double.pack_map_header(len(value))
        for key, item in value.items():
            yield double.pack(key)
            yield from _pack_parts(item, double, single)
    elif type(value) is Single:
        yield single.pack(float(value))
    else:
        yield double.pack(value)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"MessagePack can't hold it: {error}") from error


@dataclass(frozen=True)
class AlphaForm(TreeForm):
    """Encoding of one alpha layout."""

    layout: Layout
    id_size = 12

    def read_struct(self, what: str, value: object, names: tuple[str, ...]) -> Mapping[str, object]:
        return dict(zip(names, as_list(what, value, len(names)), strict=True))

    def write_struct(self, fields: Mapping[str, object]) -> object:
        return tuple(fields.values())

    def read_id(self, kind: type[Id], value: object) -> Id:
        return make_id(kind, _read_id_bytes(kind, value), self.id_size)

    def write_id(self, id: SnapshotId | ManifestId | ChunkId) -> object:
        self.check_id_size(id)
        return self._write_id(id)

    def read_node_id(self, value: object) -> NodeId:
        if isinstance(value, int):
            return NodeId.from_number(as_int("node id", value, 0, UINT32_MAX))
        data = _read_id_bytes(NodeId, value)
        if len(data) != 8:
            raise FormatError(f"node id: {show(value)} has {len(data)} bytes, 8 are needed")
        return NodeId(data)

    def write_node_id(self, id: NodeId) -> object:
        return write_node_number(id) if self.layout.has_numbered_nodes else self._write_id(id)

    def _write_id(self, id: ObjectId) -> object:
        # The empty tuple is a marker type without content, which the serializer wrote.
        return (bytes(id), ()) if self.layout.has_binary_ids else str(id)

    def read_data_type(self, value: object) -> str:
        data_type = as_text("data_type", value)
        if data_type not in DATA_TYPES:
            raise FormatError(f"data_type: {show(data_type)} is not known")
        return data_type

    def write_data_type(self, data_type: str) -> object:
        return self.read_data_type(data_type)

    def read_fill_content(self, value: object) -> object:
        return value

    def write_float(self, value: float | str, bits: int) -> object:
        number = NON_FINITE[value] if isinstance(value, str) else value
        return Single(number) if bits == 32 else number

    def read_inline(self, value: object) -> bytes:
        return as_bytes("inline chunk", value)

    def write_inline(self, data: bytes) -> object:
        return data

    def read_virtual(self, value: object) -> VirtualRef:
        fields = as_list("virtual reference", value)
        if len(fields) == 3:
            location, offset, length = fields
            variant, location = as_variant("location", location)
            if variant != "Absolute":
                raise FormatError(f"location: {show(variant)} is not known")
            checksum = None
        else:
            location, offset, length, checksum = as_list("virtual reference", value, 4)
        return VirtualRef(
            location=as_text("location", location),
            offset=as_int("offset", offset, 0, UINT64_MAX),
            length=as_int("length", length, 0, UINT64_MAX),
            checksum=None if checksum is None else _read_checksum(checksum),
        )

    def write_virtual(self, ref: VirtualRef) -> object:
        if self.layout.has_checksums:
            return (ref.location, ref.offset, ref.length, _write_checksum(ref.checksum))
        if ref.checksum is not None:
            raise InvalidInputError(f"{ref.location!r}: there is no place for a checksum")
        return ({"Absolute": ref.location}, ref.offset, ref.length)

    def read_manifest_ref(self, value: object) -> ManifestRef:
        id, extents = as_list("manifest reference", value, 2)
        return ManifestRef(self.read_id(ManifestId, id), _read_extents(extents))

    def write_manifest_ref(self, ref: ManifestRef, axes: int) -> object:
        return (self.write_id(ref.id), self._write_extents(ref.extents, axes))

    def _write_extents(self, extents: Extents, axes: int) -> object:
        if not self.layout.has_extents:
            return ()  # everything: readers then search every manifest of the array
        if len(extents) != axes:
            raise InvalidInputError(f"extents {extents} for an array of {axes} axes")
        return (tuple(start for start, _ in extents), tuple(stop for _, stop in extents))


def count_leading(struct: Sequence[object]) -> int:
    """Return the number of fields before those of a struct: a version, and flags after it."""
    if len(struct) < 2 or type(struct[0]) is not int:
        return 0
    return 2 if len(struct) > 2 and isinstance(struct[1], dict) else 1


def _read_id_bytes(kind: type[ObjectId], value: object) -> bytes:
    if isinstance(value, tuple) and len(value) == 2 and value[1] == ():
        return as_bytes(kind.__name__, value[0])
    text = as_text(kind.__name__, value)
    try:
        return decode_base32(text[:32])
    except InvalidInputError as error:
        raise FormatError(f"{kind.__name__}: {error}") from error


def _read_checksum(value: object) -> Checksum:
    variant, content = as_variant("checksum", value)
    if variant == "ETag":
        return ETag(as_text("checksum", content))
    if variant == "LastModified":
        return LastModified(as_int("checksum", content, 0, UINT32_MAX))
    raise FormatError(f"checksum: {show(variant)} is not known")


def _write_checksum(checksum: Checksum | None) -> object:
    if isinstance(checksum, ETag):
        return {"ETag": checksum.value}
    return None if checksum is None else {"LastModified": checksum.seconds}


def _read_extents(value: object) -> Extents:
    corners = as_list("extents", value)
    if not corners:
        return ()
    starts, stops = (as_coordinates("extents", each) for each in as_list("extents", value, 2))
    if len(starts) != len(stops):
        raise FormatError(f"extents: from {len(starts)} axes to {len(stops)}")
    return tuple(zip(starts, stops, strict=True))


def decode_manifest(data: bytes) -> Decoded[Manifest]:
    """Decode a manifest file of any layout.

    The dialect is the oldest one consistent with this file. B differs from C by virtual references, and
    A from B, E from F by any reference. References are `RankedRefs`: query them with the number of
    axes of the array.
    """
    with located("alpha manifest"):
        return _decode_envelope(open_envelope(data, FileType.MANIFEST))


def decode_manifest_payload(payload: bytes, header: Header | None) -> Decoded[Manifest]:
    """Decode a manifest payload without its envelope; without a header it is not of layout D."""
    with located("alpha manifest"):
        return _decode_envelope(Envelope(payload, header, has_bare_zstd=False))


def encode_manifest(
    manifest: Manifest, dialect: Dialect, implementation: str, level: int = DEFAULT_LEVEL
) -> bytes:
    """Encode a manifest file; `implementation` is written to the header, if the layout has one.

    G and H need the manifest's id; earlier layouts store it only in the file name. Raises
    InvalidInputError for content that the layout can't store.
    """
    layout = get_layout(dialect)
    with refused(f"alpha manifest ({dialect.value})"):
        payload = pack(_write_manifest(manifest, AlphaForm(layout)))
        return seal_envelope(payload, FileType.MANIFEST, layout, implementation, level)


def _decode_envelope(envelope: Envelope) -> Decoded[Manifest]:
    tree = as_list("payload", unpack(envelope.payload))
    leading = count_leading(tree)
    *ids, chunks = tree[leading:] or (None,)
    if len(ids) > 1 or not (leading or ids):
        raise FormatError(f"a struct of {len(tree)} fields, not of 2, 3 or 4")
    chunks = as_map("chunks", chunks)
    first_key = next(iter(chunks), None)
    dialect = _detect_manifest_dialect(leading > 0, len(ids) > 0, first_key, chunks, envelope)
    form = AlphaForm(LAYOUTS[dialect])
    id = form.read_id(ManifestId, ids[0]) if ids else None
    read = _read_flat if _is_chunk_key(first_key) else _read_by_node
    return Decoded(Manifest(id, read(chunks, form)), dialect, envelope.header)


def _detect_manifest_dialect(
    has_version: bool,
    has_id: bool,
    first_key: object,
    chunks: Mapping[Any, Any],
    envelope: Envelope,
) -> Dialect:
    if not has_version:
        return Dialect.ALPHA_H
    if has_id:
        return Dialect.ALPHA_G
    if envelope.header is not None:
        return Dialect.ALPHA_F if _is_binary_id(first_key) else Dialect.ALPHA_E
    if envelope.has_bare_zstd:
        return Dialect.ALPHA_D
    if first_key is None or isinstance(as_list("chunk key", first_key, 2)[0], int):
        return Dialect.ALPHA_A
    has_new_virtual = any(map(_has_checksum_field, chunks.values()))
    return Dialect.ALPHA_C if has_new_virtual else Dialect.ALPHA_B


def _is_chunk_key(key: object) -> bool:
    """Return whether a key holds a node and coordinates; a binary id is a pair as well."""
    return isinstance(key, tuple) and not _is_binary_id(key)


def _is_binary_id(key: object) -> bool:
    return isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], bytes)


def _has_checksum_field(payload: object) -> bool:
    if not isinstance(payload, dict):
        return False
    content = payload.get("Virtual")
    return isinstance(content, tuple) and len(content) == 4


def _read_flat(chunks: Mapping[Any, Any], form: AlphaForm) -> dict[NodeId, ChunkRefs]:
    return gather_rows(_flat_rows(chunks, form), form.id_size)


def _flat_rows(chunks: Mapping[Any, Any], form: AlphaForm) -> Iterator[Row]:
    for key, payload in chunks.items():
        node, coordinates = as_list("chunk key", key, 2)
        yield (
            form.read_node_id(node),
            as_coordinates("chunk coordinates", coordinates),
            read_payload(payload, form),
        )


def _read_by_node(chunks: Mapping[Any, Any], form: AlphaForm) -> dict[NodeId, ChunkRefs]:
    # A node without references is written back as well.
    arrays: dict[NodeId, ChunkRefs] = {
        form.read_node_id(node): RankedRefs((), form.id_size) for node in chunks
    }
    return arrays | gather_rows(_rows_by_node(chunks, form), form.id_size)


def _rows_by_node(chunks: Mapping[Any, Any], form: AlphaForm) -> Iterator[Row]:
    for node, payloads in chunks.items():
        node_id = form.read_node_id(node)
        for coordinates, payload in as_map("chunks of a node", payloads).items():
            yield (
                node_id,
                as_coordinates("chunk coordinates", coordinates),
                read_payload(payload, form),
            )


def _write_manifest(manifest: Manifest, form: AlphaForm) -> object:
    layout = form.layout
    fields: tuple[object, ...] = ()
    if layout.format_version is not None:
        fields += (layout.format_version, {})
    if layout.has_manifest_id:
        fields += (_write_manifest_id(manifest, form),)
    return (*fields, _write_manifest_chunks(manifest, form))


def _write_manifest_id(manifest: Manifest, form: AlphaForm) -> object:
    if manifest.id is None:
        raise InvalidInputError("the manifest needs its id, which this layout stores in it")
    return form.write_id(manifest.id)


def _write_manifest_chunks(manifest: Manifest, form: AlphaForm) -> dict[object, object]:
    rows = ((form.write_node_id(node), rows) for node, rows in scatter_rows(manifest, form))
    if form.layout.has_chunks_by_node:
        return {node: dict(payloads) for node, payloads in rows}
    return {
        (node, coordinates): payload for node, payloads in rows for coordinates, payload in payloads
    }


_WITH_HISTORY = ("manifest_files", "attribute_files", *HISTORY_FIELDS, "properties", "nodes")
_WITH_VERSION = ("version", "flags", *_WITH_HISTORY)
_WITH_PARENT = (
    "id",
    "parent_id",
    "flushed_at",
    "message",
    "metadata",
    "manifest_files",
    "attribute_files",
    "nodes",
)
_SNAPSHOT_FIELDS_BY_COUNT = {len(names): names for names in (_WITH_HISTORY, _WITH_PARENT)}
_SIZES = ("size_bytes", "num_chunk_refs")
_LAST_VERSION = 1
"""Last version of the format; no manifest file is that few bytes long."""


def decode_snapshot(data: bytes) -> Decoded[Snapshot]:
    """Decode a snapshot file of any layout.

    The dialect is the oldest one consistent with this file, so the newest one among a repository's
    files is the repository's. Snapshots don't distinguish B from C; without nodes and manifest files
    they don't distinguish A to D, or F and G.
    """
    with located("alpha snapshot"):
        envelope = open_envelope(data, FileType.SNAPSHOT)
    return decode_snapshot_payload(envelope.payload, envelope.header)


def decode_snapshot_payload(payload: bytes, header: Header | None) -> Decoded[Snapshot]:
    """Decode a snapshot payload without its envelope."""
    with located("alpha snapshot"):
        tree = as_list("payload", unpack(payload))
        leading = count_leading(tree)
        names = _SNAPSHOT_FIELDS_BY_COUNT.get(len(tree) - leading)
        if names is None:
            raise FormatError(f"a struct of {len(tree)} fields, not of 8, 9 or 11")
        fields = dict(zip(names, tree[leading:], strict=True))
        layout = _detect_layout(fields, has_version=leading > 0)
        return Decoded(_read_snapshot(fields, layout), layout.dialect, header)


def encode_snapshot(
    snapshot: Snapshot, dialect: Dialect, implementation: str, level: int = DEFAULT_LEVEL
) -> bytes:
    """Encode a snapshot file; `implementation` is written to the header, if the layout has one.

    A to G need the history, and no parent except the history's; H has only a parent. Raises
    InvalidInputError for content that the layout can't store; extents before G, which only speed up
    reading, are omitted.
    """
    layout = get_layout(dialect)
    with refused(f"alpha snapshot ({dialect.value})"):
        payload = pack_with_singles(_write_snapshot(snapshot, AlphaForm(layout)))
        return seal_envelope(payload, FileType.SNAPSHOT, layout, implementation, level)


def _detect_layout(fields: Mapping[str, object], *, has_version: bool) -> Layout:
    infos = as_list("manifest_files", fields["manifest_files"])
    info_length = len(as_list("manifest_files", infos[0])) if infos else None
    if "parent_id" in fields:
        return LAYOUTS[Dialect.ALPHA_H]
    if not has_version:
        own_id, *_ = as_list("metadata", fields["metadata"], 3)
        if isinstance(own_id, str):
            return LAYOUTS[Dialect.ALPHA_E]
        return LAYOUTS[Dialect.ALPHA_G if info_length == 4 else Dialect.ALPHA_F]
    if info_length == 3:
        return LAYOUTS[Dialect.ALPHA_D]
    return LAYOUTS[Dialect.ALPHA_B if _has_text_node_ids(fields) else Dialect.ALPHA_A]


def _has_text_node_ids(fields: Mapping[str, object]) -> bool:
    nodes = as_map("nodes", fields["nodes"]).values()
    return any(
        isinstance(node, tuple) and bool(node) and isinstance(node[0], str) for node in nodes
    )


def _read_snapshot(fields: Mapping[str, object], layout: Layout) -> Snapshot:
    form = AlphaForm(layout)
    infos = as_list("manifest_files", fields["manifest_files"])
    manifest_files = tuple(_read_manifest_file(info, form) for info in infos)
    as_list("attribute_files", fields["attribute_files"])
    nodes = read_nodes(fields["nodes"], form)
    if layout.has_history:
        own, history = read_history(fields, form)
        return Snapshot(
            id=own.id,
            parent_id=parent_of(history),
            flushed_at=own.written_at,
            message=own.message,
            metadata=read_properties("properties", fields["properties"]),
            nodes=nodes,
            manifest_files=manifest_files,
            history=history,
        )
    parent = fields["parent_id"]
    return Snapshot(
        id=form.read_id(SnapshotId, fields["id"]),
        parent_id=None if parent is None else form.read_id(SnapshotId, parent),
        flushed_at=read_time("flushed_at", fields["flushed_at"]),
        message=as_text("message", fields["message"]),
        metadata=read_properties("metadata", fields["metadata"]),
        nodes=nodes,
        manifest_files=manifest_files,
    )


def _write_snapshot(snapshot: Snapshot, form: AlphaForm) -> object:
    if snapshot.extra is not None:
        raise InvalidInputError("there is no place for extra bytes")
    layout = form.layout
    fields: dict[str, object] = {
        "version": layout.format_version,
        "flags": {},
        "manifest_files": tuple(_write_manifest_file(i, form) for i in snapshot.manifest_files),
        "attribute_files": (),
        "properties": write_properties(snapshot.metadata),
        "nodes": write_nodes(snapshot.nodes, form),
    }
    if layout.has_history:
        fields |= write_history(snapshot, form)
        names: tuple[str, ...] = _WITH_HISTORY if layout.has_header else _WITH_VERSION
    else:
        fields |= _write_parent(snapshot, form)
        fields["metadata"] = fields["properties"]
        names = _WITH_PARENT
    return tuple(fields[name] for name in names)


def _write_parent(snapshot: Snapshot, form: AlphaForm) -> dict[str, object]:
    if snapshot.history is not None:
        raise InvalidInputError("there is no place for a history, only for a parent")
    parent = snapshot.parent_id
    return {
        "id": form.write_id(snapshot.id),
        "parent_id": None if parent is None else form.write_id(parent),
        "flushed_at": write_time(snapshot.flushed_at),
        "message": as_text("message", snapshot.message),
    }


def _read_manifest_file(value: object, form: AlphaForm) -> ManifestFileInfo:
    id, *given = as_list("manifest_files", value) or ("",)
    numbers = [as_int("manifest_files", each, 0, UINT64_MAX) for each in given]
    if _has_version(numbers, form.layout):
        del numbers[0]
    if len(numbers) > len(_SIZES):
        raise FormatError(f"manifest_files: a struct of {len(given) + 1} fields, not of 2 to 4")
    sizes = dict(zip(_SIZES, numbers, strict=False))
    return ManifestFileInfo(
        id=form.read_id(ManifestId, id),
        size_bytes=sizes.get("size_bytes"),
        num_chunk_refs=sizes.get("num_chunk_refs"),
    )


def _has_version(numbers: Sequence[int], layout: Layout) -> bool:
    if len(numbers) == len(_SIZES):
        return layout.format_version is not None and numbers[0] <= _LAST_VERSION
    return len(numbers) > len(_SIZES) or (len(numbers) == 1 and numbers[0] <= _LAST_VERSION)


def _write_manifest_file(info: ManifestFileInfo, form: AlphaForm) -> object:
    if info.extra is not None:
        raise InvalidInputError(f"manifest file {info.id}: there is no place for extra bytes")
    fields: dict[str, object] = {"id": form.write_id(info.id)}
    if form.layout.format_version is not None:
        fields["version"] = form.layout.format_version
    for name, size in (("size_bytes", info.size_bytes), ("num_chunk_refs", info.num_chunk_refs)):
        if name in form.layout.manifest_file_sizes:
            fields[name] = as_int(f"manifest file {info.id}: {name}", size, 0, UINT64_MAX)
        elif size is not None:
            raise InvalidInputError(f"manifest file {info.id}: there is no place for {name}")
    return form.write_struct(fields)


_NODE_SETS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_attributes",
    "updated_arrays",
)
_WITHOUT_PLACE = ("updated_groups", "moves", "extra")


def decode_transaction_log(data: bytes, id: SnapshotId) -> Decoded[TransactionLog]:
    """Decode a transaction log of any layout; its id is that of its snapshot, the file name.

    The dialect is the oldest one consistent with this file: B, C and D are alike, F and G too.
    """
    with located("alpha transaction log"):
        envelope = open_envelope(data, FileType.TRANSACTION_LOG)
    return decode_transaction_log_payload(envelope.payload, envelope.header, id)


def decode_transaction_log_payload(
    payload: bytes, header: Header | None, id: SnapshotId
) -> Decoded[TransactionLog]:
    """Decode a transaction log payload without its envelope."""
    with located("alpha transaction log"):
        tree = list(as_list("payload", unpack(payload)))
        if len(tree) not in (7, 8):
            raise FormatError(f"a struct of {len(tree)} fields, not of 7 or 8")
        version = as_int("version", tree.pop(0), 0, UINT16_MAX) if len(tree) == 8 else None
        dialect = _detect_log_dialect(version, tree)
        form = AlphaForm(LAYOUTS[dialect])
        *sets, chunks = tree
        nodes: dict[str, Any] = {
            name: frozenset(map(form.read_node_id, as_list(name, value)))
            for name, value in zip(_NODE_SETS, sets, strict=True)
        }
        updated_chunks = {
            form.read_node_id(node): _read_coordinates(rows)
            for node, rows in as_map("updated_chunks", chunks).items()
        }
        return Decoded(TransactionLog(id, **nodes, updated_chunks=updated_chunks), dialect, header)


def encode_transaction_log(
    log: TransactionLog, dialect: Dialect, implementation: str, level: int = DEFAULT_LEVEL
) -> bytes:
    """Encode a transaction log; `implementation` is written to the header, if the layout has one.

    Raises InvalidInputError for content that the layout can't store: moves, and updated groups, which
    these releases counted among nodes with updated attributes.
    """
    layout = get_layout(dialect)
    with refused(f"alpha transaction log ({dialect.value})"):
        if not layout.has_transaction_logs:
            raise InvalidInputError("there are no transaction logs in this layout")
        payload = pack(_write_log(log, AlphaForm(layout)))
        return seal_envelope(payload, FileType.TRANSACTION_LOG, layout, implementation, level)


def _detect_log_dialect(version: int | None, fields: list[object]) -> Dialect:
    if version is None:
        return Dialect.ALPHA_H
    if version == 0:
        return Dialect.ALPHA_B
    *sets, chunks = fields
    ids = [id for nodes in sets for id in as_list("nodes", nodes)[:1]]
    ids += list(as_map("updated_chunks", chunks))[:1]
    return Dialect.ALPHA_F if any(isinstance(id, tuple) for id in ids) else Dialect.ALPHA_E


def _read_coordinates(value: object) -> Coordinates:
    rows = {as_coordinates("updated_chunks", row) for row in as_list("updated_chunks", value)}
    ranks = {len(row) for row in rows}
    if len(ranks) > 1:
        raise FormatError(f"updated_chunks: coordinates of {sorted(ranks)} axes for one node")
    axes = ranks.pop() if ranks else 0
    return np.array(sorted(rows), np.uint32).reshape(len(rows), axes)


def _write_log(log: TransactionLog, form: AlphaForm) -> object:
    for name in _WITHOUT_PLACE:
        if getattr(log, name):
            raise InvalidInputError(f"there is no place for {name}")
    version = form.layout.format_version
    return (
        *(() if version is None else (version,)),
        *(tuple(map(form.write_node_id, sorted(getattr(log, name)))) for name in _NODE_SETS),
        _write_log_chunks(log.updated_chunks, form),
    )


def _write_log_chunks(
    chunks: Mapping[NodeId, Coordinates], form: AlphaForm
) -> dict[object, object]:
    return {
        form.write_node_id(node): tuple(map(tuple, chunks[node].tolist()))
        for node in sorted(chunks)
    }
