"""The same rebase done by both libraries: the same conflicts, or the same repository afterwards."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from tests.interop.official_library import OfficialLibrary
from tests.interop.rebase_scenarios import DETECTOR, Step, commit_with_rebase, run_rebase

Solver = str | dict[str, Any]

SOLVERS: dict[str, Solver] = {
    "detector": DETECTOR,
    "ours": {},
    "theirs": {"on_chunk_conflict": "UseTheirs"},
    "neither": {
        "on_chunk_conflict": "Fail",
        "fail_on_delete_of_updated_array": True,
        "fail_on_delete_of_updated_group": True,
    },
}

WRITE_A: Step = ["write", "g/a", 0, 3, 7]
DESCRIBE_A: Step = ["describe_array", "g/a", "ours"]
DESCRIBE_G: Step = ["describe_group", "g", "ours"]
DELETE_A: Step = ["delete", "g/a"]
DELETE_G: Step = ["delete", "g"]

MEETINGS: dict[str, tuple[list[Step], list[Step]]] = {
    "NewNodeConflictsWithExistingNode": ([["create_group", "n"]], [["create_group", "n"]]),
    "NewNodeInInvalidGroup": ([["create_array", "n/x/y"]], [["create_array", "n"]]),
    "ZarrMetadataDoubleUpdate": (
        [DESCRIBE_A, DESCRIBE_G],
        [["describe_array", "g/a", "theirs"], ["describe_group", "g", "theirs"]],
    ),
    "ZarrMetadataUpdateOfDeletedArray": ([DESCRIBE_A], [DELETE_A]),
    "ZarrMetadataUpdateOfDeletedGroup": ([DESCRIBE_G], [DELETE_G]),
    "ChunkDoubleUpdate": ([WRITE_A], [["write", "g/a", 1, 5, 9]]),
    "ChunksUpdatedInDeletedArray": ([WRITE_A], [DELETE_A]),
    "ChunksUpdatedInUpdatedArray": ([WRITE_A], [["describe_array", "g/a", "theirs"]]),
    "DeleteOfUpdatedArray": ([DELETE_A], [["describe_array", "g/a", "theirs"]]),
    "DeleteOfUpdatedGroup": ([DELETE_G], [["describe_group", "g", "theirs"]]),
    "MoveOperationCannotBeRebased": ([WRITE_A], [["move", "/g/b", "/h/c"]]),
}

HARMLESS: dict[str, tuple[list[Step], list[Step]]] = {
    "other chunks": ([WRITE_A], [["write", "g/a", 3, 8, 9]]),
    "other arrays": ([WRITE_A, DELETE_G], [["write", "h/a", 0, 8, 9]]),
    "new nodes side by side": ([["create_array", "n"]], [["create_array", "m"]]),
    "our metadata over their chunks": ([DESCRIBE_A], [["write", "g/a", 0, 8, 9]]),
    "both delete an array": ([DELETE_A], [DELETE_A]),
    "both delete a group": ([DELETE_G], [DELETE_G]),
    "our moves beside their edits": ([["move", "/g/a", "/h/c"]], [["write", "g/a", 0, 2, 9]]),
}

MIXED: dict[str, tuple[list[Step], list[Step]]] = {
    "several kinds at once": (
        [WRITE_A, ["write", "g/b", 0, 2, 7], ["create_group", "n"], ["delete", "h"]],
        [["write", "g/a", 2, 4, 9], ["write", "g/b", 0, 8, 9], ["create_group", "n"],
         ["describe_group", "h", "theirs"]],
    ),
    "metadata and chunks of both": (
        [DESCRIBE_A, WRITE_A], [["describe_array", "g/a", "theirs"], ["write", "g/a", 2, 4, 9]],
    ),
    "a group of ours that is gone": ([DESCRIBE_G, WRITE_A, ["describe_array", "g/b", 1]], [DELETE_G]),
    "we shrink what they write to": ([["resize", "g/a", 4]], [["write", "g/a", 0, 8, 9]]),
    "they shrink what we write to": ([["write", "g/a", 0, 8, 7]], [["resize", "g/a", 4]]),
    "we replace what they write to": ([DELETE_A, ["create_array", "g/a"]], [["write", "g/a", 0, 8, 9]]),
    "we delete what they replace": ([DELETE_A], [DELETE_A, ["create_array", "g/a"]]),
    "we delete above what they write to": ([DELETE_G], [["write", "g/a", 0, 8, 9]]),
}  # fmt: skip


def assert_both_do_the_same(
    official: OfficialLibrary,
    ours: list[Step],
    theirs: list[list[Step]],
    solver: Solver,
    spec_version: int = 2,
) -> dict[str, Any]:
    """The outcome, if it is the same with either library; conflicts of a kind may be in any order."""
    scenario: dict[str, Any] = {
        "spec_version": spec_version, "theirs": theirs, "ours": ours, "solver": solver
    }  # fmt: skip
    expected = official.call("run_rebase", **scenario)
    outcome = run_rebase(frazil, **scenario)
    for each in (expected, outcome):
        if each["failure"]:
            each["failure"]["conflicts"].sort(key=repr)
    assert outcome == expected
    return outcome


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("conflict", MEETINGS)
def test_every_conflict_is_found_and_solved_alike(
    official: OfficialLibrary, conflict: str, solver: Solver
) -> None:
    ours, theirs = MEETINGS[conflict]

    outcome = assert_both_do_the_same(official, ours, [theirs], solver)

    if solver == DETECTOR:
        assert conflict in {kind for kind, *_ in outcome["failure"]["conflicts"]}


@pytest.mark.parametrize(
    ("meeting", "spec_version"),
    [
        (name, version)
        for name in HARMLESS
        for version in (1, 2)
        if "moves" not in name or version == 2
    ],
)
def test_what_does_not_meet_is_rebased_alike(
    official: OfficialLibrary, meeting: str, spec_version: int
) -> None:
    ours, theirs = HARMLESS[meeting]

    outcome = assert_both_do_the_same(official, ours, [theirs], DETECTOR, spec_version)

    assert outcome["failure"] is None


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("meeting", MIXED)
def test_mixed_conflicts_are_reported_together(
    official: OfficialLibrary, meeting: str, solver: Solver
) -> None:
    ours, theirs = MIXED[meeting]

    assert_both_do_the_same(official, ours, [theirs], solver)


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_rebase_that_fails_keeps_the_commits_that_it_passed(
    official: OfficialLibrary, solver: Solver
) -> None:
    theirs: list[list[Step]] = [
        [["create_group", "one"]],
        [["write", "g/a", 1, 2, 9]],
        [["create_group", "three"]],
        [["write", "g/a", 2, 3, 9]],
    ]

    outcome = assert_both_do_the_same(official, [WRITE_A], theirs, solver)

    assert outcome["base"] == (4 if outcome["failure"] is None else 1)


@pytest.mark.parametrize("metadata", [{}, {"a": 1}, {"__icechunk": {"k": 1}}, {"__icechunk": 4}])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("tries", [0, 1, 1000])
def test_a_commit_says_how_often_it_was_rebased(
    official: OfficialLibrary, tries: int, count: int, metadata: dict[str, Any]
) -> None:
    theirs: list[list[Step]] = [[["create_group", f"n{number}"]] for number in range(count)]
    scenario: dict[str, Any] = {
        "theirs": theirs, "ours": [WRITE_A], "solver": DETECTOR, "tries": tries,
        "metadata": metadata,
    }  # fmt: skip

    outcome = commit_with_rebase(frazil, **scenario)

    assert outcome == official.call("commit_with_rebase", **scenario)


def test_a_commit_that_can_not_be_rebased_leaves_the_session_on_its_branch(
    official: OfficialLibrary,
) -> None:
    scenario: dict[str, Any] = {
        "theirs": [[WRITE_A]], "ours": [WRITE_A], "solver": DETECTOR, "tries": 5, "metadata": {}
    }  # fmt: skip

    outcome = commit_with_rebase(frazil, **scenario)

    assert outcome == {"error": ["RebaseFailedError", "rebase-failed"], "branch": "main"}
    assert outcome == official.call("commit_with_rebase", **scenario)


# Anything against anything, but for what the official library overlooks: whole groups are not
# deleted here, and nothing is made again where it was deleted.

ARRAYS = st.sampled_from(["g/a", "g/b", "h/a"])
STEPS = st.one_of(
    st.tuples(st.just("write"), ARRAYS, st.integers(0, 3), st.integers(4, 8), st.integers(2, 9)),
    st.tuples(st.just("resize"), ARRAYS, st.integers(1, 12)),
    st.tuples(st.just("describe_array"), ARRAYS, st.integers()),
    st.tuples(st.just("describe_group"), st.sampled_from(["g", "h/sub"]), st.integers()),
    st.tuples(
        st.sampled_from(["create_group", "create_array"]), st.sampled_from(["n", "g/n", "n/m"])
    ),
    st.tuples(st.just("delete"), st.sampled_from(["g/a", "h/b"])),
)


@given(
    ours=st.lists(STEPS, min_size=1, max_size=5),
    theirs=st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=1, max_size=3),
    solver=st.sampled_from(list(SOLVERS.values())),
    spec_version=st.sampled_from([1, 2]),
)
def test_both_rebase_anything_alike(
    official: OfficialLibrary,
    ours: list[Step],
    theirs: list[list[Step]],
    solver: Solver,
    spec_version: int,
) -> None:
    assert_both_do_the_same(official, ours, theirs, solver, spec_version)
