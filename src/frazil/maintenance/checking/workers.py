"""Who reads the files of a check: the threads of this process, or others who do the same.

A stage is a function of many files that gives something small. Whoever runs it may cut the files into
parts that follow each other: what a stage gives for parts is put together in their order.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from frazil.assets import Assets
from frazil.maintenance.batches import pack
from frazil.maintenance.checking.inventory import Inventory, take_inventory
from frazil.maintenance.checking.manifest_walking import (
    CheckManifests,
    ManifestTotals,
    WantedManifest,
)
from frazil.maintenance.checking.manifests import ManifestFindings
from frazil.maintenance.checking.orphans import ChunkTotals
from frazil.maintenance.id_columns import IdSet
from frazil.maintenance.limits import MEBIBYTE
from frazil.watching import count

T = TypeVar("T")
R = TypeVar("R")

_PART_BYTES = 512 * MEBIBYTE
"""What threads go through before it is told how far they are."""
_FILE_BYTES = MEBIBYTE // 2
"""What a file takes besides its bytes."""

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
    """The threads of this process."""

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
        what: str,
        stage: Stage[T, R],
        items: Sequence[T],
        sizes: Sequence[int],
    ) -> Iterable[R]:
        """What a stage gives for some items after the other, so that it can be told how far it is."""
        done = count(what, "files", len(items))
        for part in pack(items, [size + _FILE_BYTES for size in sizes], _PART_BYTES):
            yield stage(self.pool, part)
            done.add(len(part))

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """Each manifest against the listing, while it is in memory."""
        stage = replace(stage, around=replace(stage.around, chunks=inventory.chunks))
        used = IdSet()
        done = count("reading manifests", "manifests", len(wanted))

        def take(findings: ManifestFindings) -> None:
            used.add(findings.chunk_ids)
            done.add(1)

        totals = stage.check(self.pool, wanted, take)
        return totals, ChunkTotals.of(inventory.chunks, used)
