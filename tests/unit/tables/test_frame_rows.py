"""Rows of frames: written beside what Pandas makes of them, and committed once."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil import InvalidInputError, Repository
from frazil.errors import ConflictError
from frazil.repository.session import ForkSession, Session
from frazil.tables.frame_arrays import Target, find_dims, measure
from frazil.tables.frame_rows import (
    Batch,
    Done,
    StoredCells,
    assign_tasks,
    commit_rows,
    find_commit,
    find_last_batch,
    finish,
    join_cells,
    open_attempt,
    prepare,
    retrying,
    write_cells,
    write_part,
    write_rows,
)
from frazil.tables.table_options import Options, make_write_options
from frazil.tables.table_source import open_source, open_table
from tests.unit.tables.worlds import World, as_set, conditions, filter_by_sqlite, worlds


def read_rows(repo: Repository, **options: Any) -> pa.Table:
    """All rows of the cells of a group."""
    table = open_table(open_source(Options(**options), repo))
    batches = [batch for part in table.partitions() for batch in table.read(part)]
    return pa.Table.from_batches(batches, table.schema)


def as_frame(table: pa.Table) -> pd.DataFrame:
    """Rows for Pandas, nulls as None."""
    frame = table.to_pandas(timestamp_as_object=True)
    return frame.astype(object).where(frame.notna(), None)


def dims_of(world: World) -> list[str]:
    """Those of the array that has all."""
    return [str(dim) for dim in world.dataset["a"].dims]


def change(table: pa.Table, generator: np.random.Generator) -> pa.Table:
    """The same rows with the values of `a` among each other exchanged."""
    values = table["a"].combine_chunks().take(pa.array(generator.permutation(table.num_rows)))
    return table.set_column(table.column_names.index("a"), "a", values)


def choose(table: pa.Table, generator: np.random.Generator) -> pa.Table:
    """Some rows, in any order."""
    chosen = np.flatnonzero(generator.random(table.num_rows) < 0.5)
    return table.take(pa.array(generator.permutation(chosen), pa.int64()))


def lay_over(old: pa.Table, new: pa.Table, dims: list[str]) -> pd.DataFrame:
    """Rows by their coordinates, the newer ones where there are two."""
    both = pd.concat([as_frame(old), as_frame(new)])
    return both.drop_duplicates(dims, keep="last")


@given(world=worlds(), seed=st.integers(0, 1000))
@settings(max_examples=15)
def test_cells_that_are_given_change_and_others_stay(world: World, seed: int) -> None:
    generator = np.random.default_rng(seed)
    before = read_rows(world.repo)
    given_rows = choose(change(before, generator), generator)
    expected = lay_over(before, given_rows, dims_of(world))

    commit_rows(world.repo, make_write_options(), given_rows)

    after = as_frame(read_rows(world.repo))
    assert as_set(after, before.column_names) == as_set(expected, before.column_names)


@given(world=worlds(), seed=st.integers(0, 1000), most_tasks=st.integers(1, 5))
@settings(max_examples=15)
def test_tasks_write_what_one_process_writes(world: World, seed: int, most_tasks: int) -> None:
    generator = np.random.default_rng(seed)
    before = read_rows(world.repo)
    rows = choose(change(before, generator), generator)
    expected = lay_over(before, rows, dims_of(world))
    options = make_write_options()
    session = open_attempt(world.repo, options, None)
    facts = measure(rows, find_dims(session, options, rows.column_names))
    target = prepare(session, options, rows.schema, facts)
    sharing = assign_tasks(target, most_tasks)
    base = session.fork()

    owners = sharing.assign(rows)
    forks: list[ForkSession] = []
    shared: list[StoredCells] = []
    for task in range(sharing.tasks):
        own = rows.take(pa.array(np.flatnonzero(owners == task)))
        fork = pickle.loads(pickle.dumps(base))
        if own.num_rows:
            shared += write_part(fork, options, target, own)
            forks.append(fork)
    session.merge(*forks)
    for name in {each.name for each in shared}:
        parts = [each for each in shared if each.name == name]
        write_cells(session, target, join_cells(target, parts))
    finish(session, options, target, None)

    after = as_frame(read_rows(world.repo))
    assert as_set(after, before.column_names) == as_set(expected, before.column_names)


@given(world=worlds(), seed=st.integers(0, 1000), length=st.integers(1, 4))
@settings(max_examples=15)
def test_arrays_are_made_of_rows_and_grow_with_them(world: World, seed: int, length: int) -> None:
    generator = np.random.default_rng(seed)
    dims = dims_of(world)
    rows = read_rows(world.repo)
    first = dims[0]
    ordered = rows.sort_by(first)
    labels = sorted(set(ordered[first].to_pylist()))
    middle = labels[generator.integers(0, len(labels))]
    is_old = pa.array([each <= middle for each in rows[first].to_pylist()])
    options: dict[str, Any] = {"group": "copy", "append_dim": first, "chunks": {first: length}}
    shuffled = pa.array(generator.permutation(rows.num_rows))

    commit_rows(world.repo, make_write_options(dims=dims, **options), rows.filter(is_old))
    commit_rows(world.repo, make_write_options(**options), rows.take(shuffled))

    found = as_frame(read_rows(world.repo, group="copy"))
    assert as_set(found, rows.column_names) == as_set(as_frame(rows), rows.column_names)


@given(world=worlds(), seed=st.integers(0, 1000), data=st.data())
@settings(max_examples=15)
def test_an_overwritten_region_has_only_the_rows_that_are_given(
    world: World, seed: int, data: st.DataObject
) -> None:
    generator = np.random.default_rng(seed)
    rows = read_rows(world.repo, variables=("a",))
    frame, dims = as_frame(rows), dims_of(world)
    plain = frame.assign(**{d: frame[d].map(_plain) for d in dims})
    condition = data.draw(conditions(plain, dims))
    inside = filter_by_sqlite(plain, condition).index
    kept = inside[generator.random(len(inside)) < 0.5]
    empty = None if rows.schema.field("a").type in (pa.float32(), pa.float64()) else 0
    expected = frame.copy()
    expected.loc[inside.difference(kept), "a"] = empty

    options = make_write_options(mode="overwrite", replace_where=condition)
    commit_rows(world.repo, options, rows.take(pa.array(kept, pa.int64())))

    found = as_frame(read_rows(world.repo, variables=("a",)))
    assert as_set(found, rows.column_names) == as_set(expected, rows.column_names)


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


@pytest.mark.parametrize("how", ["first", "last", "sum", "mean", "min", "max"])
def test_rows_for_one_cell_are_reduced_as_pandas_does(how: str) -> None:
    generator = np.random.default_rng(3)
    places = generator.integers(0, 6, (60, 2))
    values = np.where(generator.random(60) < 0.2, np.nan, generator.integers(0, 9, 60) / 4)
    frame = pd.DataFrame({"y": places[:, 0], "x": places[:, 1], "v": values})
    repo = Repository.create(frazil.in_memory_storage())
    options = make_write_options(dims=("y", "x"), chunks={"y": 2, "x": 4}, duplicates=how)

    commit_rows(repo, options, pa.Table.from_pandas(frame, preserve_index=False))

    grouped = frame.groupby(["y", "x"], as_index=False)["v"]
    reduced = {
        "first": lambda: grouped.nth(0), "last": lambda: grouped.nth(-1),
        "sum": lambda: grouped.sum(min_count=1),
    }.get(how, lambda: getattr(grouped, how)())()  # fmt: skip
    values_by_cell = reduced["v"] if isinstance(reduced, pd.DataFrame) else reduced
    cells = frame.loc[values_by_cell.index, ["y", "x"]] if how in ("first", "last") else reduced
    expected = cells[["y", "x"]].assign(v=values_by_cell).dropna()
    found = as_frame(read_rows(repo)).dropna()
    assert as_set(found, ["y", "x", "v"]) == as_set(expected, ["y", "x", "v"])


OPTIONS = make_write_options(append_dim="t")


def batch_rows(number: int) -> pa.Table:
    """The rows of a batch."""
    return pa.table({"t": [2 * number, 2 * number + 1], "v": [float(number)] * 2})


@pytest.fixture
def repo() -> Repository:
    """One with the first batch of a stream."""
    made = Repository.create(frazil.in_memory_storage())
    options = make_write_options(dims=("t",), append_dim="t", chunks={"t": 2})
    commit_rows(made, options, batch_rows(0), Batch("q", 0))
    return made


def values(repo: Repository) -> list[float]:
    """What is in the array."""
    store = repo.readonly_session("main").store
    found: list[float] = xr.open_zarr(store, consolidated=False, chunks=None).v.values.tolist()
    return found


def count_commits(repo: Repository) -> int:
    """How many there are."""
    return len(list(repo.ancestry(branch="main")))


def test_a_batch_that_comes_again_is_left_out(repo: Repository) -> None:
    first = commit_rows(repo, OPTIONS, batch_rows(1), Batch("q", 1))

    again = commit_rows(repo, OPTIONS, batch_rows(5), Batch("q", 1))

    assert again == first
    assert values(repo) == [0, 0, 1, 1]


def test_queries_have_batches_of_their_own(repo: Repository) -> None:
    commit_rows(repo, OPTIONS, batch_rows(1), Batch("another/query", 0))

    session = repo.readonly_session("main")
    assert find_last_batch(session, "another/query") == 0
    assert values(repo) == [0, 0, 1, 1]


def test_a_batch_is_known_when_its_commit_has_expired(repo: Repository) -> None:
    for number in (1, 2):
        commit_rows(repo, OPTIONS, batch_rows(number), Batch("q", number))
    repo.expire_snapshots(datetime.now(UTC) + timedelta(days=1))
    repo.garbage_collect(datetime.now(UTC) + timedelta(days=1))

    again = commit_rows(repo, OPTIONS, batch_rows(1), Batch("q", 1))

    assert again is None
    assert values(repo) == [0, 0, 1, 1, 2, 2]


def test_a_token_finds_its_commit_and_makes_it_once(repo: Repository) -> None:
    options = make_write_options(append_dim="t", commit_token="one", message="rows")

    first = commit_rows(repo, options, batch_rows(1))
    again = commit_rows(repo, options, batch_rows(2))

    assert first == again == find_commit(repo, "one")
    assert find_commit(repo, "two") is None
    assert values(repo) == [0, 0, 1, 1]
    assert repo.lookup_snapshot(str(first)).message == "rows"


def test_a_bad_batch_changes_nothing_and_can_be_corrected(repo: Repository) -> None:
    bad = batch_rows(1).set_column(1, "v", pa.array(["a", "b"]))
    before = count_commits(repo)

    with pytest.raises(InvalidInputError, match="can't cast the column v from string"):
        commit_rows(repo, OPTIONS, bad, Batch("q", 1))

    assert count_commits(repo) == before
    commit_rows(repo, OPTIONS, batch_rows(1), Batch("q", 1))
    assert values(repo) == [0, 0, 1, 1]


def write_without_commit(repo: Repository, rows: pa.Table, batch: Batch) -> tuple[Session, Target]:
    """An attempt up to its commit."""
    session = open_attempt(repo, OPTIONS, batch)
    target = prepare(session, OPTIONS, rows.schema, measure(rows, ("t",)))
    write_rows(session, OPTIONS, target, rows)
    return session, target


def test_a_batch_lands_over_what_others_have_committed_elsewhere(repo: Repository) -> None:
    session, target = write_without_commit(repo, batch_rows(1), Batch("q", 1))
    with repo.transaction("main", message="elsewhere") as store:
        zarr.create_array(store, name="other/x", shape=(1,), dtype="i4")[:] = 5

    finish(session, OPTIONS, target, Batch("q", 1))

    assert values(repo) == [0, 0, 1, 1]
    store = repo.readonly_session("main").store
    assert np.asarray(zarr.open_array(store, path="other/x", mode="r")[:]).tolist() == [5]
    with pytest.raises(Done):
        open_attempt(repo, OPTIONS, Batch("q", 1))


def test_the_same_batch_from_two_writers_lands_once(repo: Repository) -> None:
    rows, batch = batch_rows(1), Batch("q", 1)
    waiting = [write_without_commit(repo, rows, batch) for _ in range(2)]
    finish(waiting[0][0], OPTIONS, waiting[0][1], batch)

    with pytest.raises(ConflictError):
        finish(waiting[1][0], OPTIONS, waiting[1][1], batch)

    assert commit_rows(repo, OPTIONS, rows, batch) == repo.lookup_branch("main")
    assert values(repo) == [0, 0, 1, 1]


def test_rows_are_placed_anew_where_coordinates_have_changed(repo: Repository) -> None:
    options = make_write_options()
    rows = pa.table({"t": [1], "v": [9.0]})
    attempts: list[Session] = []

    def attempt() -> str:
        session = open_attempt(repo, options, None)
        target = prepare(session, options, rows.schema, measure(rows, ("t",)))
        write_rows(session, options, target, rows)
        if not attempts:
            with repo.transaction("main", message="the other way round") as store:
                zarr.open_array(store, path="t", mode="r+")[:] = [1, 0]
        attempts.append(session)
        return finish(session, options, target, None)

    retrying(attempt)

    assert len(attempts) == 2
    assert values(repo) == [9, 0]
