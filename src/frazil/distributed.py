"""Helpers for engines that write arrays in many tasks: find the session of an array, merge sessions."""

from collections.abc import Iterable, Iterator
from typing import Any

import zarr

from frazil.errors import InvalidTypeError
from frazil.repository.session import ForkSession, Session
from frazil.repository.store import IcechunkStore

__all__ = ["extract_session", "merge_sessions"]


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
