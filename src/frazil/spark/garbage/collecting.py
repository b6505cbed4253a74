"""Collecting garbage on a cluster: the same rules as on one machine, with tasks that do the work."""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from frazil.assets import Assets
from frazil.errors import IcechunkError
from frazil.format.times import require_zone
from frazil.maintenance.collecting import collect_garbage as collect
from frazil.maintenance.collectors import CollectionOptions
from frazil.maintenance.garbage import is_older
from frazil.maintenance.leases import list_leases
from frazil.maintenance.limits import SweepLimits, WalkLimits
from frazil.ops import GCSummary
from frazil.spark.arrays.one_commit import AnyRepository, find_repository
from frazil.spark.arrays.runner import Runner, RunOn, choose_runner, count_slots
from frazil.spark.garbage.collector import TaskCollector
from frazil.spark.garbage.mark_table import Place
from frazil.spark.garbage.report import GarbageReport
from frazil.spark.job import Job
from frazil.storage import Storage
from frazil.storage.from_url import storage_from_url
from frazil.urls import Location

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
