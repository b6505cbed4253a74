"""Several ways to do one thing, taken in turns in one process."""

import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from benchmarks.support.measuring import Figures

_TURNS = 5
_TURNS_BYTES = 1 << 29
_WARM_UPS = 3


def take_turns(
    sides: Mapping[str, Callable[[int], object]], *, operations: int, size: int, at_once: int
) -> Figures:
    """Seconds that an operation, on so many bytes, takes each side: the median.

    An operation is given its number. One at a time, the sides take turns with every operation, because
    servers and disks change their pace from second to second; with several at once, as many threads
    have one under way each, and a turn is all operations of a side. Large ones have fewer turns in a
    process; there are several processes.
    """
    turns = max(1, min(_TURNS, _TURNS_BYTES // (operations * size)))
    if at_once == 1:
        return _take_single_turns(sides, operations * turns)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    with ThreadPoolExecutor(at_once) as pool:
        for turn in range(turns + 1):
            for side, operate in sides.items():
                start = time.perf_counter()
                for _ in pool.map(operate, range(operations)):
                    pass
                if turn:  # the first one only warms up
                    seconds[side].append((time.perf_counter() - start) / operations)
    return {side: statistics.median(found) for side, found in seconds.items()}


def _take_single_turns(sides: Mapping[str, Callable[[int], object]], operations: int) -> Figures:
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(-_WARM_UPS, operations):
        for side, operate in sides.items():
            start = time.perf_counter()
            operate(max(number, 0))
            if number >= 0:
                seconds[side].append(time.perf_counter() - start)
    return {side: statistics.median(found) for side, found in seconds.items()}
