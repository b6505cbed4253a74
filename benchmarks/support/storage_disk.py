"""What `benchmarks/storage.py` measures on a disk: our storage beside plain calls of `os`."""

import os
import tempfile
from pathlib import Path

from benchmarks.support.measuring import Figures, answer
from benchmarks.support.storage_rounds import take_turns
from frazil.storage.interface import ByteRange
from frazil.storage.local import Durability, LocalStorage

_LARGEST_FOLDER_BYTES = 1 << 28
_READING = os.O_RDONLY | os.O_CLOEXEC
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def read(size: int, at_once: int, operations: int) -> Figures:
    """Whole objects that the system has in memory."""
    with tempfile.TemporaryDirectory() as folder:
        storage, keys = _fill(folder, size)
        paths = [f"{folder}/{key}" for key in keys]
        return take_turns(
            {
                "plain": lambda number: _read_plainly(paths[number % len(paths)]),
                "ours": lambda number: storage.get(keys[number % len(keys)]),
            },
            operations=operations,
            size=size,
            at_once=at_once,
        )


def read_range(size: int, at_once: int, operations: int) -> Figures:
    """One KiB from the middle of objects."""
    with tempfile.TemporaryDirectory() as folder:
        storage, keys = _fill(folder, size)
        paths = [f"{folder}/{key}" for key in keys]
        start = (size - 1024) // 2
        wanted = ByteRange(start, start + 1024)
        return take_turns(
            {
                "plain": lambda number: _read_range_plainly(
                    paths[number % len(paths)], start, 1024
                ),
                "ours": lambda number: storage.get(keys[number % len(keys)], wanted),
            },
            operations=operations,
            size=size,
            at_once=at_once,
        )


def read_many(size: int, at_once: int, operations: int) -> Figures:
    """`get_many` of so many objects, beside plain reads of them one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        storage, keys = _fill(folder, size)
        paths = [f"{folder}/{key}" for key in keys]
        wanted = [number % len(keys) for number in range(at_once)]
        requests = [(keys[number], None) for number in wanted]
        figures = take_turns(
            {
                "plain": lambda _: [_read_plainly(paths[number]) for number in wanted],
                "ours": lambda _: storage.get_many(requests),
            },
            operations=max(1, operations // at_once),
            size=size * at_once,
            at_once=1,
        )
    return {side: seconds / at_once for side, seconds in figures.items()}


def write(size: int, at_once: int, operations: int) -> Figures:
    """New objects, not brought to the disk before a commit names them; each is deleted again."""
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(f"{folder}/ours", durability=Durability.NONE)
        Path(folder, "plain").mkdir()
        data = os.urandom(size)

        def write_ours(number: int) -> None:
            storage.put(f"{number}", data)
            os.unlink(f"{folder}/ours/{number}")

        def write_plain(number: int) -> None:
            _write_plainly(f"{folder}/plain/{number}", data)
            os.unlink(f"{folder}/plain/{number}")

        sides = {"plain": write_plain, "ours": write_ours}
        return take_turns(sides, operations=operations, size=size, at_once=at_once)


def commit(size: int, operations: int) -> Figures:
    """Replace an object durably, beside a plain write, sync and rename, which anybody may undo."""
    with tempfile.TemporaryDirectory() as folder:
        safe, scratch = LocalStorage(folder), LocalStorage(folder, durability=Durability.NONE)
        branch, scratch_branch = _Branch(safe, "safe", size), _Branch(scratch, "scratch", size)
        data = os.urandom(size)
        return take_turns(
            {
                "plain": lambda _: _write_durably(f"{folder}/plain", data),
                "replace": lambda _: branch.move(),
                "replace, not durable": lambda _: scratch_branch.move(),
                "create": lambda _: safe.create(f"new/{os.urandom(8).hex()}", data),
            },
            operations=operations,
            size=size,
            at_once=1,
        )


class _Branch:
    """An object that is replaced over and over."""

    def __init__(self, storage: LocalStorage, key: str, size: int) -> None:
        self._storage, self._key, self._data = storage, key, os.urandom(size)
        self._version = storage.create(key, self._data)

    def move(self) -> None:
        data = os.urandom(8) + self._data[8:]
        self._version = self._storage.replace(self._key, data, self._version)


def _fill(folder: str, size: int) -> tuple[LocalStorage, list[str]]:
    storage = LocalStorage(folder, durability=Durability.NONE)
    files = min(64, _LARGEST_FOLDER_BYTES // size)
    keys = [f"chunks/{number:020}" for number in range(files)]
    for key in keys:
        storage.put(key, os.urandom(size))
    return storage, keys


def _read_plainly(path: str) -> bytes:
    descriptor = os.open(path, _READING)
    try:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def _read_range_plainly(path: str, start: int, size: int) -> bytes:
    descriptor = os.open(path, _READING)
    try:
        if os.fstat(descriptor).st_size < start + size:
            raise ValueError(path)
        return os.pread(descriptor, size, start)
    finally:
        os.close(descriptor)


def _write_plainly(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.urandom(8).hex()}"
    descriptor = os.open(temporary, _WRITING, 0o666)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)


def _write_durably(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.urandom(8).hex()}"
    descriptor = os.open(temporary, _WRITING, 0o666)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
    descriptor = os.open(os.path.dirname(path), _READING)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    answer(
        {
            "read": read,
            "read_range": read_range,
            "read_many": read_many,
            "write": write,
            "commit": commit,
        }
    )
