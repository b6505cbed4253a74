"""What becomes of a snapshot whose ancestors leave the history."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import takewhile

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo, SnapshotInfo

Snapshots = Mapping[SnapshotId, SnapshotInfo]


def ancestors_of(snapshots: Snapshots, snapshot: SnapshotInfo) -> Iterator[SnapshotInfo]:
    """Those before a snapshot, the nearest first."""
    while snapshot.parent_id is not None:
        snapshot = snapshots[snapshot.parent_id]
        yield snapshot


def give_parent(
    snapshot: SnapshotInfo, parent_id: SnapshotId | None, skipped: Sequence[SnapshotInfo]
) -> SnapshotInfo:
    """A snapshot with another parent; it takes over the logs of the ancestors between, nearest first.

    The logs stay in the order in which they were written, so that a diff across them is still whole.
    """
    logs: list[SnapshotId] = []
    for each in reversed(skipped):
        logs += [*each.pruned_ancestor_tx_logs, each.id]
    pruned = (*logs, *snapshot.pruned_ancestor_tx_logs)
    return replace(snapshot, parent_id=parent_id, pruned_ancestor_tx_logs=pruned)


def pass_over(
    snapshots: Snapshots, snapshot: SnapshotInfo, passed: Set[SnapshotId]
) -> SnapshotInfo:
    """A snapshot that continues from its nearest ancestor that is not passed over."""
    skipped = list(
        takewhile(lambda ancestor: ancestor.id in passed, ancestors_of(snapshots, snapshot))
    )
    last = skipped[-1] if skipped else snapshot
    return give_parent(snapshot, last.parent_id, skipped)


def release(info: RepoInfo, released: Set[SnapshotId], passed: Set[SnapshotId]) -> RepoInfo:
    """A repo info without some snapshots; who loses a parent passes over those and perhaps others."""
    left = {
        id: each if each.parent_id not in released else pass_over(info.snapshots, each, passed)
        for id, each in info.snapshots.items()
        if id not in released
    }
    return replace(info, snapshots=left)


def reachable_snapshots(info: RepoInfo) -> frozenset[SnapshotId]:
    """All snapshots that a branch or a tag leads to."""
    found: set[SnapshotId] = set()
    for tip in (*info.branches.values(), *info.tags.values()):
        current: SnapshotId | None = tip
        while current is not None and current not in found:
            found.add(current)
            current = info.snapshots[current].parent_id
    return frozenset(found)
