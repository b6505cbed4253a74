"""Draft files: JSON, ids of 16 bytes, numbered nodes, no transaction logs."""

import re
from collections.abc import Iterator, Mapping

from frazil.errors import FormatError, InvalidInputError
from frazil.format.header import Decoded, Dialect
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.legacy_trees import (
    HISTORY_FIELDS,
    Id,
    Row,
    TreeForm,
    gather_rows,
    make_id,
    parent_of,
    read_history,
    read_nodes,
    read_payload,
    read_properties,
    scatter_rows,
    write_history,
    write_node_number,
    write_nodes,
    write_properties,
)
from frazil.format.manifest import Manifest, VirtualRef
from frazil.format.metadata import (
    UINT32_MAX,
    UINT64_MAX,
    JsonValue,
    as_byte_list,
    as_coordinates,
    as_int,
    as_list,
    as_map,
    as_text,
    decode_json,
    encode_json,
    located,
    refused,
    show,
)
from frazil.format.snapshot import ManifestFileInfo, ManifestRef, Node, Snapshot
from frazil.format.zarr_metadata import DATA_TYPES

_VIRTUAL_FIELDS = ("location", "offset", "length")
_MANIFEST_REF_FIELDS = ("object_id", "flags", "extents")
_DATA_TYPES = DATA_TYPES - {"string", "bytes"}
_RAW_BITS = re.compile(r"r([0-9]+)")


class DraftForm(TreeForm):
    """Encoding of the draft generation."""

    id_size = 16

    def read_struct(self, what: str, value: object, names: tuple[str, ...]) -> Mapping[str, object]:
        members = as_map(what, value)
        return {name: members.get(name) for name in names}

    def write_struct(self, fields: Mapping[str, object]) -> object:
        return dict(fields)

    def read_id(self, kind: type[Id], value: object) -> Id:
        return make_id(kind, as_byte_list(kind.__name__, value), self.id_size)

    def write_id(self, id: SnapshotId | ManifestId | ChunkId) -> object:
        self.check_id_size(id)
        return list(id)

    def read_node_id(self, value: object) -> NodeId:
        return NodeId.from_number(as_int("node id", value, 0, UINT32_MAX))

    def write_node_id(self, id: NodeId) -> object:
        return write_node_number(id)

    def read_data_type(self, value: object) -> str:
        if isinstance(value, dict):
            return f"r{as_int('rawbits', value.get('rawbits'), 0, 2**63 - 1)}"
        data_type = as_text("data_type", value)
        if data_type not in _DATA_TYPES:
            raise FormatError(f"data_type: {show(data_type)} is not known")
        return data_type

    def write_data_type(self, data_type: str) -> object:
        refuse_data_type(data_type)
        if match := _RAW_BITS.fullmatch(data_type):
            return {"rawbits": int(match[1])}
        return data_type

    def read_fill_content(self, value: object) -> object:
        # JSON has no NaN: Rust serializers write null, this one writes Zarr's word.
        if isinstance(value, list):
            return ["NaN" if part is None else part for part in value]
        return "NaN" if value is None else value

    def write_float(self, value: float | str, bits: int) -> object:  # noqa: ARG002
        return value

    def read_inline(self, value: object) -> bytes:
        return as_byte_list("inline chunk", value)

    def write_inline(self, data: bytes) -> object:
        return list(data)

    def read_virtual(self, value: object) -> VirtualRef:
        fields = self.read_struct("virtual reference", value, _VIRTUAL_FIELDS)
        return VirtualRef(
            location=as_text("location", fields["location"]),
            offset=as_int("offset", fields["offset"], 0, UINT64_MAX),
            length=as_int("length", fields["length"], 0, UINT64_MAX),
        )

    def write_virtual(self, ref: VirtualRef) -> object:
        if ref.checksum is not None:
            raise InvalidInputError(f"{ref.location!r}: there is no place for a checksum")
        return {"location": ref.location, "offset": ref.offset, "length": ref.length}

    def read_manifest_ref(self, value: object) -> ManifestRef:
        fields = self.read_struct("manifest reference", value, _MANIFEST_REF_FIELDS)
        # The draft does not define extents: every manifest is assumed to cover everything.
        as_list("extents", fields["extents"])
        return ManifestRef(self.read_id(ManifestId, fields["object_id"]), ())

    def write_manifest_ref(self, ref: ManifestRef, axes: int) -> object:  # noqa: ARG002
        return {"object_id": self.write_id(ref.id), "flags": [], "extents": []}


