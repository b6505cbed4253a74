"""What a solver makes of conflicts."""

from collections.abc import Sequence

from frazil.conflicts import (
    BasicConflictSolver,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    VersionSelection,
)
from frazil.engine.conflict_rules import Clash
from frazil.errors import InvalidTypeError
from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId


def plan_solution(
    clashes: Sequence[Clash], solver: ConflictSolver
) -> dict[NodeId, Coordinates] | None:
    """The chunks of ours to give up, by array; None if the solver may not decide about a conflict."""
    given_up: dict[NodeId, Coordinates] = {}
    for clash in clashes:
        if not _may_solve(clash, solver):
            return None
        if clash.chunks is not None and _takes_theirs(solver):
            assert clash.node_id is not None
            given_up[clash.node_id] = clash.chunks
    return given_up


def _may_solve(clash: Clash, solver: ConflictSolver) -> bool:
    if isinstance(solver, ConflictDetector):
        return False
    if not isinstance(solver, BasicConflictSolver):
        raise InvalidTypeError(
            f"{solver!r} is neither a ConflictDetector nor a BasicConflictSolver"
        )
    match clash.conflict_type:
        case ConflictType.ChunkDoubleUpdate:
            return solver.on_chunk_conflict is not VersionSelection.Fail
        case ConflictType.DeleteOfUpdatedArray:
            return not solver.fail_on_delete_of_updated_array
        case ConflictType.DeleteOfUpdatedGroup:
            return not solver.fail_on_delete_of_updated_group
    return False


def _takes_theirs(solver: ConflictSolver) -> bool:
    return (
        isinstance(solver, BasicConflictSolver)
        and solver.on_chunk_conflict is VersionSelection.UseTheirs
    )
