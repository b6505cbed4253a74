"""Whether tasks return their references or leave them in the storage, the repository is the same."""

import os
import pickle
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import OverlappingTasksError
from frazil.format.header import Dialect
from frazil.format.manifest import ChunkRef, InlineRef, VirtualRef
from frazil.repository.changes import ChangeSet
from frazil.repository.commit import CommitText
from frazil.repository.conflicts import ConflictDetector
from frazil.repository.context import RepositoryContext, SessionState, create
from frazil.repository.forks import fork
from frazil.repository.rebase import commit_with_rebase
from frazil.spark import Job
from frazil.spark.runtime import Runner
from frazil.spark.transaction import (
    count_written,
    find_parts,
    fresh_fork,
    gather,
    leave_parts,
    merge_changes,
)
from frazil.storage.memory import MemoryStorage
from tests.repositories import split_every
from tests.session_states import commit, open_session, set_array

DEEP = "FRAZIL_DEEP" in os.environ
PATH = "/a"
Place = tuple[int, ...]
Edits = dict[Place, ChunkRef | None]

refs = st.one_of(
    st.none(),
    st.builds(InlineRef, st.binary(min_size=1, max_size=3)),
    st.builds(VirtualRef, st.sampled_from(["s3://b/one", "s3://b/two"]), st.integers(0, 99),
              st.just(7), st.none()),
)  # fmt: skip


def set_all(state: SessionState, edits: Edits) -> None:
    for place, ref in edits.items():
        state.changes.edit_chunks(state.view.get_node(PATH)).set(place, ref)


class Tasks:
    """What an array has, what a session has done to it, and what tasks do then."""

    def __init__(self, data: st.DataObject) -> None:
        self.grid = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3)))
        self.split = data.draw(st.integers(1, 4))
        self.dialect = data.draw(st.sampled_from([Dialect.V1, Dialect.V2]))
        self.there = self.draw_edits(data)
        self.before = self.draw_edits(data)
        owners = {each: data.draw(st.integers(-1, 3)) for each in self.places}
        self.tasks: list[Edits] = [
            {place: data.draw(refs) for place in self.places if owners[place] == task}
            for task in range(4)
        ]
        free = [place for place in self.places if owners[place] == -1]
        self.meanwhile: Edits = {
            place: InlineRef(b"other") for place in free if data.draw(st.booleans())
        }

    @property
    def places(self) -> list[Place]:
        return list(product(*map(range, self.grid)))

    def draw_edits(self, data: st.DataObject) -> Edits:
        return {place: data.draw(refs) for place in self.places if data.draw(st.booleans())}

    def prepare(self) -> SessionState:
        """A session that stands on what is there, and has done what it does before."""
        found = create(MemoryStorage(), self.dialect, split_every(self.split)).context
        state = open_session(found)
        set_array(state, PATH, *self.grid)
        set_all(state, self.there)
        commit(state)
        state = open_session(found)
        set_all(state, self.before)
        return state

    def run(self, state: SessionState, limits: Sequence[int | None]) -> None:
        """Merge what tasks do, each of which leaves more than so many references in the storage."""
        forked = fork(state)
        changes = []
        for edits, limit in zip(self.tasks, limits, strict=True):
            task = fresh_fork(forked)
            set_all(task, edits)
            leave_parts(task.assets, task.changes, limit)
            changes.append(send(task.changes))
        merge_changes(state, forked, changes)
        runner = Runner(Job(progress=False), None, returned_references=0)
        gather(runner, state, find_parts(runner, changes))


def send(changes: ChangeSet) -> ChangeSet:
    sent: ChangeSet = pickle.loads(pickle.dumps(changes))
    return sent


def chunks_of(state: SessionState) -> dict[Place, ChunkRef]:
    return state.view.table(state.view.get_node(PATH)).refs()


def commit_over(state: SessionState, context: RepositoryContext, meanwhile: Edits) -> list[Place]:
    """Commit on top of what others commit meanwhile; gives the chunks that the log has."""
    if meanwhile:
        other = open_session(context)
        set_all(other, meanwhile)
        commit(other)
    id = commit_with_rebase(state, CommitText("done", {}), ConflictDetector(), 3, allow_empty=True)
    log = context.assets.read_transaction_log(id)
    return [tuple(row) for rows in log.updated_chunks.values() for row in rows.tolist()]


@settings(max_examples=1000 if DEEP else 60)
@given(data=st.data())
def test_references_that_tasks_leave_are_those_that_they_would_return(data: st.DataObject) -> None:
    tasks = Tasks(data)
    limits = data.draw(st.lists(st.sampled_from([0, 1, 3, None]), min_size=4, max_size=4))
    one, other = tasks.prepare(), tasks.prepare()
    # Who commits a chunk that a session has edited before is in conflict with it.
    meanwhile = {k: ref for k, ref in tasks.meanwhile.items() if k not in tasks.before}

    tasks.run(one, [None] * 4)
    tasks.run(other, limits)

    assert chunks_of(other) == chunks_of(one)
    assert count_written(other.changes) == count_written(one.changes)
    logs = [commit_over(each, each.context, meanwhile) for each in (one, other)]
    assert logs[0] == logs[1]
    opened = [open_session(each.context) for each in (one, other)]
    assert chunks_of(opened[1]) == chunks_of(opened[0])
    assert extents_of(opened[1]) == extents_of(opened[0])


def extents_of(state: SessionState) -> list[object]:
    _, array = state.view.get_array(PATH)
    return [ref.extents for ref in array.manifests]


@settings(max_examples=500 if DEEP else 20)
@given(data=st.data())
def test_chunks_that_two_tasks_write_are_named_in_any_case(data: st.DataObject) -> None:
    tasks = Tasks(data)
    limits = data.draw(st.lists(st.sampled_from([0, 2, None]), min_size=4, max_size=4))
    repeated = data.draw(st.lists(st.sampled_from(tasks.places), min_size=1, unique=True))
    for place in repeated:
        for task in data.draw(st.sampled_from([(0, 1), (3, 2), (1, 2, 3)])):
            tasks.tasks[task][place] = data.draw(refs)
    written = [place for edits in tasks.tasks for place in edits]
    expected = sorted({place for place in written if written.count(place) > 1})
    state = tasks.prepare()
    before = chunks_of(state)

    with pytest.raises(OverlappingTasksError) as caught:
        tasks.run(state, limits)

    assert caught.value.chunks == {PATH: expected}
    assert chunks_of(state) == before


def test_a_task_that_is_not_asked_to_leaves_nothing() -> None:
    state = open_session(create(MemoryStorage(), Dialect.V2, None).context)
    set_array(state, PATH, 4)
    set_all(state, {(each,): InlineRef(b"x") for each in range(4)})
    files = len(list(state.assets.storage.list()))

    leave_parts(state.assets, state.changes, 4)

    assert len(list(state.assets.storage.list())) == files
    (edits,) = state.changes.chunks.values()
    assert not edits.prewritten
    np.testing.assert_array_equal(edits.coordinates().ravel(), range(4))
