"""The line of snapshots: who comes from whom, and when. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.format.times import Nanoseconds
from frazil.maintenance.checking.problems import Problem, Problems, error, warning


@dataclass(frozen=True, slots=True)
class Link:
    """A snapshot, when it was written and which one it follows."""

    key: str
    """The object that says so."""
    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: Nanoseconds


Links = Mapping[SnapshotId, Link]


def links_of(snapshots: Iterable[SnapshotInfo], key: str) -> dict[SnapshotId, Link]:
    """The links that a repo info tells."""
    return {s.id: Link(key, s.id, s.parent_id, s.flushed_at) for s in snapshots}


def check_links(links: Links) -> Problems:
    """Nobody is his own ancestor or older than his parent."""
    cycles = find_cycles(links)
    for members in cycles:
        told = " → ".join(map(str, members))
        yield error(links[members[0]].key, f"snapshots are their own ancestors: {told}")
    in_cycle = {id for members in cycles for id in members}
    for link in links.values():
        parent = None if link.parent_id is None else links.get(link.parent_id)
        if parent is not None and link.id not in in_cycle:
            yield from _check_times(link, parent)


def _check_times(link: Link, parent: Link) -> Iterable[Problem]:
    if link.flushed_at <= parent.flushed_at:
        yield warning(link.key, f"snapshot {link.id} is not younger than its parent {parent.id}")


def find_cycles(links: Links) -> list[tuple[SnapshotId, ...]]:
    """The rings among snapshots, each once, from its least member on."""
    rings: list[tuple[SnapshotId, ...]] = []
    done: set[SnapshotId] = set()
    for start in links:
        trail: dict[SnapshotId, None] = {}
        current: SnapshotId | None = start
        while current is not None and current in links and current not in done:
            if current in trail:
                rings.append(_ring(list(trail), current))
                break
            trail[current] = None
            current = links[current].parent_id
        done.update(trail)
    return rings


def _ring(trail: list[SnapshotId], entrance: SnapshotId) -> tuple[SnapshotId, ...]:
    members = trail[trail.index(entrance) :]
    least = members.index(min(members))
    return (*members[least:], *members[:least])


def walk(links: Links, start: SnapshotId) -> list[SnapshotId]:
    """A snapshot and its ancestors as far as they are known, each once."""
    found: dict[SnapshotId, None] = {}
    current: SnapshotId | None = start
    while current is not None and current not in found:
        found[current] = None
        link = links.get(current)
        current = None if link is None else link.parent_id
    return list(found)
