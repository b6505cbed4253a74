"""Commits to one object of a disk, from many processes of ours and beside writers that know no lock."""

import os
from pathlib import Path

import pytest

from frazil.errors import VersionMismatchError
from frazil.storage import disk
from frazil.storage.local import Durability, LocalStorage
from tests.faults.committing import KEY, commit, commit_beside_blind_writers, lost_lines
from tests.faults.processes import run_at_once

PROCESSES = 8
COMMITS = 200

needs_exchange = pytest.mark.skipif(
    not hasattr(os, "O_TMPFILE"), reason="this system can't exchange files"
)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "objects", durability=Durability.NONE)


@pytest.mark.parametrize("durability", Durability)
def test_no_commit_of_many_processes_is_lost(tmp_path: Path, durability: Durability) -> None:
    storage = LocalStorage(tmp_path / "objects", durability=durability)
    storage.create(KEY, b"")

    acknowledged = run_at_once(PROCESSES, commit, storage, COMMITS)

    assert [len(lines) for lines in acknowledged] == [COMMITS] * PROCESSES
    assert lost_lines(storage, acknowledged) == []
    assert bytes(storage.get(KEY)).count(b"\n") == PROCESSES * COMMITS
    assert list(storage.list_temporary_files()) == []


def _write_blindly(storage: LocalStorage, data: bytes) -> None:
    temporary = Path(storage.path, f"{KEY}#1")
    temporary.write_bytes(data)
    temporary.rename(Path(storage.path, KEY))


def test_a_foreign_write_before_ours_is_noticed(storage: LocalStorage) -> None:
    version = storage.create(KEY, b"first")
    _write_blindly(storage, b"foreign")

    with pytest.raises(VersionMismatchError, match=KEY):
        storage.replace(KEY, b"ours", version)

    assert bytes(storage.get(KEY)) == b"foreign"


@needs_exchange
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_a_foreign_write_at_the_very_moment_of_ours_is_noticed_and_stays(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    version = storage.create(KEY, b"first")
    foreign = [f"foreign {number}".encode() for number in range(writes)]
    waiting = list(foreign)
    exchange = disk.exchange

    def exchange_a_moment_later(staged: str, path: str) -> bool:
        if waiting:
            _write_blindly(storage, waiting.pop(0))
        return exchange(staged, path)

    monkeypatch.setattr(disk, "exchange", exchange_a_moment_later)
    with pytest.raises(VersionMismatchError, match="replaced by another program meanwhile"):
        storage.replace(KEY, b"ours", version)

    assert waiting == []
    assert bytes(storage.get(KEY)) == foreign[-1]
    assert list(storage.list_temporary_files()) == []


@needs_exchange
def test_a_foreign_deletion_at_the_very_moment_of_ours_is_noticed(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = storage.create(KEY, b"first")
    exchange = disk.exchange

    def exchange_a_moment_later(staged: str, path: str) -> bool:
        Path(path).unlink()
        return exchange(staged, path)

    monkeypatch.setattr(disk, "exchange", exchange_a_moment_later)
    with pytest.raises(VersionMismatchError, match="gone"):
        storage.replace(KEY, b"ours", version)

    assert list(storage.list()) == []
    assert list(storage.list_temporary_files()) == []


def test_beside_blind_writers_the_object_stays_whole_and_ours_go_on(storage: LocalStorage) -> None:
    # What a blind writer does to our commits nobody can prevent; docs/storage.md has the numbers.
    storage.create(KEY, b"")

    acknowledged = run_at_once(4, commit_beside_blind_writers, storage, 2, 100, 0.0002)

    assert [len(lines) for lines in acknowledged] == [100] * 4
    written = {line for lines in acknowledged for line in lines}
    assert set(bytes(storage.get(KEY)).decode().splitlines()) <= written
