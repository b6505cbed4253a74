"""Reads that begin in one step of an event loop and want near parts of one object share a request."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from frazil.errors import ObjectRangeError
from frazil.storage.interface import Buffer, ByteRange
from frazil.storage.read_plan import PlannedRead, plan_reads

Seen = TypeVar("Seen")
Answer = tuple[Buffer, Seen]
"""The bytes of a range, and what the object was when they were read."""
Read = Callable[[str, ByteRange], Awaitable[Answer[Seen]]]


@dataclass(frozen=True, slots=True)
class _Wish(Generic[Seen]):
    range: ByteRange
    answer: "asyncio.Future[Answer[Seen]]"


class Gathering(Generic[Seen]):
    """Collects reads until the event loop has run what is ready, and makes few requests of them."""

    def __init__(self, read: Read[Seen]) -> None:
        self._read = read
        self._wishes: dict[tuple[asyncio.AbstractEventLoop, str], list[_Wish[Seen]]] = {}
        # An event loop forgets tasks that nobody holds.
        self._tasks: set[asyncio.Task[None]] = set()

    async def get(self, key: str, range: ByteRange) -> Answer[Seen]:
        """A range of an object."""
        loop = asyncio.get_running_loop()
        wish: _Wish[Seen] = _Wish(range, loop.create_future())
        waiting = self._wishes.setdefault((loop, key), [])
        waiting.append(wish)
        if len(waiting) == 1:
            loop.call_soon(self._begin, loop, key)
        return await wish.answer

    def _begin(self, loop: asyncio.AbstractEventLoop, key: str) -> None:
        wishes = [wish for wish in self._wishes.pop((loop, key)) if not wish.answer.done()]
        for plan in plan_reads([wish.range for wish in wishes]):
            members = [wishes[number] for number in plan.members]
            task = loop.create_task(self._fulfil(key, plan, members))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            _end_when_unwanted(task, members)

    async def _fulfil(self, key: str, plan: PlannedRead, wishes: list[_Wish[Seen]]) -> None:
        try:
            data, seen = await self._read(key, ByteRange(plan.start, plan.end))
        except ObjectRangeError as error:
            await self._fulfil_apart(key, wishes, error)
            return
        except asyncio.CancelledError:
            for wish in wishes:
                wish.answer.cancel()
            raise
        except Exception as error:
            # Raised by those who wait for an answer: nobody waits for this task.
            for wish in wishes:
                _fail(wish, error)
            return
        view = memoryview(data)
        for wish in wishes:
            start, end = wish.range.start - plan.start, wish.range.end - plan.start
            if not wish.answer.done():
                wish.answer.set_result((view[start:end], seen))

    async def _fulfil_apart(
        self, key: str, wishes: list[_Wish[Seen]], error: ObjectRangeError
    ) -> None:
        """One by one: a range outside of the object must not spoil the ones inside."""
        if len(wishes) == 1:
            _fail(wishes[0], error)
            return
        for wish in wishes:
            plan = PlannedRead(wish.range.start, wish.range.end, (0,))
            await self._fulfil(key, plan, [wish])


def _fail(wish: _Wish[Seen], error: Exception) -> None:
    if not wish.answer.done():
        wish.answer.set_exception(error)


def _end_when_unwanted(task: "asyncio.Task[None]", wishes: list[_Wish[Seen]]) -> None:
    """Cancel a read when all who waited for it have given up."""
    waiting = len(wishes)

    def leave(_: "asyncio.Future[Answer[Seen]]") -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            task.cancel()

    for wish in wishes:
        wish.answer.add_done_callback(leave)
