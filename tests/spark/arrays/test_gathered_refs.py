"""Jobs whose tasks leave their references in the storage: what lands, and what is left over."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil import Repository, Session
from frazil.errors import OverlappingTasksError
from frazil.spark.job import CommitReport
from frazil.spark.regions import configured_rules
from frazil.spark.runtime import Runner
from frazil.spark.transaction import committing, scratch_arrays, write_regions
from tests.repositories import dangling_files, manifest_ids, split_every
from tests.spark.arrays.test_foreach import (
    EXPECTED,
    PAIRS,
    commit_meanwhile,
    create_numbers,
    messages,
    note_attempt,
    read,
    write_rows,
)

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """A repository with an array of six chunks in two manifests, none of which is in one."""
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    repo = Repository.create(storage, split_every(4, inline_up_to=0))
    repo.save_config()
    session = repo.writable_session("main")
    create_numbers(session)
    session.commit("created")
    return repo


def run(
    spark: SparkSession,
    repo: Repository,
    function: Callable[[Session, tuple[int, int]], object],
    groups: list[list[tuple[int, int]]],
    before_commit: Callable[[], object] = lambda: None,
) -> CommitReport:
    """A job that leaves every reference in the storage."""
    with committing("job", repo, "main", None, spark) as found:
        runner = Runner(found.job, spark, returned_references=0)
        session = found.open_session()
        write_regions(runner, session, function, groups)
        before_commit()
        return found.commit(session, "job")


def count_files(folder: Path, kind: str) -> int:
    return sum(each.is_file() for each in (folder / "repo" / kind).rglob("*"))


def write_and_fail_once(folder: str, session: Session, rows: tuple[int, int]) -> None:
    write_rows(session, rows)
    if rows[0] == 4 and note_attempt(folder) < 1:
        raise OSError("not yet")


def test_tasks_write_the_manifests_of_split_regions_that_others_have_left_parts_of(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    before = count_files(tmp_path, "manifests")
    fail_once = partial(write_and_fail_once, str(notes))

    report = run(spark, repo, fail_once, [PAIRS[:3], PAIRS[3:]])

    np.testing.assert_array_equal(read(repo), EXPECTED)
    assert messages(repo)[:2] == ["job", "created"]
    assert (report.chunks, report.bytes_written) == (6, count_bytes(tmp_path))
    assert report.retries >= 1
    assert len(manifest_ids(repo.readonly_session("main"), "/numbers")) == 2
    # Parts are gone, and the manifests of the commit are those that tasks have written.
    assert count_files(tmp_path, "manifests") == before + 2
    assert dangling_files(repo) == set()


def count_bytes(folder: Path) -> int:
    """Of the chunks that the job has written, which are of one size, without those of the attempt."""
    sizes = [each.stat().st_size for each in (folder / "repo" / "chunks").rglob("*")
             if each.is_file()]  # fmt: skip
    return sum(sizes[:6])


def test_the_same_chunk_of_two_tasks_is_named(spark: SparkSession, repo: Repository) -> None:
    with pytest.raises(OverlappingTasksError, match="/numbers at 1/0") as caught:
        run(spark, repo, write_rows, [[(0, 3)], [(3, 6)], [(6, 12)]])

    assert caught.value.chunks == {"/numbers": [(1, 0)]}
    assert messages(repo)[0] == "created"


def test_changes_elsewhere_meanwhile_are_kept(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    meanwhile = partial(commit_meanwhile, str(tmp_path / "repo"), (6, 8))

    run(spark, repo, write_rows, [[(0, 4)], [(4, 6), (8, 12)]], meanwhile)

    assert messages(repo)[:2] == ["job", "meanwhile"]
    found = read(repo)
    assert (found[6:8] == 99).all()
    np.testing.assert_array_equal(np.delete(found, [6, 7], 0), np.delete(EXPECTED, [6, 7], 0))


def create_large(session: Session) -> None:
    zarr.create_array(session.store, name="large", shape=(400, 500), chunks=(1, 1), dtype="u1")


def write_one(session: Session, row: int) -> None:
    zarr.open_array(session.store, path="large", mode="r+")[row, 7] = 1


def test_a_large_array_is_split_and_the_rule_is_saved(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    repo = Repository.create(storage)

    frazil.foreach_region(repo, [3, 250], write_one, prepare=create_large)

    opened = Repository.open(storage)
    ((condition, sizes),) = configured_rules(opened.config) or ()
    assert condition.matches("/large")
    assert not condition.matches("/larger")
    assert [size for _, size in sizes] == [200]
    assert len(manifest_ids(opened.readonly_session("main"), "/large")) == 2


def test_an_array_that_has_a_rule_keeps_it(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    repo = Repository.create(storage, split_every(50))

    frazil.foreach_region(repo, [3, 250], write_one, prepare=create_large)

    rules = configured_rules(Repository.open(storage).config)
    assert rules == configured_rules(split_every(50))


def test_chunks_between_the_steps_of_a_job_are_deleted(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    def fill(path: str, session: Any, row: int) -> None:
        zarr.open_array(session.store, path=path, mode="r+")[row] = row + 1

    with committing("job", repo, "main", None, spark) as found:
        runner = Runner(found.job, spark, returned_references=0)
        with scratch_arrays(found.open_session(), "test") as scratch:
            path = scratch.create("between", shape=(4, 2), chunks=(1, 2), dtype="i4")
            write_regions(runner, scratch.session, partial(fill, path), [[0, 1], [2, 3]])
            values = np.asarray(zarr.open_array(scratch.freeze().store, path=path, mode="r")[:])
            count = count_files(tmp_path, "chunks")

    assert values[:, 0].tolist() == [1, 2, 3, 4]
    assert count == 4
    assert count_files(tmp_path, "chunks") == 0