def refuse_data_type(data_type: str) -> None:
    """Raise InvalidInputError for a data type that the draft does not have."""
    if data_type not in _DATA_TYPES and not _RAW_BITS.fullmatch(data_type):
        raise InvalidInputError(f"data_type: there is no place for {show(data_type)}")


FORM = DraftForm()


def unpack(data: bytes) -> JsonValue:
    """Decode a whole file."""
    return decode_json(data, "file")


def pack(tree: JsonValue) -> bytes:
    """Encode a tree."""
    try:
        return encode_json(tree)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(f"JSON can't hold it: {error}") from error


_SLASHED_KEY = re.compile(r"[0-9]{1,10}(/[0-9]{1,10})*/?", re.ASCII)


def decode_manifest(data: bytes) -> Decoded[Manifest]:
    """Decode a manifest file; its id is only in the file name.

    References are `RankedRefs`: query them with the number of axes of the array.
    """
    with located("draft manifest"):
        fields = FORM.read_struct("file", unpack(data), ("chunks",))
        arrays = gather_rows(_read_rows(fields["chunks"]), FORM.id_size)
        return Decoded(Manifest(None, arrays), Dialect.DRAFT)


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest file; raise InvalidInputError for content that the draft can't store."""
    with refused("draft manifest"):
        chunks = {
            _write_key(node, coordinates): payload
            for node, payloads in scatter_rows(manifest, FORM)
            for coordinates, payload in payloads
        }
        return pack({"chunks": chunks})


def _read_rows(value: object) -> Iterator[Row]:
    for key, payload in as_map("chunks", value).items():
        node, coordinates = _read_key(key)
        yield node, coordinates, read_payload(payload, FORM)


def _read_key(key: str) -> tuple[NodeId, tuple[int, ...]]:
    if _SLASHED_KEY.fullmatch(key):
        node, *coordinates = map(int, key.rstrip("/").split("/"))
    elif key.startswith("["):
        node, coordinates = as_list("chunk key", decode_json(key.encode(), "chunk key"), 2)
    else:
        raise FormatError(f"chunk key: {show(key)} is neither [node,[i,j]] nor node/i/j")
    return FORM.read_node_id(node), as_coordinates("chunk key", coordinates)


def _write_key(node: NodeId, coordinates: tuple[int, ...]) -> str:
    return f"[{FORM.write_node_id(node)},[{','.join(map(str, coordinates))}]]"


_FIELDS = (*HISTORY_FIELDS, "properties", "nodes")


def decode_snapshot(data: bytes) -> Decoded[Snapshot]:
    """Decode a snapshot file."""
    with located("draft snapshot"):
        fields = FORM.read_struct("file", unpack(data), _FIELDS)
        own, history = read_history(fields, FORM)
        nodes = read_nodes(fields["nodes"], FORM)
        snapshot = Snapshot(
            id=own.id,
            parent_id=parent_of(history),
            flushed_at=own.written_at,
            message=own.message,
            metadata=read_properties("properties", fields["properties"]),
            nodes=nodes,
            manifest_files=tuple(map(ManifestFileInfo, _manifests_of(nodes))),
            history=history,
        )
        return Decoded(snapshot, Dialect.DRAFT)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot file.

    It needs its history, and no parent except the history's. Raises InvalidInputError for content that
    the draft can't store; extents, which only speed up reading, are omitted. NaN and infinite fill
    values become Zarr's words for them, which the draft's own schema does not define.
    """
    with refused("draft snapshot"):
        _refuse_what_has_no_place(snapshot)
        fields = write_history(snapshot, FORM)
        fields["properties"] = write_properties(snapshot.metadata)
        fields["nodes"] = write_nodes(snapshot.nodes, FORM)
        return pack(fields)


def _refuse_what_has_no_place(snapshot: Snapshot) -> None:
    if snapshot.extra is not None:
        raise InvalidInputError("there is no place for extra bytes")
    ids = [info.id for info in snapshot.manifest_files]
    if set(ids) != set(_manifests_of(snapshot.nodes)):
        raise InvalidInputError("the manifest files are not those that arrays point to")
    for info in snapshot.manifest_files:
        if info != ManifestFileInfo(info.id):
            raise InvalidInputError(f"manifest file {info.id}: there is no place for its size")


def _manifests_of(nodes: Mapping[str, Node]) -> list[ManifestId]:
    """Return the distinct manifests, in the order of the nodes."""
    refs = (ref for node in nodes.values() if node.array for ref in node.array.manifests)
    return list(dict.fromkeys(ref.id for ref in refs))


__all__ = [
    "decode_manifest",
    "decode_snapshot",
    "encode_manifest",
    "encode_snapshot",
    "refuse_data_type",
]
