"""A copy of a repository: object by object, under the same names, and its state at the very end.

What is copied is the state that the source has when the copy begins. Until the target's state is
written nothing there refers to what came, so that a copy that was broken off is no repository, or still
the one that it was, and the next attempt goes on where it ended.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from frazil.assets import Assets
from frazil.errors import ConflictError, InvalidInputError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.paths import ROOT
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.leases import Lease, leased, list_leases
from frazil.protocols.clock import read_clock
from frazil.protocols.detection import detect_dialect, open_protocol
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.v2 import RepoObject
from frazil.spark.arrays.runner import Runner, RunOn, choose_runner, find_application_id
from frazil.spark.arrays.zarr_arrays import path_of
from frazil.spark.copying.choosing import Choice, choose
from frazil.spark.copying.guarding import Guard, newest_collection
from frazil.spark.copying.landing import (
    CollectedMeanwhileError,
    create_repo_info,
    make_protocol,
    update_repo_info,
    write_refs,
)
from frazil.spark.copying.moving import move_objects
from frazil.spark.copying.objects import Passage
from frazil.spark.copying.parts import Part, derive_id, take_part
from frazil.spark.copying.places import AnyPlace, find_storage, name_place
from frazil.spark.copying.planning import CopyPlan, plan_copy
from frazil.spark.copying.report import Copied, CopyReport
from frazil.spark.copying.states import is_written, read_state
from frazil.spark.copying.targets import has_nothing, refuse_target
from frazil.spark.job import Job
from frazil.storage import MemoryStorage, Storage

_MOST_ATTEMPTS = 5
_DAY = 24 * 3600 * 10**9
"""Of nanoseconds; a sweep of garbage takes no longer."""


def copy(
    spark: SparkSession | None,
    source: AnyPlace,
    target: AnyPlace,
    *,
    branches: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    group: str | None = None,
    last: int | None = None,
    shallow: bool = False,
    incremental: bool = True,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> CopyReport:
    """Copy a repository to another place, or bring an earlier copy up to date.

    Snapshots, manifests, transaction logs and chunks keep their names and bytes. `branches` and `tags`
    choose refs, `last` keeps so many snapshots of each branch; `shallow` keeps the tips only, and no
    tags but those that are named. `group` copies a part of the hierarchy, as one snapshot a branch.
    With `incremental=False` a target that has a repository is refused.

    Raises AlreadyExistsError where another repository is, ConflictError where somebody else has
    written to the copy, InvalidInputError where other things are or the generations differ.
    """
    if shallow and last is not None:
        raise InvalidInputError("a shallow copy has one snapshot of each branch: leave last= out")
    if group is not None and (tags or last is not None):
        raise InvalidInputError("a part has one snapshot of each branch: leave last= and tags= out")
    kept_tags = () if tags is None and shallow else tags
    choice = Choice(
        None if branches is None else tuple(branches),
        None if kept_tags is None else tuple(kept_tags),
        1 if shallow else last,
    )
    started = _Start(
        find_storage(source), find_storage(target), choice, path_of(group or ROOT), job or Job()
    )
    try:
        return _copy(started, spark, run_on, incremental=incremental)
    finally:
        started.job.end()


@dataclass(frozen=True, slots=True)
class _Start:
    source: Storage
    target: Storage
    choice: Choice
    group: str
    job: Job


def _copy(
    start: _Start, spark: SparkSession | None, run_on: RunOn, *, incremental: bool
) -> CopyReport:
    began = time.monotonic()
    protocol = open_protocol(start.source)
    state = read_state(protocol)
    wanted = choose(state, start.choice)
    part = Part(wanted, {})
    if start.group != ROOT:
        is_named = start.choice.branches is not None
        part = take_part(protocol.assets, wanted, start.group, is_named=is_named)
    refuse_target(start.target, protocol.dialect, incremental=incremental)
    guard = Guard(
        state, name_place(start.source), start.group, _Known(protocol, state, start.group)
    )
    outcome = _try(_Attempt(start, protocol, part, guard, spark, run_on))
    copied, tally = outcome.copied, start.job.tally
    return CopyReport(
        outcome.has_changed, tuple(sorted(part.info.branches)), tuple(sorted(part.info.tags)),
        len(part.info.snapshots), outcome.new_snapshots, copied.objects, copied.bytes,
        copied.present, outcome.ran_on, tally.tasks, tally.retries,
        time.monotonic() - began, start.job.id, find_application_id(spark),
    )  # fmt: skip


def _try(attempt: "_Attempt") -> "_Outcome":
    for _ in range(_MOST_ATTEMPTS):
        try:
            return attempt.run()
        except CollectedMeanwhileError:
            continue
    raise ConflictError(
        f"garbage was collected at the target {_MOST_ATTEMPTS} times while it was copied to",
        kind="update-attempts-exhausted",
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    copied: Copied
    ran_on: str
    new_snapshots: int
    has_changed: bool


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Objects first, then the state."""

    start: _Start
    protocol: CommitProtocol
    part: Part
    guard: Guard
    spark: SparkSession | None
    run_on: RunOn

    def run(self) -> _Outcome:
        """Copy what is missing, and let the target say so."""
        target = self._open_target()
        before = None if target is None else read_state(target)
        if before is not None:
            self.guard.refuse_others(before)
        assets = Assets(self.start.target, self.protocol.dialect)
        passage = Passage(self.protocol.assets, assets, has_nothing(assets))
        # Where no repository is, nobody collects garbage.
        lease = (
            nullcontext()
            if target is None
            else leased(self.start.target, self.start.job.id, "copy")
        )
        with lease as held:
            self._refuse_same_place()
            return self._move(passage, target, before, held)

    def _refuse_same_place(self) -> None:
        """Raise InvalidInputError if the lease of this job is in the source, too."""
        if any(lease.id == self.start.job.id for lease in list_leases(self.start.source)):
            raise InvalidInputError("the source and the target are the same place")

    def _move(
        self,
        passage: Passage,
        target: CommitProtocol | None,
        before: RepoInfo | None,
        lease: Lease | None,
    ) -> _Outcome:
        plan = plan_copy(passage, self.part, before)
        runner = self._choose_runner(plan)
        copied = move_objects(runner, passage, plan)
        collected_at = 0 if before is None else newest_collection(before)
        if before is not None and collected_at > read_clock() - _DAY:
            # Its sweep may not have ended when the objects were looked for.
            copied += move_objects(runner, replace(passage, is_empty=False), plan)
        self.start.job.refuse_if_cancelled()
        if lease is not None:
            lease.refuse_if_lost()
        has_changed = self._land(passage.target, target, before, collected_at)
        return _Outcome(copied, runner.name, len(plan.new_snapshots), has_changed)

    def _choose_runner(self, plan: CopyPlan) -> Runner:
        storages = (self.start.source, self.start.target)
        # Tasks elsewhere must reach both.
        near = next((each for each in storages if isinstance(each, MemoryStorage)), storages[0])
        job = self.start.job
        return choose_runner(self.spark, job, self.run_on, near, is_small=plan.is_small)

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


@dataclass(frozen=True, slots=True)
class _Known:
    """Whether the source has a snapshot, or made it for the part that is copied."""

    protocol: CommitProtocol
    state: RepoInfo
    group: str

    def __call__(self, id: SnapshotId) -> bool:
        if self.group != ROOT:
            return id in self.state.snapshots or any(
                derive_id(each, self.group) == id for each in self.state.snapshots
            )
        return id in self.state.snapshots or is_written(self.protocol, id)
