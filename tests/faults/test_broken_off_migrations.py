"""A migration that is broken off at any of its writes leaves a repository, and can be started again."""

import threading
from dataclasses import dataclass, field

import pytest

from frazil import Repository, StorageError, upgrade_icechunk_repository
from frazil.format.header import Dialect
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import Fault, FaultyStorage, Request
from tests.repositories import dangling_files
from tests.unit.maintenance.legacy_repositories import create_old, describe, fill, listing

CASES = [
    # One generation for each way in which something is written: with copies, without logs, with
    # shared manifests and with one for each array.
    (Dialect.DRAFT, Fault.REFUSE),
    (Dialect.ALPHA_A, Fault.REFUSE),
    (Dialect.ALPHA_E, Fault.REFUSE),
    (Dialect.ALPHA_H, Fault.REFUSE),
    (Dialect.DRAFT, Fault.LOSE_ANSWER),
    (Dialect.ALPHA_H, Fault.LOSE_ANSWER),
]


@dataclass
class OneFault:
    """A fault of one write, by its number among all writes."""

    number: int
    fault: Fault
    writes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find_fault(self, request: Request, number: int) -> Fault | None:
        """The fault, when its time has come."""
        del number  # that of the verb alone
        if not request.verb.is_write:
            return None
        with self.lock:
            self.writes += 1
            return self.fault if self.writes - 1 == self.number else None


def copy_of(objects: dict[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage()
    for key, data in objects.items():
        storage.put(key, data)
    return storage


def break_off(objects: dict[str, bytes], plan: OneFault) -> MemoryStorage:
    """Migrate a copy until the fault."""
    storage = copy_of(objects)
    repository = Repository.open(FaultyStorage(storage, plan))
    with pytest.raises(StorageError):
        upgrade_icechunk_repository(repository, dry_run=False)
    return storage


def count_writes(objects: dict[str, bytes]) -> tuple[int, set[str]]:
    """How many writes an undisturbed migration takes, and what it leaves."""
    plan = OneFault(-1, Fault.REFUSE)
    storage = copy_of(objects)
    upgrade_icechunk_repository(Repository.open(FaultyStorage(storage, plan)), dry_run=False)
    return plan.writes, set(listing(storage))


@pytest.mark.parametrize(("dialect", "fault"), CASES, ids=str)
def test_it_opens_and_a_second_run_finishes_the_work(dialect: Dialect, fault: Fault) -> None:
    old = fill(create_old(dialect))
    before, objects = describe(old), listing(old.storage)
    writes, wanted = count_writes(objects)
    generations = set()

    for number in range(writes):
        storage = break_off(objects, OneFault(number, fault))
        opened = Repository.open(storage)
        generations.add(opened.dialect)
        assert describe(opened) == before
        if set(listing(storage)) != wanted:
            opened = upgrade_icechunk_repository(opened, dry_run=False)

        assert describe(opened) == before
        assert dangling_files(opened) == set()
        assert set(listing(storage)) == wanted

    assert generations == {dialect, Dialect.V2}
