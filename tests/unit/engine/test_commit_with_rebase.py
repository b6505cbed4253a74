import pytest

from frazil.conflicts import BasicConflictSolver
from frazil.engine.commits import CommitText
from frazil.engine.rebasing import commit_with_rebase
from frazil.engine.state import SessionState, Surroundings
from frazil.errors import ConflictError
from frazil.format.dialect import Dialect
from tests.engine_sessions import (
    WITH_LOGS,
    commit_change,
    create_surroundings,
    delete,
    latest,
    open_session,
    paths_of,
    plant,
    set_group,
)

SOLVER = BasicConflictSolver()


@pytest.fixture
def surroundings() -> Surroundings:
    """A repository with a small tree."""
    created = create_surroundings()
    plant(created)
    return created


def commit_ours(state: SessionState, tries: int = 10) -> dict[str, object]:
    """Commit with a rebase; gives the metadata of the commit."""
    id = commit_with_rebase(state, CommitText("ours", {"by": "us"}), SOLVER, tries)
    return dict(state.surroundings.protocol.lookup_snapshot(id).metadata)


@pytest.mark.parametrize("dialect", WITH_LOGS[-2:], ids=lambda dialect: dialect.value)
def test_a_commit_tells_how_often_it_was_rebased(dialect: Dialect) -> None:
    surroundings = create_surroundings(dialect)
    plant(surroundings)
    first, second = open_session(surroundings), open_session(surroundings)
    set_group(first, "/one")
    set_group(second, "/two")

    assert commit_ours(first) == {"by": "us", "__icechunk": {"rebase_attempts": 0}}
    assert commit_ours(second) == {"by": "us", "__icechunk": {"rebase_attempts": 1}}


def test_a_commit_that_may_not_be_tried_again_raises(surroundings: Surroundings) -> None:
    state = open_session(surroundings)
    set_group(state, "/one")
    commit_change(surroundings, lambda s: set_group(s, "/two"))

    with pytest.raises(ConflictError) as refused:
        commit_ours(state, tries=0)

    assert refused.value.kind == "commit-conflict"
    assert commit_ours(state, tries=1)


def test_a_commit_lands_even_if_nothing_of_it_is_left(surroundings: Surroundings) -> None:
    state = open_session(surroundings)
    delete(state, "/g")
    commit_change(surroundings, lambda s: delete(s, "/g"))

    commit_ours(state)

    assert paths_of(latest(surroundings)) == ["/", "/h"]
