"""Small work and work on many small things; the same lines run on Frazil and on the official library.

Every workload is a function of the library's name and of sizes, run in a fresh process. It returns
the median of the seconds of one operation.
"""

import asyncio
import importlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import cpu, default_buffer_prototype

from benchmarks.support.measuring import Figures, answer


def _library(name: str) -> Any:
    library = importlib.import_module(name)
    assert library.Repository, "what is loaded when it is first used is loaded now"
    return library


def _storage(ic: Any, where: str) -> Any:
    return ic.in_memory_storage() if where == "memory" else ic.local_filesystem_storage(where)


def _create(ic: Any, where: str = "memory", split: int | None = None) -> Any:
    config = ic.RepositoryConfig.default()
    if split is not None:
        sizes = {
            ic.ManifestSplitCondition.AnyArray(): {ic.ManifestSplitDimCondition.Axis(0): split}
        }
        config.manifest = ic.ManifestConfig(splitting=ic.ManifestSplittingConfig.from_dict(sizes))
    return ic.Repository.create(_storage(ic, where), config)


_CLOCK = {"now": time.perf_counter}


def _seconds(work: Callable[..., object], *arguments: object) -> float:
    now = _CLOCK["now"]
    start = now()
    work(*arguments)
    return now() - start


def _exhaust(make: Callable[[], Any]) -> None:
    for _ in make():
        pass


def _median(seconds: list[float]) -> Figures:
    return {"seconds": statistics.median(seconds)}


def _metadata(shape: tuple[int, ...], chunks: tuple[int, ...]) -> bytes:
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, shape=shape, chunks=chunks, dtype="f8", compressors=None)
    found = asyncio.run(store.get("zarr.json", default_buffer_prototype()))
    assert found is not None
    return found.to_bytes()


def _set(session: Any, values: dict[str, bytes]) -> None:
    async def fill() -> None:
        for key, value in values.items():
            await session.store.set(key, cpu.Buffer.from_bytes(value))

    asyncio.run(fill())


def _arrays(count: int, value: float | None, start: int = 0) -> dict[str, bytes]:
    """Arrays of one chunk; without a value they have no chunk."""
    metadata = _metadata((1,), (1,))
    found: dict[str, bytes] = {}
    for number in range(start, start + count):
        found[f"a{number}/zarr.json"] = metadata
        if value is not None:
            found[f"a{number}/c/0"] = np.float64(value).tobytes()
    return found


def import_library(library: str, started: float) -> Figures:
    """Import the library and its repositories, from the start of a process."""
    _library(library)
    return {"seconds": time.time() - started}


def commit_group(library: str, started: float) -> Figures:
    """Import the library, create a repository and commit a group, from the start of a process."""
    session = _create(_library(library)).writable_session("main")
    zarr.create_group(session.store)
    session.commit("group")
    return {"seconds": time.time() - started}


def first_value(library: str, folder: str, started: float) -> Figures:
    """Open a repository on a disk in a new process and read the first value."""
    ic = _library(library)
    repo = ic.Repository.open(ic.local_filesystem_storage(folder))
    array: Any = zarr.open_array(repo.readonly_session("main").store, path="a0", mode="r")
    assert array[0] == 1
    return {"seconds": time.time() - started}


def prepare_value(library: str, folder: str) -> Figures:
    """Write what `first_value` reads."""
    ic = _library(library)
    session = ic.Repository.create(ic.local_filesystem_storage(folder)).writable_session("main")
    _set(session, _arrays(1, 1.0))
    session.commit("value")
    return {"seconds": 0.0}


def commit_arrays(library: str, where: str, count: int, value: float | None = 1.0) -> Figures:
    """Commit new arrays of one chunk, or of none."""
    repo = _create(_library(library), where)
    seconds = []
    for number in range(3):
        session = repo.writable_session("main")
        _set(session, _arrays(count, value, number * count))
        seconds.append(_seconds(session.commit, "new arrays"))
    return _median(seconds)


def commit_over_arrays(library: str, where: str, count: int, changed: int) -> Figures:
    """Change a chunk in some of many arrays."""
    repo = _create(_library(library), where)
    session = repo.writable_session("main")
    _set(session, _arrays(count, 0.0))
    session.commit("arrays")
    seconds = []
    for value in range(1, 6):
        session = repo.writable_session("main")
        data = np.float64(value).tobytes()
        _set(session, {f"a{number}/c/0": data for number in range(changed)})
        seconds.append(_seconds(session.commit, "change"))
    return _median(seconds)


def _write_manifests(repo: Any, count: int) -> float:
    session = repo.writable_session("main")
    data = {f"a/c/{number}": np.float64(number).tobytes() for number in range(count)}
    _set(session, {"a/zarr.json": _metadata((count,), (1,)), **data})
    return _seconds(lambda: session.commit("manifests"))


def commit_manifests(library: str, count: int) -> Figures:
    """Commit an array whose chunks are each in a manifest of their own."""
    ic = _library(library)
    return _median([_write_manifests(_create(ic, split=1), count) for _ in range(3)])


