"""What the wrappers share: every verb goes to another storage, through one place.

A wrapper says in `_begin` what becomes of a request: it raises to refuse it, or returns how long to
wait before it and what to do with its answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, TypeVar

from frazil.rendering import Item
from frazil.storage.interface import (
    NO_OPTIONS,
    Buffer,
    DeleteReport,
    ObjectInfo,
    PutOptions,
    Range,
    Storage,
    Version,
    Versioned,
)
from frazil.storage.settings import StorageSettings

T = TypeVar("T")


class Verb(StrEnum):
    """What can be asked of a storage. The asynchronous forms are the same verbs."""

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
        """Whether it changes what the storage holds."""
        return self in _WRITES

    @property
    def reads_bytes(self) -> bool:
        """Whether its answer has bytes of objects."""
        return self in _BYTE_READS


_WRITES = (Verb.PUT, Verb.CREATE, Verb.REPLACE, Verb.COPY, Verb.DELETE_MANY)
_BYTE_READS = (Verb.GET, Verb.GET_MANY, Verb.GET_RANGES, Verb.GET_VERSIONED)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for: of which keys (the prefix, of a list), with how many bytes."""

    verb: Verb
    keys: tuple[str, ...]
    size_bytes: int = 0


class Finish(Protocol):
    """What to do with an answer."""

    def __call__(self, answer: T, /) -> T:
        """The answer that is given instead."""


def give(answer: T) -> T:
    """The answer as it is."""
    return answer


@dataclass(frozen=True, slots=True)
class Course:
    """How a request goes on."""

    delay_seconds: float = 0
    finish: Finish = give


STRAIGHT_ON = Course()


class ForwardingStorage(Storage):
    """Another storage, all or the part of it whose keys start with a prefix."""

    def __init__(self, inner: Storage, prefix: str = "") -> None:
        self._inner = inner
        self._prefix = prefix
        self.concurrency = inner.concurrency

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
        inner = self._inner.with_settings(settings)
        if inner is self._inner:
            return self
        wrapped = copy(self)
        wrapped._inner = inner
        return wrapped

    def _begin(self, request: Request) -> Course:
        """Refuse a request by raising, or say how it goes on."""
        return STRAIGHT_ON

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

    # How

    def _send(self, request: Request, perform: Callable[[], T]) -> T:
        course = self._begin(request)
        if course.delay_seconds:
            time.sleep(course.delay_seconds)
        return course.finish(perform())

    async def _send_async(self, request: Request, perform: Callable[[], Awaitable[T]]) -> T:
        course = self._begin(request)
        if course.delay_seconds:
            await asyncio.sleep(course.delay_seconds)
        return course.finish(await perform())

    def _strip(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, key=info.key.removeprefix(self._prefix)) if self._prefix else info
