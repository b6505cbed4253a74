"""How many requests a process has under way at once, counting every one.

Threads and event loops wait in one queue, first come first served. A request that is really several
(the parts of an upload) takes several places, so a queue of large ones can't be overtaken for ever.
"""

import asyncio
import contextlib
import os
import threading
from collections import deque
from typing import TypeVar

from frazil.errors import InvalidInputError

DEFAULT_MAX_CONCURRENT_REQUESTS = 256


class RequestLimit:
    """Places for requests: `with limit.take():`, or `async with` in an event loop."""

    def __init__(self, places: int) -> None:
        if places < 1:
            raise InvalidInputError(
                f"{places} requests at once would be none", kind="storage-config"
            )
        self.places = places
        self._free = places
        self._waiting: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def count_free(self) -> int:
        """How many places nobody holds now."""
        return self._free

    def take(self, count: int = 1) -> "_Hold":
        """Hold places for a while; one who wants more than there are holds all."""
        return _Hold(self, min(count, self.places))

    def _enter(self, count: int, kind: "type[_AnyWaiter]") -> "_AnyWaiter | None":
        """None if there is room at once, or else who waits for it, in the queue already."""
        with self._lock:
            if not self._waiting and count <= self._free:
                self._free -= count
                return None
            waiter = kind(count)
            self._waiting.append(waiter)
            return waiter

    def _give_up(self, waiter: "_Waiter") -> None:
        with self._lock:
            is_queued = waiter in self._waiting
            if is_queued:
                self._waiting.remove(waiter)
        # Behind it may be one that fits; and its own places may have come in this moment.
        self._leave(0 if is_queued else waiter.count)

    def _leave(self, count: int) -> None:
        admitted = []
        with self._lock:
            self._free += count
            while self._waiting and self._waiting[0].count <= self._free:
                waiter = self._waiting.popleft()
                self._free -= waiter.count
                admitted.append(waiter)
        for waiter in admitted:
            waiter.wake()


class _Hold:
    """Some places, from entering to leaving."""

    __slots__ = ("_count", "_limit")

    def __init__(self, limit: RequestLimit, count: int) -> None:
        self._limit = limit
        self._count = count

    def __enter__(self) -> None:
        waiter = self._limit._enter(self._count, _ThreadWaiter)
        if waiter is not None:
            try:
                waiter.woken.acquire()
            except BaseException:
                self._limit._give_up(waiter)
                raise

    def __exit__(self, *_: object) -> None:
        self._limit._leave(self._count)

    async def __aenter__(self) -> None:
        waiter = self._limit._enter(self._count, _LoopWaiter)
        if waiter is not None:
            try:
                await waiter.woken
            except BaseException:
                self._limit._give_up(waiter)
                raise

    async def __aexit__(self, *_: object) -> None:
        self._limit._leave(self._count)


class _ThreadWaiter:
    """A thread that waits, for which a lock is the cheapest thing to wait for."""

    __slots__ = ("count", "woken")

    def __init__(self, count: int) -> None:
        self.count = count
        self.woken = threading.Lock()
        self.woken.acquire()

    def wake(self) -> None:
        self.woken.release()


class _LoopWaiter:
    """A task that waits, woken from any thread."""

    __slots__ = ("_loop", "count", "woken")

    def __init__(self, count: int) -> None:
        self.count = count
        self._loop = asyncio.get_running_loop()
        self.woken = self._loop.create_future()

    def wake(self) -> None:
        # A loop that was closed has cancelled its tasks, whose places come back that way.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


_Waiter = _ThreadWaiter | _LoopWaiter
_AnyWaiter = TypeVar("_AnyWaiter", _ThreadWaiter, _LoopWaiter)


class _ProcessLimit:
    """The limit of this process; a forked child starts with one of its own."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._limit = RequestLimit(DEFAULT_MAX_CONCURRENT_REQUESTS)

    def get(self) -> RequestLimit:
        if self._process != os.getpid():
            self.set(self._limit.places)
        return self._limit

    def set(self, places: int) -> None:
        self._limit = RequestLimit(places)
        self._process = os.getpid()


_PROCESS = _ProcessLimit()


def process_limit() -> RequestLimit:
    """The limit that all requests of this process count against."""
    return _PROCESS.get()


def set_max_concurrent_requests(count: int) -> None:
    """Let this many requests of this process be under way at once, from the next one on."""
    _PROCESS.set(count)
