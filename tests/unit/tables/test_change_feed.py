"""Cells before and after commits, beside what Xarray reads of both versions."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil import Repository
from frazil.errors import InvalidInputError
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


def told(rows: list[dict[str, Any]], name: str) -> dict[Any, float | None]:
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
    assert told(rows, "old") == {key: old[key] for key in keys}
    assert told(rows, "new") == {key: new[key] for key in keys}
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
    assert told(appended, "new").items() <= cells_of(repo, repo.lookup_branch("main")).items()


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

    with pytest.raises(InvalidInputError, match="about one array"):
        read_rows(repo, "changes", values="true", to="dev")
    with pytest.raises(InvalidInputError, match="true or false"):
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
