"""Check a repository with Spark tasks."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from frazil.arguments import verb
from frazil.errors import (
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    RepositoryNotFoundError,
)
from frazil.maintenance.check import CheckOptions, Stage, check_repository, check_storage
from frazil.maintenance.check_chunks import ManifestFindings, NeededFiles
from frazil.maintenance.check_walk import CheckManifests, ManifestTotals, WantedManifest
from frazil.maintenance.findings import CheckReport
from frazil.maintenance.inventory import (
    ChunkTotals,
    Inventory,
    WrongFiles,
    list_chunks,
    take_inventory,
)
from frazil.maintenance.reachability import ID_SLICES, IdRange, IdSet, find_slices
from frazil.protocols.assets import Assets
from frazil.repository.repository import Repository
from frazil.spark.job import CheckJobReport, Job, SparkSession
from frazil.spark.maintenance.spark_stats import (
    Columns,
    Send,
    TaskPool,
    count_refs,
    exchange,
    weigh,
)
from frazil.spark.transaction import AnyRepository, find_repository, running
from frazil.storage.constructors import storage_from_url
from frazil.virtual.access import Authorize

_UNITED_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class ReadManifests:
    """Task that checks manifests, except their chunk objects, and returns the chunks they need."""

    stage: CheckManifests
    num_shards: int

    def __call__(self, group: Sequence[WantedManifest], send: Send) -> ManifestTotals:
        """Return the findings, and send the needed chunk objects to their id ranges."""
        needed = _Needed()
        with ThreadPoolExecutor(self.stage.assets.storage.concurrency) as pool:
            totals = self.stage.check(pool, group, needed.take)
        for shard, data in pack_shards(needed.unite(), self.num_shards):
            send(shard, data)
        return totals


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Task that checks manifests with known wrong chunk objects."""

    stage: CheckManifests

    def __call__(self, group: Sequence[WantedManifest]) -> ManifestTotals:
        """Return the findings."""
        with ThreadPoolExecutor(self.stage.assets.storage.concurrency) as pool:
            return self.stage.check(pool, group, lambda _: None)

    @classmethod
    def of(cls, stage: CheckManifests, wrong: WrongFiles) -> "ReadAgain":
        """Return the task for a stage in which only these chunk objects are wrong."""
        return cls(replace(stage, context=replace(stage.context, chunks=wrong)))


class _Needed:
    """Distinct chunk objects that manifests need, deduplicated in batches to bound memory."""

    def __init__(self) -> None:
        self._parts: list[NeededFiles] = []
        self._count = 0

    def take(self, findings: ManifestFindings) -> None:
        """Add the chunk objects that a manifest needs."""
        assert findings.chunk_ends is not None
        self._parts.append(NeededFiles(findings.chunk_ids, findings.chunk_ends))
        self._count += len(findings.chunk_ids)
        if self._count > _UNITED_AT_ONCE:
            self._parts = [self.unite()]
            self._count = 0

    def unite(self) -> NeededFiles:
        """Return all needed chunk objects, each once."""
        return NeededFiles.unite(self._parts)


