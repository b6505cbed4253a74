"""Object store clients of this process: opened lazily, with a request limit and error translation."""

import asyncio
import contextlib
import os
import re
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
from frazil.lazy import dataclass
from frazil.storage.connections import (
    SIZE_CLASSES,
    ClientPlan,
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
    """Limit on concurrent requests: `with limit.take():`, or `async with` in an event loop."""

    def __init__(self, places: int) -> None:
        if places < 1:
            raise InvalidInputError(
                f"the limit must be at least 1, got {places}", kind="storage-config"
            )
        self.places = places
        self._free = places
        self._waiting: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def count_free(self) -> int:
        """Return the number of free slots."""
        return self._free

    def take(self, count: int = 1) -> "_Hold":
        """Reserve slots for the duration of a `with` block, at most as many as the limit has."""
        return _Hold(self, min(count, self.places))

    def _enter(self, count: int, kind: "type[_AnyWaiter]") -> "_AnyWaiter | None":
        """Take slots and return None if they are free, or return a queued waiter."""
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
        # The next waiter may fit now. This waiter may also have been admitted at the same moment.
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
    """Context manager that holds slots of a limit."""

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
    """Waiting thread. A lock is the cheapest primitive to block on."""

    __slots__ = ("count", "woken")

    def __init__(self, count: int) -> None:
        self.count = count
        self.woken = threading.Lock()
        self.woken.acquire()

    def wake(self) -> None:
        self.woken.release()


class _LoopWaiter:
    """Waiting asyncio task, which any thread can wake."""

    __slots__ = ("_loop", "count", "woken")

    def __init__(self, count: int) -> None:
        self.count = count
        self._loop = asyncio.get_running_loop()
        self.woken = self._loop.create_future()

    def wake(self) -> None:
        # A closed loop has cancelled its tasks, and cancellation returns their slots.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


_Waiter = _ThreadWaiter | _LoopWaiter
_AnyWaiter = TypeVar("_AnyWaiter", _ThreadWaiter, _LoopWaiter)


class _ProcessLimit:
    """Request limit of this process. A forked child gets its own."""

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
    """Return the limit shared by all requests of this process."""
    return _PROCESS.get()


def set_max_concurrent_requests(count: int) -> None:
    """Set the maximum number of concurrent requests of this process.

    The new limit applies to requests that start after the call.

    Parameters
    ----------
    count
        The limit, at least 1.

    Raises
    ------
    InvalidInputError
        If `count` is less than 1.
    """
    _PROCESS.set(count)


_used_by: int | None = None


def enter() -> None:
    """Register this process as a user of obstore; raise StorageError if a parent process used it."""
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
    """Category of a failed request, as far as the next step depends on it."""

    ABSENT = "absent"
    CONDITION = "condition"
    """The store reports that the precondition does not hold."""
    CONFLICT = "conflict"
    """A concurrent operation on the object interfered; the state of the object is unknown."""
    FORBIDDEN = "forbidden"
    RANGE = "range"
    UNSUPPORTED = "unsupported"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    """The store responded that it is temporarily unavailable."""
    UNREACHABLE = "unreachable"
    """No response."""
    INCOMPLETE = "incomplete"
    """The response ended too early."""
    OTHER = "other"

    @property
    def leaves_doubt(self) -> bool:
        """Return True if a write that failed this way may have taken effect."""
        return self in _DOUBTFUL


_DOUBTFUL = frozenset(
    (Failure.TIMEOUT, Failure.UNAVAILABLE, Failure.UNREACHABLE, Failure.INCOMPLETE)
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Category and text of a failure, without secrets."""

    failure: Failure
    text: str
    tries: int

    def to_error(self, action: str, key: str) -> StorageError:
        """Return the error to raise for an action on a key."""
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

# Causes that appear only in the debug text of the client's error.
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
    """Classify an obstore error. Many errors differ only in their text."""
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
            # Azure returns 409 where others return 412; the error code says that the object exists.
            if status == 409 and "BlobAlreadyExists" in whole:
                return Failure.CONDITION
            return _BY_STATUS[status]
        if status >= 500:
            return Failure.UNAVAILABLE
    for kind, failure in _BY_TYPE:
        if isinstance(error, kind):
            return failure
    if any(sign in whole for sign in _RANGE_SIGNS):
        # Detected by obstore: an empty response instead of 416, or a file that is too short.
        return Failure.RANGE
    if "TimedOut" in whole or "timed out" in whole:
        return Failure.TIMEOUT
    if any(sign in whole for sign in ("IncompleteBody", "body error", "UnexpectedEof")):
        return Failure.INCOMPLETE
    if "HTTP error" in whole or "error sending request" in whole:
        return Failure.UNREACHABLE
    return Failure.OTHER


def _is_missing_for_update(error: Exception, status: int) -> bool:
    # S3 returns 404 when the object to replace is missing; obstore reports a failed precondition.
    return status == 404 and isinstance(error, PreconditionError)


_QUERY = r"([?&])([\w-]+)=[^&\s\"']+"
_SECRET_PATTERNS = (
    (r"(?i)(bearer\s+)[^\s\"',]+", r"\1****"),
    (r"(://)[^/@\s:]+:[^/@\s]+@", r"\1****@"),
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without the given secrets and without anything that looks like a secret."""
    for secret in secrets:
        if len(secret) > 3:
            text = text.replace(secret, "****")
    for pattern, replacement in _SECRET_PATTERNS:
        text = re.sub(pattern, replacement, text)
    return re.sub(_QUERY, _cover_parameter, text)


def _cover_parameter(found: "re.Match[str]") -> str:
    # Mask every parameter of a signed URL.
    is_signed = found[2].lower().startswith(("x-amz-", "x-goog-"))
    return f"{found[1]}{found[2]}=****" if is_signed or is_secret(found[2]) else found[0]


_WRITES = (Purpose.WRITE, Purpose.CONDITIONAL_WRITE)
_Result = TypeVar("_Result")

_stores: deque[tuple[tuple[Connection, ClientPlan, Mapping[str, str]], ObjectStore]]
_stores = deque(maxlen=64)
"""Clients opened last: to open one takes as long as a request, and connections are used again."""


class Clients:
    """Clients of one connection. `attempt` returns a failure instead of raising it."""

    def __init__(
        self,
        connection: Connection,
        settings: EffectiveSettings,
        user_agent: str = "",
        limit: RequestLimit | None = None,
    ) -> None:
        self._user_agent = user_agent
        self._limit = limit
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
        """Return the result of a call, or a diagnosis of its failure."""
        store = self._open(purpose, size_bytes)
        with contextlib.ExitStack() as held:
            if self._limit is not None:
                held.enter_context(self._limit.take(places))
            held.enter_context(process_limit().take(places))
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
        """Run `attempt` in an event loop."""
        store = self._open(purpose, size_bytes)
        async with contextlib.AsyncExitStack() as held:
            if self._limit is not None:
                await held.enter_async_context(self._limit.take(places))
            await held.enter_async_context(process_limit().take(places))
            try:
                return await call(store)
            except Exception as error:
                return self._diagnose(error)

    @property
    def connection(self) -> Connection:
        """Return the resolved connection. Resolving a redirect takes a request."""
        if self._resolved is None:
            self._resolved = self._connection.resolve()
        return self._resolved

    @property
    def reader(self) -> ObjectStore:
        """Return the client that reads, which is one for equal connections of this process."""
        return self._open(Purpose.READ, 0)

    @property
    def has_writers(self) -> bool:
        """Return True if the clients of small writes are open."""
        return all((each, SIZE_CLASSES[0]) in self._stores for each in _WRITES)

    def open_writers(self) -> None:
        """Open the clients of small writes, each of which takes some milliseconds."""
        for each in _WRITES:
            self._open(each, 0)

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
        # Credentials, proxies and certificates may come from the environment.
        opening = (connection, plan, dict(os.environ))
        for known, store in list(_stores):
            if known == opening:
                return store
        try:
            store = connection.open(plan)
        except Exception as error:
            failed = self._diagnose(error)
        else:
            _stores.append((opening, store))
            return store
        raise failed.to_error("open", connection.describe())

    def _diagnose(self, error: Exception) -> Diagnosis:
        return diagnose(error, self.connection.find_secrets())
