"""Reads of one object that begin together: few requests, and every one answered by itself."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from frazil.errors import ObjectNotFoundError, ObjectRangeError, StorageError
from frazil.storage.interface import Buffer, ByteRange
from frazil.storage.ranges import Gathering

OBJECT = bytes(range(256)) * 16
FAR = 3 << 20


class Source:
    """Objects that hold the same bytes, and the requests that were made."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int, int]] = []

    async def read(self, key: str, range: ByteRange) -> tuple[Buffer, str]:
        self.requests.append((key, range.start, range.end))
        await asyncio.sleep(0)
        if range.end > len(OBJECT) and range.start < FAR:
            raise ObjectRangeError(f"{key} has no bytes at {range.end}")
        return OBJECT[range.start : range.end] or bytes(range.end - range.start), key


def read_together(source: Source, wanted: Sequence[tuple[str, int, int]]) -> list[Any]:
    async def read() -> list[Any]:
        gathering = Gathering(source.read)
        reads = [gathering.get(key, ByteRange(start, end)) for key, start, end in wanted]
        return list(await asyncio.gather(*reads, return_exceptions=True))

    return asyncio.run(read())


def test_near_ranges_of_an_object_are_one_request() -> None:
    source = Source()

    found = read_together(source, [("a", 100, 110), ("a", 0, 10), ("a", 50, 60)])

    assert [(bytes(data), seen) for data, seen in found] == [
        (OBJECT[start:end], "a") for start, end in ((100, 110), (0, 10), (50, 60))
    ]
    assert source.requests == [("a", 0, 110)]


def test_other_objects_and_far_ranges_are_requests_of_their_own() -> None:
    source = Source()

    read_together(source, [("a", 0, 10), ("b", 10, 20), ("a", FAR, FAR + 1)])

    assert sorted(source.requests) == [("a", 0, 10), ("a", FAR, FAR + 1), ("b", 10, 20)]


def test_a_range_outside_of_the_object_spoils_no_other() -> None:
    found = read_together(Source(), [("a", 0, 10), ("a", 4090, 5000), ("a", 20, 30)])

    assert isinstance(found[1], ObjectRangeError)
    assert [bytes(found[number][0]) for number in (0, 2)] == [OBJECT[:10], OBJECT[20:30]]


def test_who_gives_up_disturbs_nobody() -> None:
    source = Source()

    async def read() -> bytes:
        gathering = Gathering(source.read)
        impatient = asyncio.create_task(gathering.get("a", ByteRange(0, 10)))
        patient = asyncio.create_task(gathering.get("a", ByteRange(10, 20)))
        await asyncio.sleep(0)
        impatient.cancel()
        data, _ = await patient
        return bytes(data)

    assert asyncio.run(read()) == OBJECT[10:20]


class Broken(Source):
    """A server that fails every request, with any error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def read(self, key: str, range: ByteRange) -> tuple[Buffer, str]:
        self.requests.append((key, range.start, range.end))
        await asyncio.sleep(0)
        raise self.error


@pytest.mark.parametrize(
    "error", [ObjectNotFoundError("there is no a"), StorageError("away"), ValueError("broken")]
)
def test_reads_that_share_a_request_fail_as_one(error: Exception) -> None:
    source = Broken(error)

    found = read_together(source, [("a", start, start + 10) for start in range(0, 1000, 10)])

    assert found == [error] * 100
    assert source.requests == [("a", 0, 1000)]


@pytest.mark.parametrize("error", [StorageError("away"), ValueError("broken")])
def test_a_failure_is_left_to_no_event_loop(error: Exception) -> None:
    reported: list[object] = []

    async def read() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, each: reported.append(each))
        gathering = Gathering(Broken(error).read)
        with pytest.raises(type(error)):
            await gathering.get("a", ByteRange(0, 10))
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(read())

    assert reported == []


def test_a_request_ends_when_all_have_given_up() -> None:
    ended: list[str] = []

    class Slow(Source):
        async def read(self, key: str, range: ByteRange) -> tuple[Buffer, str]:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(key)
            return bytes(range.end), key

    async def read() -> None:
        gathering = Gathering(Slow().read)
        reads = [asyncio.create_task(gathering.get("a", ByteRange(n, n + 1))) for n in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for number, each in enumerate(reads):
            assert ended == [], number
            each.cancel()
            await asyncio.wait([each])
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ended == ["a"]

    asyncio.run(read())


def test_one_gathering_serves_one_event_loop_after_the_other() -> None:
    source = Source()
    gathering = Gathering(source.read)

    for _ in range(2):
        data, _ = asyncio.run(gathering.get("a", ByteRange(0, 4)))
        assert bytes(data) == OBJECT[:4]


@pytest.mark.parametrize("count", [1, 64])
def test_reads_that_follow_each_other_stay_apart(count: int) -> None:
    source = Source()

    async def read() -> None:
        gathering = Gathering(source.read)
        for number in range(count):
            await gathering.get("a", ByteRange(number, number + 1))

    asyncio.run(read())

    assert len(source.requests) == count
