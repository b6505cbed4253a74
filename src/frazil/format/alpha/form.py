"""How the alpha layouts spell structs, ids and references.

Reading accepts the spelling of every layout, because structure decides about each file; writing
keeps to one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.errors import FormatError, InvalidInputError
from frazil.format.alpha.layouts import Layout
from frazil.format.alpha.messagepack import Single
from frazil.format.checked import (
    UINT32_MAX,
    UINT64_MAX,
    as_bytes,
    as_coordinates,
    as_int,
    as_list,
    as_text,
    as_variant,
    show,
)
from frazil.format.coordinates import Extents
from frazil.format.fill_values import DATA_TYPES, NON_FINITE
from frazil.format.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId, decode_base32
from frazil.format.references import Checksum, ETag, LastModified, VirtualRef
from frazil.format.snapshot import ManifestRef
from frazil.format.trees.form import Id, TreeForm, make_id, write_node_number


@dataclass(frozen=True)
class AlphaForm(TreeForm):
    """The spelling of one layout."""

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
        # The empty tuple is a marker type without content, which the serialiser wrote down.
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
            return ()  # everything: readers then look into every manifest of the array
        if len(extents) != axes:
            raise InvalidInputError(f"extents {extents} for an array of {axes} axes")
        return (tuple(start for start, _ in extents), tuple(stop for _, stop in extents))


def count_leading(struct: Sequence[object]) -> int:
    """The number of fields before those of a struct: a version, and flags after it."""
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
