"""Sessions without Zarr, in memory: nodes, chunks, commits, and two branches to edit the history of."""

import json
from collections.abc import Callable

from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.ops import SessionMode
from frazil.repository.commit import CommitText
from frazil.repository.commit import commit as commit_session
from frazil.repository.conflicts import (
    BasicConflictSolver,
    ConflictDetector,
    ConflictSolver,
    VersionSelection,
)
from frazil.repository.context import RepositoryContext, SessionState, create
from frazil.repository.history_edits import cherry_pick
from frazil.repository.moves import move_node
from frazil.repository.store_io import delete_node, read_key, set_chunk, set_metadata
from frazil.storage.memory import MemoryStorage

MAIN = "main"

Change = Callable[[SessionState], None]
WITH_LOGS = [each for each in Dialect if each not in (Dialect.DRAFT, Dialect.ALPHA_A)]
WITHOUT_LOGS = [Dialect.DRAFT, Dialect.ALPHA_A]


def create_context(dialect: Dialect = Dialect.V2) -> RepositoryContext:
    """An empty repository."""
    return create(MemoryStorage(), dialect).context


def open_session(
    context: RepositoryContext, mode: SessionMode = SessionMode.writable, branch: str = MAIN
) -> SessionState:
    """A session of the tip of a branch."""
    tip = context.protocol.lookup_branch(branch)
    snapshot = context.assets.read_snapshot(tip)
    return SessionState(context, snapshot, mode=mode, branch=branch)


def commit(state: SessionState, message: str = "a change") -> SnapshotId:
    """Commit, even if there is nothing to be committed."""
    return commit_session(state, CommitText(message, {}), allow_empty=True)


def set_group(state: SessionState, path: str, **attributes: object) -> None:
    """Make a group, or give it other attributes."""
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    set_metadata(state, path, json.dumps(document).encode())


def set_array(state: SessionState, path: str, *grid: int, **attributes: object) -> None:
    """Make an array of so many chunks of one byte along each axis, or give it other attributes."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": grid,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1 for _ in grid]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": attributes,
    }
    set_metadata(state, path, json.dumps(document).encode())


def write_chunks(state: SessionState, path: str, *indices: int, data: bytes = b"x") -> None:
    """Write chunks of an array of one axis."""
    for index in indices:
        set_chunk(state, path, (index,), data)


def delete(state: SessionState, path: str) -> None:
    """Delete a node and all below it."""
    delete_node(state, path)


def plant(context: RepositoryContext) -> SnapshotId:
    """Commit `/g` with the arrays `/g/a` and `/g/b` of eight chunks, and the group `/h`."""
    state = open_session(context)
    for path in ("/", "/g", "/g/sub", "/h"):
        set_group(state, path)
    for path in ("/g/a", "/g/b"):
        set_array(state, path, 8)
        write_chunks(state, path, *range(8), data=b"0")
    return commit(state, "base")


def commit_change(context: RepositoryContext, *changes: Change) -> SnapshotId:
    """A commit of somebody else."""
    state = open_session(context)
    for change in changes:
        change(state)
    return commit(state)


def read_chunks(state: SessionState, path: str, count: int = 8) -> str:
    """The chunks of an array in a row, a dot where there is none."""
    found = (read_key(state, f"{path[1:]}/c/{index}") for index in range(count))
    return "".join("." if data is None else bytes(data).decode() for data in found)


def paths_of(state: SessionState) -> list[str]:
    """The nodes that a session sees."""
    return [node.path for node in state.view.nodes()]


def latest(context: RepositoryContext) -> SessionState:
    """What is there now."""
    return open_session(context)


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
