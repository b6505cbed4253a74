"""Tasks that run together end together."""

import asyncio
import contextlib
import os
import threading

import pytest

from frazil.async_names import Turns, end_tasks, run_concurrently, run_together
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


def test_results_of_concurrent_calls_are_in_the_order_of_their_items() -> None:
    for limit in (1, 2, 50):
        assert run_concurrently(lambda each: each * 2, range(20), limit) == [*range(0, 40, 2)]
    assert run_concurrently(str, [], 5) == []


def test_as_many_calls_run_at_once_as_the_limit_says() -> None:
    all_begun = threading.Barrier(4)

    run_concurrently(lambda _: all_begun.wait(30), range(12), 4)  # which lets four go on, not fewer

    under_way: list[int] = []
    most: list[int] = []

    def call(number: int) -> None:
        under_way.append(number)
        most.append(len(under_way))
        under_way.remove(number)

    run_concurrently(call, range(200), 4)
    assert max(most) <= 4


def test_after_an_error_no_further_call_begins_and_the_first_error_is_raised() -> None:
    seen: list[int] = []

    def fail_at_three(number: int) -> None:
        seen.append(number)
        if number == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        run_concurrently(fail_at_three, range(100), 1)
    assert seen == [0, 1, 2, 3]


def test_concurrent_calls_may_be_nested_deeper_than_there_are_threads() -> None:
    def count_leaves(depth: int) -> int:
        if depth == 0:
            return 1
        return sum(run_concurrently(count_leaves, [depth - 1] * 3, 3))

    assert count_leaves(7) == 3**7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    barrier = threading.Barrier(2)
    run_concurrently(lambda _: barrier.wait(30), range(2), 2)

    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            again = threading.Barrier(2)
            run_concurrently(lambda _: again.wait(30), range(2), 2)
            status = 0
        os._exit(status)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def pass_on(turns: Turns, passed: list[int], number: int) -> None:
    await turns.take()
    passed.append(number)


def test_one_coroutine_goes_on_while_the_others_wait_for_some_iterations() -> None:
    turns, passed = Turns(3), list[int]()

    async def count() -> list[int]:
        tasks = [asyncio.create_task(pass_on(turns, passed, number)) for number in range(3)]
        counts = []
        while len(passed) < len(tasks):
            await asyncio.sleep(0)
            counts.append(len(passed))
        return counts

    counts = asyncio.run(count())

    assert passed == [0, 1, 2]
    assert counts[0] == 1
    assert min(counts.count(1), counts.count(2)) >= 3


def test_a_cancelled_coroutine_leaves_its_turn_to_the_next_and_a_later_one_need_not_wait() -> None:
    turns, passed = Turns(3), list[int]()

    async def cancel() -> None:
        tasks = [asyncio.create_task(pass_on(turns, passed, number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(5):
            await asyncio.sleep(0)
        later = asyncio.create_task(pass_on(turns, passed, 3))
        await asyncio.sleep(0)
        assert passed == [0, 2, 3]
        await later

    asyncio.run(cancel())
    asyncio.run(asyncio.wait_for(pass_on(turns, passed, 4), 30))  # in another event loop

    assert passed == [0, 2, 3, 4]
