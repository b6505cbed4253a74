"""Objects in S3, Google Cloud Storage, Azure, or behind a web server.

Conditional writes have exactly one winner, even if a response is lost.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice, starmap, takewhile
from typing import Any, Protocol, cast
from uuid import uuid4

import obstore
from obstore.exceptions import NotModifiedError
from obstore.store import ObjectStore

from frazil.async_names import run_concurrently, run_together
from frazil.display import Item
from frazil.errors import (
    ObjectExistsError,
    ReadOnlyError,
    StorageError,
    UnsafeStorageError,
    VersionMismatchError,
)
from frazil.lazy import dataclass
from frazil.storage.clients import Clients, Diagnosis, Failure, RequestLimit, process_limit
from frazil.storage.connections import Connection, Purpose, S3Connection, lists_in_order
from frazil.storage.interface import (
    NO_OPTIONS,
    Buffer,
    ByteOffset,
    ByteRange,
    ByteSuffix,
    DeleteReport,
    EffectiveSettings,
    ObjectInfo,
    PutOptions,
    Range,
    Storage,
    StorageSettings,
    Version,
    Versioned,
    merge_settings,
    resolve_range,
    resolve_settings,
    validate_key,
)
from frazil.storage.ranges import Gathering, check_length, plan_reads, split_range

WRITE_ID = "icechunkwriteid"
"""Name of the write id in an object's metadata, shared with the official library."""

_SPELLINGS = (WRITE_ID, "icechunk-write-id", "icechunk_write_id")


def find_write_id(attributes: "dict[str, str]") -> str | None:
    """Return the id of the write that produced an object.

    Some writers and stores spell its name differently.
    """
    return next((attributes[name] for name in _SPELLINGS if name in attributes), None)


@dataclass(frozen=True, slots=True)
class Found:
    """Current version of an object, and whether this write produced it."""

    version: Version
    is_ours: bool


class ConditionalWrite(Protocol):
    """A conditional write to resolve."""

    def put(self) -> Version | Diagnosis:
        """Try the write once."""

    def look(self) -> Found | None:
        """Return the current object, or None."""

    def is_still_possible(self, found: Found | None) -> bool:
        """Return True if the condition can still hold for the current object."""

    def refuse(self, is_in_doubt: bool) -> StorageError:
        """Return the error for a failed condition.

        If `is_in_doubt`, an earlier try may have succeeded and been replaced since.
        """

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        """Return the error for any other failure."""


def resolve_write(
    write: ConditionalWrite,
    settings: EffectiveSettings,
    sleep: Callable[[float], None] = time.sleep,
) -> Version:
    """Write, resolving lost responses; raise if the write failed or its outcome can't be determined."""
    is_in_doubt = False
    last = Diagnosis(Failure.OTHER, "not tried", 0)
    deadline = time.monotonic() + (settings.operation_timeout_seconds or float("inf"))
    for tries in range(1, settings.max_tries + 1):
        outcome = write.put()
        if isinstance(outcome, Version):
            return outcome
        if outcome.failure is Failure.CONDITION and not is_in_doubt:
            raise write.refuse(is_in_doubt)
        last = Diagnosis(outcome.failure, outcome.text, tries)
        is_in_doubt |= outcome.failure.leaves_doubt
        is_last = tries == settings.max_tries or time.monotonic() > deadline
        if outcome.failure in (Failure.CONDITION, Failure.CONFLICT) or (is_last and is_in_doubt):
            # A conflict does not imply that the object exists: on S3 it may be absent.
            found = write.look()
            if found is not None and found.is_ours:
                return found.version
            if not write.is_still_possible(found):
                raise write.refuse(is_in_doubt)
        elif not outcome.failure.leaves_doubt:
            raise write.fail(outcome)
        if is_last:
            break
        sleep(pause_seconds(tries, settings))
    raise write.fail(last)


