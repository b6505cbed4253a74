from frazil.repository.conflicts import BasicConflictSolver as BasicConflictSolver
from frazil.repository.conflicts import Conflict as Conflict
from frazil.repository.conflicts import ConflictDetector as ConflictDetector
from frazil.repository.conflicts import ConflictSolver as ConflictSolver
from frazil.repository.conflicts import ConflictType as ConflictType
from frazil.repository.conflicts import VersionSelection as VersionSelection
