"""Tasks that run together end together."""

import asyncio
import threading

import pytest

from frazil.async_names import end_tasks, run_together
from frazil.errors import StorageError


class Waiting:
    """Coroutines that wait for ever, and how many have begun and ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    async def wait(self) -> None:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # ending may take a while
            self.ended += 1


async def fail() -> None:
    await asyncio.sleep(0)
    raise StorageError("away")


def test_results_come_in_order() -> None:
    async def give(number: int) -> int:
        for _ in range(5 - number):
            await asyncio.sleep(0)
        return number

    async def run() -> list[int]:
        return await run_together(give(number) for number in range(5))

    assert asyncio.run(run()) == [0, 1, 2, 3, 4]


def test_when_one_fails_the_others_have_ended_before_it_is_raised() -> None:
    waiting = Waiting()

    async def run() -> None:
        with pytest.raises(StorageError, match="away"):
            await run_together([*(waiting.wait() for _ in range(100)), fail(), fail()])
        assert waiting.begun == waiting.ended == 100
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_all_tasks_of_another_threads_event_loop_are_ended() -> None:
    waiting = Waiting()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    reads = [asyncio.run_coroutine_threadsafe(waiting.wait(), loop) for _ in range(100)]

    end_tasks(loop, timeout_seconds=60)

    assert waiting.begun == waiting.ended == 100
    assert all(each.cancelled() for each in reads)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    end_tasks(loop, timeout_seconds=60)  # one that has stopped has none
    loop.close()


def test_tasks_that_queue_for_a_semaphore_are_ended(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def queue() -> list[asyncio.Task[None]]:
        places = asyncio.Semaphore(10)

        async def wait() -> None:
            async with places:
                await waiting.wait()

        return [asyncio.create_task(wait()) for _ in range(5000)]

    tasks = asyncio.run_coroutine_threadsafe(queue(), loop).result()

    end_tasks(loop, timeout_seconds=60)

    assert all(each.cancelled() for each in tasks)
    assert waiting.begun == waiting.ended < 5000
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert caplog.records == []
