"""Storage interface: the operations that the format needs.

Every storage satisfies these rules, which `frazil.testing.storage_contract` tests:

- An object is complete or absent; a reader never sees a partial write.
- `create` has one winner, and `replace` replaces only the version that was read. If the response to
  either is lost, the storage resolves the outcome before it returns or raises.
- All other objects are written once and never change.
- Keys are relative, with `/` between segments. Errors are those of `frazil.errors`, name the key,
  and contain no secrets.
- A storage can be pickled and opens its connections lazily.
"""

import asyncio
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import field, fields, is_dataclass, replace
from datetime import datetime
from itertools import compress, islice
from typing import Any, ClassVar, TypeVar

from frazil.async_names import run_concurrently
from frazil.display import Block, Item, Rendered, effective, effective_value
from frazil.errors import InvalidInputError, ObjectRangeError
from frazil.lazy import dataclass, package_name


@dataclass(slots=True, repr=False)
class StorageConcurrencySettings(Rendered):
    """Settings for concurrent requests that read or write parts of one large object.

    Parameters
    ----------
    max_concurrent_requests_for_object
        Maximum number of concurrent requests; 18 by default.
    ideal_concurrent_request_size
        Preferred size of one request in bytes; 12 MiB by default.
    """

    max_concurrent_requests_for_object: int | None = field(default=None, metadata=effective(18))
    ideal_concurrent_request_size: int | None = field(
        default=None, metadata=effective(12 * 1024 * 1024)
    )


@dataclass(slots=True, repr=False)
class StorageRetriesSettings(Rendered):
    """Settings for retries of a failed request.

    Parameters
    ----------
    max_tries
        Number of attempts including the first; 10 by default.
    initial_backoff_ms, max_backoff_ms
        Bounds of the exponential backoff; 100 ms and 180 s by default.
    """

    max_tries: int | None = field(default=None, metadata=effective(10))
    """Including the first attempt."""
    initial_backoff_ms: int | None = field(default=None, metadata=effective(100))
    max_backoff_ms: int | None = field(default=None, metadata=effective(180_000))


@dataclass(slots=True, repr=False)
class StorageTimeoutSettings(Rendered):
    """Timeouts; None for the default of the storage.

    Parameters
    ----------
    connect_timeout_ms
        Timeout of a connection.
    read_timeout_ms
        Longest wait for data of a response.
    operation_timeout_ms
        Time after which no further attempt is started.
    operation_attempt_timeout_ms
        Timeout of one attempt.
    """

    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    """Read timeout: the longest wait for data of a response."""
    operation_timeout_ms: int | None = None
    """No further attempt is started after this time."""
    operation_attempt_timeout_ms: int | None = None
    """Timeout of one attempt, from connecting to the last byte; writes get extra time by size."""


@dataclass(slots=True, repr=False)
class StorageSettings(Rendered):
    """User settings of a storage; None for the default of the storage.

    Parameters
    ----------
    concurrency, retries, timeouts
        Settings of requests.
    unsafe_use_conditional_create, unsafe_use_conditional_update
        Use conditional writes. Without them concurrent commits may be lost.
    unsafe_use_metadata
        Write metadata to objects.
    storage_class, metadata_storage_class, chunks_storage_class
        Storage class of all objects, and of metadata and chunks if different.
    minimum_size_for_multipart_upload
        Size in bytes from which on multipart uploads are used; 100 MiB by default.
    """

    # In the order of the official constructor, which displays them in a different order.
    concurrency: StorageConcurrencySettings | None = field(
        default=None, metadata=effective(StorageConcurrencySettings())
    )
    retries: StorageRetriesSettings | None = field(
        default=None, metadata=effective(StorageRetriesSettings())
    )
    unsafe_use_conditional_create: bool | None = field(default=None, metadata=effective(True))
    unsafe_use_conditional_update: bool | None = field(default=None, metadata=effective(True))
    unsafe_use_metadata: bool | None = field(default=None, metadata=effective(True))
    storage_class: str | None = None
    metadata_storage_class: str | None = None
    chunks_storage_class: str | None = None
    minimum_size_for_multipart_upload: int | None = field(
        default=None, metadata=effective(100 * 1024 * 1024)
    )
    timeouts: StorageTimeoutSettings | None = None


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """Storage settings with all defaults applied."""

    max_concurrent_requests_for_object: int
    ideal_concurrent_request_size: int
    max_tries: int
    initial_backoff_seconds: float
    max_backoff_seconds: float
    uses_conditional_create: bool
    uses_conditional_update: bool
    uses_metadata: bool
    storage_class: str | None
    metadata_storage_class: str | None
    chunks_storage_class: str | None
    minimum_size_for_multipart_upload: int
    connect_timeout_seconds: float | None
    read_timeout_seconds: float | None
    operation_timeout_seconds: float | None
    attempt_timeout_seconds: float | None


