"""Copies between storages, on Spark and without it, read by the official library, too."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil import Repository, RepositoryConfig
from frazil.credentials import LocalFileSystemAccess, containers_credentials
from frazil.errors import IcechunkError, PermissionDeniedError
from frazil.spark import Job, copy, export_zarr, import_zarr
from frazil.storage import MemoryStorage, local_filesystem_storage, local_filesystem_store
from frazil.testing.object_server import ObjectServer, Refuse, Rule
from frazil.virtual import VirtualChunkContainer
from tests.spark.copied_samples import (
    ALL_NATIVE,
    contents,
    create,
    fill,
    history,
    objects,
    refs,
    values,
)
from tests.storage.object_stores import make_s3

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    """An object store on this machine."""
    with ObjectServer() as server:
        yield server


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    """A repository on a disk."""
    return create(local_filesystem_storage(str(tmp_path / "source")))


def test_tasks_copy_to_a_bucket_and_back(
    spark: SparkSession, source: Repository, server: ObjectServer, tmp_path: Path
) -> None:
    bucket = make_s3(server.url, prefix="copies/one")
    back = local_filesystem_storage(str(tmp_path / "back"))

    report = copy(source, bucket, job=Job(run_on="spark"), spark=spark)
    fill(source, slice(2, 4), 9)
    again = copy(source, bucket, job=Job(run_on="spark"), spark=spark)
    copy(bucket, back, spark=spark)

    assert (report.ran_on, again.ran_on) == ("spark", "spark")
    assert report.application_id is not None
    assert again.objects == 5
    assert objects(bucket) == objects(source.storage) == objects(back)
    assert refs(Repository.open(bucket)) == refs(source)
    np.testing.assert_array_equal(values(Repository.open(back)), values(source))


def test_a_bucket_that_fails_is_copied_to_in_the_end(
    source: Repository, server: ObjectServer
) -> None:
    bucket = make_s3(server.url, prefix="copies/two")
    slow = Rule(Refuse(503, "SlowDown"), method="PUT", key="*chunks/*", count=3)
    server.inject([slow, Rule(Refuse(403, "AccessDenied"), method="PUT", key="*manifests/*")])

    with pytest.raises(IcechunkError):
        frazil.copy(source, bucket)
    assert not Repository.exists(bucket)
    server.inject([])
    report = frazil.copy(source, bucket)

    assert report.present >= 22
    assert objects(bucket) == objects(source.storage)


def test_tasks_that_fail_leave_no_repository_and_the_next_ones_go_on(
    spark: SparkSession, source: Repository, server: ObjectServer
) -> None:
    bucket = make_s3(server.url, prefix="copies/four")
    server.inject([Rule(Refuse(403, "AccessDenied"), method="PUT", key="*transactions/*")])

    with pytest.raises(PermissionDeniedError):
        copy(source, bucket, job=Job(run_on="spark"), spark=spark)
    assert not Repository.exists(bucket)
    server.inject([])
    report = frazil.copy(source, bucket)

    assert report.present >= 22
    assert objects(bucket) == objects(source.storage)


def test_names_of_refs_are_spelled_as_the_target_does(server: ObjectServer, tmp_path: Path) -> None:
    source = create(local_filesystem_storage(str(tmp_path / "source")), 1)
    source.create_tag("é 100%", source.lookup_tag("v1"))
    source.create_branch("a:b", source.lookup_tag("v1"))
    bucket = make_s3(server.url, prefix="copies/five")

    frazil.copy(source, bucket)
    source.delete_branch("a:b")
    frazil.copy(source, bucket)

    assert refs(Repository.open(bucket)) == refs(source)
    assert objects(bucket) == objects(source.storage)


def test_many_chunks_are_listed_rather_than_asked_for(server: ObjectServer) -> None:
    source = Repository.create(MemoryStorage(), ALL_NATIVE)
    session = source.writable_session("main")
    array = zarr.create_array(session.store, name="t", shape=(600,), chunks=(1,), dtype="u1")
    array[:] = np.arange(600) % 250 + 1
    session.commit("many")
    bucket = make_s3(server.url, prefix="copies/three")
    keys = sorted(info.key for info in source.storage.list("chunks/"))
    for key in keys[:50]:
        bucket.put(key, source.storage.get(key))
    bucket.put(keys[50], b"")

    report = frazil.copy(source, bucket)

    assert report.present == 50
    assert objects(bucket) == objects(source.storage)
    asked = [each.key for each in server.requests if each.method == "HEAD"]
    assert [key for key in asked if "chunks/" in key] == []


def test_tasks_export_and_import(
    spark: SparkSession, source: Repository, server: ObjectServer, tmp_path: Path
) -> None:
    plain = make_s3(server.url, prefix="plain.zarr")
    target = Repository.create(local_filesystem_storage(str(tmp_path / "target")))

    out = export_zarr(source, plain, job=Job(run_on="spark"), spark=spark)
    into = import_zarr(target, plain, group="again", job=Job(run_on="spark"), spark=spark)

    assert (out.ran_on, into.ran_on) == ("spark", "spark")
    assert out.chunks == into.chunks == 22
    np.testing.assert_array_equal(values(target, "again/ocean/t"), values(source))
    np.testing.assert_array_equal(values(target, "again/land/h"), values(source, "land/h"))


def test_the_official_library_reads_copies_and_imports(source: Repository, tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    places = {name: str(tmp_path / name) for name in ("copy", "last", "part", "plain", "import")}
    fill(source, slice(0, 1), 3)
    imported = Repository.create(local_filesystem_storage(places["import"]))

    frazil.copy(source, places["copy"])
    frazil.copy(source, places["last"], branches=["main"], tags=[], last=1)
    frazil.copy(source, places["part"], group="ocean")
    frazil.export_zarr(source, places["plain"])
    frazil.import_zarr(imported, places["plain"])

    for name in ("copy", "last", "part", "import"):
        repo = icechunk.Repository.open(icechunk.local_filesystem_storage(places[name]))
        store = repo.readonly_session("main").store
        found = np.asarray(zarr.open_array(store, path="ocean/t", mode="r")[...])
        np.testing.assert_array_equal(found, values(source), err_msg=name)
        ours = Repository.open(local_filesystem_storage(places[name]))
        assert [each.id for each in repo.ancestry(branch="main")] == history(ours)
        # It goes on from there, too.
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="ocean/t", mode="r+")[5] = 50
        session.commit("official")
        assert values(ours)[5].tolist() == [50, 50, 50]
        assert ours.check(deep=True).is_healthy


def test_virtual_chunks_stay_virtual(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "values.bin").write_bytes(np.arange(8, dtype="<i4").tobytes())
    prefix = f"file://{folder}/"
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        VirtualChunkContainer(prefix, local_filesystem_store(str(folder)))
    )
    access = containers_credentials({prefix: LocalFileSystemAccess})
    source = Repository.create(local_filesystem_storage(str(tmp_path / "a")), config, access)
    source.save_config()
    session = source.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(8,), chunks=(4,), dtype="<i4", compressors=None
    )
    session.store.set_virtual_ref("v/c/1", f"{prefix}values.bin", offset=16, length=16)
    session.commit("virtual")

    frazil.copy(source, str(tmp_path / "b"))

    place = local_filesystem_storage(str(tmp_path / "b"))
    found = Repository.open(place, None, access)
    assert contents(found.readonly_session("main")) == contents(source.readonly_session("main"))
    assert values(found, "v").tolist() == [0, 0, 0, 0, 4, 5, 6, 7]
    assert list(place.list("chunks/")) == []
