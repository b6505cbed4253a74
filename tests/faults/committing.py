"""Commits to one object on a disk: read it, add a line, put it in place; by us, and by a blind writer.

Each function runs in a process of its own, and gives the lines that it was told are in place.
"""

import time
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path

from frazil.errors import VersionMismatchError
from frazil.storage.interface import Storage
from frazil.storage.local import LocalStorage

KEY = "repo"


def commit(
    number: int, _: Barrier, storage: Storage, commits: int, think_seconds: float = 0
) -> list[str]:
    """Replace what was read, and begin again where that is no longer there."""
    acknowledged = []
    for count in range(commits):
        line = f"ours {number}.{count}"
        while True:
            found = storage.get_versioned(KEY)
            time.sleep(think_seconds)
            try:
                storage.replace(KEY, bytes(found.data) + line.encode() + b"\n", found.version)
            except VersionMismatchError:
                continue
            acknowledged.append(line)
            break
    return acknowledged


def commit_blindly(
    number: int, _: Barrier, storage: LocalStorage, commits: int, think_seconds: float = 0
) -> list[str]:
    """Rename over whatever is there, as the official library does on a disk."""
    path = Path(storage.path, KEY)
    acknowledged = []
    for count in range(commits):
        line = f"blind {number}.{count}"
        data = path.read_bytes()
        time.sleep(think_seconds)
        temporary = path.with_name(f"{KEY}#{number}1")
        temporary.write_bytes(data + line.encode() + b"\n")
        temporary.rename(path)
        acknowledged.append(line)
    return acknowledged


def commit_beside_blind_writers(
    number: int,
    barrier: Barrier,
    storage: LocalStorage,
    ours: int,
    commits: int,
    think_seconds: float,
) -> list[str]:
    """The first processes are ours, the others blind."""
    work = commit if number < ours else commit_blindly
    return work(number, barrier, storage, commits, think_seconds)


def lost_lines(storage: Storage, acknowledged: Sequence[Sequence[str]]) -> list[str]:
    """The lines that somebody was told are in place and that are not."""
    kept = set(bytes(storage.get(KEY)).decode().splitlines())
    return [line for lines in acknowledged for line in lines if line not in kept]
