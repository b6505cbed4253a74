"""Ingests that are disturbed: the branch has the commits that it should, and nothing else."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import JobCancelledError
from frazil.spark import Job
from frazil.storage import Storage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request
from tests.spark.ingestion.archives import Ingest, expect, read, save_archive

pytestmark = pytest.mark.xdist_group("spark")

OPENING, WRITING = "opening files", "writing references"


class Meanwhile(Job):
    """A job at whose step something else happens, once."""

    def __init__(self, step: str, happen: Callable[[], object]) -> None:
        super().__init__()
        self._step = step
        self._happen: Callable[[], object] | None = happen
        self.finished = 0
        """How often the step was finished."""

    def show(self, what: str, done: int, total: int) -> None:
        """Let it happen."""
        if what == self._step and self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        self.finished += what == self._step and done == total
        super().show(what, done, total)


class KillsWorker(ForwardingStorage):
    """Kills the first worker that writes a manifest, once."""

    def __init__(self, inner: Storage, marker: Path) -> None:
        super().__init__(inner)
        self._marker = marker
        self._driver = os.getpid()

    def _begin(self, request: Request) -> Injection:
        is_manifest = request.verb.is_write and request.keys[0].startswith("manifests/")
        if is_manifest and os.getpid() != self._driver and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return NO_FAULT


def messages(repo: frazil.Repository) -> list[str]:
    return [each.message for each in repo.ancestry(branch="main")][:-1]


def test_a_worker_that_is_killed_changes_nothing(
    spark: SparkSession, repo: frazil.Repository, archive: Path, tmp_path: Path
) -> None:
    save_archive(archive, 3)
    marker = tmp_path / "killed"
    deadly = frazil.Repository.open(KillsWorker(repo.storage, marker))

    report = frazil.spark.ingest(
        deadly, archive, append_dim="time", job=frazil.spark.Job(run_on="spark"), spark=spark
    )

    assert marker.exists()
    assert report.metrics["retries"] == 1
    assert messages(repo) == ["ingest 3 files"]
    xr.testing.assert_identical(read(repo), expect(archive))


@pytest.mark.parametrize("step", [OPENING, WRITING])
def test_a_cancelled_ingest_leaves_no_commit(
    repo: frazil.Repository, archive: Path, ingest: Ingest, step: str
) -> None:
    save_archive(archive, 3)
    job = Meanwhile(step, lambda: job.cancel())

    with pytest.raises(JobCancelledError):
        ingest(job=job)

    assert messages(repo) == []
    ingest()
    xr.testing.assert_identical(read(repo), expect(archive))


def test_others_may_commit_elsewhere_meanwhile(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    ingest(message="first")
    save_archive(archive, 2, first=3)

    def commit() -> None:
        session = repo.writable_session("main")
        zarr.create_group(session.store, path="elsewhere")
        session.commit("theirs")

    report = ingest(job=Meanwhile(WRITING, commit), message="ours")

    assert messages(repo) == ["ours", "theirs", "first"]
    assert report.metrics["tasks"] < 10
    xr.testing.assert_identical(read(repo), expect(archive))


def test_an_ingest_into_another_place_costs_no_manifests(
    repo: frazil.Repository, archive: Path, ingest: Ingest, tmp_path: Path
) -> None:
    save_archive(archive, 3)
    ingest(message="first")
    save_archive(archive, 2, first=3)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    save_archive(elsewhere, 1)

    def ingest_elsewhere() -> None:  # whose rows of the ledger are where ours would be
        frazil.ingest(repo, elsewhere, append_dim="time", group="elsewhere", message="theirs")

    job = Meanwhile(WRITING, ingest_elsewhere)
    ingest(job=job, message="ours")

    assert messages(repo) == ["ours", "theirs", "first"]
    assert job.finished == 1
    xr.testing.assert_identical(read(repo), expect(archive))
    xr.testing.assert_identical(read(repo, "elsewhere"), expect(elsewhere))


def test_of_two_ingests_of_the_same_files_one_finds_nothing_to_do(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)

    report = ingest(job=Meanwhile(WRITING, lambda: ingest(message="theirs")), message="ours")

    assert messages(repo) == ["theirs"]
    assert report.snapshot_id is None
    assert len(report.known) == 3
    assert len(read(repo, "_frazil/ledger").source) == 3
    xr.testing.assert_identical(read(repo), expect(archive))


def test_an_ingest_of_more_files_takes_the_rest_after_one_of_fewer(
    spark: SparkSession, repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    paths = save_archive(archive, 4)

    def ingest_two() -> None:
        frazil.spark.ingest(repo, paths[:2], append_dim="time", message="theirs", spark=spark)

    report = ingest(job=Meanwhile(WRITING, ingest_two), message="ours")

    assert messages(repo) == ["ours", "theirs"]
    assert (len(report.files), len(report.known)) == (2, 2)
    xr.testing.assert_identical(read(repo), expect(archive))
