"""Reads of chunks: how many are under way at once, and how many calls one takes."""

import asyncio
import pickle
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core import codec_pipeline
from zarr.core.buffer import default_buffer_prototype

from frazil import IcechunkError, IcechunkStore, Repository, RepositoryConfig
from frazil.storage.interface import Buffer, Range
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import ForwardingStorage

CHUNKS = 60


class Network(ForwardingStorage):
    """A storage that is reached over a network and counts the reads that are under way."""

    under_way = 0
    most = 0

    @property
    def is_local(self) -> bool:
        return False

    async def get_async(self, key: str, range: Range | None = None) -> Buffer:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        return await super().get_async(key, range)


@pytest.fixture
def concurrency() -> Iterator[None]:
    with zarr.config.set({"async.concurrency": 10}):
        yield


def _write(storage: MemoryStorage) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    session = Repository.create(storage, config).writable_session("main")
    array = zarr.create_array(
        session.store, name="a", shape=(CHUNKS, 4), chunks=(1, 4), dtype="i4", compressors=None
    )
    array[:] = np.arange(CHUNKS * 4).reshape(CHUNKS, 4)
    session.commit("array")


def _store(storage: MemoryStorage | Network) -> IcechunkStore:
    return Repository.open(storage).readonly_session("main").store


@pytest.mark.usefixtures("concurrency")
def test_more_chunks_are_read_at_once_over_a_network_than_zarr_asks_for() -> None:
    memory = MemoryStorage()
    _write(memory)
    network = Network(memory)

    array = zarr.open_array(_store(network), path="a", mode="r")

    assert np.array_equal(array[:], np.arange(CHUNKS * 4).reshape(CHUNKS, 4))
    assert network.most == network.concurrency > 10


@pytest.mark.usefixtures("concurrency")
@pytest.mark.parametrize("number", [1, 5, 12])
def test_a_number_of_requests_that_the_user_has_set_stays(number: int) -> None:
    memory = MemoryStorage()
    _write(memory)
    network = Network(memory)
    with zarr.config.set({"async.concurrency": number}):
        array: Any = zarr.open_array(_store(network), path="a", mode="r")
        assert array[:].shape == (CHUNKS, 4)

    assert network.most == number


@pytest.mark.usefixtures("concurrency")
def test_a_local_storage_leaves_the_number_of_requests_to_zarr() -> None:
    memory = MemoryStorage()
    _write(memory)

    pickle.loads(pickle.dumps(_store(memory)))

    assert zarr.config.get("async.concurrency") == 10


PIPELINES = [
    name for name in ("Batched", "Fused") if hasattr(codec_pipeline, f"{name}CodecPipeline")
]
"""Zarr's codec pipelines; the oldest supported Zarr has no fused one."""


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (5, 7)},
        {"chunks": (5, 7), "compressors": None, "fill_value": -1},
        {"chunks": (2, 4), "shards": (8, 8)},
        {"chunks": (2, 4), "shards": (8, 8), "compressors": None},
    ],
    ids=["compressed", "plain", "shards", "plain shards"],
)
def test_every_pipeline_of_zarr_writes_and_reads_the_same_values(
    options: dict[str, Any], is_remote: bool, pipeline: str
) -> None:
    values = np.random.default_rng(0).integers(0, 1000, (30, 40))
    values[8:16, 8:24] = options.get("fill_value", 0)  # chunks that are not stored
    storage = MemoryStorage()
    with zarr.config.set(
        {"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}CodecPipeline"}
    ):
        session = Repository.create(storage).writable_session("main")
        array: Any = zarr.create_array(
            session.store, name="a", shape=values.shape, dtype="i8", **options
        )
        array[:20] = values[:20]
        array[20:, 3:] = values[20:, 3:]
        array[20:, :3] = values[20:, :3]
        session.commit("array")
        array = zarr.open_array(
            _store(Network(storage) if is_remote else storage), path="a", mode="r"
        )

        for chosen in (
            np.s_[:], np.s_[3:17, 5:33], np.s_[::7, ::5], np.s_[29, 39], np.s_[8:16], np.s_[5:5],
        ):  # fmt: skip
            assert np.array_equal(array[chosen], values[chosen])
        assert np.array_equal(array.oindex[[1, 9, 28], [0, 39]], values[[1, 9, 28]][:, [0, 39]])


