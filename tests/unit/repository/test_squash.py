"""Making one commit of several."""

import pytest

from frazil.errors import InvalidInputError, RebaseFailedError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.maintenance.expire import ExpiryPolicy, expire_snapshots
from frazil.ops import SessionMode
from frazil.protocols.protocol import MAIN
from frazil.protocols.v1_protocol import delete_files
from frazil.repository.conflicts import Conflict, ConflictDetector, ConflictType
from frazil.repository.context import RepositoryContext
from frazil.repository.diff import diff
from frazil.repository.history_edits import squash
from frazil.repository.moves import move_node
from frazil.repository.rebase import rebase
from tests.session_states import (
    WITH_LOGS,
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


@pytest.fixture
def context() -> RepositoryContext:
    """A repository with a small tree."""
    created = create_context()
    plant(created)
    return created


def messages(context: RepositoryContext) -> list[str]:
    protocol = context.protocol
    return [info.message for info in protocol.ancestry(protocol.lookup_branch(MAIN))]


def files(context: RepositoryContext) -> set[str]:
    return {info.key for info in context.assets.storage.list()}


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_a_squashed_branch_has_the_same_contents_and_one_commit_in_every_generation(
    dialect: Dialect,
) -> None:
    context = create_context(dialect)
    since = plant(context)
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1, 2, data=b"1"))
    commit_change(context, lambda s: set_group(s, "/new"), lambda s: delete(s, "/h"))

    id = squash(context, MAIN, since, "both", {"n": 2})

    found = context.protocol.lookup_snapshot(id)
    assert context.protocol.lookup_branch(MAIN) == id
    assert (found.parent_id, found.message, dict(found.metadata)) == (since, "both", {"n": 2})
    assert messages(context) == ["both", "base", "Repository initialized"]
    state = latest(context)
    assert paths_of(state) == ["/", "/g", "/g/a", "/g/b", "/g/sub", "/new"]
    assert read_chunks(state, "/g/a") == "01100000"
    found_diff = diff(context.protocol, since, id)
    assert (found_diff.new_groups, found_diff.deleted_groups) == ({"/new"}, {"/h"})
    assert found_diff.updated_chunks == {"/g/a": [[1], [2]]}
    commit_change(context, lambda s: write_chunks(s, "/g/a", 7, data=b"7"))
    assert read_chunks(latest(context), "/g/a") == "01100007"


def test_nothing_but_a_snapshot_a_log_and_the_repo_info_is_written(
    context: RepositoryContext,
) -> None:
    since = context.protocol.lookup_branch(MAIN)
    commit_change(context, lambda s: write_chunks(s, "/g/a", 0, data=b"1"))
    commit_change(context, lambda s: write_chunks(s, "/g/a", 0, data=b"2"))
    before = files(context)

    id = squash(context, MAIN, since, None, {})

    new = {key for key in files(context) - before if not key.startswith("overwritten/")}
    assert new == {f"snapshots/{id}", f"transactions/{id}"}


def test_the_message_lists_those_of_the_commits(context: RepositoryContext) -> None:
    since = context.protocol.lookup_branch(MAIN)
    for name in ("/one", "/two"):
        state = open_session(context)
        set_group(state, name)
        commit(state, f"made {name}")

    squash(context, MAIN, since, None, {})

    assert messages(context)[0] == "Squashed 2 commits:\n\n- made /one\n- made /two"


def test_a_single_commit_keeps_its_message_or_gets_another(context: RepositoryContext) -> None:
    since = commit_change(context, lambda s: set_group(s, "/one"))
    state = open_session(context)
    set_group(state, "/two")
    commit(state, "two")

    squash(context, MAIN, since, None, {})
    kept = messages(context)[0]
    squash(context, MAIN, since, "a better word", {})

    assert kept == "two"
    assert messages(context)[0] == "a better word"
    assert len(messages(context)) == 4


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_what_was_made_and_deleted_leaves_no_trace_in_the_log(dialect: Dialect) -> None:
    context = create_context(dialect)
    since = plant(context)
    commit_change(
        context,
        lambda s: set_array(s, "/gone", 4),
        lambda s: write_chunks(s, "/gone", 1),
        lambda s: set_array(s, "/stays", 4),
    )
    commit_change(context, lambda s: set_array(s, "/stays", 4, said="later"))
    commit_change(context, lambda s: set_group(s, "/g", said="something"))
    commit_change(context, lambda s: delete(s, "/gone"), lambda s: delete(s, "/g/a"))

    id = squash(context, MAIN, since, None, {})

    log = context.assets.read_transaction_log(id)
    nodes = context.assets.read_snapshot(id).nodes
    former = context.assets.read_snapshot(since).nodes
    assert log.new_arrays == {nodes["/stays"].id}
    assert log.deleted_arrays == {former["/g/a"].id}
    assert (log.updated_arrays, log.updated_chunks) == (frozenset(), {})
    updated = log.updated_groups | log.updated_attributes - log.new_arrays
    assert updated == {nodes["/g"].id}


