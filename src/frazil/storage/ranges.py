"""Range reads: coalesce neighbouring ranges, share requests, cache blocks."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from frazil.errors import ObjectRangeError
from frazil.lazy import dataclass
from frazil.storage.interface import Buffer, ByteRange, EffectiveSettings, Range

COALESCED_GAP_BYTES = 1024 * 1024
"""Largest gap that is cheaper to read than another request."""

COALESCED_BYTES = 16 * 1024 * 1024
"""Largest request that is made of several ranges; larger ones are faster apart."""


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """A request, and the indices of the ranges it covers."""

    start: int
    end: int
    members: tuple[int, ...]


def plan_reads(
    ranges: Sequence[ByteRange], gap_bytes: int = COALESCED_GAP_BYTES
) -> list[PlannedRead]:
    """Return requests that cover all ranges.

    Ranges less than a gap apart share a request of at most `COALESCED_BYTES`.
    """
    planned: list[tuple[int, int, list[int]]] = []
    for index in sorted(range(len(ranges)), key=lambda index: ranges[index].start):
        start, end = ranges[index].start, ranges[index].end
        if (
            planned
            and start - planned[-1][1] < gap_bytes
            and end - planned[-1][0] <= COALESCED_BYTES
        ):
            first, last, members = planned[-1]
            members.append(index)
            planned[-1] = (first, max(last, end), members)
        else:
            planned.append((start, end, [index]))
    return [PlannedRead(start, end, tuple(members)) for start, end, members in planned]


def split_range(wanted: Range | None, settings: EffectiveSettings) -> list[ByteRange]:
    """Return the parts in which to read a large range concurrently; none for a small range."""
    size = settings.ideal_concurrent_request_size
    if not isinstance(wanted, ByteRange) or (length := wanted.end - wanted.start) < 2 * size:
        return []
    count = min(length // size, settings.max_concurrent_requests_for_object)
    bounds = [wanted.start + length * number // count for number in range(count + 1)]
    return [ByteRange(start, end) for start, end in pairwise(bounds)]


def check_length(data: Buffer, key: str, range: Range | None) -> Buffer:
    """Return the bytes if the range is complete; raise ObjectRangeError if the object is too short."""
    if isinstance(range, ByteRange) and len(data) != range.end - range.start:
        raise ObjectRangeError(
            f"{key!r} has {range.start + len(data)} bytes, not {range.start}..{range.end}"
        )
    return data


Seen = TypeVar("Seen")
Answer = tuple[Buffer, Seen]
"""Bytes of a range, and the state of the object when they were read."""
Read = Callable[[str, ByteRange], Awaitable[Answer[Seen]]]


@dataclass(frozen=True, slots=True)
class _PendingRead(Generic[Seen]):
    range: ByteRange
    answer: "asyncio.Future[Answer[Seen]]"


class Gathering(Generic[Seen]):
    """Collects the reads of one event loop iteration and coalesces them into few requests."""

    def __init__(self, read: Read[Seen]) -> None:
        self._read = read
        self._pending: dict[tuple[asyncio.AbstractEventLoop, str], list[_PendingRead[Seen]]] = {}
        # An event loop keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    async def get(self, key: str, range: ByteRange) -> Answer[Seen]:
        """Return a range of an object."""
        loop = asyncio.get_running_loop()
        read: _PendingRead[Seen] = _PendingRead(range, loop.create_future())
        waiting = self._pending.setdefault((loop, key), [])
        waiting.append(read)
        if len(waiting) == 1:
            loop.call_soon(self._begin, loop, key)
        return await read.answer

    def _begin(self, loop: asyncio.AbstractEventLoop, key: str) -> None:
        reads = [read for read in self._pending.pop((loop, key)) if not read.answer.done()]
        for plan in plan_reads([read.range for read in reads]):
            members = [reads[number] for number in plan.members]
            task = loop.create_task(self._fulfil(key, plan, members))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            _end_when_unwanted(task, members)

    async def _fulfil(self, key: str, plan: PlannedRead, reads: list[_PendingRead[Seen]]) -> None:
        try:
            data, seen = await self._read(key, ByteRange(plan.start, plan.end))
        except ObjectRangeError as error:
            await self._fulfil_apart(key, reads, error)
            return
        except asyncio.CancelledError:
            for read in reads:
                read.answer.cancel()
            raise
        except Exception as error:
            # Raised by the waiting readers: nothing awaits this task.
            for read in reads:
                _fail(read, error)
            return
        view = memoryview(data)
        for read in reads:
            start, end = read.range.start - plan.start, read.range.end - plan.start
            if not read.answer.done():
                read.answer.set_result((view[start:end], seen))

    async def _fulfil_apart(
        self, key: str, reads: list[_PendingRead[Seen]], error: ObjectRangeError
    ) -> None:
        """Read ranges one by one: a range outside of the object must not fail the others."""
        if len(reads) == 1:
            _fail(reads[0], error)
            return
        for read in reads:
            plan = PlannedRead(read.range.start, read.range.end, (0,))
            await self._fulfil(key, plan, [read])


def _fail(read: _PendingRead[Seen], error: Exception) -> None:
    if not read.answer.done():
        read.answer.set_exception(error)


def _end_when_unwanted(task: "asyncio.Task[None]", reads: list[_PendingRead[Seen]]) -> None:
    """Cancel a read when all its readers were cancelled."""
    waiting = len(reads)

    def leave(_: "asyncio.Future[Answer[Seen]]") -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            task.cancel()

    for read in reads:
        read.answer.add_done_callback(leave)


ReadRange = Callable[[int, int], bytes]
"""Function that returns the bytes from a start to an end."""

BLOCK_BYTES = 128 << 10
_MOST_BLOCKS = 32
"""Maximum number of blocks per request of a sequential read."""
_SMALL_FILE_BLOCKS = 8
"""Files up to this number of blocks are read in one request."""


class BlockFile(io.RawIOBase):
    """File-like object over range requests, with a block cache and read-ahead."""

    def __init__(self, read_range: ReadRange, size_bytes: int, start: bytes = b"") -> None:
        super().__init__()
        self._read_range = read_range
        self._size = size_bytes
        self._position = 0
        self._blocks: dict[int, bytes] = {}
        self._keep(0, start)
        self._next = len(self._blocks)
        self._ahead = 1
        self.failure: Exception | None = None
        """Error of the last failed read."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the current position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read into a buffer and return the number of bytes."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._position < self._size:
            number, inside = divmod(self._position, BLOCK_BYTES)
            part = self._block(number)[inside : inside + len(view) - done]
            view[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            self._fetch(number)
        return self._blocks[number]

    def _fetch(self, number: int) -> None:
        last = -(-self._size // BLOCK_BYTES)
        self._ahead = min(2 * self._ahead, _MOST_BLOCKS) if number == self._next else 1
        count = last if last <= _SMALL_FILE_BLOCKS else self._ahead
        self._next = min(number + count, last)
        start, end = number * BLOCK_BYTES, min(self._next * BLOCK_BYTES, self._size)
        try:
            data = self._read_range(start, end)
        except Exception as error:
            self.failure = error
            raise
        if len(data) != end - start:
            raise OSError(f"{end - start} bytes were asked for, and {len(data)} came")
        self._keep(number, data)

    def _keep(self, number: int, data: bytes) -> None:
        """Cache the complete blocks of some bytes, and the last block of the file."""
        for start in range(0, len(data), BLOCK_BYTES):
            block = data[start : start + BLOCK_BYTES]
            at = number * BLOCK_BYTES + start
            if len(block) == BLOCK_BYTES or at + len(block) == self._size:
                self._blocks[at // BLOCK_BYTES] = block
