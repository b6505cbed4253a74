"""To V2: one new object that says what the refs, the snapshots and the configuration said.

Of a V1 repository no other file is written. What was done to the repository is made up from what is
there, because no older generation keeps a log of it: a ref appears right after the snapshot that it
points to.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.metadata import Value
from frazil.format.repo_info import (
    BranchCreated,
    NewCommit,
    RepoInfo,
    RepoInitialized,
    RepoMigrated,
    RepoStatus,
    SnapshotInfo,
    TagCreated,
    TagDeleted,
    Update,
)
from frazil.format.times import Nanoseconds
from frazil.maintenance.parents import Snapshots, ancestors_of
from frazil.protocols.clock import MICROSECOND, time_after
from frazil.protocols.interface import MAIN

_MILLISECOND = 1000 * MICROSECOND

Refs = Mapping[str, SnapshotId]


@dataclass(frozen=True, slots=True)
class OldRepository:
    """All that a repository before V2 keeps in many files."""

    branches: Refs
    tags: Refs
    deleted_tags: Refs
    snapshots: Snapshots
    """Just those that branches and tags lead to."""
    config: Mapping[str, JsonValue] | None
    """As it was saved."""

    @property
    def root(self) -> SnapshotInfo:
        """The first snapshot."""
        *_, first = self.line(MAIN)
        return first

    def line(self, branch: str) -> Iterator[SnapshotInfo]:
        """The snapshots of a branch, newest first."""
        tip = self.snapshots[self.branches[branch]]
        yield tip
        yield from ancestors_of(self.snapshots, tip)

    def find_time(self, id: SnapshotId) -> Nanoseconds:
        """When a snapshot was written; if only a deleted tag leads to it, that is not known."""
        found = self.snapshots.get(id)
        return self.root.flushed_at if found is None else found.flushed_at


def plan_migration(old: OldRepository, now: Nanoseconds) -> RepoInfo:
    """The repo info of an older repository."""
    past = _spread([Update(RepoInitialized(), old.root.flushed_at), *_invent_updates(old)])
    # Whatever it was: the official library refuses a log with versions before 1.
    migrated = Update(RepoMigrated(1, 2), time_after(past[-1].updated_at, now))
    return RepoInfo(
        branches=dict(old.branches),
        tags=dict(old.tags),
        deleted_tags=frozenset(old.deleted_tags),
        snapshots={id: _in_microseconds(each) for id, each in old.snapshots.items()},
        status=RepoStatus(set_at=old.root.flushed_at),
        latest_updates=(migrated, *reversed(past)),
        config=None if old.config is None else Value(dict(old.config)),
    )


def _in_microseconds(info: SnapshotInfo) -> SnapshotInfo:
    return replace(info, flushed_at=info.flushed_at // MICROSECOND * MICROSECOND)


# The log of operations


def _invent_updates(old: OldRepository) -> Iterator[Update]:
    yield from _invent_commits(old)
    for name, tip in sorted(old.branches.items()):
        if name != MAIN:
            yield Update(BranchCreated(name), old.find_time(tip) + _MILLISECOND)
    for name, tip in sorted(old.tags.items()):
        yield Update(TagCreated(name), old.find_time(tip) + _MILLISECOND)
    for name, tip in sorted(old.deleted_tags.items()):
        time = old.find_time(tip)
        yield Update(TagCreated(name), time + _MILLISECOND)
        yield Update(TagDeleted(name, tip), time + 2 * _MILLISECOND)


def _invent_commits(old: OldRepository) -> Iterator[Update]:
    """A commit for each snapshot that a branch leads to; to `main`, if that leads there, too."""
    seen: set[SnapshotId] = set()
    names = sorted(old.branches, key=lambda name: (name != MAIN, name))
    for name in names:
        for each in old.line(name):
            if each.id in seen:
                break
            seen.add(each.id)
            if each.parent_id is not None:
                yield Update(NewCommit(name, each.id), each.flushed_at)


def _spread(updates: Iterable[Update]) -> list[Update]:
    """In order of their times, no two at once."""
    spread: list[Update] = []
    for update in sorted(updates, key=lambda each: each.updated_at):
        time = update.updated_at // MICROSECOND * MICROSECOND
        if spread:
            time = max(time, spread[-1].updated_at + MICROSECOND)
        spread.append(replace(update, updated_at=time))
    return spread