def _count_calls_before(storage: MemoryStorage, store: IcechunkStore, key: str) -> int:
    """Count our own calls of a read, up to that of the storage.

    Before Python 3.12 each comprehension is a call; these don't count.
    """
    calls: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        is_ours = "frazil" in frame.f_globals.get("__name__", "")
        if event == "call" and is_ours and not frame.f_code.co_name.endswith("comp>"):
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(record)
    try:
        store.get_sync(key, prototype=default_buffer_prototype())
    finally:
        sys.setprofile(None)
    return calls.index(f"{type(storage).__name__}.get")


def test_a_warm_chunk_takes_at_most_ten_calls_to_the_storage() -> None:
    storage = MemoryStorage()
    _write(storage)
    store = _store(storage)
    store.get_sync("a/c/3/0", prototype=default_buffer_prototype())

    assert _count_calls_before(storage, store, "a/c/3/0") <= 3
    # A chunk that was not read before, in a manifest that was:
    assert _count_calls_before(storage, store, "a/c/5/0") <= 10


def test_a_warm_chunk_of_a_root_array_or_a_writable_session_takes_few_calls_too() -> None:
    storage = MemoryStorage()
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = Repository.create(storage, config)
    session = repository.writable_session("main")
    array: Any = zarr.create_array(session.store, shape=(8, 4), chunks=(1, 4), dtype="i4")
    array[:] = 1
    session.commit("array at the root")
    for store in (
        repository.readonly_session("main").store,
        pickle.loads(pickle.dumps(repository.readonly_session("main"))).store,
        repository.writable_session("main").store,
        session.store,
    ):
        store.get_sync("c/3/0", prototype=default_buffer_prototype())

        assert _count_calls_before(storage, store, "c/5/0") <= 10


@pytest.mark.parametrize(
    "key",
    ["a/c/03/0", "a/c/+3/0", "/a/c/3/0", "a/c/-1/0", "a/c/3_0/0", "a/c/3/0 ", "a/c/60/0", "a/c/3",
     "a/c/3/0/0", "a/c/\u0663/0", "b/c/3/0", "a/c/x/0", "a/c//0"],
)  # fmt: skip
def test_an_unusual_key_is_read_alike_before_and_after_its_manifest(key: str) -> None:
    storage = MemoryStorage()
    _write(storage)

    def read(store: IcechunkStore) -> object:
        try:
            found = store.get_sync(key, prototype=default_buffer_prototype())
        except IcechunkError as error:
            return str(error)
        return None if found is None else found.to_bytes()

    warm = _store(storage)
    warm.get_sync("a/c/3/0", prototype=default_buffer_prototype())

    assert read(warm) == read(_store(storage))


def test_chunks_that_change_in_a_session_are_read_as_they_are_now() -> None:
    storage = MemoryStorage()
    _write(storage)
    repository = Repository.open(storage)
    session = repository.writable_session("main")
    array: Any = zarr.open_array(session.store, path="a")
    for value in (7, 8):
        array[3] = value
        assert (array[3] == value).all()
    session.commit("eight")
    assert (array[3] == 8).all()
    old = repository.readonly_session(snapshot_id=repository.lookup_branch("main"))
    array = zarr.open_array(old.store, path="a", mode="r")
    assert (array[3] == 8).all()


def test_ranges_of_a_warm_chunk_are_its_bytes() -> None:
    storage = MemoryStorage()
    _write(storage)
    store = _store(storage)
    prototype = default_buffer_prototype()
    whole = store.get_sync("a/c/3/0", prototype=prototype)
    assert whole is not None
    for request in (
        RangeByteRequest(2, 7),
        OffsetByteRequest(5),
        SuffixByteRequest(3),
    ):
        fresh, warm = _store(storage), store
        first = fresh.get_sync("a/c/3/0", prototype=prototype, byte_range=request)
        again = warm.get_sync("a/c/3/0", prototype=prototype, byte_range=request)
        assert first is not None
        assert again is not None
        assert first.to_bytes() == again.to_bytes()
