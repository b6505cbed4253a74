"""The one mechanism behind every name that ends in `_async`.

The core is synchronous. `commit_async = asynchronous(commit)` gives a coroutine function of the same
signature that runs the method in a thread.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


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
