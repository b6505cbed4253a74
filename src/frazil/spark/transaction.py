"""One job, one commit: fork a session in tasks, merge their changes, and commit once."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
import zarr

from frazil.errors import IcechunkError, OverlappingTasksError
from frazil.format import coordinates as coords_
from frazil.format.coordinates import Coordinates, Extents, bounding_box, sort_order
from frazil.format.ids import ChunkId, NodeId
from frazil.format.manifest import ChunkKind, ChunkTable, concatenate
from frazil.format.snapshot import ManifestRef, Node
from frazil.maintenance.reachability import pack
from frazil.protocols.assets import Assets
from frazil.repository import forks
from frazil.repository.changes import (
    ChangeSet,
    ChunkEdits,
    PrewrittenManifest,
    prewrite_manifest,
    unite,
    write_part,
)
from frazil.repository.commit import manifests_by_region
from frazil.repository.conflicts import GrowthDetector
from frazil.repository.context import SessionState
from frazil.repository.locate import open_repository
from frazil.repository.repository import Repository
from frazil.repository.session import ForkSession, Session
from frazil.repository.zarr_keys import SplitRegion, plan_split
from frazil.spark.job import METRICS, CommitReport, Job, SparkSession
from frazil.spark.regions import add_missing_rules, choose_task_bytes, save_rules
from frazil.spark.runtime import Runner, choose_runner, count_slots, find_active_session
from frazil.spark.runtime import find_application_id as find_application_id
from frazil.storage.interface import Storage
from frazil.urls import Location
from frazil.virtual.access import Authorize

_NAMED_CHUNKS = 5
"""Maximum chunks of an array named in the message; the error carries all of them."""


def fresh_fork(fork: SessionState, changes: ChangeSet | None = None) -> SessionState:
    """Return a fork of the same base snapshot with these changes, or none."""
    fresh = SessionState(fork.context, fork.view.snapshot, is_fork=True)
    fresh.set_base(fork.view.snapshot, changes)
    fresh.origins = fork.origins
    return fresh


def merge_changes(state: SessionState, fork: SessionState, changes: Sequence[ChangeSet]) -> None:
    """Merge the changes that tasks made in forks of one base snapshot.

    Raises OverlappingTasksError, and changes nothing, if two tasks changed the same chunk.
    """
    edits = _edits_by_node(changes)
    overlaps = {id: found for id, each in edits.items() if len(found := _find_repeated(each))}
    if overlaps:
        raise _overlapping(fork, overlaps)
    only_nodes = [each for each in changes if each.created or each.updated or each.deleted]
    for each in only_nodes:
        forks.merge(state, fresh_fork(fork, _without_chunks(each)))
    together = ChangeSet.of(state.context.dialect)
    together.chunks = {id: unite(each) for id, each in edits.items()}
    for each in changes:
        together.nodes.update(each.nodes)
        together.sources |= each.sources
    forks.merge(state, fresh_fork(fork, together))


def _edits_by_node(changes: Sequence[ChangeSet]) -> dict[NodeId, list[ChunkEdits]]:
    found: dict[NodeId, list[ChunkEdits]] = {}
    for each in changes:
        for id, edits in each.chunks.items():
            found.setdefault(id, []).append(edits)
    return found


def _find_repeated(edits: Sequence[ChunkEdits]) -> Coordinates:
    """Return the chunks that more than one task has set or deleted."""
    meeting = _find_meeting(edits)
    if not meeting:
        return np.empty((0, edits[0].axes), np.uint32)
    rows = np.concatenate([each.coordinates() for each in meeting])
    if rows.shape[1] == 0:
        return rows[:1] if len(rows) > 1 else rows[:0]
    ordered = rows[sort_order(rows)] if len(rows) else rows
    is_repeated = np.all(ordered[1:] == ordered[:-1], axis=1)
    return np.unique(ordered[1:][is_repeated], axis=0)


def _find_meeting(edits: Sequence[ChunkEdits]) -> list[ChunkEdits]:
    """Return the edits whose bounding box overlaps another; the others can't share a chunk."""
    filled = [(each, box) for each in edits if (box := _find_box(each)) is not None]
    boxes = np.array([box for _, box in filled], np.int64).reshape(len(filled), edits[0].axes, 2)
    starts, stops = boxes[:, :, 0], boxes[:, :, 1]
    return [
        each
        for row, (each, _) in enumerate(filled)
        if np.sum(np.all((starts < stops[row]) & (starts[row] < stops), axis=1)) > 1
    ]