def pause_seconds(tries: int, settings: EffectiveSettings) -> float:
    """Return the backoff after a number of tries: exponential, with jitter."""
    longest = min(settings.max_backoff_seconds, settings.initial_backoff_seconds * 2**tries)
    return random.uniform(settings.initial_backoff_seconds / 2, max(longest, 0.0))


def encode_version(found: Mapping[str, Any]) -> Version:
    """Return the version in a store's response: the ETag and version that S3, GCS and Azure compare."""
    return Version(json.dumps([found.get("e_tag"), found.get("version")]))


def decode_version(version: Version) -> dict[str, str] | None:
    """Return a version as an obstore condition, or None if another storage produced it."""
    try:
        e_tag, number = json.loads(version.token)
    except (ValueError, TypeError):
        return None
    # obstore rejects None here, although its type hints allow it.
    given = {"e_tag": e_tag, "version": number}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Upload:
    """Content of a conditional write, sent on every try, with an id that identifies the write."""

    clients: Clients
    key: str
    data: Buffer
    attributes: Mapping[str, str]
    uses_metadata: bool
    write_id: str = field(default_factory=lambda: uuid4().hex)

    def put(self, mode: Any) -> Version | Diagnosis:
        """Try once, with the given put mode."""
        attributes = dict(self.attributes)
        if self.uses_metadata:
            attributes[WRITE_ID] = self.write_id
        outcome = self.clients.attempt(
            Purpose.CONDITIONAL_WRITE,
            lambda store: obstore.put(
                store, self.key, self.data, attributes=attributes, mode=mode, use_multipart=False
            ),
            size_bytes=len(self.data),
        )
        if isinstance(outcome, Diagnosis):
            return outcome
        if outcome["e_tag"] is None and outcome["version"] is None:
            # Some stores return the version only for a read.
            found = self.look()
            return found.version if found is not None else encode_version(outcome)
        return encode_version(outcome)

    def look(self) -> Found | None:
        """Return the current object, and whether this upload produced it."""
        outcome = self.clients.attempt(Purpose.READ, lambda store: _look(store, self.key))
        if isinstance(outcome, Diagnosis):
            if outcome.failure is Failure.ABSENT:
                return None
            raise self.fail(outcome)
        version, attributes = outcome
        written_by = find_write_id(attributes)
        if written_by is not None:
            return Found(version, written_by == self.write_id)
        return self._compare()

    def _compare(self) -> Found | None:
        outcome = self.clients.attempt(Purpose.READ, lambda store: _fetch_whole(store, self.key))
        if isinstance(outcome, Diagnosis):
            if outcome.failure is Failure.ABSENT:
                return None
            raise self.fail(outcome)
        assert outcome is not None
        data, meta, _ = outcome
        return Found(encode_version(meta), memoryview(data) == memoryview(self.data))

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        return diagnosis.to_error("write", self.key)


@dataclass(frozen=True, slots=True)
class Create:
    """Write that requires that the object does not exist."""

    upload: Upload

    def put(self) -> Version | Diagnosis:
        return self.upload.put("create")

    def look(self) -> Found | None:
        return self.upload.look()

    def is_still_possible(self, found: Found | None) -> bool:
        return found is None

    def refuse(self, is_in_doubt: bool) -> StorageError:
        return ObjectExistsError(f"{self.upload.key!r} exists{_doubt(is_in_doubt)}")

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        return self.upload.fail(diagnosis)


