"""Wrappers of storages: request counts, latency, fault injection, read-only, prefix."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum, StrEnum
from typing import Protocol, TypeVar, cast

from frazil.display import Item
from frazil.errors import ReadOnlyError, StorageTimeoutError, ThrottledError
from frazil.lazy import dataclass
from frazil.storage.interface import (
    NO_OPTIONS,
    Buffer,
    DeleteReport,
    ObjectInfo,
    PutOptions,
    Range,
    Storage,
    StorageSettings,
    Version,
    Versioned,
    validate_key,
)

T = TypeVar("T")


class Verb(StrEnum):
    """Operation of a storage. The asynchronous forms count as the same verbs."""

    GET = "get"
    GET_MANY = "get_many"
    GET_RANGES = "get_ranges"
    GET_VERSIONED = "get_versioned"
    HEAD = "head"
    LIST = "list"
    PUT = "put"
    CREATE = "create"
    REPLACE = "replace"
    COPY = "copy"
    DELETE_MANY = "delete_many"
    FLUSH = "flush"

    @property
    def is_write(self) -> bool:
        """Return True if the operation changes the storage."""
        return self in _WRITES

    @property
    def reads_bytes(self) -> bool:
        """Return True if the response contains bytes of objects."""
        return self in _BYTE_READS


_WRITES = (Verb.PUT, Verb.CREATE, Verb.REPLACE, Verb.COPY, Verb.DELETE_MANY)
_BYTE_READS = (Verb.GET, Verb.GET_MANY, Verb.GET_RANGES, Verb.GET_VERSIONED)


@dataclass(frozen=True, slots=True)
class Request:
    """Request to a storage: its keys (the prefix, for a list) and the number of bytes sent."""

    verb: Verb
    keys: tuple[str, ...]
    size_bytes: int = 0


class Finish(Protocol):
    """Function applied to the response of a request."""

    def __call__(self, answer: T, /) -> T:
        """Return the response to use instead."""


def give(answer: T) -> T:
    """Return the response unchanged."""
    return answer


@dataclass(frozen=True, slots=True)
class Injection:
    """Delay of a request, and a function applied to its response."""

    delay_seconds: float = 0
    finish: Finish = give


NO_FAULT = Injection()


class ForwardingStorage(Storage):
    """Forwards to another storage, or to the part of it below a key prefix."""

    def __init__(self, inner: Storage, prefix: str = "") -> None:
        self._inner = inner
        self._prefix = prefix

    @property
    def concurrency(self) -> int:
        return self._inner.concurrency

    @property
    def place(self) -> str:
        inner = self._inner.place
        return f"{self._prefix} in {inner}" if self._prefix else inner

    def shown_items(self) -> Iterator[Item]:
        """Yield the kind of wrapper and what it wraps."""
        yield Item("type", type(self).__name__.removesuffix("Storage").lower())
        yield Item("storage", self._inner)

    @property
    def can_create_safely(self) -> bool:
        return self._inner.can_create_safely

    @property
    def lists_in_order(self) -> bool:
        return self._inner.lists_in_order

    @property
    def is_local(self) -> bool:
        return self._inner.is_local

    @property
    def can_replace_safely(self) -> bool:
        return self._inner.can_replace_safely

    @property
    def is_read_only(self) -> bool:
        return self._inner.is_read_only

    @property
    def is_bucket_root(self) -> bool:
        return self._inner.is_bucket_root and not self._prefix

    @property
    def has_encoded_names(self) -> bool:
        return self._inner.has_encoded_names

    def default_settings(self) -> StorageSettings:
        return self._inner.default_settings()

    def with_settings(self, settings: StorageSettings) -> Storage:
        return self._wrap(self._inner.with_settings(settings))

    def with_request_limit(self, count: int) -> Storage:
        return self._wrap(self._inner.with_request_limit(count))

    def with_user_agent(self, addition: str) -> Storage:
        return self._wrap(self._inner.with_user_agent(addition))

    def _wrap(self, inner: Storage) -> Storage:
        """Return this wrapper around a variant of the storage inside."""
        if inner is self._inner:
            return self
        wrapped = copy(self)
        wrapped._inner = inner
        return wrapped

    def _begin(self, request: Request) -> Injection:
        """Reject a request by raising, or return how to continue."""
        return NO_FAULT

    # Reading

    def get(self, key: str, range: Range | None = None) -> Buffer:
        request = Request(Verb.GET, (key,))
        return self._send(request, lambda: self._inner.get(self._prefix + key, range))

    async def get_async(self, key: str, range: Range | None = None) -> Buffer:
        request = Request(Verb.GET, (key,))
        return await self._send_async(
            request, lambda: self._inner.get_async(self._prefix + key, range)
        )

    def get_many(self, requests: Sequence[tuple[str, Range | None]]) -> Sequence[Buffer]:
        request = Request(Verb.GET_MANY, tuple(key for key, _ in requests))
        inner = [(self._prefix + key, range) for key, range in requests]
        return self._send(request, lambda: self._inner.get_many(inner))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> Sequence[Buffer]:
        request = Request(Verb.GET_RANGES, (key,))
        return self._send(request, lambda: self._inner.get_ranges(self._prefix + key, ranges))

    def get_versioned(self, key: str) -> Versioned:
        request = Request(Verb.GET_VERSIONED, (key,))
        return self._send(request, lambda: self._inner.get_versioned(self._prefix + key))

    def get_if_changed(self, key: str, version: Version) -> Versioned | None:
        request = Request(Verb.GET_VERSIONED, (key,))
        return self._send(request, lambda: self._inner.get_if_changed(self._prefix + key, version))

    def head(self, key: str) -> ObjectInfo:
        request = Request(Verb.HEAD, (key,))
        return self._strip(self._send(request, lambda: self._inner.head(self._prefix + key)))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        request = Request(Verb.LIST, (prefix,))
        return map(
            self._strip, self._send(request, lambda: self._inner.list(self._prefix + prefix))
        )

    def list_between(self, prefix: str, after: str, before: str) -> Iterator[ObjectInfo]:
        request = Request(Verb.LIST, (prefix,))
        keys = [self._prefix + key for key in (prefix, after, before)]
        return map(self._strip, self._send(request, lambda: self._inner.list_between(*keys)))

    def list_sorted(self, prefix: str = "") -> Iterator[ObjectInfo]:
        request = Request(Verb.LIST, (prefix,))
        found = self._send(request, lambda: self._inner.list_sorted(self._prefix + prefix))
        return map(self._strip, found)

    # Writing

    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        request = Request(Verb.PUT, (key,), memoryview(data).nbytes)
        self._send(request, lambda: self._inner.put(self._prefix + key, data, options))

    async def put_async(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        request = Request(Verb.PUT, (key,), memoryview(data).nbytes)
        await self._send_async(
            request, lambda: self._inner.put_async(self._prefix + key, data, options)
        )

    def put_many(self, objects: Sequence[tuple[str, Buffer, PutOptions]]) -> None:
        # Each object is a request that may fail, and they are sent at the same time.
        effects = [
            self._begin(Request(Verb.PUT, (key,), memoryview(data).nbytes))
            for key, data, _ in objects
        ]
        if delay := max((effect.delay_seconds for effect in effects), default=0):
            time.sleep(delay)
        self._inner.put_many([(self._prefix + key, data, how) for key, data, how in objects])
        for effect in effects:
            effect.finish(None)

    def create(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> Version:
        request = Request(Verb.CREATE, (key,), memoryview(data).nbytes)
        return self._send(request, lambda: self._inner.create(self._prefix + key, data, options))

    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        request = Request(Verb.REPLACE, (key,), memoryview(data).nbytes)
        return self._send(
            request, lambda: self._inner.replace(self._prefix + key, data, version, options)
        )

    def copy(self, source: str, target: str, version: Version | None = None) -> None:
        request = Request(Verb.COPY, (source, target))
        self._send(
            request,
            lambda: self._inner.copy(self._prefix + source, self._prefix + target, version),
        )

    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        request = Request(Verb.DELETE_MANY, tuple(keys))
        inner = (self._prefix + key for key in request.keys)
        report = self._send(request, lambda: self._inner.delete_many(inner))
        failed = {key.removeprefix(self._prefix): why for key, why in report.failed.items()}
        return replace(report, failed=failed)

    def flush(self) -> None:
        self._send(Request(Verb.FLUSH, ()), self._inner.flush)

    def flush_all(self) -> None:
        self._send(Request(Verb.FLUSH, ()), self._inner.flush_all)

    # Helpers

    def _send(self, request: Request, perform: Callable[[], T]) -> T:
        effect = self._begin(request)
        if effect.delay_seconds:
            time.sleep(effect.delay_seconds)
        return effect.finish(perform())

    async def _send_async(self, request: Request, perform: Callable[[], Awaitable[T]]) -> T:
        effect = self._begin(request)
        if effect.delay_seconds:
            await asyncio.sleep(effect.delay_seconds)
        return effect.finish(await perform())

    def _strip(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, key=info.key.removeprefix(self._prefix)) if self._prefix else info


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests so far, successful or not; each object of `get_many` counts as one request."""

    requests: Mapping[Verb, int]
    bytes_read: int
    bytes_written: int

    @property
    def total(self) -> int:
        """Return the total number of requests."""
        return sum(self.requests.values())


