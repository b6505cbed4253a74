"""What is garbage: pure functions of the repo info, of listings and of sets of ids.

An object is garbage if nothing that stays refers to it and if it is older than the cutoff by the clock
of its storage. The cutoff alone protects what running sessions have written and nothing refers to yet.
"""

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.parents import reachable_snapshots, release

_SECOND = timedelta(seconds=1)


def is_older(created_at: datetime, cutoff: datetime) -> bool:
    """Whether an object was certainly written before the cutoff.

    A time without a fraction is that of a storage that rounds down: it may be up to a second later.
    """
    if created_at.microsecond == 0:
        return created_at + _SECOND <= cutoff
    return created_at < cutoff


@dataclass(frozen=True, slots=True)
class GarbagePlan:
    """Which snapshots leave the history of a V2 repository."""

    before: RepoInfo
    """On which the plan rests."""
    old: frozenset[SnapshotId]
    """Snapshots with files from before the cutoff."""
    dropped: frozenset[SnapshotId]
    """Those of the history that no ref leads to, with files from before the cutoff."""

    @property
    def kept(self) -> Set[SnapshotId]:
        """Snapshots whose manifests and chunks stay."""
        return self.before.snapshots.keys() - self.dropped

    def kept_by_age(self) -> list[SnapshotId]:
        """The same, oldest first: what is marked together then has a chance to go together."""
        known = self.before.snapshots
        return sorted(self.kept, key=lambda id: (known[id].flushed_at, id))

    def still_holds(self, now: RepoInfo) -> bool:
        """Whether nothing has come to rest on what shall go, since the plan was made."""
        new = now.snapshots.keys() - self.before.snapshots.keys()
        rest_on = {now.snapshots[id].parent_id for id in new}
        needed = rest_on | reachable_snapshots(now)
        return self.dropped.isdisjoint(needed) and self.old.isdisjoint(new)


def plan_garbage(info: RepoInfo, old: frozenset[SnapshotId]) -> GarbagePlan:
    """What leaves the history, given which snapshots have files from before the cutoff."""
    unreached = info.snapshots.keys() - reachable_snapshots(info)
    return GarbagePlan(info, old, old & unreached)


def drop_snapshots(info: RepoInfo, dropped: Set[SnapshotId]) -> RepoInfo:
    """The repo info without some snapshots; who loses a parent gets the nearest ancestor that stays."""
    return release(info, dropped, dropped)


def retained_logs(info: RepoInfo) -> frozenset[SnapshotId]:
    """The snapshots whose transaction logs are needed, also of such as left the history."""
    pruned = (log for each in info.snapshots.values() for log in each.pruned_ancestor_tx_logs)
    return frozenset(info.snapshots) | frozenset(pruned)
