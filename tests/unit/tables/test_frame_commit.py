"""Rows are committed once, whatever others do meanwhile."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr

import frazil
from frazil import InvalidInputError, Repository
from frazil.errors import ConflictError
from frazil.repository.session import Session
from frazil.tables.frame_arrays import Target, measure
from frazil.tables.frame_commit import (
    Batch,
    Done,
    commit_rows,
    find_commit,
    find_last_batch,
    finish,
    open_attempt,
    prepare,
    retrying,
    write_rows,
)
from frazil.tables.frame_values import make_write_options

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

    with pytest.raises(InvalidInputError, match="the column v is string"):
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
