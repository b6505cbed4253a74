"""Several processes that do the same thing at once."""

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier
from typing import TypeVar

T = TypeVar("T")

_TIMEOUT_SECONDS = 300


def clean_processes() -> ForkServerContext:
    """Processes that share nothing with this one, its threads least of all, and start quickly."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["frazil.storage.local"])
    return context


def run_at_once(count: int, work: Callable[..., T], *arguments: object) -> list[T]:
    """What `work(number, barrier, *arguments)` gives in each of several processes."""
    context = clean_processes()
    barrier = context.Barrier(count, timeout=_TIMEOUT_SECONDS)
    with ProcessPoolExecutor(
        count, mp_context=context, initializer=_share, initargs=(barrier,)
    ) as pool:
        # Each waits for all others, so that none does the work of two.
        runs = [pool.submit(_take_part, work, number, arguments) for number in range(count)]
        errors = [error for run in runs if (error := run.exception()) is not None]
    # Of those that broke off, the first cause says more than that others stopped waiting.
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [run.result() for run in runs]


_barrier: Barrier


def _share(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _take_part(work: Callable[..., T], number: int, arguments: tuple[object, ...]) -> T:
    try:
        _barrier.wait()
        return work(number, _barrier, *arguments)
    except BaseException:
        _barrier.abort()
        raise
