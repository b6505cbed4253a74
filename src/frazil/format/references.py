"""One chunk reference as a value: where the bytes of a chunk are."""

from dataclasses import dataclass
from enum import IntEnum

from frazil.format.ids import ChunkId


class ChunkKind(IntEnum):
    """Where the bytes of a chunk are; the numbers are those of Icechunk's `ChunkType`."""

    NATIVE = 1
    VIRTUAL = 2
    INLINE = 3


@dataclass(frozen=True, slots=True)
class ETag:
    """A virtual chunk's source must still have this entity tag."""

    value: str


@dataclass(frozen=True, slots=True)
class LastModified:
    """A virtual chunk's source must not be newer than this, in seconds since 1970."""

    seconds: int


Checksum = ETag | LastModified


@dataclass(frozen=True, slots=True)
class NativeRef:
    """A chunk in a file of the repository."""

    chunk_id: ChunkId
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class VirtualRef:
    """A chunk in a file outside the repository."""

    location: str
    offset: int
    length: int
    checksum: Checksum | None = None


@dataclass(frozen=True, slots=True)
class InlineRef:
    """A chunk whose bytes are in the manifest itself."""

    data: bytes


ChunkRef = NativeRef | VirtualRef | InlineRef