def read_manifests(library: str, count: int) -> Figures:
    """Read one chunk, when all manifests have been read before."""
    repo = _create(_library(library), split=1)
    _write_manifests(repo, count)
    store = repo.readonly_session("main").store
    prototype = default_buffer_prototype()

    async def work() -> list[float]:
        for number in range(count):
            await store.get(f"a/c/{number}", prototype)
        seconds = []
        for number in range(1_000):
            key = f"a/c/{number * 7919 % count}"
            start = time.perf_counter()
            await store.get(key, prototype)
            seconds.append(time.perf_counter() - start)
        return seconds

    return _median(asyncio.run(work()))


def commit_variables(library: str, variables: int, chunks: int) -> Figures:
    """Commit some chunks of some variables."""
    repo = _create(_library(library))
    seconds = []
    for _ in range(3):
        session = repo.writable_session("main")
        values = {f"v{number}/zarr.json": _metadata((chunks,), (1,)) for number in range(variables)}
        for number in range(variables):
            for index in range(chunks):
                values[f"v{number}/c/{index}"] = np.random.default_rng(index).bytes(8)
        _set(session, values)
        seconds.append(_seconds(session.commit, "variables"))
    return _median(seconds)


def _commits(repo: Any, count: int, chunks: int = 1) -> list[float]:
    seconds = []
    for number in range(count):
        session = repo.writable_session("main")
        data = np.float64(number + 1).tobytes()
        _set(session, {f"a0/c/{number % chunks}": data})
        seconds.append(_seconds(session.commit, "again"))
    return seconds


def long_history(library: str, commits: int) -> Figures:
    """Commit after many commits, and list them."""
    repo = _create(_library(library))
    session = repo.writable_session("main")
    _set(session, _arrays(1, 0.0))
    session.commit("first")
    last = _commits(repo, commits)[-20:]
    ancestry = [_seconds(lambda: list(repo.ancestry(branch="main"))) for _ in range(3)]
    ops = [_seconds(lambda: list(repo.ops_log())) for _ in range(3)]
    return {
        "commit": statistics.median(last),
        "ancestry": statistics.median(ancestry),
        "ops log": statistics.median(ops),
    }


def walk_members(library: str, count: int) -> Figures:
    """Walk all members of a group."""
    repo = _create(_library(library))
    session = repo.writable_session("main")
    _set(
        session, {"zarr.json": b'{"zarr_format": 3, "node_type": "group"}', **_arrays(count, None)}
    )
    session.commit("arrays")
    seconds = []
    for _ in range(3):
        group = zarr.open_group(repo.readonly_session("main").store, mode="r")
        seconds.append(_seconds(_exhaust, group.members))
    return _median(seconds)


def append_step(library: str) -> Figures:
    """Append one step with `to_icechunk`, and commit."""
    repo = _create(_library(library))
    to_icechunk = importlib.import_module(f"{library}.xarray").to_icechunk

    def step(number: int) -> Any:
        data = np.full((1, 8, 8), float(number))
        xarray = importlib.import_module("xarray")
        return xarray.Dataset({"t": (("time", "y", "x"), data)}, {"time": [number]})

    session = repo.writable_session("main")
    to_icechunk(step(0), session)
    session.commit("first")

    def append(number: int) -> None:
        session = repo.writable_session("main")
        to_icechunk(step(number), session, append_dim="time")
        session.commit("step")

    return _median([_seconds(append, number) for number in range(1, 8)])


def deep_groups(library: str, depth: int) -> Figures:
    """Commit groups, each inside of the one before."""
    repo = _create(_library(library))
    metadata = b'{"zarr_format": 3, "node_type": "group"}'
    seconds = []
    for number in range(3):
        session = repo.writable_session("main")
        path, values = f"top{number}", {}
        for _ in range(depth):
            values[f"{path}/zarr.json"] = metadata
            path += "/g"
        _set(session, values)
        seconds.append(_seconds(session.commit, "groups"))
    return _median(seconds)


def rebase(library: str, commits: int) -> Figures:
    """Rebase one chunk over commits to others of the array, and commit."""
    ic = _library(library)
    repo = _create(ic)
    session = repo.writable_session("main")
    _set(session, {"a0/zarr.json": _metadata((1_000,), (1,))})
    session.commit("array")
    seconds = []
    for number in range(3):
        session = repo.writable_session("main")
        _set(session, {f"a0/c/{900 + number}": np.float64(number).tobytes()})
        _commits(repo, commits, chunks=500)
        seconds.append(_seconds(partial(session.commit, "late", rebase_with=ic.ConflictDetector())))
    return _median(seconds)


def tags_and_branches(library: str, count: int) -> Figures:
    """Create tags and branches."""
    repo = _create(_library(library))
    snapshot = repo.lookup_branch("main")

    def work() -> None:
        for number in range(count):
            repo.create_tag(f"t{number}", snapshot)
            repo.create_branch(f"b{number}", snapshot)

    return {"seconds": _seconds(work)}


def _with_clock(work: Callable[..., Figures]) -> Callable[..., Figures]:
    """Return a workload with one more option: measure the seconds of the processor."""

    def run(*, processor: bool, **arguments: Any) -> Figures:
        if processor:
            _CLOCK["now"] = time.process_time
        figures = work(**arguments)
        is_start = processor and "started" in arguments
        return {"seconds": time.process_time()} if is_start else figures

    return run


if __name__ == "__main__":
    answer(
        {
            name: _with_clock(found)
            for name, found in globals().items()
            if not name.startswith("_") and getattr(found, "__module__", "") == "__main__"
        }
    )
