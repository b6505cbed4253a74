"""Chunks that statistics rule out are not read, and no row is lost: random arrays and conditions."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil.tables.scan_plan import ScanPlan, plan_scan
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source
from tests.unit.tables.measured import analyse, find_fresh, find_needed
from tests.unit.tables.worlds import World, as_set, conditions, filter_by_sqlite, worlds


def check(world: World, condition: str, fresh: dict[str, NDArray[np.bool_]]) -> None:
    """Rows are those that another engine finds; no chunk is read that need not be."""
    rows = world.rows(world.names)
    expected = filter_by_sqlite(rows, condition)
    plan = plan_scan(open_source(Options(where=condition), world.repo))

    found, keys = read(world, plan)
    _, all_keys = read(world, replace(plan, truths={}))

    assert as_set(found, rows.columns) == as_set(expected, rows.columns)
    needed = find_needed(plan, fresh)
    assert keys == {key for name in needed for key in world.written(name, needed[name])}
    assert keys <= all_keys
    counted = {name: each.read for name, each in plan.count_chunks().items()}
    assert counted == {name: len(each) for name, each in needed.items()}


def read(world: World, plan: ScanPlan) -> tuple[Any, set[str]]:
    """The rows, and the chunks that were read for them."""
    table = plan
    partitions = table.partitions()
    world.storage.chunks.clear()
    batches = [batch for part in partitions for batch in table.read(part)]
    frame = pa.Table.from_batches(batches, table.schema).to_pandas(timestamp_as_object=True)
    return frame, set(world.storage.chunks)


@given(world=worlds(), data=st.data())
@settings(max_examples=25)
def test_with_fresh_statistics_as_few_chunks_are_read_as_they_allow(
    world: World, data: st.DataObject
) -> None:
    rows = world.rows(world.names)
    analyses = analyse(world.repo, [name for name in world.names if world.dataset[name].ndim])
    fresh = {name: np.ones(each.written.shape, np.bool_) for name, each in analyses.items()}

    for condition in data.draw(st.lists(conditions(rows, rows.columns), min_size=1, max_size=5)):
        check(world, condition, fresh)


@given(world=worlds(), data=st.data())
@settings(max_examples=25)
def test_what_changed_since_is_read(world: World, data: st.DataObject) -> None:
    names = [name for name in world.names if world.dataset[name].ndim]
    analyse(world.repo, data.draw(st.lists(st.sampled_from(names), unique=True)))
    name = data.draw(st.sampled_from(names))
    session = world.repo.writable_session("main")
    array: Any = zarr.open_array(session.store, path=name, mode="r+")
    part = tuple(slice(data.draw(st.integers(0, size - 1)), None) for size in array.shape)
    array[part] = 20 - np.asarray(array[part])
    session.commit("other values")
    rows = world.rows(world.names)
    session = world.repo.writable_session("main")
    fresh = {each: find_fresh(session, each) for each in names}

    for condition in data.draw(st.lists(conditions(rows, rows.columns), min_size=1, max_size=5)):
        check(world, condition, fresh)
