"""What one source file holds, as values: headers that travel, and references in columns."""

from frazil.virtual.sources.columns import ReferenceColumns, concatenate
from frazil.virtual.sources.headers import ArrayHeader, SourceHeader
from frazil.virtual.sources.source import Source
from frazil.virtual.sources.versions import FileVersion

__all__ = [
    "ArrayHeader",
    "FileVersion",
    "ReferenceColumns",
    "Source",
    "SourceHeader",
    "concatenate",
]
