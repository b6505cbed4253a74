"""Writing all manifests anew on Spark: a commit in which nothing else changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from frazil.engine.finishing import amend, commit, describe
from frazil.engine.manifests import (
    SHARED_MANIFEST_DIALECTS,
    WrittenManifests,
    write_shared_manifest,
)
from frazil.engine.state import SessionState
from frazil.errors import ConflictError
from frazil.maintenance.rewriting import is_amending, record_rules
from frazil.session import Session
from frazil.spark.arrays.one_commit import AnyRepository, Run, running
from frazil.spark.arrays.report import METRICS
from frazil.spark.arrays.rules import add_all_missing_rules, save_rules
from frazil.spark.arrays.runner import Runner, RunOn, count_slots
from frazil.spark.job import Job
from frazil.spark.packing.manifests import (
    ManifestPlan,
    NewManifest,
    WriteManifests,
    collect,
    plan_manifests,
)
from frazil.spark.packing.report import RewriteReport
from frazil.spark.packing.tasks import TASK_REFERENCES, count_references, group, weigh
from frazil.types import CommitMethod

_WHAT = "writing manifests"
_TRIES = 100
"""Others may commit so often meanwhile; each time there is less to do."""


def rewrite_manifests(
    spark: SparkSession | None,
    repo: AnyRepository,
    *,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    commit_method: CommitMethod = "new_commit",
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> RewriteReport:
    """Write the manifests of a branch anew, split as the configuration says now, in tasks.

    An array of more than 100,000 chunks that no rule for splitting is for gets one, which is saved with
    the repository. It is a commit on top of the branch, also of what others have committed meanwhile,
    or with `commit_method="amend"`, which V2 repositories know, in place of the last one.

    Raises ConflictError if others have committed since and the last commit was to be amended.
    """
    with running("rewrite_manifests", repo, branch, job) as run:
        rewriting = _Rewriting(
            run, spark, run_on, message or "rewrite manifests", metadata or {}, commit_method
        )
        for _ in range(_TRIES):
            try:
                return rewriting.attempt()
            except ConflictError as error:
                if commit_method == "amend" or error.kind != ConflictError.default_kind:
                    raise
        return rewriting.attempt()


@dataclass(frozen=True, slots=True)
class _Rewriting:
    run: Run
    spark: SparkSession | None
    run_on: RunOn
    message: str
    metadata: Mapping[str, Any]
    commit_method: CommitMethod
    written: dict[ManifestPlan, NewManifest | None] = field(default_factory=dict)
    """Manifests of former attempts, which stay right as long as what they were made of does."""

    def attempt(self) -> RewriteReport:
        """One commit to the branch as it is now."""
        session = self.run.open_session()
        state = session.state
        is_amend = is_amending(self.commit_method, state.surroundings.dialect)
        add_all_missing_rules(state)
        runner, manifests = self._write(state)
        self.run.job.refuse_if_cancelled()
        report = self._report(session, runner, manifests)
        save_rules(self.run.repository, state.surroundings.config)
        told = {**self.metadata, METRICS: report.metrics()}
        rules = state.surroundings.settings.split_sizes
        text = describe(state, self.message, record_rules(told, rules))
        finish = amend if is_amend else commit
        id = finish(state, text, allow_empty=True, write=lambda *_: manifests)
        return report.committed_as(str(id))

    def _write(self, state: SessionState) -> tuple[Runner, WrittenManifests]:
        if state.surroundings.dialect in SHARED_MANIFEST_DIALECTS:
            runner = self.run.choose_runner(None, "driver")
            return runner, write_shared_manifest(state.view)
        plans = plan_manifests(state)
        missing = [plan for plan in plans if plan not in self.written]
        counts = count_references(state.view.snapshot.manifest_files)
        shares = [weigh(plan.box, plan.base, counts) for plan in missing]
        total = sum(share.references for share in shares)
        is_small = total <= TASK_REFERENCES
        runner = self.run.choose_runner(self.spark, self.run_on, is_small=is_small)
        groups = group(missing, shares, count_slots(self.spark))
        self.run.job.expect(_WHAT, manifests=len(missing))
        results = runner.run(_WHAT, WriteManifests(state.assets), groups)
        for done, found in zip(groups, results, strict=True):
            self.written.update(zip(done, found, strict=True))
        return runner, collect(state, plans, self.written)

    def _report(
        self, session: Session, runner: Runner, manifests: WrittenManifests
    ) -> RewriteReport:
        files = manifests.files.values()
        report = self.run.report(session, runner, self.spark)
        return RewriteReport.of(
            replace(report, bytes_written=sum(info.size_bytes or 0 for info in files)),
            manifests_before=len(session.state.view.snapshot.used_manifests()),
            manifests=len(files),
            references=sum(info.num_chunk_refs or 0 for info in files),
        )
