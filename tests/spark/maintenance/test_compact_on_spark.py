"""The same jobs in tasks of Spark, some of which fail or are killed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark import TaskContext
from pyspark.sql import SparkSession

import frazil
from frazil import Repository
from frazil.spark import Job, compact, rewrite_manifests, transaction
from frazil.spark.maintenance import compact_ranges as tasks
from frazil.spark.runtime import Runner
from frazil.storage import Storage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request
from tests.repositories import dangling_files, manifest_ids, split_every
from tests.spark.clusters.faults import FailsAtFirst, die
from tests.spark.maintenance.contents import (
    VALUES,
    change,
    chunk_keys,
    messages,
    objects_of,
    read_values,
    stored_bytes,
)
from tests.spark.maintenance.test_compact_chunks import SMALL, TARGET
from tests.spark.maintenance.test_rewrite_manifests import describe

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks have few references."""
    monkeypatch.setattr(tasks, "TASK_REFERENCES", 80)


@pytest.mark.usefixtures("many_tasks")
def test_tasks_write_the_manifests_that_one_machine_writes(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    storage = FailsAtFirst(frazil.local_filesystem_storage(str(path)), tmp_path, 2)
    repo = Repository.open(storage, split_every(5))
    repo.create_branch("there", repo.lookup_branch("main"))
    repo.rewrite_manifests("rewritten", branch="there")

    report = rewrite_manifests(repo, job=Job(run_on="spark"), spark=spark)

    assert describe(repo.readonly_session("main")) == describe(repo.readonly_session("there"))
    assert report.ran_on == "spark"
    assert (report.tasks > 2, report.retries) == (True, 2)
    assert (report.manifests_before, report.manifests, report.references) == (39, 12, 220)
    assert dangling_files(repo) == set()


def test_a_rewrite_whose_tasks_fail_leaves_the_branch_until_the_next_one(
    spark: SparkSession, path: Path, repo: Repository, tmp_path: Path
) -> None:
    storage = FailsAtFirst(frazil.local_filesystem_storage(str(path)), tmp_path, 1000)
    before = messages(repo)

    with pytest.raises(OSError, match="not yet"):
        rewrite_manifests(
            Repository.open(storage, split_every(5)), job=Job(run_on="spark"), spark=spark
        )

    assert messages(repo) == before
    rewrite_manifests(repo.reopen(split_every(5)), job=Job(run_on="spark"), spark=spark)
    assert len(manifest_ids(repo.readonly_session("main"), "/data/a")) == 4
    np.testing.assert_array_equal(read_values(repo.readonly_session("main")), VALUES)


class KillsAtFirst(ForwardingStorage):
    """Kills the first worker that writes a file of a kind, when it is written."""

    def __init__(self, inner: Storage, folder: Path, kind: str = "chunks/") -> None:
        super().__init__(inner)
        self._mark = folder / "killed"
        self._kind = kind

    def _begin(self, request: Request) -> Injection:
        is_meant = request.verb.is_write and "".join(request.keys[:1]).startswith(self._kind)
        if not is_meant or TaskContext.get() is None or self._mark.exists():
            return NO_FAULT
        return Injection(finish=self._kill)

    def _kill(self, answer: Any) -> Any:
        self._mark.touch()
        die()
        return answer


@pytest.mark.usefixtures("many_tasks")
def test_a_worker_that_is_killed_while_it_rewrites_is_replaced(
    spark: SparkSession, path: Path, repo: Repository, tmp_path: Path
) -> None:
    storage = KillsAtFirst(frazil.local_filesystem_storage(str(path)), tmp_path, "manifests/")
    before = messages(repo)

    report = rewrite_manifests(
        Repository.open(storage, split_every(5)), job=Job(run_on="spark"), spark=spark
    )

    assert (tmp_path / "killed").exists()
    assert report.retries >= 1
    assert messages(repo)[1:] == before
    assert dangling_files(repo) == set()
    np.testing.assert_array_equal(read_values(repo.readonly_session("main")), VALUES)


@pytest.mark.usefixtures("many_tasks")
def test_chunks_that_arrays_share_are_packed_once_by_tasks_that_leave_their_references(
    spark: SparkSession, path: Path, repo: Repository, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    change(path, "twins", make_twins)
    expected = stored_bytes(repo.readonly_session("main"))
    before = chunk_keys(repo)
    storage = KillsAtFirst(frazil.local_filesystem_storage(str(path)), tmp_path)
    monkeypatch.setattr(
        transaction, "choose_runner", lambda spark, job, *_, **__: Runner(job, spark, 150)
    )

    report = compact(
        Repository.open(storage),
        smaller_than=SMALL,
        target_size=TARGET,
        message="packed",
        job=Job(task_bytes=3 * TARGET),
        spark=spark,
    )

    assert (tmp_path / "killed").exists()
    assert report.ran_on == "spark"
    session = repo.readonly_session("main")
    assert stored_bytes(session) == expected
    assert messages(repo)[:2] == ["packed", "twins"]
    assert (report.chunks, report.objects_before) == (200 + 60, 200)
    assert len(objects_of(session)) == report.objects < 20
    assert report.bytes_written == sum(
        len(bytes(repo.storage.get(key))) for key in objects_of(session)
    )
    assert dangling_files(repo) == set()
    # What is left besides is of the worker that was killed.
    assert 0 < len(chunk_keys(repo) - before - objects_of(session)) <= 3
    again = compact(repo, smaller_than=SMALL, target_size=TARGET, spark=spark)
    assert again.snapshot_id is None


def make_twins(session: Any) -> None:
    """An array that refers to sixty chunks of another one."""
    zarr.create_array(session.store, name="twin", shape=VALUES.shape, chunks=(3, 3), dtype="i8")
    state = session.state
    node, _ = state.view.get_array("/data/a")
    twin, _ = state.view.get_array("/twin")
    table = state.view.table(node)
    state.changes.edit_chunks(twin).set_table(table.take(slice(20, 80)))
