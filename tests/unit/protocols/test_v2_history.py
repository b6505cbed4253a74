"""Commits of a V2 repository."""

import pickle
from dataclasses import replace

import pytest

from frazil.errors import (
    ConflictError,
    FormatError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.format import repo_info as model
from frazil.format.ids import FIRST_SNAPSHOT_ID as FIRST
from frazil.format.ids import SnapshotId
from frazil.protocols.protocol import MAIN
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2_protocol import V2Protocol
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import CountingStorage, Verb
from tests.protocol_repositories import (
    UNKNOWN_ID,
    commit,
    create_repository,
    messages,
    open_repository,
    write_snapshot,
)


@pytest.fixture
def repository(storage: Storage) -> V2Protocol:
    return create_repository(storage)


def latest(repository: V2Protocol) -> model.UpdateType:
    return next(repository.ops_log()).kind


# Creating


def test_a_new_repository_has_one_empty_snapshot(repository: V2Protocol) -> None:
    first = repository.assets.read_snapshot(FIRST)

    assert repository.list_branches() == {MAIN}
    assert repository.list_tags() == set()
    assert repository.lookup_branch(MAIN) == FIRST
    assert dict(first.nodes) == {}
    assert dict(first.metadata) == {"__icechunk": {"is_root": True}}
    assert repository.lookup_snapshot(FIRST).flushed_at == first.flushed_at
    assert repository.assets.read_transaction_log(FIRST).id == FIRST
    assert [update.kind for update in repository.ops_log()] == [model.RepoInitialized()]


def test_a_repository_is_created_once(storage: Storage, repository: V2Protocol) -> None:
    tip = commit(repository)

    with pytest.raises(ConflictError) as refusal:
        create_repository(storage)

    assert refusal.value.kind == "repo-info-updated"
    assert repository.lookup_branch(MAIN) == tip


def test_where_nothing_is_there_is_no_repository(storage: Storage) -> None:
    with pytest.raises(RepositoryNotFoundError):
        open_repository(storage).list_branches()


def test_a_damaged_repo_info_is_named(storage: Storage, repository: V2Protocol) -> None:
    storage.put("repo", b"no repo info")

    with pytest.raises(FormatError, match="repo: "):
        repository.list_branches()


# Committing


def test_a_commit_is_the_new_tip(storage: Storage, repository: V2Protocol) -> None:
    snapshot = write_snapshot(repository, FIRST, "snow")

    repository.commit(MAIN, snapshot, FIRST)

    other = open_repository(storage)
    assert other.lookup_branch(MAIN) == snapshot.id
    assert latest(other) == model.NewCommit(MAIN, snapshot.id)
    assert other.lookup_snapshot(snapshot.id) == model.SnapshotInfo(
        snapshot.id, FIRST, snapshot.flushed_at, "snow", snapshot.metadata
    )


def test_ancestry_goes_back_to_the_first_snapshot(repository: V2Protocol) -> None:
    ids = [FIRST, *(commit(repository, message=str(n)) for n in range(3))]

    ancestry = list(repository.ancestry(ids[-1]))

    assert [info.id for info in ancestry] == ids[::-1]
    assert [info.parent_id for info in ancestry] == [*ids[-2::-1], None]


def test_the_ancestry_of_an_unknown_snapshot_is_refused_at_once(repository: V2Protocol) -> None:
    for ask in (repository.ancestry, repository.lookup_snapshot):
        with pytest.raises(SnapshotNotFoundError, match=str(UNKNOWN_ID)):
            ask(UNKNOWN_ID)


def test_a_commit_on_another_tip_conflicts(repository: V2Protocol) -> None:
    ours = write_snapshot(repository, FIRST)
    theirs = commit(repository)

    with pytest.raises(ConflictError) as conflict:
        repository.commit(MAIN, ours, FIRST)

    assert conflict.value.kind == "commit-conflict"
    assert conflict.value.expected_parent == str(FIRST)
    assert conflict.value.actual_parent == str(theirs)
    assert repository.lookup_branch(MAIN) == theirs


def test_a_commit_to_a_deleted_branch_is_refused(repository: V2Protocol) -> None:
    snapshot = write_snapshot(repository, FIRST)

    for write in (repository.commit, repository.amend):
        with pytest.raises(RefNotFoundError) as refusal:
            write("gone", snapshot, FIRST)
        assert refusal.value.kind == "branch-not-found"


def test_a_snapshot_must_be_later_than_its_parent(repository: V2Protocol) -> None:
    parent = repository.lookup_snapshot(FIRST)
    snapshot = replace(write_snapshot(repository, FIRST), flushed_at=parent.flushed_at + 999)

    with pytest.raises(FormatError, match=str(snapshot.id)) as refusal:
        repository.commit(MAIN, snapshot, FIRST)

    assert refusal.value.kind == "snapshot-timestamp"


def test_a_snapshot_is_committed_once(repository: V2Protocol) -> None:
    snapshot = write_snapshot(repository, FIRST)
    repository.create_branch("other", FIRST)
    repository.commit(MAIN, snapshot, FIRST)

    with pytest.raises(FormatError) as refusal:
        repository.commit("other", snapshot, FIRST)

    assert refusal.value.kind == "duplicate-snapshot-id"


def test_a_history_that_grows_long_in_one_process_is_what_others_read(
    repository: V2Protocol, storage: Storage
) -> None:
    for number in range(50):
        commit(repository, message=f"commit {number}")

    info = repository.read_repo_info()
    assert messages(repository) == [f"commit {number}" for number in reversed(range(50))]
    assert info == open_repository(storage).read_repo_info()


# Amending and registering


def test_an_amended_commit_takes_the_place_of_the_tip(repository: V2Protocol) -> None:
    below = commit(repository, message="below")
    tip = commit(repository, message="tip")
    snapshot = write_snapshot(repository, below, "amended")

    repository.amend(MAIN, snapshot, tip)

    assert messages(repository) == ["amended", "below"]
    assert latest(repository) == model.CommitAmended(MAIN, tip, snapshot.id)
    assert repository.lookup_snapshot(tip).message == "tip"


def test_an_amended_commit_inherits_the_logs_of_expired_ancestors(repository: V2Protocol) -> None:
    tip = commit(repository)
    pruned = (SnapshotId(b"expired once"), SnapshotId(b"expired then"))

    def prune(info: model.RepoInfo) -> Change:
        entry = replace(info.snapshots[tip], pruned_ancestor_tx_logs=pruned)
        return Change(info.with_snapshots(entry), model.ExpirationRan())

    repository.update(prune)
    snapshot = write_snapshot(repository, tip)
    repository.amend(MAIN, snapshot, tip)

    assert repository.lookup_snapshot(snapshot.id).pruned_ancestor_tx_logs == pruned


def test_the_first_snapshot_is_not_amended(repository: V2Protocol) -> None:
    with pytest.raises(SessionStateError) as refusal:
        repository.amend(MAIN, write_snapshot(repository, FIRST), FIRST)

    assert refusal.value.kind == "no-amend-for-initial-commit"


def test_a_tip_that_moved_is_not_amended(repository: V2Protocol) -> None:
    former = commit(repository)
    tip = commit(repository)

    with pytest.raises(ConflictError) as conflict:
        repository.amend(MAIN, write_snapshot(repository, former), former)

    assert conflict.value.kind == "commit-conflict"
    assert conflict.value.actual_parent == str(tip)


def test_a_registered_snapshot_is_known_and_on_no_branch(repository: V2Protocol) -> None:
    snapshot = write_snapshot(repository, FIRST, "flushed")

    repository.register(snapshot, FIRST)

    assert repository.lookup_branch(MAIN) == FIRST
    assert repository.lookup_snapshot(snapshot.id).parent_id == FIRST
    assert latest(repository) == model.NewDetachedSnapshot(snapshot.id)
    with pytest.raises(SnapshotNotFoundError):
        repository.register(replace(snapshot, id=SnapshotId(b"another one!")), UNKNOWN_ID)


# How it is kept


def test_what_was_written_reads_back_the_same(storage: Storage, repository: V2Protocol) -> None:
    commit(repository)
    repository.create_tag("v1", FIRST)
    repository.set_feature_flag(4, False)
    repository.update_metadata(lambda _: {"b": 1, "a": [2.5, None]})

    assert open_repository(storage).read_repo_info() == repository.read_repo_info()


def test_an_unchanged_repo_info_is_not_decoded_again(repository: V2Protocol) -> None:
    commit(repository)

    assert repository.read_repo_info() is repository.read_repo_info()


def test_a_commit_asks_for_the_repo_info_once_and_writes_it_once() -> None:
    counted = CountingStorage(MemoryStorage())
    create_repository(counted)
    repository = open_repository(counted)
    snapshot = write_snapshot(repository, FIRST)
    counted.reset()

    repository.commit(MAIN, snapshot, FIRST)

    assert counted.counts.requests == {Verb.GET_VERSIONED: 1, Verb.PUT: 1, Verb.REPLACE: 1}


def test_a_commit_after_the_creation_asks_for_nothing() -> None:
    counted = CountingStorage(MemoryStorage())
    repository = create_repository(counted)
    snapshot = write_snapshot(repository, FIRST)
    counted.reset()

    repository.commit(MAIN, snapshot, FIRST)

    assert counted.counts.requests == {Verb.PUT: 1, Verb.REPLACE: 1}


def test_a_pickled_protocol_goes_on_elsewhere(repository: V2Protocol) -> None:
    tip = commit(repository)

    copy = pickle.loads(pickle.dumps(repository))

    assert copy.lookup_branch(MAIN) == tip
    assert commit(copy) == repository.lookup_branch(MAIN)
