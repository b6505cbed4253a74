"""A race between processes for the tip of a branch that is kept in files; runs in each of them."""

from dataclasses import dataclass
from multiprocessing.synchronize import Barrier

from frazil.format.header import Dialect
from frazil.protocols.protocol import MAIN
from frazil.storage.interface import Storage
from tests.protocol_repositories import open_as, succeeds, write_snapshot


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which rounds a process won."""

    committed: list[bool]
    tagged: list[bool]


def race(number: int, barrier: Barrier, storage: Storage, dialect: Dialect, rounds: int) -> Outcome:
    """Commit to `main` and make a tag, in each round at the same moment as all others."""
    repository = open_as(storage, dialect)
    outcome = Outcome([], [])
    for round in range(rounds):
        barrier.wait()
        tip = repository.lookup_branch(MAIN)
        snapshot = write_snapshot(repository, tip, f"{round} by {number}")
        barrier.wait()
        outcome.committed.append(succeeds(repository.commit, MAIN, snapshot, tip))
        barrier.wait()
        outcome.tagged.append(succeeds(repository.create_tag, f"round {round}", tip))
    return outcome
