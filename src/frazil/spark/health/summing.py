"""How many bytes the chunks of a repository have, measured by the workers of a cluster."""

from pyspark.sql import SparkSession

from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.reach import find_reachable
from frazil.maintenance.walking import uncached
from frazil.repository import Repository
from frazil.spark.arrays.one_commit import AnyRepository, find_repository
from frazil.spark.arrays.runner import RunOn, count_slots
from frazil.spark.health.exchange import exchange
from frazil.spark.health.hands import Hands, count_refs, weigh
from frazil.spark.health.measuring import FindManifests, MeasureManifests, SumShare
from frazil.spark.job import Job
from frazil.states import ChunkStorageStats


def stats(
    spark: SparkSession | None,
    repo: AnyRepository,
    *,
    task_bytes: int | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> ChunkStorageStats:
    """How many bytes the chunks have that branches and tags lead to, each chunk counted once.

    It is `Repository.chunk_storage_stats`, done by tasks: a native chunk counts by its id, a virtual
    one by its place in its file, an inline one wherever it is. What the driver holds grows with the
    number of manifests, not with that of chunks. `task_bytes` says how much a task reads.
    """
    run = job or Job()
    repository = find_repository(repo)
    hands = Hands(spark, run, run_on, repository.storage, count_slots(spark), task_bytes)
    try:
        return measure(repository, hands)
    finally:
        run.end()


def measure(repository: Repository, hands: Hands) -> ChunkStorageStats:
    """The bytes of all chunks, by so many hands."""
    assets, limits = uncached(repository.protocol.assets), WalkLimits()
    snapshots = sorted(find_reachable(repository.protocol))
    groups = hands.group(snapshots, [0] * len(snapshots))
    found = hands.choose_runner(groups).run(
        "reading snapshots", FindManifests(assets, limits), groups
    )
    manifests = list({info.id: info for infos in found for info in infos}.values())
    parts = hands.group(manifests, list(map(weigh, manifests)))
    runner = hands.choose_runner(parts)
    shares = hands.count_shares(runner, sum(map(count_refs, manifests)))
    inlined, sums = exchange(
        runner, "measuring", MeasureManifests(assets, limits, shares), parts, SumShare(), shares
    )
    natives, virtuals = (sum(each) for each in zip(*sums, strict=True))
    return ChunkStorageStats(natives, virtuals, sum(inlined))
