"""Source files of virtual references, which others may change: every response is checked before use."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, cast

import obstore
from obstore.store import ObjectStore

from frazil.async_names import run_together
from frazil.credentials import (
    AnyCredential,
    AnyS3Credential,
    Credentials,
    GcsCredentials,
    S3Credentials,
)
from frazil.errors import ObjectRangeError, StorageError
from frazil.lazy import dataclass
from frazil.storage import disk
from frazil.storage.clients import Clients, Diagnosis, Failure
from frazil.storage.connections import (
    AzureConnection,
    Connection,
    GcsConnection,
    Headers,
    HttpConnection,
    Purpose,
    S3Connection,
    require_endpoint,
)
from frazil.storage.interface import (
    Buffer,
    ByteRange,
    StorageSettings,
    resolve_range,
    resolve_settings,
)
from frazil.storage.ranges import Gathering, check_length, split_range
from frazil.storage.store_config import AnyObjectStoreConfig, ObjectStoreConfig, S3Options

_WORTH_A_THREAD_BYTES = 1 << 20
_TOKEN_SECONDS = 60.0
"""Age of a bearer token after which it is looked up again."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observed:
    """ETag and modification time of an object when it was read."""

    e_tag: str | None
    modified_at: datetime


Check = Callable[[Observed], None]
"""Function that raises if the object is not the expected one."""


class ForeignObjects(Protocol):
    """Objects written by others."""

    def get(self, key: str, range: ByteRange, check: Check) -> Buffer:
        """Return bytes of an object that passes the check; raise StorageError or the check's error."""

    async def get_async(self, key: str, range: ByteRange, check: Check) -> Buffer:
        """Run `get` in an event loop."""


def keep_open(
    credential: AnyCredential | None, open: Callable[[AnyCredential | None], T]
) -> Callable[[], T]:
    """Open something now; return a function that returns it, opened again for a new bearer token."""
    if not isinstance(credential, Credentials.HttpBearer):
        opened = open(credential)
        return lambda: opened
    get_token = credential.get_token
    found: list[tuple[float, str, T]] = []

    def find() -> T:
        now = time.monotonic()
        if not found or now - found[-1][0] >= _TOKEN_SECONDS:
            token = get_token()
            is_same = found and found[-1][1] == token
            opened = found[-1][2] if is_same else open(Credentials.HttpBearer(lambda: token))
            found[:] = [(now, token, opened)]
        return found[-1][2]

    find()
    return find


class ForeignStore:
    """Objects in an object store, which is opened on first use."""

    def __init__(
        self,
        connect: Callable[[AnyCredential | None], Connection],
        credential: AnyCredential | None,
    ) -> None:
        settings = self._settings = resolve_settings(StorageSettings())
        self._find_clients = keep_open(credential, lambda own: Clients(connect(own), settings))
        self._gathering = Gathering(self._read_async)

    def get(self, key: str, range: ByteRange, check: Check) -> Buffer:
        if range.start == range.end:
            return b""
        pieces = split_range(range, self._settings)
        if not pieces:
            return self._get_piece(key, range, check)
        with ThreadPoolExecutor(len(pieces)) as pool:
            return b"".join(pool.map(lambda piece: self._get_piece(key, piece, check), pieces))

    async def get_async(self, key: str, range: ByteRange, check: Check) -> Buffer:
        if range.start == range.end:
            return b""
        data, observed = await self._gathering.get(key, range)
        for each in observed:
            check(each)
        return data

    async def _read_async(self, key: str, range: ByteRange) -> tuple[Buffer, list[Observed]]:
        """Return a range, and the state of the object at the read of each part."""
        observed: list[Observed] = []
        pieces = split_range(range, self._settings)
        if not pieces:
            return await self._get_piece_async(key, range, observed.append), observed
        parts = await run_together(
            self._get_piece_async(key, piece, observed.append) for piece in pieces
        )
        return b"".join(parts), observed

    def _get_piece(self, key: str, range: ByteRange, check: Check) -> Buffer:
        outcome = self._find_clients().attempt(
            Purpose.READ, lambda store: _fetch(store, key, range)
        )
        return _judge(outcome, key, range, check)

    async def _get_piece_async(self, key: str, range: ByteRange, check: Check) -> Buffer:
        outcome = await self._find_clients().attempt_async(
            Purpose.READ, lambda store: _fetch_async(store, key, range)
        )
        return _judge(outcome, key, range, check)


class ForeignFiles:
    """Files by their path without the leading slash.

    Their ETag is the one that obstore computes for files.
    """

    def get(self, key: str, range: ByteRange, check: Check) -> Buffer:
        path = f"/{key}"
        try:
            descriptor, status = disk.open_file(path)
        except OSError as error:
            raise disk.translate(error, path) from error
        try:
            check(_observe_file(status))
            start, end = resolve_range(range, status.st_size, path)
            return disk.read_at(descriptor, start, end - start)
        except OSError as error:
            raise disk.translate(error, path) from error
        finally:
            os.close(descriptor)

    async def get_async(self, key: str, range: ByteRange, check: Check) -> Buffer:
        if range.end - range.start < _WORTH_A_THREAD_BYTES:
            return self.get(key, range, check)
        return await asyncio.to_thread(self.get, key, range, check)


