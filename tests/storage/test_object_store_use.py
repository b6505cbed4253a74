"""How object stores are used: every request counted, parts of large objects, headers, forks."""

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import zarr
from obstore.store import ObjectStore

import frazil
from frazil import Attribution, Repository, RepositoryConfig
from frazil.format.ids import SnapshotId
from frazil.repository import locate
from frazil.storage import (
    ByteRange,
    PutOptions,
    Storage,
    StorageConcurrencySettings,
    StorageSettings,
    s3_storage,
    set_max_concurrent_requests,
)
from frazil.storage.clients import DEFAULT_MAX_CONCURRENT_REQUESTS
from frazil.storage.connections import ClientPlan, Purpose, S3Connection
from frazil.testing.object_server import Delay, ObjectServer, Rule
from tests.storage.object_stores import make_gcs, make_s3


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


@pytest.fixture
def four_at_once() -> Iterator[None]:
    set_max_concurrent_requests(4)
    yield
    set_max_concurrent_requests(DEFAULT_MAX_CONCURRENT_REQUESTS)


@pytest.mark.usefixtures("four_at_once")
def test_no_more_requests_are_under_way_than_allowed_of_whatever_kind(server: ObjectServer) -> None:
    storage = make_s3(server.url)
    storage.put("object", b"data")
    server.inject([Rule(Delay(0.01))])

    async def read_and_write() -> None:
        reads = (storage.get_async("object") for _ in range(20))
        writes = (storage.put_async(f"written/{number}", b"") for number in range(20))
        await asyncio.gather(*reads, *writes)

    with ThreadPoolExecutor(24) as pool:
        work: list[Future[object]] = [pool.submit(storage.get, "object") for _ in range(20)]
        work += [pool.submit(list, storage.list()) for _ in range(5)]
        work += [pool.submit(storage.create, f"created/{n}", b"") for n in range(10)]
        work += [pool.submit(lambda: asyncio.run(read_and_write())) for _ in range(2)]
        for each in work:
            each.result(60)

    assert server.most_at_once == 4


def test_a_large_object_is_written_and_read_in_parts(server: ObjectServer) -> None:
    settings = StorageSettings(
        concurrency=StorageConcurrencySettings(4, 5 << 20),
        minimum_size_for_multipart_upload=6 << 20,
    )
    data = os.urandom(16 << 20)
    for make in (make_s3, make_gcs):
        storage = make(server.url, settings=settings)
        server.requests.clear()

        storage.put("large", data, PutOptions({"name": "value"}, "text/plain"))
        assert bytes(storage.get("large", ByteRange(5, len(data)))) == data[5:]
        assert bytes(asyncio.run(_get(storage, "large", ByteRange(5, len(data))))) == data[5:]

        methods = [request.method for request in server.requests]
        assert methods == ["POST", "PUT", "PUT", "PUT", "PUT", "POST", *["GET"] * 6]
        stored = server.buckets["bucket"].get("folder/repository/large")
        assert stored.description.metadata == {"name": "value"}


async def _get(storage: Storage, key: str, range: ByteRange) -> bytes:
    return bytes(await storage.get_async(key, range))


def test_near_ranges_of_an_object_are_one_request_and_far_ones_several(
    server: ObjectServer,
) -> None:
    storage = make_s3(server.url)
    data = os.urandom(5 << 20)
    storage.put("object", data)
    server.requests.clear()
    near = [ByteRange(start, start + 10) for start in range(0, 1000, 100)]
    far = [ByteRange(start << 20, (start << 20) + 10) for start in range(0, 5, 2)]

    found = storage.get_ranges("object", near)
    assert len(server.requests) == 1
    assert [bytes(each) for each in found] == [data[each.start : each.end] for each in near]

    storage.get_ranges("object", far)
    assert len(server.requests) == 4


def test_what_is_said_about_an_object_arrives(server: ObjectServer) -> None:
    for make in (make_s3, make_gcs):
        storage = make(server.url, settings=StorageSettings(storage_class="STANDARD_IA"))
        storage.put("put", b"", PutOptions({"icspecver": "2"}, "application/json", "GLACIER_IR"))
        storage.create("created", b"", PutOptions({"icspecver": "2"}))

        bucket = server.buckets["bucket"]
        put = bucket.get("folder/repository/put").description
        created = bucket.get("folder/repository/created").description
        assert put.metadata == {"icspecver": "2"}
        assert put.headers == {"content-type": "application/json", "storage-class": "GLACIER_IR"}
        assert created.metadata.keys() == {"icspecver", "icechunkwriteid"}
        assert created.headers["storage-class"] == "STANDARD_IA"
        storage.delete_many(["put", "created"])


