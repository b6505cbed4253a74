"""What the engine is asked to do; the same lines run on Frazil, on the official library and on Zarr.

Every workload is a function of the library's name and a folder, run in a fresh process.
"""

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import cpu, default_buffer_prototype

from benchmarks.support.measuring import Figures, answer, timed

PIPELINES = {
    "batched": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
}
SIDE = 1000
"""Chunks along each axis of the large array."""
CHUNK = 1024
SMALL = 100
CALLS = 2000
OPENINGS = 200


UNSYNCED = "frazil unsynced"
"""Frazil on a disk that it brings nothing to by itself, as the official library does it."""


def _library(name: str) -> Any:
    library = importlib.import_module(name.removesuffix(" unsynced"))
    assert library.Repository, "what is loaded when it is first used is loaded now"
    return library


def _storage(name: str, folder: str) -> Any:
    if name == UNSYNCED:
        local = importlib.import_module("frazil.storage.local")
        return local.LocalStorage(folder, durability=local.Durability.NONE)
    return _library(name).local_filesystem_storage(folder)


def _prepared(config: Any, library: Any, folder: str) -> Any:
    prefix = f"file://{folder}/"
    store = library.local_filesystem_store(f"{folder}/")
    config.set_virtual_chunk_container(library.VirtualChunkContainer(prefix, store))
    return config


def prepare_large(library: str, folder: str, split: int | None) -> Figures:
    """A repository with an array of a million references, all but one of them virtual."""
    ic = _library(library)
    config = _prepared(ic.RepositoryConfig.default(), ic, folder)
    if split is not None:
        sizes = {
            ic.ManifestSplitCondition.AnyArray(): {ic.ManifestSplitDimCondition.Axis(0): split}
        }
        config.manifest = ic.ManifestConfig(splitting=ic.ManifestSplittingConfig.from_dict(sizes))
    repo = ic.Repository.create(_storage(library, f"{folder}/repo"), config)
    session = repo.writable_session("main")
    shape = (SIDE, SIDE * CHUNK)
    array = zarr.create_array(
        session.store, name="a", shape=shape, chunks=(1, CHUNK), dtype="u1", compressors=None
    )
    count = SIDE * SIDE
    locations = [f"file://{folder}/source-{row // 100}.nc" for row in range(count)]
    offsets = np.arange(count, dtype=np.uint64) % 100 * CHUNK
    lengths = np.full(count, CHUNK, np.uint64)
    session.store.set_virtual_refs_arr("a", (SIDE, SIDE), locations, offsets, lengths)
    array[SIDE // 2, :CHUNK] = 7
    session.commit("large")
    return {"seconds": 0.0, "peak_bytes": 0}


def open_repository(library: str, folder: str) -> Figures:
    """Opening, many times."""
    ic, storage = _library(library), _storage(library, f"{folder}/small")
    ic.Repository.create(storage)

    def work() -> None:
        for _ in range(OPENINGS):
            ic.Repository.open(storage)

    return timed(work)[1]


def read_first_chunk(library: str, folder: str) -> Figures:
    """From nothing to the bytes of one chunk."""
    ic = _library(library)

    def work() -> Any:
        repo = ic.Repository.open(_storage(library, f"{folder}/repo"))
        store = repo.readonly_session("main").store
        return asyncio.run(store.get(f"a/c/{SIDE // 2}/0", default_buffer_prototype()))

    found, figures = timed(work)
    assert found.to_bytes() == bytes([7]) * CHUNK
    return figures


def _ask(library: str, folder: str, ask: Callable[[Any, int], Awaitable[Any]]) -> Figures:
    repo = _library(library).Repository.open(_storage(library, f"{folder}/repo"))
    store = repo.readonly_session("main").store

    async def work() -> Figures:
        await ask(store, 0)
        start = time.perf_counter()
        for number in range(CALLS):
            await ask(store, number)
        return {"seconds": time.perf_counter() - start}

    figures, memory = timed(lambda: asyncio.run(work()))
    return {**memory, **figures}


def exists(library: str, folder: str) -> Figures:
    """Whether chunks are there, which needs no chunk."""
    return _ask(library, folder, lambda store, number: store.exists(f"a/c/{number % SIDE}/3"))


def getsize(library: str, folder: str) -> Figures:
    """How large chunks are, which needs no chunk."""
    return _ask(library, folder, lambda store, number: store.getsize(f"a/c/{number % SIDE}/3"))


def commit_one_chunk(library: str, folder: str) -> Figures:
    """One changed chunk among a million."""
    repo = _library(library).Repository.open(_storage(library, f"{folder}/repo"))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[3, :CHUNK] = time.time_ns() % 251
    return timed(lambda: session.commit("one chunk"))[1]


def commit_small_chunks(library: str, folder: str) -> Figures:
    """Ten thousand new chunks that fit into the manifest."""
    repo = _library(library).Repository.create(_storage(library, f"{folder}/small-chunks"))
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(10_000, SMALL), chunks=(1, SMALL), dtype="u1",
        compressors=None,
    )  # fmt: skip

    async def fill() -> None:
        for number in range(10_000):
            data = cpu.Buffer.from_bytes(number.to_bytes(4, "big") * (SMALL // 4))
            await session.store.set(f"a/c/{number}/0", data)

    asyncio.run(fill())
    return timed(lambda: session.commit("small chunks"))[1]


def write_chunks(
    library: str, folder: str, chunks: int, size: int, shard: int, pipeline: str
) -> Figures:
    """An array through Zarr; the commit belongs to it."""
    data = np.random.default_rng(0).integers(0, 255, (chunks, size), dtype="u1")
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        if library == "zarr":
            session, store = None, zarr.storage.LocalStore(f"{folder}/chunks")
        else:
            ic = _library(library)
            session = ic.Repository.create(_storage(library, f"{folder}/chunks"))
            session = session.writable_session("main")
            store = session.store
        array = zarr.create_array(
            store, name="a", shape=data.shape, chunks=(1, size), dtype="u1", compressors=None,
            shards=(shard, size) if shard > 1 else None,
        )  # fmt: skip

        def work() -> None:
            array[:] = data
            if session is not None:
                session.commit("chunks")

        return timed(work)[1]


def read_chunks(
    library: str, folder: str, chunks: int, size: int, pipeline: str, **_: int
) -> Figures:
    """The same array through Zarr, from the page cache."""
    for path in Path(f"{folder}/chunks").rglob("*"):
        if path.is_file():
            path.read_bytes()
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        if library == "zarr":
            store: Any = zarr.storage.LocalStore(f"{folder}/chunks", read_only=True)
        else:
            repo = _library(library).Repository.open(_storage(library, f"{folder}/chunks"))
            store = repo.readonly_session("main").store
        array: Any = zarr.open_array(store, path="a", mode="r")
        found, figures = timed(lambda: array[:])
    assert found.shape == (chunks, size)
    return figures


WORKLOADS: dict[str, Callable[..., Figures]] = {
    "prepare_large": prepare_large,
    "open": open_repository,
    "read_first_chunk": read_first_chunk,
    "exists": exists,
    "getsize": getsize,
    "commit_one_chunk": commit_one_chunk,
    "commit_small_chunks": commit_small_chunks,
    "write_chunks": write_chunks,
    "read_chunks": read_chunks,
}

if __name__ == "__main__":
    answer(WORKLOADS)