@dataclass(frozen=True, slots=True)
class Replace:
    """Write that requires a given version of the object.

    Stores of the Ceph family compare the quoted ETag of the condition literally with their unquoted
    one, so it never matches. If the current object still has the expected version, the write is
    repeated without quotes.
    """

    upload: Upload
    expected: Version
    quotes: "Quotes"

    def put(self) -> Version | Diagnosis:
        condition = decode_version(self.expected)
        if condition is None:
            raise self.refuse(is_in_doubt=False)
        if self.quotes.are_refused:
            return self.upload.put(_unquote(condition))
        outcome = self.upload.put(condition)
        if isinstance(outcome, Version):
            self.quotes.are_accepted = True
        elif outcome.failure is Failure.CONDITION and self._is_a_matter_of_quotes(condition):
            outcome = self.upload.put(_unquote(condition))
            self.quotes.are_refused = isinstance(outcome, Version)
        return outcome

    def _is_a_matter_of_quotes(self, condition: dict[str, str]) -> bool:
        if self.quotes.are_accepted or not condition.get("e_tag", "").startswith('"'):
            return False
        found = self.upload.look()
        return found is not None and found.version == self.expected

    def look(self) -> Found | None:
        return self.upload.look()

    def is_still_possible(self, found: Found | None) -> bool:
        return found is not None and found.version == self.expected

    def refuse(self, is_in_doubt: bool) -> StorageError:
        return VersionMismatchError(
            f"{self.upload.key!r} is no longer what was read{_doubt(is_in_doubt)}"
        )

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        return self.upload.fail(diagnosis)


@dataclass(slots=True)
class Quotes:
    """ETag format that a store accepts, as observed."""

    are_accepted: bool = False
    are_refused: bool = False


def _doubt(is_in_doubt: bool) -> str:
    return "; this write may have been there in between" if is_in_doubt else ""


def _unquote(condition: dict[str, str]) -> dict[str, str]:
    return {**condition, "e_tag": condition["e_tag"].strip('"')}


def _look(store: ObjectStore, key: str) -> tuple[Version, dict[str, str]]:
    result = obstore.get(store, key, options={"head": True})
    return encode_version(cast("Mapping[str, Any]", result.meta)), result.attributes


DEFAULT_FOLDER = "overwritten"
"""Folder of the probe object.

Objects left by an interrupted probe are harmless here: the folder is not listed.
"""


def probe_conditional_writes(storage: Storage, folder: str = DEFAULT_FOLDER) -> None:
    """Raise UnsafeStorageError if two concurrent writers could both succeed.

    Writes one small object with four requests and deletes it.

    Parameters
    ----------
    storage
        The storage to check.
    folder
        Folder for the probe object.

    Raises
    ------
    UnsafeStorageError
        If the storage ignores write conditions or is configured not to use them.
    """
    if not (storage.can_create_safely and storage.can_replace_safely):
        raise UnsafeStorageError(
            f"{storage.place} is set not to use conditional writes, so that commits may be lost"
        )
    key = f"{folder}/probe.{uuid4().hex}"
    first = storage.create(key, b"first")
    try:
        second = storage.replace(key, b"second", first)
        try:
            storage.create(key, b"third")
        except ObjectExistsError:
            pass
        else:
            raise _unsafe(storage, "creates an object that exists")
        try:
            storage.replace(key, b"fourth", first)
        except VersionMismatchError:
            pass
        else:
            raise _unsafe(storage, "replaces a version that is gone")
        if second == first:
            raise _unsafe(storage, "has one version for different bytes")
    finally:
        storage.delete_many([key])


def _unsafe(storage: Storage, fault: str) -> UnsafeStorageError:
    return UnsafeStorageError(
        f"{storage.place} {fault}: it ignores the conditions of writes, so that commits would be lost. "
        "Commit to a store that has conditional writes"
    )


