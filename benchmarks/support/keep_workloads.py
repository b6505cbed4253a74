"""Collecting garbage, in a fresh process: on the disk, and of a repository that is mostly told of.

The large one has real manifests; its chunks are names that a storage makes up from the same random
numbers that the references were made of.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

import icechunk
import numpy as np
import psutil
import zarr

import frazil
import frazil.spark
from benchmarks.support.measuring import Figures, answer, timed
from benchmarks.support.spark_starting import measure_memory, start
from frazil.format.ids import ALPHABET, ChunkId
from frazil.format.manifest import ChunkKind, ChunkTable
from frazil.maintenance.reachability import Ids, ids_of
from frazil.spark.job import RunOn
from frazil.storage.interface import ObjectInfo, Storage
from frazil.storage.wrappers import ForwardingStorage

ARRAY = 500_000
"""Chunks of each array, which one seed makes."""
MANIFEST = 50_000
OLD = datetime(2026, 1, 1, tzinfo=UTC)


def later() -> datetime:
    """After everything that was written."""
    return datetime.now(UTC) + timedelta(seconds=2)


# On the disk


def collect(folder: str, run_on: RunOn) -> Figures:
    """By Frazil, on Spark or in this process."""
    spark, startup_seconds = start() if run_on == "spark" else (None, 0.0)
    repository = frazil.Repository.open(frazil.local_filesystem_storage(folder))
    with _Watch() as watch:
        report, figures = timed(
            lambda: frazil.spark.collect_garbage(
                repository, later(), job=frazil.spark.Job(run_on=run_on), spark=spark
            )
        )
    memory = measure_memory()
    if spark is not None:
        spark.stop()
    return {
        **figures, **memory, "startup_seconds": startup_seconds,
        "deleted": report.summary.chunks_deleted, "worker_bytes": watch.peak_bytes,
    }  # fmt: skip


def collect_official(folder: str) -> Figures:
    """By the official library."""
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
    summary, figures = timed(lambda: repository.garbage_collect(later()))
    memory = measure_memory()
    deleted = summary.chunks_deleted
    return {**figures, **memory, "startup_seconds": 0, "deleted": deleted, "worker_bytes": 0}


# Told of


def grow(folder: str, count: int) -> Figures:
    """A repository of so many native references."""
    config = frazil.RepositoryConfig.default()
    rules: Any = {
        frazil.ManifestSplitCondition.AnyArray(): {frazil.ManifestSplitDimCondition.Any(): MANIFEST}
    }
    splitting = frazil.ManifestSplittingConfig.from_dict(rules)
    config.manifest = frazil.ManifestConfig(splitting=splitting)
    storage = frazil.local_filesystem_storage(folder)
    repository = frazil.Repository.create(storage, config)
    for seed in range(count // ARRAY):
        session = repository.writable_session("main")
        zarr.create_array(
            session.store, name=f"array-{seed}", shape=(ARRAY,), chunks=(1,), dtype="u1"
        )
        state = session.state
        state.changes.edit_chunks(state.view.get_node(f"/array-{seed}")).set_table(_table(seed))
        session.commit(f"array {seed}")
    return {"seconds": 0.0}


def collect_grown(folder: str, count: int) -> Figures:
    """Two dry runs."""
    spark, startup_seconds = start()
    arrays = count // ARRAY
    live, dead = _range(0, arrays), _range(arrays, 2 * arrays)
    storage = ReportedStorage(frazil.local_filesystem_storage(folder), (*live, *dead))
    repository = frazil.Repository.open(storage)
    with _Watch() as watch:
        seconds = []
        for _ in range(2):
            begin = time.perf_counter()
            report = frazil.spark.collect_garbage(
                repository, later(), dry_run=True, job=frazil.spark.Job(run_on="spark"), spark=spark
            )
            seconds.append(time.perf_counter() - begin)
    memory = measure_memory()
    spark.stop()
    listed = sum(each.count for each in storage.reported)
    assert report.found["chunks"].count == sum(each.count for each in dead)
    return {
        **memory, "seconds": seconds[0], "next_seconds": seconds[1], "listed": listed,
        "startup_seconds": startup_seconds, "worker_bytes": watch.peak_bytes,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reported:
    """The first so many ids of a seed."""

    seed: int
    count: int

    def ids(self) -> Ids:
        """Random bytes, always the same."""
        data = np.random.default_rng(self.seed).bytes(12 * ARRAY)
        return ids_of(np.frombuffer(data, np.uint8).reshape(-1, 12)[: self.count])


def _range(begin: int, end: int) -> tuple[Reported, ...]:
    """A sixth of the ids of each seed."""
    return tuple(Reported(seed, ARRAY // 6) for seed in range(begin, end))


class ReportedStorage(ForwardingStorage):
    """A storage with chunks that are not there."""

    def __init__(self, inner: Storage, reported: tuple[Reported, ...]) -> None:
        super().__init__(inner)
        self.reported = reported

    @property
    def is_local(self) -> bool:
        return False

    def list_between(self, prefix: str, after: str, before: str) -> Iterator[ObjectInfo]:
        """Made up for chunks."""
        if prefix != "chunks/":
            yield from super().list_between(prefix, after, before)
            return
        low, high = (_number(key.removeprefix(prefix)) for key in (after, before))
        for each in self.reported:
            rows = each.ids().view(np.uint8).reshape(-1, 12)
            begin = (rows[:, 0].astype(int) << 2) | (rows[:, 1] >> 6)
            for row in rows[(begin >= low) & (begin < high)]:
                yield ObjectInfo(f"chunks/{ChunkId(row.tobytes())}", 1000, OLD)


def _number(name: str) -> int:
    """Ten bits as two letters spell them; what comes after all letters is the end."""
    if len(name) < 2:
        return 1024
    high, low = map(ALPHABET.index, name)
    return high * len(ALPHABET) + low


def _table(seed: int) -> ChunkTable:
    ids = Reported(seed, ARRAY).ids().view(np.uint8).reshape(-1, 12)
    none = np.full(ARRAY, -1, np.int32)
    return ChunkTable(
        coordinates=np.arange(ARRAY, dtype=np.uint32).reshape(-1, 1),
        kind=np.full(ARRAY, ChunkKind.NATIVE, np.uint8),
        offset=np.zeros(ARRAY, np.uint64), length=np.full(ARRAY, 1000, np.uint64),
        chunk_id=ids, location=none, etag=none,
        last_modified=np.zeros(ARRAY, np.uint32), extra=none,
    )  # fmt: skip


class _Watch:
    """Sees how much memory the processes take that run tasks."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.2):
            for each in psutil.Process().children(recursive=True):
                try:
                    if "python" in each.name():
                        self.peak_bytes = max(self.peak_bytes, each.memory_info().rss)
                except psutil.Error:
                    continue


WORKLOADS: dict[str, Callable[..., Figures]] = {
    each.__name__: each for each in (collect, collect_official, grow, collect_grown)
}

if __name__ == "__main__":
    answer(WORKLOADS)
