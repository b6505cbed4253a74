"""One rebase, done by whichever library is given: both have the same interface.

A scenario starts from a small tree, lets others commit and then rebases a session's own changes.
Steps are lists of plain values, so that they can be sent to the child process; this module knows
neither library.
"""

import asyncio
import contextlib
from typing import Any

import zarr
from zarr.core.buffer import default_buffer_prototype

Library = Any
"""The module `icechunk`, or `frazil`."""

Step = list[Any]
"""The name of a change, then its arguments."""

DETECTOR = "detector"


def run_rebase(
    library: Library,
    spec_version: int,
    theirs: list[list[Step]],
    ours: list[Step],
    solver: str | dict[str, Any],
) -> dict[str, Any]:
    """What became of a session's changes, whose branch others have committed to meanwhile."""
    repository = library.Repository.create(library.in_memory_storage(), spec_version=spec_version)
    ids = [_plant(repository)]
    session = _open(repository, ours)
    for steps in theirs:
        ids.append(_commit(repository, steps))
    _take(session, ours)
    failure = _rebase(library, session, make_solver(library, solver))
    outcome = {
        "failure": failure and {**failure, "snapshot": ids.index(failure["snapshot"])},
        "base": ids.index(session.snapshot_id),
        "has_changes": session.has_uncommitted_changes,
        "status": describe_diff(session.status()),
    }
    return {**outcome, **({} if failure else _finish(repository, session))}


def commit_with_rebase(
    library: Library,
    theirs: list[list[Step]],
    ours: list[Step],
    solver: str | dict[str, Any],
    tries: int,
    metadata: dict[str, Any],
) -> dict[str, Any]:
    """What a commit says about itself that had to be rebased, or which error it was."""
    repository = library.Repository.create(library.in_memory_storage())
    _plant(repository)
    session = _open(repository, ours)
    for steps in theirs:
        _commit(repository, steps)
    _take(session, ours)
    chosen = make_solver(library, solver)
    try:
        session.commit("ours", metadata, rebase_with=chosen, rebase_tries=tries)
    except library.IcechunkError as error:
        return {"error": [type(error).__name__, str(error.kind)], "branch": session.branch}
    return {"metadata": dict(next(iter(repository.ancestry(branch="main"))).metadata)}


def make_solver(library: Library, solver: str | dict[str, Any]) -> Any:
    """A solver from plain values."""
    if isinstance(solver, str):
        return library.ConflictDetector()
    choices = dict(solver)
    if "on_chunk_conflict" in choices:
        name = choices["on_chunk_conflict"]
        choices["on_chunk_conflict"] = getattr(library.VersionSelection, name)
    return library.BasicConflictSolver(**choices)


def describe_diff(diff: Any) -> dict[str, Any]:
    """A diff as plain values, whichever library it is of."""
    sets = ("new", "deleted", "updated")
    nodes = {
        f"{a}_{b}": sorted(getattr(diff, f"{a}_{b}")) for a in sets for b in ("groups", "arrays")
    }
    chunks = {path: [list(each) for each in found] for path, found in diff.updated_chunks.items()}
    return {**nodes, "updated_chunks": chunks, "moved": [list(each) for each in diff.moved_nodes]}


def list_conflicts(library: Library, edits: list[list[Step]]) -> list[list[list[list[Any]]]]:
    """What a detector reports for each edit of ours (outer) on top of each edit of theirs (inner)."""
    repository = library.Repository.create(library.in_memory_storage())
    base = _plant(repository)
    tips = []
    for number, steps in enumerate(edits):
        repository.create_branch(f"theirs-{number}", base)
        tips.append(_commit(repository, steps, f"theirs-{number}"))
    repository.create_branch("ours", base)
    return [[_meet(library, repository, base, tip, ours) for tip in tips] for ours in edits]


def _meet(
    library: Library, repository: Any, base: str, tip: str, ours: list[Step]
) -> list[list[Any]]:
    repository.reset_branch("ours", base)
    session = _open(repository, ours, "ours")
    repository.reset_branch("ours", tip)
    _take(session, ours)
    failure = _rebase(library, session, library.ConflictDetector())
    return [] if failure is None else sorted(failure["conflicts"], key=repr)


