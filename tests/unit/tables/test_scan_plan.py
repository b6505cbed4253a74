"""Tables of cells beside what Xarray and SQLite make of the same data."""

from collections import deque
from typing import Any

import pandas as pd
import pyarrow as pa
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import Repository, in_memory_storage
from frazil.tables.scan_plan import ScanPlan
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, open_table
from frazil.xarray import to_icechunk
from tests.unit.tables.worlds import World, as_set, conditions, filter_by_sqlite, worlds


def read(repo: Repository, **options: Any) -> pd.DataFrame:
    """All rows of a table."""
    table = open_table(open_source(Options(**options), repo))
    batches = [batch for part in table.partitions() for batch in table.read(part)]
    return pa.Table.from_batches(batches, table.schema).to_pandas(timestamp_as_object=True)


@given(world=worlds())
@settings(max_examples=25)
def test_cells_are_the_rows_that_xarray_makes(world: World) -> None:
    names = world.names
    expected = world.rows(names)

    found = read(world.repo, target_bytes=64)

    assert set(found.columns) == set(expected.columns)
    assert as_set(found, expected.columns) == as_set(expected, expected.columns)


def test_a_text_without_a_dimension_is_repeated() -> None:
    repo = Repository.create(in_memory_storage())
    session = repo.writable_session("main")
    dataset = xr.Dataset({"a": ("x", [1, 2, 3])}, {"run": "first"})
    to_icechunk(dataset, session, mode="w")
    session.commit("a run")

    assert read(repo)["run"].tolist() == ["first"] * 3
    assert read(repo, where="run = 'first' AND a > 1")["a"].tolist() == [2, 3]


@given(world=worlds(), data=st.data())
@settings(max_examples=25)
def test_conditions_keep_the_rows_that_another_engine_keeps(
    world: World, data: st.DataObject
) -> None:
    rows = world.rows(world.names)

    for condition in data.draw(st.lists(conditions(rows, rows.columns), min_size=1, max_size=6)):
        expected = filter_by_sqlite(rows, condition)
        found = read(world.repo, where=condition)

        assert as_set(found, rows.columns) == as_set(expected, rows.columns)


@given(world=worlds(), data=st.data())
@settings(max_examples=25)
def test_only_chunks_with_rows_that_are_wanted_are_read(world: World, data: st.DataObject) -> None:
    rows = world.rows(world.names)
    dims = [str(dim) for dim in world.dataset["a"].dims]

    for condition in data.draw(st.lists(conditions(rows, dims), min_size=1, max_size=6)):
        expected = filter_by_sqlite(rows, condition)
        options = Options(where=condition, columns=(*dims, "a"))
        table = open_table(open_source(options, world.repo))
        assert isinstance(table, ScanPlan)
        partitions = table.partitions()
        world.storage.chunks.clear()
        batches = [batch for part in partitions for batch in table.read(part)]
        read_chunks = sorted(world.storage.chunks)
        found = pa.Table.from_batches(batches, table.schema).to_pandas()

        needed = world.holders("a", expected)
        assert table.count_chunks()["a"].read == len(needed)
        assert read_chunks == sorted(world.written("a", needed))
        assert as_set(found, [*dims, "a"]) == as_set(expected, [*dims, "a"])


@given(world=worlds(), data=st.data())
@settings(max_examples=25)
def test_of_arrays_with_other_chunks_only_those_with_rows_are_read(
    world: World, data: st.DataObject
) -> None:
    names = world.names
    rows = world.rows(names)
    dims = [str(dim) for dim in world.dataset["a"].dims]
    condition = data.draw(conditions(rows, dims))
    expected = filter_by_sqlite(rows, condition)
    table = open_table(open_source(Options(where=condition), world.repo))
    partitions = table.partitions()
    world.storage.chunks.clear()

    for part in partitions:
        deque(table.read(part), maxlen=0)
    read_chunks = set(world.storage.chunks)

    needed = [key for name in names for key in world.written(name, world.holders(name, expected))]
    assert read_chunks == set(needed)
