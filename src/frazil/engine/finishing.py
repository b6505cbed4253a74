"""How a session ends: commit, amend, flush. Each lands whole, or leaves the session as it was."""

from collections.abc import Mapping

from frazil.assets import new_snapshot_id
from frazil.engine.commits import CommitText, build_log, build_snapshot, write_commit, write_files
from frazil.engine.log_merging import merge_logs
from frazil.engine.manifests import ManifestWriter, write_manifests
from frazil.engine.state import SessionState
from frazil.errors import ConflictError, IcechunkError, RefNotFoundError, SessionStateError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.snapshot import Snapshot
from frazil.states import SessionMode


def commit(
    state: SessionState,
    text: CommitText,
    *,
    allow_empty: bool = False,
    write: ManifestWriter = write_manifests,
) -> SnapshotId:
    """Make the session's changes the tip of its branch; raises ConflictError if somebody was first."""
    with state.lock:
        branch = require_branch(state)
        _refuse_nothing(state, allow_empty=allow_empty)
        _refuse_moved_branch(state, branch)
        snapshot, _ = _write(state, text, write)
        state.surroundings.protocol.commit(branch, snapshot, state.view.snapshot_id, state.sources)
        state.finish(snapshot)
    return snapshot.id


def amend(
    state: SessionState,
    text: CommitText,
    *,
    allow_empty: bool = False,
    write: ManifestWriter = write_manifests,
) -> SnapshotId:
    """Replace the tip of the session's branch by one that has the session's changes as well."""
    protocol = state.surroundings.protocol
    if protocol.dialect is not Dialect.V2:
        raise protocol.unsupported("amend")
    with state.lock:
        branch = require_branch(state)
        _refuse_nothing(state, allow_empty=allow_empty)
        replaced = state.view.snapshot_id
        if protocol.lookup_snapshot(replaced).parent_id is None:
            raise SessionStateError(
                "the first commit in the repository cannot be an amend, create a new commit instead",
                kind="no-amend-for-initial-commit",
            )
        _refuse_moved_branch(state, branch)
        former = state.assets.read_transaction_log(replaced)
        if former.moves and state.mode is not SessionMode.rearrange:
            raise SessionStateError(
                "the last commit moved nodes: only a rearrange session can amend it",
                kind="rearrange-session-only",
            )
        manifests = write(state.view, state.surroundings.settings.split_sizes)
        id = new_snapshot_id(protocol.dialect)
        snapshot = build_snapshot(state.view, manifests, text, id=id, started_at=state.started_at)
        log = merge_logs([former, build_log(state.view, snapshot.id)], snapshot.id)
        write_files(state.assets, snapshot, log)
        protocol.amend(branch, snapshot, replaced, state.sources)
        state.finish(snapshot)
    return snapshot.id


def flush(state: SessionState, text: CommitText) -> SnapshotId:
    """Write a snapshot of the session to which no branch or tag points."""
    if state.is_fork:
        raise IcechunkError(
            "cannot flush a forked session: merge it into its session and flush that"
        )
    with state.lock:
        parent_id = state.view.snapshot_id
        snapshot, _ = _write(state, text)
        state.surroundings.protocol.register(snapshot, parent_id, state.sources)
        state.assets.storage.flush()
        state.finish(snapshot)
    return snapshot.id


def describe(
    state: SessionState, message: str, metadata: Mapping[str, JsonValue] | None
) -> CommitText:
    """The text of a commit, with the repository's default metadata under its own."""
    defaults = state.surroundings.default_commit_metadata
    return CommitText(message, {**defaults, **(metadata or {})})


def _write(
    state: SessionState, text: CommitText, write: ManifestWriter = write_manifests
) -> tuple[Snapshot, object]:
    rules = state.surroundings.settings.split_sizes
    return write_commit(state.view, text, rules, started_at=state.started_at, write=write)


def require_branch(state: SessionState) -> str:
    """The branch that a session commits to; raises SessionStateError where there is none."""
    if state.branch is None:
        raise SessionStateError(
            "commits are not allowed on read-only or forked sessions: merge a fork into the session"
            " that it came from, and commit that",
            kind="commit-not-allowed",
        )
    return state.branch


def _refuse_nothing(state: SessionState, *, allow_empty: bool) -> None:
    if not state.changes and not allow_empty:
        raise SessionStateError(
            "cannot commit, no changes made to the session: allow_empty=True commits all the same",
            kind="no-changes-to-commit",
        )


def _refuse_moved_branch(state: SessionState, branch: str) -> None:
    """A commit that can't land is not worth writing files for."""
    try:
        tip = state.surroundings.protocol.lookup_branch_to_change(branch)
    except RefNotFoundError:
        return  # what a branch that is gone means differs between the generations
    if tip != state.view.snapshot_id:
        raise conflict(branch, state.view.snapshot_id, tip)


def conflict(branch: str, expected: SnapshotId, actual: SnapshotId) -> ConflictError:
    """The error that says that a branch has moved."""
    return ConflictError(
        expected_parent=str(expected),
        actual_parent=str(actual),
        addition=f"branch {branch!r} is at {actual}, no more at {expected}, where this session started",
    )
