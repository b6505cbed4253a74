"""Which requests to make for several ranges of one object: near ones are read as one."""

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.storage.interface import ByteRange

COALESCED_GAP_BYTES = 1024 * 1024
"""Reading this much for nothing is cheaper than another request."""


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """One request, and which of the wanted ranges it answers."""

    start: int
    end: int
    members: tuple[int, ...]


def plan_reads(
    ranges: Sequence[ByteRange], gap_bytes: int = COALESCED_GAP_BYTES
) -> list[PlannedRead]:
    """Requests that together hold every range; ranges less than a gap apart share one."""
    planned: list[tuple[int, int, list[int]]] = []
    for index in sorted(range(len(ranges)), key=lambda index: ranges[index].start):
        start, end = ranges[index].start, ranges[index].end
        if planned and start - planned[-1][1] < gap_bytes:
            first, last, members = planned[-1]
            members.append(index)
            planned[-1] = (first, max(last, end), members)
        else:
            planned.append((start, end, [index]))
    return [PlannedRead(start, end, tuple(members)) for start, end, members in planned]
