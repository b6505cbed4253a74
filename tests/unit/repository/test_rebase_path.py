from dataclasses import replace

import pytest

from frazil.errors import ObjectNotFoundError, RebaseFailedError, SessionStateError
from frazil.format.files import encode_repo_info
from frazil.format.ids import SnapshotId
from frazil.protocols.v2_protocol import REPO
from frazil.repository.commit import CommitText, amend
from frazil.repository.conflicts import (
    BasicConflictSolver,
    Conflict,
    ConflictDetector,
    ConflictType,
)
from frazil.repository.context import RepositoryContext
from frazil.repository.rebase import Step, plan_steps, rebase
from tests.session_states import (
    MAIN,
    commit,
    commit_change,
    create_context,
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
def context() -> RepositoryContext:
    """A repository with a small tree."""
    created = create_context()
    plant(created)
    return created


# Branches that did not only grow


def test_a_reset_branch_takes_changes_that_need_nothing_of_what_is_gone(
    context: RepositoryContext,
) -> None:
    former = context.protocol.lookup_branch(MAIN)
    commit_change(context, lambda s: set_array(s, "/n", 8))
    state = open_session(context)
    write_chunks(state, "/g/a", 0, data=b"o")
    context.protocol.reset_branch(MAIN, former)

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(context), "/g/a") == "o0000000"
    assert "/n" not in paths_of(latest(context))


def test_a_reset_branch_does_not_take_changes_of_what_is_gone(context: RepositoryContext) -> None:
    former = context.protocol.lookup_branch(MAIN)
    commit_change(context, lambda s: set_array(s, "/n", 8))
    state = open_session(context)
    write_chunks(state, "/n", 0)
    context.protocol.reset_branch(MAIN, former)

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, SOLVER)

    assert failed.value.conflicts == [Conflict(ConflictType.ChunksUpdatedInDeletedArray, "/n")]


def test_only_commits_after_the_common_ancestor_count(context: RepositoryContext) -> None:
    former = context.protocol.lookup_branch(MAIN)
    commit_change(context, lambda s: set_group(s, "/undone"))
    state = open_session(context)
    write_chunks(state, "/g/a", *range(8), data=b"o")
    context.protocol.reset_branch(MAIN, former)
    commit_change(context, lambda s: set_group(s, "/done"))

    rebase(state, DETECTOR)

    assert "/done" in paths_of(state)
    assert "/undone" not in paths_of(state)


def test_an_amended_tip_is_a_commit_like_any_other(context: RepositoryContext) -> None:
    commit_change(context, lambda s: set_array(s, "/n", 8))
    state = open_session(context)
    write_chunks(state, "/n", 0, data=b"o")
    other = open_session(context)
    set_group(other, "/late")
    amend(other, CommitText("amended", {}))

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(context), "/n") == "o......."
    assert "/late" in paths_of(latest(context))


# Expired commits


def expire(context: RepositoryContext, kept: SnapshotId) -> list[SnapshotId]:
    """Let all snapshots between one and the first expire; gives them, oldest first."""
    protocol = context.protocol
    chain = [info.id for info in protocol.ancestry(kept)]
    gone = chain[1:-1][::-1]
    info = protocol.read_repo_info()
    left = {id: each for id, each in info.snapshots.items() if id not in gone}
    left[kept] = replace(left[kept], parent_id=chain[-1], pruned_ancestor_tx_logs=tuple(gone))
    data = encode_repo_info(replace(info, snapshots=left))
    context.assets.storage.put(REPO, data)
    return gone


def forget_log(context: RepositoryContext, id: SnapshotId) -> None:
    context.assets.storage.delete_many([f"transactions/{id}"])


def test_logs_of_expired_commits_count_before_the_own_log(context: RepositoryContext) -> None:
    state = open_session(context)
    write_chunks(state, "/g/a", 1)
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1))
    tip = commit_change(context, lambda s: set_group(s, "/late"))
    expire(context, tip)

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, DETECTOR)

    assert failed.value.snapshot == str(tip)
    assert failed.value.conflicts == [Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[1]])]


def test_a_session_survives_that_its_base_expires(context: RepositoryContext) -> None:
    state = open_session(context)
    write_chunks(state, "/g/a", 1, data=b"o")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 5, data=b"t"))
    tip = commit_change(context, lambda s: set_group(s, "/late"))
    gone = expire(context, tip)
    assert state.view.snapshot_id in gone

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(context), "/g/a") == "0o000t00"


def test_a_log_of_an_expired_commit_that_is_gone_is_an_error_of_its_own(
    context: RepositoryContext,
) -> None:
    state = open_session(context)
    write_chunks(state, "/g/a", 1)
    commit_change(context, lambda s: write_chunks(s, "/g/a", 5))
    tip = commit_change(context, lambda s: set_group(s, "/late"))
    gone = expire(context, tip)
    forget_log(context, gone[-1])

    with pytest.raises(SessionStateError, match=str(gone[-1])) as refused:
        rebase(state, SOLVER)

    assert refused.value.kind == "rebase-tx-log-pruned"


def test_a_commit_without_its_log_can_not_be_passed(context: RepositoryContext) -> None:
    state = open_session(context)
    set_group(state, "/n")
    forget_log(context, commit_change(context, lambda s: set_group(s, "/m")))

    with pytest.raises(ObjectNotFoundError):
        rebase(state, DETECTOR)


# Which commits there are to pass


def test_steps_go_from_the_base_to_the_tip(context: RepositoryContext) -> None:
    base = context.protocol.lookup_branch(MAIN)
    ids = [commit_change(context) for _ in range(3)]

    assert plan_steps(context.protocol, base, ids[-1]) == [Step(id) for id in ids]
    assert plan_steps(context.protocol, ids[-1], ids[-1]) == []


def test_a_branch_that_only_went_back_is_one_step_without_a_log(context: RepositoryContext) -> None:
    base = context.protocol.lookup_branch(MAIN)
    tip = commit_change(context)

    assert plan_steps(context.protocol, tip, base) == [Step(base, has_log=False)]


def test_a_base_that_is_forgotten_lets_all_commits_count(context: RepositoryContext) -> None:
    tip = commit_change(context)
    ids = [info.id for info in context.protocol.ancestry(tip)]
    forgotten = SnapshotId(b"never there!")

    steps = plan_steps(context.protocol, forgotten, tip)

    assert [step.snapshot_id for step in steps] == ids[:-1][::-1]
