"""How long to wait before a lost race is run again."""

import random
from collections.abc import Iterator

from frazil.protocols.interface import UpdatePolicy

_IMMEDIATE_RETRIES = 5


def plan_pauses(policy: UpdatePolicy) -> Iterator[float]:
    """The seconds to wait after each attempt that lost; as many as there may be attempts.

    Five retries follow at once, because most races are between a few; the others wait twice as long
    each time, and not all the same. After the last attempt there is nothing to wait for.
    """
    yield from [0.0] * _IMMEDIATE_RETRIES
    pause = policy.initial_backoff_seconds
    for _ in range(policy.max_tries - _IMMEDIATE_RETRIES):
        yield random.uniform(pause / 2, pause)
        pause = min(2 * pause, policy.max_backoff_seconds)
    yield 0.0