def resolve_settings(settings: StorageSettings) -> EffectiveSettings:
    """Apply the defaults to settings."""
    concurrency = settings.concurrency or StorageConcurrencySettings()
    retries = settings.retries or StorageRetriesSettings()
    timeouts = settings.timeouts or StorageTimeoutSettings()
    return EffectiveSettings(
        max_concurrent_requests_for_object=effective_value(
            concurrency, "max_concurrent_requests_for_object"
        ),
        ideal_concurrent_request_size=effective_value(concurrency, "ideal_concurrent_request_size"),
        max_tries=max(1, effective_value(retries, "max_tries")),
        initial_backoff_seconds=effective_value(retries, "initial_backoff_ms") / 1000,
        max_backoff_seconds=effective_value(retries, "max_backoff_ms") / 1000,
        uses_conditional_create=effective_value(settings, "unsafe_use_conditional_create"),
        uses_conditional_update=effective_value(settings, "unsafe_use_conditional_update"),
        uses_metadata=effective_value(settings, "unsafe_use_metadata"),
        storage_class=settings.storage_class,
        metadata_storage_class=settings.metadata_storage_class or settings.storage_class,
        chunks_storage_class=settings.chunks_storage_class or settings.storage_class,
        minimum_size_for_multipart_upload=effective_value(
            settings, "minimum_size_for_multipart_upload"
        ),
        connect_timeout_seconds=_seconds(timeouts.connect_timeout_ms),
        read_timeout_seconds=_seconds(timeouts.read_timeout_ms),
        operation_timeout_seconds=_seconds(timeouts.operation_timeout_ms),
        attempt_timeout_seconds=_seconds(timeouts.operation_attempt_timeout_ms),
    )


_Settings = TypeVar("_Settings", bound=Rendered)
T = TypeVar("T")


def merge_settings(
    below: _Settings, above: _Settings | None, *, whole: frozenset[str] = frozenset()
) -> _Settings:
    """Return a deep copy of `below` with the values that are set in `above`.

    Fields named in `whole` are not merged recursively, but taken from `above` as they are.
    """
    merged = _copied(below)
    if above is not None:
        _overlay(merged, above, whole)
    return merged


def _overlay(target: Any, above: Any, whole: frozenset[str]) -> None:
    for each in fields(above):
        upper, lower = getattr(above, each.name), getattr(target, each.name)
        if is_dataclass(upper) and lower is not None and each.name not in whole:
            _overlay(lower, upper, whole)
        elif upper is not None:
            setattr(target, each.name, _copied(upper))


def _copied(value: T) -> T:
    """Return a deep copy; settings are mostly scalars, for which `deepcopy` is slow."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not is_dataclass(value) or type(value).__setattr__ is not object.__setattr__:  # frozen
        return deepcopy(value)
    twin = object.__new__(type(value))
    for each in fields(value):
        setattr(twin, each.name, _copied(getattr(value, each.name)))
    return twin


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


LOCAL_DEFAULTS = StorageSettings(
    concurrency=StorageConcurrencySettings(5, 4096),
    retries=StorageRetriesSettings(1, 0, 0),
    unsafe_use_metadata=False,
)
"""Defaults of a disk.

Unlike the official library, conditional updates stay on: our `replace` is safe.
"""

MEMORY_DEFAULTS = StorageSettings(
    concurrency=StorageConcurrencySettings(5, 1), retries=StorageRetriesSettings(1, 0, 0)
)

Buffer = bytes | bytearray | memoryview
"""Accepted types of data to write. Data that is read is at least a read-only buffer."""


_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from `start` up to, not including, `end`; all of them must exist."""

    start: int
    end: int

    def __init__(self, start: int, end: int) -> None:
        # One call, because every read makes one of these.
        _set(self, "start", start)
        _set(self, "end", end)
        if not 0 <= start <= end:
            raise InvalidInputError(f"{self} is no range", kind="invalid-byte-range")


