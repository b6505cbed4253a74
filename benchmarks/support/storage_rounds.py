"""Several ways to do one thing, taken in turns in one process."""

import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from benchmarks.support.measuring import Figures

TURNS = 5


def take_turns(
    sides: Mapping[str, Callable[[int], object]], *, operations: int, at_once: int
) -> Figures:
    """Seconds an operation of each side takes, the median of its turns.

    An operation is given its number. With several at once, as many threads have one under way each.
    """
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    with ThreadPoolExecutor(at_once) as pool:
        for turn in range(TURNS + 1):
            for side, operate in sides.items():
                start = time.perf_counter()
                if at_once == 1:
                    for number in range(operations):
                        operate(number)
                else:
                    for _ in pool.map(operate, range(operations)):
                        pass
                if turn:  # the first one only warms up
                    seconds[side].append((time.perf_counter() - start) / operations)
    return {side: statistics.median(turns) for side, turns in seconds.items()}
