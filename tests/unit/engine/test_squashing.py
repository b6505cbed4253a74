"""Making one commit of several."""

import pytest

from frazil.conflicts import Conflict, ConflictDetector, ConflictType
from frazil.engine.diffing import diff
from frazil.engine.moving import move_node
from frazil.engine.rebasing import rebase
from frazil.engine.squashing import squash
from frazil.engine.state import Surroundings
from frazil.errors import InvalidInputError, RebaseFailedError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.maintenance.expiring import expire_snapshots
from frazil.maintenance.expiry import ExpiryPolicy
from frazil.protocols.deleting import delete_files
from frazil.protocols.interface import MAIN
from frazil.states import SessionMode
from tests.engine_sessions import (
    WITH_LOGS,
    commit,
    commit_change,
    create_surroundings,
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


@pytest.fixture
def surroundings() -> Surroundings:
    """A repository with a small tree."""
    created = create_surroundings()
    plant(created)
    return created


def messages(surroundings: Surroundings) -> list[str]:
    protocol = surroundings.protocol
    return [info.message for info in protocol.ancestry(protocol.lookup_branch(MAIN))]


def files(surroundings: Surroundings) -> set[str]:
    return {info.key for info in surroundings.assets.storage.list()}


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_a_squashed_branch_has_the_same_contents_and_one_commit_in_every_generation(
    dialect: Dialect,
) -> None:
    surroundings = create_surroundings(dialect)
    since = plant(surroundings)
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 1, 2, data=b"1"))
    commit_change(surroundings, lambda s: set_group(s, "/new"), lambda s: delete(s, "/h"))

    id = squash(surroundings, MAIN, since, "both", {"n": 2})

    found = surroundings.protocol.lookup_snapshot(id)
    assert surroundings.protocol.lookup_branch(MAIN) == id
    assert (found.parent_id, found.message, dict(found.metadata)) == (since, "both", {"n": 2})
    assert messages(surroundings) == ["both", "base", "Repository initialized"]
    state = latest(surroundings)
    assert paths_of(state) == ["/", "/g", "/g/a", "/g/b", "/g/sub", "/new"]
    assert read_chunks(state, "/g/a") == "01100000"
    found_diff = diff(surroundings.protocol, since, id)
    assert (found_diff.new_groups, found_diff.deleted_groups) == ({"/new"}, {"/h"})
    assert found_diff.updated_chunks == {"/g/a": [[1], [2]]}
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 7, data=b"7"))
    assert read_chunks(latest(surroundings), "/g/a") == "01100007"


def test_nothing_but_a_snapshot_a_log_and_the_repo_info_is_written(
    surroundings: Surroundings,
) -> None:
    since = surroundings.protocol.lookup_branch(MAIN)
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 0, data=b"1"))
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 0, data=b"2"))
    before = files(surroundings)

    id = squash(surroundings, MAIN, since, None, {})

    new = {key for key in files(surroundings) - before if not key.startswith("overwritten/")}
    assert new == {f"snapshots/{id}", f"transactions/{id}"}


def test_the_message_lists_those_of_the_commits(surroundings: Surroundings) -> None:
    since = surroundings.protocol.lookup_branch(MAIN)
    for name in ("/one", "/two"):
        state = open_session(surroundings)
        set_group(state, name)
        commit(state, f"made {name}")

    squash(surroundings, MAIN, since, None, {})

    assert messages(surroundings)[0] == "Squashed 2 commits:\n\n- made /one\n- made /two"


def test_a_single_commit_keeps_its_message_or_gets_another(surroundings: Surroundings) -> None:
    since = commit_change(surroundings, lambda s: set_group(s, "/one"))
    state = open_session(surroundings)
    set_group(state, "/two")
    commit(state, "two")

    squash(surroundings, MAIN, since, None, {})
    kept = messages(surroundings)[0]
    squash(surroundings, MAIN, since, "a better word", {})

    assert kept == "two"
    assert messages(surroundings)[0] == "a better word"
    assert len(messages(surroundings)) == 4


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_what_was_made_and_deleted_leaves_no_trace_in_the_log(dialect: Dialect) -> None:
    surroundings = create_surroundings(dialect)
    since = plant(surroundings)
    commit_change(
        surroundings,
        lambda s: set_array(s, "/gone", 4),
        lambda s: write_chunks(s, "/gone", 1),
        lambda s: set_array(s, "/stays", 4),
    )
    commit_change(surroundings, lambda s: set_array(s, "/stays", 4, said="later"))
    commit_change(surroundings, lambda s: set_group(s, "/g", said="something"))
    commit_change(surroundings, lambda s: delete(s, "/gone"), lambda s: delete(s, "/g/a"))

    id = squash(surroundings, MAIN, since, None, {})

    log = surroundings.assets.read_transaction_log(id)
    nodes = surroundings.assets.read_snapshot(id).nodes
    former = surroundings.assets.read_snapshot(since).nodes
    assert log.new_arrays == {nodes["/stays"].id}
    assert log.deleted_arrays == {former["/g/a"].id}
    assert (log.updated_arrays, log.updated_chunks) == (frozenset(), {})
    updated = log.updated_groups | log.updated_attributes - log.new_arrays
    assert updated == {nodes["/g"].id}


