"""What is written reads back as the same values, or is refused by name."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr

import frazil
from frazil import InvalidInputError, Repository
from frazil.tables.frame_rows import commit_rows
from frazil.tables.table_options import Options, make_write_options
from frazil.tables.table_source import open_source, open_table
from frazil.tables.xarray_values import from_dataset, to_dataset
from frazil.xarray import to_icechunk

DAYS = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
ENCODING = {
    "packed": {"dtype": "i2", "scale_factor": 0.1, "add_offset": 5.0, "_FillValue": -999},
    "when": {"dtype": "i4", "units": "hours since 2000-01-01", "_FillValue": -1},
    "time": {"dtype": "i4", "units": "days since 2000-01-01"},
    "count": {"dtype": "u4"},
    "single": {"dtype": "f4"},
}


@pytest.fixture
def repo() -> Repository:
    """Two days, of each kind of array one."""
    made = Repository.create(frazil.in_memory_storage())
    session = made.writable_session("main")
    dataset = xr.Dataset(
        {
            "packed": ("time", [1.5, np.nan]),
            "when": ("time", DAYS),
            "count": ("time", np.array([1, 2], "u4")),
            "single": ("time", np.array([1, 2], "f4")),
            "text": ("time", np.array(["a", "b"], object)),
            "flag": ("time", [True, False]),
            "sky": ("time", np.array([1 + 2j, 3])),
        },
        {"time": DAYS},
    )
    to_icechunk(dataset, session, mode="w", encoding=ENCODING)
    session.commit("two days")
    return made


def rows(**columns: Any) -> pa.Table:
    """Two rows, for the two days."""
    days = pa.array([datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2)])
    return pa.table({"time": days.cast(pa.timestamp("us", "Europe/Paris")), **columns})


def read(repo: Repository) -> xr.Dataset:
    """What is on main."""
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None).load()
    return found


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("packed", pa.array([7.3, None])),
        ("packed", pa.array([-20.0, 3.2], pa.float32())),
        ("when", pa.array([datetime(2021, 5, 6, 7, tzinfo=UTC), None])),
        ("count", pa.array([4_000_000_000, 0])),
        ("count", pa.array([3.0, 4.0])),
        ("single", pa.array([None, 0.5])),
        ("text", pa.array(["", "ü"])),
        ("flag", pa.array([False, True])),
        ("sky", pa.array([{"re": 1.0, "im": 2.0}, {"re": 0.0, "im": -1.0}])),
    ],
)
def test_values_read_back_as_they_were(repo: Repository, name: str, values: pa.Array) -> None:
    commit_rows(repo, make_write_options(), rows(**{name: values}))

    table = open_table(open_source(Options(variables=(name,)), repo))
    (batch,) = [batch for part in table.partitions() for batch in table.read(part)]
    found = batch[name].to_pylist()
    expected = values.to_pylist()
    assert found == pytest.approx(expected) if name in ("packed", "single") else found == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"packed": [1e6, 0]}, "can't store 1000000.0 of the column packed as int16"),
        ({"when": [datetime(2020, 1, 1, 0, 30, tzinfo=UTC)] * 2}, "column when"),
        ({"count": pa.array([1, None])}, "the column count has nulls"),
        ({"count": [-1, 2]}, "column count"),
        ({"count": [1.5, 2]}, "can't cast the column count from double"),
        ({"single": [1e300, 0]}, "1e+300 of the column single is too large"),
        ({"text": pa.array(["a", None])}, "the column text has nulls"),
        ({"flag": ["what", "x"]}, "can't cast the column flag from string"),
        ({"when": ["2020-01-01", "x"]}, "can't cast the column when from string"),
        ({"unheard": [1, 2]}, "has no array unheard"),
        ({}, "no column besides coordinates"),
    ],
)
def test_values_that_would_read_back_as_others_are_refused(
    repo: Repository, columns: dict[str, Any], message: str
) -> None:
    before = repo.lookup_branch("main")

    with pytest.raises(InvalidInputError) as caught:
        commit_rows(repo, make_write_options(), rows(**columns))

    assert message in str(caught.value)
    assert repo.lookup_branch("main") == before


def test_decimals_become_the_nearest_numbers() -> None:
    made = Repository.create(frazil.in_memory_storage())
    session = made.writable_session("main")
    to_icechunk(xr.Dataset({"v": ("x", [0.0, 0.0])}, {"x": [0.1, 0.3]}), session, mode="w")
    session.commit("zeros")

    given = [Decimal("0.3"), Decimal("-9999.9")]
    table = pa.table({"x": pa.array([Decimal("0.1"), Decimal("0.3")]), "v": pa.array(given)})
    commit_rows(made, make_write_options(), table)

    assert read(made).v.values.tolist() == [0.3, -9999.9]


def test_a_text_longer_than_those_of_the_array_is_refused() -> None:
    made = Repository.create(frazil.in_memory_storage())
    session = made.writable_session("main")
    texts = xr.Dataset({"a": ("x", np.array(["ab", "c"])), "b": ("x", np.array([b"ab", b"c"]))})
    to_icechunk(texts.assign_coords(x=[0, 1]), session, mode="w")
    before = session.commit("texts")
    for name, values in (("a", ["abc", "d"]), ("b", [b"abc", b"d"])):
        with pytest.raises(InvalidInputError, match=f"can't store .*abc.* of the column {name}"):
            commit_rows(made, make_write_options(), pa.table({"x": [0, 1], name: values}))
    assert made.lookup_branch("main") == before

    commit_rows(made, make_write_options(), pa.table({"x": [0, 1], "a": ["", "ü"]}))

    assert read(made).a.values.tolist() == ["", "ü"]


def test_a_coordinate_that_is_kept_can_only_be_repeated_or_added() -> None:
    made = Repository.create(frazil.in_memory_storage())
    session = made.writable_session("main")
    dataset = xr.Dataset(
        {"v": ("x", [0.0, 0.0])}, {"x": [0, 1], "land": ("x", ["a", "b"]), "height": 2.0}
    )
    to_icechunk(dataset, session, mode="w")
    session.commit("zeros")
    options = make_write_options(kept=("land", "height"), append_dim="x")
    for name, values in (("land", ["a", "c"]), ("height", [3.0, 3.0])):
        table = pa.table({"x": [0, 1], name: values, "v": [1.0, 2.0]})
        with pytest.raises(InvalidInputError, match=f"can't change the coordinate {name} from"):
            commit_rows(made, options, table)

    more = {"land": ["b", "c"], "height": [2.0, 2.0], "v": [1.0, 2.0]}
    commit_rows(made, options, pa.table({"x": [1, 2], **more}))

    assert read(made).land.values.tolist() == ["a", "b", "c"]
    assert read(made).v.values.tolist() == [0, 1, 2]


def test_a_time_between_two_units_is_no_new_coordinate(repo: Repository) -> None:
    noon = pa.table({"time": [datetime(2020, 1, 3, 12, tzinfo=UTC)], "single": [1.0]})

    with pytest.raises(InvalidInputError, match="2020-01-03 12:00:00"):
        commit_rows(repo, make_write_options(append_dim="time"), noon)


def test_all_arrays_of_a_group_grow_together(repo: Repository) -> None:
    third = pa.table({"time": [datetime(2020, 1, 3, tzinfo=UTC)], "single": [1.0]})

    commit_rows(repo, make_write_options(append_dim="time"), third)

    opened = xr.open_zarr(repo.readonly_session("main").store, consolidated=False, chunks=None)
    assert opened.sizes == {"time": 3}
    assert opened.single.values.tolist() == [1, 2, 1]
    assert opened.time.values[-1] == np.datetime64("2020-01-03")
    assert opened.packed.values[0] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "ignore"}, "invalid mode 'ignore'"),
        ({"duplicates": "median"}, "invalid duplicates 'median'"),
        ({"replace_where": "x = 1"}, "needs the mode overwrite"),
        ({"chunks": {"x": 0}}, "lengths must be at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_write_options(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"append_dim": "lon"}, "invalid append_dim 'lon'"),
        ({"mode": "overwrite", "replace_where": "single > 1"}, "invalid replace_where"),
        ({"mode": "overwrite", "replace_where": "hour(time) > 1"}, "invalid replace_where"),
        (
            {"mode": "overwrite", "replace_where": "time < '2020-01-02'"},
            "1 rows don't match replace_where",
        ),
    ],
)
def test_options_that_the_arrays_do_not_know_are_refused(
    repo: Repository, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        commit_rows(repo, make_write_options(**options), rows(single=[1.0, 2.0]))


def test_a_region_is_emptied_by_no_rows(repo: Repository) -> None:
    nothing = rows(packed=[1.0, 2.0]).slice(0, 0)

    commit_rows(
        repo, make_write_options(mode="overwrite", replace_where="time < '2020-01-02'"), nothing
    )

    opened = xr.open_zarr(repo.readonly_session("main").store, consolidated=False, chunks=None)
    assert np.isnan(opened.packed.values[0])
    assert opened.single.values.tolist() == [1, 2]


@pytest.mark.parametrize("seed", range(6))
def test_rows_in_any_order_are_the_dataset_that_they_come_from(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shape = tuple(generator.integers(1, 5, 3))
    t = generator.normal(size=shape)
    t[generator.random(shape) < 0.3] = np.nan
    days = np.datetime64("1969-12-30", "ns") + np.arange(shape[0]) * np.timedelta64(1, "h")
    dataset = xr.Dataset(
        {
            "t": (("time", "name", "x"), t),
            "n": (("x", "time", "name"), generator.integers(0, 9, (shape[2], *shape[:2]))),
            "when": (("time", "name", "x"), days[generator.integers(0, len(days), shape)]),
            "zone": (("time", "name", "x"), generator.choice(["a", "b"], shape).astype(object)),
            "flag": (("time", "name", "x"), generator.random(shape) < 0.5),
        },
        {"time": days, "name": [f"p{n}" for n in range(shape[1])]},
    )
    rows = from_dataset(dataset)
    mixed = rows.take(generator.permutation(rows.num_rows))

    found = to_dataset(mixed, ["time", "name", "x"])

    expected = dataset.transpose("time", "name", "x").assign_coords(x=np.arange(shape[2]))
    xr.testing.assert_equal(found, expected.assign_coords(name=expected.name.astype(object)))
    assert found.n.dtype == np.int64
    kept = mixed.slice(0, max(rows.num_rows // 2, 1))
    part = to_dataset(kept, ["x", "name", "time"], {"n": -1})
    there = {(row["x"], row["name"], row["time"]): row for row in kept.to_pylist()}
    assert part.t.size >= len(there)
    for x, name, time in product(part.x.values, part.name.values, part.time.values):
        cell = part.sel(x=x, name=name, time=time)
        moment = pd.Timestamp(time).tz_localize("UTC").to_pydatetime()
        given = there.get((int(x), str(name), moment))
        assert cell.n.item() == (-1 if given is None else given["n"])
        # Xarray or pandas may turn None into NaN.
        assert pd.isna(cell.zone.item()) if given is None else cell.zone.item() == given["zone"]
        assert np.isnan(cell.t.item()) == (given is None or given["t"] is None)


def test_rows_that_are_no_grid_are_refused() -> None:
    rows = pa.table({"x": [1, 1, 2], "y": ["a", "a", None], "n": [2**60, 1, None]})

    for dims, match in (
        (["x"], "several rows for x=1: add a dimension"),
        (["x", "y"], "the dimension y has nulls"),
        (["z"], "unknown column 'z'"),
        ([], "invalid dims"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            to_dataset(rows, dims)
    with pytest.raises(InvalidInputError, match="n has missing cells, and integers"):
        to_dataset(pa.table({"x": [1, 2], "n": [2**60, None]}), ["x"])
    sparse = pa.table({"x": np.arange(9999), "y": np.arange(9999), "v": np.zeros(9999)})
    with pytest.raises(InvalidInputError, match="9999 × 9999 cells is much larger"):
        to_dataset(sparse, ["x", "y"])
    assert to_dataset(rows.slice(0, 0), ["x", "y"]).sizes == {"x": 0, "y": 0}
    crossed = xr.Dataset({"a": ("x", [1.0]), "b": ("y", [1.0])})
    with pytest.raises(InvalidInputError, match="can't be columns of one table"):
        from_dataset(crossed)
