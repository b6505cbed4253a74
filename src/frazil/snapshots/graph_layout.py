"""Where the snapshots of a graph go: a row each, newest on top, in lanes of snapshots in line.

Every snapshot has one parent at most, so lanes never split on the way down; they only meet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frazil.snapshots.infos import SnapshotInfo


@dataclass(frozen=True, slots=True)
class Row:
    """A snapshot in its lane, with what passes it by."""

    snapshot: SnapshotInfo
    lane: int
    passing: tuple[int, ...]
    """Lanes of others that go on beside it."""
    joining: tuple[int, ...]
    """Lanes that end here, in a line from above the row to the snapshot."""
    has_parent: bool
    """Whether its lane goes on below."""


@dataclass(frozen=True, slots=True)
class Label:
    """What is written beside a snapshot."""

    id: str
    """Its first characters."""
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    message: str
    """Its first line."""


def num_lanes(rows: Iterable[Row]) -> int:
    """How many lanes a drawing needs."""
    return max((max(row.lane, *row.passing, *row.joining, 0) + 1 for row in rows), default=0)


def plan_rows(snapshots: Iterable[SnapshotInfo]) -> tuple[Row, ...]:
    """Rows of a graph; a parent that is not among the snapshots ends its lane."""
    by_id = {each.id: each for each in snapshots}
    lanes: list[str | None] = []  # which snapshot each lane leads to
    rows = []
    for each in _sort(by_id):
        meeting = [lane for lane, target in enumerate(lanes) if target == each.id]
        lane = meeting[0] if meeting else _free_lane(lanes)
        for ended in meeting:
            lanes[ended] = None
        lanes[lane] = each.parent_id if each.parent_id in by_id else None
        passing = (i for i, target in enumerate(lanes) if target is not None and i != lane)
        rows.append(Row(each, lane, tuple(passing), tuple(meeting[1:]), lanes[lane] is not None))
    return tuple(rows)


def _free_lane(lanes: list[str | None]) -> int:
    if None in lanes:
        return lanes.index(None)
    lanes.append(None)
    return len(lanes) - 1


def _sort(by_id: Mapping[str, SnapshotInfo]) -> list[SnapshotInfo]:
    """Newest first, and a parent always below its children, whatever their clocks said."""
    waiting = dict.fromkeys(by_id, 0)
    for each in by_id.values():
        if each.parent_id in waiting:
            waiting[each.parent_id] += 1
    ready = [each for each in by_id.values() if not waiting[each.id]]
    ordered = []
    while ready:
        newest = max(ready, key=lambda each: (each.written_at, each.id))
        ready.remove(newest)
        ordered.append(newest)
        if newest.parent_id in waiting:
            waiting[newest.parent_id] -= 1
            if not waiting[newest.parent_id]:
                ready.append(by_id[newest.parent_id])
    return ordered
