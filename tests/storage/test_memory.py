"""Memory keeps the contract, and says so when it is asked to travel."""

import pickle
import subprocess
import sys

import pytest

from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage
from frazil.testing.storage_contract import StorageContract

UNPICKLE_AND_PRINT_THE_ERROR = """
import pickle, sys
try:
    pickle.load(sys.stdin.buffer)
except Exception as error:
    print(type(error).__name__, error)
"""


class TestMemoryStorage(StorageContract):
    is_shared_between_processes = False

    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


def test_memory_does_not_leave_its_process() -> None:
    storage = MemoryStorage()

    child = subprocess.run(
        [sys.executable, "-c", UNPICKLE_AND_PRINT_THE_ERROR],
        input=pickle.dumps(storage),
        capture_output=True,
        check=True,
    )

    assert b"StorageError a memory storage can't leave the process" in child.stdout


def test_two_memories_are_two_storages() -> None:
    first, second = MemoryStorage(), MemoryStorage()

    first.put("object", b"data")

    assert [info.key for info in first.list()] == ["object"]
    assert list(second.list()) == []


def test_objects_are_listed_as_users_of_icechunk_ask_for_them() -> None:
    storage = MemoryStorage()
    storage.put("chunks/a", b"four")
    storage.put("repo", b"")

    (info,) = storage.list_objects_metadata(prefix="chunks/")
    part_of_a_name = storage.list_objects_metadata(prefix="chu")
    with pytest.warns(DeprecationWarning, match="list_objects_metadata"):
        pairs = storage.list_objects()

    assert (info.key, info.size_bytes) == ("a", 4)
    assert part_of_a_name == ()
    assert pairs == [("chunks/a", 4), ("repo", 0)]
