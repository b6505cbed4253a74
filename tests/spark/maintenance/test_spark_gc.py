"""Collecting garbage on Spark: beside the official library, with killed tasks and with writers."""

import os
import shutil
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import icechunk
import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.maintenance.leases import Lease
from frazil.storage import Storage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request, Verb
from frazil.testing.object_server import ObjectServer
from tests.repositories import dangling_files
from tests.storage.object_stores import make_s3

T = TypeVar("T")

pytestmark = pytest.mark.xdist_group("spark")

CONFIG = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
CHUNKS = 60


def later() -> datetime:
    """After everything that was written, also by a clock that knows no fractions of seconds."""
    return datetime.now(UTC) + timedelta(seconds=2)


def write(repository: frazil.Repository, value: int, branch: str = "main") -> str:
    """Commit new chunks of three arrays."""
    session = repository.writable_session(branch)
    for name in "abc":
        array = zarr.create_array(
            session.store, name=name, shape=(CHUNKS,), chunks=(1,), dtype="i4", overwrite=True
        )
        array[:] = value + np.arange(CHUNKS)
    return session.commit(f"{value}")


def fill(repository: frazil.Repository) -> None:
    """Four commits, of which the last two are garbage."""
    write(repository, 1)
    kept = write(repository, 2)
    write(repository, 3)
    write(repository, 4)
    repository.reset_branch("main", kept)


def check(repository: frazil.Repository, value: int = 2) -> None:
    assert dangling_files(repository) == set()
    for name in "abc":
        array = zarr.open_array(repository.readonly_session("main").store, path=name, mode="r")
        np.testing.assert_array_equal(array[:], value + np.arange(CHUNKS))


@pytest.fixture
def repository(tmp_path: Path) -> frazil.Repository:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repository"))
    made = frazil.Repository.create(storage, CONFIG)
    fill(made)
    return made


def files(folder: Path) -> set[str]:
    kinds = ("snapshots", "manifests", "transactions", "chunks")
    return {str(each.relative_to(folder)) for kind in kinds for each in (folder / kind).iterdir()}


