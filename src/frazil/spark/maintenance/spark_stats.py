"""Measure the size of chunks in tasks, and exchange columns by id range."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arguments import verb
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.reachability import (
    WalkLimits,
    find_manifests,
    find_reachable,
    map_manifests,
    pack,
    split_ids,
    uncached,
)
from frazil.maintenance.stats import (
    SIZES,
    ChunkTally,
    Sizes,
    Spool,
    pack_sizes,
    split_sizes,
    sum_distinct,
)
from frazil.ops import ChunkStorageStats
from frazil.protocols.assets import Assets
from frazil.repository.repository import Repository
from frazil.spark.job import Job, SparkSession
from frazil.spark.regions import TASKS_PER_SLOT
from frazil.spark.runtime import (
    RESULT_SCHEMA,
    Runner,
    collect_results,
    find_max_failures,
    map_batches,
    map_numbers,
    result_fields,
    run_task,
    shuffle_by_number,
)
from frazil.spark.transaction import AnyRepository, Run, find_repository, running

Group = TypeVar("Group")
Small = TypeVar("Small")
Result = TypeVar("Result")

Columns = Iterable[tuple[int, bytes]]
"""Columns with the number of their group."""
Send = Callable[[int, bytes], object]
"""Function that sends columns to an id range."""

Find = Callable[[Group, Send], Small]
Join = Callable[[int, Columns], Result]
"""Function of an id range's number and its columns in the order of their groups."""

_OWN_FIELDS = pa.schema([("shard", pa.int32()), ("group", pa.int64()), ("columns", pa.binary())])
_RESULT_FIELDS = result_fields()
_FIELDS = pa.schema([*_RESULT_FIELDS, *_OWN_FIELDS])
_SCHEMA = RESULT_SCHEMA + ", shard int, `group` long, columns binary"


def exchange(
    runner: Runner,
    what: str,
    find: Find[Group, Small],
    groups: Sequence[Group],
    join: Join[Result],
    num_shards: int,
) -> tuple[list[Small], list[Result]]:
    """Return the result of `find` per group and of `join` per id range, including empty ranges."""
    if runner.spark is not None and groups:
        max_failures = find_max_failures(runner.spark)
        work = _Work(find, groups, join, num_shards, max_failures)
        return _exchange_on_spark(runner, runner.spark, what, work)
    with Spool(num_shards) as spool:

        def find_here(number: int) -> Small:
            return find(groups[number], lambda shard, data: spool.add(shard, number, data))

        found = runner.run(what, find_here, range(len(groups)))
        return found, [join(shard, spool.read(shard)) for shard in range(num_shards)]


def _exchange_on_spark(
    runner: Runner, spark: SparkSession, what: str, work: "_Work[Group, Small, Result]"
) -> tuple[list[Small], list[Result]]:
    groups, shards = len(work.groups), work.num_shards
    found = map_numbers(spark, groups, work.run_group, _SCHEMA, is_stateless=True)
    shuffled = shuffle_by_number(found, shards, "shard")
    joined = map_batches(shuffled, work.run_shard, RESULT_SCHEMA, is_stateless=True)
    results = collect_results(spark, runner.job, what, joined, groups + shards)
    return results[:groups], results[groups:]


@dataclass(frozen=True, slots=True)
class _Work(Generic[Group, Small, Result]):
    find: Find[Group, Small]
    groups: Sequence[Group]
    join: Join[Result]
    num_shards: int
    max_failures: int

    def run_group(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the result row of a group, and one row for each of its columns."""
        # The first group sends an empty column to every id range, so that each gets a task.
        columns = [(shard, b"") for shard in range(self.num_shards) if number == 0]

        def find() -> Small:
            return self.find(self.groups[number], lambda *sent: columns.append(sent))

        row = run_task(number, find, self.max_failures)
        yield _to_batch([*row.columns, *_own(number % self.num_shards, number, None)])
        nothing = [pa.nulls(1, field.type) for field in _RESULT_FIELDS]
        for shard, data in columns:
            yield _to_batch([*nothing, *_own(shard, number, data)])

    def run_shard(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the result rows of groups unchanged, and one result row per id range in the batches."""
        shards: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for batch in batches:
            yield batch.filter(pc.is_null(batch.column("columns"))).select(_RESULT_FIELDS.names)
            own = batch.select(_OWN_FIELDS.names).to_pydict()
            for shard, group, data in zip(*own.values(), strict=True):
                shards[shard] += [(group, data)] if data else []
        for shard, columns in shards.items():
            join = partial(self.join, shard, sorted(columns, key=lambda each: each[0]))
            yield run_task(len(self.groups) + shard, join, self.max_failures)


def _own(shard: int, group: int, data: bytes | None) -> list[pa.Array]:
    values = zip((shard, group, data), _OWN_FIELDS, strict=True)
    return [pa.array([value], field.type) for value, field in values]


def _to_batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, schema=_FIELDS)


@dataclass(frozen=True, slots=True)
class FindManifests:
    """Task that finds the manifests of snapshots."""

    assets: Assets
    limits: WalkLimits

    def __call__(self, snapshots: Sequence[SnapshotId]) -> list[ManifestFileInfo]:
        """Return each manifest once; raise if a snapshot is missing."""
        return list(find_manifests(self.assets, snapshots, self.limits).values())


