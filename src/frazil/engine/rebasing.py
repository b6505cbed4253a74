"""Putting a session's changes on top of what others committed meanwhile.

Each commit in between is passed by itself, oldest first: either nothing meets, or the solver decides,
or the session stays where it is. So a rebase that fails may have passed some commits, and a second
one goes on from there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from frazil.conflicts import ConflictSolver
from frazil.engine.commits import CommitText
from frazil.engine.conflict_rules import Clash, Theirs, describe_ours, find_clashes
from frazil.engine.conflict_solving import plan_solution
from frazil.engine.finishing import commit, require_branch
from frazil.engine.rebase_path import Step, plan_steps
from frazil.engine.rebased_changes import rebase_changes
from frazil.engine.state import SessionState
from frazil.errors import (
    ConflictError,
    ObjectNotFoundError,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
)
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.transaction_log import TransactionLog
from frazil.protocols.snapshot_infos import read_snapshot

_RESERVED = "__icechunk"
"""Where the metadata of a commit keeps what the library itself says."""


def rebase(state: SessionState, solver: ConflictSolver) -> None:
    """Make the tip of its branch the base of a session, whose changes stay.

    Nothing happens where the branch has not moved, or is gone. Raises RebaseFailedError for the first
    commit whose conflicts the solver may not decide, SessionStateError for one whose log has expired.
    """
    branch = require_branch(state)
    with state.lock:
        tip = _find_tip(state, branch)
        if tip is None or tip == state.view.snapshot_id:
            return
        if state.assets.layout.transactions is None:
            raise state.surroundings.protocol.unsupported("rebase")
        for step in plan_steps(state.surroundings.protocol, state.view.snapshot_id, tip):
            _pass(state, step, solver)


def commit_with_rebase(
    state: SessionState,
    text: CommitText,
    solver: ConflictSolver,
    tries: int,
    *,
    allow_empty: bool = False,
) -> SnapshotId:
    """Commit; where somebody was first, rebase and commit again, up to so many times."""
    attempts = 0
    while True:
        try:
            return commit(state, _tell_attempts(text, attempts), allow_empty=allow_empty)
        except ConflictError as error:
            if error.kind != ConflictError.default_kind or attempts >= tries:
                raise
        rebase(state, solver)
        attempts += 1


def _find_tip(state: SessionState, branch: str) -> SnapshotId | None:
    try:
        return state.surroundings.protocol.lookup_branch(branch)
    except RefNotFoundError:
        return None


def _pass(state: SessionState, step: Step, solver: ConflictSolver) -> None:
    """Rest on a commit, or raise and leave the session as it was."""
    snapshot = read_snapshot(state.assets, step.snapshot_id)
    changes = state.changes.copy()
    for log in _read_logs(state, step):
        theirs = Theirs(log, snapshot.nodes)
        clashes = find_clashes(describe_ours(changes, state.view.snapshot.nodes), theirs)
        given_up = plan_solution(clashes, solver)
        if given_up is None:
            raise failed(step.snapshot_id, clashes)
        for id, coordinates in given_up.items():
            changes.chunks[id].forget(coordinates)
    state.rest_on(snapshot, rebase_changes(changes, snapshot.nodes))


def _read_logs(state: SessionState, step: Step) -> Iterator[TransactionLog]:
    for id in step.pruned_logs:
        try:
            yield state.assets.read_transaction_log(id)
        except ObjectNotFoundError as error:
            raise SessionStateError(
                f"snapshot {step.snapshot_id} can't be rebased on: the transaction log {id} of an"
                " expired commit before it is gone, and with it what that commit changed",
                kind="rebase-tx-log-pruned",
            ) from error
    if step.has_log:
        yield state.assets.read_transaction_log(step.snapshot_id)
    else:
        yield TransactionLog(step.snapshot_id)


def failed(id: SnapshotId, clashes: Sequence[Clash]) -> RebaseFailedError:
    """The error that tells all conflicts with a commit."""
    return RebaseFailedError(str(id), tuple(clash.tell() for clash in clashes))


def _tell_attempts(text: CommitText, attempts: int) -> CommitText:
    said = text.metadata.get(_RESERVED)
    reserved: Mapping[str, JsonValue] = said if isinstance(said, Mapping) else {}
    metadata = {**text.metadata, _RESERVED: {**reserved, "rebase_attempts": attempts}}
    return replace(text, metadata=metadata)
