import pytest

from frazil.conflicts import BasicConflictSolver
from frazil.errors import ConflictError
from frazil.format.header import Dialect
from frazil.repository.commit import CommitText
from frazil.repository.rebase import commit_with_rebase
from frazil.repository.session_state import RepositoryContext, SessionState
from tests.session_states import (
    WITH_LOGS,
    commit_change,
    create_context,
    delete,
    latest,
    open_session,
    paths_of,
    plant,
    set_group,
)

SOLVER = BasicConflictSolver()


@pytest.fixture
def context() -> RepositoryContext:
    """A repository with a small tree."""
    created = create_context()
    plant(created)
    return created


def commit_ours(state: SessionState, tries: int = 10) -> dict[str, object]:
    """Commit with a rebase; gives the metadata of the commit."""
    id = commit_with_rebase(state, CommitText("ours", {"by": "us"}), SOLVER, tries)
    return dict(state.context.protocol.lookup_snapshot(id).metadata)


@pytest.mark.parametrize("dialect", WITH_LOGS[-2:], ids=lambda dialect: dialect.value)
def test_a_commit_reports_how_often_it_was_rebased(dialect: Dialect) -> None:
    context = create_context(dialect)
    plant(context)
    first, second = open_session(context), open_session(context)
    set_group(first, "/one")
    set_group(second, "/two")

    assert commit_ours(first) == {"by": "us", "__icechunk": {"rebase_attempts": 0}}
    assert commit_ours(second) == {"by": "us", "__icechunk": {"rebase_attempts": 1}}


def test_a_commit_that_may_not_be_tried_again_raises(context: RepositoryContext) -> None:
    state = open_session(context)
    set_group(state, "/one")
    commit_change(context, lambda s: set_group(s, "/two"))

    with pytest.raises(ConflictError) as refused:
        commit_ours(state, tries=0)

    assert refused.value.kind == "commit-conflict"
    assert commit_ours(state, tries=1)


def test_a_commit_lands_even_if_nothing_of_it_is_left(context: RepositoryContext) -> None:
    state = open_session(context)
    delete(state, "/g")
    commit_change(context, lambda s: delete(s, "/g"))

    commit_ours(state)

    assert paths_of(latest(context)) == ["/", "/h"]
