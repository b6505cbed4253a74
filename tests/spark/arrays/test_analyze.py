"""Chunks are measured on Spark as they are in one process, and queries read fewer of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil.spark
from frazil import Repository
from frazil.errors import InvalidInputError
from frazil.spark import Job, analyze, transform
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, open_table
from frazil.xarray import to_icechunk
from tests.command_line import make_frazil

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def filled(repo: Repository) -> Repository:
    """Numbers that grow with time, some masked, in two groups; and a label that is no column."""
    values = np.arange(48.0).reshape(12, 4)
    values[5] = np.nan
    dataset = xr.Dataset(
        {"t": (("time", "x"), values), "n": ("time", np.arange(12))},
        {"time": np.datetime64("2020-01-01", "ns") + np.arange(12) * np.timedelta64(1, "D")},
    )
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunks": (2, 2)}
    session = repo.writable_session("main")
    to_icechunk(dataset, session, mode="w", encoding={"t": packed, "n": {"chunks": (3,)}})
    to_icechunk(dataset, session, group="deep/er", mode="w", encoding={"t": packed})
    zarr.create_array(session.store, name="odd/nameless", data=np.arange(3))
    session.commit("numbers")
    return repo


def count(repo: Repository, where: str, name: str = "t") -> int:
    """How many chunks are read for a condition."""
    options = Options(where=where, variables=(name,))
    table: Any = open_table(open_source(options, repo))
    return int(table.count_chunks()[name].read)


def test_measures_on_spark_are_those_of_the_driver(spark: SparkSession, filled: Repository) -> None:
    filled.create_branch("here", filled.lookup_branch("main"))

    there = analyze(filled, job=Job(run_on="spark", task_bytes=64), spark=spark)
    here = frazil.analyze(filled, branch="here")
    again = analyze(filled, spark=spark)

    assert (there.ran_on, here.ran_on) == ("spark", "driver")
    assert there.tasks > 2
    assert again.snapshot_id is None
    assert any("left out: /odd/nameless" in note for note in there.notes)
    stores = [filled.readonly_session(each).store for each in ("main", "here")]
    for path in ("t", "n", "deep/er/t"):
        one, other = (
            zarr.open_group(each, path=f"_frazil/statistics/{path}", mode="r") for each in stores
        )
        assert sorted(one.array_keys()) == sorted(other.array_keys())
        for name, array in one.arrays():
            np.testing.assert_array_equal(array[...], np.asarray(other[name]))
    assert count(filled, "t > 45") == 1
    assert count(filled, "t IS NULL") == 2
    assert count(filled, "n = 7", "n") == 1
    query = "SELECT count(*) AS n FROM t WHERE t > 43 OR (t IS NULL AND time < '2021-01-01')"
    assert [row.n for row in frazil.spark.sql(filled, query, spark=spark).collect()] == [8]


def test_only_named_arrays_are_measured_and_bad_names_are_refused(filled: Repository) -> None:
    report = frazil.analyze(filled, ["er/t"], group="deep")

    assert report.notes[0].startswith("measured 12 chunks")
    assert count(filled, "t > 45") == 12
    with pytest.raises(InvalidInputError, match="without names"):
        frazil.analyze(filled, ["odd/nameless"])


def test_a_transform_measures_what_it_writes(spark: SparkSession, filled: Repository) -> None:
    report = transform(filled, ["t"], "double", lambda t: t * 2, statistics=True, spark=spark)

    assert report.snapshot_id == filled.lookup_branch("main")
    assert count(filled, "double > 91", "double") == 1
    assert frazil.analyze(filled, ["double"]).snapshot_id is None


@pytest.mark.usefixtures("spark")
def test_commands_analyse_and_ask(filled: Repository, tmp_path: Path) -> None:
    run, place = make_frazil(), tmp_path / "repo"

    analysed = run("analyze", place, "--array", "t", "--json")
    rows = run("sql", place, "SELECT time, t FROM t WHERE t >= 46 ORDER BY t", "--json")
    shown = run("sql", place, "SELECT n FROM n ORDER BY n", "--limit", "2")
    bad = [run("sql", place, each).code for each in ("SELEC", "SELECT q FROM t")]

    assert (analysed.code, analysed.json["job"]) == (0, "analyze")
    assert [row["t"] for row in rows.json] == [46.0, 47.0]
    assert rows.json[0]["time"].startswith("2020-01-12T00:00:00")
    assert shown.out.split() == ["n", "0", "1"]
    assert "more rows" in shown.err
    assert bad == [2, 2]
    assert count(filled, "t > 45") == 1
