"""A version of a repository as a plain Zarr hierarchy: chunks first, as they are stored, then metadata.

The root's metadata comes last, so that an export that was broken off is no hierarchy. Until then a mark
beside it tells of which version it is, and an export of the same version goes on with what is there.
"""

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from frazil.engine.lookup import manifests_of
from frazil.engine.reading import read_ref, ref_size
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectExistsError,
)
from frazil.format.chunks import ChunkTable
from frazil.format.ids import ManifestId
from frazil.format.snapshot import Node
from frazil.maintenance.batches import pack
from frazil.opening import authorize as authorize_containers
from frazil.session import Session
from frazil.spark.arrays.one_commit import AnyRepository, find_repository
from frazil.spark.arrays.regions import LEAST_TASK_BYTES
from frazil.spark.arrays.runner import RunOn, choose_runner, find_application_id
from frazil.spark.arrays.zarr_arrays import path_of
from frazil.spark.copying.objects import find_size
from frazil.spark.copying.places import AnyPlace, find_storage
from frazil.spark.copying.report import Copied, ExportReport
from frazil.spark.copying.zarr_keys import (
    GROUP,
    METADATA,
    ChunkKeys,
    consolidate,
    count_chunk_bytes,
    find_keys,
    folder_of,
)
from frazil.spark.job import Job
from frazil.storage import MemoryStorage, Storage

MARK = ".frazil-export.json"
_AT_ONCE = 8
"""Chunks that a task has in memory."""
_MOST_ROWS = 1_000
"""Chunks of a part."""
_UNKNOWN_ROWS = 10_000


