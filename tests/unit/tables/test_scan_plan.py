"""Tables of cells beside what Xarray and SQLite make of the same data."""

import pickle
from collections import deque
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import Repository, in_memory_storage
from frazil.tables.columns import GroupArrays
from frazil.tables.scan_plan import ScanPlan, plan_scan
from frazil.tables.table_options import Options, parse_options
from frazil.tables.table_source import open_source, open_table
from frazil.xarray import to_icechunk
from tests.unit.tables.worlds import (
    WatchedStorage,
    World,
    as_set,
    conditions,
    count_calls,
    count_coordinate_reads,
    filter_by_sqlite,
    make_weather,
    worlds,
)


def read(repo: Repository, **options: Any) -> pd.DataFrame:
    """All rows of a table, which are the same when they are packed in lists."""
    table = open_table(open_source(Options(**options), repo))
    batches = [batch for part in table.partitions() for batch in table.read(part)]
    rows = pa.Table.from_batches(batches, table.schema)
    if isinstance(table, ScanPlan):
        packed = [batch for part in table.partitions() for batch in table.read_packed(part)]
        assert unpack(pa.Table.from_batches(packed, table.packed_schema)).equals(rows)
    return rows.to_pandas(timestamp_as_object=True)


def unpack(packed: pa.Table) -> pa.Table:
    """One row per element of the lists; NaN is null."""
    columns = {}
    for field in packed.schema:
        values = pc.list_flatten(packed[field.name])
        assert field.type.value_field.nullable or not values.null_count
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), None, values)
        columns[field.name] = values
    return pa.table(columns)


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


@pytest.mark.parametrize("options", [
    Options(),
    Options(columns=("a",), where="lat > 1 AND hour(time) = 0",
            engine_filters=True, engine_text="lat time"),
    parse_options({"variables": "a", "columns": "a,lon", "where": "a > 5"}),
    parse_options({"layout": "chunks", "variables": "a"}),
])  # fmt: skip
def test_a_table_looks_up_metadata_once_and_reads_each_chunk_of_a_coordinate_once(
    options: Options,
) -> None:
    world = make_weather()
    world.storage.chunks.clear()

    def plan() -> Any:
        table = open_table(open_source(options, world.repo))
        return table, table.partitions()

    (table, partitions), counts = count_calls(
        plan, plan_scan, GroupArrays._find_columns, GroupArrays._open
    )

    reads = count_coordinate_reads(world)
    assert set().union(*reads.values()) <= {0, 1}
    assert counts == [1, 1, 1]
    # Tasks read no coordinates at all.
    sent, parts = pickle.loads(pickle.dumps((table, partitions)))
    batches = [batch for part in parts for batch in sent.read(part)]
    copy = replace(world, storage=sent_storage(sent))
    copy.storage.chunks = copy.storage.chunks[len(world.storage.chunks) :]
    assert batches
    assert copy.storage.chunks
    assert count_coordinate_reads(copy) == {}


def sent_storage(table: Any) -> WatchedStorage:
    """The storage of a table in a task."""
    plan = table if isinstance(table, ScanPlan) else table.plan
    storage = plan.arrays.session.state.assets.storage
    assert isinstance(storage, WatchedStorage)
    return storage
