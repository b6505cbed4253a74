"""Manifests that workers wrote: used as they are where the base is theirs, and merged elsewhere."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import RebaseFailedError
from frazil.format import coordinates
from frazil.format.coordinates import Coordinates, Extents, grid_of
from frazil.format.header import Dialect
from frazil.format.manifest import ChunkRef, ChunkTable, InlineRef, VirtualRef
from frazil.format.snapshot import ManifestRef, Node
from frazil.repository import commit as commit_
from frazil.repository.changes import PrewrittenManifest, prewrite_manifest, write_part
from frazil.repository.commit import CommitText
from frazil.repository.conflicts import ConflictDetector
from frazil.repository.context import RepositoryContext, SessionState, create
from frazil.repository.forks import fork, merge
from frazil.repository.rebase import commit_with_rebase
from frazil.repository.store_io import set_chunk
from frazil.storage.memory import MemoryStorage
from tests.repositories import split_every
from tests.session_states import commit, open_session, set_array

PATH = "/a"
FIRST, SECOND = ((0, 4),), ((4, 8),)


@pytest.fixture
def context() -> RepositoryContext:
    """An array of eight chunks in manifests of four, of which the first five have chunks."""
    found = create(MemoryStorage(), Dialect.V2, split_every(4)).context
    state = open_session(found)
    set_array(state, PATH, 8)
    for number in range(5):
        set_chunk(state, PATH, (number,), b"old")
    commit(state)
    return found


def node_of(state: SessionState) -> Node:
    return state.view.get_node(PATH)


def write(state: SessionState, box: Extents, *places: int) -> PrewrittenManifest:
    """What a worker does with references at some places of a cell."""
    base = base_of(state, box)
    return prewrite_manifest(state.assets, node_of(state).id, box, base, new(*places))


def base_of(state: SessionState, box: Extents) -> list[ManifestRef]:
    array = node_of(state).array
    assert array is not None
    return [ref for ref in array.manifests if ref.extents[0][0] // 4 == box[0][0] // 4]


def new(*places: int) -> ChunkTable:
    refs: dict[tuple[int, ...], ChunkRef] = {
        (place,): VirtualRef("s3://bucket/new", place, 1, None) for place in places
    }
    return ChunkTable.of(1, refs)


def rows(*places: int) -> Coordinates:
    return np.array(places, np.uint32).reshape(-1, 1)


def adopt(state: SessionState, cell: PrewrittenManifest) -> None:
    state.changes.edit_chunks(node_of(state)).adopt(pickle.loads(pickle.dumps(cell)))


def found_in(state: SessionState) -> str:
    """`n` for new references, `o` for old chunks, `w` for what was written meanwhile, `-` for none."""
    letters = []
    for number in range(8):
        match state.view.find_chunk(node_of(state), (number,)):
            case VirtualRef():
                letters.append("n")
            case InlineRef(data):
                letters.append(chr(bytes(data)[0]))
            case _:
                letters.append("-")
    return "".join(letters)


def manifests_in(state: SessionState) -> list[object]:
    array = node_of(state).array
    assert array is not None
    return [ref.id for ref in array.manifests]


def test_a_commit_points_to_the_file_that_a_worker_wrote(context: RepositoryContext) -> None:
    state = open_session(context)
    kept = manifests_in(state)[0]
    cell = write(state, SECOND, 5, 7)

    adopt(state, cell)
    assert found_in(state) == "ooooon-n"
    commit(state)

    assert manifests_in(state) == [kept, cell.file.id]
    assert found_in(open_session(context)) == "ooooon-n"
    files = {file.id: file for file in state.view.snapshot.manifest_files}
    assert files[cell.file.id] == cell.file
    assert cell.file.num_chunk_refs == 3


def test_the_log_reports_what_the_worker_set_and_not_what_was_there(
    context: RepositoryContext,
) -> None:
    state = open_session(context)
    node_id = node_of(state).id
    adopt(state, write(state, SECOND, 5, 7))

    log = context.assets.read_transaction_log(commit(state))

    assert log.updated_chunks[node_id].tolist() == [[5], [7]]


def test_a_full_split_region_needs_no_list_of_its_chunks(context: RepositoryContext) -> None:
    state = open_session(context)

    cell = write(state, SECOND, 4, 5, 6, 7)

    assert cell.changed is None
    assert cell.coordinates().tolist() == [[4], [5], [6], [7]]


def test_an_edit_in_the_split_region_counts_more(context: RepositoryContext) -> None:
    state = open_session(context)
    cell = write(state, SECOND, 5, 6, 7)
    adopt(state, cell)

    set_chunk(state, PATH, (6,), b"written")

    assert found_in(state) == "ooooonwn"
    commit(state)
    assert found_in(open_session(context)) == "ooooonwn"
    assert cell.file.id not in manifests_in(state)


def test_a_prewritten_manifest_counts_more_than_an_edit_before_it(
    context: RepositoryContext,
) -> None:
    state = open_session(context)
    set_chunk(state, PATH, (6,), b"written")

    adopt(state, write(state, SECOND, 5, 6))

    assert found_in(state) == "ooooonn-"
    commit(state)
    assert found_in(open_session(context)) == "ooooonn-"


def test_of_two_workers_with_one_split_region_both_count(context: RepositoryContext) -> None:
    state = open_session(context)

    adopt(state, write(state, SECOND, 5))
    adopt(state, write(state, SECOND, 5, 7))

    assert found_in(state) == "ooooon-n"
    commit(state)
    assert found_in(open_session(context)) == "ooooon-n"


def test_a_box_that_is_no_split_region_is_merged(context: RepositoryContext) -> None:
    state = open_session(context)

    adopt(state, write(state, ((2, 7),), 2, 6))

    assert found_in(state) == "oonoo-n-"
    commit(state)
    assert found_in(open_session(context)) == "oonoo-n-"


def test_a_split_region_that_another_worker_reaches_into_is_merged(
    context: RepositoryContext,
) -> None:
    state = open_session(context)

    adopt(state, write(state, ((2, 7),), 2, 6))
    adopt(state, write(state, SECOND, 5))

    assert found_in(state) == "oonoonn-"
    commit(state)
    assert found_in(open_session(context)) == "oonoonn-"


def test_what_a_worker_deleted_is_gone_and_reported(context: RepositoryContext) -> None:
    state = open_session(context)
    cell = prewrite_manifest(
        state.assets, node_of(state).id, SECOND, base_of(state, SECOND), new(5), rows(4, 6)
    )

    adopt(state, cell)
    assert found_in(state) == "oooo-n--"
    node_id = node_of(state).id
    log = context.assets.read_transaction_log(commit(state))

    assert found_in(open_session(context)) == "oooo-n--"
    assert cell.file.id in manifests_in(state)
    assert log.updated_chunks[node_id].tolist() == [[4], [5], [6]]


def test_parts_are_merged_with_what_is_there(context: RepositoryContext) -> None:
    state = open_session(context)
    id = node_of(state).id
    parts = [
        write_part(state.assets, id, new(1, 6), rows(3)),
        write_part(state.assets, id, new(5), rows(0, 4)),
    ]

    state.changes.edit_chunks(node_of(state)).adopt(*parts)

    assert found_in(state) == "-no--nn-"
    commit(state)
    assert found_in(open_session(context)) == "-no--nn-"
    assert not {part.file.id for part in parts} & {*manifests_in(state)}


def test_prewritten_manifests_come_back_with_a_fork(context: RepositoryContext) -> None:
    state = open_session(context)
    forked = fork(state)
    cell = write(forked, SECOND, 5)
    adopt(forked, cell)

    merge(state, pickle.loads(pickle.dumps(forked)))
    commit(state)

    assert found_in(open_session(context)) == "ooooon--"
    assert cell.file.id in manifests_in(state)


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [((0,), "woooon--"), ((7,), "ooooon-w"), ((4,), "oooown--")],
    ids=["another cell", "the same cell", "a chunk that was there"],
)
def test_others_may_commit_meanwhile_to_other_chunks(
    context: RepositoryContext, theirs: tuple[int, ...], expected: str
) -> None:
    state = open_session(context)
    adopt(state, write(state, SECOND, 5))
    other = open_session(context)
    set_chunk(other, PATH, theirs, b"written")
    commit(other)

    commit_with_rebase(state, CommitText("rebased", {}), ConflictDetector(), 3)

    assert found_in(open_session(context)) == expected


def test_others_may_not_commit_meanwhile_to_the_same_chunk(context: RepositoryContext) -> None:
    state = open_session(context)
    adopt(state, write(state, SECOND, 5))
    other = open_session(context)
    set_chunk(other, PATH, (5,), b"written")
    commit(other)

    with pytest.raises(RebaseFailedError):
        commit_with_rebase(state, CommitText("rebased", {}), ConflictDetector(), 3)

    assert found_in(open_session(context)) == "ooooow--"


@pytest.mark.parametrize("box", [(), ((2, 4),), ((0, 2), (5, 6), (1, 4))])
def test_the_grid_of_a_box_has_every_place_once(box: Extents) -> None:
    expected = list(np.ndindex(*(stop - start for start, stop in box)))

    found = grid_of(box)

    assert (found - np.array([start for start, _ in box], np.uint32)).tolist() == [
        list(each) for each in expected
    ]


@pytest.fixture
def three_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a commit of more than three chunks be too large for one log."""
    monkeypatch.setattr(commit_, "MOST_LOGGED_CHUNKS", 3)


