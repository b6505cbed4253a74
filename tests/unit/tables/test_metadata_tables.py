"""What Frazil keeps in a repository, as tables."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository
from frazil.virtual.source import FileVersion
from tests.unit.tables.measured import analyse
from tests.unit.tables.rows import read_rows, read_table

pytest.importorskip("pyspark")

from frazil.spark.ingestion.ledger import Entry, Ledger, write_ledger


def test_the_ledger_has_a_row_for_each_file_that_was_ingested() -> None:
    repo = Repository.create(frazil.in_memory_storage())
    modified = datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
    session = repo.writable_session("main")
    entries = [
        Entry("s3://b/one.nc", "/", FileVersion("tag", modified, 10), {"time": (0, 4)}, "job"),
        Entry("s3://b/two.nc", "/g", FileVersion(None, modified, 20), {}, "job"),
    ]
    write_ledger(session.store, Ledger(), entries)
    session.commit("ingested")

    rows = read_rows(repo, "ledger")

    assert [tuple(row.values()) for row in rows] == [
        ("s3://b/one.nc", "/", "tag", 10, modified, 0, 4, "job"),
        ("s3://b/two.nc", "/g", None, 20, modified, None, None, "job"),
    ]


def test_statistics_have_a_row_for_each_chunk_that_is_known() -> None:
    repo = Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    group = zarr.create_group(session.store, path="_frazil/statistics/deep/t")
    counts = np.array([[3, 0], [0, 4]])
    measures: dict[str, Any] = {
        "count": counts, "null_count": np.array([[1, 0], [2, 0]]),
        "min": np.array([[-1.5, np.nan], [0, 7]]), "max": np.array([[2.5, np.nan], [0, 8]]),
    }  # fmt: skip
    for name, values in measures.items():
        group.create_array(name, data=values)
    session.commit("analysed")

    rows = read_rows(repo, "statistics")

    assert [tuple(row.values()) for row in rows] == [
        ("/deep/t", [0, 0], -1.5, 2.5, 3, 1, None),
        ("/deep/t", [1, 0], None, None, 0, 2, None),
        ("/deep/t", [1, 1], 7.0, 8.0, 4, 0, None),
    ]


def test_the_least_integer_is_a_minimum_and_no_unknown_sum() -> None:
    repo = Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    least = np.iinfo(np.int64).min
    array = zarr.create_array(session.store, name="n", shape=2, dtype="i8", dimension_names=["x"])
    array[:] = [least, -1]
    session.commit("integers")
    analyse(repo)

    (row,) = read_rows(repo, "statistics")

    assert (row["min"], row["max"], row["sum"]) == (float(least), -1.0, None)


def test_tables_of_what_there_is_not_are_empty() -> None:
    repo = Repository.create(frazil.in_memory_storage())

    tables = {
        name: read_table(repo, name) for name in ("ledger", "statistics", "chunks", "storage")
    }

    assert {name: len(table) for name, table in tables.items()} == dict.fromkeys(tables, 0)
    assert tables["statistics"].column_names == [
        "array", "chunk", "min", "max", "count", "null_count", "sum",
    ]  # fmt: skip
