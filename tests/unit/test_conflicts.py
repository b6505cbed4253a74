"""Conflicts and solvers as values."""

import pickle

from frazil.conflicts import (
    BasicConflictSolver,
    Conflict,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    VersionSelection,
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