def test_moves_are_told_from_where_a_node_was_to_where_it_is(surroundings: Surroundings) -> None:
    since = surroundings.protocol.lookup_branch(MAIN)
    commit_change(surroundings, lambda s: set_group(s, "/made"))
    for source, target in (("/g/a", "/h/a"), ("/h/a", "/z"), ("/made", "/h/made")):
        state = open_session(surroundings, SessionMode.rearrange)
        move_node(state, source, target)
        commit(state)

    id = squash(surroundings, MAIN, since, None, {})

    found = diff(surroundings.protocol, since, id)
    assert found.moved_nodes == [("/g/a", "/z")]
    assert found.new_groups == {"/h/made"}


def test_chunks_of_an_array_that_got_other_axes_are_not_told(surroundings: Surroundings) -> None:
    since = surroundings.protocol.lookup_branch(MAIN)
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 1))
    commit_change(surroundings, lambda s: set_array(s, "/g/a", 2, 2))

    id = squash(surroundings, MAIN, since, None, {})

    log = surroundings.assets.read_transaction_log(id)
    assert log.updated_chunks == {}
    assert len(log.updated_arrays) == 1


def test_a_session_is_rebased_on_a_squashed_commit_as_on_all_of_them(
    surroundings: Surroundings,
) -> None:
    since = surroundings.protocol.lookup_branch(MAIN)
    state = open_session(surroundings)
    write_chunks(state, "/g/a", 1, 5, data=b"o")
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 1))
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 2))

    id = squash(surroundings, MAIN, since, None, {})

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, ConflictDetector())
    assert failed.value.snapshot == str(id)
    assert failed.value.conflicts == [Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[1]])]


def test_a_snapshot_that_is_no_ancestor_is_refused(surroundings: Surroundings) -> None:
    tip = surroundings.protocol.lookup_branch(MAIN)
    surroundings.protocol.create_branch("side", tip)
    state = open_session(surroundings, branch="side")
    set_group(state, "/side")
    aside = commit(state)
    before = files(surroundings)

    for since in (aside, tip):
        with pytest.raises(InvalidInputError, match="ancestry doesn't include"):
            squash(surroundings, MAIN, since, None, {})
    with pytest.raises(InvalidInputError):
        squash(surroundings, MAIN, SnapshotId(b"never there!"), None, {})

    assert files(surroundings) == before


def expire_all_but_the_last(surroundings: Surroundings) -> None:
    protocol = surroundings.protocol
    tip = protocol.lookup_snapshot(protocol.lookup_branch(MAIN))
    expire_snapshots(protocol, ExpiryPolicy(tip.flushed_at))


def test_logs_of_expired_commits_become_part_of_the_log(surroundings: Surroundings) -> None:
    first = list(surroundings.protocol.ancestry(surroundings.protocol.lookup_branch(MAIN)))[-1].id
    commit_change(surroundings, lambda s: set_array(s, "/n", 4), lambda s: write_chunks(s, "/n", 1))
    commit_change(surroundings, lambda s: write_chunks(s, "/n", 2))
    expire_all_but_the_last(surroundings)

    id = squash(surroundings, MAIN, first, None, {})

    assert surroundings.protocol.lookup_snapshot(id).pruned_ancestor_tx_logs == ()
    found = diff(surroundings.protocol, first, id)
    assert found.updated_chunks["/n"] == [[1], [2]]
    assert "/n" in found.new_arrays


def test_logs_that_are_gone_stay_known_to_be_gone(surroundings: Surroundings) -> None:
    planted = surroundings.protocol.lookup_branch(MAIN)
    first = list(surroundings.protocol.ancestry(planted))[-1].id
    commit_change(surroundings, lambda s: write_chunks(s, "/g/a", 1))
    expire_all_but_the_last(surroundings)
    key = surroundings.assets.layout.find_transaction_log_key(planted)
    assert key is not None
    delete_files(surroundings.assets.storage, [key])

    id = squash(surroundings, MAIN, first, None, {})

    assert surroundings.protocol.lookup_snapshot(id).pruned_ancestor_tx_logs == (planted,)
    assert surroundings.assets.read_transaction_log(id).new_arrays
