"""Archives and repositories in buckets, reached with credentials that nobody else gets to see."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.credentials import containers_credentials, s3_credentials
from frazil.testing.object_server import (
    NO_CONDITION,
    Description,
    ObjectServer,
    Refuse,
    Rule,
    ServerOptions,
)
from tests.spark.ingestion.archives import expect, save_archive

pytestmark = pytest.mark.xdist_group("spark")

SECRET = "do-not-tell-anybody"
PREFIX = "s3://bucket/days/"


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer(ServerOptions(access_keys=frozenset(("friend",)))) as running:
        yield running


def test_an_archive_in_a_bucket_goes_into_a_repository_in_a_bucket(
    spark: SparkSession, server: ObjectServer, tmp_path: Path
) -> None:
    for path in save_archive(tmp_path / "archive", 3):
        bucket = server.buckets["bucket"]
        bucket.put(f"days/{path.name}", path.read_bytes(), Description(), NO_CONDITION)
    reached: Any = {"region": "us-east-1", "endpoint_url": server.url, "allow_http": True,
                    "force_path_style": True}  # fmt: skip
    key: Any = {"access_key_id": "friend", "secret_access_key": SECRET}
    storage = frazil.s3_storage(bucket="bucket", prefix="repo", **reached, **key)
    container = frazil.VirtualChunkContainer(PREFIX, frazil.s3_store(s3_compatible=True, **reached))
    access = containers_credentials({PREFIX: s3_credentials(**key)})
    repo = frazil.Repository.create(storage)

    def ingest(name: str, **more: Any) -> frazil.spark.IngestReport:
        return frazil.spark.ingest(
            repo,
            name,
            append_dim="time",
            checks=[frazil.spark.checks.samples_equal_source(share=1.0)],
            source_options=frazil.spark.SourceOptions(containers=[container], credentials=access),
            job=frazil.spark.Job(run_on="spark"),
            spark=spark,
            **more,
        )

    report = ingest(PREFIX + "*.nc")

    assert len(ingest(PREFIX).known) == 3
    opened = frazil.Repository.open(storage, authorize_virtual_chunk_access=access)
    found: xr.Dataset = xr.open_zarr(opened.readonly_session("main").store, consolidated=False)
    xr.testing.assert_identical(found.load(), expect(tmp_path / "archive"))
    newest = next(iter(opened.ancestry(branch="main")))
    assert SECRET not in f"{report}{report!r}{newest.metadata}{opened.config}"

    ingest(PREFIX, group="copied", mode="native", chunks={"time": 4})
    plain = frazil.Repository.open(storage).readonly_session("main").store
    copied: xr.Dataset = xr.open_zarr(plain, group="copied", consolidated=False)
    xr.testing.assert_identical(copied.load(), expect(tmp_path / "archive"))


@pytest.mark.parametrize(
    ("mode", "method"), [("virtual", "HEAD"), ("virtual", "GET"), ("native", "GET")]
)
def test_a_host_that_refuses_more_requests_is_waited_for(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, method: str
) -> None:
    for path in save_archive(tmp_path / "archive", 1):
        bucket = server.buckets["bucket"]
        bucket.put(f"days/{path.name}", path.read_bytes(), Description(), NO_CONDITION)
    reached: Any = {"region": "us-east-1", "endpoint_url": server.url, "allow_http": True,
                    "force_path_style": True}  # fmt: skip
    key: Any = {"access_key_id": "friend", "secret_access_key": SECRET}
    container = frazil.VirtualChunkContainer(PREFIX, frazil.s3_store(s3_compatible=True, **reached))
    access = containers_credentials({PREFIX: s3_credentials(**key)})
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    # More than the tries of a request.
    server.inject([Rule(Refuse(429, "TooManyRequests"), method=method, key="*.nc", count=11)])

    frazil.ingest(
        repo, [f"{PREFIX}{each.name}" for each in sorted((tmp_path / "archive").iterdir())],
        append_dim="time", mode=mode,
        source_options=frazil.spark.SourceOptions(containers=[container], credentials=access),
    )  # fmt: skip

    assert waits
    opened = frazil.Repository.open(repo.storage, authorize_virtual_chunk_access=access)
    found: xr.Dataset = xr.open_zarr(opened.readonly_session("main").store, consolidated=False)
    xr.testing.assert_identical(found.load(), expect(tmp_path / "archive"))