_Answer = tuple[Buffer, Mapping[str, Any]]


def _fetch(store: ObjectStore, key: str, range: ByteRange) -> _Answer:
    result = obstore.get(store, key, options={"range": (range.start, range.end)})
    meta = cast("Mapping[str, Any]", result.meta)
    return memoryview(result.bytes()), meta


async def _fetch_async(store: ObjectStore, key: str, range: ByteRange) -> _Answer:
    result = await obstore.get_async(store, key, options={"range": (range.start, range.end)})
    meta = cast("Mapping[str, Any]", result.meta)
    return memoryview(await result.bytes_async()), meta


def _judge(outcome: _Answer | Diagnosis, key: str, range: ByteRange, check: Check) -> Buffer:
    if isinstance(outcome, Diagnosis):
        if outcome.failure is Failure.RANGE:
            raise ObjectRangeError(f"{key!r} has no bytes from {range.start} on")
        raise outcome.to_error("read", key)
    data, meta = outcome
    check(Observed(meta["e_tag"], meta["last_modified"]))
    return check_length(data, key, range)


def _observe_file(status: os.stat_result) -> Observed:
    microseconds = status.st_mtime_ns // 1000
    return Observed(
        f'"{status.st_ino:x}-{microseconds:x}-{status.st_size:x}"',
        datetime.fromtimestamp(status.st_mtime_ns // 10**9, UTC),
    )


_NO_HEADERS = Headers()
_TIGRIS_ENDPOINT = "https://t3.storage.dev"
_ACCOUNT_NAMES = ("account", "account_name", "azure_storage_account_name")


def connect_bucket(
    config: AnyObjectStoreConfig, bucket: str, credential: AnyCredential | None
) -> Connection:
    """Return the connection to a bucket; raise StorageError for a credential of another kind of store.

    Without a credential, S3 uses its options or the environment, and Google Cloud Storage is
    accessed anonymously. Azure requires a credential.
    """
    match config, credential:
        case (
            (ObjectStoreConfig.S3(options) | ObjectStoreConfig.S3Compatible(options)),
            (None | Credentials.S3()),
        ):
            return _connect_s3(options, bucket, credential, "S3")
        case ObjectStoreConfig.Tigris(options), (None | Credentials.S3()):
            endpoint = options.endpoint_url or _TIGRIS_ENDPOINT
            return _connect_s3(
                replace(options, endpoint_url=endpoint), bucket, credential, "Tigris"
            )
        case ObjectStoreConfig.Gcs(opts), None:
            return GcsConnection(bucket, "", GcsCredentials.Anonymous(), _spell(opts))
        case ObjectStoreConfig.Gcs(opts), Credentials.Gcs(given):
            return GcsConnection(bucket, "", given, _spell(opts))
        case ObjectStoreConfig.Azure(opts), Credentials.Azure(given):
            account, rest = _split_account(_spell(opts))
            return AzureConnection(account, bucket, "", given, rest)
    raise mismatch(config, credential)


def connect_server(
    config: AnyObjectStoreConfig, base_url: str, credential: AnyCredential | None
) -> Connection:
    """Return the connection to a web server; raise StorageError for a credential of another kind."""
    match config, credential:
        case ObjectStoreConfig.Http(opts, headers), (None | Credentials.HttpAccess()):
            require_endpoint("server", base_url)
            return HttpConnection(base_url, dict(opts or {}), Headers(read=dict(headers or {})))
        case ObjectStoreConfig.Http(opts, headers), Credentials.HttpBearer(get_token):
            require_endpoint("server", base_url)
            read = {**(headers or {}), "Authorization": f"Bearer {get_token()}"}
            return HttpConnection(base_url, dict(opts or {}), Headers(read=read))
    raise mismatch(config, credential)


def mismatch(config: AnyObjectStoreConfig, credential: AnyCredential | None) -> StorageError:
    """Return the error for a credential of another kind of store."""
    given = "no credential" if credential is None else f"a {type(credential).__qualname__}"
    return StorageError(f"{given} does not give access to {type(config).__qualname__}")


def _connect_s3(
    options: S3Options, bucket: str, credential: Credentials.S3 | None, kind: str
) -> S3Connection:
    given: AnyS3Credential = S3Credentials.FromEnv()
    if credential is not None:
        # An explicit credential takes precedence over the configuration, which may be untrusted.
        given, options = credential.credentials, replace(options, anonymous=False)
    return S3Connection(bucket, "", options, given, _NO_HEADERS, kind)


def _spell(opts: Mapping[str, str] | None) -> dict[str, str]:
    """Return options with lower-case names, which obstore treats as equal.

    Allow HTTP if an endpoint explicitly uses it.
    """
    given = {name.lower(): value for name, value in (opts or {}).items()}
    if any(value.startswith("http://") for value in given.values()):
        given.setdefault("allow_http", "true")
    return given


def _split_account(opts: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    account = next((opts[name] for name in _ACCOUNT_NAMES if name in opts), None)
    if account is None:
        raise StorageError(
            "the configuration of Azure names no account: create it with azure_store(account=…)",
            kind="storage-config",
        )
    return account, {name: opts[name] for name in opts if name not in _ACCOUNT_NAMES}
