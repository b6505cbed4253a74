"""Repositories in which nothing is wrong."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
import zarr

import frazil
from frazil.format.header import Dialect
from frazil.maintenance.check import check_storage
from frazil.maintenance.findings import CheckReport, Problem
from frazil.storage.local import LocalStorage
from tests.damages import ALL_DIALECTS, create, create_sample, reopen, what_matters
from tests.generations import REPOSITORY_NAMES
from tests.known_repositories import open_known

NUM_LOGS = {Dialect.DRAFT: 0, Dialect.ALPHA_A: 0, Dialect.V2: 4}
"""Of a sample; the others have none for the first snapshot."""


def _is_about_containers(problem: Problem) -> bool:
    return problem.what.startswith("no container of the configuration holds")


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_nothing_is_wrong_with_the_repositories_of_any_release(
    generations: Path, name: str
) -> None:
    repository = frazil.Repository.open(LocalStorage(generations / name / "repo"))

    report = repository.check()

    # They refer to buckets that their configuration does not have, as the check rightly says.
    assert [each for each in what_matters(report) if not _is_about_containers(each)] == []
    assert report.is_healthy
    assert report.has_counted_orphans


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_their_chunks_decode_and_their_sources_are_there(generations: Path, name: str) -> None:
    report = open_known(generations / name).check(deep=True, virtual=True)

    assert report.errors == ()
    assert report.counts.decoded_chunks > 0 or report.counts.native_refs == 0


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_nothing_is_wrong_with_what_frazil_writes(dialect: Dialect) -> None:
    report = create_sample(dialect).check(deep=True, virtual=True)

    assert report.problems == ()
    assert (report.counts.branches, report.counts.tags, report.counts.snapshots) == (2, 1, 4)
    assert report.counts.native_chunks == 4
    assert report.counts.transaction_logs == NUM_LOGS.get(dialect, 3)
    assert report.counts.decoded_chunks >= 4
    assert report.orphans == ()


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_nothing_is_wrong_with_an_empty_repository(dialect: Dialect) -> None:
    assert create(dialect).check().problems == ()


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_storage_can_be_checked_without_opening_the_repository(dialect: Dialect) -> None:
    repository = create_sample(dialect)

    report = check_storage(repository.storage)

    assert report == reopen(repository).check()


def test_one_branch_can_be_checked_alone() -> None:
    repository = create_sample()
    last = repository.lookup_branch("main")
    repository.storage.delete_many([f"snapshots/{last}"])

    assert repository.check(branch="dev").problems == ()
    assert not repository.check(branch="main").is_healthy
    assert not repository.check(branch="dev").has_counted_orphans


def test_a_branch_is_known_by_its_name_however_its_file_is_spelled(tmp_path: Path) -> None:
    repository = create_sample(Dialect.V1, LocalStorage(tmp_path))
    repository.create_branch("été & hiver", repository.lookup_branch("main"))

    assert repository.check(branch="été & hiver").counts.snapshots == 4
    assert repository.check().counts.branches == 3


@pytest.mark.parametrize("dialect", [Dialect.DRAFT, Dialect.ALPHA_H, Dialect.V1, Dialect.V2])
def test_nothing_seems_wrong_while_others_commit(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    is_done = threading.Event()

    def commit() -> None:
        for number in range(25):
            session = repository.writable_session("main")
            zarr.open_array(session.store, path="small")[number % 6] = number
            session.commit("meanwhile")
        is_done.set()

    writer = threading.Thread(target=commit)
    writer.start()
    reports = [reopen(repository).check()]
    while not is_done.is_set():
        reports.append(reopen(repository).check())
    writer.join()

    assert [each for report in reports for each in what_matters(report)] == []


def test_a_branch_that_is_not_there_is_a_problem() -> None:
    (problem,) = create_sample().check(branch="nowhere").errors

    assert "no branch 'nowhere'" in problem.what


def test_a_report_is_shown_to_people_and_to_programs() -> None:
    repository = create_sample()
    repository.storage.delete_many([f"transactions/{repository.lookup_branch('main')}"])

    report = repository.check()

    assert "healthy: no" in str(report)
    assert "transactions/" in repr(report)
    assert "rebuild-transaction-log" in report._repr_html_()
    reported = json.loads(json.dumps(report.to_dict()))
    assert reported["problems"][0]["severity"] == "error"
    assert reported["problems"][0]["repair"] == "rebuild-transaction-log"
    assert reported["counts"]["snapshots"] == 4


async def _check(repository: frazil.Repository) -> CheckReport:
    return await repository.check_async()


def test_a_check_can_be_awaited() -> None:
    assert asyncio.run(_check(create_sample())).is_healthy