def _find_box(edits: ChunkEdits) -> Extents | None:
    rows = edits.coordinates()
    return bounding_box(rows) if len(rows) else None


def _without_chunks(changes: ChangeSet) -> ChangeSet:
    nodes = changes.copy()
    nodes.chunks = {}
    return nodes


def _overlapping(fork: SessionState, overlaps: dict[NodeId, Coordinates]) -> Exception:
    paths = {node.id: node.path for node in fork.view.nodes()}
    chunks = {
        paths.get(id, str(id)): [tuple(each) for each in found.tolist()]
        for id, found in overlaps.items()
    }
    text = "; ".join(_name_chunks(path, found) for path, found in sorted(chunks.items()))
    return OverlappingTasksError(
        f"several tasks have written the same chunks: {text}. Nothing was committed; cut the regions "
        "along the edges of chunks",
        chunks=chunks,
    )


def _name_chunks(path: str, chunks: Sequence[tuple[int, ...]]) -> str:
    named = ", ".join("/".join(map(str, each)) or "0" for each in chunks[:_NAMED_CHUNKS])
    more = f" and {len(chunks) - _NAMED_CHUNKS} more" if len(chunks) > _NAMED_CHUNKS else ""
    return f"{path} at {named}{more}"


_TASK_REFERENCES = 200_000
_READ_AT_ONCE = 8
"""Maximum parts that a task reads at once."""
_WHAT = "writing references"


def plan_limit(runner: Runner, state: SessionState, tasks: int) -> int | None:
    """Return the maximum references of an array that a task returns; None for no limit."""
    if runner.spark is None or state.context.dialect.shares_manifests:
        return None
    return runner.returned_references // max(1, tasks)


def leave_parts(assets: Assets, changes: ChangeSet, limit: int | None) -> None:
    """Write the references of arrays that exceed the limit to the storage as pre-written manifests."""
    for id, edits in changes.chunks.items():
        written, deleted = edits.columns()
        if limit is not None and len(written) > limit:
            part = ChunkEdits(edits.axes, edits.id_size)
            part.adopt(*edits.prewritten, write_part(assets, id, written, deleted))
            changes.chunks[id] = part


def find_parts(
    runner: Runner, changes: Iterable[ChangeSet]
) -> dict[NodeId, list[PrewrittenManifest]]:
    """Return the manifests written by tasks, by array; empty if few enough for the driver to read."""
    parts: defaultdict[NodeId, list[PrewrittenManifest]] = defaultdict(list)
    for each in changes:
        for id, edits in each.chunks.items():
            if edits.prewritten:
                parts[id] += edits.prewritten
    count = sum(part.count for each in parts.values() for part in each)
    return dict(parts) if count > runner.returned_references else {}


def gather(
    runner: Runner, state: SessionState, parts: Mapping[NodeId, Sequence[PrewrittenManifest]]
) -> None:
    """Run tasks that write the final manifests of arrays that have parts."""
    if not parts:
        return
    chosen = [node for node in state.view.nodes() if node.id in parts and _has_place(node)]
    plans = [plan for node in chosen for plan in plan_split_regions(state, node)]
    groups = pack(plans, [coords_.count_places(each.box) for each in plans], _TASK_REFERENCES)
    runner.job.expect(_WHAT, manifests=len(plans))
    found = runner.run(_WHAT, _WriteSplitRegions(state.assets), groups)
    manifests = [manifest for group in found for manifest in group]
    for node in chosen:
        own = [each for each in zip(plans, manifests, strict=True) if each[0].node_id == node.id]
        state.changes.chunks[node.id] = _take_over(state, node, own)
    _delete(state.assets, [part for node in chosen for part in parts[node.id]])


