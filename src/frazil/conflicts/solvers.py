"""Who decides about conflicts: values that say how, for those who know the rules."""

from dataclasses import dataclass
from enum import Enum


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