def test_headers_go_out_with_the_requests_they_are_for(server: ObjectServer) -> None:
    storage = s3_storage(
        bucket="bucket",
        prefix=None,
        endpoint_url=server.url,
        allow_http=True,
        anonymous=True,
        headers={"x-all": "all", "x-one": "all"},
        read_headers={"x-one": "read"},
        write_headers={"x-one": "write"},
    )
    storage.put("object", b"")
    storage.create("created", b"")
    storage.get("object")

    sent = [(each.headers["x-all"], each.headers["x-one"]) for each in server.requests]
    assert sent == [("all", "write"), ("all", "write"), ("all", "read")]
    assert all("authorization" not in each.headers for each in server.requests)
    assert all(each.headers["user-agent"].startswith("frazil/") for each in server.requests)


FORK_AFTER_USE = """
import os, pickle, sys
storage = pickle.load(sys.stdin.buffer)
if "{when}" == "after":
    storage.get("object")
if os.fork() == 0:
    try:
        answer = bytes(storage.get("object")).decode()
    except Exception as error:
        answer = f"{{type(error).__name__}}: {{error}}"
    print(answer, flush=True)
    os._exit(0)
os.wait()
print("parent:", bytes(storage.get("object")).decode())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_before_the_first_use_is_fine_and_after_it_is_reported(server: ObjectServer) -> None:
    storage = make_s3(server.url)
    storage.put("object", b"data")

    answers = {
        when: subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FORK_AFTER_USE.format(when=when)],
            input=pickle.dumps(storage),
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout.decode()
        for when in ("before", "after")
    }

    assert answers["before"] == "data\nparent: data\n"
    assert answers["after"].startswith("StorageError: this process was forked")
    assert "spawn" in answers["after"]
    assert answers["after"].endswith("parent: data\n")


def test_importing_storages_starts_nothing() -> None:
    code = """
import threading, sys
before = threading.active_count()
import frazil.storage, frazil.credentials
storage = frazil.storage.s3_storage(bucket="b", prefix="p", from_env=True)
assert threading.active_count() == before == 1
assert "zarr" not in sys.modules
assert "asyncio.events" not in sys.modules or __import__("asyncio")._get_running_loop() is None
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_requests_of_a_repository_say_who_asks(server: ObjectServer) -> None:
    labels = Attribution(client="nightly/2", workload="ingest", principal="weather service")
    repository = Repository.create(make_s3(server.url), attribution=labels)
    server.requests.clear()

    pickle.loads(pickle.dumps(repository.readonly_session("main"))).store.session.status()
    repository.list_branches()

    agents = {each.headers["user-agent"] for each in server.requests}
    says = "nightly/2 (workload=ingest; principal=weather service)"
    assert agents == {f"frazil/{frazil.__version__} {says}"}


def test_neighbouring_chunks_that_are_read_together_are_one_request(server: ObjectServer) -> None:
    storage = make_s3(server.url)
    data = os.urandom(100_000)
    storage.put("chunks/packed", data)
    ranges = [ByteRange(start, start + 900) for start in range(1_000, 90_000, 1_000)]
    server.requests.clear()

    async def read_together() -> list[bytes]:
        return await asyncio.gather(*(_get(storage, "chunks/packed", each) for each in ranges))

    assert asyncio.run(read_together()) == [data[each.start : each.end] for each in ranges]
    assert len(server.requests) == 1


def test_a_repository_sends_no_more_requests_at_once_than_its_configuration_says(
    server: ObjectServer,
) -> None:
    config = RepositoryConfig(max_concurrent_requests=3, inline_chunk_threshold_bytes=0)
    repository = Repository.create(make_s3(server.url), config)
    session = repository.writable_session("main")
    array: Any = zarr.create_array(session.store, name="a", shape=(40,), chunks=(1,), dtype="i4")
    server.inject([Rule(Delay(0.01))])

    array[:] = range(40)
    session.commit("chunks")
    copied = pickle.loads(pickle.dumps(repository))
    array = zarr.open_array(copied.readonly_session("main").store, path="a", mode="r")

    assert list(array[:]) == list(range(40))
    assert server.most_at_once == 3


