"""How far long work is, for whoever watches: work that goes through much says so as it goes.

If nobody watches, saying so costs nothing. Who watches is a matter of the caller's context, so that no
function between the two has to hand it on.
"""

from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")


class Watcher(Protocol):
    """Is told of every step."""

    def show(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Take note of how far a step is; nobody may know how much there is in total."""


_watcher: ContextVar[Watcher | None] = ContextVar("frazil_watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher | None) -> Iterator[None]:
    """Let somebody watch what is done meanwhile, or nobody."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class Count:
    """How many are done of a step."""

    def __init__(self, watcher: Watcher | None, what: str, unit: str, total: int | None) -> None:
        self._watcher = watcher
        self._what, self._unit, self._total = what, unit, total
        self._done = 0

    def add(self, more: int) -> None:
        """Tell that more are done."""
        if self._watcher is not None:
            self._done += more
            self._watcher.show(self._what, self._done, self._total, self._unit)


def count(what: str, unit: str, total: int | None = None) -> Count:
    """A count of what is done, which whoever watches now is told of."""
    return Count(_watcher.get(), what, unit, total)


def find_length(items: Iterable[object]) -> int | None:
    """How many there are, if that can be known before."""
    return len(items) if isinstance(items, Sized) else None


def watch(items: Iterable[T], what: str, unit: str, *, total: int | None = None) -> Iterator[T]:
    """The items, each of which is told of when it is there."""
    done = count(what, unit, total)
    for each in items:
        done.add(1)
        yield each
