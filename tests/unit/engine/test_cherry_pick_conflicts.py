"""What a commit meets on the branch that it is picked onto."""

from collections.abc import Callable

import pytest

from frazil.conflicts import (
    Conflict,
    ConflictType,
)
from frazil.engine.state import Surroundings
from frazil.errors import (
    RebaseFailedError,
    SessionStateError,
)
from tests.engine_branches import (
    OURS,
    SIDE,
    THEIRS,
    change,
    deletes,
    describes,
    fork_history,
    move,
    pick,
    writes,
)
from tests.engine_sessions import (
    MAIN,
    Change,
    create_surroundings,
    paths_of,
    read_chunks,
    set_array,
)


@pytest.fixture
def surroundings() -> Surroundings:
    """A repository with a small tree, and a branch beside `main` that starts there."""
    return fork_history(create_surroundings())


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
    surroundings: Surroundings, expected: ConflictType
) -> None:
    path, ours, theirs = MEETINGS[expected]
    id = change(surroundings, SIDE, ours)
    tip = change(surroundings, MAIN, theirs)

    assert conflicts_of(lambda: pick(surroundings, id)) == [Conflict(expected, path)]

    assert surroundings.protocol.lookup_branch(MAIN) == tip


def test_chunks_that_both_wrote_are_told_and_decided_about(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, writes(1, 2))
    tip = change(surroundings, MAIN, writes(2, 3, data=b"m"))
    found = conflicts_of(lambda: pick(surroundings, id))
    assert found == [Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[2]])]

    assert read_chunks(pick(surroundings, id, OURS), "/g/a") == "0ssm0000"
    surroundings.protocol.reset_branch(MAIN, tip)
    assert read_chunks(pick(surroundings, id, THEIRS), "/g/a") == "0smm0000"


def test_a_commit_that_gives_up_everything_is_not_made(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, writes(2))
    change(surroundings, MAIN, writes(2, data=b"m"))

    with pytest.raises(SessionStateError) as refused:
        pick(surroundings, id, THEIRS)

    assert refused.value.kind == "no-changes-to-commit"


def test_a_solver_may_delete_what_was_changed(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, deletes("/g"))
    change(surroundings, MAIN, writes(2), describes("/g/new"))

    assert paths_of(pick(surroundings, id, OURS)) == ["/", "/h"]


def test_what_the_commit_builds_on_and_the_branch_has_not_is_a_conflict(
    surroundings: Surroundings,
) -> None:
    change(surroundings, SIDE, lambda s: set_array(s, "/g/a", 16), writes(0))
    beyond = change(surroundings, SIDE, writes(0, 12))
    change(surroundings, SIDE, describes("/group"))
    inside = change(surroundings, SIDE, describes("/group/inside"))

    assert conflicts_of(lambda: pick(surroundings, beyond)) == [
        Conflict(ConflictType.ChunksUpdatedInUpdatedArray, "/g/a"),
        Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[0]]),
    ]
    assert conflicts_of(lambda: pick(surroundings, inside)) == [
        Conflict(ConflictType.NewNodeInInvalidGroup, "/group")
    ]


def test_a_commit_can_not_be_picked_twice(surroundings: Surroundings) -> None:
    made = change(surroundings, SIDE, describes("/n"))
    pick(surroundings, made)

    assert conflicts_of(lambda: pick(surroundings, made)) == [
        Conflict(ConflictType.NewNodeConflictsWithExistingNode, "/n")
    ]


# Moves


def test_moves_can_not_be_picked_whatever_the_solver(surroundings: Surroundings) -> None:
    id = move(surroundings, SIDE, "/g/a", "/h/a")

    found = conflicts_of(lambda: pick(surroundings, id, OURS))

    assert found == [Conflict(ConflictType.MoveOperationCannotBeRebased, "/h/a")]


def test_nothing_can_be_picked_over_moves(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, writes(1))
    move(surroundings, MAIN, "/g/b", "/h/b")

    found = conflicts_of(lambda: pick(surroundings, id, OURS))

    assert found == [Conflict(ConflictType.MoveOperationCannotBeRebased, "")]


def test_a_node_that_is_there_at_another_path_is_a_conflict(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, describes("/n"))
    pick(surroundings, id)
    move(surroundings, MAIN, "/n", "/moved")

    assert conflicts_of(lambda: pick(surroundings, id)) == [
        Conflict(ConflictType.NewNodeConflictsWithExistingNode, "/moved")
    ]
