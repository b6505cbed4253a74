"""What differs between the trees of the draft and those of the alphas."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from frazil.errors import FormatError, InvalidInputError
from frazil.format.checked import show
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.references import VirtualRef
from frazil.format.snapshot import ManifestRef

Id = TypeVar("Id", SnapshotId, ManifestId, ChunkId)


class TreeForm(ABC):
    """One generation's spelling. Readers raise FormatError, writers InvalidInputError."""

    id_size: int
    """Bytes of the ids of snapshots, manifests and chunks."""

    @abstractmethod
    def read_struct(self, what: str, value: object, names: tuple[str, ...]) -> Mapping[str, object]:
        """The fields of a struct; None for one that may be absent and is."""

    @abstractmethod
    def write_struct(self, fields: Mapping[str, object]) -> object:
        """A struct of these fields in this order."""

    @abstractmethod
    def read_id(self, kind: type[Id], value: object) -> Id:
        """The id of a snapshot, manifest or chunk."""

    @abstractmethod
    def write_id(self, id: SnapshotId | ManifestId | ChunkId) -> object:
        """The reverse of `read_id`."""

    @abstractmethod
    def read_node_id(self, value: object) -> NodeId:
        """The id of a node."""

    @abstractmethod
    def write_node_id(self, id: NodeId) -> object:
        """The reverse of `read_node_id`."""

    @abstractmethod
    def read_data_type(self, value: object) -> str:
        """A data type as zarr.json spells it."""

    @abstractmethod
    def write_data_type(self, data_type: str) -> object:
        """The reverse of `read_data_type`."""

    @abstractmethod
    def read_fill_content(self, value: object) -> object:
        """What is inside the variant of a fill value."""

    @abstractmethod
    def write_float(self, value: float | str, bits: int) -> object:
        """A fill value's float, given as a number or Zarr's word for one."""

    @abstractmethod
    def read_inline(self, value: object) -> bytes:
        """The bytes of an inline chunk."""

    @abstractmethod
    def write_inline(self, data: bytes) -> object:
        """The reverse of `read_inline`."""

    @abstractmethod
    def read_virtual(self, value: object) -> VirtualRef:
        """A virtual chunk reference."""

    @abstractmethod
    def write_virtual(self, ref: VirtualRef) -> object:
        """The reverse of `read_virtual`."""

    @abstractmethod
    def read_manifest_ref(self, value: object) -> ManifestRef:
        """A node's pointer to a manifest."""

    @abstractmethod
    def write_manifest_ref(self, ref: ManifestRef, axes: int) -> object:
        """The reverse of `read_manifest_ref`, for an array of that many axes."""

    def check_id_size(self, id: SnapshotId | ManifestId | ChunkId) -> None:
        """Refuse an id of another generation's length."""
        if len(id) != self.id_size:
            raise InvalidInputError(f"{id!r} has {len(id)} bytes, {self.id_size} are needed")


def make_id(kind: type[Id], data: bytes, size: int) -> Id:
    """An id of exactly this size."""
    if len(data) != size:
        raise FormatError(f"{kind.__name__}: {show(data)} has {len(data)} bytes, {size} are needed")
    return kind(data)


def write_node_number(id: NodeId) -> int:
    """A node id as the number that the draft and the first alphas store."""
    number = id.to_number()
    if number >= 2**32:
        raise InvalidInputError(f"{id!r} is no node number: it does not fit 32 bits")
    return number
