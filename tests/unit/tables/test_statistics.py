"""Statistics of chunks: what they measure, which chunks they prune, and when they are stale."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr

import frazil
from frazil import Repository, RepositoryConfig
from frazil.format.ids import ChunkId
from frazil.format.manifest import (
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    NativeRef,
    VirtualRef,
)
from frazil.tables.columns import TIMESTAMP, UNSIGNED_64, Values, make_values
from frazil.tables.predicates import Compare, IsIn, IsNull, Leaf, truth_of_values
from frazil.tables.scan_plan import open_chunks, plan_scan
from frazil.tables.statistics import (
    NO_SUM,
    NONE,
    hash_references,
    make_measures,
    measure,
    repeat,
    truth_of_measures,
)
from frazil.tables.table_options import Options
from frazil.tables.table_source import Source, open_source
from frazil.xarray import to_icechunk
from tests.unit.tables.measured import analyse

NATIVE = NativeRef(ChunkId(bytes(range(12))), 5, 10)
VIRTUAL = VirtualRef("s3://bucket/file", 5, 10, ETag("tag"))


@pytest.fixture
def repo() -> Repository:
    """Packed numbers from 0 to 19 in five chunks, those of the third one masked."""
    repo = Repository.create(
        frazil.in_memory_storage(), RepositoryConfig(inline_chunk_threshold_bytes=0)
    )
    values = np.arange(20.0)
    values[8:12] = np.nan
    dataset = xr.Dataset({"t": ("x", values)})
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunks": (4,)}
    session = repo.writable_session("main")
    to_icechunk(dataset, session, mode="w", encoding={"t": packed})
    session.commit("numbers")
    return repo


def count(repo: Repository, where: str) -> tuple[int, int]:
    """How many chunks are read for a condition, and how many rows it has."""
    table = plan_scan(open_source(Options(where=where), repo))
    rows = sum(len(batch) for part in table.partitions() for batch in table.read(part))
    return table.count_chunks()["t"].read, rows


def edit(repo: Repository, change: Callable[[Any], object]) -> None:
    """Change the array."""
    session = repo.writable_session("main")
    change(zarr.open_array(session.store, path="t", mode="r+"))
    session.commit("changed")


def test_fresh_statistics_leave_chunks_out(repo: Repository) -> None:
    before = count(repo, "t > 14")
    first = analyse(repo)["t"]
    second = analyse(repo)["t"]

    assert before == (5, 5)
    assert count(repo, "t > 14") == (2, 5)
    assert count(repo, "t IS NULL") == (1, 4)
    assert count(repo, "t IS NOT NULL AND x >= 10") == (2, 8)
    assert count(repo, "t BETWEEN 3.5 AND 5 OR t IN (7, 100)") == (1, 3)
    assert count(repo, "NOT (t < 14)") == (2, 6)
    assert count(repo, "t = NULL") == (0, 0)
    assert (int(first.written.sum()), int(first.unwritten.sum()), first.fresh) == (5, 0, 0)
    assert (int(second.written.sum()), second.fresh) == (0, 5)


def test_chunks_that_are_written_again_are_read(repo: Repository) -> None:
    analyse(repo)

    edit(repo, lambda array: array.__setitem__(slice(0, 4), 100))

    assert count(repo, "t > 14") == (3, 9)
    assert int(analyse(repo)["t"].written.sum()) == 1
    assert count(repo, "t > 45 AND t < 60") == (1, 4)


def test_other_attributes_make_all_of_them_stale(repo: Repository) -> None:
    analyse(repo)

    edit(repo, lambda array: array.update_attributes({"scale_factor": 5.0}))

    assert count(repo, "t > 30") == (5, 12)


def test_an_array_that_grows_shows_more_of_its_chunks(repo: Repository) -> None:
    edit(repo, lambda array: array.resize((18,)))
    analyse(repo)

    edit(repo, lambda array: array.resize((24,)))

    # Of the last chunk two more values are seen, as they were, and one chunk is new.
    assert count(repo, "t = 18") == (2, 1)
    assert int(analyse(repo)["t"].unwritten.sum()) == 1
    assert count(repo, "t = 18") == (1, 1)


def test_an_array_in_the_place_of_another_is_read(repo: Repository) -> None:
    analyse(repo)
    session = repo.writable_session("main")
    to_icechunk(xr.Dataset({"t": ("x", np.full(20, 50.0))}), session, mode="w")
    session.commit("another")

    assert count(repo, "t > 14")[1] == 20


def test_an_older_version_has_the_statistics_that_it_had(repo: Repository) -> None:
    before = repo.lookup_branch("main")
    analyse(repo)

    source = open_source(Options(where="t > 14"), repo)
    older = Source.of(repo, repo.readonly_session(snapshot_id=before), source.options)

    assert plan_scan(source).truths
    assert not plan_scan(older).truths


def test_statistics_are_where_a_group_was_an_array(repo: Repository) -> None:
    analyse(repo)
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="r+")
    del root["t"]
    root.create_array("t/min", data=np.arange(6), chunks=(2,), dimension_names=["y"])
    session.commit("a group")

    analyse(repo)

    options = Options(where="min > 4", group="t")
    assert plan_scan(open_source(options, repo)).count_chunks()["min"] == (1, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NATIVE, replace(NATIVE, offset=6)),
        (NATIVE, replace(NATIVE, length=11)),
        (NATIVE, replace(NATIVE, chunk_id=ChunkId(bytes(12)))),
        (VIRTUAL, replace(VIRTUAL, location="s3://bucket/other")),
        (VIRTUAL, replace(VIRTUAL, offset=6)),
        (VIRTUAL, replace(VIRTUAL, checksum=ETag("gat"))),
        (VIRTUAL, replace(VIRTUAL, checksum=LastModified(7))),
        (InlineRef(b"abc"), InlineRef(b"abd")),
        (InlineRef(b"abc"), InlineRef(b"abc\0")),
    ],
)
def test_every_part_of_a_reference_counts(one: Any, other: Any) -> None:
    both = hash_references(ChunkTable.of(1, {(0,): one, (1,): other}))
    again = hash_references(ChunkTable.of(1, {(0,): other, (3,): InlineRef(b"x"), (4,): one}))

    assert both[0] != both[1]
    assert NONE not in both
    assert (again[2], again[0]) == (both[0], both[1])


def test_files_that_may_change_unnoticed_have_no_statistics() -> None:
    table = ChunkTable.of(1, {(0,): replace(VIRTUAL, checksum=None)})

    assert hash_references(table).tolist() == [NONE]


CONSTANTS = (-1, 0, 1, 2, 3)
LEAVES: list[Leaf] = [
    *(Compare("x", op, value) for op in ("=", "<>", "<", "<=", ">", ">=") for value in CONSTANTS),
    *(IsIn("x", values) for values in [(0,), (1, 5), (-1, 3), (0, 1, 2)]),
    *(Compare("x", op, 0.5) for op in ("=", "<>")),
    IsNull("x"),
]


@pytest.mark.parametrize("dtype", ["int16", "uint64", "float32"])
def test_measures_report_what_some_value_of_a_chunk_can_be(dtype: str) -> None:
    type = {"int16": pa.int16(), "uint64": UNSIGNED_64, "float32": pa.float32()}[dtype]
    chunks = [each for n in (1, 2, 3) for each in combinations_with_replacement((None, 0, 1, 2), n)]
    values = [
        Values(
            type,
            np.array([each or 0 for each in chunk], dtype),
            np.array([each is None for each in chunk]),
        )
        for chunk in chunks
    ]
    measured = make_measures([[n] for n in range(len(chunks))], list(map(measure, values)), type)

    for leaf in LEAVES:
        reported = truth_of_measures(leaf, measured.columns)
        for number, each in enumerate(values):
            truth = truth_of_values(leaf, each)
            can, cannot = bool(np.any(truth.can_be_true)), bool(np.any(truth.can_be_false))
            said = (
                bool(np.asarray(reported.can_be_true)[number]),
                bool(np.asarray(reported.can_be_false)[number]),
            )
            assert said[0] or not can
            assert said[1] or not cannot
            # Between two values there is nothing to tell one that is missing from one that is there.
            if len(set(chunks[number]) - {None}) < 2 or isinstance(leaf, IsNull):
                assert said == (can, cannot)


def test_integers_and_times_are_exact() -> None:
    large = np.array([2**63 - 1, -(2**63), 5])
    small = np.array([2**53 + 1, 2**53 + 3])
    times = np.array(["2020-01-01T00:00:00.000001", "NaT"], "M8[us]")

    assert measure(make_values(large, pa.int64())) == {
        "count": 3, "null_count": 0, "min": -(2**63), "max": 2**63 - 1, "sum": 4,
    }  # fmt: skip
    assert measure(make_values(small, pa.int64()))["sum"] == 2**54 + 4
    assert measure(make_values(times, TIMESTAMP)) == {
        "count": 1, "null_count": 1, "min": 1577836800000001, "max": 1577836800000001,
    }  # fmt: skip


def test_a_sum_beyond_64_bits_is_none() -> None:
    values = make_values(np.array([2**64 - 1, 2**64 - 1], np.uint64), UNSIGNED_64)

    assert measure(values)["sum"] == NO_SUM
    assert repeat(measure(make_values(np.array([2**62]), pa.int64())), 4)["sum"] == NO_SUM


@pytest.mark.parametrize(
    ("data", "type", "expected"),
    [
        (
            [np.nan, np.nan],
            pa.float64(),
            {"count": 0, "null_count": 2, "min": 0, "max": 0, "sum": 0},
        ),
        ([np.inf, -np.inf], pa.float32(), {"count": 2, "min": -np.inf, "max": np.inf}),
        ([True, False], pa.bool_(), {"count": 2, "null_count": 0, "min": 0, "max": 1, "sum": 1}),
        (["a", None], pa.string(), {"count": 1, "null_count": 1}),
    ],
)
def test_nulls_and_infinities_are_counted(
    data: list[Any], type: pa.DataType, expected: dict[str, Any]
) -> None:
    array = np.array(data, object if type == pa.string() else None)

    found = measure(make_values(array, type))

    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3)])
def test_sums_of_large_integers_are_exact_in_any_shape(dtype: str, shape: tuple[int, ...]) -> None:
    info = np.iinfo(dtype)
    signed = (
        [info.max, -5, info.min, 7, -(2**40), 1] if info.min else [2**62, 2**62 - 1, 0, 0, 0, 0]
    )
    type = pa.int64() if info.min else UNSIGNED_64

    found = measure(make_values(np.array(signed, dtype).reshape(shape), type))
    beyond = measure(make_values(np.full(shape, info.max, dtype), type))

    assert (found["sum"], found["count"]) == (sum(signed), 6)
    assert (beyond["sum"], beyond["max"]) == (NO_SUM, info.max)


@pytest.fixture(scope="module")
def typed() -> Repository:
    """Twelve elements of each type, in chunks of three."""
    hours = np.arange(12)
    when = np.datetime64("2020-01-01", "ns") + hours * np.timedelta64(1, "h")
    when[3:6] = np.datetime64("NaT", "ns")
    dataset = xr.Dataset(
        {
            "moment": ("x", when),
            "large": ("x", np.arange(12, dtype="u8") + np.uint64(2**63)),
            "flag": ("x", hours >= 9),
            "name": ("x", np.array([f"n{n}" for n in hours], object)),
            "half": ("x", hours.astype("f2")),
            "coarse": (("y", "x"), np.arange(24.0).reshape(2, 12)),
        },
        {"x": hours},
    )
    cut = {name: {"chunks": (3,)} for name in dataset.data_vars if name != "coarse"}
    repo = Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    to_icechunk(dataset, session, mode="w", encoding={**cut, "coarse": {"chunks": (1, 6)}})
    session.commit("types")
    analyse(repo)
    return repo


@pytest.mark.parametrize(
    ("name", "where", "chunks", "rows"),
    [
        ("moment", "moment < '2020-01-01T02:30:00'", 1, 3),
        ("moment", "moment IS NULL", 1, 3),
        ("moment", "moment = TIMESTAMP '2020-01-01 07:00:00'", 1, 1),
        ("large", "large = 9223372036854775810", 1, 1),
        ("large", "large < 5", 0, 0),
        ("large", "large >= -1", 4, 12),
        ("flag", "flag", 1, 3),
        ("flag", "NOT flag AND x > 4", 2, 4),
        ("name", "name = 'n1'", 4, 1),
        ("name", "name IS NULL", 0, 0),
        ("half", "half > 10.5", 1, 1),
    ],
)
def test_conditions_about_values_prune_chunks(
    typed: Repository, name: str, where: str, chunks: int, rows: int
) -> None:
    options = Options(where=where, variables=(name,))

    table = plan_scan(open_source(options, typed))

    assert table.count_chunks()[name].read == chunks
    assert sum(len(batch) for part in table.partitions() for batch in table.read(part)) == rows


def test_what_one_array_rules_out_is_not_read_of_another(typed: Repository) -> None:
    options = Options(where="half < 2 AND coarse > 17.5", variables=("half", "coarse"))

    table = plan_scan(open_source(options, typed))

    # Either leaves a chunk, but they share no cell.
    assert {name: each.read for name, each in table.count_chunks().items()} == {
        "half": 0,
        "coarse": 0,
    }
    assert not table.partitions()


def test_rows_of_chunks_are_those_that_can_have_such_cells(typed: Repository) -> None:
    options = Options(where="half BETWEEN 3 AND 4", variables=("half",), layout="chunks")

    table = open_chunks(open_source(options, typed))
    rows = [batch for part in table.partitions() for batch in table.read(part)]

    assert [row.column("chunk").to_pylist() for row in rows] == [[[1]]]