def test_moves_are_reported_from_where_a_node_was_to_where_it_is(
    context: RepositoryContext,
) -> None:
    since = context.protocol.lookup_branch(MAIN)
    commit_change(context, lambda s: set_group(s, "/made"))
    for source, target in (("/g/a", "/h/a"), ("/h/a", "/z"), ("/made", "/h/made")):
        state = open_session(context, SessionMode.rearrange)
        move_node(state, source, target)
        commit(state)

    id = squash(context, MAIN, since, None, {})

    found = diff(context.protocol, since, id)
    assert found.moved_nodes == [("/g/a", "/z")]
    assert found.new_groups == {"/h/made"}


def test_chunks_of_an_array_that_got_other_axes_are_not_told(context: RepositoryContext) -> None:
    since = context.protocol.lookup_branch(MAIN)
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1))
    commit_change(context, lambda s: set_array(s, "/g/a", 2, 2))

    id = squash(context, MAIN, since, None, {})

    log = context.assets.read_transaction_log(id)
    assert log.updated_chunks == {}
    assert len(log.updated_arrays) == 1


def test_a_session_is_rebased_on_a_squashed_commit_as_on_all_of_them(
    context: RepositoryContext,
) -> None:
    since = context.protocol.lookup_branch(MAIN)
    state = open_session(context)
    write_chunks(state, "/g/a", 1, 5, data=b"o")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1))
    commit_change(context, lambda s: write_chunks(s, "/g/a", 2))

    id = squash(context, MAIN, since, None, {})

    with pytest.raises(RebaseFailedError) as failed:
        rebase(state, ConflictDetector())
    assert failed.value.snapshot == str(id)
    assert failed.value.conflicts == [Conflict(ConflictType.ChunkDoubleUpdate, "/g/a", [[1]])]


def test_a_snapshot_that_is_no_ancestor_is_refused(context: RepositoryContext) -> None:
    tip = context.protocol.lookup_branch(MAIN)
    context.protocol.create_branch("side", tip)
    state = open_session(context, branch="side")
    set_group(state, "/side")
    aside = commit(state)
    before = files(context)

    for since in (aside, tip):
        with pytest.raises(InvalidInputError, match="ancestry doesn't include"):
            squash(context, MAIN, since, None, {})
    with pytest.raises(InvalidInputError):
        squash(context, MAIN, SnapshotId(b"never there!"), None, {})

    assert files(context) == before


def expire_all_but_the_last(context: RepositoryContext) -> None:
    protocol = context.protocol
    tip = protocol.lookup_snapshot(protocol.lookup_branch(MAIN))
    expire_snapshots(protocol, ExpiryPolicy(tip.flushed_at))


def test_logs_of_expired_commits_become_part_of_the_log(context: RepositoryContext) -> None:
    first = list(context.protocol.ancestry(context.protocol.lookup_branch(MAIN)))[-1].id
    commit_change(context, lambda s: set_array(s, "/n", 4), lambda s: write_chunks(s, "/n", 1))
    commit_change(context, lambda s: write_chunks(s, "/n", 2))
    expire_all_but_the_last(context)

    id = squash(context, MAIN, first, None, {})

    assert context.protocol.lookup_snapshot(id).pruned_ancestor_tx_logs == ()
    found = diff(context.protocol, first, id)
    assert found.updated_chunks["/n"] == [[1], [2]]
    assert "/n" in found.new_arrays


def test_logs_that_are_gone_stay_known_to_be_gone(context: RepositoryContext) -> None:
    planted = context.protocol.lookup_branch(MAIN)
    first = list(context.protocol.ancestry(planted))[-1].id
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1))
    expire_all_but_the_last(context)
    key = context.assets.layout.find_transaction_log_key(planted)
    assert key is not None
    delete_files(context.assets.storage, [key])

    id = squash(context, MAIN, first, None, {})

    assert context.protocol.lookup_snapshot(id).pruned_ancestor_tx_logs == (planted,)
    assert context.assets.read_transaction_log(id).new_arrays
