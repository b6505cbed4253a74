"""The time as every generation can hold it."""

import time

from frazil.format.times import Nanoseconds

MICROSECOND = 1000
"""The smallest step of time that the FlatBuffers generations know."""


def read_clock() -> Nanoseconds:
    """Now, in whole microseconds."""
    return time.time_ns() // MICROSECOND * MICROSECOND


def time_after(earlier: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """Now, or the first microsecond after `earlier` where a clock is behind it."""
    return max(now, earlier // MICROSECOND * MICROSECOND + MICROSECOND)
