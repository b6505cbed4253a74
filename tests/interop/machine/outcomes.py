"""How steps went, and when two outcomes are the same."""

import pprint
from typing import Any

from tests.interop.machine.steps import Step

Outcome = list[Any]
"""`["value", …]`, `["error", classes, kind, details]` or `["absent"]`; then what the session says."""


class Difference(AssertionError):  # noqa: N818 - it says what it is
    """A step went otherwise than with the official library alone."""

    def __init__(self, step: Step, official: Any, world: str, outcome: Any) -> None:
        shown = [pprint.pformat(each, width=140) for each in (official, outcome)]
        super().__init__(f"{step}\nofficial: {shown[0]}\n{world}: {shown[1]}")
        self.step, self.official, self.world, self.outcome = step, official, world, outcome

    @property
    def signature(self) -> tuple[object, ...]:
        """What stays the same when a program gets shorter and fails for the same reason."""
        method = getattr(self.step, "method", None)
        return (type(self.step), method, *map(_short, (self.official, self.outcome)))


def _short(outcome: Outcome) -> tuple[object, ...]:
    is_error = outcome[0] == "error"
    return ("error", outcome[1][0], outcome[2]) if is_error else (outcome[0],)


def agree(official: Outcome, other: Outcome) -> bool:
    """Whether the outcomes are equal; who handles the official library's error has to catch ours."""
    if official[0] != "error" or other[0] != "error":
        return official == other
    return official[1][0] in other[1] and official[2:] == other[2:]