class CountingStorage(ForwardingStorage):
    """Counts the requests to another storage. A copy from a pickle starts at zero."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self.reset()

    def __reduce__(self) -> tuple[object, ...]:
        return (CountingStorage, (self._inner,))

    @property
    def counts(self) -> Counts:
        """Return the current counts."""
        with self._lock:
            return Counts(dict(self._requests), self._bytes_read, self._bytes_written)

    def reset(self) -> None:
        """Reset all counts to zero."""
        with self._lock:
            self._requests: Counter[Verb] = Counter()
            self._bytes_read = 0
            self._bytes_written = 0

    def _begin(self, request: Request) -> Injection:
        with self._lock:
            self._requests[request.verb] += (
                len(request.keys) if request.verb is Verb.GET_MANY else 1
            )
            self._bytes_written += request.size_bytes
        return Injection(finish=self._count_answer)

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


class Fault(Enum):
    """Fault to inject into a request."""

    REFUSE = "refuse"
    """The request is not executed and raises ThrottledError."""
    DELAY = "delay"
    """The request is executed after a delay."""
    LOSE_ANSWER = "lose answer"
    """The request is executed, but raises StorageTimeoutError."""
    TRUNCATE = "truncate"
    """A read silently returns the first half of the bytes."""


class FaultPlan(Protocol):
    """Selects the requests that fail, as a deterministic function of the request and its number."""

    def find_fault(self, request: Request, number: int) -> Fault | None:
        """Return the fault of a request that `number` others of its verb preceded."""


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Injects each fault at a rate between 0 and 1, deterministic for a seed."""

    seed: int
    rates: Mapping[Fault, float]

    def find_fault(self, request: Request, number: int) -> Fault | None:
        """Return a fault or None."""
        chance = random.Random(f"{self.seed} {request.verb} {number}").random()
        for fault, rate in self.rates.items():
            chance -= rate
            if chance < 0:
                return fault
        return None


