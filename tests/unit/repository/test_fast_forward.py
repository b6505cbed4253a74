"""Moving a branch on to what another one has built on it."""

import pytest

from frazil.errors import ConflictError, RefNotFoundError
from frazil.format.header import Dialect
from frazil.maintenance.expire import ExpiryPolicy, expire_snapshots
from frazil.repository.context import RepositoryContext
from frazil.repository.history_edits import fast_forward
from tests.session_states import MAIN, SIDE, change, create_context, describes, fork_history


@pytest.fixture
def context() -> RepositoryContext:
    """A repository with a small tree, and a branch beside `main` that starts there."""
    return fork_history(create_context())


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_a_branch_moves_to_what_builds_on_it_in_every_generation(dialect: Dialect) -> None:
    context = fork_history(create_context(dialect))
    for path in ("/one", "/two"):
        tip = change(context, SIDE, describes(path))

    assert fast_forward(context.protocol, MAIN, SIDE) == tip

    assert context.protocol.lookup_branch(MAIN) == tip


def test_a_branch_that_has_commits_of_its_own_stays(context: RepositoryContext) -> None:
    there = change(context, SIDE, describes("/there"))
    here = change(context, MAIN, describes("/here"))

    with pytest.raises(ConflictError, match="is no ancestor") as refused:
        fast_forward(context.protocol, MAIN, SIDE)

    assert refused.value.kind == "branch-update-conflict"
    assert (refused.value.expected_parent, refused.value.actual_parent) == (str(here), str(there))
    assert context.protocol.lookup_branch(MAIN) == here


def test_a_branch_does_not_move_back(context: RepositoryContext) -> None:
    here = change(context, MAIN, describes("/here"))

    with pytest.raises(ConflictError):
        fast_forward(context.protocol, MAIN, SIDE)

    assert context.protocol.lookup_branch(MAIN) == here


def test_a_branch_that_is_there_already_is_not_written(context: RepositoryContext) -> None:
    updates = len(list(context.protocol.ops_log()))
    tip = context.protocol.lookup_branch(SIDE)

    assert fast_forward(context.protocol, MAIN, SIDE) == tip

    assert len(list(context.protocol.ops_log())) == updates


def test_branches_that_are_not_there_are_reported(context: RepositoryContext) -> None:
    for pair in ((MAIN, "none"), ("none", MAIN)):
        with pytest.raises(RefNotFoundError):
            fast_forward(context.protocol, *pair)


def test_an_ancestor_that_an_expiry_skipped_is_still_one(context: RepositoryContext) -> None:
    for path in ("/one", "/two"):
        tip = change(context, SIDE, describes(path))
    limit = context.protocol.lookup_snapshot(tip).flushed_at
    expire_snapshots(context.protocol, ExpiryPolicy(limit))
    ids = [info.id for info in context.protocol.ancestry(tip)]
    assert context.protocol.lookup_branch(MAIN) not in ids

    assert fast_forward(context.protocol, MAIN, SIDE) == tip
