"""How the draft spells structs, ids and references: objects, and lists of bytes."""

import re
from collections.abc import Mapping

from frazil.errors import FormatError, InvalidInputError
from frazil.format.checked import (
    UINT32_MAX,
    UINT64_MAX,
    as_byte_list,
    as_int,
    as_list,
    as_map,
    as_text,
    show,
)
from frazil.format.fill_values import DATA_TYPES
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.references import VirtualRef
from frazil.format.snapshot import ManifestRef
from frazil.format.trees.form import Id, TreeForm, make_id, write_node_number

_VIRTUAL_FIELDS = ("location", "offset", "length")
_MANIFEST_REF_FIELDS = ("object_id", "flags", "extents")
_DATA_TYPES = DATA_TYPES - {"string", "bytes"}
_RAW_BITS = re.compile(r"r([0-9]+)")


class DraftForm(TreeForm):
    """The only spelling of the draft."""

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
        # JSON has no word for NaN: serialisers of Rust write null, this one Zarr's word.
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
        # The draft does not say what extents mean: every manifest is taken to cover everything.
        as_list("extents", fields["extents"])
        return ManifestRef(self.read_id(ManifestId, fields["object_id"]), ())

    def write_manifest_ref(self, ref: ManifestRef, axes: int) -> object:  # noqa: ARG002
        return {"object_id": self.write_id(ref.id), "flags": [], "extents": []}


def refuse_data_type(data_type: str) -> None:
    """Raise InvalidInputError for a type that the draft does not have."""
    if data_type not in _DATA_TYPES and not _RAW_BITS.fullmatch(data_type):
        raise InvalidInputError(f"data_type: there is no place for {show(data_type)}")


FORM = DraftForm()
