"""Objects that others wrote and may change: every answer is looked at before its bytes are used.

What an object was is taken from the answer that holds the bytes, not asked for by a condition of the
request: so it is of the same moment, a refusal can tell what was found, and stores that take conditions
their own way, or not at all, are no matter.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

import obstore
from obstore.store import ObjectStore

from frazil.asynchronous import run_together
from frazil.errors import ObjectRangeError
from frazil.storage import disk
from frazil.storage.client import Purpose
from frazil.storage.clients import Clients
from frazil.storage.connections import Connection
from frazil.storage.gathering import Gathering
from frazil.storage.interface import Buffer, ByteRange, resolve_range
from frazil.storage.settings import StorageSettings, resolve_settings
from frazil.storage.store_errors import Diagnosis, Failure
from frazil.storage.store_reading import check_length, split_range

_WORTH_A_THREAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Observed:
    """What an object was when it was read."""

    e_tag: str | None
    modified_at: datetime


Check = Callable[[Observed], None]
"""Raises where the object is not the one that is meant."""


class ForeignObjects(Protocol):
    """A place with objects of others."""

    def get(self, key: str, range: ByteRange, check: Check) -> Buffer:
        """Bytes of an object that passes the check; raises StorageError, or what the check raises."""

    async def get_async(self, key: str, range: ByteRange, check: Check) -> Buffer:
        """`get` for an event loop."""


class ForeignStore:
    """Objects in an object store, which is opened on first use."""

    def __init__(self, connection: Connection) -> None:
        self._settings = resolve_settings(StorageSettings())
        self._clients = Clients(connection, self._settings)
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
        """A range, with what the object was each time that a piece of it was read."""
        observed: list[Observed] = []
        pieces = split_range(range, self._settings)
        if not pieces:
            return await self._get_piece_async(key, range, observed.append), observed
        parts = await run_together(
            self._get_piece_async(key, piece, observed.append) for piece in pieces
        )
        return b"".join(parts), observed

    def _get_piece(self, key: str, range: ByteRange, check: Check) -> Buffer:
        outcome = self._clients.attempt(Purpose.READ, lambda store: _fetch(store, key, range))
        return _judge(outcome, key, range, check)

    async def _get_piece_async(self, key: str, range: ByteRange, check: Check) -> Buffer:
        outcome = await self._clients.attempt_async(
            Purpose.READ, lambda store: _fetch_async(store, key, range)
        )
        return _judge(outcome, key, range, check)


class ForeignFiles:
    """Files by their path without the slash at its start.

    Their etag is the one that obstore gives to files.
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