def export_zarr(
    spark: SparkSession | None,
    repo: AnyRepository,
    target: AnyPlace,
    *,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    group: str = "/",
    zarr_format: int = 3,
    consolidated: bool = False,
    authorize: Sequence[str] = (),
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> ExportReport:
    """Write a version of a repository, or a group of it, as a plain Zarr V3 hierarchy.

    Chunks are copied without decoding them, inline and virtual ones, too; those that are not there
    stay missing. `authorize` names the containers whose virtual chunks may be read, as
    `open_session` does. The version is that of `main` unless a branch, a tag or a snapshot is named.

    Raises AlreadyExistsError where something is that no export of the same version has left.
    """
    if zarr_format != 3:
        raise InvalidInputError(f"zarr_format is {zarr_format}: only hierarchies of 3 are written")
    job = job or Job()
    opened = authorize_containers(find_repository(repo), authorize)
    if (branch, tag, snapshot) == (None, None, None):
        branch = "main"
    session = opened.readonly_session(branch, tag=tag, snapshot_id=snapshot)
    export = _Export(session, path_of(group), find_storage(target), job)
    try:
        return _export(export, spark, run_on, consolidated=consolidated)
    finally:
        job.end()


@dataclass(frozen=True, slots=True)
class _Export:
    session: Session
    root: str
    target: Storage
    job: Job

    def nodes(self) -> list[Node]:
        """What is exported; raises NodeNotFoundError where nothing is."""
        found = list(self.session.state.view.descendants(self.root))
        if not found:
            raise NodeNotFoundError(f"there is no node at {self.root!r}")
        return found


def _export(
    export: _Export, spark: SparkSession | None, run_on: RunOn, *, consolidated: bool
) -> ExportReport:
    began, nodes = time.monotonic(), export.nodes()
    parts = [part for node in nodes for part in _plan_parts(export, node)]
    has_begun = _mark(export)
    groups = pack(parts, [part.bytes for part in parts], LEAST_TASK_BYTES)
    storage = export.session.state.assets.storage
    near = export.target if isinstance(export.target, MemoryStorage) else storage
    runner = choose_runner(spark, export.job, run_on, near, is_small=len(groups) <= 1)
    export.job.expect("exporting", chunks=sum(part.rows for part in parts))
    task = ExportChunks(export.session, export.target, has_begun)
    copied = sum(runner.run("exporting", task, groups), Copied())
    export.job.refuse_if_cancelled()
    _write_metadata(export, nodes, consolidated=consolidated)
    tally = export.job.tally
    arrays = sum(node.array is not None for node in nodes)
    return ExportReport(
        str(export.session.snapshot_id), len(nodes) - arrays, arrays, copied.objects, copied.bytes,
        copied.present, runner.name, tally.tasks, tally.retries, time.monotonic() - began,
        export.job.id, find_application_id(spark),
    )  # fmt: skip


# Chunks


@dataclass(frozen=True, slots=True)
class Part:
    """Some chunks of an array: those of a manifest, from one row to another."""

    path: str
    keys: ChunkKeys
    manifest_id: ManifestId
    start: int
    stop: int | None
    """None for all that are left."""
    rows: int
    bytes: int
    """About."""


@dataclass(frozen=True, slots=True)
class ExportChunks:
    """Copies chunks out of a repository: a task."""

    session: Session
    target: Storage
    has_begun: bool
    """Whether some may be there already."""

    def __call__(self, parts: Sequence[Part]) -> Copied:
        """Copy the chunks of some parts, and make them last."""
        copied = sum(map(self._export, parts), Copied())
        self.target.flush()
        return copied

    def _export(self, part: Part) -> Copied:
        view = self.session.state.view
        node, array = view.get_array(part.path)
        grid = tuple((0, each.num_chunks) for each in array.shape)
        table = view.assets.read_manifest(part.manifest_id).table(node.id, len(grid)).select(grid)
        stop = len(table) if part.stop is None else min(part.stop, len(table))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            copied = pool.map(partial(self._copy, part.keys, table), range(part.start, stop))
            return sum(copied, Copied())

    def _copy(self, keys: ChunkKeys, table: ChunkTable, row: int) -> Copied:
        key, ref = keys.spell(table.coordinates[row].tolist()), table.ref(row)
        if self.has_begun and find_size(self.target, key) == ref_size(ref):
            return Copied(present=1)
        data = read_ref(self.session.state, ref)
        self.target.put(key, data)
        return Copied(1, len(data))


def _plan_parts(export: _Export, node: Node) -> Iterator[Part]:
    if node.array is None:
        return
    view = export.session.state.view
    document = json.loads(node.user_data)
    keys = find_keys(document, folder_of(node.path, export.root))
    size = count_chunk_bytes(document)
    step = max(1, min(_MOST_ROWS, LEAST_TASK_BYTES // max(size, 1)))
    counts = {info.id: info.num_chunk_refs for info in view.snapshot.manifest_files}
    for ref in manifests_of(node.array, view.assets.dialect):
        count = counts.get(ref.id) or _UNKNOWN_ROWS
        for start in range(0, count, step):
            is_last = start + step >= count
            rows = min(step, count - start)
            yield Part(
                node.path, keys, ref.id, start, None if is_last else start + step, rows, rows * size
            )


# Metadata


def _mark(export: _Export) -> bool:
    """Claim the target; whether an earlier export of the same version had."""
    wanted = {"snapshot": str(export.session.snapshot_id), "group": export.root}
    others = (info.key for info in export.target.list() if info.key != MARK)
    first = next(others, None)
    if first is not None and find_size(export.target, MARK) is None:
        raise AlreadyExistsError(
            f"an export needs a place where nothing is, and there is {first!r}"
        )
    with suppress(ObjectExistsError):
        export.target.create(MARK, json.dumps(wanted).encode())
        return False
    if json.loads(bytes(export.target.get(MARK))) != wanted:
        raise AlreadyExistsError(
            "an export of another version was begun at the target: delete what it left, or export"
            " to another place"
        )
    return True


def _write_metadata(export: _Export, nodes: Sequence[Node], *, consolidated: bool) -> None:
    documents = {"": GROUP} | {folder_of(n.path, export.root): n.user_data for n in nodes}
    if consolidated and nodes[0].array is None:
        documents[""] = consolidate(documents)
    # The root, which makes it a hierarchy, is the first of all.
    for folder, data in reversed(documents.items()):
        export.target.put(folder + METADATA, data)
    export.target.flush()
    export.target.delete_many([MARK])
