"""Virtual chunks, copied into the repository: the same bytes, found where the array looks for them."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from frazil.engine.reading import read_ref
from frazil.engine.view import View
from frazil.engine.writing import set_chunk
from frazil.format.coordinates import Coordinates
from frazil.format.references import ChunkKind, VirtualRef
from frazil.session import ForkSession
from frazil.spark.arrays.one_commit import AnyRepository, running, write_regions
from frazil.spark.arrays.regions import choose_task_bytes, pack
from frazil.spark.arrays.report import JobReport
from frazil.spark.arrays.runner import RunOn, count_slots
from frazil.spark.arrays.zarr_arrays import path_of
from frazil.spark.job import Job

_COPIED_AT_ONCE = 8
"""Chunks that a task has in memory."""


def materialize(
    spark: SparkSession | None,
    repo: AnyRepository,
    paths: Sequence[str] = ("/",),
    *,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    task_bytes: int | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> JobReport:
    """Copy the virtual chunks of arrays, and of all arrays below groups, into the repository.

    The arrays keep their chunks and codecs; `rechunk` gives them others. Chunks that the repository
    has already are left as they are. A file that has changed since it was referred to is an error.
    """
    with running("materialize", repo, branch, job) as run:
        session = run.open_session()
        chunks = list(_virtual_chunks(session.state.view, [path_of(path) for path in paths]))
        total = sum(int(each.lengths.sum()) for each in chunks)
        limit = task_bytes or choose_task_bytes(total, count_slots(spark))
        parts = [part for each in chunks for part in split(each, limit)]
        groups = pack(parts, [int(part.lengths.sum()) for part in parts], limit)
        runner = run.choose_runner(spark, run_on, is_small=total <= limit)
        if groups:
            run.job.expect("copying", chunks=sum(len(part.lengths) for part in parts), bytes=total)
            write_regions(runner, session, copy_chunks, groups, "copying")
        return run.commit(session, runner, spark, message, metadata)


@dataclass(frozen=True, slots=True, eq=False)
class VirtualChunks:
    """Some chunks of an array."""

    path: str
    coordinates: Coordinates
    lengths: "np.ndarray[Any, np.dtype[np.uint64]]"
    """In bytes."""


def split(chunks: VirtualChunks, most_bytes: int) -> list[VirtualChunks]:
    """The same in parts of about so many bytes."""
    ends = np.cumsum(chunks.lengths, dtype=np.int64)
    part = (ends - 1) // most_bytes
    cuts = np.flatnonzero(part[1:] != part[:-1]) + 1
    return [
        VirtualChunks(chunks.path, coordinates, lengths)
        for coordinates, lengths in zip(
            np.split(chunks.coordinates, cuts), np.split(chunks.lengths, cuts), strict=True
        )
    ]


def copy_chunks(session: ForkSession, chunks: VirtualChunks) -> None:
    """Read chunks where they are, and write them to the repository."""
    coordinates = map(tuple, chunks.coordinates.tolist())
    with ThreadPoolExecutor(_COPIED_AT_ONCE) as pool:
        for _ in pool.map(partial(_copy_chunk, session, chunks.path), coordinates):
            pass


def _copy_chunk(session: ForkSession, path: str, coordinate: tuple[int, ...]) -> None:
    node, _ = session.state.view.get_array(path)
    ref = session.state.view.find_chunk(node, coordinate)
    if isinstance(ref, VirtualRef):
        set_chunk(session.state, path, coordinate, read_ref(session.state, ref))


def _virtual_chunks(view: View, paths: Sequence[str]) -> Iterator[VirtualChunks]:
    nodes = {node.id: node for path in paths for node in view.descendants(view.get_node(path).path)}
    for node in nodes.values():
        if node.array is None:
            continue
        for table in view.tables(node):
            virtual = table.take(table.kind == ChunkKind.VIRTUAL)
            if len(virtual):
                yield VirtualChunks(node.path, virtual.coordinates, virtual.length)
