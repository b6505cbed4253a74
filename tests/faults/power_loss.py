"""A disk that fails when it is told to, and what a loss of power would leave of its files.

The real files below a folder are used. Calls of the system that change them are counted; one of them
fails, or is the last one before the power is lost. Nothing is really synced: what a loss of power
leaves is computed, by the worst that POSIX allows:

- Bytes of a file are kept once the file was synced. Those of a sync that failed are lost: the system
  takes them for written, and the next sync succeeds without them.
- Names in a directory are kept, or are gone, once the directory was synced. Names changed since then,
  also those of a sync that failed, may each be as before or as now.
"""

import errno
import os
import random
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from frazil.storage import disk

Files = dict[str, bytes]
"""Bytes by path."""
Names = dict[str, int | None]
"""The inodes of a directory's files; None for a directory."""


class PowerLossError(BaseException):
    """The machine is off. Nobody can do anything about it."""


@dataclass
class _File:
    descriptor: int
    """Held, so that the number of the inode is not used again."""
    kept: bytes | None
    is_lost: bool = False

    def read(self) -> bytes:
        return os.pread(self.descriptor, 1 << 30, 0)


@dataclass
class FailingDisk:
    """The files below a folder, all of them synced at first."""

    folder: Path
    fails_at: int | None = None
    """The number of the call that fails, from 0 on."""
    error: int | None = errno.EIO
    """How it fails; None: the power is lost before it."""
    syncs_at_once: bool = True
    """Whether one call syncs many files, one of which may fail."""
    calls: list[str] = field(default_factory=list)
    _files: dict[int, _File] = field(default_factory=dict)
    _kept: dict[str, Names] = field(default_factory=dict)
    _is_off: bool = False
    _one_at_a_time: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._keep_all()

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            os.close(file.descriptor)
        self._files.clear()

    # What survives

    def survivors(self, choose: Callable[[], bool]) -> Files:
        """Compute what a loss of power leaves; `choose` says of each change whether it was kept."""
        return dict(self._survivors("", choose))

    def _survivors(self, place: str, choose: Callable[[], bool]) -> Iterator[tuple[str, bytes]]:
        folder = f"{self.folder}/{place}".rstrip("/")
        kept, now = self._kept.get(folder, {}), self._list(folder)
        for name in sorted(kept.keys() | now.keys()):
            names = kept if kept.get(name, -1) == now.get(name, -1) or not choose() else now
            if name not in names:
                continue
            inode = names[name]
            if inode is None:
                yield from self._survivors(f"{place}{name}/", choose)
            else:
                yield f"{place}{name}", self._bytes_left(self._files[inode], choose)

    def _bytes_left(self, file: _File, choose: Callable[[], bool]) -> bytes:
        if file.kept is not None:
            return file.kept
        return file.read() if choose() else b""

    # What is called

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Fail as planned inside."""
        real = {name: getattr(os, name) for name in ("open", "write", "fsync", "rename", "link")}
        real |= {name: getattr(os, name) for name in ("unlink", "mkdir")}

        def open_(path: Any, flags: int, *args: Any, **options: Any) -> int:
            if not flags & (os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY) or not self._has(path):
                return int(real["open"](path, flags, *args, **options))
            if flags & os.O_EXCL or flags & os.O_TMPFILE == os.O_TMPFILE or not Path(path).exists():
                self._begin(f"create beside {self._name(path)}")
            descriptor: int = real["open"](path, flags, *args, **options)
            self._know(descriptor)
            return descriptor

        def write(descriptor: int, data: Any) -> int:
            path = _path_of(descriptor)
            if self._has(path):
                self._begin(f"write {self._name(path)}")
            return int(real["write"](descriptor, data))

        def fsync(descriptor: int) -> None:
            path, status = _path_of(descriptor), os.fstat(descriptor)
            if not self._has(path):
                return real["fsync"](descriptor)  # type: ignore[no-any-return]
            is_directory = stat.S_ISDIR(status.st_mode)
            try:
                self._begin(f"fsync {self._name(path)}{'/' if is_directory else ''}")
            except OSError:
                if not is_directory:
                    self._files[status.st_ino].is_lost = True
                raise
            if is_directory:
                self._kept[path] = self._list(path)
            else:
                self._keep(self._files[status.st_ino])
            return None

        def changing(verb: str) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                paths = [each for each in args if isinstance(each, str | os.PathLike)]
                if self._has(paths[-1]):
                    self._begin(f"{verb} {self._name(paths[-1])}")
                return real[verb](*args, **options)

            return call

        exchange = disk.exchange

        def exchange_(first: str, second: str) -> bool:
            self._begin(f"exchange {self._name(second)}")
            return exchange(first, second)

        def sync_file_system(root: str) -> bool:
            self._begin(f"syncfs {self._name(root)}")
            self._keep_all()
            return True

        with pytest.MonkeyPatch.context() as patches:
            for name, function in (("open", open_), ("write", write), ("fsync", fsync)):
                patches.setattr(os, name, self._alone(function))
            for name in ("rename", "link", "unlink", "mkdir"):
                patches.setattr(os, name, self._alone(changing(name)))
            patches.setattr(disk, "exchange", self._alone(exchange_))
            at_once = _one_after_another(fsync) if self.syncs_at_once else lambda _: None
            patches.setattr(disk, "sync_at_once", self._alone(at_once))
            patches.setattr(disk, "sync_file_system", self._alone(sync_file_system))
            yield

    def _alone(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Let threads call a function one after the other."""

        def call(*args: Any, **options: Any) -> Any:
            with self._one_at_a_time:
                return function(*args, **options)

        return call

    def _begin(self, call: str) -> None:
        number = len(self.calls)
        self.calls.append(call)
        if self._is_off or (number == self.fails_at and self.error is None):
            self._is_off = True
            raise PowerLossError(call)
        if number == self.fails_at:
            assert self.error is not None
            raise OSError(self.error, os.strerror(self.error))

    def _has(self, path: str | os.PathLike[str]) -> bool:
        return f"{os.fspath(path)}/".startswith(f"{self.folder}/")

    def _name(self, path: Any) -> str:
        return os.path.relpath(os.fspath(path), self.folder)

    def _know(self, descriptor: int) -> _File:
        number = os.fstat(descriptor).st_ino
        if number not in self._files:
            held = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
            self._files[number] = _File(held, None)
        return self._files[number]

    def _keep(self, file: _File) -> None:
        if not file.is_lost:
            file.kept = file.read()

    def _keep_all(self) -> None:
        for folder, _, names in os.walk(self.folder):
            for name in names:
                descriptor = os.open(f"{folder}/{name}", os.O_RDONLY)
                self._keep(self._know(descriptor))
                os.close(descriptor)
            self._kept[folder] = self._list(folder)

    def _list(self, folder: str) -> Names:
        if not Path(folder).is_dir():
            return {}
        with os.scandir(folder) as entries:
            return {each.name: None if each.is_dir() else each.inode() for each in entries}


def _one_after_another(sync: Callable[[int], None]) -> Callable[[Sequence[int]], Any]:
    """Return what syncs many files, of which each may fail."""

    def call(descriptors: Sequence[int]) -> list[OSError | None]:
        found: list[OSError | None] = []
        for each in descriptors:
            try:
                sync(each)
                found.append(None)
            except OSError as error:
                found.append(error)
        return found

    return call


def _path_of(descriptor: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return ""


def kept_least() -> bool:
    """Of all changes that were not synced, none is kept."""
    return False


def kept_most() -> bool:
    """All of them are."""
    return True


def kept_by_chance(seed: int) -> Callable[[], bool]:
    """Some of them are."""
    chance = random.Random(seed)
    return lambda: chance.random() < 0.5
