"""Conflicts between our changes and theirs, and their solvers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import Enum

from frazil.display import Item, Listed, field_items
from frazil.lazy import dataclass


class ConflictType(Enum):
    """Kind of conflict between our changes (those of the session) and theirs (those on the branch)."""

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
    """Conflict in one node, with the conflicting chunks if any.

    Parameters
    ----------
    conflict_type
        Kind of conflict.
    path
        Path of the node.
    conflicted_chunks
        Coordinates of the conflicting chunks; None if the conflict is not about chunks.
    """

    conflict_type: ConflictType
    path: str
    conflicted_chunks: Sequence[Sequence[int]] | None = field(default=None, hash=False)

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields; chunks only if there are any."""
        return (item for item in field_items(self) if item.value is not None)


class VersionSelection(Enum):
    """Version to choose in a conflict."""

    Fail = 0
    UseOurs = 1
    UseTheirs = 2

    def __repr__(self) -> str:
        return str(self)


class ConflictSolver:
    """Base class of conflict solvers."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConflictDetector(ConflictSolver):
    """Solver that resolves nothing and reports all conflicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicConflictSolver(ConflictSolver):
    """Solver for chunks that both sides wrote and for nodes that we deleted and they changed.

    Parameters
    ----------
    on_chunk_conflict
        Version to choose for a chunk that both sides wrote.
    fail_on_delete_of_updated_array, fail_on_delete_of_updated_group
        Fail if the session deleted a node that was changed on the branch.
    """

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
