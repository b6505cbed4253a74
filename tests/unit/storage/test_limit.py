"""The limit: never exceeded, first come first served, nothing lost when a waiter gives up."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from frazil.errors import InvalidInputError
from frazil.storage.clients import RequestLimit


class Gauge:
    """How many are inside, and the most that ever were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def enter(self, count: int) -> None:
        with self._lock:
            self._inside += count
            self.most = max(self.most, self._inside)

    def leave(self, count: int) -> None:
        with self._lock:
            self._inside -= count


def test_threads_and_event_loops_share_the_places() -> None:
    limit, gauge = RequestLimit(3), Gauge()

    def work(count: int) -> None:
        for _ in range(20):
            with limit.take(count):
                gauge.enter(count)
                time.sleep(0.0005)
                gauge.leave(count)

    async def work_async(count: int) -> None:
        for _ in range(20):
            async with limit.take(count):
                gauge.enter(count)
                await asyncio.sleep(0.0005)
                gauge.leave(count)

    async def gather() -> None:
        await asyncio.gather(*(work_async(1 + number % 3) for number in range(6)))

    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(work, 1 + number % 3) for number in range(6)]
        runs += [pool.submit(lambda: asyncio.run(gather())) for _ in range(2)]
        for run in runs:
            run.result(60)

    assert gauge.most == 3
    with limit.take(3):
        pass


def test_one_who_wants_more_places_than_there_are_takes_all() -> None:
    limit = RequestLimit(2)

    with limit.take(100):
        assert limit.count_free() == 0
    assert limit.count_free() == 2


def test_one_who_wants_many_places_is_not_overtaken_for_ever() -> None:
    limit, order = RequestLimit(2), list[str]()

    async def run() -> None:
        async def wait(name: str, count: int) -> None:
            async with limit.take(count):
                order.append(name)

        async with limit.take(1):
            large = asyncio.create_task(wait("large", 2))
            await asyncio.sleep(0)
            small = asyncio.create_task(wait("small", 1))
            await asyncio.sleep(0.01)
            assert order == []
        await asyncio.gather(large, small)

    asyncio.run(run())
    assert order == ["large", "small"]


def test_a_waiter_that_is_cancelled_holds_up_nobody_and_loses_no_place() -> None:
    limit = RequestLimit(1)

    async def run() -> None:
        async def wait() -> None:
            async with limit.take():
                pass

        async with limit.take():
            tasks = [asyncio.create_task(wait()) for _ in range(3)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            await asyncio.sleep(0)
        # This one has its place already, and learns of it only when the loop runs again.
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    assert limit.count_free() == 1


def test_an_error_inside_gives_the_place_back() -> None:
    limit = RequestLimit(1)

    with pytest.raises(KeyError), limit.take():
        raise KeyError

    assert limit.count_free() == 1


def test_no_places_at_all_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        RequestLimit(0)