class Reader:
    """Reads objects and ranges of them."""

    def __init__(self, clients: Clients, settings: EffectiveSettings) -> None:
        self._clients = clients
        self._settings = settings

    def get(self, key: str, range: Range | None) -> Buffer:
        if self._needs_size(range):
            return self._get_resolved(key, range)
        if pieces := split_range(range, self._settings):
            return b"".join(
                run_concurrently(lambda piece: self.get(key, piece), pieces, len(pieces))
            )
        outcome = self._clients.attempt(Purpose.READ, lambda store: _fetch(store, key, range))
        if isinstance(outcome, Diagnosis):
            if outcome.failure is Failure.RANGE:
                return self._get_resolved(key, range)
            raise outcome.to_error("read", key)
        return check_length(outcome, key, range)

    async def get_async(self, key: str, range: Range | None) -> Buffer:
        if self._needs_size(range):
            return await asyncio.to_thread(self._get_resolved, key, range)
        if pieces := split_range(range, self._settings):
            return b"".join(await run_together(self.get_async(key, each) for each in pieces))
        outcome = await self._clients.attempt_async(
            Purpose.READ, lambda store: _fetch_async(store, key, range)
        )
        if isinstance(outcome, Diagnosis):
            if outcome.failure is Failure.RANGE:
                return await asyncio.to_thread(self._get_resolved, key, range)
            raise outcome.to_error("read", key)
        return check_length(outcome, key, range)

    def get_with_meta(self, key: str, e_tag: str | None = None) -> "_WholeObject | None":
        """Return bytes, metadata and attributes of an object, or None if it still has the ETag."""
        outcome = self._clients.attempt(Purpose.READ, lambda store: _fetch_whole(store, key, e_tag))
        if isinstance(outcome, Diagnosis):
            raise outcome.to_error("read", key)
        return outcome

    def head(self, key: str) -> ObjectInfo:
        outcome = self._clients.attempt(Purpose.READ, lambda store: obstore.head(store, key))
        if isinstance(outcome, Diagnosis):
            raise outcome.to_error("look at", key)
        return ObjectInfo(key, outcome["size"], outcome["last_modified"])

    def _needs_size(self, range: Range | None) -> bool:
        match range:
            case ByteRange(start, end):
                # An empty range can't be requested, but the object's size shows whether it is
                # valid.
                return start == end
            case ByteSuffix(length):
                return length == 0 or not self._clients.connection.traits.has_suffix_ranges
        return False

    def _get_resolved(self, key: str, range: Range | None) -> Buffer:
        start, end = resolve_range(range, self.head(key).size_bytes, key)
        if start == end:
            return b""
        exact = ByteRange(start, end)
        if exact == range:
            raise StorageError(f"the store refuses {start}..{end} of {key!r}, which it has")
        return self.get(key, exact)


def _options(range: ByteOffset | ByteSuffix) -> Any:
    if isinstance(range, ByteOffset):
        return {"range": {"offset": range.start}}
    return {"range": {"suffix": range.length}}


def _fetch(store: ObjectStore, key: str, range: Range | None) -> Buffer:
    match range:
        case None:
            return memoryview(obstore.get(store, key).bytes())
        case ByteRange(start, end):
            return memoryview(obstore.get_range(store, key, start=start, end=end))
    return memoryview(obstore.get(store, key, options=_options(range)).bytes())


async def _fetch_async(store: ObjectStore, key: str, range: Range | None) -> Buffer:
    match range:
        case None:
            return memoryview(await (await obstore.get_async(store, key)).bytes_async())
        case ByteRange(start, end):
            return memoryview(await obstore.get_range_async(store, key, start=start, end=end))
    result = await obstore.get_async(store, key, options=_options(range))
    return memoryview(await result.bytes_async())


_WholeObject = tuple[Buffer, Mapping[str, Any], dict[str, str]]


def _fetch_whole(store: ObjectStore, key: str, e_tag: str | None = None) -> _WholeObject | None:
    try:
        result = obstore.get(store, key, options={"if_none_match": e_tag} if e_tag else None)
    except NotModifiedError:
        return None
    meta, attributes = cast("Mapping[str, Any]", result.meta), result.attributes
    return memoryview(result.bytes()), meta, attributes


# Number of concurrent requests of obstore where a store has no bulk delete.
_PLACES = 10


def delete_many(clients: Clients, keys: Iterable[str], concurrency: int) -> DeleteReport:
    """Delete objects. Missing objects count as deleted."""
    deleted, failed = 0, dict[str, str]()
    for batch in _batches(keys, clients.connection.traits.delete_batch_size):
        reasons = _delete_batch(clients, batch, concurrency)
        deleted += len(batch) - len(reasons)
        failed |= reasons
    return DeleteReport(deleted, failed)


