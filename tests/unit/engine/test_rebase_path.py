from dataclasses import replace

import pytest

from frazil.conflicts import BasicConflictSolver, Conflict, ConflictDetector, ConflictType
from frazil.engine.commits import CommitText
from frazil.engine.finishing import amend
from frazil.engine.rebase_path import Step, plan_steps
from frazil.engine.rebasing import rebase
from frazil.engine.state import Surroundings
from frazil.errors import ObjectNotFoundError, RebaseFailedError, SessionStateError
from frazil.format.files import encode_repo_info
from frazil.format.ids import SnapshotId
from frazil.protocols.repo_file import REPO
from tests.engine_sessions import (
    MAIN,
    commit,
    commit_change,
    create_surroundings,
    latest,
    open_session,
    paths_of,
    plant,
    read_chunks,
    set_array,
    set_group,
    write_chunks,
)

DETECTOR = ConflictDetector()
SOLVER = BasicConflictSolver()


@pytest.fixture
def surroundings() -> Surroundings:
    """A repository with a small tree."""
    created = create_surroundings()
    plant(created)
    return created


# Branches that did not only grow


def test_a_reset_branch_takes_changes_that_need_nothing_of_what_is_gone(
    surroundings: Surroundings,
) -> None:
    former = surroundings.protocol.lookup_branch(MAIN)
    commit_change(surroundings, lambda s: set_array(s, "/n", 8))
    state = open_session(surroundings)
    write_chunks(state, "/g/a", 0, data=b"o")
    surroundings.protocol.reset_branch(MAIN, former)

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(surroundings), "/g/a") == "o0000000"
    assert "/n" not in paths_of(latest(surroundings))


def test_a_reset_branch_does_not_take_changes_of_what_is_gone(surroundings: Surroundings) -> None:
    former = surroundings.protocol.lookup_branch(MAIN)
    commit_change(surroundings, lambda s: set_array(s, "/n", 8))
    state = open_session(surroundings)
    write_chunks(state, "/n", 0)
    surroundings.protocol.reset_branch(MAIN, former)

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, SOLVER)

    assert failed.value.conflicts == [Conflict(ConflictType.ChunksUpdatedInDeletedArray, "/n")]


def test_only_commits_after_the_common_ancestor_count(surroundings: Surroundings) -> None:
    former = surroundings.protocol.lookup_branch(MAIN)
    commit_change(surroundings, lambda s: set_group(s, "/undone"))
    state = open_session(surroundings)
    write_chunks(state, "/g/a", *range(8), data=b"o")
    surroundings.protocol.reset_branch(MAIN, former)
    commit_change(surroundings, lambda s: set_group(s, "/done"))

    rebase(state, DETECTOR)

    assert "/done" in paths_of(state)
    assert "/undone" not in paths_of(state)


def test_an_amended_tip_is_a_commit_like_any_other(surroundings: Surroundings) -> None:
    commit_change(surroundings, lambda s: set_array(s, "/n", 8))
    state = open_session(surroundings)
    write_chunks(state, "/n", 0, data=b"o")
    other = open_session(surroundings)
    set_group(other, "/late")
    amend(other, CommitText("amended", {}))

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(surroundings), "/n") == "o......."
    assert "/late" in paths_of(latest(surroundings))


# Expired commits


def expire(surroundings: Surroundings, kept: SnapshotId) -> list[SnapshotId]:
    """Let all snapshots between one and the first expire; gives them, oldest first."""
    protocol = surroundings.protocol
    chain = [info.id for info in protocol.ancestry(kept)]
    gone = chain[1:-1][::-1]
    info = protocol.read_repo_info()
    left = {id: each for id, each in info.snapshots.items() if id not in gone}
    left[kept] = replace(left[kept], parent_id=chain[-1], pruned_ancestor_tx_logs=tuple(gone))
    data = encode_repo_info(replace(info, snapshots=left))
    surroundings.assets.storage.put(REPO, data)
    return gone


def forget_log(surroundings: Surroundings, id: SnapshotId) -> None:
    surroundings.assets.storage.delete_many([f"transactions/{id}"])


def test_logs_of_expired_commits_count_before_the_own_log(surroundings: Surroundings) -> None:
    state = open_session(surroundings)
    write_chunks(state, "/g/a", 1)
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 1))
    tip = commit_change(surroundings, lambda s: set_group(s, "/late"))
    expire(surroundings, tip)

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, DETECTOR)

    assert failed.value.snapshot == str(tip)
    assert failed.value.conflicts == [Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[1]])]


def test_a_session_survives_that_its_base_expires(surroundings: Surroundings) -> None:
    state = open_session(surroundings)
    write_chunks(state, "/g/a", 1, data=b"o")
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 5, data=b"t"))
    tip = commit_change(surroundings, lambda s: set_group(s, "/late"))
    gone = expire(surroundings, tip)
    assert state.view.snapshot_id in gone

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(surroundings), "/g/a") == "0o000t00"


def test_a_log_of_an_expired_commit_that_is_gone_is_an_error_of_its_own(
    surroundings: Surroundings,
) -> None:
    state = open_session(surroundings)
    write_chunks(state, "/g/a", 1)
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 5))
    tip = commit_change(surroundings, lambda s: set_group(s, "/late"))
    gone = expire(surroundings, tip)
    forget_log(surroundings, gone[-1])

    with pytest.raises(SessionStateError, match=str(gone[-1])) as refused:
        rebase(state, SOLVER)

    assert refused.value.kind == "rebase-tx-log-pruned"


def test_a_commit_without_its_log_can_not_be_passed(surroundings: Surroundings) -> None:
    state = open_session(surroundings)
    set_group(state, "/n")
    forget_log(surroundings, commit_change(surroundings, lambda s: set_group(s, "/m")))

    with pytest.raises(ObjectNotFoundError):
        rebase(state, DETECTOR)


# Which commits there are to pass


def test_steps_go_from_the_base_to_the_tip(surroundings: Surroundings) -> None:
    base = surroundings.protocol.lookup_branch(MAIN)
    ids = [commit_change(surroundings) for _ in range(3)]

    assert plan_steps(surroundings.protocol, base, ids[-1]) == [Step(id) for id in ids]
    assert plan_steps(surroundings.protocol, ids[-1], ids[-1]) == []


def test_a_branch_that_only_went_back_is_one_step_without_a_log(surroundings: Surroundings) -> None:
    base = surroundings.protocol.lookup_branch(MAIN)
    tip = commit_change(surroundings)

    assert plan_steps(surroundings.protocol, tip, base) == [Step(base, has_log=False)]


def test_a_base_that_is_forgotten_lets_all_commits_count(surroundings: Surroundings) -> None:
    tip = commit_change(surroundings)
    ids = [info.id for info in surroundings.protocol.ancestry(tip)]
    forgotten = SnapshotId(b"never there!")

    steps = plan_steps(surroundings.protocol, forgotten, tip)

    assert [step.snapshot_id for step in steps] == ids[:-1][::-1]
