"""Many threads and many tasks at once on one store, and sessions that do not see each other."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec
from zarr.core.buffer import cpu, default_buffer_prototype

from frazil import ReadOnlyError, Repository, Session
from frazil.storage.interface import NO_OPTIONS, Buffer, PutOptions, Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import LatencyStorage
from tests.repositories import create, keys_of, split_every, values_of

CHUNKS = 400
WORKERS = 16
GROUP = b'{"zarr_format": 3, "node_type": "group"}'
PROTOTYPE = default_buffer_prototype()


@pytest.fixture(params=["at once", "slowly"])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Memory, which needs no waiting, and the same with latency."""
    if request.param == "at once":
        return MemoryStorage()
    return LatencyStorage(MemoryStorage(), read_latency_ms=1, write_latency_ms=1)


@pytest.fixture
def session(storage: Storage) -> Session:
    """A session with an array of many chunks, some small enough for the manifest."""
    repository = create(storage, split_every(50, inline_up_to=6))
    with repository.transaction("main", message="an array") as store:
        zarr.create_array(store, name="a", shape=(CHUNKS,), chunks=(1,), dtype="u1", fill_value=0)
    return repository.writable_session("main")


def content(number: int) -> bytes:
    return b"%d" % number * (1 + number % 3)


def check(session: Session) -> None:
    found = [session.store.get_sync(f"a/c/{number}") for number in range(CHUNKS)]
    assert [each and each.to_bytes() for each in found] == [content(n) for n in range(CHUNKS)]


def reopened(session: Session) -> Session:
    repository = Repository.open(session.state.assets.storage)
    return repository.readonly_session("main")


def test_many_threads_write_and_read_one_store(session: Session) -> None:
    store = session.store

    def work(number: int) -> bytes:
        store.set_sync(f"a/c/{number}", cpu.Buffer.from_bytes(content(number)))
        data = store.get_sync(f"a/c/{number}")
        assert data is not None
        return data.to_bytes()

    with ThreadPoolExecutor(WORKERS) as threads:
        read = list(threads.map(work, range(CHUNKS)))

    assert read == [content(number) for number in range(CHUNKS)]
    check(session)
    session.commit("by many threads")
    check(reopened(session))


def test_many_tasks_write_and_read_one_store(session: Session) -> None:
    store = session.store

    async def work(number: int) -> bytes:
        await store.set(f"a/c/{number}", cpu.Buffer.from_bytes(content(number)))
        data = await store.get(f"a/c/{number}", PROTOTYPE)
        assert data is not None
        return data.to_bytes()

    async def work_at_once() -> list[bytes]:
        return await asyncio.gather(*map(work, range(CHUNKS)))

    read = asyncio.run(work_at_once())

    assert read == [content(number) for number in range(CHUNKS)]
    session.commit("by many tasks")
    check(reopened(session))


def test_nodes_are_made_by_many_threads(session: Session) -> None:
    def make(number: int) -> None:
        zarr.create_group(session.store, path=f"group/{number}", attributes={"n": number})

    zarr.create_group(session.store, path="group")
    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(make, range(60)))

    session.commit("groups")
    keys = keys_of(reopened(session))
    assert {f"group/{number}/zarr.json" for number in range(60)} <= keys


def test_listing_and_reading_go_on_while_others_write(session: Session) -> None:
    store = session.store

    def write(number: int) -> None:
        store.set_sync(f"a/c/{number}", cpu.Buffer.from_bytes(content(number)))
        store.set_sync(f"group-{number}/zarr.json", cpu.Buffer.from_bytes(GROUP))

    def look(_: int) -> int:
        found = [key for key in keys_of(session) if "/c/" in key]
        assert all(store.get_sync(key) is not None for key in found)
        return len(found)

    with ThreadPoolExecutor(WORKERS) as threads:
        writing = threads.map(write, range(CHUNKS))
        seen = list(threads.map(look, range(10)))
        list(writing)

    assert max(seen) <= CHUNKS
    check(session)


class HeldUp(MemoryStorage):
    """Chunks are held up on their way until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_come, self.may_go = threading.Event(), threading.Event()

    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        if key.startswith("chunks/"):
            self.has_come.set()
            self.may_go.wait(timeout=60)
        super().put(key, data, options)


def test_a_chunk_that_comes_after_the_commit_is_refused_not_lost() -> None:
    storage = HeldUp()
    repository = create(storage)
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(2,), chunks=(1,), dtype="u1")
    chunk = cpu.Buffer.from_bytes(bytes(1000))

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(session.store.set_sync, "a/c/0", chunk)
        storage.has_come.wait(timeout=60)
        session.commit("without the chunk")
        storage.may_go.set()

        with pytest.raises(ReadOnlyError):
            writing.result()
    assert not session.has_uncommitted_changes


def test_readers_share_one_session_between_threads(session: Session) -> None:
    values = np.arange(CHUNKS).astype("u1")
    zarr.open_array(session.store, path="a")[:] = values
    session.commit("values")
    reader = reopened(session)

    with ThreadPoolExecutor(WORKERS) as threads:
        read = list(threads.map(lambda _: values_of(reader, "a"), range(3)))

    assert read == [values.tolist()] * 3


def test_shards_that_arrive_together_are_decoded_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shards, chunks, size = 16, 64, 8 << 10
    repository = create(LatencyStorage(MemoryStorage(), read_latency_ms=100, write_latency_ms=0))
    values = np.random.default_rng(1).integers(1, 255, (shards, chunks * size), dtype="u1")
    with repository.transaction("main", message="shards") as store:
        zarr.create_array(
            store, name="a", data=values, chunks=(1, size), shards=(1, chunks * size),
            compressors=None,
        )  # fmt: skip
    counts: list[int] = []
    decode = BytesCodec._decode_sync

    def count(codec: BytesCodec, data: Any, spec: Any) -> Any:
        counts.append(len(asyncio.all_tasks()))
        return decode(codec, data, spec)

    monkeypatch.setattr(BytesCodec, "_decode_sync", count)
    array = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")

    assert np.array_equal(np.asarray(array[:]), values)
    assert len(counts) >= shards * chunks
    # Several tasks for every chunk of a shard, and one for every other shard.
    assert max(counts) < 4 * chunks + shards
