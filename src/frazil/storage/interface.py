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
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress, islice
from typing import ClassVar, TypeVar

from frazil.errors import InvalidInputError, ObjectRangeError
from frazil.install import package_name
from frazil.rendering import Block, Item
from frazil.storage.settings import StorageSettings

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

    # The official constructors; `frazil.storage.class_methods` provides them.
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
