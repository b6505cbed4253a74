"""A collector with many hands: what it knows is in the storage, and tasks do its work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.batches import in_batches
from frazil.maintenance.collectors import CollectionOptions
from frazil.maintenance.deleting import Deleted
from frazil.maintenance.id_columns import Ids, IdSet, column_of
from frazil.maintenance.limits import SweepLimits
from frazil.maintenance.listing import find_id_size
from frazil.maintenance.shares import Share, cut
from frazil.spark.arrays.runner import Runner
from frazil.spark.garbage.mark_table import Part, Place, list_parts, split_parts
from frazil.spark.garbage.reviewing import Found, review
from frazil.spark.garbage.tasks import (
    FindManifests,
    MarkManifests,
    Sweep,
    Swept,
    count_refs,
    group_manifests,
    sweep_reviewed,
)
from frazil.storage.interface import ObjectInfo

SNAPSHOTS_A_TASK = 50
MOST_REFS_A_TASK = 1_000_000
LEAST_REFS_A_TASK = 100_000
MOST_FILES_A_TASK = 5_000
IDS_A_SHARE = 2_000_000
TASKS_PER_SLOT = 3

ChooseRunner = Callable[[int], Runner]
"""By how many references are to be compared."""


@dataclass(slots=True)
class TaskCollector:
    """Marks into a table of Parquet files, and sweeps by shares of ids."""

    assets: Assets
    options: CollectionOptions
    choose_runner: ChooseRunner
    slots: int
    marks: Place
    reviews: Place
    manifests: IdSet = field(default_factory=IdSet)
    parts: list[Part] = field(default_factory=list)
    stale: list[Part] = field(default_factory=list)
    found: dict[str, Found] = field(default_factory=dict)
    reused: int = 0
    """Manifests whose parts of the table were there before."""
    _runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """Where tasks run; known once something is marked."""
        if self._runner is None:
            self._runner = self.choose_runner(0)
        return self._runner

    def mark(self, snapshots: Iterable[SnapshotId]) -> None:
        """Let stay what these refer to; only manifests that no part of the table has are read."""
        found = self._find_manifests(list(snapshots))
        todo = self._choose(found, self.manifests.add)
        if self._runner is None:
            self._runner = self.choose_runner(sum(map(count_refs, todo)))
            todo = self._reuse(todo)
        self._mark_new(todo)

    def _find_manifests(self, snapshots: list[SnapshotId]) -> list[ManifestFileInfo]:
        find = FindManifests(self.assets, self.options.walk)
        groups = list(in_batches(snapshots, SNAPSHOTS_A_TASK))
        if len(groups) <= self.slots:
            return find(snapshots)
        runner = self._runner or self.choose_runner(MOST_REFS_A_TASK + 1)
        each_once = {
            info.id: info
            for infos in runner.run("reading snapshots", find, groups)
            for info in infos
        }
        return list(each_once.values())

    def _reuse(self, manifests: list[ManifestFileInfo]) -> list[ManifestFileInfo]:
        """Take up the parts of earlier collections; gives what they don't have."""
        self.parts, self.stale = split_parts(list_parts(self.marks), self.manifests)
        known = IdSet()
        for part in self.parts:
            known.add(part.manifests)
        remaining = self._choose(manifests, lambda ids: ~known.contains(ids))
        self.reused = len(manifests) - len(remaining)
        return remaining

    def _choose(
        self, manifests: list[ManifestFileInfo], choose: Callable[[Ids], NDArray[np.bool_]]
    ) -> list[ManifestFileInfo]:
        """Those whose ids are chosen of all their ids, sorted."""
        ids = sorted({info.id for info in manifests})
        chosen = set(compress(ids, choose(column_of(ids, find_id_size(self.assets)))))
        return [info for info in manifests if info.id in chosen]

    def _mark_new(self, manifests: list[ManifestFileInfo]) -> None:
        fair = sum(map(count_refs, manifests)) // (self.slots * TASKS_PER_SLOT)
        most = min(max(fair, LEAST_REFS_A_TASK), MOST_REFS_A_TASK)
        groups = group_manifests(manifests, most, MOST_FILES_A_TASK)
        mark = MarkManifests(self.assets, self.marks, self.options.walk)
        self.parts += self.runner.run("marking", mark, groups)

    def delete(self, kind: str, garbage: Iterable[ObjectInfo]) -> Deleted:
        """Delete these, here: they are few."""
        data = review(self.reviews, f"{kind}.parquet", kind, garbage, self._why())
        return self._take(kind, [sweep_reviewed(self.assets, data, self._limits(1), kind)])

    def delete_chunks(self) -> Deleted:
        """Delete the native chunks that are not marked, a task a share."""
        shares = self._cut()
        sweep = Sweep(
            self.assets,
            self.options.cutoff,
            self.marks,
            tuple(self.parts),
            self.reviews,
            self._why(),
            self._limits(min(self.slots, len(shares))),
        )
        return self._take("chunks", self.runner.run("sweeping", sweep, shares))

    def _cut(self) -> list[Share]:
        needed = -(-sum(part.count for part in self.parts) // IDS_A_SHARE)
        if self.runner.spark is None:
            return cut(needed)
        # A disk lists a folder as a whole for every share.
        at_once = self.slots if self.assets.storage.is_local else self.slots * TASKS_PER_SLOT
        return cut(max(needed, at_once))

    def _limits(self, at_once: int) -> SweepLimits | None:
        """Of each of so many tasks that run at once; None for a dry run."""
        limits = self.options.sweep
        if self.options.is_dry_run:
            return None
        if limits.max_deletes_per_second is None:
            return limits
        fair = max(1.0, limits.max_deletes_per_second / at_once)
        return replace(limits, max_deletes_per_second=fair)

    def _take(self, kind: str, swept: list[Swept]) -> Deleted:
        self.found[kind] = sum((each.found for each in swept), Found())
        return sum((each.deleted for each in swept), Deleted())

    def _why(self) -> str:
        return f"nothing that stays refers to it, and it is from before {self.options.cutoff}"
