"""Conflicts and solvers as values."""

import pickle

import numpy as np
import pytest

from frazil.format.ids import NodeId
from frazil.ops import SessionMode
from frazil.repository.conflicts import (
    BasicConflictSolver,
    Clash,
    Conflict,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    Theirs,
    VersionSelection,
    describe_ours,
    find_clashes,
    plan_solution,
)
from frazil.repository.context import SessionState
from frazil.repository.moves import move_node
from tests.session_states import (
    Change,
    commit,
    create_context,
    delete,
    open_session,
    plant,
    set_array,
    set_group,
    write_chunks,
)


def test_a_conflict_is_a_value_that_travels() -> None:
    conflict = Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[1, 2]])

    assert conflict == Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[1, 2]])
    assert pickle.loads(pickle.dumps(conflict)) == conflict
    assert len({conflict, Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[1, 2]])}) == 1


def test_a_conflict_shows_what_it_is_about() -> None:
    assert str(Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[1, 2]])) == (
        "<frazil.conflicts.Conflict>\n"
        "conflict_type: ChunkDoubleUpdate\npath: /a\nconflicted_chunks: [[1, 2]]\n"
    )
    assert "chunks" not in str(Conflict(ConflictType.DeleteOfUpdatedArray, "/a"))


def test_a_type_of_conflicts_reads_as_words() -> None:
    assert str(ConflictType.ZarrMetadataUpdateOfDeletedArray) == (
        "Zarr metadata update of deleted array"
    )
    assert repr(ConflictType.ChunkDoubleUpdate) == "ChunkDoubleUpdate"


def test_solvers_say_how_they_decide() -> None:
    solver = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)

    assert isinstance(solver, ConflictSolver)
    assert isinstance(ConflictDetector(), ConflictSolver)
    assert BasicConflictSolver() == BasicConflictSolver(
        on_chunk_conflict=VersionSelection.UseOurs,
        fail_on_delete_of_updated_array=False,
        fail_on_delete_of_updated_group=False,
    )
    assert pickle.loads(pickle.dumps(solver)) == solver


Found = list[tuple[ConflictType, str]]


def clash(ours: Change, theirs: Change, mode: SessionMode = SessionMode.writable) -> list[Clash]:
    """What is found between two sessions that start from the same tree."""
    context = create_context()
    plant(context)
    our_session = open_session(context, mode)
    their_session = open_session(context)
    theirs(their_session)
    id = commit(their_session)
    ours(our_session)
    assets = context.assets
    side = Theirs(assets.read_transaction_log(id), assets.read_snapshot(id).nodes)
    return find_clashes(describe_ours(our_session.changes, our_session.view.snapshot.nodes), side)


def find(ours: Change, theirs: Change, mode: SessionMode = SessionMode.writable) -> Found:
    return [(each.conflict_type, each.path) for each in clash(ours, theirs, mode)]


def several(*changes: Change) -> Change:
    def change(state: SessionState) -> None:
        for each in changes:
            each(state)

    return change


# What both libraries find, the interop tests compare. Here is what only this one finds.


def test_a_deleted_group_meets_a_node_that_they_put_into_it() -> None:
    found = find(lambda s: delete(s, "/g"), lambda s: set_group(s, "/g/new"))

    assert found == [(ConflictType.DeleteOfUpdatedGroup, "/g")]


def test_the_nearest_deleted_group_is_named_once_for_all_nodes_in_it() -> None:
    theirs = several(
        lambda s: set_group(s, "/g/sub/one"),
        lambda s: set_array(s, "/g/sub/two", 3),
        lambda s: set_group(s, "/g/sub/one/below"),
    )

    assert find(lambda s: delete(s, "/g"), theirs) == [
        (ConflictType.DeleteOfUpdatedGroup, "/g/sub")
    ]


def test_a_group_that_they_deleted_and_made_again_is_not_the_one_that_we_delete() -> None:
    theirs = several(
        lambda s: delete(s, "/g"), lambda s: set_group(s, "/g"), lambda s: set_group(s, "/g/new")
    )

    assert find(lambda s: delete(s, "/g"), theirs) == []


def test_a_new_node_needs_the_group_that_they_deleted() -> None:
    found = find(lambda s: set_group(s, "/g/sub/new"), lambda s: delete(s, "/g/sub"))

    assert found == [(ConflictType.NewNodeInInvalidGroup, "/g/sub")]


def test_a_new_node_may_be_in_a_group_that_they_made_again() -> None:
    theirs = several(lambda s: delete(s, "/g/sub"), lambda s: set_group(s, "/g/sub", again=True))

    assert find(lambda s: set_group(s, "/g/sub/new"), theirs) == []


