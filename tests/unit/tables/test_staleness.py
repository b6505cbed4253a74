"""What has changed since it was measured does not count."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil import Repository, RepositoryConfig
from frazil.format.chunk_table import (
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    NativeRef,
    VirtualRef,
)
from frazil.format.ids import ChunkId
from frazil.tables.scan_plan import plan_scan
from frazil.tables.statistics import NONE, hash_references
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
