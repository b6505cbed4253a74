"""Users' own writers: one commit, whatever happens to the tasks."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil import Repository, Session
from frazil.errors import JobCancelledError, OverlappingTasksError, RebaseFailedError
from frazil.spark import Job, foreach_region

pytestmark = pytest.mark.xdist_group("spark")

ROWS = 12


def create_numbers(session: Session) -> None:
    zarr.create_array(
        session.store, name="numbers", shape=(ROWS, 3), chunks=(2, 3), dtype="i8", fill_value=-1
    )


def write_rows(session: Session, rows: tuple[int, int]) -> None:
    array = zarr.open_array(session.store, path="numbers", mode="r+")
    array[slice(*rows)] = np.arange(rows[0] * 3, rows[1] * 3).reshape(-1, 3)


def read(repo: Repository, path: str = "numbers") -> Any:
    return np.asarray(zarr.open_array(repo.readonly_session("main").store, path=path, mode="r")[:])


def messages(repo: Repository) -> list[str]:
    return [each.message for each in repo.ancestry(branch="main")]


PAIRS = [(start, start + 2) for start in range(0, ROWS, 2)]
EXPECTED = np.arange(ROWS * 3).reshape(ROWS, 3)


@pytest.mark.parametrize("run_on", ["spark", "driver"])
def test_regions_become_one_commit(spark: SparkSession, repo: Repository, run_on: Any) -> None:
    report = foreach_region(
        repo,
        PAIRS,
        write_rows,
        prepare=create_numbers,
        regions_per_task=2,
        message="rows",
        job=Job(run_on=run_on),
        spark=spark,
    )

    np.testing.assert_array_equal(read(repo), EXPECTED)
    assert messages(repo) == ["rows", "Repository initialized"]
    tip = next(iter(repo.ancestry(branch="main")))
    assert tip.id == report.snapshot_id
    assert report.ran_on == run_on
    metrics = tip.metadata["frazil_job"]
    assert (metrics["chunks"], metrics["tasks"], metrics["job_id"]) == (6, 3, report.job_id)
    assert metrics["application_id"] == spark.sparkContext.applicationId
    assert f"snapshot id     {report.snapshot_id}" in str(report)


def test_a_repository_may_be_given_by_its_url(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    url = (tmp_path / "repo").as_uri()

    foreach_region(url, PAIRS, write_rows, prepare=create_numbers, spark=spark)

    np.testing.assert_array_equal(read(repo), EXPECTED)


def test_nothing_to_do_is_no_commit(spark: SparkSession, repo: Repository) -> None:
    report = foreach_region(repo, [], write_rows, spark=spark)

    assert report.snapshot_id is None
    assert messages(repo) == ["Repository initialized"]


def test_tasks_that_write_the_same_chunk_are_refused(spark: SparkSession, repo: Repository) -> None:
    with pytest.raises(OverlappingTasksError, match="/numbers at 1/0") as caught:
        foreach_region(
            repo, [(0, 3), (3, 6), (6, 12)], write_rows, prepare=create_numbers, spark=spark
        )

    assert caught.value.chunks == {"/numbers": [(1, 0)]}
    assert messages(repo) == ["Repository initialized"]


def write_own_array(session: Session, name: str) -> None:
    zarr.create_array(session.store, name=name, data=np.arange(3))


def create_root(session: Session) -> None:
    zarr.create_group(session.store)


def test_tasks_may_make_arrays_of_their_own(spark: SparkSession, repo: Repository) -> None:
    foreach_region(repo, ["a", "b", "c"], write_own_array, prepare=create_root, spark=spark)

    for name in "abc":
        assert read(repo, name).tolist() == [0, 1, 2]


def test_tasks_that_make_the_same_array_are_refused(spark: SparkSession, repo: Repository) -> None:
    with pytest.raises(frazil.SessionStateError, match="several writers created"):
        foreach_region(repo, ["a", "a"], write_own_array, prepare=create_root, spark=spark)


def note_attempt(folder: str) -> int:
    (Path(folder) / str(time.time_ns())).touch()
    return len(list(Path(folder).iterdir())) - 1


def write_then_fail_twice(folder: str, session: Session, rows: tuple[int, int]) -> None:
    write_rows(session, rows)
    if rows[0] == 4 and note_attempt(folder) < 2:
        raise OSError("not yet")


def write_then_die_once(folder: str, session: Session, rows: tuple[int, int]) -> None:
    write_rows(session, rows)
    if rows[0] == 4 and note_attempt(folder) == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def count_chunk_files(folder: Path) -> int:
    return sum(each.is_file() for each in (folder / "repo" / "chunks").rglob("*"))


@pytest.mark.parametrize("function", [write_then_fail_twice, write_then_die_once])
def test_a_task_that_runs_again_counts_once(
    spark: SparkSession, tmp_path: Path, function: Any
) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config)
    repo.save_config()
    notes = tmp_path / "notes"
    notes.mkdir()

    report = foreach_region(
        repo, PAIRS, partial(function, str(notes)), prepare=create_numbers, spark=spark
    )

    np.testing.assert_array_equal(read(repo), EXPECTED)
    assert report.chunks == len(PAIRS)
    assert report.retries >= 1
    assert count_chunk_files(tmp_path) > len(PAIRS)
    assert len(messages(repo)) == 2


def test_a_task_that_keeps_failing_leaves_the_branch(spark: SparkSession, repo: Repository) -> None:
    def fail(_: Session, region: int) -> None:
        raise ZeroDivisionError(f"region {region}")

    with pytest.raises(ZeroDivisionError, match="region 7"):
        foreach_region(repo, [7], fail, prepare=create_numbers, spark=spark)

    assert messages(repo) == ["Repository initialized"]


def write_and_wait(folder: str, session: Session, rows: tuple[int, int]) -> None:
    write_rows(session, rows)
    (Path(folder) / "started").touch()
    time.sleep(120)


def test_a_cancelled_job_leaves_no_commit(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    job = Job()

    def cancel_when_it_runs() -> None:
        while not (tmp_path / "started").exists():
            time.sleep(0.05)
        job.cancel()

    watcher = threading.Thread(target=cancel_when_it_runs)
    watcher.start()

    with pytest.raises(JobCancelledError):
        foreach_region(
            repo,
            PAIRS,
            partial(write_and_wait, str(tmp_path)),
            prepare=create_numbers,
            job=job,
            spark=spark,
        )

    watcher.join()
    assert messages(repo) == ["Repository initialized"]


@pytest.mark.parametrize("run_on", ["spark", "driver"])
def test_a_job_that_was_cancelled_before_does_nothing(
    spark: SparkSession, repo: Repository, run_on: Any
) -> None:
    job = Job(run_on=run_on)
    job.cancel()

    with pytest.raises(JobCancelledError):
        foreach_region(repo, PAIRS, write_rows, prepare=create_numbers, job=job, spark=spark)

    assert messages(repo) == ["Repository initialized"]


def commit_meanwhile(folder: str, rows: tuple[int, int]) -> None:
    session = Repository.open(frazil.local_filesystem_storage(folder)).writable_session("main")
    array = zarr.open_array(session.store, path="numbers", mode="r+")
    array[slice(*rows)] = 99
    session.commit("meanwhile")


def write_while_others_commit(
    folder: str, theirs: tuple[int, int], session: Session, rows: tuple[int, int]
) -> None:
    write_rows(session, rows)
    commit_meanwhile(folder, theirs)


@pytest.fixture
def filled(repo: Repository) -> Repository:
    session = repo.writable_session("main")
    create_numbers(session)
    session.commit("created")
    return repo


def test_changes_elsewhere_meanwhile_are_kept(
    spark: SparkSession, filled: Repository, tmp_path: Path
) -> None:
    meddle = partial(write_while_others_commit, str(tmp_path / "repo"), (10, 12))

    foreach_region(filled, [(0, 4)], meddle, message="ours", spark=spark)

    assert messages(filled)[:2] == ["ours", "meanwhile"]
    np.testing.assert_array_equal(read(filled)[:4], EXPECTED[:4])
    assert (read(filled)[10:] == 99).all()


def test_changes_of_the_same_chunks_meanwhile_are_a_conflict(
    spark: SparkSession, filled: Repository, tmp_path: Path
) -> None:
    meddle = partial(write_while_others_commit, str(tmp_path / "repo"), (2, 4))

    with pytest.raises(RebaseFailedError):
        foreach_region(filled, [(0, 4)], meddle, message="ours", spark=spark)

    assert messages(filled)[0] == "meanwhile"