@dataclass(frozen=True, slots=True)
class ByteOffset:
    """Bytes from `start` to the end of the object."""

    start: int

    def __post_init__(self) -> None:
        if self.start < 0:
            raise InvalidInputError(f"{self} is no range", kind="invalid-byte-range")


@dataclass(frozen=True, slots=True)
class ByteSuffix:
    """The last `length` bytes, or the whole object if it is shorter."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 0:
            raise InvalidInputError(f"{self} is no range", kind="invalid-byte-range")


Range = ByteRange | ByteOffset | ByteSuffix


@dataclass(frozen=True, slots=True)
class Version:
    """Version of an object when it was read or written, opaque to all but its own storage."""

    token: str


@dataclass(frozen=True, slots=True)
class Versioned:
    """Bytes of an object with their version."""

    data: Buffer
    version: Version


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Key, size and creation time of an object in a listing."""

    key: str
    size_bytes: int
    created_at: datetime
    """By the clock of the storage, in UTC."""


@dataclass(frozen=True, slots=True)
class PutOptions:
    """Attributes of an object to write; storages ignore those they do not support."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str | None = None
    storage_class: str | None = None


NO_OPTIONS = PutOptions()

Choice = Callable[[Sequence[str]], Iterable[bool]]
"""Function that returns, for each of some keys, whether it is selected."""

KEYS_PER_BATCH = 4_000
"""Number of keys passed to a `Choice` together."""

# An empty segment, one that means a folder itself or its parent, or a zero byte.
_BAD_KEY = r"(?:^|/)\.{0,2}(?:/|$)|\0"


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """Result of `delete_many`. Missing keys count as deleted.

    Attributes
    ----------
    deleted
        Number of deleted objects.
    failed
        Keys that could not be deleted, with the reason.
    """

    deleted: int
    failed: Mapping[str, str]


def validate_key(key: str) -> str:
    """Return the key, or raise InvalidInputError if it is invalid."""
    # The expression is slow, and hardly any key needs it.
    is_suspicious = (
        not key or key[0] in "./" or key[-1] == "/" or "/." in key or "//" in key or "\0" in key
    )
    if is_suspicious and re.search(_BAD_KEY, key):
        raise InvalidInputError(
            f"invalid storage key {key!r}: it has an empty segment, '.', '..' or a zero byte",
            kind="bad-key-prefix",
        )
    return key


class Storage(Block, ABC):
    """Objects by key, in an object store, on a disk or in memory."""

    # The official constructors; `frazil.storage.constructors` provides them.
    new_in_memory: ClassVar[Callable[..., "Storage"]]
    new_local_filesystem: ClassVar[Callable[..., "Storage"]]
    new_s3: ClassVar[Callable[..., "Storage"]]
    new_s3_object_store: ClassVar[Callable[..., "Storage"]]
    new_tigris: ClassVar[Callable[..., "Storage"]]
    new_r2: ClassVar[Callable[..., "Storage"]]
    new_hf: ClassVar[Callable[..., "Storage"]]
    new_gcs: ClassVar[Callable[..., "Storage"]]
    new_azure_blob: ClassVar[Callable[..., "Storage"]]
    new_http: ClassVar[Callable[..., "Storage"]]
    new_redirect: ClassVar[Callable[..., "Storage"]]

    @property
    def concurrency(self) -> int:
        """Return the maximum number of concurrent requests of `get_many` and `put_many`."""
        return 16

    @property
    def place(self) -> str:
        """Return a short description of the location, without secrets."""
        return repr(self)

    @property
    def can_create_safely(self) -> bool:
        """Return True if `create` has exactly one winner."""
        return True

    @property
    def can_replace_safely(self) -> bool:
        """Return True if `replace` replaces only the version that was read."""
        return True

    @property
    def is_read_only(self) -> bool:
        """Return True if nothing can be written."""
        return False

    @property
    def is_bucket_root(self) -> bool:
        """Return True for the root of a bucket, which a repository would share with other data."""
        return False

    @property
    def has_encoded_names(self) -> bool:
        """Return True if the official library percent-encodes names in keys of this storage."""
        return True

    @property
    def lists_in_order(self) -> bool:
        """Return True if `list_between` requests only the keys between two others."""
        return False

    @property
    def is_local(self) -> bool:
        """Return True if requests do not use a network, so that synchronous calls are acceptable."""
        return False

    @property
    def shared_client(self) -> object | None:
        """Return the client that all storages of this process share that reach the same objects.

        None where reading takes no time, or where that is not known.
        """
        return None

    @property
    def preparation(self) -> Callable[[], None] | None:
        """Return what the first write waits for if it was not called before; None if for nothing."""
        return None

    def shown_title(self) -> str:
        """Return one name for every kind of storage, as the official library does."""
        return f"{package_name()}.Storage"

    def shown_items(self) -> Iterator[Item]:
        """Yield the kind of storage and its location, without secrets."""
        yield Item("type", type(self).__name__)

    def __repr__(self) -> str:
        return str(self)

    def default_settings(self) -> StorageSettings:
        """Return the default settings of this storage."""
        return StorageSettings()

    def with_settings(self, settings: StorageSettings) -> "Storage":
        """Return this storage with other settings; a storage that makes no requests ignores them."""
        return self

    def with_request_limit(self, count: int) -> "Storage":
        """Return this storage with at most so many concurrent requests, if it sends any."""
        return self

    def with_user_agent(self, addition: str) -> "Storage":
        """Return this storage with an addition to its `User-Agent` header, if it sends one."""
        return self

    # Reading

    @abstractmethod
    def get(self, key: str, range: Range | None = None) -> Buffer:
        """Return the bytes of an object or of a range of it.

        Parameters
        ----------
        key
            Key of the object.
        range
            Bytes to read; None for all.

        Returns
        -------
        Buffer
            The bytes, at least a read-only buffer.

        Raises
        ------
        ObjectNotFoundError
            If there is no such object.
        ObjectRangeError
            If the object is shorter than a `ByteRange`.
        """

    @abstractmethod
    def get_versioned(self, key: str) -> Versioned:
        """Return the bytes of an object with the version that `replace` takes; raises as `get`."""

    def get_if_changed(self, key: str, version: Version) -> Versioned | None:
        """Return as `get_versioned`, or None if the object still has a version."""
        found = self.get_versioned(key)
        return None if found.version == version else found

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Return size and creation time of an object without reading it; raises ObjectNotFoundError."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield all objects whose keys start with the prefix, in no particular order.

        Parameters
        ----------
        prefix
            Start of the keys; may end in the middle of a segment. Empty for all objects.

        Yields
        ------
        ObjectInfo
            Key, size and creation time of one object.
        """

    def list_selected(self, prefix: str, choose: Choice) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys `choose` selects, in batches of keys.

        Where a listing has only names, as on a disk, no metadata is read for the other objects.

        Parameters
        ----------
        prefix
            Start of the keys.
        choose
            Function that returns, for each of a batch of keys, whether it is selected.
        """
        for batch in batches_of(self.list(prefix), KEYS_PER_BATCH):
            yield from compress(batch, choose([info.key for info in batch]))

    def list_between(self, prefix: str, after: str, before: str) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys lie between two keys.

        A storage with ordered listings reads only that part.

        Parameters
        ----------
        prefix
            Start of the keys.
        after, before
            Keys around the listed ones, exclusive; neither needs to exist.
        """
        return (info for info in self.list(prefix) if after < info.key < before)

    def list_objects_metadata(
        self,
        settings: StorageSettings | None = None,
        prefix: str | None = None,
    ) -> "Sequence[ObjectInfo]":
        """Return all objects, or those below a prefix, sorted by key.

        Parameters
        ----------
        settings
            Settings that override those of the storage.
        prefix
            Folder of the objects, to which the returned keys are relative.

        Returns
        -------
        Sequence of ObjectInfo
            Key, size and creation time of each object.
        """
        storage = self if settings is None else self.with_settings(settings)
        folder = f"{prefix.strip('/')}/" if prefix and prefix.strip("/") else ""
        return tuple(
            replace(info, key=info.key.removeprefix(folder)) for info in storage.list_sorted(folder)
        )

    def list_objects(
        self, settings: StorageSettings | None = None, prefix: str | None = None
    ) -> "Sequence[tuple[str, int]]":
        """Return keys and sizes; deprecated: use `list_objects_metadata`, with its parameters."""
        message = "list_objects is deprecated, use list_objects_metadata"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        found = self.list_objects_metadata(settings, prefix)
        return [(info.key, info.size_bytes) for info in found]

    def list_sorted(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield all objects whose keys start with the prefix, ordered by the bytes of their keys."""
        return iter(sorted(self.list(prefix), key=lambda info: info.key.encode()))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> Sequence[Buffer]:
        """Return the bytes of several ranges of one object, in their order."""
        return self.get_many([(key, range) for range in ranges])

    def get_many(self, requests: Sequence[tuple[str, Range | None]]) -> Sequence[Buffer]:
        """Return the bytes of several objects or ranges, requested concurrently, in their order."""
        return run_concurrently(lambda request: self.get(*request), requests, self.concurrency)

    async def get_async(self, key: str, range: Range | None = None) -> Buffer:
        """Run `get` in an event loop."""
        return await asyncio.to_thread(self.get, key, range)

    # Writing

    @abstractmethod
    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        """Write an object, replacing an existing one atomically.

        Parameters
        ----------
        key
            Key of the object.
        data
            Bytes to write.
        options
            Metadata, content type and storage class.
        """

    def put_many(self, objects: Sequence[tuple[str, Buffer, PutOptions]]) -> None:
        """Write several objects concurrently, as `put` does, in no particular order.

        If one can't be written, the others may be written or not.
        """
        run_concurrently(lambda each: self.put(*each), objects, self.concurrency)

    @abstractmethod
    def create(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> Version:
        """Write a new object; among concurrent writers exactly one wins.

        Parameters
        ----------
        key, data, options
            As in `put`.

        Returns
        -------
        Version
            Version of the object, for `replace`.

        Raises
        ------
        ObjectExistsError
            If the object exists.
        """

    @abstractmethod
    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        """Replace one version of an object; among concurrent writers exactly one wins.

        Parameters
        ----------
        key, data, options
            As in `put`.
        version
            Version that was read or written last.

        Returns
        -------
        Version
            Version of the new object.

        Raises
        ------
        VersionMismatchError
            If the object has another version, or does not exist.
        """

    @abstractmethod
    def copy(self, source: str, target: str, version: Version | None = None) -> None:
        """Copy an object within the storage.

        Parameters
        ----------
        source, target
            Keys of the object and of its copy.
        version
            Copy only if this is the current version; None for any.

        Raises
        ------
        VersionMismatchError
            If the object has another version.
        """

    @abstractmethod
    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        """Delete objects. Missing objects are not failures.

        Parameters
        ----------
        keys
            Keys of the objects.

        Returns
        -------
        DeleteReport
            Number of deleted objects, and the keys that could not be deleted.
        """

    def flush(self) -> None:
        """Make all writes by `put` durable; `create` and `replace` call it themselves."""

    def flush_all(self) -> None:
        """Make all objects of this storage durable, including those of other writers.

        Call it before deleting objects that others replace: after a power loss, no directory entry
        may refer to a deleted object.
        """

    async def put_async(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        """Run `put` in an event loop."""
        await asyncio.to_thread(self.put, key, data, options)


def batches_of(items: Iterable[T], size: int) -> Iterator["list[T]"]:
    """Yield the items in lists of the given size; the last one may be shorter."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def slice_range(data: Buffer, range: Range | None, key: str) -> Buffer:
    """Return the bytes of a range, for storages that hold whole objects in memory."""
    start, end = resolve_range(range, len(data), key)
    return memoryview(data)[start:end] if range is not None else data


def resolve_range(range: Range | None, size: int, key: str) -> tuple[int, int]:
    """Return the start and end of a range in an object of the given size."""
    match range:
        case None:
            return 0, size
        case ByteRange(start, end):
            if end > size:
                raise ObjectRangeError(f"{key!r} has {size} bytes, not {start}..{end}")
            return start, end
        case ByteOffset(start):
            if start > size:
                raise ObjectRangeError(f"{key!r} has {size} bytes, none from {start} on")
            return start, size
        case ByteSuffix(length):
            return max(0, size - length), size
