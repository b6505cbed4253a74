"""Import a plain Zarr hierarchy into a group of a repository, as one commit."""

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

from frazil.arguments import verb
from frazil.errors import AlreadyExistsError, ObjectNotFoundError, StorageError
from frazil.format.coordinates import Coordinates
from frazil.format.paths import ROOT
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession, Session
from frazil.repository.store_io import set_chunk, set_metadata
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import LEAST_TASK_BYTES, Box, Shape, cut, grow, path_of, whole
from frazil.spark.transaction import AnyRepository, committing, write_regions
from frazil.spark.transfer.copy_plan import find_storage
from frazil.spark.transfer.export_zarr import GROUP, ChunkKeys, count_chunk_bytes
from frazil.spark.transfer.zarr_hierarchy import SourceNode, open_second, read_hierarchy
from frazil.storage.interface import KEYS_PER_BATCH, Storage, batches_of
from frazil.storage.memory import MemoryStorage
from frazil.urls import Location

_AT_ONCE = 8
"""Maximum number of chunks a task holds in memory."""
_MOST_CHUNKS = 1_000
"""Maximum number of chunks of a part."""
_WORTH_LISTING = 10_000
"""Number of chunks of a grid above which the existing chunks are listed first."""
_SPARSE = 2
"""An array is sparse if fewer than one in this many of its chunks exist."""


@verb(job=Job)
def import_zarr(
    repo: AnyRepository,
    source: Storage | Location,
    *,
    group: str = "/",
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Import a Zarr V2 or V3 hierarchy into a group of a repository, as one commit.

    Chunks are copied without decoding them if their codecs stay the same, shards as a whole. Arrays of
    Zarr V2 without an exact equivalent in V3 are decoded and encoded again; `notes` of the report name
    them.

    Parameters
    ----------
    repo
        Repository or its location.
    source
        Storage or location of the hierarchy.
    group
        Path of the group to import into.
    branch
        Branch to commit to.
    message
        Commit message.
    metadata
        Metadata of the commit.
    job
        Handle to follow or cancel the job, with the options of its tasks.
    spark
        Session that runs the tasks. Default: the active one, or a new one for work that is not small.

    Returns
    -------
    CommitReport

    Raises
    ------
    AlreadyExistsError
        If the group is not empty.
    InvalidInputError
        If there is no Zarr hierarchy, or an array has no equivalent in Zarr V3.
    """
    storage = find_storage(source)
    with committing("import_zarr", repo, branch, job, spark) as run:
        session = run.open_session()
        root = path_of(group)
        nodes = read_hierarchy(storage)
        _refuse_if_filled(session, root)
        _write_metadata(session, root, nodes)
        parts = [part for node in nodes for part in _plan_parts(session, storage, root, node)]
        groups = pack(parts, [part.size_bytes for part in parts], LEAST_TASK_BYTES)
        is_small = len(groups) <= 1 or isinstance(storage, MemoryStorage)
        runner = run.choose_runner(is_small=is_small)
        anew = [node.folder.rstrip("/") or ROOT for node in nodes if node.second is not None]
        run.notes += [f"encoded anew: {', '.join(anew)}"] if anew else []
        if groups:
            run.job.expect("importing", chunks=sum(part.count for part in parts))
            write_regions(runner, session, partial(import_chunks, storage), groups, "importing")
        return run.commit(session, message, metadata)


def _refuse_if_filled(session: Session, root: str) -> None:
    below = [node.path for node in session.state.view.descendants(root) if node.path != root]
    if below:
        raise AlreadyExistsError(f"{root} is not empty, it has {below[0]}: import to another group")


def _write_metadata(session: Session, root: str, nodes: Sequence[SourceNode]) -> None:
    for node in nodes:
        path = _path(root, node)
        _make_groups_above(session, path)
        set_metadata(session.state, path, node.metadata)


def _make_groups_above(session: Session, path: str) -> None:
    """Create the missing groups above a node, which have no metadata in the source."""
    while path != ROOT:
        path = path.rpartition("/")[0] or ROOT
        if session.state.view.find_node(path) is None:
            set_metadata(session.state, path, GROUP)


def _path(root: str, node: SourceNode) -> str:
    return path_of(f"{root}/{node.folder}")


# Chunks


@dataclass(frozen=True, slots=True)
class Part:
    """Chunks of an array: a box of its grid, or those that were listed."""

    path: str
    keys: ChunkKeys
    chunks: Box | Coordinates
    size_bytes: int
    """Estimated size."""
    second: bytes | None
    """Zarr V2 metadata to decode them with; None if their bytes are copied."""

    @property
    def count(self) -> int:
        """Maximum number of chunks."""
        return _count(self.chunks)

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Yield the coordinates of the chunks."""
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
    """Split the chunks of an array into parts; for a large sparse array, only those that exist."""
    if prod(grid) > _WORTH_LISTING:
        with suppress(StorageError):
            there = _list_chunks(storage, keys, grid)
            if len(there) * _SPARSE < prod(grid):
                return [there[start : start + most] for start in range(0, len(there), most)]
    return cut(whole(grid), grow((1,) * len(grid), grid, most) if grid else ())


def _list_chunks(storage: Storage, keys: ChunkKeys, grid: Shape) -> Coordinates:
    """List the existing chunks of an array, except those outside of its grid."""
    axes, columns = len(grid), []
    for batch in batches_of(storage.list(keys.prefix), KEYS_PER_BATCH):
        parsed = (keys.parse(info.key, axes) for info in batch)
        rows = [coordinate for coordinate in parsed if coordinate is not None]
        columns.append(np.array(rows, np.uint32).reshape(-1, axes))
    found = np.concatenate([np.empty((0, axes), np.uint32), *columns])
    return found[(found < np.array(grid)).all(axis=1)]


def import_chunks(storage: Storage, session: ForkSession, part: Part) -> None:
    """Read chunks from the source and write them to the repository."""
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
