"""A job as one commit: a session, forks of it in tasks, their changes merged, the branch moved once.

Whatever fails on the way, the branch stays as it was: it moves in the last step or not at all.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from frazil.conflicts import ConflictDetector
from frazil.engine.changes import ChangeSet
from frazil.format.ids import NodeId
from frazil.format.references import ChunkKind
from frazil.opening import open_repository
from frazil.repository import Repository
from frazil.session import ForkSession, Session
from frazil.spark.arrays.gathering import find_parts, gather, leave_parts, plan_limit
from frazil.spark.arrays.merging import fresh_fork, merge_changes
from frazil.spark.arrays.report import METRICS, JobReport
from frazil.spark.arrays.rules import add_missing_rules, save_rules
from frazil.spark.arrays.runner import Runner, RunOn, choose_runner, find_application_id
from frazil.spark.job import Job
from frazil.urls import Location

Region = TypeVar("Region")

AnyRepository = Repository | Location
"""A repository, or where it is."""

WriteRegion = Callable[[ForkSession, Region], object]


@dataclass(slots=True)
class Run:
    """One job on its way to its commit."""

    name: str
    repository: Repository
    branch: str
    job: Job
    started_at: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)
    """Metrics of this kind of job, for the commit's metadata."""

    def open_session(self) -> Session:
        """A session for changes that are committed at the end."""
        return self.repository.writable_session(self.branch)

    def choose_runner(
        self, spark: SparkSession | None, run_on: RunOn, *, is_small: bool = False
    ) -> Runner:
        """The place that was asked for, or the one that suits the work and the storage."""
        storage = self.repository.storage
        return choose_runner(spark, self.job, run_on, storage, is_small=is_small)

    def commit(
        self,
        session: Session,
        runner: Runner,
        spark: Any,
        message: str | None,
        metadata: Mapping[str, Any] | None = None,
    ) -> JobReport:
        """Move the branch, over what others have committed to it unless it meets the same chunks.

        Raises RebaseFailedError if it does.
        """
        report = self.report(session, runner, spark)
        self.job.refuse_if_cancelled()
        if not session.has_uncommitted_changes:
            return report
        save_rules(self.repository, session.state.surroundings.config)
        told = {**(metadata or {}), METRICS: {**report.metrics(), **self.figures}}
        id = session.commit(message or self.name, told, rebase_with=ConflictDetector())
        return report.committed_as(id)

    def report(self, session: Session, runner: Runner, spark: Any) -> JobReport:
        """What the job came to, before its commit."""
        chunks, size = count_written(session.state.changes)
        tally = self.job.tally
        return JobReport(
            self.name, None, self.branch, runner.name, chunks, size, tally.tasks, tally.retries,
            time.monotonic() - self.started_at, tally.task_seconds, self.job.id,
            find_application_id(spark), tuple(self.notes),
        )  # fmt: skip


@contextmanager
def running(name: str, repo: AnyRepository, branch: str, job: Job | None) -> Iterator[Run]:
    """A job that holds a lease, and takes its display away at the end, however it ends."""
    run = Run(name, find_repository(repo), branch, job or Job())
    try:
        with run.job.leasing(run.repository.storage, name):
            yield run
    finally:
        run.job.end()


def find_repository(repo: AnyRepository) -> Repository:
    """The repository itself, opened if only its place is given."""
    return repo if isinstance(repo, Repository) else open_repository(repo)


def write_regions(
    runner: Runner,
    session: Session,
    function: WriteRegion[Region],
    groups: Sequence[Sequence[Region]],
    what: str = "writing",
    *,
    lasting: bool = True,
) -> None:
    """Call a function for each region, a task a group, and take over what it changed.

    What is not lasting need not outlive the host that a task ran on.
    """
    fork = session.fork()
    task = _RegionTask(fork, function, plan_limit(runner, session.state, len(groups)), lasting)
    changes = runner.run(what, task, groups)
    merge_changes(session.state, fork.state, changes)
    parts = find_parts(runner, changes)
    add_missing_rules(session.state, parts)
    gather(runner, session.state, parts)


@dataclass(frozen=True, slots=True)
class _RegionTask(Generic[Region]):
    fork: ForkSession
    function: WriteRegion[Region]
    limit: int | None
    """References of an array beyond which a task leaves them in the storage."""
    lasting: bool

    def __call__(self, regions: Sequence[Region]) -> ChangeSet:
        """What the function changed in a fork of this task's own; chunks as references."""
        session = ForkSession(fresh_fork(self.fork.state))
        for region in regions:
            self.function(session, region)
        changes = session.state.changes.copy()
        leave_parts(session.state.assets, changes, self.limit)
        if self.lasting:  # then what is reported must outlast this worker, and its host
            session.state.assets.storage.flush()
        return changes


def count_written(changes: ChangeSet, *ids: NodeId) -> tuple[int, int]:
    """How many chunks of all or of these arrays are set, and their bytes in the own storage."""
    chunks = size = 0
    for edits in [edits for id, edits in changes.chunks.items() if not ids or id in ids]:
        table, _ = edits.settled()
        chunks += len(table) + sum(cell.count for cell in edits.cells)
        size += int(table.length[table.kind != ChunkKind.VIRTUAL].sum())
        size += sum(cell.bytes for cell in edits.cells)
    return chunks, size
