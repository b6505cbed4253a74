"""Layouts, envelopes and encodings of the alpha releases."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgpack
import zstandard

from frazil.errors import FormatError, InvalidInputError
from frazil.format.chunk_table import Checksum, ETag, LastModified, VirtualRef
from frazil.format.coordinates import Extents
from frazil.format.header import (
    ZSTD_MAGIC,
    Dialect,
    FileType,
    Header,
    decode_file,
    decompress,
    encode_file,
    has_header,
)
from frazil.format.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId, decode_base32
from frazil.format.legacy.trees import Id, TreeForm, make_id, write_node_number
from frazil.format.metadata import (
    UINT32_MAX,
    UINT64_MAX,
    as_bytes,
    as_coordinates,
    as_int,
    as_list,
    as_text,
    as_variant,
    show,
    unpack_messagepack,
)
from frazil.format.snapshot import ManifestRef
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
    starts, stops = map(_read_corner, as_list("extents", value, 2))
    if len(starts) != len(stops):
        raise FormatError(f"extents: from {len(starts)} axes to {len(stops)}")
    return tuple(zip(starts, stops, strict=True))


def _read_corner(value: object) -> tuple[int, ...]:
    return as_coordinates("extents", value)