def pack_shards(needed: NeededFiles, num_shards: int) -> list[tuple[int, bytes]]:
    """Return the needed chunk objects of each non-empty id range, as bytes."""
    if not len(needed.ids):
        return []
    slices = np.arange(num_shards + 1) * (ID_SLICES // num_shards)
    edges = np.searchsorted(find_slices(needed.ids), slices).tolist()
    return [
        (shard, _pack(NeededFiles(needed.ids[begin:end], needed.ends[begin:end])))
        for shard, (begin, end) in enumerate(pairwise(edges))
        if end > begin
    ]


def _pack(needed: NeededFiles) -> bytes:
    return needed.ends.astype("<u8").tobytes() + needed.ids.tobytes()


def _unpack(data: bytes, id_size: int) -> NeededFiles:
    count = len(data) // (8 + id_size)
    ends = np.frombuffer(data, "<u8", count)
    return NeededFiles(np.frombuffer(data, f"S{id_size}", count, 8 * count), ends)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedShard:
    """Result of comparing one id range."""

    totals: ChunkTotals
    wrong: WrongFiles
    groups: frozenset[int]
    """Groups of manifests that reference wrong chunk objects."""


@dataclass(frozen=True, slots=True)
class CompareShard:
    """Task that lists the chunk objects of an id range and compares them with the needed ones."""

    assets: Assets
    num_shards: int
    id_size: int

    def __call__(self, number: int, columns: Columns) -> ComparedShard:
        """Return the counts of used and unused chunk objects, and the wrong ones."""
        listed = list_chunks(self.assets, IdRange(number, self.num_shards))
        used, groups, wrong = IdSet(), set[int](), list[NeededFiles]()
        for group, data in columns:
            needed = _unpack(data, self.id_size)
            used.add(needed.ids)
            found = needed.find_wrong(listed)
            if len(found.ids):
                groups.add(group)
                wrong.append(NeededFiles(found.ids, np.full(len(found.ids), _ANY, np.uint64)))
        distinct = NeededFiles.unite(wrong).find_wrong(listed)
        return ComparedShard(ChunkTotals.of(listed, used), distinct, frozenset(groups))


_ANY = np.iinfo(np.uint64).max
"""Larger than any object."""


def sum_up(shards: Iterable[ComparedShard]) -> ComparedShard:
    """Merge the results of all id ranges."""
    known = list(shards)
    return ComparedShard(
        sum((each.totals for each in known), ChunkTotals()),
        WrongFiles.unite([each.wrong for each in known]),
        frozenset().union(*(each.groups for each in known)),
    )


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TaskWorkers:
    """Runner of the stages of a check, in groups."""

    pool: TaskPool

    @property
    def parallel(self) -> int:
        """Maximum number of groups that run at once."""
        return self.pool.parallel

    def take_inventory(self, assets: Assets) -> Inventory:
        """List the storage except for chunks, which tasks list by id range."""
        return take_inventory(assets, with_chunks=False)

    def run(
        self, what: str, stage: Stage[T, R], items: Sequence[T], sizes: Sequence[int]
    ) -> list[R]:
        """Run a stage and return its result for each group of items."""
        groups = self.pool.group(items, sizes)
        task = _StageTask(stage, self.pool.run.storage.concurrency)
        return self.pool.choose_runner(groups).run(what, task, groups)

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """Read manifests, compare chunks by id range, then reread the manifests with wrong chunks."""
        groups = self.pool.group(wanted, [weigh(each.info) for each in wanted])
        runner = self.pool.choose_runner(groups)
        self.pool.run.job.expect("reading manifests", manifests=len(wanted))
        shards = self.pool.count_shards(runner, sum(count_refs(each.info) for each in wanted))
        find = ReadManifests(stage, shards)
        compare = CompareShard(stage.assets, shards, inventory.id_size)
        found, compared = exchange(runner, "reading manifests", find, groups, compare, shards)
        chunks = sum_up(compared)
        lacking = sorted(chunks.groups)
        again = ReadAgain.of(stage, chunks.wrong)
        reread = runner.run("finding lost chunks", again, [groups[each] for each in lacking])
        parts = dict(enumerate(found)) | dict(zip(lacking, reread, strict=True))
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


@verb(job=Job)
def check(
    repo: AnyRepository,
    *,
    branch: str | None = None,
    deep: bool = False,
    virtual_sources: bool = False,
    requests_per_second: float | None = REQUESTS_PER_SECOND,
    authorize: Authorize = (),
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CheckJobReport:
    """Check all objects of a repository and report every problem; nothing is written.

    This is `Repository.check` run by tasks: the same problems, counts and repairs, in the same order.
    A repository that can't be opened is checked, too.

    The memory of the driver grows with the number of snapshots, manifests and source files, not with
    that of chunks; only missing or truncated chunks are sent to it, at about 20 bytes each.

    Parameters
    ----------
    branch
        Check only what this branch references. Default: everything.
    deep
        Read and decode every chunk of the repository.
    virtual_sources
        Request the source files of virtual chunks in authorized containers. With `deep`, virtual
        chunks are decoded as well.
    requests_per_second
        Maximum rate of requests to source files, of all tasks together; None for no limit.
    authorize
        Containers whose source files may be requested, as for `open_session`.

    Returns
    -------
    CheckJobReport

    Raises
    ------
    InvalidInputError
        If `requests_per_second` is not above 0.

    Examples
    --------
    >>> report = check("s3://bucket/weather", deep=True)
    >>> report.is_healthy
    True
    """
    if requests_per_second is not None and requests_per_second <= 0:
        raise InvalidInputError(
            f"invalid requests_per_second {requests_per_second}: give a number above 0, or None"
        )
    storage = repo.storage if isinstance(repo, Repository) else storage_from_url(repo)
    options = CheckOptions(
        branch,
        decodes_chunks=deep,
        asks_sources=virtual_sources,
        requests_per_second=requests_per_second,
    )
    with running("check", storage, job, spark) as run:
        report = _check(TaskWorkers(TaskPool(run)), repo, authorize, options)
    found = {each.name: getattr(report, each.name) for each in fields(report)}
    return CheckJobReport(**found, **run.describe())


def _check(
    workers: TaskWorkers, repo: AnyRepository, authorize: Authorize, options: CheckOptions
) -> CheckReport:
    try:
        opened = find_repository(repo).authorize(authorize)
    except (FormatError, ObjectNotFoundError, RepositoryNotFoundError):
        return check_storage(workers.pool.run.storage, options, workers)
    return check_repository(opened.protocol, opened.context.virtual, options, workers)