def test_the_official_library_deletes_the_same(
    spark: SparkSession, repository: frazil.Repository, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "repository", tmp_path / "theirs"
    shutil.copytree(ours, theirs)
    before = files(ours)

    report = frazil.spark.collect_garbage(
        repository, later(), job=frazil.spark.Job(run_on="spark"), spark=spark
    )
    icechunk.Repository.open(icechunk.local_filesystem_storage(str(theirs))).garbage_collect(
        later()
    )

    assert files(ours) == files(theirs)
    assert report.ran_on == "spark"
    assert report.found["chunks"].count == report.summary.chunks_deleted == 2 * 3 * CHUNKS
    gone = before - files(ours)
    assert sum(each.count for each in report.found.values()) == len(gone)
    check(repository)


def test_a_dry_run_lists_what_the_next_run_deletes(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    before = {info.key for info in repository.storage.list("chunks/")}

    dry = frazil.spark.collect_garbage(
        repository, later(), dry_run=True, job=frazil.spark.Job(run_on="spark"), spark=spark
    )
    listed = dry.frame(spark)
    assert {info.key for info in repository.storage.list("chunks/")} == before
    real = frazil.spark.collect_garbage(
        repository, later(), job=frazil.spark.Job(run_on="spark"), spark=spark
    )

    keys = {row.key for row in listed.where("kind = 'chunks'").collect()}
    assert keys == before - {info.key for info in repository.storage.list("chunks/")}
    assert dry.summary == real.summary
    assert set(listed.columns) == {"kind", "key", "bytes", "created_at", "why"}
    # What the dry run has marked is not read again.
    assert (dry.manifests_reused, real.manifests_reused) == (0, real.manifests)


def test_only_new_manifests_are_read_next_time(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    frazil.spark.collect_garbage(repository, later(), spark=spark)
    write(repository, 5)

    report = frazil.spark.collect_garbage(repository, later(), spark=spark)

    assert report.manifests - report.manifests_reused == 3
    check(repository, 5)


def test_shards_of_an_object_store_are_listed_apart(spark: SparkSession) -> None:
    with ObjectServer() as server:
        storage = make_s3(server.url)
        repository = frazil.Repository.create(storage, CONFIG)
        fill(repository)
        expected = repository.garbage_collect(later(), dry_run=True)

        report = frazil.spark.collect_garbage(
            repository, later(), job=frazil.spark.Job(run_on="spark"), spark=spark
        )

        assert report.summary == expected
        assert report.tasks >= 8
        check(repository)


class KillsOnce(ForwardingStorage):
    """Kills the first process that sends a request of a kind, after it was answered."""

    def __init__(self, inner: Storage, verb: Verb, prefix: str, note: str) -> None:
        super().__init__(inner)
        self._verb, self._wanted, self._note = verb, prefix, note
        self._driver = os.getpid()

    def _begin(self, request: Request) -> Injection:
        is_meant = request.verb is self._verb and "".join(request.keys[:1]).startswith(self._wanted)
        if not is_meant or os.getpid() == self._driver:
            return NO_FAULT
        try:
            os.close(os.open(self._note, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return NO_FAULT
        return Injection(finish=_die)


def _die(answer: T, /) -> T:
    os.kill(os.getpid(), signal.SIGKILL)
    return answer


@pytest.mark.parametrize(
    ("verb", "prefix"),
    [(Verb.GET_MANY, "manifests/"), (Verb.PUT, "_frazil/marks/"), (Verb.DELETE_MANY, "chunks/")],
    ids=["while marking", "after marking", "while sweeping"],
)
def test_a_killed_task_is_run_again_and_everything_is_counted(
    spark: SparkSession, repository: frazil.Repository, tmp_path: Path, verb: Verb, prefix: str
) -> None:
    expected = repository.garbage_collect(later(), dry_run=True)
    note = tmp_path / "killed"
    storage = KillsOnce(repository.storage, verb, prefix, str(note))

    report = frazil.spark.collect_garbage(
        frazil.Repository.open(storage), later(), job=frazil.spark.Job(run_on="spark"), spark=spark
    )

    assert note.exists()
    assert report.summary == expected
    assert report.retries >= 1
    check(repository)
    assert repository.garbage_collect(later(), dry_run=True).bytes_deleted == 0


class Fails(ForwardingStorage):
    """Fails at requests of a kind, in every process."""

    def __init__(self, inner: Storage, verb: Verb, prefix: str) -> None:
        super().__init__(inner)
        self._verb, self._wanted = verb, prefix

    def _begin(self, request: Request) -> Injection:
        if request.verb is self._verb and "".join(request.keys[:1]).startswith(self._wanted):
            raise frazil.StorageError("the storage is away")
        return NO_FAULT


def test_a_collection_that_failed_lost_nothing_and_the_next_completes(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    broken = frazil.Repository.open(Fails(repository.storage, Verb.PUT, "_frazil/marks/"))
    expected = repository.garbage_collect(later(), dry_run=True)

    with pytest.raises(frazil.StorageError, match="away"):
        frazil.spark.collect_garbage(
            broken, later(), job=frazil.spark.Job(run_on="spark"), spark=spark
        )

    assert repository.garbage_collect(later(), dry_run=True) == expected
    report = frazil.spark.collect_garbage(
        repository, later(), job=frazil.spark.Job(run_on="spark"), spark=spark
    )
    assert report.summary == expected
    check(repository)


def test_writers_commit_throughout(spark: SparkSession, repository: frazil.Repository) -> None:
    cutoff = datetime.now(UTC)
    done = threading.Event()
    values: list[int] = []

    def keep_writing() -> None:
        for value in range(100, 200):
            write(repository, value)
            values.append(value)
            if done.is_set():
                return

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        report = frazil.spark.collect_garbage(
            repository, cutoff, job=frazil.spark.Job(run_on="spark"), spark=spark
        )
    finally:
        done.set()
        writer.join()

    assert report.summary.chunks_deleted == 2 * 3 * CHUNKS
    assert len(values) > 1
    check(repository, values[-1])
    reported = [info.message for info in repository.ancestry(branch="main")]
    assert reported[: len(values)] == [str(value) for value in reversed(values)]


def test_a_running_job_is_spared_and_named(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    with Lease(repository.storage, "job-1", "ingest"):
        write(repository, 7)
        repository.reset_branch("main", list(repository.ancestry(branch="main"))[1].id)

        report = frazil.spark.collect_garbage(repository, later(), spark=spark)

    assert report.protected_jobs == ("ingest job-1",)
    assert report.summary.chunks_deleted == 2 * 3 * CHUNKS
    assert frazil.spark.collect_garbage(
        repository, later(), spark=spark
    ).summary.chunks_deleted == (3 * CHUNKS)


def collect_meanwhile(session: frazil.ForkSession, region: slice) -> None:
    """Write, and let somebody collect all garbage there is before the commit."""
    zarr.open_array(session.store, path="a", mode="r+")[region] = -1
    repository = frazil.Repository.open(session.state.assets.storage)
    repository.garbage_collect(datetime.now(UTC) + timedelta(seconds=2))


def test_what_a_job_has_written_is_there_when_it_commits(
    spark: SparkSession, repository: frazil.Repository
) -> None:
    regions = [slice(start, start + 10) for start in range(0, CHUNKS, 10)]

    frazil.spark.foreach_region(
        repository, regions, collect_meanwhile, job=frazil.spark.Job(run_on="spark"), spark=spark
    )

    array = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")
    assert dangling_files(repository) == set()
    np.testing.assert_array_equal(array[:], np.full(CHUNKS, -1))
    assert list(repository.storage.list("_frazil/leases/")) == []


def test_upkeep_expires_and_collects(spark: SparkSession, repository: frazil.Repository) -> None:
    policy = frazil.spark.MaintenancePolicy(
        retention={"main": frazil.RetentionPolicy(keep_last=1)}, garbage_age=timedelta(seconds=-2)
    )

    dry = frazil.spark.maintain(repository, policy, dry_run=True, spark=spark)
    report = frazil.spark.maintain(repository, policy, spark=spark)
    again = frazil.spark.maintain(repository, policy, spark=spark)

    assert len(report.expired.released_snapshots) == 1
    assert dry.expired == report.expired
    assert report.garbage.summary.chunks_deleted == 3 * 3 * CHUNKS
    assert again.garbage.summary.bytes_deleted == 0
    assert again.expired.released_snapshots == set()
    check(repository)
