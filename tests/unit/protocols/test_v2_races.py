"""What happens to updates of a V2 repository that others, or a bad network, get in the way of."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    StorageError,
    StorageTimeoutError,
    ThrottledError,
    VersionMismatchError,
)
from frazil.format import repo_info as model
from frazil.format.ids import FIRST_SNAPSHOT_ID as FIRST
from frazil.protocols.protocol import MAIN, UpdatePolicy, plan_pauses
from frazil.protocols.v2_protocol import V2Protocol
from frazil.storage.interface import NO_OPTIONS, Buffer, PutOptions, Storage, Version
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import Fault, FaultyStorage, RandomFaults, ScriptedFaults, Verb
from tests.protocol_repositories import (
    commit,
    commit_until_it_lands,
    create_repository,
    messages,
    open_repository,
    write_snapshot,
)

THREADS = 6
COMMITS = 10


class BusyStorage(MemoryStorage):
    """A storage where something else happens before or after a replacement, each thing once."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []

    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        if self.before:
            self.before.pop(0)()
        written = super().replace(key, data, version, options)
        if self.after:
            self.after.pop(0)()
            # The answer got lost, and what the storage finds now is somebody else's.
            raise VersionMismatchError(f"{key!r} is no longer what was read")
        return written


def kinds(repository: V2Protocol) -> list[model.UpdateType]:
    return [update.kind for update in repository.ops_log()]


# Races


def test_an_update_that_lost_a_race_is_made_again_on_what_the_winner_wrote() -> None:
    storage = BusyStorage()
    ours, theirs = create_repository(storage), open_repository(storage)
    storage.before = [lambda: theirs.create_branch("theirs", FIRST)]

    ours.create_branch("ours", FIRST)

    assert theirs.list_branches() == {MAIN, "ours", "theirs"}
    assert kinds(ours) == [
        model.BranchCreated("ours"),
        model.BranchCreated("theirs"),
        model.RepoInitialized(),
    ]


def test_a_commit_that_lost_a_race_for_the_tip_conflicts() -> None:
    storage = BusyStorage()
    ours, theirs = create_repository(storage), open_repository(storage)
    storage.before = [lambda: commit(theirs, message="theirs")]

    with pytest.raises(ConflictError) as conflict:
        commit(ours, message="ours")

    assert conflict.value.kind == "commit-conflict"
    assert messages(ours) == ["theirs"]


def test_commits_to_different_branches_do_not_conflict() -> None:
    storage = BusyStorage()
    ours, theirs = create_repository(storage), open_repository(storage)
    theirs.create_branch("other", FIRST)
    storage.before = [lambda: commit(theirs, "other", "theirs")]

    commit(ours, message="ours")

    assert messages(ours) == ["ours"]
    assert messages(ours, "other") == ["theirs"]


def test_who_loses_every_race_gives_up() -> None:
    storage = BusyStorage()
    policy = UpdatePolicy(max_tries=7, initial_backoff_seconds=0, max_backoff_seconds=0)
    ours, theirs = create_repository(storage, policy), open_repository(storage)
    for n in range(100):
        # Theirs is a replacement too, before which nothing happens.
        storage.before += [partial(theirs.create_tag, str(n), FIRST), lambda: None]

    with pytest.raises(ConflictError, match="8 times") as conflict:
        ours.create_branch("ours", FIRST)

    assert conflict.value.kind == "update-attempts-exhausted"
    assert ours.list_branches() == {MAIN}
    assert len(ours.list_tags()) == 8


def test_the_first_retries_follow_at_once_and_the_others_wait_ever_longer() -> None:
    policy = UpdatePolicy(max_tries=9, initial_backoff_seconds=1, max_backoff_seconds=3)

    pauses = list(plan_pauses(policy))

    assert pauses[:5] == [0] * 5
    for pause, longest in zip(pauses[5:9], [1, 2, 3, 3], strict=True):
        assert longest / 2 <= pause <= longest
    assert pauses[9:] == [0]


@pytest.mark.parametrize("max_tries", [0, 1, 5])
def test_however_few_tries_are_allowed_there_are_five_retries(max_tries: int) -> None:
    assert list(plan_pauses(UpdatePolicy(max_tries=max_tries))) == [0] * 6


