"""Conflicts between our changes and theirs, and who decides about them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from frazil.display import Item, Listed, field_items


class ConflictType(Enum):
    """How our changes and theirs meet; ours is what the session did, theirs what is on the branch."""

    NewNodeConflictsWithExistingNode = 1
    NewNodeInInvalidGroup = 2
    ZarrMetadataDoubleUpdate = 3
    ZarrMetadataUpdateOfDeletedArray = 4
    ZarrMetadataUpdateOfDeletedGroup = 5
    ChunkDoubleUpdate = 6
    ChunksUpdatedInDeletedArray = 7
    ChunksUpdatedInUpdatedArray = 8
    DeleteOfUpdatedArray = 9
    DeleteOfUpdatedGroup = 10
    MoveOperationCannotBeRebased = 11

    def __str__(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", " ", self.name).capitalize()

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Conflict(Listed):
    """A node about which the two sides disagree, and the chunks, if it is about those."""

    conflict_type: ConflictType
    path: str
    conflicted_chunks: Sequence[Sequence[int]] | None = field(default=None, hash=False)

    def shown_items(self) -> Iterator[Item]:
        """The fields; chunks only where it is about those."""
        return (item for item in field_items(self) if item.value is not None)


class VersionSelection(Enum):
    """Whose version is taken."""

    Fail = 0
    UseOurs = 1
    UseTheirs = 2

    def __repr__(self) -> str:
        return str(self)


class ConflictSolver:
    """Somebody who decides; one of the classes below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConflictDetector(ConflictSolver):
    """Decides nothing: reports all conflicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicConflictSolver(ConflictSolver):
    """Decides about chunks that both sides wrote, and about what one deleted and the other changed."""

    on_chunk_conflict: VersionSelection = VersionSelection.UseOurs
    fail_on_delete_of_updated_array: bool = False
    fail_on_delete_of_updated_group: bool = False


__all__ = [
    "BasicConflictSolver",
    "Conflict",
    "ConflictDetector",
    "ConflictSolver",
    "ConflictType",
    "VersionSelection",
]
