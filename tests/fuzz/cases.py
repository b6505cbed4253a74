"""Numbered cases: the same number of the same seed is the same damaged file, on every machine."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.fuzz.corpus import Corpus
from tests.fuzz.mutations import mutate
from tests.fuzz.target import MisbehaviourError, decode_completely, decode_frugally

_MEASURED = 25
"""One case of so many has its memory measured."""


@dataclass(frozen=True, slots=True)
class Case:
    """A damaged file."""

    number: int
    kind: str
    origin: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that misbehaved, and how."""

    case: Case
    why: str


@dataclass
class Tally:
    """What came of some cases."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Count what came of others too."""
        self.accepted += other.accepted
        self.refused += other.refused
        self.failures += other.failures

    def __len__(self) -> int:
        return self.accepted.total() + self.refused.total() + len(self.failures)


def make_case(corpus: Corpus, seed: int, number: int) -> Case:
    """The damaged file of this number."""
    chance = random.Random(f"{seed}/{number}")
    groups = list(corpus.values())
    chosen = chance.choice(chance.choice(groups))
    other = chance.choice(chance.choice(groups))
    return Case(number, chosen.kind, chosen.origin, mutate(chosen.data, other.data, chance))


def make_cases(corpus: Corpus, seed: int, numbers: Iterable[int]) -> Iterator[Case]:
    """The damaged files of these numbers."""
    return (make_case(corpus, seed, number) for number in numbers)


def try_cases(cases: Iterable[Case]) -> Tally:
    """Decode each case completely."""
    tally = Tally()
    for case in cases:
        decode = decode_frugally if case.number % _MEASURED == 0 else decode_completely
        try:
            accepted = decode(case.kind, case.data)
        except MisbehaviourError as misbehaviour:
            tally.failures.append(Failure(case, str(misbehaviour)))
        else:
            (tally.accepted if accepted else tally.refused)[case.kind] += 1
    return tally
