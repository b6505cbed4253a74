"""A source file as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.virtual.sources.columns import ReferenceColumns
from frazil.virtual.sources.headers import ArrayHeader, SourceHeader
from frazil.virtual.sources.versions import FileVersion


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What was found in a source file: its header, and where the chunks of its arrays are."""

    header: SourceHeader
    references: Mapping[str, ReferenceColumns]

    @property
    def location(self) -> str:
        """Where the file is."""
        return self.header.location

    @property
    def version(self) -> FileVersion:
        """What the file was when it was opened."""
        return self.header.version

    @property
    def arrays(self) -> Mapping[str, ArrayHeader]:
        """The arrays by their name."""
        return self.header.arrays

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the group."""
        return self.header.attributes

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the arrays that are coordinates."""
        return self.header.coordinates

    @property
    def dims(self) -> Mapping[str, int]:
        """The dimensions with their lengths."""
        return self.header.dims

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups right below, to be opened with `group=`."""
        return self.header.groups

    def __repr__(self) -> str:
        names = ", ".join(self.arrays)
        return f"Source({self.header.name!r}, format={self.header.format!r}, arrays=[{names}])"
