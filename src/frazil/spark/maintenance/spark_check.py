"""Check a repository with the workers of a cluster."""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
from pyspark.sql import SparkSession

from frazil.errors import (
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    RepositoryNotFoundError,
)
from frazil.maintenance.check import CheckOptions, Stage, Workers, check_storage
from frazil.maintenance.check_chunks import ManifestFindings, NeededFiles
from frazil.maintenance.check_walk import CheckManifests, ManifestTotals, WantedManifest
from frazil.maintenance.findings import CheckReport
from frazil.maintenance.id_ranges import CELLS, IdRange, IdSet, cells_of
from frazil.maintenance.inventory import (
    ChunkTotals,
    Inventory,
    WrongFiles,
    list_chunks,
    take_inventory,
)
from frazil.protocols.assets import Assets
from frazil.repository.operations import check_by
from frazil.repository.repository import Repository
from frazil.spark.job import CheckJobReport, Job
from frazil.spark.maintenance.spark_stats import Columns, TaskPool, count_refs, exchange, weigh
from frazil.spark.runtime import count_slots, find_application_id
from frazil.spark.transaction import AnyRepository, RunOn, find_repository
from frazil.storage.constructors import storage_from_url
from frazil.storage.interface import Storage

_UNITED_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class ReadManifests:
    """Checks manifests but for their chunk files, and says which they need."""

    stage: CheckManifests
    num_shares: int

    def __call__(self, group: Sequence[WantedManifest]) -> tuple[ManifestTotals, Columns]:
        """What was found, and the needed files by share."""
        needed = _Needed()
        with ThreadPoolExecutor(self.stage.assets.storage.concurrency) as pool:
            totals = self.stage.check(pool, group, needed.take)
        return totals, pack_shares(needed.unite(), self.num_shares)


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Checks manifests, knowing which chunk files are wrong."""

    stage: CheckManifests

    def __call__(self, group: Sequence[WantedManifest]) -> ManifestTotals:
        """What was found."""
        with ThreadPoolExecutor(self.stage.assets.storage.concurrency) as pool:
            return self.stage.check(pool, group, lambda _: None)

    @classmethod
    def of(cls, stage: CheckManifests, wrong: WrongFiles) -> "ReadAgain":
        """With these files being wrong, and all others right."""
        return cls(replace(stage, around=replace(stage.around, chunks=wrong)))


class _Needed:
    """The files that manifests need, of which no more are in memory than there are distinct ones."""

    def __init__(self) -> None:
        self._parts: list[NeededFiles] = []
        self._count = 0

    def take(self, findings: ManifestFindings) -> None:
        """Remember what a manifest needs."""
        assert findings.chunk_ends is not None
        self._parts.append(NeededFiles(findings.chunk_ids, findings.chunk_ends))
        self._count += len(findings.chunk_ids)
        if self._count > _UNITED_AT_ONCE:
            self._parts = [self.unite()]
            self._count = 0

    def unite(self) -> NeededFiles:
        """All, each once."""
        return NeededFiles.unite(self._parts)


def pack_shares(needed: NeededFiles, num_shares: int) -> Columns:
    """The needed files of each share that has any, as bytes."""
    if not len(needed.ids):
        return []
    cells = np.arange(num_shares + 1) * (CELLS // num_shares)
    edges = np.searchsorted(cells_of(needed.ids), cells).tolist()
    return [
        (share, _pack(NeededFiles(needed.ids[begin:end], needed.ends[begin:end])))
        for share, (begin, end) in enumerate(pairwise(edges))
        if end > begin
    ]


def _pack(needed: NeededFiles) -> bytes:
    return needed.ends.astype("<u8").tobytes() + needed.ids.tobytes()


def _unpack(data: bytes, id_size: int) -> NeededFiles:
    count = len(data) // (8 + id_size)
    ends = np.frombuffer(data, "<u8", count)
    return NeededFiles(np.frombuffer(data, f"S{id_size}", count, 8 * count), ends)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedShare:
    """What came of a share."""

    totals: ChunkTotals
    wrong: WrongFiles
    groups: frozenset[int]
    """Of manifests that refer to wrong files."""


@dataclass(frozen=True, slots=True)
class CompareShare:
    """Lists the chunk files of a share, and holds those that are needed against them."""

    assets: Assets
    num_shares: int
    id_size: int

    def __call__(self, number: int, columns: Columns) -> ComparedShare:
        """How many files are used and unused, and which are wrong."""
        listed = list_chunks(self.assets, IdRange(number, self.num_shares))
        used, groups, wrong = IdSet(), set[int](), list[NeededFiles]()
        for group, data in columns:
            needed = _unpack(data, self.id_size)
            used.add(needed.ids)
            found = needed.find_wrong(listed)
            if len(found.ids):
                groups.add(group)
                wrong.append(NeededFiles(found.ids, np.full(len(found.ids), _ANY, np.uint64)))
        distinct = NeededFiles.unite(wrong).find_wrong(listed)
        return ComparedShare(ChunkTotals.of(listed, used), distinct, frozenset(groups))


_ANY = np.iinfo(np.uint64).max
"""More than any file has."""


def sum_up(shares: Iterable[ComparedShare]) -> ComparedShare:
    """What came of all shares."""
    known = list(shares)
    return ComparedShare(
        sum((each.totals for each in known), ChunkTotals()),
        WrongFiles.unite([each.wrong for each in known]),
        frozenset().union(*(each.groups for each in known)),
    )


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TaskWorkers:
    """Runs the stages of a check in groups."""

    hands: TaskPool

    @property
    def parallel(self) -> int:
        """How many parts are at work at once."""
        return self.hands.parallel

    def take_inventory(self, assets: Assets) -> Inventory:
        """What the storage lists, but for chunks: those are listed share by share."""
        return take_inventory(assets, with_chunks=False)

    def run(
        self, what: str, stage: Stage[T, R], items: Sequence[T], sizes: Sequence[int]
    ) -> list[R]:
        """What a stage gives for each group of items."""
        groups = self.hands.group(items, sizes)
        task = _StageTask(stage, self.hands.storage.concurrency)
        return self.hands.choose_runner(groups).run(what, task, groups)

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """Manifests are read, then chunks compared by share, then those manifests that lack some."""
        groups = self.hands.group(wanted, [weigh(each.info) for each in wanted])
        runner = self.hands.choose_runner(groups)
        self.hands.job.expect("reading manifests", manifests=len(wanted))
        shares = self.hands.count_shares(runner, sum(count_refs(each.info) for each in wanted))
        find = ReadManifests(stage, shares)
        compare = CompareShare(stage.assets, shares, inventory.id_size)
        found, compared = exchange(runner, "reading manifests", find, groups, compare, shares)
        chunks = sum_up(compared)
        lacking = sorted(chunks.groups)
        again = ReadAgain.of(stage, chunks.wrong)
        told = runner.run("finding lost chunks", again, [groups[each] for each in lacking])
        parts = dict(enumerate(found)) | dict(zip(lacking, told, strict=True))
        totals = ManifestTotals()
        for part in parts.values():
            totals.add(part)
        return totals, chunks.totals


@dataclass(frozen=True, slots=True)
class _StageTask(Generic[T, R]):
    stage: Stage[T, R]
    concurrency: int

    def __call__(self, items: Sequence[T]) -> R:
        with ThreadPoolExecutor(self.concurrency) as pool:
            return self.stage(pool, items)


REQUESTS_PER_SECOND = 50.0


def check(
    spark: SparkSession | None,
    repo: AnyRepository,
    *,
    branch: str | None = None,
    deep: bool = False,
    virtual_sources: bool = False,
    requests_per_second: float | None = REQUESTS_PER_SECOND,
    task_bytes: int | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> CheckJobReport:
    """Look at all files of a repository, and tell everything that is wrong; nothing is written.

    It is `Repository.check`, done by tasks: the same problems, counts and repairs, in the same order.
    With a branch, only what it leads to is looked at. `deep` reads and decodes every chunk of the
    repository. `virtual_sources` asks for every file that virtual chunks are in, of the containers that
    are authorized, so often a second all tasks together; with both, virtual chunks are decoded as well,
    at the same pace. `task_bytes` says how much a task reads. The place of a repository that can't be
    opened is checked, too.

    What the driver holds grows with the number of snapshots, manifests and sources, not with that of
    chunks; only those that are gone or too short are brought to it, at about 20 bytes each.
    """
    if requests_per_second is not None and requests_per_second <= 0:
        raise InvalidInputError(
            f"requests_per_second is {requests_per_second}: give a number above 0, or None"
        )
    run, began = job or Job(), time.monotonic()
    storage = repo.storage if isinstance(repo, Repository) else storage_from_url(repo)
    options = CheckOptions(
        branch,
        decodes_chunks=deep,
        asks_sources=virtual_sources,
        requests_per_second=requests_per_second,
    )
    slots = count_slots(spark)
    hands = TaskPool(spark, run, run_on, storage, slots, task_bytes)
    try:
        report = _check(TaskWorkers(hands), repo, storage, options)
    finally:
        run.end()
    return CheckJobReport.of(
        report,
        ran_on=hands.ran_on,
        tasks=run.tally.tasks,
        retries=run.tally.retries,
        seconds=time.monotonic() - began,
        job_id=run.id,
        application_id=find_application_id(spark),
    )


def _check(
    workers: Workers, repo: AnyRepository, storage: Storage, options: CheckOptions
) -> CheckReport:
    try:
        opened = find_repository(repo)
    except (FormatError, ObjectNotFoundError, RepositoryNotFoundError):
        return check_storage(storage, options, workers)
    return check_by(workers, opened, options)
