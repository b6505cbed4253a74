"""A check by tasks reports what one by threads does."""

from pathlib import Path

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

import frazil.spark
from frazil.errors import InvalidInputError, JobCancelledError
from frazil.format.header import Dialect
from frazil.maintenance.check import CheckOptions, check_repository, check_storage
from frazil.maintenance.findings import CheckReport, Repair
from frazil.repository.repository import Repository
from frazil.spark.maintenance.spark_check import TaskWorkers
from frazil.spark.maintenance.spark_stats import TaskPool
from frazil.spark.transaction import Run
from frazil.storage.interface import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.object_server import ObjectServer
from tests.damages import ALL_DIALECTS, NATIVE, create_sample, delete, log_key, reopen, tip
from tests.generations import REPOSITORY_NAMES
from tests.known_repositories import open_known
from tests.spark.maintenance.damaged import (
    DAMAGES,
    Damage,
    create_virtual,
    leave,
    lose_all_chunks,
    lose_chunks,
    lose_metadata,
    shorten_a_reference,
)
from tests.storage.object_stores import make_s3
from tests.strategies.damaged import damaged_repositories

pytestmark = pytest.mark.xdist_group("spark")

DEEP = CheckOptions(decodes_chunks=True, asks_sources=True)


def make_workers(storage: Storage) -> TaskWorkers:
    """Workers of this process, to whom all is cut as small as it can be for a cluster."""
    job = frazil.spark.Job(progress=False, run_on="driver", task_bytes=1)
    run = Run("check", job, None, storage, _slots=3)
    return TaskWorkers(TaskPool(run, ids_per_shard=1))


def check_by_workers(repository: Repository) -> CheckReport:
    access = repository.context.virtual
    return check_repository(repository.protocol, access, DEEP, make_workers(repository.storage))


def check_by_tasks(storage: Storage) -> CheckReport:
    """A deep check, also where the repository does not open."""
    return check_storage(storage, DEEP, make_workers(storage))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_tasks_find_what_threads_find(dialect: Dialect, damage: Damage) -> None:
    repository = create_sample(dialect)
    damage(repository)

    report = check_by_tasks(repository.storage)

    assert report == check_storage(repository.storage, DEEP)
    assert report.counts.snapshots > 0


@given(damaged=damaged_repositories())
def test_they_do_whatever_is_damaged(damaged: tuple[MemoryStorage, str, bytes | None]) -> None:
    storage, *_ = damaged

    assert check_by_tasks(storage) == check_storage(storage, DEEP)


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_they_do_in_the_repositories_of_any_release(generations: Path, name: str) -> None:
    repository = open_known(generations / name)

    report = check_by_workers(repository)

    assert report == repository.check(deep=True, virtual=True)
    assert report.is_healthy


@pytest.mark.parametrize("damage", [leave, lose_chunks, lose_all_chunks])
def test_they_do_in_an_object_store(damage: Damage) -> None:
    with ObjectServer() as server:
        repository = create_sample(storage=make_s3(server.url))
        damage(repository)

        assert check_by_tasks(repository.storage) == check_storage(repository.storage, DEEP)


@pytest.mark.parametrize(
    ("dialect", "damage"),
    [
        (Dialect.V2, leave), (Dialect.V2, lose_chunks), (Dialect.V2, lose_metadata),
        (Dialect.V2, shorten_a_reference), (Dialect.V1, lose_chunks), (Dialect.DRAFT, lose_chunks),
    ],
)  # fmt: skip
def test_tasks_on_spark_do(
    spark: SparkSession, tmp_path: Path, dialect: Dialect, damage: Damage
) -> None:
    repository = create_sample(dialect, LocalStorage(tmp_path))
    damage(repository)

    report = frazil.spark.check(
        repository,
        deep=True,
        virtual_sources=True,
        job=frazil.spark.Job(task_bytes=1, run_on="spark"),
        spark=spark,
    )

    assert report.to_dict() == repository.check(deep=True, virtual=True).to_dict()
    assert report.ran_on == "spark"
    assert report.tasks > report.counts.manifests + report.counts.snapshots


@pytest.mark.parametrize("authorized", [True, False])
def test_tasks_ask_for_the_sources_of_virtual_chunks(tmp_path: Path, authorized: bool) -> None:
    repository = create_virtual(tmp_path, MemoryStorage())
    if not authorized:
        repository = reopen(repository)

    report = check_by_workers(repository)

    assert report == repository.check(deep=True, virtual=True)
    assert report.counts.virtual_sources == 6
    reported = {each.object.rpartition("/")[2]: each.what for each in report.errors}
    assert [*map(str, reported)] == (["2.raw", "4.raw"] if authorized else [])


def test_tasks_on_spark_ask_for_them_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    repository = create_virtual(tmp_path / "files", LocalStorage(tmp_path / "repository"))

    report = frazil.spark.check(
        repository,
        virtual_sources=True,
        requests_per_second=100,
        job=frazil.spark.Job(task_bytes=1, run_on="spark"),
        spark=spark,
    )

    assert report.to_dict() == repository.check(virtual=True).to_dict()
    assert len(report.errors) == 2


def test_a_damaged_chunk_is_found_by_a_deep_check_only(spark: SparkSession, tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    shorten_a_reference(repository)

    assert frazil.spark.check(str(tmp_path), spark=spark).is_healthy
    (problem,) = frazil.spark.check(
        str(tmp_path), deep=True, job=frazil.spark.Job(run_on="spark"), spark=spark
    ).errors

    assert (problem.path, problem.coordinate) == (NATIVE, (0, 0))
    assert "can't be decoded" in problem.what


def test_problems_are_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    lose_chunks(repository)
    report = frazil.check(repository)

    rows = report.frame(spark).collect()

    assert [row.asDict() for row in rows] == [each.to_dict() for each in report.problems]
    assert {row.severity for row in rows} == {"error", "note"}
    assert "ran on: driver" in str(report)


def test_what_it_finds_can_be_repaired(tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    delete(repository, log_key(repository, tip(repository)))

    report = frazil.check(repository)
    repaired = repository.repair(report).repaired

    assert [each.repair for each in repaired] == [Repair.REBUILD_LOG]
    assert frazil.check(repository).problems == ()


def test_a_repository_that_does_not_open_is_checked(tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    repository.storage.put("repo", b"nothing of use")

    (problem,) = frazil.check(str(tmp_path)).problems

    assert (problem.object, problem.repair) == ("repo", Repair.RESTORE_REPO)


def test_one_branch_can_be_checked_alone() -> None:
    repository = create_sample()
    delete(repository, f"snapshots/{tip(repository)}")

    assert frazil.check(repository, branch="dev").problems == ()
    assert not frazil.check(repository, branch="main").is_healthy


def test_a_check_can_be_cancelled() -> None:
    job = frazil.spark.Job()
    job.cancel()

    with pytest.raises(JobCancelledError):
        frazil.check(create_sample(), job=job)


def test_no_requests_a_second_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="invalid requests_per_second 0"):
        frazil.check(create_sample(), requests_per_second=0)