def _delete_batch(clients: Clients, batch: Sequence[str], concurrency: int) -> dict[str, str]:
    outcome = clients.attempt(
        Purpose.WRITE, lambda store: obstore.delete(store, batch), places=_PLACES
    )
    if outcome is None:
        return {}
    # A batch fails as a whole, because of one key or because the store has no bulk delete.
    # Single deletes tell which keys fail.
    reasons = run_concurrently(lambda key: _delete_one(clients, key), batch, concurrency)
    return {key: reason for key, reason in zip(batch, reasons, strict=True) if reason}


def _delete_one(clients: Clients, key: str) -> str:
    """Delete an object and return the reason of a failure, or an empty string."""
    outcome = clients.attempt(Purpose.SINGLE_DELETE, lambda store: obstore.delete(store, key))
    if isinstance(outcome, Diagnosis) and outcome.failure is not Failure.ABSENT:
        return str(outcome.to_error("delete", key))
    return ""


def _batches(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter([validate_key(key) for key in keys])
    while batch := list(islice(remaining, size)):
        yield batch


_LISTED_AT_ONCE = 1000
_CONCURRENT_REQUESTS = 64


class ObjectStorage(Storage):
    """Storage in an object store, opened on first use in each process.

    A pickle holds the connection and the settings.
    """

    def __init__(
        self,
        connection: Connection,
        settings: StorageSettings | None = None,
        user_agent: str = "",
        request_limit: int | None = None,
    ) -> None:
        self._user_agent = user_agent
        self._request_limit = request_limit
        self._connection = connection
        self._settings = merge_settings(connection.traits.settings, settings)
        self._effective = resolve_settings(self._settings)
        limit = None if request_limit is None else RequestLimit(request_limit)
        self._clients = Clients(connection, self._effective, user_agent, limit)
        self._reader = Reader(self._clients, self._effective)
        self._gathering = Gathering(self._read_range)
        self._quotes = Quotes()

    @property
    def concurrency(self) -> int:
        """Return the number of requests that `get_many`, `put_many` and Zarr send at once."""
        limit = self._request_limit or _CONCURRENT_REQUESTS
        return min(_CONCURRENT_REQUESTS, limit, process_limit().places)

    @property
    def shared_client(self) -> object:
        return self._clients.reader

    @property
    def preparation(self) -> Callable[[], None] | None:
        is_ready = self.is_read_only or self._clients.has_writers
        return None if is_ready else self._clients.open_writers

    @property
    def lists_in_order(self) -> bool:
        return lists_in_order(self._connection)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), self._arguments)

    @property
    def _arguments(self) -> tuple[Connection, StorageSettings, str, int | None]:
        return (self._connection, self._settings, self._user_agent, self._request_limit)

    @property
    def place(self) -> str:
        return self._connection.describe()

    def shown_items(self) -> Iterator[Item]:
        """Yield the kind of store and the location in it, without secrets."""
        return starmap(Item, self._connection.details().items())

    @property
    def can_create_safely(self) -> bool:
        return self._effective.uses_conditional_create and not self.is_read_only

    @property
    def can_replace_safely(self) -> bool:
        return self._effective.uses_conditional_update and not self.is_read_only

    @property
    def is_read_only(self) -> bool:
        return self._connection.traits.is_read_only

    @property
    def is_bucket_root(self) -> bool:
        # A redirect or a web server is not a bucket that could be written to.
        return not getattr(self._connection, "prefix", "elsewhere")

    @property
    def has_encoded_names(self) -> bool:
        # The official library accesses S3 without the layer that encodes names for other stores.
        return not isinstance(self._connection, S3Connection)

    def default_settings(self) -> StorageSettings:
        return merge_settings(StorageSettings(), self._connection.traits.settings)

    def with_settings(self, settings: StorageSettings) -> "ObjectStorage":
        connection, own, user_agent, limit = self._arguments
        return ObjectStorage(connection, merge_settings(own, settings), user_agent, limit)

    def with_request_limit(self, count: int) -> "ObjectStorage":
        return ObjectStorage(*self._arguments[:3], count)

    def with_user_agent(self, addition: str) -> "ObjectStorage":
        connection, settings, _, limit = self._arguments
        return ObjectStorage(connection, settings, addition, limit)

    # Reading

    def get(self, key: str, range: Range | None = None) -> Buffer:
        return self._reader.get(validate_key(key), range)

    async def get_async(self, key: str, range: Range | None = None) -> Buffer:
        validate_key(key)
        # Only in objects that hold several chunks do ranges start later, and may have neighbours.
        if type(range) is ByteRange and 0 < range.start < range.end:
            return (await self._gathering.get(key, range))[0]
        return await self._reader.get_async(key, range)

    async def _read_range(self, key: str, range: ByteRange) -> tuple[Buffer, None]:
        return await self._reader.get_async(key, range), None

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[Buffer]:
        validate_key(key)
        exact = self._resolve_ranges(key, ranges)
        planned = plan_reads(exact)
        found = self.get_many([(key, ByteRange(read.start, read.end)) for read in planned])
        data: list[Buffer] = [b""] * len(exact)
        for read, whole in zip(planned, found, strict=True):
            view = memoryview(whole)
            for member in read.members:
                start, end = exact[member].start, exact[member].end
                data[member] = view[start - read.start : end - read.start]
        return data

    def _resolve_ranges(self, key: str, ranges: Sequence[Range]) -> list[ByteRange]:
        exact = [each for each in ranges if isinstance(each, ByteRange)]
        if len(exact) == len(ranges):
            return exact
        size = self.head(key).size_bytes
        return [ByteRange(*resolve_range(each, size, key)) for each in ranges]

    def get_many(self, requests: Sequence[tuple[str, Range | None]]) -> Sequence[Buffer]:
        for key, _ in requests:
            validate_key(key)
        return super().get_many(requests)

    def get_versioned(self, key: str) -> Versioned:
        found = self.get_if_changed(key, Version(""))
        assert found is not None
        return found

    def get_if_changed(self, key: str, version: Version) -> Versioned | None:
        e_tag = (decode_version(version) or {}).get("e_tag")
        found = self._reader.get_with_meta(validate_key(key), e_tag)
        current = version if found is None else encode_version(found[1])
        # Some stores ignore the condition.
        return None if found is None or current == version else Versioned(found[0], current)

    def head(self, key: str) -> ObjectInfo:
        return self._reader.head(validate_key(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        if not self._connection.traits.can_list:
            raise StorageError(f"{self!r} can't list its objects")
        return self._list(prefix)

    def list_between(self, prefix: str, after: str, before: str) -> Iterator[ObjectInfo]:
        if not self.lists_in_order:
            return super().list_between(prefix, after, before)
        return takewhile(lambda info: info.key < before, self._list(prefix, after))

    def _list(self, prefix: str, after: str | None = None) -> Iterator[ObjectInfo]:
        # obstore's prefixes end at a segment, so the last partial segment is matched here.
        pages = self._open_list(prefix.rpartition("/")[0], after)
        while (page := self._next_page(pages, prefix)) is not None:
            for each in page:
                if each["path"].startswith(prefix):
                    yield ObjectInfo(each["path"], each["size"], each["last_modified"])

    def _open_list(self, folder: str, after: str | None) -> Any:
        outcome = self._clients.attempt(
            Purpose.READ,
            lambda store: obstore.list(
                store, folder or None, offset=after, chunk_size=_LISTED_AT_ONCE
            ),
        )
        if isinstance(outcome, Diagnosis):
            raise outcome.to_error("list", folder)
        return outcome

    def _next_page(self, pages: Any, prefix: str) -> "Sequence[Mapping[str, Any]] | None":
        outcome = self._clients.attempt(Purpose.READ, lambda _: next(pages, None))
        if isinstance(outcome, Diagnosis):
            raise outcome.to_error("list", prefix)
        return outcome

    # Writing

    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        self._put(validate_key(key), data, self._attributes(options))

    async def put_async(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        self._require_writable()
        flat = flatten(data)
        attributes = self._attributes(options)
        how = self._upload_options(len(flat))
        validate_key(key)
        outcome = await self._clients.attempt_async(
            Purpose.WRITE,
            lambda store: obstore.put_async(store, key, flat, attributes=attributes, **how),
            size_bytes=how["chunk_size"] if how["use_multipart"] else len(flat),
            places=how["max_concurrency"] if how["use_multipart"] else 1,
        )
        if isinstance(outcome, Diagnosis):
            raise outcome.to_error("write", key)

    def create(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> Version:
        upload = self._upload(key, data, options)
        if not self._effective.uses_conditional_create:
            return self._put(key, upload.data, dict(upload.attributes))
        return resolve_write(Create(upload), self._effective)

    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        upload = self._upload(key, data, options)
        if not self._effective.uses_conditional_update:
            return self._put(key, upload.data, dict(upload.attributes))
        return resolve_write(Replace(upload, version, self._quotes), self._effective)

    def copy(self, source: str, target: str, version: Version | None = None) -> None:
        self._require_writable()
        validate_key(source)
        validate_key(target)
        if version is not None:
            self._copy_version(source, target, version)
            return
        outcome = self._clients.attempt(
            Purpose.WRITE, lambda store: obstore.copy(store, source, target)
        )
        if isinstance(outcome, Diagnosis):
            raise outcome.to_error("copy", source)

    def _copy_version(self, source: str, target: str, version: Version) -> None:
        # obstore has no conditional copy, so the bytes of that version are written.
        data, meta, attributes = self._reader.get_with_meta(source) or (b"", {}, {})
        if encode_version(meta) != version:
            raise VersionMismatchError(f"{source!r} is no longer what was read")
        attributes.pop(WRITE_ID, None)
        self._put(target, data, attributes)

    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        self._require_writable()
        return delete_many(self._clients, keys, self.concurrency)

    def _put(self, key: str, data: Buffer, attributes: dict[str, str]) -> Version:
        self._require_writable()
        flat = flatten(data)
        how = self._upload_options(len(flat))
        outcome = self._clients.attempt(
            Purpose.WRITE,
            lambda store: obstore.put(store, key, flat, attributes=attributes, **how),
            size_bytes=how["chunk_size"] if how["use_multipart"] else len(flat),
            places=how["max_concurrency"] if how["use_multipart"] else 1,
        )
        if isinstance(outcome, Diagnosis):
            raise outcome.to_error("write", key)
        return encode_version(outcome)

    def _upload(self, key: str, data: Buffer, options: PutOptions) -> Upload:
        self._require_writable()
        attributes = self._attributes(options)
        uses_metadata = self._effective.uses_metadata
        return Upload(self._clients, validate_key(key), flatten(data), attributes, uses_metadata)

    def _upload_options(self, size_bytes: int) -> dict[str, Any]:
        settings = self._effective
        return {
            "use_multipart": size_bytes >= settings.minimum_size_for_multipart_upload,
            # Amazon requires parts of at least 5 MiB, except the last, and at most 10,000 parts.
            "chunk_size": max(5 << 20, settings.ideal_concurrent_request_size, size_bytes // 9_000),
            "max_concurrency": settings.max_concurrent_requests_for_object,
        }

    def _attributes(self, options: PutOptions) -> dict[str, str]:
        attributes = dict(options.metadata) if self._effective.uses_metadata else {}
        if self._connection.traits.has_plain_metadata_names:
            attributes = {re.sub(r"\W", "_", name): text for name, text in attributes.items()}
        if options.content_type is not None:
            attributes["Content-Type"] = options.content_type
        if storage_class := options.storage_class or self._effective.storage_class:
            attributes["Storage-Class"] = storage_class
        return attributes

    def _require_writable(self) -> None:
        if self.is_read_only:
            raise ReadOnlyError(f"the storage is read-only: {self.place}", kind="read-only-storage")


def flatten(data: Buffer) -> Buffer:
    """Return a buffer as one-dimensional bytes, as obstore requires."""
    view = memoryview(data)
    return view.cast("B") if view.nbytes else b""
