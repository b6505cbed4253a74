"""Derived datasets: what a run costs, what it refuses, and races.

That they equal what is computed anew is in `tests/property/test_derive.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil import Repository
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NodeNotFoundError,
)
from frazil.spark import BlockOptions, Derivation
from frazil.spark.arrays.reduction import PARTIALS
from frazil.spark.job import METRICS
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request
from tests.property.test_derive import assert_equal, contents

pytestmark = pytest.mark.xdist_group("spark-arrays")
DIMS = ("time", "y", "x")


def write(repo: Repository, steps: int, chunk: int = 1) -> None:
    """Append steps to the array `t` of a repository, or create it."""
    session = repo.writable_session("main")
    root: Any = zarr.open_group(session.store, mode="a")
    if "t" not in root:
        settings: dict[str, Any] = {"dtype": "f8", "fill_value": np.nan}
        root.create_array(
            "t", shape=(0, 8, 8), chunks=(chunk, 8, 8), dimension_names=DIMS, **settings
        )
        root.create_array("time", shape=(0,), chunks=(4096,), dtype="i8", dimension_names=["time"])
        root["time"].attrs["units"] = "hours since 2000-01-01"
    start = root["t"].shape[0]
    root["t"].resize((start + steps, 8, 8))
    root["time"].resize((start + steps,))
    # Random, so that chunks are too large to be stored in manifests.
    root["t"][start:] = np.random.default_rng(start).integers(0, 1 << 50, (steps, 8, 8))
    root["time"][start:] = np.arange(start, start + steps) * 6
    session.commit(f"{steps} steps")


class ChunkCounter(ForwardingStorage):
    """Counts the chunks that are read and written."""

    chunks = 0

    def _begin(self, request: Request) -> Injection:
        self.chunks += sum(key.startswith("chunks/") for key in request.keys)
        return NO_FAULT


def test_a_step_more_costs_at_most_a_fiftieth_of_everything() -> None:
    storage = ChunkCounter(MemoryStorage())
    repo = Repository.create(storage)
    write(repo, 10_000, chunk=4)
    write(repo, 2)  # the last chunk has room for one more
    declared = [
        Derivation(output="layout", chunks={"time": 128, "y": 4, "x": 4}),
        Derivation(output="pyramid", by={"y": 2, "x": 2}, levels=2, chunks={"time": 50}),
        Derivation(output="months", groupby="time.month"),
        Derivation(output="hours", groupby="time.hour", how="std"),
        Derivation(output="years", by={"time": "YS"}, how="max"),
        Derivation(output="blocks", by={"time": 800}),
    ]
    full = {}
    for what in declared:
        storage.chunks = 0
        full[what.output] = frazil.derive(repo, what), storage.chunks
    write(repo, 1)
    for what in declared:
        storage.chunks = 0

        report = frazil.derive(repo, what)

        before, everything = full[what.output]
        assert before.is_full
        assert not report.is_full
        assert 0 < storage.chunks <= 0.02 * everything, (what, storage.chunks, everything)


def test_a_climatology_without_partial_states_reads_its_group_once_more() -> None:
    storage = ChunkCounter(MemoryStorage())
    repo = Repository.create(storage)
    write(repo, 400)
    what = Derivation(output="months", groupby="time.month")
    frazil.derive(repo, what)
    session = repo.writable_session("main")
    del zarr.open_group(session.store, mode="a")[PARTIALS.lstrip("/")]
    session.commit("written before there were partial states", {METRICS: {"job": "compact"}})

    found = []
    for _ in range(2):
        write(repo, 1)
        storage.chunks = 0
        frazil.derive(repo, what)
        found.append(storage.chunks)
        anew = Repository.create(frazil.in_memory_storage())
        frazil.derive(repo, what, target=anew)
        assert_equal(contents(repo, "months"), contents(anew, "months"))

    assert found[0] > 30
    assert found[1] < 12


def test_tasks_of_spark_derive_what_one_process_does(spark: SparkSession, tmp_path: Path) -> None:
    declared = [
        Derivation(output="layout", chunks={"time": 16, "y": 4, "x": 4}),
        Derivation(output="pyramid", by={"y": 2, "x": 2}, levels=1),
        Derivation(output="season", groupby="time.hour"),
    ]
    repos = [
        Repository.create(frazil.local_filesystem_storage(str(tmp_path / each)))
        for each in ("here", "there")
    ]
    for steps in (30, 1):
        for repo in repos:
            write(repo, steps, chunk=4)
            for what in declared:
                job = frazil.spark.Job(run_on="driver" if repo is repos[0] else "spark")
                report = frazil.spark.derive(repo, what, job=job, spark=spark)
                assert report.is_full == (steps == 30)
                assert report.ran_on == job.run_on

    for what in declared:
        assert_equal(*(contents(repo, what.output) for repo in repos))


def test_commits_of_others_don_t_disturb_and_one_of_two_runs_commits() -> None:
    repo = Repository.create(frazil.in_memory_storage())
    write(repo, 6)
    rivals: list[Callable[[], object]] = []

    def double(block: Any) -> Any:
        while rivals:
            rivals.pop()()
        return block * 2

    what = Derivation(output="twice", function=double)
    frazil.derive(repo, what)

    write(repo, 1)
    rivals.append(lambda: write(repo, 1))  # the source, in the same repository and branch
    first = frazil.derive(repo, what)
    second = frazil.derive(repo, what)
    # A step each, and the coordinate.
    assert first.snapshot_id != second.snapshot_id is not None
    assert max(first.elements, second.elements) < 2 * 64
    assert contents(repo, "twice")["t values"][1] == (8, 8, 8)

    write(repo, 1)
    before = len(list(repo.ancestry(branch="main")))
    rivals.append(lambda: frazil.derive(repo, what))  # the same derivation
    overtaken = frazil.derive(repo, what)
    assert overtaken.snapshot_id is None
    assert "planned again" in overtaken.notes[0]
    assert len(list(repo.ancestry(branch="main"))) == before + 1

    def edit() -> None:
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="twice/t", mode="r+")[-1] = 0
        session.commit("by hand")

    write(repo, 1)
    rivals.append(edit)
    with pytest.raises(ConflictError, match=r"/twice/t was changed by the commit .*by hand"):
        frazil.derive(repo, what)
    report = frazil.derive(repo, what, rebuild=True)
    assert report.notes == ("computed everything: rebuild",)
    found = zarr.open_group(repo.readonly_session("main").store, mode="r")
    np.testing.assert_array_equal(found["twice/t"][...], found["t"][...] * 2)  # type: ignore[index, operator]


def test_what_a_run_refuses() -> None:
    repo = Repository.create(frazil.in_memory_storage())
    write(repo, 6)
    layout = Derivation(output="a/b", chunks={"time": 3})
    frazil.derive(repo, layout)
    frazil.compact(repo)
    frazil.rewrite_manifests(repo)
    write(repo, 1)
    assert not frazil.derive(repo, layout).is_full

    other = Derivation(output="/a/b/", chunks={"time": 4})
    with pytest.raises(InvalidInputError, match=r"chunks was \{'time': 3\}, and is \{'time': 4\}"):
        frazil.derive(repo, other)
    assert frazil.derive(repo, other, rebuild=True).is_full
    with pytest.raises(AlreadyExistsError, match="was not derived"):
        frazil.derive(repo, Derivation(output="a"))

    def function(block: Any) -> Any:
        return block + 1

    named = Derivation(output="f", function=function)
    frazil.derive(repo, named)

    def function(block: Any) -> Any:  # type: ignore[no-redef]
        return block + 2

    with pytest.raises(InvalidInputError, match="function was"):
        frazil.derive(repo, Derivation(output="f", function=function))

    misfits: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"chunks": {"tiem": 3}}, InvalidInputError, "no dimension 'tiem'"),
        ({"by": {"depth": 2}}, InvalidInputError, "no dimension 'depth'"),
        ({"groupby": "depth.month"}, InvalidInputError, "depth.month"),
        ({"variables": ["u"]}, InvalidInputError, "no variable 'u'"),
        ({"source": "missing"}, NodeNotFoundError, "missing"),
        ({"source": "t"}, InvalidInputError, "not a group"),
        ({"by": {"x": 2}, "how": "median"}, InvalidInputError, "median"),
        ({"function": np.negative, "blocks": BlockOptions(halo={"z": 1})}, InvalidInputError, "z"),
    ]
    for options, error, told in misfits:
        with pytest.raises(error, match=told):
            frazil.derive(repo, Derivation(output="new", **options))
    contradictions: list[tuple[dict[str, Any], str]] = [
        ({"output": "/"}, "below the root"),
        ({"by": {"x": 2}, "groupby": "time.month"}, "by and groupby"),
        ({"levels": 2}, "levels needs"),
        ({"levels": 2, "by": {"time": "1D"}}, "levels needs"),
        ({"name": "a"}, "invalid name"),
        ({"variables": "t"}, "list of names"),
        ({"function": "no.such:name"}, "module:name"),
        ({"encoding": {"level": 1}}, "level"),
    ]
    for options, told in contradictions:
        with pytest.raises(InvalidInputError, match=told):
            Derivation(**{"output": "new", **options})