@dataclass(frozen=True, slots=True)
class ScriptedFaults:
    """Injects faults by verb and number of the request, counted from 0."""

    script: Mapping[tuple[Verb, int], Fault]

    def find_fault(self, request: Request, number: int) -> Fault | None:
        """Return the scripted fault of the request, or None."""
        return self.script.get((request.verb, number))


class FaultyStorage(ForwardingStorage):
    """Injects faults into another storage. A copy from a pickle restarts its plan."""

    def __init__(self, inner: Storage, plan: FaultPlan, *, delay_seconds: float = 0.05) -> None:
        super().__init__(inner)
        self._plan = plan
        self._delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._numbers: Counter[Verb] = Counter()

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (self._inner, self._plan, self._delay_seconds))

    def _begin(self, request: Request) -> Injection:
        with self._lock:
            number = self._numbers[request.verb]
            self._numbers[request.verb] += 1
        match self._plan.find_fault(request, number):
            case Fault.REFUSE:
                raise ThrottledError(f"{_name(request)} was refused, as planned")
            case Fault.DELAY:
                return Injection(self._delay_seconds)
            case Fault.LOSE_ANSWER:
                return Injection(finish=_losing(request))
            case Fault.TRUNCATE if request.verb.reads_bytes:
                return Injection(finish=_truncate)
            case _:
                return NO_FAULT


