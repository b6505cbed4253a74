"""Frames that are written to arrays, through the data source and in tasks."""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil import InvalidInputError, Repository

pytestmark = pytest.mark.xdist_group("spark-tables")

DAYS, PLACES = 6, 8


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """An empty one."""
    return Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where it is."""
    return str(tmp_path / "repo")


def cells(spark: SparkSession, factor: float = 1.0, first: int = 0, days: int = DAYS) -> DataFrame:
    """A row for each place on each of some days, in three partitions that know no chunks."""
    return spark.range(first * PLACES, (first + days) * PLACES, 1, 3).selectExpr(
        "timestamp_seconds(1577836800 + 86400 * (id DIV 8)) AS time",
        "double(id % 8) / 2 AS x",
        f"id * {factor}D AS v",
        "CASE WHEN id % 5 = 0 THEN NULL ELSE id * 0.5D END AS w",
        "concat('place ', id % 8) AS name",
    )


def expected(factor: float = 1.0, days: int = DAYS) -> np.ndarray[Any, Any]:
    """The values of `v`."""
    return np.arange(days * PLACES).reshape(days, PLACES) * factor


def make_arrays(repo: Repository) -> None:
    """Days by places, empty; names of places."""
    session = repo.writable_session("main")
    days = np.datetime64("2020-01-01", "ns") + np.arange(DAYS) * np.timedelta64(1, "D")
    nothing = np.full((DAYS, PLACES), np.nan)
    dataset = xr.Dataset(
        {
            "v": (("time", "x"), nothing),
            "w": (("time", "x"), nothing),
            "name": ("x", np.array([""] * PLACES, object)),
        },
        {"time": days, "x": np.arange(PLACES) / 2},
    )
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunks": (4, 3)}
    frazil.xarray.to_icechunk(
        dataset, session, mode="w", encoding={"v": {"chunks": (2, 3)}, "w": packed}
    )
    session.commit("empty arrays")


def open_dataset(repo: Repository, group: str | None = None) -> xr.Dataset:
    """What is in a group."""
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, chunks=None)
    return found


def count_commits(repo: Repository) -> int:
    """How many there are on main."""
    return len(list(repo.ancestry(branch="main")))


def save(frame: DataFrame, url: str, mode: str = "append", **options: str) -> None:
    """Write through the data source."""
    frame.write.format("icechunk").option("repo", url).options(**options).mode(mode).save()


def test_a_frame_is_written_cell_by_cell_through_the_data_source(
    spark: SparkSession, repo: Repository, url: str
) -> None:
    make_arrays(repo)
    before = count_commits(repo)

    save(cells(spark), url, commit_token="the one")

    found = open_dataset(repo)
    assert found.v.values.tolist() == expected().tolist()
    assert np.isnan(found.w.values.ravel()[::5]).all()
    assert found.w.values.ravel()[1] == 0.5
    assert found.name.values.tolist() == [f"place {n}" for n in range(PLACES)]
    assert count_commits(repo) == before + 1
    assert frazil.spark.find_written(url, "the one") == repo.lookup_branch("main")


def test_arrays_are_made_grow_and_are_overwritten(
    spark: SparkSession, repo: Repository, url: str
) -> None:
    making = {"group": "new", "dims": "time,x", "chunks": "time=4,x=3", "append_dim": "time"}
    save(cells(spark, days=4).drop("name"), url, **making)
    save(cells(spark, first=4, days=2).drop("name"), url, group="new", append_dim="time")
    grown = open_dataset(repo, "new").load()

    save(
        cells(spark, 10.0, days=3).drop("w", "name"), url, "overwrite", group="new",
        replace_where="time < '2020-01-05'",
    )  # fmt: skip

    assert grown.v.values.tolist() == expected().tolist()
    assert grown.w.dims == ("time", "x")
    found = open_dataset(repo, "new")
    assert found.v.values[:3].tolist() == expected(10.0, 3).tolist()
    assert np.isnan(found.v.values[3]).all()
    assert found.v.values[4:].tolist() == expected()[4:].tolist()
    assert found.w.equals(grown.w)


def test_tasks_write_chunks_of_their_own(spark: SparkSession, repo: Repository, url: str) -> None:
    make_arrays(repo)

    report = frazil.spark.write_frame(url, cells(spark), commit_token="x", metadata={"by": "me"})

    found = open_dataset(repo)
    assert found.v.values.tolist() == expected().tolist()
    assert found.w.values.ravel()[1] == 0.5
    assert found.name.values.tolist() == [f"place {n}" for n in range(PLACES)]
    assert report.snapshot_id == repo.lookup_branch("main")
    assert report.ran_on == "spark"
    assert next(repo.ancestry(branch="main")).metadata["by"] == "me"
    again = frazil.spark.write_frame(repo, cells(spark, 2.0), commit_token="x")
    assert again.snapshot_id == report.snapshot_id
    assert open_dataset(repo).v.values.tolist() == expected().tolist()


def test_the_official_library_reads_what_was_written(
    spark: SparkSession, repo: Repository, url: str
) -> None:
    frame = cells(spark).drop("name")

    frazil.spark.write_frame(repo, frame, dims=["time", "x"], chunks={"time": 2}, append_dim="time")

    official = icechunk.Repository.open(icechunk.local_filesystem_storage(url))
    store = official.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks=None)
    assert found.v.values.tolist() == expected().tolist()
    assert found.time.values[1] == np.datetime64("2020-01-02")
    rows = frazil.spark.read(repo, spark=spark).select(*frame.columns)
    assert sorted(map(repr, rows.collect())) == sorted(map(repr, frame.collect()))


def test_repeated_cells_are_refused_or_the_first_or_last_counts(
    spark: SparkSession, repo: Repository, url: str
) -> None:
    make_arrays(repo)
    twice = cells(spark).union(cells(spark, 3.0)).drop("w", "name")

    for write in (lambda: save(twice, url), lambda: frazil.spark.write_frame(url, twice)):
        with pytest.raises(
            (AnalysisException, InvalidInputError), match="several rows for time=2020"
        ):
            write()
    frazil.spark.write_frame(repo, twice, duplicates="last")
    last = open_dataset(repo).v.values
    save(twice, url, duplicates="first")

    assert last.tolist() == expected(3.0).tolist()
    assert open_dataset(repo).v.values.tolist() == expected().tolist()


def test_a_failed_write_leaves_the_branch_as_it_was(
    spark: SparkSession, repo: Repository, url: str
) -> None:
    make_arrays(repo)
    before = repo.lookup_branch("main")
    broken = cells(spark).drop("w", "name").selectExpr("time", "x", "raise_error('broken') AS v")
    elsewhere = cells(spark, first=3).drop("w", "name")

    with pytest.raises(Exception, match="broken"):
        save(broken.selectExpr("time", "x", "double(v) AS v"), url)
    with pytest.raises(AnalysisException, match="time has no coordinate 2020-01-07"):
        save(elsewhere, url)
    with pytest.raises(InvalidInputError, match="time has no coordinate 2020-01-07"):
        frazil.spark.write_frame(repo, elsewhere)
    with pytest.raises(AnalysisException, match="no array oops"):
        save(cells(spark).withColumnRenamed("v", "oops"), url)

    assert repo.lookup_branch("main") == before


@pytest.mark.parametrize("way", ["source", "tasks"])
def test_a_killed_worker_is_replaced(
    spark: SparkSession, repo: Repository, url: str, tmp_path: Path, way: str
) -> None:
    make_arrays(repo)
    frame = cells(spark).drop("w", "name")
    sign = tmp_path / "killed"

    def die_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    dying = frame.mapInArrow(die_once, frame.schema)
    if way == "source":
        save(dying, url)
    else:
        frazil.spark.write_frame(repo, dying)

    assert sign.exists()
    assert open_dataset(repo).v.values.tolist() == expected().tolist()
