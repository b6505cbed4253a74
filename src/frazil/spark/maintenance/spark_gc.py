"""Collect garbage on a cluster: the rules of `maintenance.gc`, run by tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from frazil.arguments import named_options, verb
from frazil.config.settings import RetentionPolicy
from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import require_zone
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.gc import (
    CHUNK_IDS,
    CollectionOptions,
    Deleted,
    chunk_folder,
    delete_objects,
    find_id_size,
    is_older,
    list_garbage,
)
from frazil.maintenance.gc import collect_garbage as collect
from frazil.maintenance.leases import list_leases
from frazil.maintenance.reachability import (
    IdRange,
    Ids,
    IdSet,
    SweepLimits,
    WalkLimits,
    column_of,
    distinct,
    find_manifests,
    in_batches,
    map_manifests,
    split_ids,
    uncached,
    unite_columns,
)
from frazil.ops import ExpirySummary, GCSummary
from frazil.protocols.assets import Assets
from frazil.repository.repository import Repository
from frazil.spark.job import Job, SparkSession
from frazil.spark.maintenance.gc_review import (
    Found,
    GarbageReport,
    MaintenanceReport,
    Part,
    Place,
    list_parts,
    read_review,
    read_shard,
    review,
    split_parts,
    summarize,
    write_part,
)
from frazil.spark.runtime import Runner
from frazil.spark.transaction import AnyRepository, Run, find_repository, running
from frazil.storage.constructors import storage_from_url
from frazil.storage.interface import ObjectInfo, Storage
from frazil.urls import Location

_UNKNOWN_REFS = 10_000
"""Assumed references of a manifest whose count is not recorded."""


@dataclass(frozen=True, slots=True)
class FindManifests:
    """Task that finds the manifests of snapshots."""

    assets: Assets
    limits: WalkLimits

    def __call__(self, snapshots: Sequence[SnapshotId]) -> list[ManifestFileInfo]:
        """Return each manifest once, in the order of the snapshots."""
        return list(find_manifests(uncached(self.assets), snapshots, self.limits).values())


@dataclass(frozen=True, slots=True)
class MarkManifests:
    """Task that writes a part of the mark table."""

    assets: Assets
    place: Place
    limits: WalkLimits

    def __call__(self, manifests: Sequence[ManifestFileInfo]) -> Part:
        """Write the part for these manifests; raise if one can't be read."""
        assets, size = uncached(self.assets), find_id_size(self.assets)
        read = map_manifests(assets, manifests, CHUNK_IDS, self.limits)
        ids = np.concatenate([np.empty(0, f"S{size}"), *unite_columns(read)])
        named = column_of((info.id for info in manifests), size)
        return write_part(self.place, distinct(ids), named)


@dataclass(frozen=True, slots=True)
class Swept:
    """Garbage found by a task, and the objects it deleted."""

    found: Found
    deleted: Deleted


@dataclass(frozen=True, slots=True)
class Sweep:
    """Task that deletes the unmarked chunks of an id range, or only lists them."""

    assets: Assets
    cutoff: datetime
    marks: Place
    parts: tuple[Part, ...]
    reviews: Place
    why: str
    limits: SweepLimits | None
    """None for a dry run."""

    def __call__(self, shard: IdRange) -> Swept:
        """List the chunks, compare them with the marks, write the list, and delete."""
        name = f"chunks-{shard.number:02}-of-{shard.count:02}.parquet"
        data = review(self.reviews, name, "chunks", self._list(shard), self.why)
        return sweep_reviewed(self.assets, data, self.limits, "chunks")

    def _list(self, shard: IdRange) -> Iterator[ObjectInfo]:
        kept = IdSet()
        for part in self.parts:
            kept.add(read_shard(self.marks, part, shard))
        folder = chunk_folder(self.assets)
        yield from list_garbage(self.assets.storage, folder, kept, self.cutoff, shard)


def sweep_reviewed(assets: Assets, data: bytes, limits: SweepLimits | None, kind: str) -> Swept:
    """Delete the objects on a list; without limits delete nothing."""
    found = summarize(data)
    if limits is None:
        return Swept(found, Deleted(found.count, found.size_bytes))
    return Swept(found, delete_objects(assets.storage, read_review(data), limits, kind))


def group_manifests(
    manifests: Iterable[ManifestFileInfo], most_refs: int, most_files: int
) -> list[list[ManifestFileInfo]]:
    """Group neighbours, with at most this many references (estimated if unknown) and files."""
    groups: list[list[ManifestFileInfo]] = []
    refs = 0
    for info in manifests:
        more = count_refs(info)
        if not groups or refs + more > most_refs or len(groups[-1]) == most_files:
            groups.append([])
            refs = 0
        groups[-1].append(info)
        refs += more
    return groups


