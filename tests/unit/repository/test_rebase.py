import pytest

from frazil.errors import FormatError, RebaseFailedError, SessionStateError
from frazil.format.header import Dialect
from frazil.ops import SessionMode
from frazil.repository.conflicts import (
    BasicConflictSolver,
    Conflict,
    ConflictDetector,
    ConflictType,
    VersionSelection,
)
from frazil.repository.context import RepositoryContext, SessionState
from frazil.repository.forks import fork
from frazil.repository.moves import move_node
from frazil.repository.rebase import rebase
from tests.session_states import (
    MAIN,
    WITH_LOGS,
    WITHOUT_LOGS,
    commit,
    commit_change,
    create_context,
    delete,
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


# Changes on top of theirs


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_chunks_of_both_are_there_in_every_generation(dialect: Dialect) -> None:
    context = create_context(dialect)
    plant(context)
    state = open_session(context)
    write_chunks(state, "/g/a", 1, 2, data=b"o")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 4, 5, data=b"t"))

    rebase(state, DETECTOR)

    assert read_chunks(state, "/g/a") == "0oo0tt00"
    commit(state)
    assert read_chunks(latest(context), "/g/a") == "0oo0tt00"


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_metadata_of_both_sides_meets_in_every_generation(dialect: Dialect) -> None:
    context = create_context(dialect)
    plant(context)
    state = open_session(context)
    set_group(state, "/g", said="ours")
    id = commit_change(context, lambda s: set_group(s, "/g", said="theirs"))

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, DETECTOR)

    assert failed.value.snapshot == str(id)
    assert failed.value.conflicts == [Conflict(ConflictType.ZarrMetadataDoubleUpdate, "/g")]


@pytest.mark.parametrize("dialect", WITHOUT_LOGS, ids=lambda dialect: dialect.value)
def test_generations_without_logs_say_that_they_can_not_be_rebased(dialect: Dialect) -> None:
    context = create_context(dialect)
    plant(context)
    state = open_session(context)
    set_group(state, "/n")
    rebase(state, DETECTOR)
    commit_change(context, lambda s: set_group(s, "/m"))

    with pytest.raises(FormatError, match=r"rebase.*generation") as refused:
        rebase(state, DETECTOR)

    assert refused.value.kind == "unsupported-spec-version"


def test_our_metadata_goes_over_their_chunks(context: RepositoryContext) -> None:
    state = open_session(context)
    set_array(state, "/g/a", 8, said="ours")
    write_chunks(state, "/g/a", 0, data=b"o")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 4, 5, data=b"t"))

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(context), "/g/a") == "o000tt00"
    assert b"ours" in latest(context).view.get_node("/g/a").user_data


def test_our_smaller_array_loses_their_chunks_outside(context: RepositoryContext) -> None:
    state = open_session(context)
    set_array(state, "/g/a", 3)
    commit_change(context, lambda s: write_chunks(s, "/g/a", *range(8), data=b"t"))

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(context), "/g/a") == "ttt....."


def test_their_chunks_stay_where_we_give_ours_up(context: RepositoryContext) -> None:
    state = open_session(context)
    write_chunks(state, "/g/a", 0, 1, 2, data=b"o")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 2, 3, data=b"t"))

    rebase(state, BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs))
    commit(state)

    assert read_chunks(latest(context), "/g/a") == "oott0000"


def test_deleted_chunks_are_given_up_as_well(context: RepositoryContext) -> None:
    state = open_session(context)
    state.changes.edit_chunks(state.view.get_node("/g/a")).set((2,), None)
    commit_change(context, lambda s: write_chunks(s, "/g/a", 2, data=b"t"))

    rebase(state, BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs))

    assert read_chunks(state, "/g/a") == "00t00000"
    assert state.changes


def test_a_deleted_group_takes_with_it_what_they_put_there(context: RepositoryContext) -> None:
    state = open_session(context)
    delete(state, "/g")
    commit_change(
        context,
        lambda s: set_group(s, "/g/sub/new"),
        lambda s: set_array(s, "/g/sub/new/array", 2),
    )

    rebase(state, SOLVER)
    commit(state)

    assert paths_of(latest(context)) == ["/", "/h"]


def test_what_they_put_in_the_place_of_what_we_deleted_stays(context: RepositoryContext) -> None:
    state = open_session(context)
    delete(state, "/g/a")
    commit_change(
        context, lambda s: delete(s, "/g/a"), lambda s: set_array(s, "/g/a", 8, said="theirs")
    )

    rebase(state, DETECTOR)
    commit(state)

    assert b"theirs" in latest(context).view.get_node("/g/a").user_data


def test_our_replacement_of_what_they_changed_stays(context: RepositoryContext) -> None:
    state = open_session(context)
    delete(state, "/g/a")
    set_array(state, "/g/a", 8)
    write_chunks(state, "/g/a", 7, data=b"o")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 0, data=b"t"))

    rebase(state, SOLVER)
    commit(state)

    assert read_chunks(latest(context), "/g/a") == ".......o"


def test_our_moves_take_their_changes_along(context: RepositoryContext) -> None:
    state = open_session(context, SessionMode.rearrange)
    move_node(state, "/g", "/h/g")
    commit_change(
        context,
        lambda s: write_chunks(s, "/g/a", 0, data=b"t"),
        lambda s: set_group(s, "/g", said="theirs"),
    )

    rebase(state, DETECTOR)
    commit(state)

    assert read_chunks(latest(context), "/h/g/a") == "t0000000"
    assert b"theirs" in latest(context).view.get_node("/h/g").user_data
    assert "/g" not in paths_of(latest(context))


# One commit after the other


def test_a_rebase_passes_what_it_can_and_goes_on_from_there(context: RepositoryContext) -> None:
    state = open_session(context)
    write_chunks(state, "/g/a", 1, data=b"o")
    passed = commit_change(context, lambda s: set_group(s, "/one"))
    met = commit_change(context, lambda s: write_chunks(s, "/g/a", 1, data=b"t"))
    tip = commit_change(context, lambda s: set_group(s, "/three"))

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, DETECTOR)

    assert failed.value.snapshot == str(met)
    assert state.view.snapshot_id == passed
    assert read_chunks(state, "/g/a") == "0o000000"
    rebase(state, SOLVER)
    assert state.view.snapshot_id == tip


def test_a_rebase_that_fails_at_once_changes_nothing(context: RepositoryContext) -> None:
    state = open_session(context)
    write_chunks(state, "/g/a", 1, data=b"o")
    base, view = state.view.snapshot_id, state.view
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1, data=b"t"))

    with pytest.raises(RebaseFailedError):
        rebase(state, DETECTOR)

    assert state.view is view
    assert (state.view.snapshot_id, state.branch) == (base, MAIN)


def test_nothing_happens_where_the_branch_is_as_it_was(context: RepositoryContext) -> None:
    state = open_session(context)
    view = state.view

    rebase(state, DETECTOR)

    assert state.view is view


def test_nothing_happens_where_the_branch_is_gone(context: RepositoryContext) -> None:
    protocol = context.protocol
    protocol.create_branch("dev", protocol.lookup_branch(MAIN))
    state = open_session(context, branch="dev")
    protocol.delete_branch("dev")
    view = state.view

    rebase(state, DETECTOR)

    assert state.view is view


def test_only_what_can_be_committed_can_be_rebased(context: RepositoryContext) -> None:
    read_only = SessionState(context, latest(context).view.snapshot)

    for state in (read_only, fork(open_session(context))):
        with pytest.raises(SessionStateError) as refused:
            rebase(state, DETECTOR)
        assert refused.value.kind == "commit-not-allowed"
