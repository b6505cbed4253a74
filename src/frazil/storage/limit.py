"""How many requests a process has under way at once, counting every one.

Threads and event loops wait in one queue, first come first served. A request that is really several
(the parts of an upload) takes several places, so a queue of large ones can't be overtaken for ever.
"""

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from frazil.errors import InvalidInputError

DEFAULT_MAX_CONCURRENT_REQUESTS = 256


class RequestLimit:
    """Places for requests; `take` and `take_async` hold some of them for a while."""

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

    @contextmanager
    def take(self, count: int = 1) -> Iterator[None]:
        """Hold places, waiting for them in this thread."""
        count = min(count, self.places)
        waiter = self._enter(count, _wake_thread)
        if waiter is not None:
            waiter.lock.acquire()
        try:
            yield
        finally:
            self._leave(count)

    @asynccontextmanager
    async def take_async(self, count: int = 1) -> AsyncIterator[None]:
        """Hold places, waiting for them without holding up the event loop."""
        count = min(count, self.places)
        waiter = self._enter(count, _wake_loop)
        if waiter is not None:
            await self._wait(waiter)
        try:
            yield
        finally:
            self._leave(count)

    def _enter(self, count: int, wake: "Callable[[_Waiter], None]") -> "_Waiter | None":
        with self._lock:
            if not self._waiting and count <= self._free:
                self._free -= count
                return None
            waiter = _Waiter(count, wake)
            self._waiting.append(waiter)
            return waiter

    async def _wait(self, waiter: "_Waiter") -> None:
        try:
            await waiter.future
        except asyncio.CancelledError:
            with self._lock:
                has_places = waiter not in self._waiting
                if not has_places:
                    self._waiting.remove(waiter)
            self._leave(waiter.count if has_places else 0)
            raise

    def _leave(self, count: int) -> None:
        admitted = []
        with self._lock:
            self._free += count
            while self._waiting and self._waiting[0].count <= self._free:
                waiter = self._waiting.popleft()
                self._free -= waiter.count
                admitted.append(waiter)
        for waiter in admitted:
            waiter.wake(waiter)


class _Waiter:
    def __init__(self, count: int, wake: "Callable[[_Waiter], None]") -> None:
        self.count = count
        self.wake = wake
        self.lock = threading.Lock()
        if wake is _wake_loop:
            self.loop = asyncio.get_running_loop()
            self.future: asyncio.Future[None] = self.loop.create_future()
        else:
            self.lock.acquire()


def _wake_thread(waiter: _Waiter) -> None:
    waiter.lock.release()


def _wake_loop(waiter: _Waiter) -> None:
    # A loop that was closed has cancelled its waiters, whose places come back that way.
    with contextlib.suppress(RuntimeError):
        waiter.loop.call_soon_threadsafe(_finish, waiter.future)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class _ProcessLimit:
    """The limit of this process; a forked child starts with one of its own."""

    def __init__(self) -> None:
        self._pid = 0
        self._limit = RequestLimit(DEFAULT_MAX_CONCURRENT_REQUESTS)

    def get(self) -> RequestLimit:
        if self._pid != os.getpid():
            self.set(self._limit.places)
        return self._limit

    def set(self, places: int) -> None:
        self._limit = RequestLimit(places)
        self._pid = os.getpid()


_PROCESS = _ProcessLimit()


def process_limit() -> RequestLimit:
    """The limit that all requests of this process count against."""
    return _PROCESS.get()


def set_max_concurrent_requests(count: int) -> None:
    """Let this many requests of this process be under way at once, from the next one on."""
    _PROCESS.set(count)