# The tree that all start from


def _plant(repository: Any) -> str:
    session = repository.writable_session("main")
    root = zarr.group(session.store)
    for name in ("g", "h"):
        group = root.create_group(name)
        group.create_group("sub")
        for array in ("a", "b"):
            group.create_array(array, shape=(8, 2), chunks=(1, 2), dtype="i4")[:] = 1
    return str(session.commit("base"))


def _open(repository: Any, steps: list[Step], branch: str = "main") -> Any:
    is_move = bool(steps) and steps[0][0] == "move"
    return (repository.rearrange_session if is_move else repository.writable_session)(branch)


def _commit(repository: Any, steps: list[Step], branch: str = "main") -> str:
    session = _open(repository, steps, branch)
    _take(session, steps)
    return str(session.commit("theirs", allow_empty=True))


# Changes


def _take(session: Any, steps: list[Step]) -> None:
    for name, *arguments in steps:
        # What an earlier step has made impossible is left out: it is so for both libraries.
        with contextlib.suppress(
            FileNotFoundError,
            KeyError,
            zarr.errors.ContainsArrayError,
            zarr.errors.ContainsGroupError,
            ValueError,
        ):
            _CHANGES[name](session, *arguments)


def _write(session: Any, path: str, start: int, stop: int, value: int) -> None:
    zarr.open_array(session.store, path=path, mode="r+")[start:stop] = value


def _resize(session: Any, path: str, length: int) -> None:
    zarr.open_array(session.store, path=path, mode="r+").resize((length, 2))


def _describe_array(session: Any, path: str, value: Any) -> None:
    zarr.open_array(session.store, path=path, mode="r+").attrs["said"] = value


def _describe_group(session: Any, path: str, value: Any) -> None:
    zarr.open_group(session.store, path=path, mode="r+").attrs["said"] = value


def _create_group(session: Any, path: str) -> None:
    zarr.open_group(session.store, mode="r+").create_group(path)


def _create_array(session: Any, path: str) -> None:
    group = zarr.open_group(session.store, mode="r+")
    group.create_array(path, shape=(8, 2), chunks=(1, 2), dtype="i4")[:2] = 5


def _delete(session: Any, path: str) -> None:
    asyncio.run(session.store.delete(f"{path}/zarr.json"))


def _delete_chunk(session: Any, path: str, row: int) -> None:
    asyncio.run(session.store.delete(f"{path}/c/{row}/0"))


def _move(session: Any, from_path: str, to_path: str) -> None:
    session.move(from_path, to_path)


_CHANGES: dict[str, Any] = {
    "write": _write,
    "resize": _resize,
    "describe_array": _describe_array,
    "describe_group": _describe_group,
    "create_group": _create_group,
    "create_array": _create_array,
    "delete": _delete,
    "delete_chunk": _delete_chunk,
    "move": _move,
}


# What comes of them


def _rebase(library: Library, session: Any, solver: Any) -> dict[str, Any] | None:
    try:
        session.rebase(solver)
    except library.RebaseFailedError as error:
        return {
            "kind": str(error.kind),
            "snapshot": error.snapshot,
            "conflicts": [_describe_conflict(each) for each in error.conflicts],
        }
    return None


def _describe_conflict(conflict: Any) -> list[Any]:
    chunks = conflict.conflicted_chunks
    kind = repr(conflict.conflict_type).rpartition(".")[2]
    return [kind, conflict.path, None if chunks is None else [list(each) for each in chunks]]


def _finish(repository: Any, session: Any) -> dict[str, Any]:
    """Commit, and tell what is in the repository then."""
    parent = session.snapshot_id
    id = session.commit("ours", allow_empty=True)
    store = repository.readonly_session(snapshot_id=id).store
    diff = repository.diff(from_snapshot_id=parent, to_snapshot_id=id)
    return {"contents": asyncio.run(_contents(store)), "diff": describe_diff(diff)}


async def _contents(store: Any) -> dict[str, bytes]:
    prototype = default_buffer_prototype()
    keys = sorted([key async for key in store.list_prefix("")])
    return {key: (await store.get(key, prototype)).to_bytes() for key in keys}
