"""Commits and history in the generations that keep both in files."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from frazil.errors import ConflictError, FormatError
from frazil.format.header import Dialect
from frazil.format.repo_info import RepoStatus
from frazil.protocols.detection import FIRST_MESSAGE, create_repository
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.storage.interface import Storage
from tests.protocol_repositories import OLDER, commit, messages, open_as, succeeds, write_snapshot

WRITERS = 4
WITH_TEXT = [dialect for dialect in OLDER if dialect.records_history]


@pytest.fixture(params=OLDER, ids=lambda dialect: dialect.name)
def repository(request: pytest.FixtureRequest, storage: Storage) -> CommitProtocol:
    return create_repository(storage, request.param)


def test_commits_are_found_by_others_with_all_that_was_said_of_them(
    storage: Storage, repository: CommitProtocol
) -> None:
    first = repository.lookup_branch(MAIN)
    ids = [commit(repository, message=f"change {number}") for number in range(3)]

    other = open_as(storage, repository.dialect)
    infos = list(other.ancestry(ids[-1]))

    assert other.lookup_branch(MAIN) == ids[-1]
    assert [info.id for info in infos] == [*reversed(ids), first]
    assert [info.parent_id for info in infos] == [*[info.id for info in infos[1:]], None]
    assert [info.message for info in infos] == ["change 2", "change 1", "change 0", FIRST_MESSAGE]
    assert [dict(info.metadata) for info in infos[:-1]] == [{"by": "a test"}] * 3
    assert infos == [other.lookup_snapshot(info.id) for info in infos]


def test_a_branch_leaves_the_other_where_it_was(repository: CommitProtocol) -> None:
    shared = commit(repository, message="shared")
    repository.create_branch("spring", shared)

    commit(repository, "spring", "in spring")
    commit(repository, MAIN, "in main")

    assert messages(repository, "spring") == ["in spring", "shared"]
    assert messages(repository, MAIN) == ["in main", "shared"]


def test_a_commit_on_what_is_no_longer_the_tip_is_a_conflict(repository: CommitProtocol) -> None:
    first = repository.lookup_branch(MAIN)
    ours = write_snapshot(repository, first)
    theirs = commit(repository)

    with pytest.raises(ConflictError) as refusal:
        repository.commit(MAIN, ours, first)

    assert refusal.value.kind == "commit-conflict"
    assert refusal.value.expected_parent == str(first)
    assert refusal.value.actual_parent == str(theirs)
    assert repository.lookup_branch(MAIN) == theirs


def test_a_commit_to_a_branch_that_is_gone_is_a_conflict(repository: CommitProtocol) -> None:
    first = repository.lookup_branch(MAIN)
    repository.create_branch("spring", first)
    ours = write_snapshot(repository, first)
    repository.delete_branch("spring")

    with pytest.raises(ConflictError) as refusal:
        repository.commit("spring", ours, first)

    assert refusal.value.actual_parent is None
    assert repository.list_branches() == {MAIN}


def test_only_one_of_several_racing_threads_wins(
    storage: Storage, repository: CommitProtocol
) -> None:
    dialect, barrier = repository.dialect, threading.Barrier(WRITERS)

    def race(number: int) -> list[bool]:
        own = open_as(storage, dialect)
        won = []
        for round in range(5):
            barrier.wait()
            tip = own.lookup_branch(MAIN)
            snapshot = write_snapshot(own, tip, f"{round} by {number}")
            barrier.wait()
            won.append(succeeds(own.commit, MAIN, snapshot, tip))
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(race, range(WRITERS)))

    assert [sum(rounds) for rounds in zip(*won, strict=True)] == [1] * 5
    winners = [next(n for n in range(WRITERS) if won[n][round]) for round in range(5)]
    expected = [f"{round} by {winner}" for round, winner in enumerate(winners)]
    assert messages(repository) == expected[::-1]


def test_only_one_of_several_threads_creates_a_ref(
    storage: Storage, repository: CommitProtocol
) -> None:
    dialect, first = repository.dialect, repository.lookup_branch(MAIN)
    barrier = threading.Barrier(WRITERS)

    def race(_: int) -> tuple[int, int]:
        own = open_as(storage, dialect)
        barrier.wait()
        branches = sum(succeeds(own.create_branch, f"branch {n}", first) for n in range(5))
        tags = sum(succeeds(own.create_tag, f"tag {n}", first) for n in range(5))
        return branches, tags

    with ThreadPoolExecutor(WRITERS) as pool:
        counts = list(pool.map(race, range(WRITERS)))

    assert tuple(map(sum, zip(*counts, strict=True))) == (5, 5)


def test_a_snapshot_that_no_ref_points_to_is_known_by_its_file(
    storage: Storage, repository: CommitProtocol
) -> None:
    first = repository.lookup_branch(MAIN)
    snapshot = write_snapshot(repository, first, "detached")

    repository.register(snapshot, first)

    other = open_as(storage, repository.dialect)
    assert other.lookup_snapshot(snapshot.id).message == "detached"
    assert [info.id for info in other.ancestry(snapshot.id)] == [snapshot.id, first]


def test_what_only_v2_has_is_refused(storage: Storage, repository: CommitProtocol) -> None:
    first = repository.lookup_branch(MAIN)
    snapshot = write_snapshot(repository, first)
    before = {info.key for info in storage.list()}

    for refused in (
        lambda: repository.amend(MAIN, snapshot, first),
        lambda: repository.read_repo_info(),
        lambda: repository.update_metadata(lambda metadata: metadata),
        lambda: repository.set_status(RepoStatus()),
        lambda: repository.set_feature_flag(3, False),
        lambda: repository.ops_log(),
    ):
        with pytest.raises(FormatError) as refusal:
            refused()
        assert refusal.value.kind == "unsupported-spec-version"
    repository.refuse_unless_writable()
    assert {info.key for info in storage.list()} == before


def test_a_protocol_travels_between_processes(repository: CommitProtocol) -> None:
    commit(repository, message="before")

    copy = pickle.loads(pickle.dumps(repository))

    commit(copy, message="after")
    assert messages(repository) == ["after", "before"]


@pytest.mark.parametrize("repository", WITH_TEXT, indirect=True)
def test_history_survives_the_loss_of_an_ancestors_file_where_it_is_text(
    storage: Storage, repository: CommitProtocol
) -> None:
    lost = commit(repository, message="lost")
    commit(repository, message="kept")
    storage.delete_many([repository.assets.layout.snapshot_key(lost)])

    infos = list(open_as(storage, repository.dialect).ancestry(repository.lookup_branch(MAIN)))

    assert [info.message for info in infos] == ["kept", "lost", FIRST_MESSAGE]
    assert dict(infos[1].metadata) == {}


def test_the_first_snapshot_of_the_first_alphas_goes_by_the_name_of_its_file(
    storage: Storage,
) -> None:
    repository = create_repository(storage, Dialect.ALPHA_A)
    first = repository.lookup_branch(MAIN)
    decoded = repository.assets.read_snapshot(first)

    commit(repository)

    assert decoded.id == first
    assert repository.lookup_snapshot(repository.lookup_branch(MAIN)).parent_id == first
