import numpy as np
import pytest

from frazil.errors import InvalidInputError, SnapshotNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.manifest import VirtualRef
from frazil.ops import SessionMode
from frazil.repository import store_io as writing
from frazil.repository.context import RepositoryContext
from frazil.repository.diff import compare_snapshots, diff, status
from frazil.repository.moves import move_node
from frazil.repository.virtual_refs import set_virtual_ref
from frazil.snapshots import Diff
from tests.session_states import (
    Change,
    commit,
    commit_change,
    create_context,
    delete,
    open_session,
    plant,
    set_array,
    set_group,
    write_chunks,
)

ALL = list(Dialect)
EIGHT = [[index] for index in range(8)]


@pytest.fixture(params=ALL, ids=lambda dialect: dialect.value)
def context(request: pytest.FixtureRequest) -> RepositoryContext:
    """A repository of any generation with a small tree."""
    created = create_context(request.param)
    plant(created)
    return created


def diff_of(context: RepositoryContext, *changes: Change) -> Diff:
    """The diff of one commit."""
    before = context.protocol.lookup_branch("main")
    return diff(context.protocol, before, commit_change(context, *changes))


# Between snapshots, in every generation


def test_all_that_a_commit_changed_is_reported(context: RepositoryContext) -> None:
    found = diff_of(
        context,
        lambda s: set_group(s, "/n"),
        lambda s: set_array(s, "/n/a", 3),
        lambda s: write_chunks(s, "/n/a", 2),
        lambda s: delete(s, "/g/b"),
        lambda s: delete(s, "/g/sub"),
        lambda s: set_group(s, "/h", said=1),
        lambda s: set_array(s, "/g/a", 8, said=1),
        lambda s: write_chunks(s, "/g/a", 7, 3, data=b"new"),
    )

    assert found == Diff(
        new_groups={"/n"},
        new_arrays={"/n/a"},
        deleted_groups={"/g/sub"},
        deleted_arrays={"/g/b"},
        updated_groups={"/h"},
        updated_arrays={"/g/a"},
        chunk_coordinates={
            "/g/a": np.array([[3], [7]], np.uint32),
            "/n/a": np.array([[2]], np.uint32),
        },
    )


def test_a_commit_of_nothing_is_empty(context: RepositoryContext) -> None:
    assert diff_of(context).is_empty()


def test_a_node_that_takes_the_place_of_another_is_both_new_and_deleted(
    context: RepositoryContext,
) -> None:
    found = diff_of(context, lambda s: delete(s, "/g/a"), lambda s: set_array(s, "/g/a", 2))

    assert (found.new_arrays, found.deleted_arrays) == ({"/g/a"}, {"/g/a"})


def test_several_commits_are_one_diff(context: RepositoryContext) -> None:
    before = context.protocol.lookup_branch("main")
    commit_change(context, lambda s: set_array(s, "/n", 2), lambda s: write_chunks(s, "/n", 1))
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1, data=b"1"))
    commit_change(context, lambda s: delete(s, "/n"))
    tip = commit_change(context, lambda s: write_chunks(s, "/g/a", 0, data=b"2"))

    found = diff(context.protocol, before, tip)

    assert found == Diff(chunk_coordinates={"/g/a": np.array([[0], [1]], np.uint32)})


def test_there_must_be_a_way_from_one_end_to_the_other(context: RepositoryContext) -> None:
    protocol = context.protocol
    before = protocol.lookup_branch("main")
    tip = commit_change(context)

    for start, end in ((tip, before), (tip, tip)):
        with pytest.raises(InvalidInputError, match=f"{start}.*{end}") as refused:
            diff(protocol, start, end)
        assert refused.value.kind == "bad-snapshot-chain-for-diff"


def test_both_ends_must_be_there(context: RepositoryContext) -> None:
    protocol = context.protocol
    tip = protocol.lookup_branch("main")
    unknown = SnapshotId(b"never there!" + (b"...." if len(tip) == 16 else b""))

    for start, end in ((unknown, tip), (tip, unknown)):
        with pytest.raises(SnapshotNotFoundError):
            diff(protocol, start, end)


