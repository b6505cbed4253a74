"""Doing what one commit did once more, on top of another branch."""

import pytest

from frazil.engine.cherry_picking import cherry_pick
from frazil.engine.diffing import diff
from frazil.engine.state import SessionState, Surroundings
from frazil.errors import (
    FormatError,
    InvalidInputError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.maintenance.expiring import expire_snapshots
from frazil.maintenance.expiry import ExpiryPolicy
from frazil.protocols.deleting import delete_files
from tests.engine_branches import (
    DETECTOR,
    SIDE,
    change,
    deletes,
    describes,
    fork_history,
    pick,
    writes,
)
from tests.engine_sessions import (
    MAIN,
    WITH_LOGS,
    WITHOUT_LOGS,
    create_surroundings,
    paths_of,
    read_chunks,
    set_array,
)


@pytest.fixture
def surroundings() -> Surroundings:
    """A repository with a small tree, and a branch beside `main` that starts there."""
    return fork_history(create_surroundings())


# What does not meet


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_the_changes_of_a_commit_are_made_again_in_every_generation(dialect: Dialect) -> None:
    surroundings = fork_history(create_surroundings(dialect))
    change(surroundings, SIDE, writes(0, data=b"x"), describes("/not-picked"))
    id = change(
        surroundings,
        SIDE,
        writes(1, 2),
        describes("/h", said="something"),
        lambda s: set_array(s, "/made", 8),
        writes(3, 4, path="/made"),
        deletes("/g/sub"),
    )
    change(surroundings, MAIN, writes(5, data=b"m"), describes("/main"))

    state = pick(surroundings, id)

    assert paths_of(state) == ["/", "/g", "/g/a", "/g/b", "/h", "/made", "/main"]
    assert read_chunks(state, "/g/a") == "0ss00m00"
    assert read_chunks(state, "/made") == "...ss..."
    assert b"something" in state.view.get_node("/h").user_data


def test_deleted_chunks_are_deleted_again(surroundings: Surroundings) -> None:
    def thin_out(state: SessionState) -> None:
        for index in (1, 3):
            state.changes.edit_chunks(state.view.get_node("/g/a")).set((index,), None)

    id = change(surroundings, SIDE, thin_out)
    change(surroundings, MAIN, writes(0, data=b"m"))

    assert read_chunks(pick(surroundings, id), "/g/a") == "m.0.0000"


def test_the_new_commit_tells_where_it_came_from(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, writes(1, 2))
    tip = change(surroundings, MAIN, writes(5))

    picked = cherry_pick(surroundings, id, MAIN, None, DETECTOR)

    found = surroundings.protocol.lookup_snapshot(picked)
    assert (found.parent_id, found.message) == (tip, "a change of side")
    assert dict(found.metadata) == {"__frazil": {"cherry_picked_from": str(id)}}
    assert diff(surroundings.protocol, tip, picked).updated_chunks == {"/g/a": [[1], [2]]}


def test_a_message_can_be_given(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, writes(1))

    picked = cherry_pick(surroundings, id, MAIN, "in other words", DETECTOR)

    assert surroundings.protocol.lookup_snapshot(picked).message == "in other words"


def test_nodes_keep_their_ids_so_that_later_commits_can_be_picked(
    surroundings: Surroundings,
) -> None:
    made = change(surroundings, SIDE, lambda s: set_array(s, "/n", 8), writes(0, path="/n"))
    written = change(surroundings, SIDE, writes(1, path="/n"))

    pick(surroundings, made)

    assert read_chunks(pick(surroundings, written), "/n") == "ss......"


def test_a_node_in_place_of_another_is_one_there_as_well(surroundings: Surroundings) -> None:
    id = change(surroundings, SIDE, deletes("/g/a"), lambda s: set_array(s, "/g/a", 4), writes(1))

    assert read_chunks(pick(surroundings, id), "/g/a", 4) == ".s.."


def test_deletions_of_what_is_not_there_are_left_out(surroundings: Surroundings) -> None:
    change(surroundings, SIDE, describes("/only-here"))
    id = change(surroundings, SIDE, deletes("/only-here"), deletes("/h"))

    state = pick(surroundings, id)

    assert "/h" not in paths_of(state)
    log = surroundings.assets.read_transaction_log(state.view.snapshot_id)
    assert len(log.deleted_groups) == 1


def test_a_commit_of_which_nothing_is_left_is_not_made(surroundings: Surroundings) -> None:
    change(surroundings, SIDE, describes("/only-here"))
    id = change(surroundings, SIDE, deletes("/only-here"))

    with pytest.raises(SessionStateError) as refused:
        pick(surroundings, id)

    assert refused.value.kind == "no-changes-to-commit"


# What can't be known


@pytest.mark.parametrize("dialect", WITHOUT_LOGS, ids=lambda dialect: dialect.value)
def test_generations_without_logs_refuse(dialect: Dialect) -> None:
    surroundings = fork_history(create_surroundings(dialect))
    id = change(surroundings, SIDE, writes(1))

    with pytest.raises(FormatError, match="cherry-pick"):
        pick(surroundings, id)


def test_the_first_snapshot_and_unknown_ones_are_refused(surroundings: Surroundings) -> None:
    tip = surroundings.protocol.lookup_branch(MAIN)
    *_, first = surroundings.protocol.ancestry(tip)

    with pytest.raises(InvalidInputError, match="first snapshot"):
        pick(surroundings, first.id)
    with pytest.raises(SnapshotNotFoundError):
        pick(surroundings, SnapshotId(b"never there!"))


@pytest.mark.parametrize("dialect", [Dialect.V1, Dialect.V2], ids=lambda dialect: dialect.value)
def test_a_commit_whose_parent_is_gone_is_refused(dialect: Dialect) -> None:
    surroundings = fork_history(create_surroundings(dialect))
    change(surroundings, SIDE, describes("/n"))
    id = change(surroundings, SIDE, writes(1))
    before = surroundings.protocol.lookup_snapshot(id)
    expire_snapshots(surroundings.protocol, ExpiryPolicy(before.flushed_at))
    assert before.parent_id is not None
    key = surroundings.assets.layout.snapshot_key(before.parent_id)
    delete_files(surroundings.assets.storage, [key])
    surroundings.assets.drop_snapshots([before.parent_id])

    with pytest.raises(SessionStateError, match="has expired"):
        pick(surroundings, id)


def test_a_commit_whose_parent_is_expired_but_not_collected_is_picked(
    surroundings: Surroundings,
) -> None:
    change(surroundings, SIDE, describes("/n"))
    id = change(surroundings, SIDE, writes(1))
    limit = surroundings.protocol.lookup_snapshot(id).flushed_at
    expire_snapshots(surroundings.protocol, ExpiryPolicy(limit))

    state = pick(surroundings, id)

    assert "/n" not in paths_of(state)
    assert read_chunks(state, "/g/a") == "0s000000"
