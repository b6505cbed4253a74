"""What every storage can do: the verbs that the format needs, and no more.

Rules that every storage keeps, and that `frazil.testing.storage_contract` tests:

- An object is whole or absent; a reader never sees a part of a write.
- `create` has one winner, `replace` swaps only the version that was read. If the answer to either got
  lost, the storage finds out what happened before it says anything.
- Objects other than those replaced are written once and never changed.
- Keys are relative, with `/` between segments. Errors are those of `frazil.errors`, name the key, and
  hold no secret.
- A storage can be pickled and opens its connections where it is used.
"""

import asyncio
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from itertools import compress, islice
from typing import Any, ClassVar, TypeVar

from frazil.display import Block, Item, Rendered, effective, effective_value
from frazil.errors import InvalidInputError, ObjectRangeError
from frazil.install import package_name


@dataclass(slots=True, repr=False)
class StorageConcurrencySettings(Rendered):
    """How one large object is read and written in parts at once."""

    max_concurrent_requests_for_object: int | None = field(default=None, metadata=effective(18))
    ideal_concurrent_request_size: int | None = field(
        default=None, metadata=effective(12 * 1024 * 1024)
    )


@dataclass(slots=True, repr=False)
class StorageRetriesSettings(Rendered):
    """How often a failing request is tried, and the pauses between."""

    max_tries: int | None = field(default=None, metadata=effective(10))
    """Including the first one."""
    initial_backoff_ms: int | None = field(default=None, metadata=effective(100))
    max_backoff_ms: int | None = field(default=None, metadata=effective(180_000))


@dataclass(slots=True, repr=False)
class StorageTimeoutSettings(Rendered):
    """How long to wait; None for what the storage thinks right."""

    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    """The longest silence while an answer is read."""
    operation_timeout_ms: int | None = None
    """After this no further try is made."""
    operation_attempt_timeout_ms: int | None = None
    """One try, from the connection to the last byte; writes get time for their bytes on top."""


@dataclass(slots=True, repr=False)
class StorageSettings(Rendered):
    """Everything a user can set about the use of a storage."""

    # In the order in which the official constructor takes them; it shows them in another.
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
    """What holds, all defaults applied."""

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
    """What settings mean."""
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


def merge_settings(
    below: _Settings, above: _Settings | None, *, whole: frozenset[str] = frozenset()
) -> _Settings:
    """Settings in which `above` wins wherever it says something; a copy through and through.

    Fields named in `whole` are not merged in turn, but taken from above as they are.
    """
    merged = deepcopy(below)
    if above is not None:
        _overlay(merged, above, whole)
    return merged


def _overlay(target: Any, above: Any, whole: frozenset[str]) -> None:
    for each in fields(above):
        upper, lower = getattr(above, each.name), getattr(target, each.name)
        if is_dataclass(upper) and lower is not None and each.name not in whole:
            _overlay(lower, upper, whole)
        elif upper is not None:
            setattr(target, each.name, deepcopy(upper))


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


LOCAL_DEFAULTS = StorageSettings(
    concurrency=StorageConcurrencySettings(5, 4096),
    retries=StorageRetriesSettings(1, 0, 0),
    unsafe_use_metadata=False,
)
"""A disk: our own swaps safely, so unlike the official one it does not switch that off."""

MEMORY_DEFAULTS = StorageSettings(
    concurrency=StorageConcurrencySettings(5, 1), retries=StorageRetriesSettings(1, 0, 0)
)

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview
"""What can be written; what is read is at least a read-only buffer of bytes."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from `start` up to, not including, `end`; all of them must exist."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
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
    """What an object was when it was read or written; only its own storage understands it."""

    token: str


@dataclass(frozen=True, slots=True)
class Versioned:
    """An object's bytes with their version."""

    data: Buffer
    version: Version


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as a storage lists it."""

    key: str
    size_bytes: int
    created_at: datetime
    """By the storage's clock, in UTC."""


