"""Who reads the files of a check: the threads of this process, or others who do the same.

A stage is a function of many files that gives something small. Whoever runs it may cut the files into
parts that follow each other: what a stage gives for parts is put together in their order.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from frazil.assets import Assets
from frazil.maintenance.checking.inventory import Inventory, take_inventory
from frazil.maintenance.checking.manifest_walking import (
    CheckManifests,
    ManifestTotals,
    WantedManifest,
)
from frazil.maintenance.checking.orphans import ChunkTotals
from frazil.maintenance.id_columns import IdSet

T = TypeVar("T")
R = TypeVar("R")

Stage = Callable[[ThreadPoolExecutor, Sequence[T]], R]


class Workers(Protocol):
    """Run the stages of a check."""

    @property
    def parallel(self) -> int:
        """How many parts are at work at once."""

    def take_inventory(self, assets: Assets) -> Inventory:
        """What a storage lists; `check_manifests` may be the one to list chunks."""

    def run(
        self, what: str, stage: Stage[T, R], items: Sequence[T], sizes: Sequence[int]
    ) -> Iterable[R]:
        """What a stage gives for each part of the items, which take so many bytes to read."""

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """What was found in all manifests, whose chunks are held against the files that there are."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads of this process; all is one part."""

    pool: ThreadPoolExecutor

    @property
    def parallel(self) -> int:
        """How many parts are at work at once."""
        return 1

    def take_inventory(self, assets: Assets) -> Inventory:
        """All that the storage lists."""
        return take_inventory(assets)

    def run(
        self,
        what: str,  # noqa: ARG002
        stage: Stage[T, R],
        items: Sequence[T],
        sizes: Sequence[int],  # noqa: ARG002
    ) -> Iterable[R]:
        """What a stage gives for all items."""
        return (stage(self.pool, items),)

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """Each manifest against the listing, while it is in memory."""
        stage = replace(stage, around=replace(stage.around, chunks=inventory.chunks))
        used = IdSet()
        totals = stage.check(self.pool, wanted, lambda findings: used.add(findings.chunk_ids))
        return totals, ChunkTotals.of(inventory.chunks, used)
