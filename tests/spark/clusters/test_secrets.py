"""Credentials that jobs are given appear nowhere that anybody reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.credentials import containers_credentials, s3_credentials
from frazil.errors import PermissionDeniedError
from frazil.testing.object_server import NO_CONDITION, Description, ObjectServer, ServerOptions
from tests.spark.clusters.archive import expect
from tests.spark.clusters.drivers import Driver
from tests.spark.clusters.processes import Standalone

pytestmark = pytest.mark.xdist_group("clusters")

PREFIX = "s3://bucket/files/"
FRIEND: dict[str, Any] = {"access_key_id": "friend", "secret_access_key": "do-not-tell-anybody"}
STRANGER: dict[str, Any] = {"access_key_id": "stranger", "secret_access_key": "nor-this-to-anybody"}


@pytest.fixture
def bucket(few: Path) -> Iterator[str]:
    """The URL of a server whose bucket has files that only a friend may read."""
    with ObjectServer(ServerOptions(access_keys=frozenset(("friend",)))) as running:
        for path in sorted(few.glob("*.nc")):
            held = running.buckets["bucket"]
            held.put(f"files/{path.name}", path.read_bytes(), Description(), NO_CONDITION)
        yield running.url


def reach(url: str) -> dict[str, Any]:
    return {
        "region": "us-east-1",
        "endpoint_url": url,
        "allow_http": True,
        "force_path_style": True,
    }


def open_storage(url: str) -> frazil.Storage:
    return frazil.s3_storage(bucket="bucket", prefix="repo", **reach(url), **FRIEND)


def run(spark: SparkSession, url: str, key: dict[str, Any]) -> str:
    """An ingest from a bucket into a bucket, and a job on what it made."""
    access = containers_credentials({PREFIX: s3_credentials(**key)})
    store = frazil.s3_store(s3_compatible=True, **reach(url))
    report = frazil.spark.ingest(
        frazil.Repository.open_or_create(open_storage(url)),
        PREFIX + "*.nc",
        append_dim="time",
        source_options=frazil.spark.SourceOptions(
            containers=[frazil.VirtualChunkContainer(PREFIX, store)], credentials=access
        ),
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )
    repo = frazil.Repository.open(open_storage(url), authorize_virtual_chunk_access=access)
    done = frazil.spark.transform(
        repo,
        ["t"],
        "mean",
        reduce="mean",
        over="time",
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )
    newest = next(iter(repo.ancestry(branch="main")))
    return f"{report!r}{report}{done!r}{done}{newest.metadata}{repo!r}{repo.config}{repo.storage!r}"


def everything_written(folder: Path) -> dict[Path, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".jar")
    return {path: path.read_bytes() for path in found}


def command_lines() -> str:
    own = [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"]]
    return "\n".join(" ".join(each.info["cmdline"]) for each in own)


def test_keys_are_neither_logged_nor_planned_nor_reported(
    cluster: Standalone, on_cluster: Driver, bucket: str, few: Path
) -> None:
    secrets = [key["secret_access_key"] for key in (FRIEND, STRANGER)]

    with pytest.raises(PermissionDeniedError) as refused:
        on_cluster.call(run, bucket, STRANGER)
    reported = on_cluster.call(run, bucket, FRIEND)

    written = everything_written(cluster.folder)
    events = [path for path in written if "events" in path.parts]
    assert any(b"MapInArrow" in written[path] for path in events), "plans are in the event log"
    assert any(path.name == "stderr" and "work" in path.parts for path in written)
    assert on_cluster.log in written
    texts = [
        reported,
        repr(refused.value),
        "".join(getattr(refused.value, "__notes__", ())),
        command_lines(),
    ]
    for secret in secrets:
        assert not [text for text in texts if secret in text]
        assert not [path for path in written if secret.encode() in written[path]]
    access = containers_credentials({PREFIX: s3_credentials(**FRIEND)})
    repo = frazil.Repository.open(open_storage(bucket), authorize_virtual_chunk_access=access)
    found = xr.open_zarr(repo.readonly_session("main").store, consolidated=False)
    xr.testing.assert_identical(found.drop_vars("mean").load(), expect(few))
