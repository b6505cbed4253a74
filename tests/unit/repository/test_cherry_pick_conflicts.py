"""What a commit meets on the branch that it is picked onto."""

from collections.abc import Callable

import pytest

from frazil.errors import RebaseFailedError, SessionStateError
from frazil.repository.conflicts import Conflict, ConflictType
from frazil.repository.context import RepositoryContext
from tests.session_states import (
    MAIN,
    OURS,
    SIDE,
    THEIRS,
    Change,
    change,
    create_context,
    deletes,
    describes,
    fork_history,
    move,
    paths_of,
    pick,
    read_chunks,
    set_array,
    writes,
)


@pytest.fixture
def context() -> RepositoryContext:
    """A repository with a small tree, and a branch beside `main` that starts there."""
    return fork_history(create_context())


# What meets


def conflicts_of(act: Callable[[], object]) -> list[object]:
    with pytest.raises(RebaseFailedError) as failed:
        act()
    return failed.value.conflicts


MEETINGS: dict[ConflictType, tuple[str, Change, Change]] = {
    ConflictType.NewNodeConflictsWithExistingNode: ("/n", describes("/n"), describes("/n")),
    ConflictType.NewNodeInInvalidGroup: (
        "/n",
        describes("/n/deep"),
        lambda state: set_array(state, "/n", 1),
    ),
    ConflictType.ZarrMetadataDoubleUpdate: ("/g", describes("/g", x=1), describes("/g", x=2)),
    ConflictType.ZarrMetadataUpdateOfDeletedArray: (
        "/g/a",
        lambda state: set_array(state, "/g/a", 8, x=1),
        deletes("/g/a"),
    ),
    ConflictType.ZarrMetadataUpdateOfDeletedGroup: ("/h", describes("/h", x=1), deletes("/h")),
    ConflictType.ChunksUpdatedInDeletedArray: ("/g/a", writes(1), deletes("/g/a")),
    ConflictType.ChunksUpdatedInUpdatedArray: (
        "/g/a",
        writes(1),
        lambda state: set_array(state, "/g/a", 8, x=1),
    ),
    ConflictType.DeleteOfUpdatedArray: ("/g/a", deletes("/g/a"), writes(1)),
    ConflictType.DeleteOfUpdatedGroup: ("/h", deletes("/h"), describes("/h", x=1)),
}


@pytest.mark.parametrize("expected", MEETINGS, ids=lambda each: each.name)
def test_every_conflict_is_found_as_in_a_rebase(
    context: RepositoryContext, expected: ConflictType
) -> None:
    path, ours, theirs = MEETINGS[expected]
    id = change(context, SIDE, ours)
    tip = change(context, MAIN, theirs)

    assert conflicts_of(lambda: pick(context, id)) == [Conflict(expected, path)]

    assert context.protocol.lookup_branch(MAIN) == tip


def test_chunks_that_both_wrote_are_reported_and_decided_about(context: RepositoryContext) -> None:
    id = change(context, SIDE, writes(1, 2))
    tip = change(context, MAIN, writes(2, 3, data=b"m"))
    found = conflicts_of(lambda: pick(context, id))
    assert found == [Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[2]])]

    assert read_chunks(pick(context, id, OURS), "/g/a") == "0ssm0000"
    context.protocol.reset_branch(MAIN, tip)
    assert read_chunks(pick(context, id, THEIRS), "/g/a") == "0smm0000"


def test_a_commit_that_gives_up_everything_is_not_made(context: RepositoryContext) -> None:
    id = change(context, SIDE, writes(2))
    change(context, MAIN, writes(2, data=b"m"))

    with pytest.raises(SessionStateError) as refused:
        pick(context, id, THEIRS)

    assert refused.value.kind == "no-changes-to-commit"


def test_a_solver_may_delete_what_was_changed(context: RepositoryContext) -> None:
    id = change(context, SIDE, deletes("/g"))
    change(context, MAIN, writes(2), describes("/g/new"))

    assert paths_of(pick(context, id, OURS)) == ["/", "/h"]


def test_what_the_commit_builds_on_and_the_branch_has_not_is_a_conflict(
    context: RepositoryContext,
) -> None:
    change(context, SIDE, lambda s: set_array(s, "/g/a", 16), writes(0))
    beyond = change(context, SIDE, writes(0, 12))
    change(context, SIDE, describes("/group"))
    inside = change(context, SIDE, describes("/group/inside"))

    assert conflicts_of(lambda: pick(context, beyond)) == [
        Conflict(ConflictType.ChunksUpdatedInUpdatedArray, "/g/a"),
        Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[0]]),
    ]
    assert conflicts_of(lambda: pick(context, inside)) == [
        Conflict(ConflictType.NewNodeInInvalidGroup, "/group")
    ]


def test_a_commit_can_not_be_picked_twice(context: RepositoryContext) -> None:
    made = change(context, SIDE, describes("/n"))
    pick(context, made)

    assert conflicts_of(lambda: pick(context, made)) == [
        Conflict(ConflictType.NewNodeConflictsWithExistingNode, "/n")
    ]


# Moves


def test_moves_can_not_be_picked_whatever_the_solver(context: RepositoryContext) -> None:
    id = move(context, SIDE, "/g/a", "/h/a")

    found = conflicts_of(lambda: pick(context, id, OURS))

    assert found == [Conflict(ConflictType.MoveOperationCannotBeRebased, "/h/a")]


def test_nothing_can_be_picked_over_moves(context: RepositoryContext) -> None:
    id = change(context, SIDE, writes(1))
    move(context, MAIN, "/g/b", "/h/b")

    found = conflicts_of(lambda: pick(context, id, OURS))

    assert found == [Conflict(ConflictType.MoveOperationCannotBeRebased, "")]


def test_a_node_that_is_there_at_another_path_is_a_conflict(context: RepositoryContext) -> None:
    id = change(context, SIDE, describes("/n"))
    pick(context, id)
    move(context, MAIN, "/n", "/moved")

    assert conflicts_of(lambda: pick(context, id)) == [
        Conflict(ConflictType.NewNodeConflictsWithExistingNode, "/moved")
    ]