def test_every_update_of_many_threads_is_in_the_ops_log_once(storage: Storage) -> None:
    create_repository(storage)
    shared = open_repository(storage)
    barrier = threading.Barrier(THREADS)

    def work(number: int) -> list[model.UpdateType]:
        # Half of the threads share a protocol, the others have their own.
        repository = shared if number % 2 else open_repository(storage)
        barrier.wait()
        done: list[model.UpdateType] = []
        for n in range(COMMITS):
            done.append(model.NewCommit(MAIN, commit_until_it_lands(repository, f"{number}.{n}")))
            repository.create_tag(f"{number}.{n}", FIRST)
            done.append(model.TagCreated(f"{number}.{n}"))
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        done = [update for updates in pool.map(work, range(THREADS)) for update in updates]

    log = list(shared.ops_log())
    assert len(done) == 2 * THREADS * COMMITS
    assert [update.kind for update in log][-1:] == [model.RepoInitialized()]
    assert sorted(map(str, done)) == sorted(str(update.kind) for update in log[:-1])
    assert len(set(messages(shared))) == THREADS * COMMITS
    times = [update.updated_at for update in log]
    assert times == sorted(set(times), reverse=True)


# Lost answers


def test_a_commit_that_landed_and_was_overtaken_before_it_was_known_is_no_conflict() -> None:
    storage = BusyStorage()
    ours, theirs = create_repository(storage), open_repository(storage)
    snapshot = write_snapshot(ours, FIRST, "ours")
    storage.after = [lambda: commit(theirs, message="theirs")]

    ours.commit(MAIN, snapshot, FIRST)

    assert messages(ours) == ["theirs", "ours"]


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_an_update_that_landed_is_not_made_twice(page: int) -> None:
    storage = BusyStorage()
    policy = UpdatePolicy(num_updates_per_repo_info_file=page)
    ours, theirs = create_repository(storage, policy), open_repository(storage, policy)

    def overtake() -> None:
        for n in range(4):
            theirs.create_tag(str(n), FIRST)

    storage.after = [overtake]
    ours.create_branch("ours", FIRST)

    assert kinds(ours).count(model.BranchCreated("ours")) == 1
    with pytest.raises(AlreadyExistsError):
        ours.create_branch("ours", FIRST)


def test_a_metadata_update_that_landed_gives_what_it_wrote() -> None:
    storage = BusyStorage()
    ours, theirs = create_repository(storage), open_repository(storage)
    storage.after = [lambda: theirs.update_metadata(lambda _: {"by": "them"})]

    written = ours.update_metadata(lambda _: {"by": "us"})

    assert dict(written) == {"by": "us"}
    assert dict(ours.read_repo_info().metadata) == {"by": "them"}


def test_a_replacement_whose_answer_is_lost_is_found_out(storage: Storage) -> None:
    create_repository(storage)
    faulty = FaultyStorage(storage, ScriptedFaults({(Verb.REPLACE, 0): Fault.LOSE_ANSWER}))
    repository = open_repository(faulty)

    tip = commit(repository)

    assert open_repository(storage).lookup_branch(MAIN) == tip


def test_a_refused_replacement_is_an_error_and_leaves_all_as_it_was(storage: Storage) -> None:
    create_repository(storage)
    faulty = FaultyStorage(storage, ScriptedFaults({(Verb.REPLACE, 0): Fault.REFUSE}))
    repository = open_repository(faulty)
    snapshot = write_snapshot(repository, FIRST)

    with pytest.raises(ThrottledError):
        repository.commit(MAIN, snapshot, FIRST)

    assert repository.lookup_branch(MAIN) == FIRST
    repository.commit(MAIN, snapshot, FIRST)
    assert open_repository(storage).lookup_branch(MAIN) == snapshot.id


def test_where_it_can_not_be_found_out_the_error_says_what_went_wrong_first() -> None:
    storage = MemoryStorage()
    create_repository(storage)
    script = {(Verb.REPLACE, 0): Fault.LOSE_ANSWER, (Verb.GET_VERSIONED, 1): Fault.REFUSE}
    repository = open_repository(FaultyStorage(storage, ScriptedFaults(script)))

    with pytest.raises(StorageTimeoutError, match="replace"):
        repository.create_branch("ours", FIRST)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_fails_the_ops_log_and_the_branch_agree(seed: int) -> None:
    inner = MemoryStorage()
    create_repository(inner)
    rates = {Fault.REFUSE: 0.1, Fault.LOSE_ANSWER: 0.2}
    repository = open_repository(FaultyStorage(inner, RandomFaults(seed, rates)))

    acknowledged = []
    for n in range(80):
        try:
            commit_until_it_lands(repository, str(n))
        except StorageError:
            continue
        acknowledged.append(str(n))

    honest = open_repository(inner)
    landed = messages(honest)[::-1]
    assert acknowledged
    assert [message for message in landed if message in acknowledged] == acknowledged
    commits = [kind for kind in kinds(honest) if isinstance(kind, model.NewCommit)]
    history = list(honest.ancestry(honest.lookup_branch(MAIN)))[:-1]
    assert [each.new_snap_id for each in commits] == [info.id for info in history]
