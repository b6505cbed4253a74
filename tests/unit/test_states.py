"""States, statistics, and iterators that can be closed."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from frazil.format import repo_info
from frazil.ops import (
    AsyncCloseableIterator,
    ChunkStorageStats,
    RepoAvailability,
    RepoStatus,
    SessionMode,
    SpecVersion,
    public_status,
    stored_status,
)

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


def test_versions_are_ordered_numbers() -> None:
    assert SpecVersion.draft < SpecVersion.alpha < SpecVersion.v1 < SpecVersion.v2
    assert [int(each) for each in SpecVersion] == [-1, 0, 1, 2]
    assert SpecVersion.current() is SpecVersion.v2
    assert str(SpecVersion.v1) == repr(SpecVersion.v1) == "SpecVersion.v1"


def test_modes_show_their_names() -> None:
    assert repr(SessionMode.writable) == "SessionMode.writable"
    assert repr(RepoAvailability.read_only) == "RepoAvailability.read_only"


def test_a_status_holds_from_now_on_unless_given() -> None:
    before = datetime.now(UTC)

    status = RepoStatus(RepoAvailability.online)

    assert before <= status.set_at <= datetime.now(UTC)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(TypeError, match="time zone"):
        RepoStatus(RepoAvailability.online, NOON.replace(tzinfo=None))


def test_a_status_is_stored_and_read_again() -> None:
    status = RepoStatus(RepoAvailability.read_only, NOON, "maintenance")

    assert public_status(stored_status(status)) == status
    assert pickle.loads(pickle.dumps(status)) == status


def test_an_offline_repository_is_shown_as_online() -> None:
    stored = repo_info.RepoStatus(repo_info.Availability.OFFLINE)

    assert public_status(stored).availability is RepoAvailability.online


def test_statistics_add_up() -> None:
    total = ChunkStorageStats(1, 2, 3) + ChunkStorageStats(10, 20, 30)

    assert total == ChunkStorageStats(11, 22, 33)
    assert (total.non_virtual_bytes(), total.total_bytes()) == (44, 66)
    assert str(total).startswith("<frazil.stats.ChunkStorageStats>\nnative_bytes: 11\n")


def numbers(ended: list[str]) -> Iterator[int]:
    """Three numbers, and a note of the end."""
    try:
        yield from range(3)
    finally:
        ended.append("sync")


async def numbers_async(ended: list[str]) -> AsyncIterator[int]:
    """The same for an event loop."""
    try:
        for number in range(3):
            yield number
    finally:
        ended.append("async")


@pytest.mark.parametrize("make", [numbers, numbers_async])
def test_an_iterator_gives_everything(make: "type[Iterator[int]]") -> None:
    async def collect() -> list[int]:
        return [each async for each in AsyncCloseableIterator(make([]))]  # type: ignore[call-arg]

    assert asyncio.run(collect()) == [0, 1, 2]


@pytest.mark.parametrize("make", [numbers, numbers_async])
def test_an_iterator_that_is_closed_ends_what_it_is_over(make: "type[Iterator[int]]") -> None:
    ended: list[str] = []

    async def stop_early() -> list[int]:
        items = AsyncCloseableIterator(make(ended))  # type: ignore[call-arg]
        async with aclosing(items):
            first = await anext(items)
        assert len(ended) == 1
        return [first, *[each async for each in items]]

    assert asyncio.run(stop_early()) == [0]


def test_an_iterator_over_a_list_can_be_closed() -> None:
    async def close() -> int:
        items = AsyncCloseableIterator(iter([1, 2]))
        first = await anext(items)
        await items.aclose()
        await items.aclose()
        return first

    assert asyncio.run(close()) == 1
