"""Makes a program that fails short, by leaving out steps for as long as it fails the same way.

Hypothesis would do it, too, and make every number small; that takes minutes where this takes seconds.
"""

from collections.abc import Callable, Sequence

from tests.interop.machine.outcomes import Difference
from tests.interop.machine.steps import Step

Steps = tuple[Step, ...]
Attempt = Callable[[Steps], Difference | None]
"""Runs steps, and says how they failed."""

_MOST_ATTEMPTS = 200


def minimize(steps: Steps, attempt: Attempt) -> tuple[Steps, Difference] | None:
    """The steps that are left, and how they fail; None if they do not fail at all."""
    found = attempt(steps)
    if found is None:
        return None
    attempts, size = _MOST_ATTEMPTS, max(len(steps) // 2, 1)
    while size and attempts:
        start = len(steps) - size
        while start >= 0 and attempts:
            shorter = (*steps[:start], *steps[start + size :])
            attempts -= 1
            failure = attempt(shorter)
            if failure is not None and failure.signature == found.signature:
                steps, found = shorter, failure
            start = min(start, len(steps)) - size
        size //= 2
    return steps, found


def write_out(steps: Sequence[Step]) -> str:
    """Steps as a test can have them."""
    return "".join(f"    {step!r},\n" for step in steps)
