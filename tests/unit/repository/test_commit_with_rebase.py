from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial

import pytest

from frazil.errors import ConflictError, RebaseFailedError
from frazil.format.header import Dialect
from frazil.format.manifest import ChunkRef, ChunkTable, InlineRef
from frazil.repository import commit as commit_
from frazil.repository.commit import CommitText
from frazil.repository.conflicts import BasicConflictSolver, ConflictDetector, GrowthDetector
from frazil.repository.context import RepositoryContext, SessionState, create, open_repository
from frazil.repository.rebase import commit_with_rebase
from frazil.repository.store_io import delete_chunk
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import ForwardingStorage, Injection, Request, Verb
from tests.repositories import split_every
from tests.session_states import (
    THEIRS,
    WITH_LOGS,
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


def open_context(storage: Storage) -> RepositoryContext:
    """The repository as another process sees it."""
    return open_repository(storage).context


class Contested(ForwardingStorage):
    """A storage where somebody else commits before each of the next replacements of `repo`."""

    def __init__(self, inner: MemoryStorage, others: Iterable[Callable[[], object]] = ()) -> None:
        super().__init__(inner)
        self.others = iter(others)
        self.written: list[str] = []

    def _begin(self, request: Request) -> Injection:
        self.written += [key.partition("/")[0] for key in request.keys if request.verb is Verb.PUT]
        if request.verb is Verb.REPLACE:
            next(self.others, lambda: None)()
        return super()._begin(request)


@pytest.mark.parametrize(
    ("theirs", "manifests", "a", "b"),
    [
        ("/g/b", 1, "00xx.000", "yyy00000"),
        # Their chunks are in the manifest that ours have to be in, too.
        ("/g/a", 4, "yyyxx.00", "00000000"),
    ],
    ids=["another array", "the same array"],
)
def test_a_lost_race_costs_the_loser_a_snapshot_and_no_log(
    theirs: str, manifests: int, a: str, b: str
) -> None:
    memory = MemoryStorage()
    plant(create(memory, Dialect.V2).context)
    rival = open_context(memory)
    storage = Contested(memory)
    state = open_session(open_context(storage))
    first = a.index("x")
    write_chunks(state, "/g/a", first, first + 1, data=b"x")
    delete_chunk(state, "/g/a", (first + 2,))

    def commit_theirs(at: int) -> None:
        commit_change(rival, lambda s: write_chunks(s, theirs, at, data=b"y"))

    storage.others = iter([partial(commit_theirs, at) for at in range(3)])

    commit_with_rebase(state, CommitText("ours", {}), ConflictDetector(), 3)

    written = Counter(storage.written)
    assert (written["transactions"], written["snapshots"]) == (1, 4)
    assert written["manifests"] == manifests
    after = latest(rival)
    assert (read_chunks(after, "/g/a"), read_chunks(after, "/g/b")) == (a, b)
    log = after.assets.read_transaction_log(after.view.snapshot_id)
    chunks = [each.tolist() for each in log.updated_chunks.values()]
    assert chunks == [[[first], [first + 1], [first + 2]]]


def test_a_commit_that_is_known_to_be_behind_writes_each_file_once() -> None:
    memory = MemoryStorage()
    plant(create(memory, Dialect.V2).context)
    storage = Contested(memory)
    context = open_context(storage)
    state = open_session(context)
    write_chunks(state, "/g/a", 2, data=b"x")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 5, data=b"y"))
    storage.written.clear()

    assert commit_ours(state)["__icechunk"] == {"rebase_attempts": 1}

    written = Counter(storage.written)
    assert [written[each] for each in ("transactions", "snapshots", "manifests")] == [1, 1, 1]
    assert read_chunks(latest(context), "/g/a") == "00x00y00"


def test_a_log_is_written_again_if_a_solver_gave_up_chunks() -> None:
    memory = MemoryStorage()
    plant(create(memory, Dialect.V2).context)
    rival = open_context(memory)
    storage = Contested(memory)
    state = open_session(open_context(storage))
    write_chunks(state, "/g/a", 2, 3, data=b"x")
    storage.others = iter([lambda: commit_change(rival, lambda s: write_chunks(s, "/g/a", 3))])

    commit_with_rebase(state, CommitText("ours", {}), THEIRS, 3)

    after = latest(rival)
    log = after.assets.read_transaction_log(after.view.snapshot_id)
    assert [each.tolist() for each in log.updated_chunks.values()] == [[[2]]]
    assert read_chunks(after, "/g/a") == "00xx0000"


def test_a_commit_too_large_for_one_log_that_loses_races_writes_its_logs_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit_, "MOST_LOGGED_CHUNKS", 3)
    memory = MemoryStorage()
    plant(create(memory, Dialect.V2, split_every(2)).context)
    rival = open_context(memory)
    storage = Contested(memory)
    state = open_session(open_context(storage))
    refs: dict[tuple[int, ...], ChunkRef] = {(at,): InlineRef(b"x") for at in range(7)}
    state.changes.edit_chunks(state.view.get_node("/g/a")).set_table(ChunkTable.of(1, refs))

    def commit_theirs(path: str, at: int) -> None:
        commit_change(rival, lambda s: write_chunks(s, path, at, data=b"y"))

    storage.others = iter([partial(commit_theirs, *each) for each in (("/g/b", 0), ("/g/a", 7))])

    id = commit_with_rebase(state, CommitText("ours", {}), ConflictDetector(), 3)

    after = latest(rival)
    assert read_chunks(after, "/g/a") == "xxxxxxxy"
    assert read_chunks(after, "/g/b") == "y0000000"
    messages = [each.message for each in rival.protocol.ancestry(id)]
    steps = [f"ours (part {number} of 3)" for number in (2, 1)]
    assert messages[:6] == ["ours", *steps, "a change", "a change", "base"]
    written = Counter(storage.written)
    # The rival changed the last split region, whose manifest is written twice.
    assert (written["transactions"], written["snapshots"], written["manifests"]) == (3, 9, 5)


@pytest.mark.parametrize(
    ("solver", "attributes", "is_kept"),
    [
        (GrowthDetector(), {}, True),
        (GrowthDetector(), {"units": "K"}, False),
        (ConflictDetector(), {}, False),
    ],
    ids=["a job", "other attributes", "a user"],
)
def test_a_job_keeps_its_chunks_of_an_array_that_others_make_larger(
    context: RepositoryContext,
    solver: ConflictDetector,
    attributes: dict[str, str],
    is_kept: bool,
) -> None:
    state = open_session(context)
    write_chunks(state, "/g/a", 1, data=b"x")
    commit_change(context, lambda s: set_array(s, "/g/a", 10, **attributes))
    commit_change(context, lambda s: write_chunks(s, "/g/a", 9, data=b"y"))

    expected = nullcontext() if is_kept else pytest.raises(RebaseFailedError)
    with expected:
        commit_with_rebase(state, CommitText("ours", {}), solver, 3)

    after = "0x000000.y" if is_kept else "00000000.y"
    assert read_chunks(latest(context), "/g/a", 10) == after
