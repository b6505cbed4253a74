"""Copy virtual chunks into the repository, byte by byte."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from frazil.arguments import verb
from frazil.format.ids import ManifestId
from frazil.format.manifest import ChunkKind, ChunkTable, VirtualRef
from frazil.format.snapshot import Node
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession
from frazil.repository.store_io import read_ref, set_chunk
from frazil.repository.view import View, manifests_of
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import LEAST_TASK_BYTES, path_of
from frazil.spark.transaction import AnyRepository, committing, write_regions
from frazil.virtual.access import Authorize

_COPIED_AT_ONCE = 8
"""Maximum number of chunks a task holds in memory."""


@verb(job=Job)
def materialize(
    repo: AnyRepository,
    arrays: Sequence[str] | None = None,
    *,
    branch: str = "main",
    authorize: Authorize = (),
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Copy the virtual chunks of arrays into the repository.

    The arrays keep their chunks and codecs; use `rechunk` to change them. Other chunks stay as they
    are. A source file that has changed since it was referenced raises an error.

    Parameters
    ----------
    arrays
        Paths of arrays, or of groups for all arrays below them. Default: all arrays.

    Returns
    -------
    CommitReport

    Raises
    ------
    NodeNotFoundError
        If there is no node at a path.
    """
    with committing("materialize", repo, branch, job, spark, authorize) as run:
        session = run.open_session()
        nodes = arrays_below(session.state.view, [path_of(path) for path in arrays or ("/",)])
        most = run.job.task_bytes or LEAST_TASK_BYTES
        parts = [part for node in nodes for part in _plan_parts(session.state.view, node, most)]
        total = sum(part.bytes for part in parts)
        limit = run.task_bytes(total)
        groups = pack(parts, [part.bytes for part in parts], limit)
        runner = run.choose_runner(is_small=total <= limit)
        if groups:
            run.job.expect(
                "copying", chunks=sum(part.stop - part.start for part in parts), bytes=total
            )
            write_regions(runner, session, copy_chunks, groups, "copying")
        return run.commit(session, message, metadata)


@dataclass(frozen=True, slots=True)
class VirtualChunks:
    """Range of the virtual chunks of a manifest."""

    path: str
    manifest_id: ManifestId
    start: int
    stop: int
    bytes: int


def split(
    lengths: "np.ndarray[Any, np.dtype[np.uint64]]", most_bytes: int
) -> list[tuple[int, int]]:
    """Split consecutive chunks into ranges of about `most_bytes`."""
    part = (np.cumsum(lengths, dtype=np.int64) - 1) // most_bytes
    cuts = np.flatnonzero(part[1:] != part[:-1]) + 1
    return list(pairwise([0, *cuts.tolist(), len(lengths)]))


def copy_chunks(session: ForkSession, chunks: VirtualChunks) -> None:
    """Read chunks from their source files and write them to the repository."""
    node, _ = session.state.view.get_array(chunks.path)
    table = _read_virtual(session.state.view, node, chunks.manifest_id)
    rows = range(chunks.start, chunks.stop)
    with ThreadPoolExecutor(_COPIED_AT_ONCE) as pool:
        for _ in pool.map(partial(_copy_chunk, session, chunks.path, table), rows):
            pass


def _copy_chunk(session: ForkSession, path: str, table: ChunkTable, row: int) -> None:
    ref = table.ref(row)
    assert isinstance(ref, VirtualRef)
    coordinate = tuple(table.coordinates[row].tolist())
    set_chunk(session.state, path, coordinate, read_ref(session.state, ref))


def arrays_below(view: View, paths: Sequence[str]) -> Iterable[Node]:
    """Return the arrays at and below these paths, each once; raise NodeNotFoundError."""
    nodes = [node for path in paths for node in view.descendants(view.get_node(path).path)]
    return {node.id: node for node in nodes if node.array is not None}.values()


def _plan_parts(view: View, node: Node, most_bytes: int) -> Iterator[VirtualChunks]:
    assert node.array is not None
    for ref in manifests_of(node.array, view.assets.dialect):
        lengths = _read_virtual(view, node, ref.id).length
        if len(lengths):
            for start, stop in split(lengths, most_bytes):
                size = int(lengths[start:stop].sum())
                yield VirtualChunks(node.path, ref.id, start, stop, size)


def _read_virtual(view: View, node: Node, id: ManifestId) -> ChunkTable:
    """Return the virtual references of a manifest of the base snapshot, within the array's grid."""
    assert node.array is not None
    grid = tuple((0, each.num_chunks) for each in node.array.shape)
    table = view.assets.read_manifest(id).table(node.id, len(grid)).select(grid)
    return table.take(table.kind == ChunkKind.VIRTUAL)