@dataclass(frozen=True, slots=True, eq=False)
class SplitRegionPlan:
    """Manifest to write for a split region, and its inputs."""

    node_id: NodeId
    box: Extents
    base: tuple[ManifestRef, ...]
    parts: tuple[PrewrittenManifest, ...]
    over: ChunkTable
    """References that override those of the parts."""
    deleted: Coordinates


def plan_split_regions(state: SessionState, node: Node) -> list[SplitRegionPlan]:
    """Plan a manifest for each changed split region of an array."""
    assert node.array is not None
    edits = state.changes.chunks[node.id]
    grid = plan_split(node.path, node.array, state.context.settings.split_sizes)
    written, deleted = edits.columns()
    over = written.select(grid.everything).split(grid.edges)
    gone = coords_.unite([deleted, *(each.deleted for each in edits.prewritten)])
    gone_by_region = grid.split(gone)
    parts: defaultdict[SplitRegion, list[PrewrittenManifest]] = defaultdict(list)
    for each in edits.prewritten:
        sent = _to_send(each)
        for region in grid.split(each.written()):
            parts[region].append(sent)
    former = manifests_by_region(node.array, grid, state.context.dialect)
    nothing, nowhere = ChunkTable.empty(edits.axes, edits.id_size), gone[:0]
    return [
        SplitRegionPlan(
            node.id, grid.extents(region), tuple(former[region]), tuple(parts[region]),
            over.get(region, nothing), gone_by_region.get(region, nowhere),
        )
        for region in sorted({*parts, *over, *gone_by_region})
    ]  # fmt: skip


def write_gathered(assets: Assets, plan: SplitRegionPlan) -> PrewrittenManifest | None:
    """Write the manifest of a split region; None if references were only deleted."""

    def read(part: PrewrittenManifest) -> ChunkTable:
        return part.read_changes(assets, plan.node_id).select(plan.box)

    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        tables = [table for table in pool.map(read, plan.parts) if len(table)]
    table = concatenate(tables).remove(plan.deleted).merge(plan.over) if tables else plan.over
    if not len(table):
        return None
    deleted = coords_.without(plan.deleted, plan.over.coordinates)
    return prewrite_manifest(assets, plan.node_id, plan.box, plan.base, table, deleted)


@dataclass(frozen=True, slots=True)
class _WriteSplitRegions:
    assets: Assets

    def __call__(self, plans: Sequence[SplitRegionPlan]) -> list[PrewrittenManifest | None]:
        manifests = [write_gathered(self.assets, plan) for plan in plans]
        self.assets.storage.flush()
        return manifests


def _take_over(
    state: SessionState,
    node: Node,
    manifests: Sequence[tuple[SplitRegionPlan, PrewrittenManifest | None]],
) -> ChunkEdits:
    former = state.changes.chunks[node.id]
    edits = ChunkEdits(former.axes, former.id_size)
    edits.adopt(*(manifest for _, manifest in manifests if manifest is not None))
    gone = [plan.deleted for plan, manifest in manifests if manifest is None]
    if gone:
        edits.delete_many(coords_.unite(gone))
    return edits


def _delete(assets: Assets, parts: Sequence[PrewrittenManifest]) -> None:
    """Delete merged parts; those that can't be deleted are left for garbage collection."""
    with suppress(IcechunkError):
        assets.storage.delete_many(assets.layout.manifest_key(part.file.id) for part in parts)


def _has_place(node: Node) -> bool:
    return node.array is not None and all(each.num_chunks for each in node.array.shape)


def _to_send(manifest: PrewrittenManifest) -> PrewrittenManifest:
    """Drop the lists of chunks if every reference in the file was written by the task."""
    nothing = np.empty((0, len(manifest.box)), np.uint32)
    is_whole = manifest.file.num_chunk_refs == manifest.count
    return replace(manifest, changed=None if is_whole else manifest.changed, deleted=nothing)


