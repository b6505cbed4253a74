"""Doing what one commit did once more, on top of another branch."""

import pytest

from frazil.errors import FormatError, InvalidInputError, SessionStateError, SnapshotNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.maintenance.expire import ExpiryPolicy, expire_snapshots
from frazil.protocols.v1_protocol import delete_files
from frazil.repository.context import RepositoryContext, SessionState
from frazil.repository.diff import diff
from frazil.repository.history_edits import cherry_pick
from tests.session_states import (
    DETECTOR,
    MAIN,
    SIDE,
    WITH_LOGS,
    WITHOUT_LOGS,
    change,
    create_context,
    deletes,
    describes,
    fork_history,
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


# What does not meet


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_the_changes_of_a_commit_are_made_again_in_every_generation(dialect: Dialect) -> None:
    context = fork_history(create_context(dialect))
    change(context, SIDE, writes(0, data=b"x"), describes("/not-picked"))
    id = change(
        context,
        SIDE,
        writes(1, 2),
        describes("/h", said="something"),
        lambda s: set_array(s, "/made", 8),
        writes(3, 4, path="/made"),
        deletes("/g/sub"),
    )
    change(context, MAIN, writes(5, data=b"m"), describes("/main"))

    state = pick(context, id)

    assert paths_of(state) == ["/", "/g", "/g/a", "/g/b", "/h", "/made", "/main"]
    assert read_chunks(state, "/g/a") == "0ss00m00"
    assert read_chunks(state, "/made") == "...ss..."
    assert b"something" in state.view.get_node("/h").user_data


def test_deleted_chunks_are_deleted_again(context: RepositoryContext) -> None:
    def thin_out(state: SessionState) -> None:
        for index in (1, 3):
            state.changes.edit_chunks(state.view.get_node("/g/a")).set((index,), None)

    id = change(context, SIDE, thin_out)
    change(context, MAIN, writes(0, data=b"m"))

    assert read_chunks(pick(context, id), "/g/a") == "m.0.0000"


def test_the_new_commit_reports_where_it_came_from(context: RepositoryContext) -> None:
    id = change(context, SIDE, writes(1, 2))
    tip = change(context, MAIN, writes(5))

    picked = cherry_pick(context, id, MAIN, None, DETECTOR)

    found = context.protocol.lookup_snapshot(picked)
    assert (found.parent_id, found.message) == (tip, "a change of side")
    assert dict(found.metadata) == {"__frazil": {"cherry_picked_from": str(id)}}
    assert diff(context.protocol, tip, picked).updated_chunks == {"/g/a": [[1], [2]]}


def test_a_message_can_be_given(context: RepositoryContext) -> None:
    id = change(context, SIDE, writes(1))

    picked = cherry_pick(context, id, MAIN, "in other words", DETECTOR)

    assert context.protocol.lookup_snapshot(picked).message == "in other words"


def test_nodes_keep_their_ids_so_that_later_commits_can_be_picked(
    context: RepositoryContext,
) -> None:
    made = change(context, SIDE, lambda s: set_array(s, "/n", 8), writes(0, path="/n"))
    written = change(context, SIDE, writes(1, path="/n"))

    pick(context, made)

    assert read_chunks(pick(context, written), "/n") == "ss......"


def test_a_node_in_place_of_another_is_one_there_as_well(context: RepositoryContext) -> None:
    id = change(context, SIDE, deletes("/g/a"), lambda s: set_array(s, "/g/a", 4), writes(1))

    assert read_chunks(pick(context, id), "/g/a", 4) == ".s.."


def test_deletions_of_what_is_not_there_are_left_out(context: RepositoryContext) -> None:
    change(context, SIDE, describes("/only-here"))
    id = change(context, SIDE, deletes("/only-here"), deletes("/h"))

    state = pick(context, id)

    assert "/h" not in paths_of(state)
    log = context.assets.read_transaction_log(state.view.snapshot_id)
    assert len(log.deleted_groups) == 1


def test_a_commit_of_which_nothing_is_left_is_not_made(context: RepositoryContext) -> None:
    change(context, SIDE, describes("/only-here"))
    id = change(context, SIDE, deletes("/only-here"))

    with pytest.raises(SessionStateError) as refused:
        pick(context, id)

    assert refused.value.kind == "no-changes-to-commit"


# What can't be known


@pytest.mark.parametrize("dialect", WITHOUT_LOGS, ids=lambda dialect: dialect.value)
def test_generations_without_logs_refuse(dialect: Dialect) -> None:
    context = fork_history(create_context(dialect))
    id = change(context, SIDE, writes(1))

    with pytest.raises(FormatError, match="cherry-pick"):
        pick(context, id)


def test_the_first_snapshot_and_unknown_ones_are_refused(context: RepositoryContext) -> None:
    tip = context.protocol.lookup_branch(MAIN)
    *_, first = context.protocol.ancestry(tip)

    with pytest.raises(InvalidInputError, match="first snapshot"):
        pick(context, first.id)
    with pytest.raises(SnapshotNotFoundError):
        pick(context, SnapshotId(b"never there!"))


@pytest.mark.parametrize("dialect", [Dialect.V1, Dialect.V2], ids=lambda dialect: dialect.value)
def test_a_commit_whose_parent_is_gone_is_refused(dialect: Dialect) -> None:
    context = fork_history(create_context(dialect))
    change(context, SIDE, describes("/n"))
    id = change(context, SIDE, writes(1))
    before = context.protocol.lookup_snapshot(id)
    expire_snapshots(context.protocol, ExpiryPolicy(before.flushed_at))
    assert before.parent_id is not None
    key = context.assets.layout.snapshot_key(before.parent_id)
    delete_files(context.assets.storage, [key])
    context.assets.drop_snapshots([before.parent_id])

    with pytest.raises(SessionStateError, match="has expired"):
        pick(context, id)


def test_a_commit_whose_parent_is_expired_but_not_collected_is_picked(
    context: RepositoryContext,
) -> None:
    change(context, SIDE, describes("/n"))
    id = change(context, SIDE, writes(1))
    limit = context.protocol.lookup_snapshot(id).flushed_at
    expire_snapshots(context.protocol, ExpiryPolicy(limit))

    state = pick(context, id)

    assert "/n" not in paths_of(state)
    assert read_chunks(state, "/g/a") == "0s000000"
