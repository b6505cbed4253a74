"""A race between processes for one key; runs in each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier

from frazil.errors import ObjectExistsError, VersionMismatchError
from frazil.storage.interface import Storage

KEY = "folder/object"


@dataclass(frozen=True, slots=True)
class Rounds:
    """Which rounds a process won, and what it saw afterwards."""

    created: list[bool]
    replaced: list[bool]
    seen: list[bytes]


def race(number: int, barrier: Barrier, storage: Storage, rounds: int) -> Rounds:
    """Create a key and replace it, in each round at the same moment as all others."""
    result = Rounds([], [], [])
    for round in range(rounds):
        ours = f"{round} by {number}".encode()
        barrier.wait()
        result.created.append(_succeeds(storage.create, KEY, b"created " + ours))
        barrier.wait()
        found = storage.get_versioned(KEY)
        result.seen.append(bytes(found.data))
        barrier.wait()
        result.replaced.append(_succeeds(storage.replace, KEY, b"replaced " + ours, found.version))
        barrier.wait()
        result.seen.append(bytes(storage.get(KEY)))
        barrier.wait()
        if number == 0:
            storage.delete_many([KEY])
    return result


def _succeeds(write: Callable[..., object], *arguments: object) -> bool:
    try:
        write(*arguments)
    except (ObjectExistsError, VersionMismatchError):
        return False
    return True
