"""The stages of a check, in groups."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from frazil.assets import Assets
from frazil.maintenance.checking.inventory import Inventory, take_inventory
from frazil.maintenance.checking.manifest_walking import (
    CheckManifests,
    ManifestTotals,
    WantedManifest,
)
from frazil.maintenance.checking.orphans import ChunkTotals
from frazil.maintenance.checking.workers import Stage
from frazil.spark.health.comparing import CompareShare, ReadAgain, ReadManifests, sum_up
from frazil.spark.health.exchange import exchange
from frazil.spark.health.hands import Hands, count_refs, weigh

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TaskWorkers:
    """Runs the stages of a check in groups."""

    hands: Hands

    @property
    def parallel(self) -> int:
        """How many parts are at work at once."""
        return self.hands.parallel

    def take_inventory(self, assets: Assets) -> Inventory:
        """What the storage lists, but for chunks: those are listed share by share."""
        return take_inventory(assets, with_chunks=False)

    def run(
        self, what: str, stage: Stage[T, R], items: Sequence[T], sizes: Sequence[int]
    ) -> list[R]:
        """What a stage gives for each group of items."""
        groups = self.hands.group(items, sizes)
        task = _StageTask(stage, self.hands.storage.concurrency)
        return self.hands.choose_runner(groups).run(what, task, groups)

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """Manifests are read, then chunks compared by share, then those manifests that lack some."""
        groups = self.hands.group(wanted, [weigh(each.info) for each in wanted])
        runner = self.hands.choose_runner(groups)
        self.hands.job.expect("reading manifests", manifests=len(wanted))
        shares = self.hands.count_shares(runner, sum(count_refs(each.info) for each in wanted))
        find = ReadManifests(stage, shares)
        compare = CompareShare(stage.assets, shares, inventory.id_size)
        found, compared = exchange(runner, "reading manifests", find, groups, compare, shares)
        chunks = sum_up(compared)
        lacking = sorted(chunks.groups)
        again = ReadAgain.of(stage, chunks.wrong)
        told = runner.run("finding lost chunks", again, [groups[each] for each in lacking])
        parts = dict(enumerate(found)) | dict(zip(lacking, told, strict=True))
        totals = ManifestTotals()
        for part in parts.values():
            totals.add(part)
        return totals, chunks.totals


@dataclass(frozen=True, slots=True)
class _StageTask(Generic[T, R]):
    stage: Stage[T, R]
    concurrency: int

    def __call__(self, items: Sequence[T]) -> R:
        with ThreadPoolExecutor(self.concurrency) as pool:
            return self.stage(pool, items)
