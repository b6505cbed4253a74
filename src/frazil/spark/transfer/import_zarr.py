"""A plain Zarr hierarchy becomes a group of a repository, in one commit."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import zarr
from pyspark.sql import SparkSession

from frazil.errors import AlreadyExistsError, ObjectNotFoundError, StorageError
from frazil.format.coordinates import Coordinates
from frazil.format.paths import ROOT
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession, Session
from frazil.repository.store_io import set_chunk, set_metadata
from frazil.spark.job import Job, JobReport
from frazil.spark.regions import LEAST_TASK_BYTES, Box, Shape, cut, grow, path_of, whole
from frazil.spark.transaction import AnyRepository, RunOn, running, write_regions
from frazil.spark.transfer.copy_plan import find_storage
from frazil.spark.transfer.export_zarr import GROUP, ChunkKeys, count_chunk_bytes
from frazil.spark.transfer.zarr_hierarchy import SourceNode, open_second, read_hierarchy
from frazil.storage.interface import CHOSEN_AT_ONCE, Storage, batches_of
from frazil.storage.memory import MemoryStorage
from frazil.urls import Location

_AT_ONCE = 8
"""Chunks that a task has in memory."""
_MOST_CHUNKS = 1_000
"""Of a part."""
_WORTH_LISTING = 10_000
"""Of a grid with more chunks it is seen first which of them there are."""
_SPARSE = 2
"""An array that has less than one of so many chunks is sparse."""


def import_zarr(
    spark: SparkSession | None,
    source: Storage | Location,
    repo: AnyRepository,
    *,
    group: str = "/",
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> JobReport:
    """Bring a Zarr hierarchy of format 2 or 3 into a group of a repository, in one commit.

    Chunks are copied without decoding them where their codecs stay what they are, shards as a whole;
    what Zarr V2 has no exact equivalent for in V3 is decoded and encoded anew, and `notes` of the
    report name these arrays. Raises AlreadyExistsError where the group has anything in it.
    """
    storage = find_storage(source)
    with running("import_zarr", repo, branch, job) as run:
        session = run.open_session()
        root = path_of(group)
        nodes = read_hierarchy(storage)
        _refuse_if_filled(session, root)
        _write_metadata(session, root, nodes)
        parts = [part for node in nodes for part in _plan_parts(session, storage, root, node)]
        groups = pack(parts, [part.size_bytes for part in parts], LEAST_TASK_BYTES)
        is_small = len(groups) <= 1 or isinstance(storage, MemoryStorage)
        runner = run.choose_runner(spark, run_on, is_small=is_small)
        anew = [node.folder.rstrip("/") or ROOT for node in nodes if node.second is not None]
        run.notes += [f"encoded anew: {', '.join(anew)}"] if anew else []
        if groups:
            run.job.expect("importing", chunks=sum(part.count for part in parts))
            write_regions(runner, session, partial(import_chunks, storage), groups, "importing")
        return run.commit(session, runner, spark, message, metadata)


def _refuse_if_filled(session: Session, root: str) -> None:
    below = [node.path for node in session.state.view.descendants(root) if node.path != root]
    if below:
        raise AlreadyExistsError(
            f"there is something in {root} already, such as {below[0]}: import to another group"
        )


def _write_metadata(session: Session, root: str, nodes: Sequence[SourceNode]) -> None:
    for node in nodes:
        path = _path(root, node)
        _make_groups_above(session, path)
        set_metadata(session.state, path, node.metadata)


def _make_groups_above(session: Session, path: str) -> None:
    """Make the groups that a node is in, where nobody has said anything about them."""
    while path != ROOT:
        path = path.rpartition("/")[0] or ROOT
        if session.state.view.find_node(path) is None:
            set_metadata(session.state, path, GROUP)


def _path(root: str, node: SourceNode) -> str:
    return path_of(f"{root}/{node.folder}")


# Chunks


@dataclass(frozen=True, slots=True)
class Part:
    """Some chunks of an array: a box of its grid, or just those that were listed."""

    path: str
    keys: ChunkKeys
    chunks: Box | Coordinates
    size_bytes: int
    """About."""
    second: bytes | None
    """The metadata by which they are decoded, if their bytes can't stay as they are."""

    @property
    def count(self) -> int:
        """How many chunks there are at most."""
        return _count(self.chunks)

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Of the chunks."""
        if isinstance(self.chunks, np.ndarray):
            return map(tuple, self.chunks.tolist())
        return product(*(range(start, stop) for start, stop in self.chunks))


def _count(chunks: Box | Coordinates) -> int:
    is_listed = isinstance(chunks, np.ndarray)
    return len(chunks) if is_listed else prod(stop - start for start, stop in chunks)


def _plan_parts(session: Session, storage: Storage, root: str, node: SourceNode) -> Iterator[Part]:
    if node.keys is None:
        return
    path = _path(root, node)
    _, array = session.state.view.get_array(path)
    grid = tuple(each.num_chunks for each in array.shape)
    size = count_chunk_bytes(json.loads(node.metadata))
    most = max(1, min(_MOST_CHUNKS, LEAST_TASK_BYTES // max(size, 1)))
    for chunks in _cut(storage, node.keys, grid, most):
        yield Part(path, node.keys, chunks, _count(chunks) * size, node.second)


def _cut(storage: Storage, keys: ChunkKeys, grid: Shape, most: int) -> Iterable[Box | Coordinates]:
    """The chunks of an array in parts; of a large one that has few, only those that there are."""
    if prod(grid) > _WORTH_LISTING:
        with suppress(StorageError):
            there = _list_chunks(storage, keys, grid)
            if len(there) * _SPARSE < prod(grid):
                return [there[start : start + most] for start in range(0, len(there), most)]
    return cut(whole(grid), grow((1,) * len(grid), grid, most) if grid else ())


def _list_chunks(storage: Storage, keys: ChunkKeys, grid: Shape) -> Coordinates:
    """The chunks of an array that there are, without what is beyond its edge."""
    axes, columns = len(grid), []
    for batch in batches_of(storage.list(keys.prefix), CHOSEN_AT_ONCE):
        parsed = (keys.parse(info.key, axes) for info in batch)
        rows = [coordinate for coordinate in parsed if coordinate is not None]
        columns.append(np.array(rows, np.uint32).reshape(-1, axes))
    found = np.concatenate([np.empty((0, axes), np.uint32), *columns])
    return found[(found < np.array(grid)).all(axis=1)]


def import_chunks(storage: Storage, session: ForkSession, part: Part) -> None:
    """Read chunks where they are, and write them to the repository."""
    write = _copy_chunk if part.second is None else _encode_chunk
    with ThreadPoolExecutor(_AT_ONCE if part.second is None else 1) as pool:
        for _ in pool.map(partial(write, storage, session, part), part.coordinates()):
            pass


def _copy_chunk(
    storage: Storage, session: ForkSession, part: Part, coordinate: tuple[int, ...]
) -> None:
    data = _find(storage, part, coordinate)
    if data is not None:
        set_chunk(session.state, part.path, coordinate, data)


def _encode_chunk(
    storage: Storage, session: ForkSession, part: Part, coordinate: tuple[int, ...]
) -> None:
    data = _find(storage, part, coordinate)
    if data is None:
        return
    assert part.second is not None
    values = np.asarray(open_second(part.second, data)[...])
    target = zarr.open_array(session.store, path=part.path.lstrip("/"), mode="r+")
    starts = [index * size for index, size in zip(coordinate, target.chunks, strict=True)]
    stops = [
        min(start + size, length)
        for start, size, length in zip(starts, target.chunks, target.shape, strict=True)
    ]
    inside = tuple(slice(0, stop - start) for start, stop in zip(starts, stops, strict=True))
    region = tuple(slice(start, stop) for start, stop in zip(starts, stops, strict=True))
    target[region] = values[inside]


def _find(storage: Storage, part: Part, coordinate: tuple[int, ...]) -> bytes | None:
    try:
        return bytes(storage.get(part.keys.spell(coordinate)))
    except ObjectNotFoundError:
        return None