def _restore(inner: Storage, plan: FaultPlan, delay_seconds: float) -> FaultyStorage:
    return FaultyStorage(inner, plan, delay_seconds=delay_seconds)


def _name(request: Request) -> str:
    return f"{request.verb} of {', '.join(map(repr, request.keys[:3]))}"


def _losing(request: Request) -> Finish:
    def lose(answer: T, /) -> T:  # noqa: ARG001 (that it is not used is the fault)
        raise StorageTimeoutError(f"the answer to {_name(request)} got lost, as planned")

    return lose


def _truncate(answer: T, /) -> T:
    shorter: object = answer
    match answer:
        case bytes() | bytearray() | memoryview():
            shorter = answer[: len(answer) // 2]
        case Versioned(data, version):
            shorter = Versioned(_truncate(data), version)
        case list() | tuple() if answer:
            shorter = [*answer[:-1], _truncate(answer[-1])]
    return cast(T, shorter)


@dataclass(slots=True)
class _Latency:
    """Latency in milliseconds, shared by the copies of a storage."""

    read_ms: float
    write_ms: float


class LatencyStorage(ForwardingStorage):
    """Adds latency to every request to another storage, for tests and benchmarks.

    Parameters
    ----------
    inner
        The wrapped storage.
    write_latency_ms, read_latency_ms
        Milliseconds to wait before each request. Both can be changed later, also for repositories
        that already use the storage.
    """

    def __init__(
        self, inner: Storage, *, write_latency_ms: float = 0, read_latency_ms: float = 0
    ) -> None:
        super().__init__(inner)
        self._latency = _Latency(read_latency_ms, write_latency_ms)

    @property
    def write_latency_ms(self) -> float:
        """Latency of each write in milliseconds."""
        return self._latency.write_ms

    @write_latency_ms.setter
    def write_latency_ms(self, ms: float) -> None:
        self._latency.write_ms = ms

    @property
    def read_latency_ms(self) -> float:
        """Latency of each read in milliseconds."""
        return self._latency.read_ms

    @read_latency_ms.setter
    def read_latency_ms(self, ms: float) -> None:
        self._latency.read_ms = ms

    @property
    def is_local(self) -> bool:
        return False

    def _begin(self, request: Request) -> Injection:
        if request.verb is Verb.FLUSH:  # no message to the storage
            return NO_FAULT
        latency = self._latency
        return Injection((latency.write_ms if request.verb.is_write else latency.read_ms) / 1000)


class PrefixedStorage(ForwardingStorage):
    """Objects of another storage below a folder, with keys relative to it."""

    def __init__(self, inner: Storage, folder: str) -> None:
        super().__init__(inner, f"{validate_key(folder)}/")


class ReadOnlyStorage(ForwardingStorage):
    """Read-only view of another storage."""

    @property
    def is_read_only(self) -> bool:
        return True

    def _begin(self, request: Request) -> Injection:
        if request.verb.is_write:
            keys = ", ".join(map(repr, request.keys[:3]))
            raise ReadOnlyError(f"{request.verb} of {keys}: this storage is read only")
        return NO_FAULT
