"""Rewrite all manifests on Spark, as a commit that changes nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.arguments import verb
from frazil.errors import ConflictError
from frazil.format.coordinates import Extents
from frazil.format.ids import NodeId
from frazil.format.manifest import Manifest, concatenate
from frazil.format.snapshot import ManifestFileInfo, ManifestRef
from frazil.maintenance.rewrite import is_amending, record_rules
from frazil.ops import CommitMethod
from frazil.protocols.assets import Assets, new_manifest_id
from frazil.repository.commit import (
    WrittenManifests,
    amend,
    commit,
    describe,
    manifests_by_region,
    write_shared_manifest,
)
from frazil.repository.context import SessionState
from frazil.repository.session import Session
from frazil.repository.zarr_keys import plan_split
from frazil.spark.job import METRICS, Job, RewriteReport, SparkSession
from frazil.spark.maintenance.compact_ranges import TASK_REFERENCES, count_references, group, weigh
from frazil.spark.regions import add_all_missing_rules, save_rules
from frazil.spark.transaction import AnyRepository, CommitRun, committing


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """Manifest to write: a split region of an array, and the manifests that hold its references now."""

    node_id: NodeId
    box: Extents
    base: tuple[ManifestRef, ...]


@dataclass(frozen=True, slots=True)
class NewManifest:
    """Manifest that was written."""

    file: ManifestFileInfo
    extents: Extents

    @property
    def ref(self) -> ManifestRef:
        """Reference to the manifest for a node."""
        return ManifestRef(self.file.id, self.extents)


Written = Mapping[ManifestPlan, NewManifest | None]
"""Manifest written for each plan; None if there was no chunk."""


def plan_manifests(state: SessionState) -> list[ManifestPlan]:
    """Return a plan for each split region that may have chunks, in the order of the paths."""
    plans = []
    for node in state.view.nodes():
        if node.array is not None:
            grid = plan_split(node.path, node.array, state.context.settings.split_sizes)
            regions = manifests_by_region(node.array, grid, state.context.dialect)
            plans += [
                ManifestPlan(node.id, grid.extents(region), tuple(regions[region]))
                for region in sorted(regions)
            ]
    return plans


def write_manifest(assets: Assets, plan: ManifestPlan) -> NewManifest | None:
    """Write the manifest of a split region; None if it has no chunk."""
    axes = len(plan.box)
    table = concatenate(
        [assets.read_manifest(ref.id).table(plan.node_id, axes).select(plan.box)
         for ref in plan.base]
    )  # fmt: skip
    if not len(table):
        return None
    id = new_manifest_id(assets.dialect)
    file = assets.write_manifest(Manifest(id, {plan.node_id: table.compact()}), id)
    return NewManifest(file, table.extents())


@dataclass(frozen=True, slots=True)
class WriteManifests:
    """Task that writes manifests."""

    assets: Assets

    def __call__(self, plans: Sequence[ManifestPlan]) -> list[NewManifest | None]:
        """Return the manifest of each plan, or None."""
        written = [write_manifest(self.assets, plan) for plan in plans]
        self.assets.storage.flush()
        return written


def collect(
    state: SessionState, plans: Sequence[ManifestPlan], written: Written
) -> WrittenManifests:
    """Return the manifests of all arrays in the form a commit needs."""
    arrays = [node.id for node in state.view.nodes() if node.array is not None]
    refs: dict[NodeId, list[ManifestRef]] = {id: [] for id in arrays}
    found = WrittenManifests()
    for plan in plans:
        new = written[plan]
        if new is not None:
            refs[plan.node_id].append(new.ref)
            found.files[new.file.id] = new.file
    found.refs = {id: tuple(each) for id, each in refs.items()}
    return found


_WHAT = "writing manifests"
_TRIES = 100
"""Maximum replans after a concurrent commit; each has less to write."""


@verb(job=Job)
def rewrite_manifests(
    repo: AnyRepository,
    *,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    commit_method: CommitMethod = "new_commit",
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> RewriteReport:
    """Rewrite the manifests of a branch, split as the configuration says now.

    An array of more than 100,000 chunks without a split rule gets one, which is saved with the
    repository. The rewrite is a commit on top of the branch, including concurrent commits, or with
    `commit_method="amend"` it replaces the last commit.

    Parameters
    ----------
    commit_method
        `new_commit`, or `amend` (V2 repositories only).

    Returns
    -------
    RewriteReport

    Raises
    ------
    ConflictError
        If the last commit should be amended and there was a concurrent commit.
    """
    with committing("rewrite_manifests", repo, branch, job, spark) as run:
        rewriting = _Rewriting(run, message or "rewrite manifests", metadata or {}, commit_method)
        for _ in range(_TRIES):
            try:
                return rewriting.attempt()
            except ConflictError as error:
                if commit_method == "amend" or error.kind != ConflictError.default_kind:
                    raise
        return rewriting.attempt()


@dataclass(frozen=True, slots=True)
class _Rewriting:
    run: CommitRun
    message: str
    metadata: Mapping[str, Any]
    commit_method: CommitMethod
    written: dict[ManifestPlan, NewManifest | None] = field(default_factory=dict)
    """Manifests of earlier attempts, valid as long as their plans are unchanged."""

    def attempt(self) -> RewriteReport:
        """Rewrite and commit once to the current tip of the branch."""
        session = self.run.open_session()
        state = session.state
        is_amend = is_amending(self.commit_method, state.context.dialect)
        add_all_missing_rules(state)
        manifests = self._write(state)
        self.run.job.refuse_if_cancelled()
        report = self._report(session, manifests)
        save_rules(self.run.repository, state.context.config)
        entries = {**self.metadata, METRICS: report.metrics()}
        rules = state.context.settings.split_sizes
        text = describe(state, self.message, record_rules(entries, rules))
        finish = amend if is_amend else commit
        id = finish(state, text, allow_empty=True, write=lambda *_: manifests)
        return report.committed_as(str(id))

    def _write(self, state: SessionState) -> WrittenManifests:
        if state.context.dialect.shares_manifests:
            return write_shared_manifest(state.view)
        plans = plan_manifests(state)
        missing = [plan for plan in plans if plan not in self.written]
        counts = count_references(state.view.snapshot.manifest_files)
        costs = [weigh(plan.box, plan.base, counts) for plan in missing]
        total = sum(cost.references for cost in costs)
        is_small = total <= TASK_REFERENCES
        runner = self.run.choose_runner(is_small=is_small)
        groups = group(missing, costs, self.run.slots)
        self.run.job.expect(_WHAT, manifests=len(missing))
        results = runner.run(_WHAT, WriteManifests(state.assets), groups)
        for done, found in zip(groups, results, strict=True):
            self.written.update(zip(done, found, strict=True))
        return collect(state, plans, self.written)

    def _report(self, session: Session, manifests: WrittenManifests) -> RewriteReport:
        files = manifests.files.values()
        report = self.run.report(session)
        return RewriteReport.of(
            replace(report, bytes_written=sum(info.size_bytes or 0 for info in files)),
            manifests_before=len(session.state.view.snapshot.used_manifests()),
            manifests=len(files),
            references=sum(info.num_chunk_refs or 0 for info in files),
        )
