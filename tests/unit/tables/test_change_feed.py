"""Changes of commits: cells before and after, every generation, and a branch followed as a stream."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil import Repository
from frazil.errors import ConflictError, InvalidInputError, SnapshotNotFoundError
from frazil.tables.change_feed import BEGINNING, CommitStream, open_stream
from frazil.tables.table_options import Options, parse_options
from frazil.tables.table_source import open_source
from frazil.urls import make_ref
from frazil.xarray import to_icechunk
from tests.unit.tables.rows import read_rows, read_table

DAYS = np.arange("2020-01-01", "2020-03-01", dtype="datetime64[D]").astype("datetime64[ns]")


def make_dataset(days: int) -> xr.Dataset:
    values = np.arange(days * 4, dtype="f4").reshape(days, 4)
    coordinates = {"time": DAYS[:days], "lat": [10.0, 20.0, 30.0, 40.0]}
    return xr.Dataset({"t": (("time", "lat"), values)}, coords=coordinates)


def make_repository(days: int = 6) -> Repository:
    repo = Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    to_icechunk(make_dataset(days), session, encoding={"t": {"chunks": (2, 2)}})
    session.commit("first")
    return repo


def cells_of(repo: Repository, id: str) -> dict[Any, float | None]:
    """All cells of a version as Xarray reads them."""
    store: Any = repo.readonly_session(snapshot_id=id).store
    opened = xr.open_zarr(store, consolidated=False, chunks=None)["t"]
    frame = opened.to_dataframe().reset_index()
    return {
        (str(row.time), float(row.lat)): None if np.isnan(row.t) else float(row.t)
        for row in frame.itertuples()
    }


def reported(rows: list[dict[str, Any]], name: str) -> dict[Any, float | None]:
    return {(str(row["time"].replace(tzinfo=None)), row["lat"]): row[name] for row in rows}


@given(
    edits=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.floats(-9, 9, width=32)),
        min_size=1,
        max_size=5,
    ),
    days=st.integers(1, 7),
)
@settings(max_examples=15)
def test_old_and_new_are_what_both_versions_have(
    edits: list[tuple[int, int, float]], days: int
) -> None:
    repo = make_repository(days)
    before = repo.lookup_branch("main")
    session = repo.writable_session("main")
    array: Any = zarr.open_group(session.store)["t"]
    places = set()
    for row, column, value in edits:
        if row < days:
            array[row, column] = value
            places.add((row // 2, column // 2))
    if not places:
        return
    after = session.commit("edited")

    rows = read_rows(repo, "changes", from_=before, values="true", variables=("t",))

    old, new = cells_of(repo, before), cells_of(repo, after)
    lats = [10.0, 20.0, 30.0, 40.0]
    keys = {
        (str(DAYS[2 * y + dy].astype("datetime64[us]").item()), lats[2 * x + dx])
        for y, x in places
        for dy in range(2)
        for dx in range(2)
        if 2 * y + dy < days
    }
    assert reported(rows, "old") == {key: old[key] for key in keys}
    assert reported(rows, "new") == {key: new[key] for key in keys}
    assert len(rows) == len(keys)
    assert {row["snapshot_id"] for row in rows} == {after}


def test_cells_that_were_appended_had_no_value_before() -> None:
    repo = make_repository(3)
    session = repo.writable_session("main")
    more = make_dataset(5).isel(time=slice(3, 5))
    to_icechunk(more, session, append_dim="time")
    session.commit("appended")

    rows = read_rows(repo, "changes", values="true", variables=("t",))

    first = [row for row in rows if row["message"] == "first"]
    appended = [row for row in rows if row["message"] == "appended"]
    assert [row["old"] for row in first] == [None] * 12
    # The third day was in the chunk that the fourth came into.
    assert [(row["time"].day, row["old"] is None) for row in appended if row["lat"] == 10.0] == [
        (3, False), (4, True), (5, True),
    ]  # fmt: skip
    assert reported(appended, "new").items() <= cells_of(repo, repo.lookup_branch("main")).items()


def test_an_array_that_was_moved_keeps_its_old_values() -> None:
    repo = make_repository()
    session = repo.rearrange_session("main")
    session.move("/t", "/u")
    moved = session.commit("moved")
    session = repo.writable_session("main")
    array: Any = zarr.open_group(session.store)["u"]
    array[0, 0] = -1.0
    session.commit("edited")

    rows = read_rows(repo, "changes", from_=moved, values="true", variables=("u",))

    assert [(row["old"], row["new"]) for row in rows] == [(0, -1), (1, 1), (4, 4), (5, 5)]


def test_deleted_chunks_have_no_new_values() -> None:
    repo = make_repository()
    session = repo.writable_session("main")
    # A whole chunk of the fill value is not written, and the old one is deleted.
    array: Any = zarr.open_group(session.store)["t"]
    array[0:2, 0:2] = np.nan
    session.commit("emptied")

    rows = read_rows(repo, "changes", from_="latest", to="main")
    feed = read_rows(repo, "changes", values="true", variables=("t",))

    assert rows == []
    emptied = [row for row in feed if row["message"] == "emptied"]
    assert [(row["old"], row["new"]) for row in emptied] == [
        (0, None),
        (1, None),
        (4, None),
        (5, None),
    ]
    kinds = [r["change"] for r in read_rows(repo, "changes") if r["message"] == "emptied"]
    assert kinds == ["chunk_deleted"]


def test_bounds_are_what_the_coordinates_of_chunks_span() -> None:
    repo = make_repository(5)

    rows = [row for row in read_rows(repo, "chunks") if row["array"] == "/t"]

    assert len(rows) == 6
    for row in rows:
        bounds, (y, x) = dict(row["bounds"]), row["chunk"]
        days = DAYS[:5][2 * y : 2 * y + 2].astype("datetime64[us]").tolist()
        times = (bounds["time"]["lower_time"], bounds["time"]["upper_time"])
        assert tuple(each.replace(tzinfo=None) for each in times) == (days[0], days[-1])
        assert (bounds["time"]["lower"], bounds["lat"]["lower_time"]) == (None, None)
        assert (bounds["lat"]["lower"], bounds["lat"]["upper"]) == (20.0 * x + 10, 20.0 * x + 20)


def test_columns_can_be_chosen() -> None:
    repo = make_repository()

    chunks = read_table(repo, "chunks", columns=("kind", "array"))
    feed = read_table(repo, "changes", columns=("path",))
    cells = read_table(repo, "changes", columns=("new", "lat"), values="true", variables=("t",))

    assert (chunks.column_names, feed.column_names) == (["kind", "array"], ["path"])
    assert cells.column_names == ["new", "lat"]
    with pytest.raises(InvalidInputError, match="unknown column 'nothing'"):
        read_table(repo, "nodes", columns=("nothing",))
    with pytest.raises(InvalidInputError, match="takes no option `where`"):
        read_table(repo, "nodes", where="path = '/t'")


def test_what_can_be_no_feed_is_refused() -> None:
    repo = make_repository()
    repo.create_branch("dev", repo.lookup_branch("main"))
    session = repo.writable_session("dev")
    zarr.create_array(session.store, name="u", shape=(4,), dtype="i4", dimension_names=("lat",))
    session.commit("another")

    with pytest.raises(InvalidInputError, match="reads one array"):
        read_rows(repo, "changes", values="true", to="dev")
    with pytest.raises(InvalidInputError, match="give true or false"):
        read_rows(repo, "changes", values="perhaps")
    with pytest.raises(InvalidInputError, match="no ancestor"):
        read_rows(repo, "changes", from_="dev", to="main")


def test_a_chunk_is_shared_as_long_as_another_version_has_it() -> None:
    repo = Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    array: Any = zarr.create_array(
        session.store, name="a", shape=(4, 512), chunks=(1, 512), dtype="f8", compressors=None
    )
    array[:] = 1.0
    session.commit("first")
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path="a")
    array[0] = 2.0
    session.commit("second")

    (row,) = read_rows(repo, "storage")

    assert (row["kind"], row["references"], row["bytes"]) == ("native", 4, 4 * 4096)
    assert (row["shared_bytes"], row["unique_bytes"]) == (3 * 4096, 4096)


def test_changes_are_what_differs_between_each_two_versions(generation: Repository) -> None:
    line = list(generation.ancestry(branch="main"))
    expected = Counter[Any]()
    for info, parent in pairwise(line):
        diff = generation.diff(from_snapshot_id=parent.id, to_snapshot_id=info.id)
        kinds = {
            "group_created": diff.new_groups, "group_deleted": diff.deleted_groups,
            "group_updated": diff.updated_groups, "array_created": diff.new_arrays,
            "array_deleted": diff.deleted_arrays, "array_updated": diff.updated_arrays,
        }  # fmt: skip
        expected.update((info.id, kind, path) for kind, paths in kinds.items() for path in paths)
        expected.update((info.id, "node_moved", source, to) for source, to in diff.moved_nodes)
        view = generation.readonly_session(snapshot_id=info.id).state.view
        for path, places in diff.updated_chunks.items():
            node = view.find_node(path)
            refs = {} if node is None or node.array is None else view.table(node).refs()
            for place in map(tuple, places):
                change = "chunk_set" if place in refs else "chunk_deleted"
                expected[(info.id, change, path, place)] += 1

    found = read_rows(generation, "changes", from_=line[-1].id)

    assert Counter(map(_key, found)) == expected


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    if row["change"] == "node_moved":
        return (row["snapshot_id"], row["change"], row["from_path"], row["path"])
    key = (row["snapshot_id"], row["change"], row["path"])
    return key if row["chunk"] is None else (*key, tuple(row["chunk"]))


@pytest.fixture
def repo() -> Repository:
    """With five commits, one of them the first of all."""
    made = Repository.create(frazil.in_memory_storage())
    for number in range(4):
        commit(made, f"group{number}")
    return made


def commit(repo: Repository, name: str, branch: str = "main") -> str:
    session = repo.writable_session(branch)
    zarr.create_group(session.store, path=name)
    return session.commit(name)


def follow(repo: Repository, **more: str) -> CommitStream:
    return open_stream(open_source(Options(table="changes", more=more), repo))


def line(repo: Repository, branch: str = "main") -> list[str]:
    return [info.id for info in repo.ancestry(branch=branch)][::-1]


def run(stream: CommitStream, place: str, most: int | None = None) -> tuple[list[list[str]], str]:
    """Batches until there is nothing new, and where that is."""
    batches: list[list[str]] = []
    for _ in range(100):
        end = stream.latest(place, most)
        if end == place:
            return batches, place
        batches.append([commit.message for commit in stream.between(place, end)])
        place = end
    raise AssertionError("the stream never ends")


def test_each_commit_comes_once_in_batches_of_the_limit(repo: Repository) -> None:
    stream = follow(repo)

    batches, place = run(stream, stream.initial(), most=2)
    commit(repo, "later")
    more, _ = run(stream, place, most=2)

    assert batches == [["Repository initialized", "group0"], ["group1", "group2"], ["group3"]]
    assert more == [["later"]]


def test_a_stream_begins_where_it_is_asked_to(repo: Repository) -> None:
    ids = line(repo)
    repo.create_tag("v1", ids[2])

    places = [
        follow(repo, **{"from": each}).initial() for each in ("earliest", "latest", "v1", ids[1])
    ]

    assert places == [BEGINNING, ids[-1], ids[2], ids[1]]
    assert run(follow(repo), ids[2])[0] == [["group2", "group3"]]


def test_nothing_behind_the_target_is_read(repo: Repository) -> None:
    stream = follow(repo)
    target = stream.tip()
    commit(repo, "later")

    assert stream.latest(BEGINNING, None, target) == target
    assert stream.latest(target, None, target) == target


def test_a_batch_that_is_run_again_has_the_same_commits(repo: Repository) -> None:
    stream, ids = follow(repo), line(repo)
    before = stream.between(ids[1], ids[3])

    commit(repo, "later")

    assert stream.between(ids[1], ids[3]) == before
    assert [each.id for each in before] == ids[2:4]
    assert stream.between(ids[3], ids[3]) == []


def reset(repo: Repository) -> str:
    """Read to the tip, then let the branch go another way from its third commit on."""
    ids = line(repo)
    repo.reset_branch("main", ids[2])
    commit(repo, "other")
    commit(repo, "other2")
    return ids[-1]


def test_a_reset_is_an_error_that_says_what_to_select(repo: Repository) -> None:
    place = reset(repo)

    with pytest.raises(ConflictError, match="on_reset"):
        follow(repo).latest(place)
    with pytest.raises(ConflictError, match="was reset"):
        follow(repo).between(place, line(repo)[-1])


def test_after_a_reset_it_goes_on_where_the_histories_part(repo: Repository) -> None:
    place = reset(repo)
    stream = follow(repo, on_reset="ancestor")

    batches, _ = run(stream, place, most=1)

    assert batches == [["other"], ["other2"]]


def test_after_a_reset_it_goes_on_at_the_tip(repo: Repository) -> None:
    place = reset(repo)
    stream = follow(repo, on_reset="latest")

    batches, place = run(stream, place)
    commit(repo, "later")

    assert batches == [[]]
    assert run(stream, place)[0] == [["later"]]


def test_a_branch_that_was_reset_to_an_older_commit_has_nothing_new(repo: Repository) -> None:
    ids = line(repo)
    repo.reset_branch("main", ids[2])
    stream = follow(repo, on_reset="ancestor")

    batches, place = run(stream, ids[-1])

    assert (batches, place) == ([[]], ids[2])


def expire(repo: Repository) -> str:
    """Come to the second commit, which then expires with all but the newest."""
    place = line(repo)[1]
    repo.expire_snapshots(datetime.now(UTC) + timedelta(days=1))
    return place


def test_an_expired_place_is_an_error_that_says_what_to_select(repo: Repository) -> None:
    place = expire(repo)

    with pytest.raises(SnapshotNotFoundError, match="on_expired"):
        follow(repo).latest(place)
    with pytest.raises(SnapshotNotFoundError, match="expired"):
        follow(repo).between(BEGINNING, place)


def test_after_expiry_it_reads_all_that_is_left(repo: Repository) -> None:
    place = expire(repo)
    left = [info.message for info in repo.ancestry(branch="main")][::-1]
    stream = follow(repo, on_expired="earliest")

    batches, _ = run(stream, place, most=1)

    assert [message for batch in batches for message in batch] == left
    assert stream.between(BEGINNING, place) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_commits": "0"}, "max_commits"),
        ({"max_commits": "many"}, "max_commits"),
        ({"on_reset": "perhaps"}, "ancestor"),
        ({"on_expired": "ancestor"}, "earliest"),
        ({"to": "main"}, "no end"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    repo: Repository, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        follow(repo, **options)


def test_a_stream_follows_the_branch_that_is_named(repo: Repository) -> None:
    repo.create_branch("dev", line(repo)[1])
    commit(repo, "on dev", "dev")
    dev = Options(ref=make_ref(branch="dev"), table="changes")
    tag = parse_options({"table": "changes", "snapshot": line(repo)[1]})

    stream = open_stream(open_source(dev, repo))

    assert run(stream, line(repo)[1])[0] == [["on dev"]]
    with pytest.raises(InvalidInputError, match="branch"):
        open_stream(open_source(tag, repo))
