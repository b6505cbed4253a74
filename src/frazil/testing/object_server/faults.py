"""What can go wrong with a request, as values, and when it does."""

import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class DropConnection:
    """Close the connection and do nothing."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Do what is asked, then close the connection."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error and do nothing."""

    status: int = 500
    code: str = "InternalError"


@dataclass(frozen=True, slots=True)
class DoAndRefuse:
    """Do what is asked, then answer with an error."""

    status: int = 500
    code: str = "InternalError"


@dataclass(frozen=True, slots=True)
class Delay:
    """Do what is asked, after a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Truncate:
    """Announce the whole body, send a part of it, and close the connection."""

    kept_bytes: int = 0


SLOW_DOWN = Refuse(503, "SlowDown")
CONFLICT = Refuse(409, "ConditionalRequestConflict")

Fault = DropConnection | LoseAnswer | Refuse | DoAndRefuse | Delay | Truncate


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests meet a fault: by method and key, some of them, so many times."""

    fault: Fault
    method: str = "*"
    key: str = "*"
    probability: float = 1.0
    count: int | None = None
    """How many requests meet it; None for all."""


class FaultPlan:
    """Rules in order; a request meets the fault of the first that applies."""

    def __init__(self, rules: Iterable[Rule] = (), seed: int = 0) -> None:
        self._rules = [(rule, rule.count) for rule in rules]
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def find_fault(self, method: str, key: str) -> Fault | None:
        """What this request meets, which counts as met."""
        with self._lock:
            for index, (rule, left) in enumerate(self._rules):
                if left == 0 or not fnmatchcase(method, rule.method):
                    continue
                if not fnmatchcase(key, rule.key) or self._random.random() >= rule.probability:
                    continue
                self._rules[index] = (rule, None if left is None else left - 1)
                return rule.fault
        return None
