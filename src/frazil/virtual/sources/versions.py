"""What a file was when its references were made."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Etag, time of the last modification and size of a file, as its store told them."""

    e_tag: str | None
    modified_at: datetime
    size_bytes: int

    @property
    def checksum(self) -> str | datetime:
        """What a reference is checked by: a strong etag, or else the time.

        Weak etags never match in a conditional request, and so serve no reader.
        """
        if self.e_tag is not None and not self.e_tag.startswith("W/"):
            return self.e_tag
        return self.modified_at