def test_a_node_that_both_replaced_is_made_twice() -> None:
    replace = several(lambda s: delete(s, "/g/a"), lambda s: set_array(s, "/g/a", 2))

    assert find(replace, replace) == [(ConflictType.NewNodeConflictsWithExistingNode, "/g/a")]


def move(from_path: str, to_path: str) -> Change:
    return lambda state: move_node(state, from_path, to_path)


@pytest.mark.parametrize(
    ("theirs", "path"),
    [
        (lambda s: delete(s, "/g/a"), "/g/a"),
        (lambda s: set_group(s, "/h/a"), "/h/a"),
        (lambda s: delete(s, "/h"), "/h"),
    ],
)
def test_a_move_needs_its_node_and_its_place(theirs: Change, path: str) -> None:
    found = find(move("/g/a", "/h/a"), theirs, SessionMode.rearrange)

    assert found == [(ConflictType.MoveOperationCannotBeRebased, path)]


def test_a_moved_group_leaves_nothing_of_theirs_behind() -> None:
    found = find(move("/g", "/h/g"), lambda s: set_group(s, "/g/new"), SessionMode.rearrange)

    assert found == [(ConflictType.MoveOperationCannotBeRebased, "/g/new")]


def test_a_move_does_not_mind_changes_of_what_it_moves() -> None:
    theirs = several(lambda s: write_chunks(s, "/g/a", 1), lambda s: set_group(s, "/g", said=1))

    assert find(move("/g", "/h/g"), theirs, SessionMode.rearrange) == []


# How it is reported


def test_conflicts_are_reported_by_rule_and_then_by_path() -> None:
    ours = several(
        lambda s: write_chunks(s, "/g/b", 1, 2),
        lambda s: write_chunks(s, "/g/a", 5, 4, 3),
        lambda s: set_group(s, "/n"),
        lambda s: delete(s, "/h"),
    )
    theirs = several(
        lambda s: set_group(s, "/h", said=1),
        lambda s: set_group(s, "/n"),
        lambda s: write_chunks(s, "/g/a", 4, 5, 6),
        lambda s: write_chunks(s, "/g/b", *range(8)),
    )

    found = [each.to_conflict() for each in clash(ours, theirs)]

    assert [(each.conflict_type.name, each.path, each.conflicted_chunks) for each in found] == [
        ("NewNodeConflictsWithExistingNode", "/n", None),
        ("ChunkDoubleUpdate", "/g/a", [[4], [5]]),
        ("ChunkDoubleUpdate", "/g/b", [[1], [2]]),
        ("DeleteOfUpdatedGroup", "/h", None),
    ]


def test_chunks_of_an_array_that_got_other_axes_do_not_meet() -> None:
    found = find(
        lambda s: write_chunks(s, "/g/a", 1),
        several(lambda s: set_array(s, "/g/a", 8, 8)),
    )

    assert found == [(ConflictType.ChunksUpdatedInUpdatedArray, "/g/a")]


# Solving

CHUNKS = Clash(ConflictType.ChunkDoubleUpdate, "/a", NodeId(b"a" * 8), np.ones((1, 1), np.uint32))
DELETED_ARRAY = Clash(ConflictType.DeleteOfUpdatedArray, "/a", NodeId(b"a" * 8))
DELETED_GROUP = Clash(ConflictType.DeleteOfUpdatedGroup, "/g", NodeId(b"g" * 8))
SOLVABLE = [CHUNKS, DELETED_ARRAY, DELETED_GROUP]


def test_a_detector_solves_nothing_but_nothing() -> None:
    assert plan_solution([], ConflictDetector()) == {}
    assert plan_solution([DELETED_ARRAY], ConflictDetector()) is None


def test_a_solver_keeps_ours_unless_asked_otherwise() -> None:
    assert plan_solution(SOLVABLE, BasicConflictSolver()) == {}


def test_a_solver_gives_up_chunks_for_theirs() -> None:
    solver = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)

    assert plan_solution(SOLVABLE, solver) == {CHUNKS.node_id: CHUNKS.chunks}


@pytest.mark.parametrize(
    "solver",
    [
        BasicConflictSolver(on_chunk_conflict=VersionSelection.Fail),
        BasicConflictSolver(fail_on_delete_of_updated_array=True),
        BasicConflictSolver(fail_on_delete_of_updated_group=True),
    ],
)
def test_a_solver_fails_where_it_is_asked_to(solver: BasicConflictSolver) -> None:
    assert plan_solution(SOLVABLE, solver) is None


@pytest.mark.parametrize(
    "kind", [k for k in ConflictType if k not in {c.conflict_type for c in SOLVABLE}]
)
def test_a_solver_may_not_decide_about_the_rest(kind: ConflictType) -> None:
    assert plan_solution([Clash(kind, "/x")], BasicConflictSolver()) is None
