"""Clients of object stores in this process: opened when needed, counted, limited, errors translated."""

import asyncio
import contextlib
import os
import re
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from obstore.exceptions import (
    AlreadyExistsError,
    NotSupportedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.exceptions import PermissionDeniedError as ForbiddenError
from obstore.store import ObjectStore

from frazil.errors import (
    IncompleteResponseError,
    InvalidInputError,
    ObjectNotFoundError,
    ObjectRangeError,
    PermissionDeniedError,
    StorageError,
    StorageTimeoutError,
    StorageUnreachableError,
    ThrottledError,
    UnsafeStorageError,
)
from frazil.storage.connections import (
    SIZE_CLASSES,
    Connection,
    Purpose,
    SizeClass,
    plan_client,
    size_class,
)
from frazil.storage.interface import EffectiveSettings
from frazil.urls import is_secret

DEFAULT_MAX_CONCURRENT_REQUESTS = 256


class RequestLimit:
    """Places for requests: `with limit.take():`, or `async with` in an event loop."""

    def __init__(self, places: int) -> None:
        if places < 1:
            raise InvalidInputError(
                f"{places} requests at once would be none", kind="storage-config"
            )
        self.places = places
        self._free = places
        self._waiting: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def count_free(self) -> int:
        """How many places nobody holds now."""
        return self._free

    def take(self, count: int = 1) -> "_Hold":
        """Hold places for a while; one who wants more than there are holds all."""
        return _Hold(self, min(count, self.places))

    def _enter(self, count: int, kind: "type[_AnyWaiter]") -> "_AnyWaiter | None":
        """None if there is room at once, or else who waits for it, in the queue already."""
        with self._lock:
            if not self._waiting and count <= self._free:
                self._free -= count
                return None
            waiter = kind(count)
            self._waiting.append(waiter)
            return waiter

    def _give_up(self, waiter: "_Waiter") -> None:
        with self._lock:
            is_queued = waiter in self._waiting
            if is_queued:
                self._waiting.remove(waiter)
        # Behind it may be one that fits; and its own places may have come in this moment.
        self._leave(0 if is_queued else waiter.count)

    def _leave(self, count: int) -> None:
        admitted = []
        with self._lock:
            self._free += count
            while self._waiting and self._waiting[0].count <= self._free:
                waiter = self._waiting.popleft()
                self._free -= waiter.count
                admitted.append(waiter)
        for waiter in admitted:
            waiter.wake()


class _Hold:
    """Some places, from entering to leaving."""

    __slots__ = ("_count", "_limit")

    def __init__(self, limit: RequestLimit, count: int) -> None:
        self._limit = limit
        self._count = count

    def __enter__(self) -> None:
        waiter = self._limit._enter(self._count, _ThreadWaiter)
        if waiter is not None:
            try:
                waiter.woken.acquire()
            except BaseException:
                self._limit._give_up(waiter)
                raise

    def __exit__(self, *_: object) -> None:
        self._limit._leave(self._count)

    async def __aenter__(self) -> None:
        waiter = self._limit._enter(self._count, _LoopWaiter)
        if waiter is not None:
            try:
                await waiter.woken
            except BaseException:
                self._limit._give_up(waiter)
                raise

    async def __aexit__(self, *_: object) -> None:
        self._limit._leave(self._count)


class _ThreadWaiter:
    """A thread that waits, for which a lock is the cheapest thing to wait for."""

    __slots__ = ("count", "woken")

    def __init__(self, count: int) -> None:
        self.count = count
        self.woken = threading.Lock()
        self.woken.acquire()

    def wake(self) -> None:
        self.woken.release()


class _LoopWaiter:
    """A task that waits, woken from any thread."""

    __slots__ = ("_loop", "count", "woken")

    def __init__(self, count: int) -> None:
        self.count = count
        self._loop = asyncio.get_running_loop()
        self.woken = self._loop.create_future()

    def wake(self) -> None:
        # A loop that was closed has cancelled its tasks, whose places come back that way.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


_Waiter = _ThreadWaiter | _LoopWaiter
_AnyWaiter = TypeVar("_AnyWaiter", _ThreadWaiter, _LoopWaiter)


class _ProcessLimit:
    """The limit of this process; a forked child starts with one of its own."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._limit = RequestLimit(DEFAULT_MAX_CONCURRENT_REQUESTS)

    def get(self) -> RequestLimit:
        if self._process != os.getpid():
            self.set(self._limit.places)
        return self._limit

    def set(self, places: int) -> None:
        self._limit = RequestLimit(places)
        self._process = os.getpid()


_PROCESS = _ProcessLimit()


def process_limit() -> RequestLimit:
    """The limit that all requests of this process count against."""
    return _PROCESS.get()


def set_max_concurrent_requests(count: int) -> None:
    """Let this many requests of this process be under way at once, from the next one on."""
    _PROCESS.set(count)


_used_by: int | None = None


def enter() -> None:
    """Say that this process uses obstore; raises StorageError if an ancestor already did."""
    global _used_by
    process = os.getpid()
    if _used_by == process:
        return
    if _used_by is not None:
        raise StorageError(
            "this process was forked from one that had already used an object store, and the client "
            "library can't work here: start processes with 'spawn' or 'forkserver', or fork before "
            "the first use of a storage",
            kind="storage-config",
        )
    _used_by = process


_RANGE_SIGNS = ("Wanted range starting at", "CONTENT_RANGE", "Requested range was invalid")


class Failure(Enum):
    """Why a request failed, as far as the next step depends on it."""

    ABSENT = "absent"
    CONDITION = "condition"
    """The store says that what was required does not hold."""
    CONFLICT = "conflict"
    """Something else was happening to the object; nothing is known."""
    FORBIDDEN = "forbidden"
    RANGE = "range"
    UNSUPPORTED = "unsupported"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    """The store answers that it can't, now."""
    UNREACHABLE = "unreachable"
    """No answer at all."""
    INCOMPLETE = "incomplete"
    """An answer that ends too early."""
    OTHER = "other"

    @property
    def leaves_doubt(self) -> bool:
        """Whether a write that failed so may have happened."""
        return self in _DOUBTFUL


_DOUBTFUL = frozenset(
    (Failure.TIMEOUT, Failure.UNAVAILABLE, Failure.UNREACHABLE, Failure.INCOMPLETE)
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A failure with what to tell about it, which holds no secret."""

    failure: Failure
    text: str
    tries: int

    def to_error(self, action: str, key: str) -> StorageError:
        """The error to raise for something that was tried with a key."""
        tries = f" after {self.tries} tries" if self.tries > 1 else ""
        lead = _LEADS.get(self.failure, "")
        message = f"can't {action} {key!r}{tries}: {lead}{self.text}"
        if self.failure is Failure.ABSENT and not self._is_of_the_bucket():
            return ObjectNotFoundError(f"object not found: there is no {key!r}")
        return _ERRORS.get(self.failure, StorageError)(message)

    def _is_of_the_bucket(self) -> bool:
        return any(code in self.text for code in ("NoSuchBucket", "ContainerNotFound"))


_ERRORS: dict[Failure, type[StorageError]] = {
    Failure.FORBIDDEN: PermissionDeniedError,
    Failure.RANGE: ObjectRangeError,
    Failure.TIMEOUT: StorageTimeoutError,
    Failure.UNAVAILABLE: ThrottledError,
    Failure.UNREACHABLE: StorageUnreachableError,
    Failure.INCOMPLETE: IncompleteResponseError,
    Failure.CONFLICT: ThrottledError,
    Failure.UNSUPPORTED: UnsafeStorageError,
}

_LEADS = {
    Failure.FORBIDDEN: "the storage refuses these credentials, or wants some: ",
    Failure.UNREACHABLE: "the storage can't be reached",
    Failure.INCOMPLETE: "the response ended too early: ",
}

# What the client's own error says of the cause, which its text leaves out.
_CAUSES = (
    ("ConnectionRefused", "connection refused"),
    ("Connection refused", "connection refused"),
    ("dns error", "unknown host name"),
    ("ConnectionReset", "connection reset"),
    ("IncompleteMessage", "connection closed before a response"),
    ("NetworkUnreachable", "network unreachable"),
    ("InvalidCertificate", "invalid certificate"),
)

_BY_STATUS = {
    404: Failure.ABSENT,
    409: Failure.CONFLICT,
    412: Failure.CONDITION,
    401: Failure.FORBIDDEN,
    403: Failure.FORBIDDEN,
    408: Failure.TIMEOUT,
    416: Failure.RANGE,
    429: Failure.UNAVAILABLE,
    501: Failure.UNSUPPORTED,
}

_BY_TYPE = (
    (FileNotFoundError, Failure.ABSENT),
    (PreconditionError, Failure.CONDITION),
    (AlreadyExistsError, Failure.CONDITION),
    (ForbiddenError, Failure.FORBIDDEN),
    (UnauthenticatedError, Failure.FORBIDDEN),
    (NotSupportedError, Failure.OTHER),
    (NotImplementedError, Failure.OTHER),
)


def diagnose(error: Exception, secrets: Iterable[str] = ()) -> Diagnosis:
    """What an error of obstore's means. Its text is all there is to tell many of them apart."""
    whole = str(error)
    text = redact(whole.partition("\n\nDebug source:")[0].strip(), secrets)
    retries = re.search(r"after (\d+) retries", text)
    tries = 1 + (int(retries[1]) if retries else 0)
    failure = _classify(error, whole)
    if failure is Failure.UNREACHABLE:
        cause = next((said for sign, said in _CAUSES if sign in whole), None)
        text = f", {cause}: {text}" if cause else f": {text}"
    return Diagnosis(failure, text, tries)


def _classify(error: Exception, whole: str) -> Failure:
    found = re.search(r"status code: (\d{3})", whole)
    if found is not None:
        status = int(found[1])
        if status in _BY_STATUS and not _is_missing_for_update(error, status):
            # Azure says 409 where others say 412: its code tells that the object is there.
            if status == 409 and "BlobAlreadyExists" in whole:
                return Failure.CONDITION
            return _BY_STATUS[status]
        if status >= 500:
            return Failure.UNAVAILABLE
    for kind, failure in _BY_TYPE:
        if isinstance(error, kind):
            return failure
    if any(sign in whole for sign in _RANGE_SIGNS):
        # obstore's own findings: a server answers with nothing instead of 416, or a disk has less.
        return Failure.RANGE
    if "TimedOut" in whole or "timed out" in whole:
        return Failure.TIMEOUT
    if any(sign in whole for sign in ("IncompleteBody", "body error", "UnexpectedEof")):
        return Failure.INCOMPLETE
    if "HTTP error" in whole or "error sending request" in whole:
        return Failure.UNREACHABLE
    return Failure.OTHER


def _is_missing_for_update(error: Exception, status: int) -> bool:
    # S3 answers a replacement of nothing with 404, which obstore knows to be a failed condition.
    return status == 404 and isinstance(error, PreconditionError)


_QUERY = re.compile(r"([?&])([\w-]+)=[^&\s\"']+")
_SECRET_PATTERNS = (
    (re.compile(r"(?i)(bearer\s+)[^\s\"',]+"), r"\1****"),
    (re.compile(r"(://)[^/@\s:]+:[^/@\s]+@"), r"\1****@"),
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets: those that are known, and what looks like one."""
    for secret in secrets:
        if len(secret) > 3:
            text = text.replace(secret, "****")
    for pattern, replacement in _SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return _QUERY.sub(_cover_parameter, text)


def _cover_parameter(found: "re.Match[str]") -> str:
    # What belongs to a signature is covered as a whole.
    is_signed = found[2].lower().startswith(("x-amz-", "x-goog-"))
    return f"{found[1]}{found[2]}=****" if is_signed or is_secret(found[2]) else found[0]


_Result = TypeVar("_Result")


class Clients:
    """What requests go through. `attempt` returns what happened; it does not raise it."""

    def __init__(
        self, connection: Connection, settings: EffectiveSettings, user_agent: str = ""
    ) -> None:
        self._user_agent = user_agent
        self._connection = connection
        self._settings = settings
        self._resolved: Connection | None = None
        self._stores: dict[tuple[Purpose, SizeClass], ObjectStore] = {}
        self._lock = threading.Lock()

    def attempt(
        self,
        purpose: Purpose,
        call: Callable[[ObjectStore], _Result],
        *,
        size_bytes: int = 0,
        places: int = 1,
    ) -> _Result | Diagnosis:
        """What a call returned, or why it failed."""
        store = self._open(purpose, size_bytes)
        with process_limit().take(places):
            try:
                return call(store)
            except Exception as error:
                return self._diagnose(error)

    async def attempt_async(
        self,
        purpose: Purpose,
        call: Callable[[ObjectStore], Awaitable[_Result]],
        *,
        size_bytes: int = 0,
        places: int = 1,
    ) -> _Result | Diagnosis:
        """`attempt` for an event loop."""
        store = self._open(purpose, size_bytes)
        async with process_limit().take(places):
            try:
                return await call(store)
            except Exception as error:
                return self._diagnose(error)

    @property
    def connection(self) -> Connection:
        """The connection as resolved, which for one that redirects takes a request."""
        if self._resolved is None:
            self._resolved = self._connection.resolve()
        return self._resolved

    def _open(self, purpose: Purpose, size_bytes: int) -> ObjectStore:
        enter()
        kind = (purpose, SIZE_CLASSES[0] if purpose is Purpose.READ else size_class(size_bytes))
        store = self._stores.get(kind)
        if store is None:
            with self._lock:
                store = self._stores.get(kind) or self._open_anew(*kind)
                self._stores[kind] = store
        return store

    def _open_anew(self, purpose: Purpose, writes: SizeClass) -> ObjectStore:
        connection = self.connection
        plan = plan_client(
            self._settings,
            purpose,
            writes,
            connection.headers,
            connection.silence_seconds,
            self._user_agent,
        )
        try:
            return connection.open(plan)
        except Exception as error:
            failed = self._diagnose(error)
        raise failed.to_error("open", connection.describe())

    def _diagnose(self, error: Exception) -> Diagnosis:
        return diagnose(error, self.connection.find_secrets())