def count_refs(info: ManifestFileInfo) -> int:
    """Return the number of references of a manifest, estimated if it is not recorded."""
    return _UNKNOWN_REFS if info.num_chunk_refs is None else info.num_chunk_refs


SNAPSHOTS_A_TASK = 50
MOST_REFS_A_TASK = 1_000_000
LEAST_REFS_A_TASK = 100_000
MOST_FILES_A_TASK = 5_000
IDS_PER_SHARD = 2_000_000
TASKS_PER_SLOT = 3

ChooseRunner = Callable[[int], Runner]
"""Function from the number of references to compare to a runner."""


@dataclass(slots=True)
class TaskCollector:
    """Collector that marks into a table of Parquet files and sweeps by id range."""

    assets: Assets
    options: CollectionOptions
    choose_runner: ChooseRunner
    slots: int
    marks: Place
    reviews: Place
    manifests: IdSet = field(default_factory=IdSet)
    parts: list[Part] = field(default_factory=list)
    stale: list[Part] = field(default_factory=list)
    found: dict[str, Found] = field(default_factory=dict)
    reused: int = 0
    """Number of manifests whose parts of the table existed before."""
    _runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """Runner of the tasks, chosen when the first snapshots are marked."""
        if self._runner is None:
            self._runner = self.choose_runner(0)
        return self._runner

    def mark(self, snapshots: Iterable[SnapshotId]) -> None:
        """Keep what these snapshots reference; read only manifests that are not in the table."""
        found = self._find_manifests(list(snapshots))
        todo = self._choose(found, self.manifests.add)
        if self._runner is None:
            self._runner = self.choose_runner(sum(map(count_refs, todo)))
            todo = self._reuse(todo)
        self._mark_new(todo)

    def _find_manifests(self, snapshots: list[SnapshotId]) -> list[ManifestFileInfo]:
        find = FindManifests(self.assets, self.options.walk)
        groups = list(in_batches(snapshots, SNAPSHOTS_A_TASK))
        if len(groups) <= self.slots:
            return find(snapshots)
        runner = self._runner or self.choose_runner(MOST_REFS_A_TASK + 1)
        each_once = {
            info.id: info
            for infos in runner.run("reading snapshots", find, groups)
            for info in infos
        }
        return list(each_once.values())

    def _reuse(self, manifests: list[ManifestFileInfo]) -> list[ManifestFileInfo]:
        """Reuse parts of earlier collections, and return the manifests they lack."""
        self.parts, self.stale = split_parts(list_parts(self.marks), self.manifests)
        known = IdSet()
        for part in self.parts:
            known.add(part.manifests)
        remaining = self._choose(manifests, lambda ids: ~known.contains(ids))
        self.reused = len(manifests) - len(remaining)
        return remaining

    def _choose(
        self, manifests: list[ManifestFileInfo], choose: Callable[[Ids], NDArray[np.bool_]]
    ) -> list[ManifestFileInfo]:
        """Return the manifests whose ids `choose` selects from all their ids, sorted."""
        ids = sorted({info.id for info in manifests})
        chosen = set(compress(ids, choose(column_of(ids, find_id_size(self.assets)))))
        return [info for info in manifests if info.id in chosen]

    def _mark_new(self, manifests: list[ManifestFileInfo]) -> None:
        fair = sum(map(count_refs, manifests)) // (self.slots * TASKS_PER_SLOT)
        most = min(max(fair, LEAST_REFS_A_TASK), MOST_REFS_A_TASK)
        groups = group_manifests(manifests, most, MOST_FILES_A_TASK)
        mark = MarkManifests(self.assets, self.marks, self.options.walk)
        self.parts += self.runner.run("marking", mark, groups)

    def delete(self, kind: str, garbage: Iterable[ObjectInfo]) -> Deleted:
        """Delete these objects on the driver; they are few."""
        data = review(self.reviews, f"{kind}.parquet", kind, garbage, self._why())
        return self._take(kind, [sweep_reviewed(self.assets, data, self._limits(1), kind)])

    def look_ahead(self, pool: Executor) -> Callable[[], None]:  # noqa: ARG002
        """Do nothing: tasks list the chunks that they delete."""
        return lambda: None

    def delete_chunks(self) -> Deleted:
        """Delete the unmarked native chunks, one task per id range."""
        shards = self._cut()
        sweep = Sweep(
            self.assets,
            self.options.cutoff,
            self.marks,
            tuple(self.parts),
            self.reviews,
            self._why(),
            self._limits(min(self.slots, len(shards))),
        )
        return self._take("chunks", self.runner.run("sweeping", sweep, shards))

    def _cut(self) -> list[IdRange]:
        needed = -(-sum(part.count for part in self.parts) // IDS_PER_SHARD)
        if self.runner.spark is None:
            return split_ids(needed)
        # A local storage lists the whole folder for every id range.
        at_once = self.slots if self.assets.storage.is_local else self.slots * TASKS_PER_SLOT
        return split_ids(max(needed, at_once))

    def _limits(self, at_once: int) -> SweepLimits | None:
        """Return the limits for each of the tasks that run at once; None for a dry run."""
        limits = self.options.sweep
        if self.options.is_dry_run:
            return None
        if limits.max_deletes_per_second is None:
            return limits
        fair = max(1.0, limits.max_deletes_per_second / at_once)
        return replace(limits, max_deletes_per_second=fair)

    def _take(self, kind: str, swept: list[Swept]) -> Deleted:
        self.found[kind] = sum((each.found for each in swept), Found())
        return sum((each.deleted for each in swept), Deleted())

    def _why(self) -> str:
        return f"nothing that stays refers to it, and it is from before {self.options.cutoff}"


MARKS = "_frazil/marks"
REVIEWS = "_frazil/garbage"
FEW_REFS = 500_000
"""Number of references that one process compares in less time than Spark needs to start."""


@verb(job=Job)
def collect_garbage(
    repo: AnyRepository,
    older_than: datetime | timedelta,
    *,
    dry_run: bool = False,
    marks: Location | None = None,
    review: Location | None = None,
    max_deletes_per_second: float | None = None,
    max_concurrent_deletes: int = 10,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> GarbageReport:
    """Delete the objects that no branch or tag reaches and that were written before a cutoff.

    Objects written by jobs that hold a lease are kept. Those of other sessions are protected only
    by the cutoff.

    Parameters
    ----------
    older_than
        Cutoff: a time with a time zone, or an age.
    dry_run
        Only list the garbage.
    marks
        Location of the table of marked chunks, by default in the repository's storage. The next
        collection reads only manifests that are not in the table.
    review
        Location where the list of garbage is kept, as Parquet files. By default it is kept only after a
        dry run, in the repository's storage.
    max_deletes_per_second
        Maximum rate of deletions, of all tasks together.
    max_concurrent_deletes
        Maximum concurrent delete requests of a task.

    Returns
    -------
    GarbageReport

    Raises
    ------
    TypeError
        If `older_than` is a time without a time zone.

    Examples
    --------
    >>> report = collect_garbage("s3://bucket/weather", timedelta(days=7), dry_run=True)
    >>> print(report)
    """
    repository = find_repository(repo)
    storage = repository.storage
    sweep = SweepLimits(
        max_concurrent_deletes=max_concurrent_deletes, max_deletes_per_second=max_deletes_per_second
    )
    options = CollectionOptions(find_cutoff(older_than), WalkLimits(), sweep, dry_run)
    leases = list_leases(storage)
    with running("collect_garbage", storage, job, spark) as run:
        work = _Work(run, _find_place(storage, marks, MARKS), _find_place(storage, review, REVIEWS))
        summary = collect(repository.protocol, options, work.make_collector)
    if not dry_run:
        work.clean_up(storage, keeps_review=review is not None)
    held = [each for each in leases if each.holds_at(datetime.now(UTC))]
    named = tuple(f"{each.job} {each.id}" for each in held)
    return work.report(summary, named, is_kept=dry_run or review is not None)


def find_cutoff(older_than: datetime | timedelta) -> datetime:
    """Return a time, or the time this long ago; raise TypeError for a time without a zone."""
    if isinstance(older_than, timedelta):
        return datetime.now(UTC) - older_than
    return require_zone(older_than, "older_than")


@dataclass(slots=True)
class _Work:
    """State of one collection, with the collector of its last attempt."""

    run: Run
    marks: Place
    review_folder: Place
    last: TaskCollector | None = None
    attempts: int = 0

    @property
    def collector(self) -> TaskCollector:
        assert self.last is not None
        return self.last

    def make_collector(self, assets: Assets, options: CollectionOptions) -> TaskCollector:
        """Create a collector for another attempt, with its own list of garbage."""
        self.attempts += 1
        folder = f"{self.review_folder.folder}/{self.run.job.id}-{self.attempts}"
        reviews = Place(self.review_folder.storage, folder)

        def choose(refs: int) -> Runner:
            return self.run.choose_runner(is_small=refs <= FEW_REFS)

        self.last = TaskCollector(assets, options, choose, self.run.slots, self.marks, reviews)
        return self.last

    def clean_up(self, storage: Storage, *, keeps_review: bool) -> None:
        """Delete stale parts of the mark table, and lists of garbage that are not to be kept."""
        cutoff = self.collector.options.cutoff
        with suppress(IcechunkError):  # the next collection will delete them
            self.marks.storage.delete_many(part.key for part in self.collector.stale)
            if keeps_review:
                return
            own = f"{self.collector.reviews.folder}/"
            lists = storage.list(f"{REVIEWS}/")
            storage.delete_many(
                info.key
                for info in lists
                if info.key.startswith(own) or is_older(info.created_at, cutoff)
            )

    def report(
        self, summary: GCSummary, protected: tuple[str, ...], *, is_kept: bool
    ) -> GarbageReport:
        """Return the report of the collection."""
        used = self.collector
        return GarbageReport(
            is_dry_run=used.options.is_dry_run, cutoff=used.options.cutoff,
            protected_jobs=protected, found=dict(used.found), summary=summary,
            manifests=len(used.manifests), manifests_reused=used.reused,
            reviews=used.reviews if is_kept else None, **self.run.describe(),
        )  # fmt: skip


def _find_place(storage: Storage, given: Location | None, folder: str) -> Place:
    if given is None:
        return Place(storage, folder)
    return Place(storage_from_url(given), folder.rpartition("/")[2])


_GARBAGE_AGE = timedelta(days=7)


@named_options
@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """Retention rules of a maintenance run.

    Parameters
    ----------
    retention
        Policies by branch and tag pattern; None for those saved in a V2 repository.
    expire_after
        Age at which snapshots expire, on every branch and tag; None for `retention` only.
    garbage_age
        Minimum age of garbage; must exceed the age of any session still to be committed.
    max_deletes_per_second
        Maximum rate of deletions; None for no limit.
    """

    retention: Mapping[str, RetentionPolicy] | None = None
    expire_after: timedelta | None = None
    garbage_age: timedelta = _GARBAGE_AGE
    max_deletes_per_second: float | None = None


@verb(job=Job, policy=MaintenancePolicy)
def maintain(
    repo: AnyRepository,
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: bool = False,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> MaintenanceReport:
    """Expire snapshots by the policy, then collect garbage.

    The run is idempotent, and others may commit meanwhile. A dry run expires nothing, so that its
    garbage is what is unreachable now.

    Parameters
    ----------
    policy
        Retention rules. Default: `MaintenancePolicy()`.
    dry_run
        Only report what would expire and what is garbage.

    Returns
    -------
    MaintenanceReport

    Raises
    ------
    InvalidInputError
        If the policy has `retention` and the repository is older than V2.

    Examples
    --------
    >>> policy = MaintenancePolicy(retention={"main": RetentionPolicy(keep_for=timedelta(days=90))})
    >>> print(maintain("s3://bucket/weather", policy))
    """
    policy = policy or MaintenancePolicy()
    repository = find_repository(repo)
    expired = _expire(repository, policy, dry_run=dry_run)
    garbage = collect_garbage(
        repository,
        policy.garbage_age,
        dry_run=dry_run,
        max_deletes_per_second=policy.max_deletes_per_second,
        job=job,
        spark=spark,
    )
    return MaintenanceReport(expired, garbage)


def _expire(repository: Repository, policy: MaintenancePolicy, *, dry_run: bool) -> ExpirySummary:
    released: set[str] = set()
    if policy.expire_after is not None:
        time = datetime.now(UTC) - policy.expire_after
        expire = repository.find_expired_snapshots if dry_run else repository.expire_snapshots
        released |= expire(time)
    if repository.spec_version >= 2:
        by_refs = repository.expire(policies=policy.retention, dry_run=dry_run)
        return ExpirySummary(released | by_refs.released_snapshots, by_refs.kept_snapshots)
    if policy.retention is not None:
        raise InvalidInputError(
            "retention policies need a V2 repository: upgrade the repository, or give expire_after"
        )
    lines = [repository.ancestry(branch=name) for name in repository.list_branches()]
    kept = {info.id for line in lines for info in line}
    return ExpirySummary(released, len(kept))