def commit_all(context: RepositoryContext, *, prewritten: bool) -> SessionState:
    """Set every chunk of the array, and make another one, in one session."""
    state = open_session(context)
    if prewritten:
        adopt(state, write(state, FIRST, 0, 1, 2, 3))
        adopt(state, write(state, SECOND, 4, 5, 6, 7))
    else:
        state.changes.edit_chunks(node_of(state)).set_table(new(*range(8)))
    set_array(state, "/other", 2)
    set_chunk(state, "/other", (1,), b"w")
    return state


@pytest.mark.usefixtures("three_at_most")
@pytest.mark.parametrize("prewritten", [True, False], ids=["by workers", "by the session"])
def test_a_commit_too_large_for_one_log_becomes_several_that_are_published_together(
    context: RepositoryContext, prewritten: bool
) -> None:
    before = context.protocol.lookup_branch("main")
    updates = len(list(context.protocol.ops_log()))
    state = commit_all(context, prewritten=prewritten)

    id = commit_with_rebase(state, CommitText("all", {"by": "us"}), ConflictDetector(), 3)

    assert len(list(context.protocol.ops_log())) == updates + 1
    history = list(context.protocol.ancestry(id))
    steps = history[: [each.id for each in history].index(before)]
    parts = 2 if prewritten else 3  # the small array's chunk is in a manifest of its own
    earlier = [f"all (part {number} of {parts})" for number in range(parts - 1, 0, -1)]
    assert [each.message for each in steps] == ["all", *earlier]
    assert found_in(open_session(context)) == "nnnnnnnn"
    logs = [context.assets.read_transaction_log(each.id) for each in reversed(steps)]
    places = [log.updated_chunks[node_of(state).id].ravel().tolist() for log in logs[:2]]
    assert places == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(log.new_arrays) for log in logs] == [1, 0, 0][:parts]


def test_many_manifests_are_adopted_over_other_edits_without_comparing_them_in_pairs(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = open_session(context)
    some = write(state, FIRST, 0, 1)
    boxes = [((4 * number, 4 * number + 2),) for number in range(1, 201)]
    many = [replace(some, box=each, extents=each, changed=None) for each in boxes]
    edits = state.changes.edit_chunks(node_of(state))
    edits.delete_many(rows(1, 4, 5))
    without, compared = coordinates.without, 0

    def count(*compared_rows: Coordinates) -> Coordinates:
        nonlocal compared
        compared += 1
        return without(*compared_rows)

    monkeypatch.setattr(coordinates, "without", count)

    for each in many:
        edits.adopt(each)

    assert compared < 10
    assert edits.columns()[1].tolist() == [[1]]
    assert edits.prewritten == tuple(many)
