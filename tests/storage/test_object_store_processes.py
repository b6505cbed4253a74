"""Processes that want the same keys of an object store at once."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from frazil.storage import Storage
from frazil.testing.object_server import ObjectServer
from tests.storage.object_stores import make_gcs, make_s3

PROCESSES = 8
ROUNDS = 100

# Creates what nobody has created, then adds its lines to what all add to; says what it created.
COMPETE = """
import pickle, sys
from frazil.errors import ObjectExistsError, VersionMismatchError

storage, process, rounds = pickle.load(sys.stdin.buffer)
created = []
for number in range(rounds):
    try:
        storage.create(f"keys/{number}", f"{process}".encode())
        created.append(number)
    except ObjectExistsError:
        pass
for number in range(rounds // 4):
    while True:
        found = storage.get_versioned("log")
        line = f"{process}.{number}\\n".encode()
        try:
            storage.replace("log", bytes(found.data) + line, found.version)
            break
        except VersionMismatchError:
            pass
sys.stdout.buffer.write(pickle.dumps(created))
"""


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


@pytest.mark.parametrize("make", [make_s3, make_gcs])
def test_one_of_eight_processes_creates_and_none_loses_a_replacement(
    server: ObjectServer, make: Callable[[str], Storage]
) -> None:
    storage = make(server.url)
    storage.create("log", b"")
    children = []
    for process in range(PROCESSES):
        child = subprocess.Popen(
            [sys.executable, "-c", COMPETE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        children.append(child)
        assert child.stdin is not None
        child.stdin.write(pickle.dumps((storage, process, ROUNDS)))
        child.stdin.flush()
    created = [pickle.loads(child.communicate(timeout=240)[0]) for child in children]

    winners = {
        number: [process for process in range(PROCESSES) if number in created[process]]
        for number in range(ROUNDS)
    }
    lines = bytes(storage.get("log")).decode().split()
    assert [child.returncode for child in children] == [0] * PROCESSES
    assert all(len(found) == 1 for found in winners.values())
    for number, found in winners.items():
        assert bytes(storage.get(f"keys/{number}")) == str(found[0]).encode()
    assert sorted(lines) == sorted(
        f"{process}.{number}" for process in range(PROCESSES) for number in range(ROUNDS // 4)
    )
