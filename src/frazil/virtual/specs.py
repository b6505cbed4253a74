"""A reference to a virtual chunk, as users hand it over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from frazil.errors import InvalidTypeError
from frazil.rendering import Called


@dataclass(frozen=True, slots=True, repr=False)
class VirtualChunkSpec(Called):
    """Which chunk of an array lives where.

    Reads are refused if the object has another etag than `etag_checksum`, or was changed after
    `last_updated_at_checksum`, which must know its time zone.
    """

    index: Sequence[int]
    location: str
    """A URL; what is reserved there (`?`, `#`, `%`) is percent-encoded where it is part of the key."""
    offset: int
    length: int
    etag_checksum: str | None = None
    last_updated_at_checksum: datetime | None = None

    def __post_init__(self) -> None:
        moment = self.last_updated_at_checksum
        if moment is not None and moment.tzinfo is None:
            raise InvalidTypeError(f"last_updated_at_checksum {moment} does not know its time zone")

    def __hash__(self) -> int:
        return hash((tuple(self.index), self.location, self.offset, self.length))
