"""Collect garbage on a cluster: the rules of `maintenance.gc`, with tasks that do the work."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from frazil.config.settings import RetentionPolicy
from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import ManifestFileInfo
from frazil.format.timestamps import require_zone
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
from frazil.maintenance.id_ranges import (
    IdRange,
    Ids,
    IdSet,
    column_of,
    cut,
    distinct,
    unite_columns,
)
from frazil.maintenance.leases import list_leases
from frazil.maintenance.reachability import (
    SweepLimits,
    WalkLimits,
    find_manifests,
    in_batches,
    map_manifests,
    uncached,
)
from frazil.ops import ExpirySummary, GCSummary
from frazil.protocols.assets import Assets
from frazil.repository.repository import Repository
from frazil.spark.job import Job
from frazil.spark.maintenance.gc_review import (
    Found,
    GarbageReport,
    MaintenanceReport,
    Part,
    Place,
    list_parts,
    read_review,
    read_share,
    review,
    split_parts,
    summarize,
    write_part,
)
from frazil.spark.runtime import count_slots
from frazil.spark.transaction import AnyRepository, Runner, RunOn, choose_runner, find_repository
from frazil.storage.constructors import storage_from_url
from frazil.storage.interface import ObjectInfo, Storage
from frazil.urls import Location

_UNKNOWN_REFS = 10_000
"""What a manifest counts as that nothing is told of."""


@dataclass(frozen=True, slots=True)
class FindManifests:
    """The manifests of some snapshots."""

    assets: Assets
    limits: WalkLimits

    def __call__(self, snapshots: Sequence[SnapshotId]) -> list[ManifestFileInfo]:
        """Each once, in the order of the snapshots."""
        return list(find_manifests(uncached(self.assets), snapshots, self.limits).values())


@dataclass(frozen=True, slots=True)
class MarkManifests:
    """Writes a part of the mark table."""

    assets: Assets
    place: Place
    limits: WalkLimits

    def __call__(self, manifests: Sequence[ManifestFileInfo]) -> Part:
        """The part of these; raises where one can't be read."""
        assets, size = uncached(self.assets), find_id_size(self.assets)
        read = map_manifests(assets, manifests, CHUNK_IDS, self.limits)
        ids = np.concatenate([np.empty(0, f"S{size}"), *unite_columns(read)])
        named = column_of((info.id for info in manifests), size)
        return write_part(self.place, distinct(ids), named)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a task found, and what became of it."""

    found: Found
    deleted: Deleted


@dataclass(frozen=True, slots=True)
class Sweep:
    """Deletes the chunks of a share that are not marked, or only lists them."""

    assets: Assets
    cutoff: datetime
    marks: Place
    parts: tuple[Part, ...]
    reviews: Place
    why: str
    limits: SweepLimits | None
    """None for a dry run."""

    def __call__(self, share: IdRange) -> Swept:
        """List, compare, write the list, delete."""
        name = f"chunks-{share.number:02}-of-{share.count:02}.parquet"
        data = review(self.reviews, name, "chunks", self._list(share), self.why)
        return sweep_reviewed(self.assets, data, self.limits, "chunks")

    def _list(self, share: IdRange) -> Iterator[ObjectInfo]:
        kept = IdSet()
        for part in self.parts:
            kept.add(read_share(self.marks, part, share))
        folder = chunk_folder(self.assets)
        yield from list_garbage(self.assets.storage, folder, kept, self.cutoff, share)


def sweep_reviewed(assets: Assets, data: bytes, limits: SweepLimits | None, kind: str) -> Swept:
    """Delete what is on a list; without limits nothing is."""
    found = summarize(data)
    if limits is None:
        return Swept(found, Deleted(found.count, found.size_bytes))
    return Swept(found, delete_objects(assets.storage, read_review(data), limits, kind))


def group_manifests(
    manifests: Iterable[ManifestFileInfo], most_refs: int, most_files: int
) -> list[list[ManifestFileInfo]]:
    """Neighbours together, with no more references or files than that, as far as is known."""
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
    """How many references a manifest has, or may have."""
    return _UNKNOWN_REFS if info.num_chunk_refs is None else info.num_chunk_refs


SNAPSHOTS_A_TASK = 50
MOST_REFS_A_TASK = 1_000_000
LEAST_REFS_A_TASK = 100_000
MOST_FILES_A_TASK = 5_000
IDS_A_SHARE = 2_000_000
TASKS_PER_SLOT = 3

ChooseRunner = Callable[[int], Runner]
"""By how many references are to be compared."""


@dataclass(slots=True)
class TaskCollector:
    """Marks into a table of Parquet files, and sweeps by shares of ids."""

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
    """Manifests whose parts of the table were there before."""
    _runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """Where tasks run; known once something is marked."""
        if self._runner is None:
            self._runner = self.choose_runner(0)
        return self._runner

    def mark(self, snapshots: Iterable[SnapshotId]) -> None:
        """Let stay what these refer to; only manifests that no part of the table has are read."""
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
        """Take up the parts of earlier collections; gives what they don't have."""
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
        """Those whose ids are chosen of all their ids, sorted."""
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
        """Delete these, here: they are few."""
        data = review(self.reviews, f"{kind}.parquet", kind, garbage, self._why())
        return self._take(kind, [sweep_reviewed(self.assets, data, self._limits(1), kind)])

    def delete_chunks(self) -> Deleted:
        """Delete the native chunks that are not marked, a task a share."""
        shares = self._cut()
        sweep = Sweep(
            self.assets,
            self.options.cutoff,
            self.marks,
            tuple(self.parts),
            self.reviews,
            self._why(),
            self._limits(min(self.slots, len(shares))),
        )
        return self._take("chunks", self.runner.run("sweeping", sweep, shares))

    def _cut(self) -> list[IdRange]:
        needed = -(-sum(part.count for part in self.parts) // IDS_A_SHARE)
        if self.runner.spark is None:
            return cut(needed)
        # A disk lists a folder as a whole for every share.
        at_once = self.slots if self.assets.storage.is_local else self.slots * TASKS_PER_SLOT
        return cut(max(needed, at_once))

    def _limits(self, at_once: int) -> SweepLimits | None:
        """Of each of so many tasks that run at once; None for a dry run."""
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
"""So many references are compared in one process sooner than Spark starts."""


def collect_garbage(
    spark: SparkSession | None,
    repo: AnyRepository,
    older_than: datetime | timedelta,
    *,
    dry_run: bool = False,
    marks: Location | None = None,
    review: Location | None = None,
    max_deletes_per_second: float | None = None,
    max_concurrent_deletes: int = 10,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> GarbageReport:
    """Delete what no branch or tag leads to, if it was written before a time, or is older than that.

    A time has a time zone, as for `Repository.garbage_collect`; one without raises TypeError.
    A dry run only lists it. The list is kept in Parquet files at `review`, or in the repository's
    storage after a dry run. The table of marked chunks is at `marks`, or in the repository's storage,
    and the next collection reads only manifests that it does not have. What jobs with a lease have
    written is spared; that of other sessions is protected by the time alone.
    """
    repository = find_repository(repo)
    storage = repository.storage
    work = _Work(
        spark, job or Job(), run_on, count_slots(spark),
        _find_place(storage, marks, MARKS), _find_place(storage, review, REVIEWS),
    )  # fmt: skip
    sweep = SweepLimits(
        max_concurrent_deletes=max_concurrent_deletes, max_deletes_per_second=max_deletes_per_second
    )
    options = CollectionOptions(find_cutoff(older_than), WalkLimits(), sweep, dry_run)
    try:
        running = list_leases(storage)
        summary = collect(repository.protocol, options, work.hire)
    finally:
        work.job.end()
    if not dry_run:
        work.clean_up(storage, keeps_review=review is not None)
    held = [each for each in running if each.holds_at(datetime.now(UTC))]
    named = tuple(f"{each.job} {each.id}" for each in held)
    return work.report(summary, named, is_kept=dry_run or review is not None)


def find_cutoff(older_than: datetime | timedelta) -> datetime:
    """A time, or so long ago; raises TypeError for a time without a zone."""
    if isinstance(older_than, timedelta):
        return datetime.now(UTC) - older_than
    return require_zone(older_than, "older_than")


@dataclass(slots=True)
class _Work:
    """One collection, with the collector that it has hired last."""

    spark: SparkSession | None
    job: Job
    run_on: RunOn
    slots: int
    marks: Place
    review_folder: Place
    started_at: float = field(default_factory=time.monotonic)
    hired: TaskCollector | None = None
    attempts: int = 0

    @property
    def collector(self) -> TaskCollector:
        assert self.hired is not None
        return self.hired

    def hire(self, assets: Assets, options: CollectionOptions) -> TaskCollector:
        """A collector for another attempt, with a list of its own."""
        self.attempts += 1
        folder = f"{self.review_folder.folder}/{self.job.id}-{self.attempts}"
        reviews = Place(self.review_folder.storage, folder)

        def choose(refs: int) -> Runner:
            is_small = refs <= FEW_REFS
            storage = assets.storage
            return choose_runner(self.spark, self.job, self.run_on, storage, is_small=is_small)

        self.hired = TaskCollector(assets, options, choose, self.slots, self.marks, reviews)
        return self.hired

    def clean_up(self, storage: Storage, *, keeps_review: bool) -> None:
        """Take away parts of the table that are of no use, and lists that nobody asked to keep."""
        cutoff = self.collector.options.cutoff
        with suppress(IcechunkError):  # the next one will
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
        """What became of it."""
        hired, tally = self.collector, self.job.tally
        return GarbageReport(
            hired.options.is_dry_run, hired.options.cutoff, protected, dict(hired.found), summary,
            hired.runner.name, len(hired.manifests), hired.reused, tally.tasks, tally.retries,
            time.monotonic() - self.started_at, self.job.id, hired.reviews if is_kept else None,
        )  # fmt: skip


def _find_place(storage: Storage, given: Location | None, folder: str) -> Place:
    if given is None:
        return Place(storage, folder)
    return Place(storage_from_url(given), folder.rpartition("/")[2])


_GARBAGE_AGE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """What an upkeep keeps."""

    retention: Mapping[str, RetentionPolicy] | None = None
    """By patterns of branches and tags; None for what is saved in the repository, if it is of V2."""
    expire_after: timedelta | None = None
    """Snapshots that are older leave the history, whatever branch or tag they are of."""
    garbage_age: timedelta = _GARBAGE_AGE
    """No session that is still to be committed may be older."""
    max_deletes_per_second: float | None = None


def maintain(
    spark: SparkSession | None,
    repo: AnyRepository,
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: bool = False,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> MaintenanceReport:
    """Expire what the policy lets go, and collect the garbage. Running it again does no harm.

    Others may commit meanwhile. In a dry run, garbage is what it is now: nothing has expired.
    """
    policy = policy or MaintenancePolicy()
    repository = find_repository(repo)
    expired = _expire(repository, policy, dry_run=dry_run)
    garbage = collect_garbage(
        spark,
        repository,
        policy.garbage_age,
        dry_run=dry_run,
        max_deletes_per_second=policy.max_deletes_per_second,
        job=job,
        run_on=run_on,
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
            "only repositories of V2 know policies of branches and tags: upgrade the repository, or "
            "give expire_after"
        )
    lines = [repository.ancestry(branch=name) for name in repository.list_branches()]
    kept = {info.id for line in lines for info in line}
    return ExpirySummary(released, len(kept))