RegionT = TypeVar("RegionT")

AnyRepository = Repository | Location
"""A repository, or its location."""

WriteRegion = Callable[[ForkSession, RegionT], object]


@dataclass(slots=True)
class Run:
    """State of one job from its start to its end."""

    name: str
    job: Job
    spark: SparkSession | None
    """Session that runs the tasks; None until one is started."""
    storage: Storage
    """Storage that tasks access; one in memory keeps the job on the driver."""
    started_at: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)
    ran_on: str = "driver"
    """`spark` once a runner of tasks was chosen."""
    _slots: int | None = None

    @property
    def slots(self) -> int:
        """Number of tasks that run at once; 1 on the driver."""
        if self._slots is None:
            here = 1 if self.job.run_on == "driver" else os.cpu_count() or 1
            self._slots = here if self.spark is None else count_slots(self.spark)
        return self._slots

    def task_bytes(self, total: int) -> int:
        """Return the number of bytes that one task processes."""
        return self.job.task_bytes or choose_task_bytes(total, self.slots)

    def describe(self) -> dict[str, Any]:
        """Return the fields of a report that all jobs have."""
        tally = self.job.tally
        return {
            "job": self.name,
            "ran_on": self.ran_on,
            "tasks": tally.tasks,
            "retries": tally.retries,
            "seconds": round(time.monotonic() - self.started_at, 3),
            "task_seconds": round(tally.task_seconds, 3),
            "job_id": self.job.id,
            "application_id": find_application_id(self.spark),
        }

    def choose_runner(self, *, is_small: bool = False) -> Runner:
        """Return the requested runner, or for `auto` the one that suits the work and the storage."""
        runner = choose_runner(self.spark, self.job, self.storage, is_small=is_small)
        if runner.spark is not None:
            self.spark, self.ran_on = runner.spark, runner.name
        return runner