def test_equal_storages_share_a_client_until_the_environment_changes(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    open_client = S3Connection.open

    def count(connection: S3Connection, plan: ClientPlan) -> ObjectStore:
        opened.append(plan.purpose)
        return open_client(connection, plan)

    monkeypatch.setattr(S3Connection, "open", count)
    make_s3(server.url).put("object", b"data")
    for _ in range(3):
        assert bytes(make_s3(server.url).get("object")) == b"data"
    assert opened == [Purpose.WRITE, Purpose.READ]

    monkeypatch.setenv("AWS_SESSION_TOKEN", "another")
    assert bytes(make_s3(server.url).get("object")) == b"data"
    assert bytes(make_s3(server.url).with_user_agent("program").get("object")) == b"data"
    assert opened[2:] == [Purpose.READ, Purpose.READ]


def make_array(url: str) -> tuple[Repository, str, str]:
    """A repository with one chunk, and the keys of its snapshot and manifest."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = Repository.create(make_s3(url), config)
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(4,), dtype="i4")[:] = 7
    tip = session.commit("chunk")
    (manifest,) = repository.list_manifest_files(tip)
    return repository, f"snapshots/{tip}", f"manifests/{manifest.id}"


def read_array(url: str) -> list[int]:
    session = Repository.open(make_s3(url)).readonly_session("main")
    array: Any = zarr.open_array(session.store, path="a", mode="r")
    return list(array[:])


def read_keys(server: ObjectServer) -> list[str]:
    keys = [each.key.rpartition("repository/")[2] for each in server.requests]
    server.requests.clear()
    return keys


def test_a_process_reads_files_that_never_change_once(server: ObjectServer) -> None:
    repository, _, _ = make_array(server.url)
    assert read_array(server.url) == [7] * 4
    session = repository.readonly_session("main")
    server.requests.clear()

    assert read_array(server.url) == [7] * 4
    opened = read_keys(server)
    array: Any = zarr.open_array(pickle.loads(pickle.dumps(session)).store, path="a", mode="r")
    assert list(array[:]) == [7] * 4
    sent = read_keys(server)

    assert [key.partition("/")[0] for key in opened] == ["repo", "repo", "chunks"]
    assert [key.partition("/")[0] for key in sent] == ["chunks"]


def test_repo_is_sent_again_only_if_it_changed(server: ObjectServer) -> None:
    make_array(server.url)
    # Another client, as another process has it.
    other = Repository.open(make_s3(server.url).with_user_agent("other"))
    assert read_array(server.url) == [7] * 4
    server.requests.clear()

    assert read_array(server.url) == [7] * 4
    asked = [each for each in server.requests if each.key.endswith("repo")]
    session = other.writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[:] = 8
    session.commit("changed")

    assert [each.headers.get("if-none-match") is None for each in asked] == [False, False]
    assert read_array(server.url) == [8] * 4


@pytest.mark.parametrize("version", ["", "?tag=v1", "@v1", "?branch=main"])
def test_a_session_that_is_opened_by_url_reads_repo_once(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    repository, _, _ = make_array(server.url)
    repository.create_tag("v1", repository.lookup_branch("main"))
    monkeypatch.setattr(locate, "storage_from_url", lambda _: make_s3(server.url))
    server.requests.clear()

    session = frazil.open_session(f"s3://bucket/repository{version}")
    asked = read_keys(server)
    later = repository.writable_session("main")
    zarr.open_array(later.store, path="a", mode="r+")[:] = 8
    tip = later.commit("changed")

    assert session.snapshot_id != tip
    assert asked.count("repo") == 1
    # What was read then is not used again.
    assert session.state.context.protocol.lookup_branch("main") == SnapshotId.parse(tip)


def test_files_read_before_are_looked_for_by_a_check(server: ObjectServer) -> None:
    repository, _, manifest = make_array(server.url)
    assert read_array(server.url) == [7] * 4

    make_s3(server.url).delete_many([manifest])

    assert any(each.object == manifest for each in repository.check().problems)


def test_a_damaged_file_is_read_again(server: ObjectServer) -> None:
    _, snapshot, _ = make_array(server.url)
    storage = make_s3(server.url)
    whole = bytes(storage.get(snapshot))
    storage.put(snapshot, whole[: len(whole) // 2])
    with pytest.raises(frazil.IcechunkError):
        read_array(server.url)

    storage.put(snapshot, whole)

    assert read_array(server.url) == [7] * 4


def test_a_commit_opens_no_client_that_its_session_has_opened(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_array(server.url)
    session = Repository.open(make_s3(server.url)).writable_session("main")
    prepare = session.state.assets.storage.preparation
    if prepare is not None:
        prepare()  # which another thread may be doing
    assert session.state.assets.storage.preparation is None
    monkeypatch.delattr(S3Connection, "open")

    zarr.open_array(session.store, path="a", mode="r+")[:] = 8
    session.commit("changed")

    assert read_array(server.url) == [8] * 4
