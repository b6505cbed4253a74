"""Bytes of chunks measured by tasks are those that one process measures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil.spark
from frazil.format.header import Dialect
from frazil.maintenance.reachability import (
    ID_SLICES,
    WalkLimits,
    find_manifests,
    find_reachable,
    ids_of,
    uncached,
)
from frazil.maintenance.stats import PLACE_SIZE, spread
from frazil.ops import ChunkStorageStats
from frazil.spark.maintenance.spark_stats import MeasureManifests, SumShard, exchange
from frazil.spark.runtime import Runner
from frazil.storage.local import LocalStorage
from tests.damages import ALL_DIALECTS, create_sample
from tests.generations import REPOSITORY_NAMES
from tests.interop.upkeep_scenarios import write_history

pytestmark = pytest.mark.xdist_group("spark")


def measure_by_tasks(repository: frazil.Repository) -> ChunkStorageStats:
    """In this process, split_ids as small as it can be for a cluster."""
    assets, limits = uncached(repository.protocol.assets), WalkLimits()
    manifests = find_manifests(assets, find_reachable(repository.protocol), limits).values()
    runner = Runner(frazil.spark.Job(progress=False), None)
    find = MeasureManifests(assets, limits, ID_SLICES)
    groups = [[each] for each in manifests]
    inlined, sums = exchange(runner, "measuring", find, groups, SumShard(), ID_SLICES)
    natives, virtuals = (sum(each) for each in zip(*sums, strict=True))
    return ChunkStorageStats(natives, virtuals, sum(inlined))


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_tasks_measure_the_repositories_of_any_release(generations: Path, name: str) -> None:
    repository = frazil.Repository.open(LocalStorage(generations / name / "repo"))

    assert measure_by_tasks(repository) == repository.chunk_storage_stats()


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_they_count_each_chunk_once(dialect: Dialect) -> None:
    repository = create_sample(dialect)

    measured = measure_by_tasks(repository)

    assert measured == repository.chunk_storage_stats()
    assert measured.native_bytes == 4000


@pytest.mark.parametrize("dialect", [Dialect.V2, Dialect.V1])
def test_tasks_on_spark_measure_what_one_process_does(
    spark: SparkSession, tmp_path: Path, dialect: Dialect
) -> None:
    repository = create_sample(dialect, LocalStorage(tmp_path))
    job = frazil.spark.Job(task_bytes=1, run_on="spark")

    measured = frazil.spark.stats(str(tmp_path), job=job, spark=spark)

    assert measured == repository.chunk_storage_stats()
    assert measured.inlined_bytes > 0
    assert job.tally.tasks > 4


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_tasks_measure_what_the_official_library_does(
    tmp_path: Path, version: int, seed: int
) -> None:
    icechunk = pytest.importorskip("icechunk")
    write_history(icechunk, str(tmp_path), version, seed)
    refer_to_files(icechunk, tmp_path)
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    expected = theirs.chunk_storage_stats()

    measured = measure_by_tasks(frazil.Repository.open(LocalStorage(tmp_path)))

    assert measured.native_bytes == expected.native_bytes
    assert measured.virtual_bytes == expected.virtual_bytes == 5 * 100
    assert measured.inlined_bytes == expected.inlined_bytes


def refer_to_files(library: Any, path: Path) -> None:
    """Two commits of virtual chunks: six references to five places in two files."""
    repository = library.Repository.open(library.local_filesystem_storage(str(path)))
    for name, places in {"first": (0, 100, 200), "second": (0, 300, 400)}.items():
        session = repository.writable_session("main")
        root = zarr.open_group(session.store, mode="a")
        root.create_array(name, shape=(3,), chunks=(1,), dtype="u1")
        for at, offset in enumerate(places):
            file = "s3://bucket/one" if offset < 200 else "s3://bucket/two"
            session.store.set_virtual_ref(
                f"{name}/c/{at}", file, offset=offset, length=100, validate_container=False
            )
        session.commit(name)


def test_a_repository_without_chunks_has_no_bytes(tmp_path: Path) -> None:
    frazil.Repository.create(LocalStorage(tmp_path))

    assert frazil.stats(str(tmp_path)).total_bytes() == 0


def test_chunks_of_one_file_are_in_many_shards() -> None:
    places = np.zeros((10_000, PLACE_SIZE // 8), "<u8")
    places[:, 2] = np.arange(10_000) * 4096
    slices = spread(ids_of(places.view(np.uint8)))

    counts = np.bincount(slices, minlength=ID_SLICES)

    assert len(counts) == ID_SLICES
    assert counts.min() > 50
    assert counts.max() < 400
