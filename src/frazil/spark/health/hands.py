"""Many hands: work in groups of a size for one task, done on Spark or in this process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.batches import pack
from frazil.maintenance.shares import cut
from frazil.spark.arrays.regions import TASKS_PER_SLOT, choose_task_bytes
from frazil.spark.arrays.runner import Runner, RunOn, choose_runner
from frazil.spark.job import Job
from frazil.storage import Storage

T = TypeVar("T")
Group = TypeVar("Group")

FILE_BYTES = 128 * 1024
"""What it takes to ask for a file, in bytes of it."""
REFERENCE_BYTES = 64
"""What it takes to look at a reference of a manifest, in bytes of a file."""
IDS_A_SHARE = 1_000_000


@dataclass(slots=True)
class Hands:
    """Cuts work into groups, and says where they are worked on."""

    spark: SparkSession | None
    job: Job
    run_on: RunOn
    storage: Storage
    slots: int
    task_bytes: int | None = None
    """How much a task takes on; None to choose it by how much there is."""
    ids_a_share: int = IDS_A_SHARE
    ran_on: str = "driver"
    """`spark` once a step has run there."""

    @property
    def parallel(self) -> int:
        """How many groups are worked on at once, at most."""
        return 1 if self.spark is None or self.run_on == "driver" else self.slots

    def group(self, items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
        """Neighbours together, as many as one task should take on."""
        efforts = [size + FILE_BYTES for size in sizes]
        most = self.task_bytes or choose_task_bytes(sum(efforts), self.slots)
        return pack(items, efforts, most)

    def choose_runner(self, groups: Sequence[Group]) -> Runner:
        """The place that was asked for; for no more than one group this process, if none was."""
        is_small = len(groups) <= 1
        runner = choose_runner(self.spark, self.job, self.run_on, self.storage, is_small=is_small)
        if groups and runner.spark is not None:
            self.ran_on = runner.name
        return runner

    def count_shares(self, runner: Runner, num_ids: int) -> int:
        """In how many shares so many ids are compared."""
        needed = -(-num_ids // self.ids_a_share)
        if runner.spark is None:
            return len(cut(needed))
        # A disk lists a folder as a whole for every share.
        at_once = self.slots if self.storage.is_local else self.slots * TASKS_PER_SLOT
        return len(cut(max(needed, at_once)))


def count_refs(info: ManifestFileInfo) -> int:
    """How many references a manifest has, or may have."""
    known = info.num_chunk_refs
    return (info.size_bytes or 0) // REFERENCE_BYTES if known is None else known


def weigh(info: ManifestFileInfo) -> int:
    """What it takes to read a manifest."""
    return (info.size_bytes or 0) + count_refs(info) * REFERENCE_BYTES
