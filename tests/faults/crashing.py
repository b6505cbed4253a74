"""A process that writes until it is killed, and objects that tell whether they are whole."""

import hashlib
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from frazil.errors import ObjectNotFoundError
from frazil.storage import disk
from frazil.storage.interface import Storage

PUT_KEYS = [f"chunks/{name}" for name in "abc"]
REPLACED_KEYS = ["repo", "refs/main/ref.json"]
CREATED_PREFIX = "transactions/"


@dataclass(frozen=True, slots=True)
class Write:
    """The number that an object of this key has after a write."""

    key: str
    number: int


def encode_object(number: int, size: int) -> bytes:
    """Bytes that hold a number, and hashes of themselves."""
    body = number.to_bytes(8, "big") + random.Random(number).randbytes(size)
    return len(body).to_bytes(8, "big") + hashlib.sha256(body).digest() + body


def decode_object(data: bytes) -> int:
    """The number of an object that is whole."""
    length, digest, body = int.from_bytes(data[:8], "big"), data[8:40], data[40:]
    assert len(body) == length
    assert hashlib.sha256(body).digest() == digest
    return int.from_bytes(body[:8], "big")


def write_until_killed(storage: Storage, seed: int, progress: Connection) -> None:
    """Write over and over; say of each write that it begins, and then that it is done."""
    dice = random.Random(seed)
    numbers = {key: _number_of(storage, key) for key in (*PUT_KEYS, *REPLACED_KEYS)}
    verbs: dict[str, Callable[[str, bytes], object]] = {
        **dict.fromkeys(PUT_KEYS, storage.put),
        **dict.fromkeys(REPLACED_KEYS, lambda key, data: _create_or_replace(storage, key, data)),
    }
    for count in range(1_000_000):
        key = dice.choice([*verbs, f"{CREATED_PREFIX}{seed}-{count}"])
        write = verbs.get(key, storage.create)
        this = Write(key, numbers.get(key, 0) + 1)
        data = encode_object(this.number, dice.choice((0, 100, 5_000, 60_000)))
        progress.send(("begun", this))
        write(key, data)
        numbers[key] = this.number
        progress.send(("done", this))


def _number_of(storage: Storage, key: str) -> int:
    try:
        return decode_object(bytes(storage.get(key)))
    except ObjectNotFoundError:
        return 0


def _create_or_replace(storage: Storage, key: str, data: bytes) -> object:
    try:
        found = storage.get_versioned(key)
    except ObjectNotFoundError:
        return storage.create(key, data)
    return storage.replace(key, data, found.version)


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where a write stops: before or after a step of it."""

    verb: str
    step: str
    is_after: bool

    def __str__(self) -> str:
        return f"{self.verb} {'after' if self.is_after else 'before'} {self.step}"


def write_until(point: CrashPoint, storage: Storage, key: str, arrived: Connection) -> None:
    """Begin a write of the bytes `new`, and stop for ever at a point of it."""
    module = disk if hasattr(disk, point.step) else os
    step = getattr(module, point.step)

    def stop_here(*arguments: object, **options: object) -> None:
        if point.is_after:
            step(*arguments, **options)
        arrived.send("arrived")
        signal.pause()

    if point.verb == "replace":
        version = storage.get_versioned(key).version
        setattr(module, point.step, stop_here)
        storage.replace(key, b"new", version)
    else:
        setattr(module, point.step, stop_here)
        getattr(storage, point.verb)(key, b"new")
