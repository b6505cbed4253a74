"""One attempt to copy a repository: look at the target, move objects, and let it say so at the end."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from frazil.assets import Assets
from frazil.format.dialect import Dialect
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.leases import Lease, leased
from frazil.protocols.clock import read_clock
from frazil.protocols.detection import detect_dialect, open_protocol
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.v2 import RepoObject
from frazil.spark.arrays.runner import Runner, RunOn, choose_runner
from frazil.spark.copying.choosing import Choice
from frazil.spark.copying.guarding import Guard, newest_collection
from frazil.spark.copying.landing import (
    create_repo_info,
    make_protocol,
    update_repo_info,
    write_refs,
)
from frazil.spark.copying.moving import Moved, move_objects
from frazil.spark.copying.objects import Passage
from frazil.spark.copying.parts import Part
from frazil.spark.copying.planning import plan_copy
from frazil.spark.copying.states import read_state
from frazil.spark.copying.targets import has_nothing, refuse_same_place
from frazil.spark.job import Job
from frazil.storage import MemoryStorage, Storage

_DAY = 24 * 3600 * 10**9
"""Of nanoseconds; a sweep of garbage takes no longer."""


@dataclass(frozen=True, slots=True)
class Start:
    """What was asked for."""

    source: Storage
    target: Storage
    choice: Choice
    group: str
    job: Job


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it."""

    moved: Moved
    new_snapshots: int
    has_changed: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """Objects first, then the state."""

    start: Start
    protocol: CommitProtocol
    part: Part
    guard: Guard
    spark: SparkSession | None
    run_on: RunOn

    def run(self) -> Outcome:
        """Copy what is missing, and let the target say so."""
        target = self._open_target()
        before = None if target is None else read_state(target)
        if before is not None:
            self.guard.refuse_others(before)
        assets = Assets(self.start.target, self.protocol.dialect)
        passage = Passage(self.protocol.assets, assets, has_nothing(assets))
        # Where no repository is, nobody collects garbage.
        storage, id = self.start.target, self.start.job.id
        with nullcontext() if target is None else leased(storage, id, "copy") as lease:
            if target is not None:
                refuse_same_place(self.start.source, storage, id)
            return self._move(passage, target, before, lease)

    def _move(
        self,
        passage: Passage,
        target: CommitProtocol | None,
        before: RepoInfo | None,
        lease: Lease | None,
    ) -> Outcome:
        plan = plan_copy(passage, self.part, before)
        moved = move_objects(self._choose_runner, passage, plan)
        collected_at = 0 if before is None else newest_collection(before)
        if before is not None and collected_at > read_clock() - _DAY:
            # Its sweep may not have ended when the objects were looked for.
            passage = replace(passage, is_empty=False)
            again = move_objects(self._choose_runner, passage, plan)
            moved = replace(moved, copied=moved.copied + again.copied)
        self.start.job.refuse_if_cancelled()
        if lease is not None:
            lease.refuse_if_lost()
        has_changed = self._land(passage.target, target, before, collected_at)
        return Outcome(moved, len(plan.new_snapshots), has_changed)

    def _choose_runner(self, is_small: bool) -> Runner:
        storages = (self.start.source, self.start.target)
        # Tasks elsewhere must reach both.
        near = next((each for each in storages if isinstance(each, MemoryStorage)), storages[0])
        job = self.start.job
        return choose_runner(self.spark, job, self.run_on, near, is_small=is_small)

    def _open_target(self) -> CommitProtocol | None:
        if detect_dialect(self.start.target) is None:
            return None
        return open_protocol(self.start.target)

    def _land(
        self,
        assets: Assets,
        target: CommitProtocol | None,
        before: RepoInfo | None,
        collected_at: int,
    ) -> bool:
        wanted = self.part.info
        if self.protocol.dialect is not Dialect.V2:
            landing = target or make_protocol(assets, self.protocol)
            return write_refs(landing, self.protocol, wanted, before)
        if target is None:
            create_repo_info(assets, wanted, self.guard)
            return True
        assert isinstance(target, RepoObject)
        return update_repo_info(target, wanted, self.guard, collected_at)
