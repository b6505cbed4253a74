"""Conflicts between our changes and theirs, and who decides about them."""

from frazil.conflicts.found import Conflict, ConflictType
from frazil.conflicts.solvers import (
    BasicConflictSolver,
    ConflictDetector,
    ConflictSolver,
    VersionSelection,
)

__all__ = [
    "BasicConflictSolver",
    "Conflict",
    "ConflictDetector",
    "ConflictSolver",
    "ConflictType",
    "VersionSelection",
]
