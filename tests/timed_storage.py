"""A storage whose clock is set by hand, and ways to be interrupted or to die in the middle of a run."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from frazil.protocols import protocol as clock
from frazil.storage.interface import DeleteReport, ObjectInfo, Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request, Verb

START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Clocks:
    """Seconds since the start by true time, and how far two clocks are from it."""

    seconds: float = 0
    writers_ahead: float = 0
    storage_ahead: float = 0

    @property
    def of_writers(self) -> datetime:
        return at(self.seconds + self.writers_ahead)

    @property
    def of_storage(self) -> datetime:
        return at(self.seconds + self.storage_ahead)

    def time_ns(self) -> int:
        """What writers see, as `time` has it."""
        return (
            (self.of_writers - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
        )

    @contextmanager
    def are_running(self) -> Iterator[None]:
        """Let all writers go by these clocks."""
        with patch.object(clock, "time", self):
            yield


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class TimedStorage(ForwardingStorage):
    """A storage that says of each object that it was written when its clock showed that."""

    def __init__(self, clocks: Clocks) -> None:
        super().__init__(MemoryStorage())
        self.clocks = clocks
        self.times: dict[str, datetime] = {}

    def copied(self) -> "TimedStorage":
        """Another one with the same objects, by a clock that shows the same."""
        other = TimedStorage(replace(self.clocks))
        for info in self._inner.list():
            other._inner.put(info.key, self._inner.get(info.key))
        other.times = dict(self.times)
        return other

    def _begin(self, request: Request) -> Injection:
        if request.verb.is_write and request.verb is not Verb.DELETE_MANY:
            self.times[request.keys[-1]] = self.clocks.of_storage
        return NO_FAULT

    def _strip(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, created_at=self.times[info.key])


class CountedStorage(ForwardingStorage):
    """Another storage, one request at a time, each with a number; something may happen before one."""

    def __init__(self, inner: Storage, number: int, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self.count = 0
        self._number, self._act = number, act
        self._lock = threading.Lock()

    @property
    def concurrency(self) -> int:
        return 1

    @property
    def has_happened(self) -> bool:
        return self.count > self._number

    def counts(self, request: Request) -> bool:
        """Whether a request has a number; any that there is has one."""
        return bool(request.verb)

    def _begin(self, request: Request) -> Injection:
        with self._lock:
            is_now = self.counts(request) and self.count == self._number
            self.count += self.counts(request)
        if is_now:
            self._act()
        return NO_FAULT


class DiedError(Exception):
    """A process is no more; nobody is there to handle that."""


class MortalStorage(CountedStorage):
    """A storage whose user dies before a write, or in the middle of deleting."""

    def __init__(self, inner: Storage, number: int) -> None:
        super().__init__(inner, number, self._die)
        self.is_dead = False

    def counts(self, request: Request) -> bool:
        return request.verb.is_write

    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        some = tuple(keys)
        if self.count == self._number:
            self._inner.delete_many(some[::2])
        return super().delete_many(some)

    def _begin(self, request: Request) -> Injection:
        if self.is_dead:
            raise DiedError
        return super()._begin(request)

    def _die(self) -> None:
        self.is_dead = True
        raise DiedError