@dataclass(frozen=True, slots=True)
class MeasureManifests:
    """Task that reads the sizes of the chunks that manifests reference."""

    assets: Assets
    limits: WalkLimits
    num_shards: int

    def __call__(self, manifests: Sequence[ManifestFileInfo], send: Send) -> int:
        """Return the bytes of inline chunks, and send the sizes of all others to their id ranges."""
        natives, virtuals = _Sender(send, self.num_shards), _Sender(send, self.num_shards)
        inlined_bytes = 0
        for arrays in map_manifests(self.assets, manifests, SIZES, self.limits):
            for sizes in arrays:
                natives.add(sizes.native)
                virtuals.add(sizes.virtual)
                inlined_bytes += sizes.inlined_bytes
        natives.flush()
        virtuals.flush()
        return inlined_bytes


class _Sender:
    """Sends sizes to their id ranges, many at a time."""

    def __init__(self, send: Send, num_shards: int) -> None:
        self._send, self._num_shards = send, num_shards
        self._waiting: list[Sizes] = []
        self._count = 0

    def add(self, sizes: Sizes) -> None:
        self._waiting.append(sizes)
        self._count += len(sizes.ids)
        if self._count >= _SENT_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        for shard, part in split_sizes(Sizes.unite(self._waiting), self._num_shards):
            self._send(shard, pack_sizes(part))
        self._waiting, self._count = [], 0


_SENT_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class SumShard:
    """Task that sums the sizes of the chunks of an id range, each counted once."""

    def __call__(self, _: int, columns: Columns) -> tuple[int, int]:
        """Return the bytes of native chunks and of virtual chunks."""
        return sum_distinct(data for _, data in columns)


T = TypeVar("T")

FILE_BYTES = 128 * 1024
"""Cost of one request, in bytes read."""
REFERENCE_BYTES = 64
"""Cost of processing one manifest reference, in bytes read."""
IDS_PER_SHARD = 1_000_000


@dataclass(frozen=True, slots=True)
class TaskPool:
    """Grouping of work into tasks of a run."""

    run: Run
    ids_per_shard: int = IDS_PER_SHARD

    @property
    def parallel(self) -> int:
        """Maximum number of groups that run at once."""
        return 1 if self.run.spark is None or self.run.job.run_on == "driver" else self.run.slots

    def group(self, items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
        """Group neighbours into tasks of suitable size."""
        efforts = [size + FILE_BYTES for size in sizes]
        return pack(items, efforts, self.run.task_bytes(sum(efforts)))

    def choose_runner(self, groups: Sequence[Group]) -> Runner:
        """Return the requested runner; with `auto`, the driver for at most one group."""
        return self.run.choose_runner(is_small=len(groups) <= 1)

    def count_shards(self, runner: Runner, num_ids: int) -> int:
        """Return the number of id ranges in which to compare this many ids."""
        needed = -(-num_ids // self.ids_per_shard)
        if runner.spark is None:
            return len(split_ids(needed))
        # A local storage lists the whole folder for every id range.
        slots = self.run.slots
        at_once = slots if self.run.storage.is_local else slots * TASKS_PER_SLOT
        return len(split_ids(max(needed, at_once)))


def count_refs(info: ManifestFileInfo) -> int:
    """Return the number of references of a manifest, estimated if it is not recorded."""
    known = info.num_chunk_refs
    return (info.size_bytes or 0) // REFERENCE_BYTES if known is None else known


def weigh(info: ManifestFileInfo) -> int:
    """Return the cost of reading a manifest."""
    return (info.size_bytes or 0) + count_refs(info) * REFERENCE_BYTES


@verb(job=Job)
def stats(
    repo: AnyRepository,
    *,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> ChunkStorageStats:
    """Return the total size of the chunks that branches and tags reach, each chunk counted once.

    This is `Repository.chunk_storage_stats` run by tasks. A native chunk is identified by its id, a
    virtual chunk by its byte range in the source file; inline chunks count wherever they occur. The
    memory of the driver grows with the number of manifests, not with that of chunks.

    Parameters
    ----------
    repo
        Repository or its location.
    job
        Handle to follow or cancel the job, with the options of its tasks.
    spark
        Session that runs the tasks. Default: the active one, or a new one for work that is not small.

    Returns
    -------
    ChunkStorageStats
    """
    repository = find_repository(repo)
    with running("stats", repository.storage, job, spark) as run:
        return measure(repository, TaskPool(run))


def measure(repository: Repository, pool: TaskPool) -> ChunkStorageStats:
    """Return the total size of all chunks, measured by a task pool."""
    assets, limits = uncached(repository.protocol.assets), WalkLimits()
    snapshots = sorted(find_reachable(repository.protocol))
    groups = pool.group(snapshots, [0] * len(snapshots))
    found = pool.choose_runner(groups).run(
        "reading snapshots", FindManifests(assets, limits), groups
    )
    manifests = list({info.id: info for infos in found for info in infos}.values())
    parts = pool.group(manifests, list(map(weigh, manifests)))
    runner = pool.choose_runner(parts)
    if runner.spark is None:
        with ChunkTally() as tally:
            runner.run("measuring", lambda part: tally.add(assets, part, limits), parts)
            return tally.total()
    shards = pool.count_shards(runner, sum(map(count_refs, manifests)))
    inlined, sums = exchange(
        runner, "measuring", MeasureManifests(assets, limits, shards), parts, SumShard(), shards
    )
    natives, virtuals = (sum(each) for each in zip(*sums, strict=True))
    return ChunkStorageStats(natives, virtuals, sum(inlined))
