"""Ingests beside everything that goes wrong: exact values, the commits there should be, a next run."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.credentials import containers_credentials, s3_credentials
from frazil.errors import IcechunkError, InvalidSourcesError
from frazil.spark import IngestReport
from frazil.testing.object_server import (
    NO_CONDITION,
    SLOW_DOWN,
    Description,
    DropConnection,
    ObjectServer,
    Refuse,
    Rule,
)
from tests.spark.clusters.archive import (
    check_history,
    expect,
    messages,
    read,
    save_file,
    save_files,
)
from tests.spark.clusters.faults import FailsAtFirst, Meanwhile
from tests.spark.clusters.jobs import create_repository

pytestmark = pytest.mark.xdist_group("spark")

FILES = 6


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return save_files(tmp_path / "archive", FILES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_repository(tmp_path / "repo")
    return tmp_path / "repo"


def ingest(
    spark: SparkSession, archive: Path, repo: frazil.Repository | Path, **options: Any
) -> IngestReport:
    job = options.pop("job", None) or frazil.spark.Job()
    job.run_on = "spark"
    return frazil.spark.ingest(
        repo, f"{archive}/*.nc", append_dim="time", job=job, spark=spark, **options
    )


def test_a_task_that_fails_twice_is_tried_again(
    spark: SparkSession, archive: Path, path: Path, tmp_path: Path
) -> None:
    storage = FailsAtFirst(frazil.local_filesystem_storage(str(path)), tmp_path, 2)

    report = ingest(spark, archive, frazil.Repository.open(storage), message="ours")

    assert report.metrics["retries"] == 2
    check_history(path, archive, ["ours"])


def test_a_damaged_file_stops_everything_until_it_is_whole(
    spark: SparkSession, archive: Path, path: Path
) -> None:
    damaged = archive / "00002.nc"
    damaged.write_bytes(damaged.read_bytes()[:1000])

    with pytest.raises(InvalidSourcesError, match=r"00002\.nc"):
        ingest(spark, archive, path)

    assert messages(path) == []
    save_file(archive, 2)
    ingest(spark, archive, path, message="whole")
    check_history(path, archive, ["whole"])


def test_a_file_that_changes_after_it_was_opened_is_reported_and_taken_anew(
    spark: SparkSession, archive: Path, path: Path
) -> None:
    job = Meanwhile("opening files", lambda: change(archive, 3), at_end=True)

    ingest(spark, archive, path, message="first", job=job)

    with pytest.raises(IcechunkError, match=r"00003\.nc"):
        read(path)
    ingest(spark, archive, path, message="second")
    check_history(path, archive, ["second", "first"])


def change(archive: Path, number: int) -> None:
    """Other values, and a time of change that differs by more than clocks of file systems do."""
    changed = save_file(archive, number, seed=1)
    later = changed.stat().st_mtime + 10
    os.utime(changed, (later, later))


def test_an_ingest_of_the_same_times_meanwhile_is_an_overlap(
    spark: SparkSession, archive: Path, path: Path, tmp_path: Path
) -> None:
    others = save_files(tmp_path / "others", FILES)
    for number in range(FILES):  # files of equal content are copies
        change(others, number)

    def happen() -> None:
        ingest(spark, others, path, message="theirs")

    with pytest.raises(InvalidSourcesError, match=r"00000\.nc"):
        ingest(spark, archive, path, job=Meanwhile("writing references", happen))

    check_history(path, others, ["theirs"])


@pytest.fixture
def server(archive: Path) -> Iterator[ObjectServer]:
    """A bucket with the files, which refuses one request of twenty."""
    with ObjectServer() as running:
        for each in archive.glob("*.nc"):
            held = running.buckets["bucket"]
            held.put(f"files/{each.name}", each.read_bytes(), Description(), NO_CONDITION)
        share = 0.05 / 3
        faults = (SLOW_DOWN, Refuse(), DropConnection())
        running.inject([Rule(fault, probability=share) for fault in faults], seed=3)
        yield running


def test_a_storage_that_refuses_one_request_of_twenty(
    spark: SparkSession, archive: Path, server: ObjectServer
) -> None:
    key: Any = {"access_key_id": "friend", "secret_access_key": "secret"}
    reached: Any = {"region": "us-east-1", "endpoint_url": server.url, "allow_http": True,
                    "force_path_style": True}  # fmt: skip
    prefix = "s3://bucket/files/"
    container = frazil.VirtualChunkContainer(prefix, frazil.s3_store(s3_compatible=True, **reached))
    access = containers_credentials({prefix: s3_credentials(**key)})
    storage = frazil.s3_storage(bucket="bucket", prefix="repo", **reached, **key)
    repo = frazil.Repository.create(storage)
    options: Any = {
        "append_dim": "time",
        "source_options": frazil.spark.SourceOptions(containers=[container], credentials=access),
        "job": frazil.spark.Job(run_on="spark", files_per_task=1),
    }

    frazil.spark.ingest(repo, prefix + "*.nc", message="ours", spark=spark, **options)
    opened = frazil.Repository.open(storage, authorize_virtual_chunk_access=access)
    frazil.spark.transform(
        opened,
        ["t"],
        "mean",
        reduce="mean",
        over="time",
        message="mean",
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )
    again = frazil.spark.ingest(repo, prefix, spark=spark, **options)

    assert again.snapshot_id is None
    assert [each.message for each in opened.ancestry(branch="main")][:-1] == ["mean", "ours"]
    store = opened.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False).load()
    xr.testing.assert_identical(found.drop_vars("mean"), expect(archive))
    xr.testing.assert_allclose(found["mean"], expect(archive).t.mean("time"))
    ledger = xr.open_zarr(store, group="_frazil/ledger", consolidated=False)
    assert len(set(ledger.source.values)) == len(ledger.source) == FILES
