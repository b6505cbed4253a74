"""Processes that commit to one branch of an old generation at the same moment."""

import os
from pathlib import Path

import pytest

from frazil.format.header import Dialect
from frazil.protocols.detection import create_repository
from frazil.storage.local import Durability, LocalStorage
from tests.faults.committing_to_refs import race
from tests.faults.processes import run_at_once
from tests.protocol_repositories import messages

PROCESSES = 4
ROUNDS = 200 if "FRAZIL_DEEP" in os.environ else 25


@pytest.mark.parametrize("dialect", [Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_H, Dialect.V1])
def test_one_of_many_processes_commits_in_each_round(tmp_path: Path, dialect: Dialect) -> None:
    storage = LocalStorage(tmp_path / "repository", durability=Durability.NONE)
    repository = create_repository(storage, dialect)

    outcomes = run_at_once(PROCESSES, race, storage, dialect, ROUNDS)

    winners = [
        [number for number, outcome in enumerate(outcomes) if outcome.committed[round]]
        for round in range(ROUNDS)
    ]
    assert [len(each) for each in winners] == [1] * ROUNDS
    expected = [f"{round} by {number}" for round, (number,) in enumerate(winners)]
    assert messages(repository) == expected[::-1]
    tagged = [sum(outcome.tagged[round] for outcome in outcomes) for round in range(ROUNDS)]
    assert tagged == [1] * ROUNDS
