"""What a file was when its references were made."""

from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Etag, time of the last modification and size of a file, as its store told them."""

    e_tag: str | None
    modified_at: datetime
    size_bytes: int

    @property
    def checksum(self) -> str | datetime:
        """What a reference is checked by: a strong etag, or else the time, in whole seconds.

        Weak etags never match in a conditional request, and so serve no reader. References hold whole
        seconds, and the official library compares them with the time to its last digit: rounded
        down, they would make every file look changed.
        """
        if self.e_tag is not None and not self.e_tag.startswith("W/"):
            return self.e_tag
        return datetime.fromtimestamp(ceil(self.modified_at.timestamp()), UTC)
