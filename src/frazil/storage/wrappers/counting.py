"""A storage that counts what is asked of it."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from frazil.storage.interface import Storage, Versioned
from frazil.storage.wrappers.forwarding import Course, ForwardingStorage, Request, Verb

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Counts:
    """What was asked for so far, answered or not; of `get_many`, each object is a request."""

    requests: Mapping[Verb, int]
    bytes_read: int
    bytes_written: int

    @property
    def total(self) -> int:
        """All requests together."""
        return sum(self.requests.values())


class CountingStorage(ForwardingStorage):
    """Another storage, counted. A pickled one counts anew, for itself."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self.reset()

    def __reduce__(self) -> tuple[object, ...]:
        return (CountingStorage, (self._inner,))

    @property
    def counts(self) -> Counts:
        """The counts of this moment."""
        with self._lock:
            return Counts(dict(self._requests), self._bytes_read, self._bytes_written)

    def reset(self) -> None:
        """Start again from nothing."""
        with self._lock:
            self._requests: Counter[Verb] = Counter()
            self._bytes_read = 0
            self._bytes_written = 0

    def _begin(self, request: Request) -> Course:
        with self._lock:
            self._requests[request.verb] += (
                len(request.keys) if request.verb is Verb.GET_MANY else 1
            )
            self._bytes_written += request.size_bytes
        return Course(finish=self._count_answer)

    def _count_answer(self, answer: T, /) -> T:
        with self._lock:
            self._bytes_read += _size_of(answer)
        return answer


def _size_of(answer: object) -> int:
    match answer:
        case bytes() | bytearray() | memoryview():
            return len(answer)
        case Versioned(data):
            return len(data)
        case list() | tuple():
            return sum(map(_size_of, answer))
        case _:
            return 0
