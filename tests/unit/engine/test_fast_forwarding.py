"""Moving a branch on to what another one has built on it."""

import pytest

from frazil.engine.fast_forwarding import fast_forward
from frazil.engine.state import Surroundings
from frazil.errors import ConflictError, RefNotFoundError
from frazil.format.dialect import Dialect
from frazil.maintenance.expiring import expire_snapshots
from frazil.maintenance.expiry import ExpiryPolicy
from tests.engine_branches import SIDE, change, describes, fork_history
from tests.engine_sessions import MAIN, create_surroundings


@pytest.fixture
def surroundings() -> Surroundings:
    """A repository with a small tree, and a branch beside `main` that starts there."""
    return fork_history(create_surroundings())


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_a_branch_moves_to_what_builds_on_it_in_every_generation(dialect: Dialect) -> None:
    surroundings = fork_history(create_surroundings(dialect))
    for path in ("/one", "/two"):
        tip = change(surroundings, SIDE, describes(path))

    assert fast_forward(surroundings.protocol, MAIN, SIDE) == tip

    assert surroundings.protocol.lookup_branch(MAIN) == tip


def test_a_branch_that_has_commits_of_its_own_stays(surroundings: Surroundings) -> None:
    there = change(surroundings, SIDE, describes("/there"))
    here = change(surroundings, MAIN, describes("/here"))

    with pytest.raises(ConflictError, match="is no ancestor") as refused:
        fast_forward(surroundings.protocol, MAIN, SIDE)

    assert refused.value.kind == "branch-update-conflict"
    assert (refused.value.expected_parent, refused.value.actual_parent) == (str(here), str(there))
    assert surroundings.protocol.lookup_branch(MAIN) == here


def test_a_branch_does_not_move_back(surroundings: Surroundings) -> None:
    here = change(surroundings, MAIN, describes("/here"))

    with pytest.raises(ConflictError):
        fast_forward(surroundings.protocol, MAIN, SIDE)

    assert surroundings.protocol.lookup_branch(MAIN) == here


def test_a_branch_that_is_there_already_is_not_written(surroundings: Surroundings) -> None:
    updates = len(list(surroundings.protocol.ops_log()))
    tip = surroundings.protocol.lookup_branch(SIDE)

    assert fast_forward(surroundings.protocol, MAIN, SIDE) == tip

    assert len(list(surroundings.protocol.ops_log())) == updates


def test_branches_that_are_not_there_are_told(surroundings: Surroundings) -> None:
    for pair in ((MAIN, "none"), ("none", MAIN)):
        with pytest.raises(RefNotFoundError):
            fast_forward(surroundings.protocol, *pair)


def test_an_ancestor_that_an_expiry_skipped_is_still_one(surroundings: Surroundings) -> None:
    for path in ("/one", "/two"):
        tip = change(surroundings, SIDE, describes(path))
    limit = surroundings.protocol.lookup_snapshot(tip).flushed_at
    expire_snapshots(surroundings.protocol, ExpiryPolicy(limit))
    ids = [info.id for info in surroundings.protocol.ancestry(tip)]
    assert surroundings.protocol.lookup_branch(MAIN) not in ids

    assert fast_forward(surroundings.protocol, MAIN, SIDE) == tip
