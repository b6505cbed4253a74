"""A conflict that was found."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from frazil.rendering import Item, Listed, field_items


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
