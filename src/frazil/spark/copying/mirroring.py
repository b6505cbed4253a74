"""A copy of a repository: object by object, under the same names, and its state at the very end.

What is copied is the state that the source has when the copy begins. Until the target's state is
written nothing there refers to what came, so that a copy that was broken off is no repository, or still
the one that it was, and the next attempt goes on where it ended.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from frazil.errors import ConflictError, InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.paths import ROOT
from frazil.format.repo_info import RepoInfo
from frazil.protocols.detection import open_protocol
from frazil.protocols.interface import CommitProtocol
from frazil.spark.arrays.runner import RunOn, find_application_id
from frazil.spark.arrays.zarr_arrays import path_of
from frazil.spark.copying.attempt import Attempt, Outcome, Start
from frazil.spark.copying.choosing import Choice, choose
from frazil.spark.copying.guarding import Guard
from frazil.spark.copying.landing import (
    CollectedMeanwhileError,
)
from frazil.spark.copying.parts import Part, derive_id, take_part
from frazil.spark.copying.places import AnyPlace, find_storage, name_place
from frazil.spark.copying.report import CopyReport
from frazil.spark.copying.states import is_written, read_state
from frazil.spark.copying.targets import refuse_target
from frazil.spark.job import Job

_MOST_ATTEMPTS = 5


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
    started = Start(
        find_storage(source), find_storage(target), choice, path_of(group or ROOT), job or Job()
    )
    try:
        return _copy(started, spark, run_on, incremental=incremental)
    finally:
        started.job.end()


def _copy(
    start: Start, spark: SparkSession | None, run_on: RunOn, *, incremental: bool
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
    outcome = _try(Attempt(start, protocol, part, guard, spark, run_on))
    copied, tally = outcome.moved.copied, start.job.tally
    return CopyReport(
        outcome.has_changed, tuple(sorted(part.info.branches)), tuple(sorted(part.info.tags)),
        len(part.info.snapshots), outcome.new_snapshots, copied.objects, copied.bytes,
        copied.present, outcome.moved.ran_on, tally.tasks, tally.retries,
        time.monotonic() - began, start.job.id, find_application_id(spark),
    )  # fmt: skip


def _try(attempt: Attempt) -> Outcome:
    for _ in range(_MOST_ATTEMPTS):
        try:
            return attempt.run()
        except CollectedMeanwhileError:
            continue
    raise ConflictError(
        message=f"garbage was collected at the target {_MOST_ATTEMPTS} times while it was copied to",
        kind="update-attempts-exhausted",
    )


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
