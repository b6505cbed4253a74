"""A storage that fails when it is told to, to see what those above it do about it."""

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar, cast

from frazil.errors import StorageTimeoutError, ThrottledError
from frazil.storage.interface import Storage, Versioned
from frazil.storage.wrappers.forwarding import (
    STRAIGHT_ON,
    Course,
    Finish,
    ForwardingStorage,
    Request,
    Verb,
)

T = TypeVar("T")


class Fault(Enum):
    """What can go wrong with a request."""

    REFUSE = "refuse"
    """It is not done, and a ThrottledError says so."""
    DELAY = "delay"
    """It is done, later."""
    LOSE_ANSWER = "lose answer"
    """It is done, and a StorageTimeoutError hides that."""
    TRUNCATE = "truncate"
    """It gives the first half of the bytes, and nothing says so; only of reads."""


class FaultPlan(Protocol):
    """Which requests fail: the same for the same request, whoever asks and when."""

    def find_fault(self, request: Request, number: int) -> Fault | None:
        """The fault of a request, before which there were `number` others of its verb."""


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Each fault at a rate between 0 and 1; the same ones for the same seed."""

    seed: int
    rates: Mapping[Fault, float]

    def find_fault(self, request: Request, number: int) -> Fault | None:
        """One fault or none."""
        chance = random.Random(f"{self.seed} {request.verb} {number}").random()
        for fault, rate in self.rates.items():
            chance -= rate
            if chance < 0:
                return fault
        return None


@dataclass(frozen=True, slots=True)
class ScriptedFaults:
    """Faults of the requests of a verb, by their number from 0 on."""

    script: Mapping[tuple[Verb, int], Fault]

    def find_fault(self, request: Request, number: int) -> Fault | None:
        """The one that the script has for it."""
        return self.script.get((request.verb, number))


class FaultyStorage(ForwardingStorage):
    """Another storage, with faults. A pickled one starts its plan again."""

    def __init__(self, inner: Storage, plan: FaultPlan, *, delay_seconds: float = 0.05) -> None:
        super().__init__(inner)
        self._plan = plan
        self._delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._numbers: Counter[Verb] = Counter()

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (self._inner, self._plan, self._delay_seconds))

    def _begin(self, request: Request) -> Course:
        with self._lock:
            number = self._numbers[request.verb]
            self._numbers[request.verb] += 1
        match self._plan.find_fault(request, number):
            case Fault.REFUSE:
                raise ThrottledError(f"{_name(request)} was refused, as planned")
            case Fault.DELAY:
                return Course(self._delay_seconds)
            case Fault.LOSE_ANSWER:
                return Course(finish=_losing(request))
            case Fault.TRUNCATE if request.verb.reads_bytes:
                return Course(finish=_truncate)
            case _:
                return STRAIGHT_ON


def _restore(inner: Storage, plan: FaultPlan, delay_seconds: float) -> FaultyStorage:
    return FaultyStorage(inner, plan, delay_seconds=delay_seconds)


def _name(request: Request) -> str:
    return f"{request.verb} of {', '.join(map(repr, request.keys[:3]))}"


def _losing(request: Request) -> Finish:
    def lose(answer: T, /) -> T:  # noqa: ARG001 (that it is not used is the fault)
        raise StorageTimeoutError(f"the answer to {_name(request)} got lost, as planned")

    return lose


def _truncate(answer: T, /) -> T:
    shorter: object = answer
    match answer:
        case bytes() | bytearray() | memoryview():
            shorter = answer[: len(answer) // 2]
        case Versioned(data, version):
            shorter = Versioned(_truncate(data), version)
        case list() | tuple() if answer:
            shorter = [*answer[:-1], _truncate(answer[-1])]
    return cast(T, shorter)
