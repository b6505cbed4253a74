"""Coroutines of a synchronous core, and how tasks of an event loop are started and ended together.

`commit_async = asynchronous(commit)` gives a coroutine function of the same signature that runs the
method in a thread: the one mechanism behind every name that ends in `_async`.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_CANCELLED_AT_ONCE = 100


def asynchronous(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """A coroutine function that does what a function does, without blocking the event loop."""

    @functools.wraps(function)
    async def in_a_thread(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(function, *args, **kwargs)

    in_a_thread.__name__ = f"{function.__name__}_async"
    in_a_thread.__qualname__ = f"{function.__qualname__}_async"
    in_a_thread.__doc__ = f"{function.__doc__}\n\n(For an event loop.)"
    return in_a_thread


def asynchronous_class_method(
    method: Callable[Concatenate[Any, P], R],
) -> "classmethod[Any, P, Coroutine[Any, Any, R]]":
    """The same for a class method."""
    return classmethod(asynchronous(method.__func__))  # type: ignore[attr-defined]


async def run_together(coroutines: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Return the results of coroutines that run concurrently, in their order.

    Where `asyncio.gather` leaves the others running when one fails, this ends them before it raises.
    """
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        if left := [each for each in tasks if not each.done()]:
            await _end(left)


def end_tasks(loop: asyncio.AbstractEventLoop, timeout_seconds: float) -> None:
    """Cancel every task of an event loop that runs in another thread, and wait until they ended.

    What has not ended after the timeout is left, and the loop will print nothing about it: this is
    for the end of a process, where nobody could do anything about it.
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
    # Again and again, because a task may start others before it ends.
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        # The oldest first, Task-9 before Task-10, and not too many at once: a semaphore looks through
        # all that have given up for the next one to wake, each time that one of them ends.
        queue = sorted(others, key=lambda each: (len(each.get_name()), each.get_name()))
        for start in range(0, len(queue), _CANCELLED_AT_ONCE):
            if loop.time() > deadline:
                return
            await _end(queue[start : start + _CANCELLED_AT_ONCE])
    await asyncio.sleep(0)  # for the callbacks of the last ones


async def _end(tasks: "Collection[asyncio.Task[Any]]") -> None:
    for each in tasks:
        each.cancel()
    # Outcomes are collected because an event loop prints each one that nobody looked at.
    await asyncio.gather(*tasks, return_exceptions=True)
