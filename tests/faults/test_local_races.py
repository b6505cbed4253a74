"""Processes that want the same key of one disk at the same moment."""

import os
from pathlib import Path

import pytest

from frazil.storage.local import Durability, LocalStorage
from tests.faults.processes import run_at_once
from tests.faults.racing import race

PROCESSES = 8
ROUNDS = {Durability.NONE: 1_000, Durability.SAFE: 1_000 if "FRAZIL_DEEP" in os.environ else 100}


@pytest.mark.parametrize("durability", Durability)
def test_one_of_many_processes_creates_and_one_replaces(
    tmp_path: Path, durability: Durability
) -> None:
    storage = LocalStorage(tmp_path / "objects", durability=durability)
    rounds = ROUNDS[durability]

    results = run_at_once(PROCESSES, race, storage, rounds)

    created = [[r.created[n] for r in results].count(True) for n in range(rounds)]
    replaced = [[r.replaced[n] for r in results].count(True) for n in range(rounds)]
    assert created == [1] * rounds
    assert replaced == [1] * rounds
    winners = []
    for n in range(rounds):
        winners += [f"created {n} by {p}" for p, r in enumerate(results) if r.created[n]]
        winners += [f"replaced {n} by {p}" for p, r in enumerate(results) if r.replaced[n]]
    for result in results:
        assert [seen.decode() for seen in result.seen] == winners
    assert list(storage.list_temporary_files()) == []
