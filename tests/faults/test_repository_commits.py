"""Many writers commit to one branch through Zarr: every commit lands once, and every value is there."""

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil import Repository
from frazil.storage.local import Durability, LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.faults.appending import COMMITS, CONFIG, WRITERS, append, append_until_killed, create
from tests.faults.processes import clean_processes, run_at_once
from tests.repositories import dangling_files


def check(repository: Repository, acknowledged: Sequence[str]) -> None:
    """What was acknowledged is in the history once, with its value, and nothing is missing."""
    infos = list(repository.ancestry(branch="main"))
    messages = [info.message for info in infos][:-2]
    assert len(messages) == len(set(messages))
    assert set(acknowledged) <= set(messages)
    assert all(
        newer.parent_id == older.id and newer.written_at > older.written_at
        for newer, older in pairwise(infos)
    )
    reader = repository.readonly_session("main")
    values = np.asarray(zarr.open_array(reader.store, path="numbers", mode="r")[:])
    numbers = [tuple(map(int, message.split("."))) for message in messages]
    places = [writer * COMMITS + count for writer, count in numbers]
    expected = np.full(WRITERS * COMMITS, -1)
    expected[places] = places
    assert values.tolist() == expected.tolist()
    assert dangling_files(repository) == set()


@pytest.mark.parametrize("spec_version", [1, 2])
def test_many_processes_fill_one_array_on_a_disk(tmp_path: Path, spec_version: int) -> None:
    storage = LocalStorage(tmp_path / "repository", durability=Durability.NONE)
    create(storage, spec_version)

    acknowledged = run_at_once(WRITERS, append, storage)

    assert sum(map(len, acknowledged)) == WRITERS * COMMITS
    repository = Repository.open(storage)
    assert len(list(repository.ancestry(branch="main"))) == WRITERS * COMMITS + 2
    check(repository, [message for each in acknowledged for message in each])
    assert list(storage.list_temporary_files()) == []


@pytest.mark.parametrize("spec_version", [1, 2])
def test_many_threads_fill_one_array_in_memory(spec_version: int) -> None:
    storage = MemoryStorage()
    repository = create(storage, spec_version)

    with ThreadPoolExecutor(WRITERS) as threads:
        acknowledged = list(threads.map(lambda n: append(n, None, storage), range(WRITERS)))

    assert len(list(repository.ancestry(branch="main"))) == WRITERS * COMMITS + 2
    check(repository, [message for each in acknowledged for message in each])


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_writer_that_is_killed_loses_nothing_and_spoils_nothing(
    tmp_path: Path, spec_version: int
) -> None:
    storage = LocalStorage(tmp_path / "repository", durability=Durability.NONE)
    create(storage, spec_version)
    context, dice = clean_processes(), random.Random(spec_version)
    acknowledged: list[str] = []

    for number in range(WRITERS - 1):
        hearing, saying = context.Pipe(duplex=False)
        process = context.Process(target=append_until_killed, args=(storage, number, saying))
        process.start()
        saying.close()
        acknowledged.append(hearing.recv())
        time.sleep(dice.uniform(0, 0.05))
        process.kill()
        process.join()
        while hearing.poll():
            try:
                acknowledged.append(hearing.recv())
            except EOFError:
                break

        check(Repository.open(storage), acknowledged)

    acknowledged += append(WRITERS - 1, None, storage, commits=2)
    check(Repository.open(storage, CONFIG), acknowledged)
