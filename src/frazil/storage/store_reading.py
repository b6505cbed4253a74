"""What reading asks of a store: one request for one range wherever the store can do that."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, cast

import obstore
from obstore.store import ObjectStore

from frazil.asynchronous import run_together
from frazil.errors import ObjectRangeError, StorageError
from frazil.storage.client import Purpose
from frazil.storage.clients import Clients
from frazil.storage.interface import (
    Buffer,
    ByteOffset,
    ByteRange,
    ByteSuffix,
    ObjectInfo,
    Range,
    resolve_range,
)
from frazil.storage.settings import EffectiveSettings
from frazil.storage.store_errors import Diagnosis, Failure


class Reader:
    """Objects and ranges of them."""

    def __init__(self, clients: Clients, settings: EffectiveSettings) -> None:
        self._clients = clients
        self._settings = settings

    def get(self, key: str, range: Range | None) -> Buffer:
        if self._needs_size(range):
            return self._get_resolved(key, range)
        if pieces := split_range(range, self._settings):
            with ThreadPoolExecutor(len(pieces)) as pool:
                return b"".join(pool.map(lambda piece: self.get(key, piece), pieces))
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

    def get_with_meta(self, key: str) -> tuple[Buffer, Mapping[str, Any], dict[str, str]]:
        """An object's bytes, what the store knows of it, and its attributes."""
        outcome = self._clients.attempt(Purpose.READ, lambda store: _fetch_whole(store, key))
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
                # No request can ask for nothing, but whether it lies inside must be known.
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


def split_range(range: Range | None, settings: EffectiveSettings) -> list[ByteRange]:
    """The pieces in which a large range is read at once; none if it is not worth it."""
    size = settings.ideal_concurrent_request_size
    if not isinstance(range, ByteRange) or range.end - range.start < 2 * size:
        return []
    count = min((range.end - range.start) // size, settings.max_concurrent_requests_for_object)
    length = range.end - range.start
    bounds = [range.start + length * number // count for number in _up_to(count)]
    return [ByteRange(start, end) for start, end in pairwise(bounds)]


def _up_to(count: int) -> list[int]:
    return list(range(count + 1))


def check_length(data: Buffer, key: str, range: Range | None) -> Buffer:
    """The bytes, if they are as many as were asked for; stores cut at the end of an object."""
    if isinstance(range, ByteRange) and len(data) != range.end - range.start:
        raise ObjectRangeError(
            f"{key!r} has {range.start + len(data)} bytes, not {range.start}..{range.end}"
        )
    return data


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


def _fetch_whole(store: ObjectStore, key: str) -> tuple[Buffer, Mapping[str, Any], dict[str, str]]:
    result = obstore.get(store, key)
    meta, attributes = cast("Mapping[str, Any]", result.meta), result.attributes
    return memoryview(result.bytes()), meta, attributes
