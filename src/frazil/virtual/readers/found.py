"""What a reader finds in one group of a source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.virtual.sources import ArrayHeader, ReferenceColumns

INTERRUPTIONS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a program, and is never the fault of a file."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundGroup:
    """The arrays of a group with their references, which know no versions of files yet."""

    attributes: Mapping[str, Any]
    arrays: Mapping[str, ArrayHeader]
    references: Mapping[str, ReferenceColumns]
    groups: tuple[str, ...]
    """Names of the groups right below."""


@dataclass(frozen=True, slots=True)
class Loading:
    """Which arrays have their values read with the header."""

    names: frozenset[str]
    small_bytes: int
    """Those that are no larger, and besides them the coordinates of dimensions."""
