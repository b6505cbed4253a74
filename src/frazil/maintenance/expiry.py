"""Which snapshots of a V2 repository expire, and what its repo info is then: pure.

The first snapshot never expires, nor do the tips of `main` and of protected branches. The tips of other
refs stay, too, unless expired refs shall be deleted. A snapshot that stays and loses its parent
continues from its nearest ancestor that is not too old: from the first one, unless a clock went back.
"""

from dataclasses import dataclass, replace

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.times import Nanoseconds
from frazil.maintenance.parents import release
from frazil.protocols.interface import MAIN
from frazil.protocols.protection import read_protected


@dataclass(frozen=True, slots=True)
class ExpiryPolicy:
    """What is too old, and whether refs to it go with it."""

    older_than: Nanoseconds
    deletes_branches: bool = False
    deletes_tags: bool = False

    def is_expired(self, snapshot: SnapshotInfo) -> bool:
        """Whether a snapshot is too old."""
        return snapshot.flushed_at < self.older_than


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    """What an expiry does."""

    released: frozenset[SnapshotId]
    """No longer part of the history."""
    info: RepoInfo
    """As it shall be."""


def plan_expiry(info: RepoInfo, policy: ExpiryPolicy) -> ExpiryPlan:
    """What leaves the history of a V2 repository, and what is left of it."""
    candidates = frozenset(
        id
        for id, each in info.snapshots.items()
        if each.parent_id is not None and policy.is_expired(each)
    )
    released = candidates - _protected(info, policy)
    lasting = _lasting(info)
    branches = {
        name: tip
        for name, tip in info.branches.items()
        if name in lasting or not policy.deletes_branches or tip not in candidates
    }
    tags = {
        name: tip
        for name, tip in info.tags.items()
        if not policy.deletes_tags or tip not in candidates
    }
    left = replace(
        info,
        branches=branches,
        tags=tags,
        deleted_tags=info.deleted_tags | (info.tags.keys() - tags.keys()),
    )
    return ExpiryPlan(released, release(left, released, candidates))


def _protected(info: RepoInfo, policy: ExpiryPolicy) -> set[SnapshotId]:
    """Snapshots that stay however old they are."""
    protected = {info.branches[name] for name in _lasting(info) & info.branches.keys()}
    if not policy.deletes_branches:
        protected.update(info.branches.values())
    if not policy.deletes_tags:
        protected.update(info.tags.values())
    return protected


def _lasting(info: RepoInfo) -> set[str]:
    """Branches that no expiry deletes."""
    return {MAIN, *read_protected(info.metadata)}
