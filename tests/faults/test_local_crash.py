"""Processes that are killed while they write to the local disk."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from frazil.errors import ObjectNotFoundError
from frazil.storage.local import Durability, LocalStorage
from tests.faults.crashing import (
    CREATED_PREFIX,
    REPLACED_KEYS,
    CrashPoint,
    Write,
    decode_object,
    encode_object,
    write_until,
    write_until_killed,
)
from tests.faults.processes import clean_processes

WRITES = {Durability.NONE: 1_500, Durability.SAFE: 500}
WORDS_OF_A_LIFE = (10, 80)  # two of each write


@contextlib.contextmanager
def _killed_afterwards(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A process that works, what it says, and its sudden end."""
    context = clean_processes()
    hearing, saying = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*arguments, saying))
    process.start()
    saying.close()
    try:
        yield hearing
    finally:
        process.kill()
        process.join()


def _hear_everything(hearing: Connection) -> Iterator[tuple[str, Write]]:
    with contextlib.suppress(EOFError):
        while True:
            yield hearing.recv()


class Expectation:
    """What the objects may be: what was done last, or what was begun after that."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.writes = 0

    def hear(self, word: str, write: Write) -> None:
        """Note what a writer says."""
        if word == "begun":
            self.begun[write.key] = write.number
            self.writes += 1
        else:
            self.done[write.key] = write.number

    def assert_kept(self, storage: LocalStorage) -> None:
        """Every object is whole, and the old one or the new one; find out which."""
        listed = {info.key for info in storage.list()}
        assert self.done.keys() <= listed <= self.begun.keys()
        for key in self.begun:
            try:
                number = decode_object(bytes(storage.get(key)))
            except ObjectNotFoundError:
                assert key not in self.done
                del self.begun[key]
                return self.assert_kept(storage)
            assert number in (self.done.get(key), self.begun[key])
            self.done[key] = number
        return None


def _hidden_files(storage: LocalStorage) -> set[str]:
    root = Path(storage.path)
    return {str(path.relative_to(root)) for path in root.rglob("*#*")}


@pytest.mark.parametrize("durability", Durability)
def test_objects_are_whole_and_old_or_new_wherever_their_writer_was_killed(
    tmp_path: Path, durability: Durability
) -> None:
    storage = LocalStorage(tmp_path / "objects", durability=durability, lock_timeout_seconds=0)
    dice = random.Random(20)
    expected = Expectation()
    lives = 0

    while expected.writes < WRITES[durability]:
        lives += 1
        with _killed_afterwards(write_until_killed, storage, lives) as hearing:
            for _ in range(dice.randint(*WORDS_OF_A_LIFE)):
                expected.hear(*hearing.recv())
        for word, write in _hear_everything(hearing):
            expected.hear(word, write)

        expected.assert_kept(storage)
        hidden = _hidden_files(storage)
        temporaries = {info.key for info in storage.list_temporary_files()}
        assert temporaries == {name for name in hidden if not name.endswith("#00")}
        assert hidden - temporaries <= {f"{key}#00" for key in REPLACED_KEYS}

    assert any(key.startswith(CREATED_PREFIX) for key in expected.done)
    for key in REPLACED_KEYS:
        # With no time to wait, this fails if a killed process still has the lock.
        data = encode_object(expected.done[key] + 1, 10)
        storage.replace(key, data, storage.get_versioned(key).version)
    before = {info.key for info in storage.list()}
    storage.delete_many(info.key for info in storage.list_temporary_files())
    assert {info.key for info in storage.list()} == before == expected.done.keys()
    assert _hidden_files(storage) <= {f"{key}#00" for key in REPLACED_KEYS}


NEW, OLD = b"new", b"old"

POINTS = [
    (CrashPoint("put", "rename", is_after=False), OLD, 1),
    (CrashPoint("put", "rename", is_after=True), NEW, 0),
    (CrashPoint("create", "link", is_after=False), None, 0),
    (CrashPoint("create", "link", is_after=True), NEW, 0),
    (CrashPoint("create", "sync_at_once", is_after=False), None, 0),
    (CrashPoint("create", "sync_directory", is_after=False), NEW, 0),
    (CrashPoint("replace", "sync_at_once", is_after=False), OLD, 1),
    (CrashPoint("replace", "write_temporary", is_after=True), OLD, 1),
    (CrashPoint("replace", "exchange", is_after=False), OLD, 1),
    (CrashPoint("replace", "exchange", is_after=True), NEW, 1),
    (CrashPoint("replace", "sync_directory", is_after=False), NEW, 0),
]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="other steps are taken on this system")
@pytest.mark.parametrize(("point", "expected", "temporaries"), POINTS, ids=lambda value: str(value))
def test_a_write_that_stopped_at_a_step_was_done_or_was_not(
    tmp_path: Path, point: CrashPoint, expected: bytes | None, temporaries: int
) -> None:
    storage = LocalStorage(tmp_path / "objects", lock_timeout_seconds=0)
    key = "folder/object"
    if point.verb != "create":
        storage.create(key, OLD)

    with _killed_afterwards(write_until, point, storage, key) as hearing:
        assert hearing.recv() == "arrived"

    if expected is None:
        assert list(storage.list()) == []
        storage.create(key, b"next")
    else:
        assert bytes(storage.get(key)) == expected
        assert [info.key for info in storage.list()] == [key]
        storage.replace(key, b"next", storage.get_versioned(key).version)
    assert bytes(storage.get(key)) == b"next"
    assert len(list(storage.list_temporary_files())) == temporaries