@dataclass(frozen=True, slots=True)
class PutOptions:
    """What to say about an object when it is written; storages ignore what they have no place for."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str | None = None
    storage_class: str | None = None


NO_OPTIONS = PutOptions()

Choice = Callable[[Sequence[str]], Iterable[bool]]
"""Which of some keys are wanted."""

CHOSEN_AT_ONCE = 4_000
"""So many keys are looked at together."""

# An empty segment, one that means a folder itself or its parent, or a zero byte.
_BAD_KEY = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|\0")


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """What `delete_many` did. Keys that were not there count as deleted."""

    deleted: int
    failed: Mapping[str, str]
    """Keys that could not be deleted, with the reason."""


def validate_key(key: str) -> str:
    """The key itself, if it is one."""
    # The expression is slow, and hardly any key has what it looks for.
    is_suspicious = (
        not key or key[0] in "./" or key[-1] == "/" or "/." in key or "//" in key or "\0" in key
    )
    if is_suspicious and _BAD_KEY.search(key):
        raise InvalidInputError(f"{key!r} is no storage key", kind="bad-key-prefix")
    return key


class Storage(Block, ABC):
    """Objects by key."""

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

    concurrency = 16
    """How many requests `get_many` has under way at once."""

    @property
    def place(self) -> str:
        """Where it is, in a few words for people, without secrets."""
        return repr(self)

    @property
    def can_create_safely(self) -> bool:
        """Whether `create` has one winner."""
        return True

    @property
    def can_replace_safely(self) -> bool:
        """Whether `replace` swaps only the version that was read."""
        return True

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be written."""
        return False

    @property
    def is_bucket_root(self) -> bool:
        """Whether it is a whole bucket, where a repository would share its keys with anything."""
        return False

    @property
    def has_encoded_names(self) -> bool:
        """Whether the official library percent-encodes names that become part of a key here."""
        return True

    @property
    def is_local(self) -> bool:
        """Whether a request takes no trip over a network, so that waiting for it is no waste."""
        return False

    def shown_title(self) -> str:
        """Return the same name for every kind of storage, as the official library does."""
        return f"{package_name()}.Storage"

    def shown_items(self) -> Iterator[Item]:
        """Yield the kind of storage and where it is, without secrets."""
        yield Item("type", type(self).__name__)

    def __repr__(self) -> str:
        return str(self)

    def default_settings(self) -> StorageSettings:
        """What holds here unless the user says otherwise."""
        return StorageSettings()

    def with_settings(self, settings: StorageSettings) -> "Storage":
        """The same storage, used as settings say; one that makes no requests has no use for them."""
        return self

    def with_user_agent(self, addition: str) -> "Storage":
        """The same storage, whose requests, if it makes any, say more about who asks."""
        return self

    # Reading

    @abstractmethod
    def get(self, key: str, range: Range | None = None) -> Buffer:
        """An object's bytes, or some of them.

        Raises ObjectNotFoundError, and ObjectRangeError if it does not have all of a `ByteRange`.
        """

    @abstractmethod
    def get_versioned(self, key: str) -> Versioned:
        """An object's bytes with the version that `replace` takes."""

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """What a storage knows of an object without reading it."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects whose keys start with the prefix, as the storage finds them, in no order.

        A prefix ends in the middle of a segment or with `/`; the empty one lists everything.
        """

    def list_chosen(self, prefix: str, choose: Choice) -> Iterator[ObjectInfo]:
        """Those of the objects that are chosen by their keys, of which many are looked at together.

        Where a listing has only names, as on a disk, nothing more is asked about the others.
        """
        for batch in batches_of(self.list(prefix), CHOSEN_AT_ONCE):
            yield from compress(batch, choose([info.key for info in batch]))

    def list_between(self, prefix: str, after: str, before: str) -> Iterator[ObjectInfo]:
        """Those of the objects whose keys come after one and before another; neither need exist.

        A storage that lists in order begins and ends there.
        """
        return (info for info in self.list(prefix) if after < info.key < before)

    def list_objects_metadata(
        self,
        settings: StorageSettings | None = None,
        prefix: str | None = None,
    ) -> "Sequence[ObjectInfo]":
        """All objects whose keys start with the prefix, as users of Icechunk ask for them."""
        storage = self if settings is None else self.with_settings(settings)
        return tuple(storage.list(prefix or ""))

    def list_objects(
        self, settings: StorageSettings | None = None, prefix: str | None = None
    ) -> "Sequence[tuple[str, int]]":
        """Keys and sizes; deprecated by Icechunk in favour of `list_objects_metadata`."""
        message = "list_objects is deprecated, use list_objects_metadata"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        found = self.list_objects_metadata(settings, prefix)
        return [(info.key, info.size_bytes) for info in found]

    def list_sorted(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The same in the order of the keys' bytes."""
        return iter(sorted(self.list(prefix), key=lambda info: info.key.encode()))

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> Sequence[Buffer]:
        """Several ranges of one object."""
        return self.get_many([(key, range) for range in ranges])

    def get_many(self, requests: Sequence[tuple[str, Range | None]]) -> Sequence[Buffer]:
        """Several objects or ranges, requested at once."""
        if len(requests) < 2:
            return [self.get(key, range) for key, range in requests]
        with ThreadPoolExecutor(min(self.concurrency, len(requests))) as pool:
            return tuple(pool.map(lambda request: self.get(*request), requests))

    async def get_async(self, key: str, range: Range | None = None) -> Buffer:
        """`get` for an event loop."""
        return await asyncio.to_thread(self.get, key, range)

    # Writing

    @abstractmethod
    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        """Write an object; one that exists is replaced whole."""

    @abstractmethod
    def create(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> Version:
        """Write an object that does not exist; raises ObjectExistsError if it does."""

    @abstractmethod
    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        """Write an object in place of a version of it; raises VersionMismatchError if that is gone."""

    @abstractmethod
    def copy(self, source: str, target: str, version: Version | None = None) -> None:
        """Copy an object; with a version, only if it still has that."""

    @abstractmethod
    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        """Delete objects; those that do not exist are no failure."""

    def flush(self) -> None:
        """Make everything that was put durable; `create` and `replace` do it by themselves."""

    def flush_all(self) -> None:
        """Make everything durable that can be read here, whoever wrote it.

        To be called before objects are deleted that others replace: a loss of power must not bring
        back names that lead to what was deleted.
        """

    async def put_async(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        """`put` for an event loop."""
        await asyncio.to_thread(self.put, key, data, options)


def batches_of(items: Iterable[T], size: int) -> Iterator["list[T]"]:
    """The items in lists of a size; the last one may be shorter."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def slice_range(data: Buffer, range: Range | None, key: str) -> Buffer:
    """The bytes of a range, for storages that hold whole objects in memory."""
    start, end = resolve_range(range, len(data), key)
    return memoryview(data)[start:end] if range is not None else data


def resolve_range(range: Range | None, size: int, key: str) -> tuple[int, int]:
    """Where a range starts and ends in an object of a size."""
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
