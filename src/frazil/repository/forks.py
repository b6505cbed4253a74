"""Fork sessions for distributed writers, find the session of an array, and merge forks."""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidTypeError, ReadOnlyError, SessionStateError
from frazil.format.ids import NodeId
from frazil.format.snapshot import Node
from frazil.ops import SessionMode
from frazil.protocols.assets import new_snapshot_id
from frazil.repository.changes import ChangeSet, node_over
from frazil.repository.commit import MANY_CHUNKS, CommitText, encode_commit
from frazil.repository.context import SessionState
from frazil.repository.session import ForkSession, Session
from frazil.repository.store import IcechunkStore
from frazil.repository.view import View

if TYPE_CHECKING:
    import zarr

__all__ = ["extract_session", "merge_sessions"]  # of `frazil.distributed`


def fork(state: SessionState) -> SessionState:
    """Return a fork of a session: it can be pickled and written to, but not committed."""
    if state.is_read_only:
        raise SessionStateError(
            "cannot fork a read-only session: it needs no fork, it can be pickled as it is",
            kind="cannot-fork-read-only-session",
        )
    with state.lock:
        snapshot = state.view.snapshot
        if state.changes:
            # Nobody rebases on a fork or compares it with others, so a large log is not written.
            is_large = sum(state.changes.count_in_bulk()) > MANY_CHUNKS
            unlogged = [new_snapshot_id(state.assets.dialect)] if is_large else ()
            done = encode_commit(state, CommitText("fork", {}), logged_as=unlogged)
            state.assets.storage.put_many(done.objects)
            snapshot = done.snapshot
        forked = SessionState(state.context, snapshot, is_fork=True)
        forked.origins = state.origins | state.changes.sources
    return forked


def merge(state: SessionState, other: SessionState) -> None:
    """Merge the changes of a fork into a session; the fork wins where both set a chunk."""
    _refuse_merge(state, other)
    with state.lock, other.lock:
        theirs = other.changes
        _refuse_meeting(state.view, theirs)
        paths = _paths_of(other.view, theirs.chunks.keys())
        for node in theirs.deleted.values():
            _delete(state, node)
        for node in theirs.created.values():
            state.changes.create(node)
        for node in theirs.updated.values():
            _update(state, node)
        state.changes.sources |= theirs.sources
        for id, edits in theirs.chunks.items():
            node = state.view.get_node(paths[id])
            state.changes.edit_chunks(node).apply(edits)


def _refuse_merge(state: SessionState, other: SessionState) -> None:
    if state.is_read_only:
        raise ReadOnlyError(
            "Read only sessions cannot modify the repository: they can't take over changes"
        )
    if SessionMode.rearrange in (state.mode, other.mode):
        raise SessionStateError("rearrange sessions can't be merged", kind="rearrange-session-only")
    if state.is_fork and not other.is_fork:
        raise SessionStateError(
            "cannot merge a branch session into a fork session: a fork can take over the changes of"
            " forks only",
            kind="merge-not-allowed",
        )


def _refuse_meeting(view: View, theirs: ChangeSet) -> None:
    """Raise SessionStateError if both sides changed the same node in ways that can't be merged."""
    ours = view.changes
    made = [n.path for n in theirs.created.values() if _is_another(ours.nodes.get(n.path), n)]
    if made:
        raise _failed("several writers created", made)
    changed = [
        node.path
        for id, node in theirs.updated.items()
        if id in ours.updated and ours.updated[id].user_data != node.user_data
    ]
    if changed:
        raise _failed("several writers updated", changed)
    gone = _deleted_and_touched(ours, theirs) + _deleted_and_touched(theirs, ours)
    if gone:
        raise _failed("one writer deleted and another one modified", gone)


def _deleted_and_touched(one: ChangeSet, other: ChangeSet) -> list[str]:
    """Return the paths of nodes that one side deleted and the other changed or created again."""
    touched = other.updated.keys() | other.chunks.keys()
    made = {node.path for node in other.created.values()}
    return [n.path for id, n in one.deleted.items() if id in touched or n.path in made]


def _is_another(ours: Node | None, theirs: Node) -> bool:
    """Return True if two nodes at one path differ; a fork that is merged twice brings the same node."""
    return ours is not None and (ours.id, ours.user_data) != (theirs.id, theirs.user_data)


def _failed(what: str, paths: list[str]) -> SessionStateError:
    return SessionStateError(
        f"failed to merge sessions: {what} {', '.join(sorted(paths))}", kind="merge-failed"
    )


def _paths_of(view: View, wanted: Collection[NodeId]) -> dict[NodeId, str]:
    if not wanted:
        return {}
    return {node.id: node.path for node in view.nodes()}


def _delete(state: SessionState, node: Node) -> None:
    mine = state.view.find_node(node.path)
    if mine is not None and mine.id == node.id:
        state.changes.delete(mine)


def _update(state: SessionState, node: Node) -> None:
    mine = state.view.get_node(node.path)
    state.changes.update(node_over(node, mine))


def extract_session(
    zarray: "zarr.Array[Any]",
    axis: Any = None,  # noqa: ARG001
    keepdims: Any = None,  # noqa: ARG001
) -> Session:
    """Return the session that an array is written through.

    Parameters
    ----------
    zarray
        Array in an `IcechunkStore`.
    axis, keepdims
        Ignored; reductions of engines pass them.

    Returns
    -------
    Session
        The session of the array's store.

    Raises
    ------
    InvalidTypeError
        If the array is in another store.
    """
    store = zarray.store
    if not isinstance(store, IcechunkStore):
        raise InvalidTypeError(f"an array in a {type(store).__name__} has no session")
    return store.session


def merge_sessions(
    *sessions: "ForkSession | list[ForkSession] | list[list[ForkSession]]",
) -> ForkSession:
    """Merge all forks into the first one, and return it.

    To merge forks into the session they come from, use `Session.merge`.

    Parameters
    ----------
    sessions
        Forks, or lists of them, as tasks return them.

    Returns
    -------
    ForkSession
        The first fork, with the changes of all.

    Raises
    ------
    TypeError
        If a session is not a fork.
    ValueError
        If there are no sessions.
    """
    # Tasks that share memory share a session, which need not be merged into itself.
    forks = list({id(fork): fork for fork in map(_require_fork, _flatten(sessions))}.values())
    if not forks:
        raise ValueError("there are no sessions to merge")
    first, *others = forks
    if others:
        first.merge(*others)
    return first


def _flatten(nested: Iterable[Any]) -> Iterator[Any]:
    for each in nested:
        if isinstance(each, list):
            yield from _flatten(each)
        else:
            yield each


def _require_fork(session: object) -> ForkSession:
    if isinstance(session, ForkSession):
        return session
    raise InvalidTypeError(
        f"merge_sessions only accepts ForkSession objects. Received {type(session).__name__!r}: to "
        "merge forks into the session they come from, call Session.merge(*forks)"
    )
