"""Checking a repository with the workers of a cluster."""

import time

from pyspark.sql import SparkSession

from frazil.errors import (
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    RepositoryNotFoundError,
)
from frazil.maintenance.checking import CheckOptions, CheckReport, Workers, check_storage
from frazil.repository import Repository
from frazil.repository.health import check_by
from frazil.spark.arrays.one_commit import AnyRepository, find_repository
from frazil.spark.arrays.runner import RunOn, count_slots, find_application_id
from frazil.spark.health.hands import Hands
from frazil.spark.health.report import CheckJobReport
from frazil.spark.health.workers import TaskWorkers
from frazil.spark.job import Job
from frazil.storage import Storage
from frazil.storage.from_url import storage_from_url

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
    hands = Hands(spark, run, run_on, storage, slots, task_bytes)
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
