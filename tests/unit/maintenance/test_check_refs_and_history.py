"""Damages of refs and of the line of snapshots, mostly before V2."""

from dataclasses import replace

import pytest

from frazil.errors import RepositoryNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.format.text_files import Ref, encode_ref
from frazil.maintenance.check import check_storage
from frazil.maintenance.check_metadata import Link, check_links, find_cycles
from frazil.maintenance.findings import Severity
from frazil.protocols.assets import new_snapshot_id
from tests.damages import (
    ALL_DIALECTS,
    ancestor,
    create_sample,
    delete,
    find_only,
    log_key,
    rewrite_repo,
    rewrite_snapshot,
    snapshot_key,
    tip,
    what_matters,
)
from tests.protocol_repositories import SEQUENCED, unknown_id

WITH_PARENTS = [Dialect.ALPHA_H, Dialect.V1]
FIRST_BRANCH_FILE: dict[Dialect, str] = {
    dialect: f"{'r/' if dialect is Dialect.DRAFT else 'refs/branch.'}main/ZZZZZZZ{{}}.json"
    for dialect in SEQUENCED
}


# Refs


def test_a_v1_ref_of_nonsense_is_found() -> None:
    repository = create_sample(Dialect.V1)
    repository.storage.put("refs/branch.dev/ref.json", b"nonsense")

    problem = find_only(repository)

    assert problem.object == "refs/branch.dev/ref.json"
    assert "it says no snapshot" in problem.what
    # What only that branch leads to must not be taken for garbage.
    assert not repository.check().has_counted_orphans


def test_a_v1_main_of_nonsense_is_found() -> None:
    repository = create_sample(Dialect.V1)
    repository.storage.put("refs/branch.main/ref.json", b'{"snapshot": "no id"}')

    assert find_only(repository).object == "refs/branch.main/ref.json"


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_a_nonsensical_newest_file_of_a_sequence_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    key = FIRST_BRANCH_FILE[dialect].format("W")
    repository.storage.head(key)
    repository.storage.put(key, b"[]")

    assert find_only(repository).object == key


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_a_gap_in_the_sequence_of_a_branch_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    gone = FIRST_BRANCH_FILE[dialect].format("Y")
    delete(repository, gone)

    problem = find_only(repository)

    assert problem.severity is Severity.WARNING
    assert problem.object == gone.rpartition("/")[0]
    assert problem.what.endswith("in its sequence: 1")


@pytest.mark.parametrize("dialect", [Dialect.DRAFT, Dialect.ALPHA_D, Dialect.V1])
def test_a_repository_of_files_without_main_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    for info in list(repository.storage.list()):
        if "main/" in info.key:
            delete(repository, info.key)

    problem = find_only(repository)

    assert problem.what == "there is no branch 'main', which every repository has"


def test_where_nothing_is_left_of_a_repository_nothing_can_be_checked() -> None:
    repository = create_sample(Dialect.V1)
    for info in list(repository.storage.list("refs/")):
        delete(repository, info.key)

    with pytest.raises(RepositoryNotFoundError):
        check_storage(repository.storage)


@pytest.mark.parametrize("dialect", [each for each in ALL_DIALECTS if each is not Dialect.V2])
def test_a_tag_that_points_nowhere_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    nowhere = unknown_id(dialect)
    key = "r/lost.json" if dialect is Dialect.DRAFT else "refs/tag.lost/ref.json"
    timestamp = 1_700_000_000 * 10**9 if dialect is Dialect.DRAFT else None
    repository.storage.put(key, encode_ref(Ref(nowhere, timestamp)))

    problem = find_only(repository)

    assert problem.object == snapshot_key(repository, nowhere)
    assert "tag 'lost' leads to it" in problem.what


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_branch_whose_snapshot_is_gone_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    gone = snapshot_key(repository, tip(repository))
    delete(repository, gone)

    problem = find_only(repository)

    assert problem.object == gone
    assert "branch 'main' leads to it" in problem.what
    assert problem.repair is None


@pytest.mark.parametrize("dialect", [Dialect.ALPHA_H, Dialect.V1])
def test_a_deleted_tag_that_points_nowhere_is_noted(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    key = "refs/tag.old/ref.json"
    repository.storage.put(key, encode_ref(Ref(unknown_id(dialect))))
    repository.storage.put(f"{key}.deleted", b"")

    report = repository.check()

    assert what_matters(report) == []
    assert [each.object for each in report.notes] == [key]


# History


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_missing_file_in_the_middle_of_the_history_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    middle = ancestor(repository, 2)
    gone = snapshot_key(repository, middle)
    delete(repository, gone)

    found = what_matters(check_storage(repository.storage))

    assert [each.object for each in found] == [gone]
    assert "leads to it" in found[0].what


@pytest.mark.parametrize("dialect", WITH_PARENTS)
def test_a_parent_that_never_was_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    nobody, child = new_snapshot_id(dialect), ancestor(repository, 2)
    rewrite_snapshot(repository, child, lambda each: replace(each, parent_id=nobody))

    problem = find_only(repository)

    assert problem.object == snapshot_key(repository, nobody)
    assert f"snapshot {child} leads to it" in problem.what


@pytest.mark.parametrize("dialect", WITH_PARENTS)
def test_a_ring_of_parents_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    newest, oldest = tip(repository), ancestor(repository, 2)
    rewrite_snapshot(repository, oldest, lambda each: replace(each, parent_id=newest))

    problem = find_only(repository)

    assert "are their own ancestors" in problem.what
    assert str(newest) in problem.what


@pytest.mark.parametrize("dialect", WITH_PARENTS)
def test_a_snapshot_that_is_older_than_its_parent_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    newest = tip(repository)
    rewrite_snapshot(repository, newest, lambda each: replace(each, flushed_at=10**18))

    problem = find_only(repository)

    assert (problem.severity, problem.object) == (
        Severity.WARNING, snapshot_key(repository, newest)
    )  # fmt: skip


def test_a_log_that_was_taken_over_from_an_expired_ancestor_is_missed() -> None:
    repository = create_sample()
    infos = list(repository.ancestry(branch="main"))
    repository.expire_snapshots(infos[1].written_at)
    expired = SnapshotId.parse(infos[2].id)
    delete(repository, log_key(repository, expired))

    problem = find_only(repository)

    assert (problem.severity, problem.object) == (Severity.WARNING, log_key(repository, expired))


def test_rings_are_found_once_each() -> None:
    a, b, c, d = (SnapshotId(bytes([n]) * 12) for n in range(4))
    parents = {a: b, b: c, c: a, d: a}
    links = {id: Link("key", id, parent, 1) for id, parent in parents.items()}

    assert find_cycles(links) == [(a, b, c)]
    reported = [problem.severity for problem in check_links(links)]
    assert reported == [Severity.ERROR, Severity.WARNING]


def test_a_v2_ghost_with_a_ref_has_no_repair() -> None:
    repository = create_sample()
    ghost = SnapshotId(b"never there!")
    rewrite_repo(
        repository,
        lambda info: replace(
            info.with_snapshots(
                SnapshotInfo(ghost, info.branches["main"], 2 * 10**18 // 1000 * 1000, "lost")
            ),
            tags={**info.tags, "lost": ghost},
        ),
    )

    problem = find_only(repository)

    assert problem.object == snapshot_key(repository, ghost)
    assert problem.repair is None