@dataclass(slots=True, kw_only=True)
class CommitRun(Run):
    """State of a job that makes one commit."""

    repository: Repository
    branch: str
    figures: dict[str, object] = field(default_factory=dict)
    """Job-specific metrics for the metadata of the commit."""

    def open_session(self) -> Session:
        """Open a writable session on the branch of the job."""
        return self.repository.writable_session(self.branch)

    def commit(
        self,
        session: Session,
        message: str | None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CommitReport:
        """Commit the session, rebased over concurrent commits.

        Raises RebaseFailedError if a concurrent commit changed the same chunks.
        """
        report = self.report(session)
        self.job.refuse_if_cancelled()
        if not session.has_uncommitted_changes:
            return report
        save_rules(self.repository, session.state.context.config)
        entries = {**(metadata or {}), METRICS: {**report.metrics(), **self.figures}}
        id = session.commit(message or self.name, entries, rebase_with=GrowthDetector())
        return report.committed_as(id)

    def report(self, session: Session | None) -> CommitReport:
        """Return the report of the job before its commit."""
        chunks, size = (0, 0) if session is None else count_written(session.state.changes)
        return CommitReport(
            snapshot_id=None, branch=self.branch, chunks=chunks, bytes_written=size,
            notes=tuple(self.notes), **self.describe(),
        )  # fmt: skip


@contextmanager
def running(
    name: str, storage: Storage, job: Job | None, spark: SparkSession | None
) -> Iterator[Run]:
    """Run a job without a commit, and close its progress display at the end."""
    own = job or Job()
    session = spark or (None if own.run_on == "driver" else find_active_session())
    run = Run(name, own, session, storage)
    # Name of the jobs in the Spark UI.
    own.title = f"{name} {storage.place.rstrip('/').rpartition('/')[2]}"
    with ExitStack() as stack:
        stack.callback(own.end)
        for each in observers:
            stack.enter_context(each(run))
        yield run


observers: list[Callable[[Run], AbstractContextManager[None]]] = []
"""Surround each job, as `frazil.telemetry` asks; they raise nothing of their own."""


@contextmanager
def committing(
    name: str,
    repo: AnyRepository,
    branch: str,
    job: Job | None,
    spark: SparkSession | None,
    authorize: Authorize = (),
) -> Iterator[CommitRun]:
    """Run a job that holds a lease, and close its progress display at the end."""
    repository = find_repository(repo).authorize(authorize)
    with running(name, repository.storage, job, spark) as run:
        run.job.title += f"@{branch}"
        own = CommitRun(name, run.job, run.spark, run.storage, repository=repository, branch=branch)
        with run.job.leasing(run.storage, name):
            yield own


def find_repository(repo: AnyRepository) -> Repository:
    """Return the repository, opened if a location is given."""
    return repo if isinstance(repo, Repository) else open_repository(repo)


def write_regions(
    runner: Runner,
    session: Session,
    function: WriteRegion[RegionT],
    groups: Sequence[Sequence[RegionT]],
    what: str = "writing",
    *,
    lasting: bool = True,
) -> None:
    """Call a function for each region, one task per group, and merge the changes into the session.

    If not `lasting`, the written objects need not outlive the host of the task.
    """
    fork = session.fork()
    task = _RegionTask(fork, function, plan_limit(runner, session.state, len(groups)), lasting)
    changes = runner.run(what, task, groups)
    merge_changes(session.state, fork.state, changes)
    parts = find_parts(runner, changes)
    add_missing_rules(session.state, parts)
    gather(runner, session.state, parts)


@dataclass(frozen=True, slots=True)
class _RegionTask(Generic[RegionT]):
    fork: ForkSession
    function: WriteRegion[RegionT]
    limit: int | None
    """References of an array above which a task writes them to the storage."""
    lasting: bool

    def __call__(self, regions: Sequence[RegionT]) -> ChangeSet:
        """Return the changes the function made in a fork of this task, chunks as references."""
        session = ForkSession(fresh_fork(self.fork.state))
        for region in regions:
            self.function(session, region)
        changes = session.state.changes.copy()
        leave_parts(session.state.assets, changes, self.limit)
        if self.lasting:  # written objects must outlive this worker and its host
            session.state.assets.storage.flush()
        return changes


def count_written(changes: ChangeSet, *ids: NodeId) -> tuple[int, int]:
    """Return the number of chunks set in all or in these arrays, and their non-virtual bytes."""
    chunks = size = 0
    for edits in [edits for id, edits in changes.chunks.items() if not ids or id in ids]:
        table, _ = edits.columns()
        chunks += len(table) + sum(manifest.count for manifest in edits.prewritten)
        size += int(table.length[table.kind != ChunkKind.VIRTUAL].sum())
        size += sum(manifest.bytes for manifest in edits.prewritten)
    return chunks, size


class Scratch:
    """Temporary arrays of one job."""

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self._group = f"_frazil-{name}"

    def create(self, name: str, **settings: Any) -> str:
        """Create an array and return its path."""
        path = f"{self._group}/{name}"
        zarr.create_array(self.session.store, name=path, **settings)
        return path

    def freeze(self) -> ForkSession:
        """Return a fork for tasks to read, with everything written so far."""
        return self.session.fork()

    def delete_chunks(self) -> None:
        """Delete the written chunks; those that can't be deleted are left for garbage collection."""
        assets = self.session.state.assets
        with suppress(IcechunkError):
            assets.storage.delete_many(map(assets.layout.chunk_key, self._chunk_ids()))

    def _chunk_ids(self) -> Iterator[ChunkId]:
        assets = self.session.state.assets
        for id, edits in self.session.state.changes.chunks.items():
            table, _ = edits.columns()
            manifests = (manifest.read_changes(assets, id) for manifest in edits.prewritten)
            for each in chain([table], manifests):
                for row in each.distinct_chunk_ids():
                    yield ChunkId(row.tobytes())


@contextmanager
def scratch_arrays(session: Session, name: str) -> Iterator[Scratch]:
    """Provide temporary arrays that are deleted at the end."""
    scratch = Scratch(session, name)
    try:
        yield scratch
    finally:
        scratch.delete_chunks()
