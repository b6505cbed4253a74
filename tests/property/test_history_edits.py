"""Whatever the history, squash, cherry-pick and fast-forward do what the same edits do to dicts.

A state is a dict of nodes by path, each with a number that it got when it was made, and with the bytes
of its chunks. A cherry-pick that succeeds makes of the branch's dict what the commit made of its
parent's; one that fails has a reason: what it touches is not the same there.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import ConflictError, RebaseFailedError, SessionStateError
from frazil.format.header import Dialect
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.metadata import parent_path
from frazil.repository.conflicts import ConflictDetector
from frazil.repository.context import SessionState
from frazil.repository.history_edits import cherry_pick, fast_forward, squash
from frazil.repository.store_io import delete_chunk
from tests.session_states import (
    MAIN,
    commit,
    create_context,
    delete,
    open_session,
    read_chunks,
    set_array,
    set_group,
    write_chunks,
)

DEEP = "FRAZIL_DEEP" in os.environ
CHUNKS = 4
BRANCHES = (MAIN, "side")
GROUPS = ("/g", "/h", "/g/deep")
ARRAYS = ("/a", "/g/a", "/g/b", "/h/a", "/g/deep/a")


@dataclass(frozen=True)
class Node:
    number: int
    said: int
    chunks: str | None = None
    """Of an array, a letter each, a dot where there is none."""


State = dict[str, Node]
Cells = dict[tuple[str, int], object]


@dataclass(frozen=True)
class Version:
    state: State
    parent: SnapshotId | None
    touched: frozenset[str] = frozenset()


def cells_of(state: State) -> Cells:
    """What a three-way merge looks at: nodes, and single chunks."""
    cells: Cells = {}
    for path, node in state.items():
        cells[path, -1] = (node.number, node.said)
        cells |= {(path, at): c for at, c in enumerate(node.chunks or "") if c != "."}
    return cells


def changed_cells(old: State, new: State) -> Cells:
    """What became of cells that are different, None for those that are gone."""
    before, after = cells_of(old), cells_of(new)
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return {key: after.get(key) for key in keys}


@dataclass
class History:
    """A repository, and what it should have."""

    dialect: Dialect
    versions: dict[SnapshotId, Version] = field(default_factory=dict)
    tips: dict[str, SnapshotId] = field(default_factory=dict)
    ids: dict[int, NodeId] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers: Iterator[int] = count()
        self.context = create_context(self.dialect)
        state = open_session(self.context)
        nodes: State = {}
        for path in ("/", "/g", "/h", "/g/a"):
            self.describe(state, nodes, path, 0)
        id = commit(state)
        self.versions[id] = Version(nodes, None)
        self.ids = {node.number: state.view.get_node(path).id for path, node in nodes.items()}
        self.context.protocol.create_branch("side", id)
        self.tips = dict.fromkeys(BRANCHES, id)

    # What can be done

    def commit(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(BRANCHES))
        session = open_session(self.context, branch=branch)
        parent = self.tips[branch]
        nodes = dict(self.versions[parent].state)
        touched = {self.edit(data, session, nodes) for _ in range(data.draw(st.integers(1, 4)))}
        self.land(branch, commit(session), Version(nodes, parent, frozenset(touched)))

    def edit(self, data: st.DataObject, session: SessionState, nodes: State) -> str:
        """One edit of a session and of a dict; gives the path."""
        path: str = data.draw(st.sampled_from(GROUPS + ARRAYS))
        said, at = data.draw(st.integers(0, 2)), data.draw(st.integers(0, CHUNKS - 1))
        node, parent = nodes.get(path), nodes.get(parent_path(path))
        action = data.draw(st.sampled_from(["describe", "write", "write", "erase", "delete"]))
        if node is None or action == "describe":
            if parent is not None:
                self.describe(session, nodes, path, said)
        elif action == "delete":
            delete(session, path)
            for each in [each for each in nodes if f"{each}/".startswith(f"{path}/")]:
                del nodes[each]
        elif node.chunks is not None:
            letter = "." if action == "erase" else "xyz"[said]
            if letter == ".":
                delete_chunk(session, path, (at,))
            else:
                write_chunks(session, path, at, data=letter.encode())
            nodes[path] = replace(node, chunks=node.chunks[:at] + letter + node.chunks[at + 1 :])
        return path

    def describe(self, session: SessionState, nodes: State, path: str, said: int) -> None:
        old = nodes.get(path)
        number = next(self.numbers) if old is None else old.number
        if path not in ARRAYS:
            set_group(session, path, said=said)
            nodes[path] = Node(number, said)
        else:
            set_array(session, path, CHUNKS, said=said)
            nodes[path] = Node(number, said, "." * CHUNKS if old is None else old.chunks)

    def squash(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(BRANCHES))
        tip = self.tips[branch]
        line = list(self.line(tip))
        if len(line) > 1:
            at = data.draw(st.integers(1, len(line) - 1))
            touched = frozenset[str]().union(*(self.versions[id].touched for id in line[:at]))
            id = squash(self.context, branch, line[at], None, {})
            self.land(branch, id, Version(self.versions[tip].state, line[at], touched))

    def fast_forward(self, data: st.DataObject) -> None:
        branch, to = data.draw(st.permutations(BRANCHES))
        if self.tips[branch] in self.line(self.tips[to]):
            fast_forward(self.context.protocol, branch, to)
            self.tips[branch] = self.tips[to]
        else:
            with pytest.raises(ConflictError):
                fast_forward(self.context.protocol, branch, to)

    def cherry_pick(self, data: st.DataObject) -> None:
        # In the order in which they were made: the ids themselves are random.
        picked = data.draw(st.sampled_from(list(self.versions)))
        branch = data.draw(st.sampled_from(BRANCHES))
        version, tip = self.versions[picked], self.tips[branch]
        if version.parent is None:
            return
        parent, theirs = self.versions[version.parent].state, self.versions[tip].state
        delta = changed_cells(parent, version.state)
        try:
            id = cherry_pick(self.context, picked, branch, None, ConflictDetector())
        except RebaseFailedError:
            assert self.is_different_near(version.touched, parent, theirs)
        except SessionStateError:
            assert not {key for key in delta if delta[key] is not None or key in cells_of(theirs)}
        else:
            merged = self.merge(theirs, version.state, delta)
            self.land(branch, id, Version(merged, tip, version.touched))

    def merge(self, theirs: State, ours: State, delta: Cells) -> State:
        """Their state with our changes."""
        merged = {
            path: node for path, node in theirs.items() if delta.get((path, -1), 0) is not None
        }
        for path, at in sorted(delta, key=lambda key: (key[0], key[1])):
            if at < 0 and path in ours:
                is_same = path in theirs and theirs[path].number == ours[path].number
                chunks = theirs[path].chunks if is_same else ours[path].chunks
                merged[path] = replace(ours[path], chunks=chunks)
            elif path in merged:
                chunks = merged[path].chunks or ""
                letter = str(delta[path, at] or ".")
                merged[path] = replace(merged[path], chunks=chunks[:at] + letter + chunks[at + 1 :])
        return merged

    def is_different_near(self, touched: frozenset[str], old: State, new: State) -> bool:
        """Whether nodes above, at or below touched paths are not the same in two states."""
        different = {path for path, _ in changed_cells(old, new)}
        return any(
            f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
            for one in touched
            for other in different
        )

    # What is found

    def line(self, id: SnapshotId) -> Iterator[SnapshotId]:
        current: SnapshotId | None = id
        while current is not None:
            yield current
            current = self.versions[current].parent

    def land(self, branch: str, id: SnapshotId, version: Version) -> None:
        """A branch has moved to a new version: it must be just this one, and its log must say so."""
        self.tips[branch] = id
        self.versions[id] = version
        session = open_session(self.context, branch=branch)
        assert session.view.snapshot_id == id
        nodes = {node.path: node for node in session.view.nodes()}
        assert nodes.keys() == version.state.keys()
        for path, node in version.state.items():
            assert self.ids.setdefault(node.number, nodes[path].id) == nodes[path].id
            attributes = json.loads(nodes[path].user_data)["attributes"]
            assert attributes == {"said": node.said}
            if node.chunks is not None:
                assert read_chunks(session, path, CHUNKS) == node.chunks
        self.check_log(id, version)

    def check_log(self, id: SnapshotId, version: Version) -> None:
        assert version.parent is not None
        log = self.context.assets.read_transaction_log(id)
        old, new = self.versions[version.parent].state, version.state
        before = {node.number: path for path, node in old.items()}
        after = {node.number: path for path, node in new.items()}
        created = {self.ids[number] for number in after.keys() - before.keys()}
        deleted = {self.ids[number] for number in before.keys() - after.keys()}
        assert log.new_groups | log.new_arrays == created
        assert log.deleted_groups | log.deleted_arrays == deleted
        for number in after.keys() & before.keys():
            changed = changed_cells({"x": old[before[number]]}, {"x": new[after[number]]})
            reported = log.updated_chunks.get(self.ids[number])
            rows = set() if reported is None else {row for (row,) in reported.tolist()}
            assert {at for _, at in changed if at >= 0} <= rows

    def check_ancestry(self) -> None:
        protocol = self.context.protocol
        for branch, tip in self.tips.items():
            assert protocol.lookup_branch(branch) == tip
            *found, first = (info.id for info in protocol.ancestry(tip))
            assert found == list(self.line(tip))
            assert first not in self.versions


ACTIONS: list[Callable[[History, st.DataObject], None]] = [
    History.commit, History.commit, History.squash, History.fast_forward, History.cherry_pick,
    History.cherry_pick,
]  # fmt: skip


@pytest.mark.parametrize(
    "dialect",
    [Dialect.ALPHA_C, Dialect.ALPHA_H, Dialect.V1, Dialect.V2],
    ids=lambda dialect: dialect.value,
)
@settings(max_examples=500 if DEEP else 20, deadline=None)
@given(data=st.data())
def test_edits_of_the_history_do_what_they_do_to_dicts(
    dialect: Dialect, data: st.DataObject
) -> None:
    history = History(dialect)

    for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=2, max_size=12)):
        action(history, data)

    history.check_ancestry()
