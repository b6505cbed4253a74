"""Upkeep that a schedule runs: history that nobody has to keep expires, then garbage is collected."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from frazil.config import RetentionPolicy
from frazil.errors import InvalidInputError
from frazil.ops import ExpirySummary
from frazil.repository import Repository
from frazil.spark.arrays.one_commit import AnyRepository, find_repository
from frazil.spark.arrays.runner import RunOn
from frazil.spark.garbage.collecting import collect_garbage
from frazil.spark.garbage.report import MaintenanceReport
from frazil.spark.job import Job

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
