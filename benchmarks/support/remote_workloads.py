"""Work on an S3 server; the same lines run on Frazil and on the official library."""

import importlib
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import obstore
import zarr
from obstore.store import S3Store

from benchmarks.support.measuring import Figures, answer

Server = dict[str, str]
SMALL = (1_000, 4 << 10)
LARGE = (16, 4 << 20)
SHARDS = (16, 64, 16 << 10)
"""Shards, chunks in each, and bytes of a chunk."""
VIRTUAL = (200, 16 << 10)
SOURCE = "source/file"


def _library(name: str, *, is_fused: bool = False) -> Any:
    if is_fused:
        zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"})
    library = importlib.import_module(name)
    assert library.Repository, "what is loaded when it is first used is loaded now"
    return library


def _storage(ic: Any, server: Server, prefix: str) -> Any:
    return ic.s3_storage(
        bucket=server["bucket"], prefix=prefix, region="us-east-1", endpoint_url=server["url"],
        allow_http=True, force_path_style=True, access_key_id=server["key"],
        secret_access_key=server["secret"],
    )  # fmt: skip


def _containers(ic: Any, server: Server) -> tuple[Any, Any]:
    """The container of the source file, and the access to it."""
    url = f"s3://{server['bucket']}/source/"
    store = ic.s3_store(
        region="us-east-1", endpoint_url=server["url"], allow_http=True, s3_compatible=True,
        force_path_style=True,
    )  # fmt: skip
    credentials = ic.s3_credentials(access_key_id=server["key"], secret_access_key=server["secret"])
    return ic.VirtualChunkContainer(url, store), ic.containers_credentials({url: credentials})


def _open(ic: Any, server: Server, prefix: str) -> Any:
    container, access = _containers(ic, server)
    config = ic.RepositoryConfig.default()
    config.set_virtual_chunk_container(container)
    return ic.Repository.open(
        _storage(ic, server, prefix), config, authorize_virtual_chunk_access=access
    )


def _fill(store: Any, name: str, chunks: int, size: int) -> None:
    array = zarr.create_array(
        store, name=name, shape=(chunks, size), chunks=(1, size), dtype="u1", compressors=None
    )
    array[:] = np.random.default_rng(chunks).integers(0, 255, (chunks, size), dtype="u1")


def prepare(library: str, server: Server, prefix: str) -> Figures:
    """Write what the others read."""
    ic = _library(library)
    chunks, size = VIRTUAL
    source = S3Store(
        server["bucket"], region="us-east-1", endpoint=server["url"],
        access_key_id=server["key"], secret_access_key=server["secret"],
        client_options={"allow_http": True}, virtual_hosted_style_request=False,
    )  # fmt: skip
    obstore.put(source, SOURCE, bytes(chunks * size))
    container, _ = _containers(ic, server)
    config = ic.RepositoryConfig.default()
    config.set_virtual_chunk_container(container)
    repo = ic.Repository.create(_storage(ic, server, prefix), config)
    session = repo.writable_session("main")
    _fill(session.store, "small", *SMALL)
    _fill(session.store, "large", *LARGE)
    shards, inside, each = SHARDS
    array = zarr.create_array(
        session.store, name="sharded", shape=(shards, inside * each), chunks=(1, each),
        shards=(1, inside * each), dtype="u1", compressors=None,
    )  # fmt: skip
    array[:] = 1
    zarr.create_array(
        session.store, name="virtual", shape=(chunks, size), chunks=(1, size), dtype="u1",
        compressors=None,
    )  # fmt: skip
    session.store.set_virtual_refs_arr(
        "virtual", (chunks, 1), [f"s3://{server['bucket']}/{SOURCE}"] * chunks,
        np.arange(chunks, dtype=np.uint64) * np.uint64(size), np.full(chunks, size, np.uint64),
    )  # fmt: skip
    session.commit("arrays")
    for number in range(20):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="small", mode="r+")[number] = number
        session.commit("row")
    return {"seconds": 0.0}


def _read_chunk(repo: Any) -> None:
    array: Any = zarr.open_array(repo.readonly_session("main").store, path="small", mode="r")
    assert array[999].shape == (SMALL[1],)


def first_chunk(library: str, server: Server, prefix: str, started: float) -> Figures:
    """Open and read one chunk in a new process."""
    _read_chunk(_open(_library(library), server, prefix))
    return {"seconds": time.time() - started}


def everything(
    library: str, server: Server, prefix: str, only: list[str], is_fused: bool
) -> Figures:
    """All other work in one process, or the lines whose names contain one of `only`."""
    ic = _library(library, is_fused=is_fused)
    found: Figures = {}

    def is_wanted(*names: str) -> bool:
        return not only or any(part in name for part in only for name in names)

    def measure(name: str, work: Callable[[], object], times: int = 1) -> None:
        seconds = []
        for _ in range(times if is_wanted(name) else 0):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        if seconds:
            found[name] = statistics.median(seconds)

    _read_chunk(_open(ic, server, prefix))
    measure("open", lambda: _open(ic, server, prefix), 5)
    measure("open, first chunk, warm process", lambda: _read_chunk(_open(ic, server, prefix)), 5)

    def read(name: str, part: Any = ...) -> None:
        repo = _open(ic, server, prefix)
        array: Any = zarr.open_array(repo.readonly_session("main").store, path=name, mode="r")
        assert array[part].nbytes

    measure("read 1,000 × 4 KiB", lambda: read("small"), 3)
    measure("read 16 × 4 MiB", lambda: read("large"), 3)
    measure("read 16 shards of 1 MiB", lambda: read("sharded"), 3)
    measure("read a chunk in 4 of each 16 shards", lambda: read("sharded", np.s_[:, :65536]), 3)
    measure("read 200 virtual chunks", lambda: read("virtual"), 3)

    repo = _open(ic, server, prefix)
    for name, shape in (("1,000 × 4 KiB", SMALL), ("16 × 4 MiB", LARGE)):
        write, commit = f"write {name}", f"commit after it, {name}"
        if not is_wanted(write, commit):
            continue
        only = [*only, write, commit] if only else only
        session = repo.writable_session("main")
        measure(write, partial(_fill, session.store, "new", *shape))
        measure(commit, partial(session.commit, "new"))
        session = repo.writable_session("main")
        del zarr.open_group(session.store)["new"]
        session.commit("delete")

    commits = []

    def change() -> None:
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="small", mode="r+")[5] = time.time_ns() % 250
        start = time.perf_counter()
        session.commit("row")
        commits.append(time.perf_counter() - start)

    change_and_commit, commit = "change a row and commit", "commit of one chunk"
    if is_wanted(change_and_commit, commit):
        only = [*only, change_and_commit] if only else only
        measure(change_and_commit, change, 5)
        found[commit] = statistics.median(commits)
    tip = repo.lookup_branch("main")
    measure("create a tag", lambda: repo.create_tag(f"t{time.time_ns()}", tip), 3)
    measure("ancestry of 30", lambda: list(repo.ancestry(branch="main")), 3)
    measure("gc", lambda: repo.garbage_collect(datetime.now(UTC)))
    return found


if __name__ == "__main__":
    answer({"prepare": prepare, "first_chunk": first_chunk, "everything": everything})