# Two ways to the same answer


def test_snapshots_have_what_their_log_has() -> None:
    context = create_context()
    before = plant(context)
    changes: list[Change] = [
        lambda s: write_chunks(s, "/g/a", 0, data=b"inline"),
        lambda s: write_chunks(s, "/g/a", 1, data=b"native" * 1000),
        lambda s: set_virtual(s, "/g/b", 2, "s3://bucket/one", 0),
        lambda s: set_group(s, "/g", said=2),
    ]
    for change in [*changes, lambda s: set_virtual(s, "/g/b", 2, "s3://bucket/two", 0)]:
        tip = commit_change(context, change)
        assets = context.assets
        old, new = assets.read_snapshot(before), assets.read_snapshot(tip)

        assert compare_snapshots(assets, old, new) == diff(context.protocol, before, tip)

        before = tip


def test_references_that_are_set_again_as_they_were_are_no_difference() -> None:
    context = create_context()
    before = plant(context)
    tip = commit_change(context, lambda s: write_chunks(s, "/g/a", *range(8), data=b"0"))
    assets = context.assets

    found = compare_snapshots(assets, assets.read_snapshot(before), assets.read_snapshot(tip))

    assert found.is_empty()
    assert diff(context.protocol, before, tip).updated_chunks == {"/g/a": EIGHT}


def set_virtual(state: object, path: str, index: int, location: str, offset: int) -> None:
    key = f"{path[1:]}/c/{index}"
    set_virtual_ref(state, key, VirtualRef(location, offset, 4), validate_container=False)  # type: ignore[arg-type]


# Moves


def test_moves_of_newer_commits_come_first() -> None:
    context = create_context()
    before = plant(context)
    for source, target in (("/g/a", "/h/a"), ("/h/a", "/a"), ("/g", "/k")):
        state = open_session(context, SessionMode.rearrange)
        move_node(state, source, target)
        tip = commit(state)

    found = diff(context.protocol, before, tip)

    assert found.moved_nodes == [
        ("/g", "/k"), ("/g/b", "/k/b"), ("/g/sub", "/k/sub"), ("/h/a", "/a"), ("/g/a", "/h/a")
    ]  # fmt: skip


# In a session


def test_a_session_has_what_its_commit_will_have(context: RepositoryContext) -> None:
    before = context.protocol.lookup_branch("main")
    state = open_session(context)
    set_group(state, "/n")
    set_array(state, "/n/a", 3)
    write_chunks(state, "/n/a", 2, 0)
    delete(state, "/g/b")
    set_group(state, "/h", said=1)
    write_chunks(state, "/g/a", 5, data=b"new")

    found = status(state)

    assert found.updated_chunks == {"/g/a": [[5]], "/n/a": [[0], [2]]}
    assert found == diff(context.protocol, before, commit(state))


def test_a_session_reports_its_moves() -> None:
    context = create_context()
    plant(context)
    state = open_session(context, SessionMode.rearrange)
    move_node(state, "/g/a", "/h/a")
    move_node(state, "/g", "/k")

    assert status(state) == Diff(
        moved_nodes=[("/g/a", "/h/a"), ("/g", "/k"), ("/g/b", "/k/b"), ("/g/sub", "/k/sub")]
    )


def test_chunks_of_former_axes_are_not_reported(context: RepositoryContext) -> None:
    before = context.protocol.lookup_branch("main")
    commit_change(context, lambda s: write_chunks(s, "/g/a", 7, data=b"old"))

    after = commit_change(
        context,
        lambda s: set_array(s, "/g/a", 4, 4),
        lambda s: writing.set_chunk(s, "/g/a", (1, 2), b"new"),
    )

    assert diff(context.protocol, before, after).updated_chunks["/g/a"] == [[1, 2]]
