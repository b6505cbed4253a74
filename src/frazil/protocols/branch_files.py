"""Branches in files: what the generations before V2 do alike, however the files are named."""

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from frazil.format.ids import SnapshotId

At = TypeVar("At")


@dataclass(frozen=True, slots=True)
class Tip(Generic[At]):
    """Where a branch points, and what says that it still does."""

    snapshot_id: SnapshotId
    at: At


class BranchFiles(ABC, Generic[At]):
    """The branches of a repository. Each move has one winner."""

    @abstractmethod
    def list_names(self) -> Set[str]:
        """The names of all branches."""

    @abstractmethod
    def find(self, name: str) -> Tip[At] | None:
        """The tip of a branch, if there is one."""

    @abstractmethod
    def create(self, name: str, snapshot_id: SnapshotId) -> bool:
        """Begin a branch that was not found; False if somebody else just did."""

    @abstractmethod
    def move(self, tip: Tip[At], snapshot_id: SnapshotId) -> bool:
        """Point a branch elsewhere; False if its tip is no longer this one."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a branch that was found."""
