"""Two branches for tests of edits of the history, and changes to commit to them."""

from frazil.conflicts import BasicConflictSolver, ConflictDetector, ConflictSolver, VersionSelection
from frazil.format.ids import SnapshotId
from frazil.ops import SessionMode
from frazil.repository.history_edits import cherry_pick
from frazil.repository.moves import move_node
from frazil.repository.session_state import RepositoryContext, SessionState
from tests.engine_sessions import (
    MAIN,
    Change,
    commit,
    delete,
    open_session,
    plant,
    set_group,
    write_chunks,
)

DETECTOR = ConflictDetector()
OURS = BasicConflictSolver()
THEIRS = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)
SIDE = "side"
"""A branch beside `main`."""


def fork_history(context: RepositoryContext) -> RepositoryContext:
    """A small tree, and a branch beside `main` that starts there."""
    context.protocol.create_branch(SIDE, plant(context))
    return context


def change(context: RepositoryContext, branch: str, *changes: Change) -> SnapshotId:
    """Commit changes to a branch."""
    state = open_session(context, branch=branch)
    for each in changes:
        each(state)
    return commit(state, f"a change of {branch}")


def pick(
    context: RepositoryContext, id: SnapshotId, solver: ConflictSolver = DETECTOR
) -> SessionState:
    """Pick a commit onto `main`; what `main` has then."""
    cherry_pick(context, id, MAIN, None, solver)
    return open_session(context)


def writes(*indices: int, path: str = "/g/a", data: bytes = b"s") -> Change:
    """Writes chunks of an array."""
    return lambda state: write_chunks(state, path, *indices, data=data)


def describes(path: str, **said: object) -> Change:
    """Makes a group, or gives it other attributes."""
    return lambda state: set_group(state, path, **said)


def deletes(path: str) -> Change:
    """Deletes a node and all below it."""
    return lambda state: delete(state, path)


def move(context: RepositoryContext, branch: str, source: str, target: str) -> SnapshotId:
    """Commit a move to a branch."""
    state = open_session(context, SessionMode.rearrange, branch)
    move_node(state, source, target)
    return commit(state)
