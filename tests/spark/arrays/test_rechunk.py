"""Other chunks: the same bits, in one pass and in two."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

from frazil import Repository
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeNotFoundError
from frazil.spark import Job, rechunk
from tests.repositories import dangling_files

pytestmark = pytest.mark.xdist_group("spark")

SHAPE = (23, 17, 9)
AXES = ("time", "lat", "lon")


def values() -> Any:
    found = np.random.default_rng(3).normal(size=SHAPE).astype("f4")
    found[0, 0] = np.nan
    found[1, 0, :3] = [np.inf, -0.0, np.finfo("f4").tiny]
    return found


@pytest.fixture
def filled(repo: Repository) -> Repository:
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, name="group/t", shape=SHAPE, chunks=(1, 17, 9), dtype="f4",
        fill_value=5.0, dimension_names=AXES, attributes={"units": "K"},
        compressors=zarr.codecs.GzipCodec(level=1),
    )  # fmt: skip
    array[:20] = values()[:20]
    session.commit("filled")
    return repo


def expected() -> Any:
    found = values()
    found[20:] = 5.0
    return found


def open_array(repo: Repository, path: str) -> Any:
    return zarr.open_array(repo.readonly_session("main").store, path=path, mode="r")


def assert_same_bits(array: Any) -> None:
    assert np.asarray(array[...]).tobytes() == expected().tobytes()


@pytest.mark.parametrize("run_on", ["spark", "driver"])
@pytest.mark.parametrize(
    ("max_memory", "how"), [("512MB", "one pass"), (2 * 4 * 17 * 9, "two passes")]
)
def test_values_are_the_same_bits(
    spark: SparkSession, filled: Repository, max_memory: Any, how: str, run_on: Any
) -> None:
    report = rechunk(
        filled,
        "group/t",
        {"time": -1, "lat": 2, "lon": 2},
        output="group/by_place",
        max_memory=max_memory,
        job=Job(task_bytes=3000, run_on=run_on),
        spark=spark,
    )

    array = open_array(filled, "group/by_place")
    assert_same_bits(array)
    assert array.chunks == (23, 2, 2)
    assert array.metadata.dimension_names == AXES
    assert dict(array.attrs) == {"units": "K"}
    assert array.compressors == open_array(filled, "group/t").compressors
    assert how in report.notes[0]
    assert len(list(filled.ancestry(branch="main"))) == 3
    assert not [
        path
        for path in filled.readonly_session("main").state.view.snapshot.nodes
        if "_frazil" in path
    ]


def test_an_array_is_replaced_in_place_with_other_codecs(
    spark: SparkSession, filled: Repository
) -> None:
    rechunk(
        filled,
        "/group/t",
        (4, 5, 9),
        encoding={"compressors": zarr.codecs.ZstdCodec(level=3), "shards": (8, 10, 9)},
        job=Job(task_bytes=1000, run_on="spark"),
        spark=spark,
    )

    array = open_array(filled, "group/t")
    assert_same_bits(array)
    assert (array.chunks, array.shards) == ((4, 5, 9), (8, 10, 9))
    assert isinstance(array.compressors[0], zarr.codecs.ZstdCodec)


def count_chunk_files(folder: Path) -> int:
    return sum(each.is_file() for each in (folder / "repo" / "chunks").rglob("*"))


def test_chunks_in_between_are_gone_at_the_end(
    spark: SparkSession, filled: Repository, tmp_path: Path
) -> None:
    before = count_chunk_files(tmp_path)

    report = rechunk(
        filled,
        "group/t",
        (23, 17, 1),
        output="u",
        max_memory=4000,
        encoding={"compressors": None},
        job=Job(task_bytes=3000, run_on="spark"),
        spark=spark,
    )

    assert "two passes" in report.notes[0]
    assert count_chunk_files(tmp_path) == before + report.chunks


def test_garbage_collection_takes_what_is_left_and_nothing_else(
    spark: SparkSession, filled: Repository
) -> None:
    report = rechunk(
        filled, "group/t", (23, 1, 9), max_memory=2000, job=Job(run_on="driver"), spark=spark
    )

    summary = filled.garbage_collect(datetime.now(UTC) + timedelta(hours=1))

    assert "two passes" in report.notes[0]
    assert summary.snapshots_deleted > 0
    assert_same_bits(open_array(filled, "group/t"))
    assert dangling_files(filled) == set()


def test_what_has_no_values_is_no_trouble(spark: SparkSession, repo: Repository) -> None:
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="empty", shape=(0, 3), chunks=(1, 3), dtype="i4")
    zarr.create_array(session.store, name="scalar", shape=(), chunks=(), dtype="i4")[...] = 7
    session.commit("made")

    rechunk(repo, "empty", (1, 1), job=Job(run_on="spark"), spark=spark)
    rechunk(repo, "scalar", (), output="other", job=Job(run_on="spark"), spark=spark)

    assert open_array(repo, "empty").chunks == (1, 1)
    assert open_array(repo, "other")[...] == 7


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"array": "none", "chunks": (1,)}, NodeNotFoundError),
        ({"array": "group", "chunks": (1,)}, InvalidInputError),
        ({"array": "group/t", "chunks": (1, 2)}, InvalidInputError),
        ({"array": "group/t", "chunks": {"depth": 2}}, InvalidInputError),
        ({"array": "group/t", "chunks": (23, 17, 9), "max_memory": 1000}, InvalidInputError),
        ({"array": "group/t", "chunks": {}, "output": "group"}, AlreadyExistsError),
        ({"array": "group/t", "chunks": {}, "encoding": {"colour": 1}}, InvalidInputError),
    ],
    ids=["missing", "group", "axes", "dimension", "memory", "output", "encoding"],
)
def test_what_makes_no_sense_is_refused_at_once(
    spark: SparkSession, filled: Repository, arguments: Any, error: type[Exception]
) -> None:
    tip = filled.lookup_branch("main")

    with pytest.raises(error):
        rechunk(filled, spark=spark, **arguments)

    assert filled.lookup_branch("main") == tip
