"""Coroutines over a synchronous core, and helpers that run tasks in threads or an event loop.

`commit_async = asynchronous(commit)` creates a coroutine function of the same signature that runs
the method in a thread. Every name that ends in `_async` is created this way.
"""

import asyncio
import contextlib
import functools
import os
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from frazil.lazy import LazyAttribute

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_CANCELLED_AT_ONCE = 100


def in_a_thread(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a coroutine function that runs a function in a thread, without blocking the event loop."""

    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(function, *args, **kwargs)

    run.__name__ = f"{function.__name__}_async"
    run.__qualname__ = f"{function.__qualname__}_async"
    run.__doc__ = f"{function.__doc__}\n\n(For an event loop.)"
    return run


def asynchronous(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the asynchronous form of a method, which is made when it is first used."""
    return cast("Callable[P, Coroutine[Any, Any, R]]", LazyAttribute(lambda _: in_a_thread(method)))


def asynchronous_class_method(
    method: Callable[Concatenate[Any, P], R],
) -> "classmethod[Any, P, Coroutine[Any, Any, R]]":
    """Return the asynchronous form of a class method, which is made when it is first used."""
    function = method.__func__  # type: ignore[attr-defined]
    made = LazyAttribute(lambda _: classmethod(in_a_thread(function)))
    return cast("classmethod[Any, P, Coroutine[Any, Any, R]]", made)


def run_concurrently(function: Callable[[T], R], items: Sequence[T], limit: int) -> list[R]:
    """Return the results of a function for some items, at most `limit` at once, in their order.

    The calling thread takes part, so that calls may be nested, and one item needs no other thread.
    After a failure no further item is started, and the first error is raised when all have ended.
    """
    results: list[R | None] = [None] * len(items)
    errors: list[BaseException] = []
    remaining = iter(range(len(items)))

    def work() -> None:
        for index in remaining:
            if errors:
                return
            try:
                results[index] = function(items[index])
            except BaseException as error:
                errors.append(error)

    helpers = [_threads().submit(work) for _ in range(min(limit, len(items)) - 1)]
    work()
    for helper in helpers:
        if not helper.cancel():
            helper.result()
    if errors:
        raise errors[0]
    return cast("list[R]", results)


def run_both(one: Callable[[], T], other: Callable[[], R]) -> tuple[T, R]:
    """Return the results of two functions that run concurrently; raises the first error."""
    work: list[Callable[[], object]] = [one, other]
    return cast("tuple[T, R]", tuple(run_concurrently(lambda each: each(), work, 2)))


def run_later(function: Callable[[], object]) -> None:
    """Run a function in another thread. Its errors are ignored: who needs its result gets them."""
    _threads().submit(function)


_MOST_THREADS = 256
_pool: tuple[int, ThreadPoolExecutor] | None = None


def _threads() -> ThreadPoolExecutor:
    """Return the threads of this process, which are started when needed and not by an import."""
    global _pool
    if _pool is None or _pool[0] != os.getpid():  # the threads of a parent process are not here
        _pool = (os.getpid(), ThreadPoolExecutor(_MOST_THREADS, "frazil"))
    return _pool[1]


async def run_together(coroutines: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Return the results of coroutines that run concurrently, in their order.

    If one fails, cancel the others before raising, unlike `asyncio.gather`.
    """
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        if left := [each for each in tasks if not each.done()]:
            await _end(left)


class Turns:
    """Lets the coroutines of an event loop go on one after another, some iterations of it apart.

    Parameters
    ----------
    iterations
        Number of iterations for which the others wait after one went on.
    """

    def __init__(self, iterations: int) -> None:
        self._iterations = iterations
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]] = (
            WeakKeyDictionary()
        )

    async def take(self) -> None:
        """Wait for those that came before; without any, go on at once."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get(loop)
        if waiting is None:
            self._waiting[loop] = deque()
            loop.call_soon(self._count, loop, self._iterations)
            return
        turn: asyncio.Future[None] = loop.create_future()
        waiting.append(turn)
        await turn

    def _count(self, loop: asyncio.AbstractEventLoop, left: int) -> None:
        if left:
            loop.call_soon(self._count, loop, left - 1)
            return
        waiting = self._waiting[loop]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # as those are whose coroutines were cancelled
                turn.set_result(None)
                loop.call_soon(self._count, loop, self._iterations)
                return
        del self._waiting[loop]


def end_tasks(loop: asyncio.AbstractEventLoop, timeout_seconds: float) -> None:
    """Cancel every task of an event loop that runs in another thread, and wait for them.

    Tasks that have not ended after the timeout are abandoned, and the loop reports nothing about
    them. Use it only at the end of a process.
    """
    if not loop.is_running():
        return
    loop.set_exception_handler(lambda *_: None)
    deadline = loop.time() + timeout_seconds
    ended = asyncio.run_coroutine_threadsafe(_end_others(deadline), loop)
    with contextlib.suppress(TimeoutError):
        ended.result(timeout_seconds)


async def _end_others(deadline: float) -> None:
    loop = asyncio.get_running_loop()
    # Repeated, because a task may start others before it ends.
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        # The oldest first, Task-9 before Task-10, and in batches: whenever a waiter ends, a
        # semaphore searches all cancelled waiters for the next one to wake.
        queue = sorted(others, key=lambda each: (len(each.get_name()), each.get_name()))
        for start in range(0, len(queue), _CANCELLED_AT_ONCE):
            if loop.time() > deadline:
                return
            await _end(queue[start : start + _CANCELLED_AT_ONCE])
    await asyncio.sleep(0)  # for the callbacks of the last ones


async def _end(tasks: "Collection[asyncio.Task[Any]]") -> None:
    for each in tasks:
        each.cancel()
    # Collect the outcomes, because an event loop prints every exception that was not retrieved.
    await asyncio.gather(*tasks, return_exceptions=True)
