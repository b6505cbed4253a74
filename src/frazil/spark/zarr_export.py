"""Export a version as a plain Zarr hierarchy: chunks first, then metadata."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from frazil.arguments import verb
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectExistsError,
)
from frazil.format.ids import ManifestId
from frazil.format.manifest import ChunkTable
from frazil.format.snapshot import Node
from frazil.maintenance.reachability import pack
from frazil.repository.session import Session
from frazil.repository.store_io import read_ref, ref_size
from frazil.repository.view import manifests_of
from frazil.spark.copy_plan import AnyPlace, find_size, find_storage
from frazil.spark.job import Copied, ExportReport, Job, SparkSession
from frazil.spark.regions import LEAST_TASK_BYTES, path_of
from frazil.spark.transaction import (
    AnyRepository,
    Run,
    find_repository,
    running,
)
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage
from frazil.virtual.access import Authorize

METADATA = "zarr.json"
Document = dict[str, Any]
"""Decoded metadata."""
_OWN = "/_frazil/"
GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
"""Metadata of a group without attributes."""
DEFAULT_ENCODING: Mapping[str, Any] = {"name": "default", "configuration": {"separator": "/"}}


@dataclass(frozen=True, slots=True)
class ChunkKeys:
    """Chunk key encoding of an array."""

    prefix: str
    """Prefix of the array: empty, or ending with a slash."""
    separator: str
    is_default: bool
    """True if keys start with `c`, unlike those of Zarr V2."""

    def spell(self, coordinate: Sequence[int]) -> str:
        """Return the key of a chunk."""
        parts = list(map(str, coordinate))
        if self.is_default:
            return self.prefix + self.separator.join(["c", *parts])
        return self.prefix + (self.separator.join(parts) or "0")

    def parse(self, key: str, axes: int) -> tuple[int, ...] | None:
        """Return the coordinate of a chunk, or None if the key is not that of a chunk."""
        parts = key.removeprefix(self.prefix).split(self.separator)
        if self.is_default and axes:
            parts = parts[1:]
        if len(parts) != axes or not all(each.isascii() and each.isdigit() for each in parts):
            return None
        coordinate = tuple(map(int, parts))
        return coordinate if self.spell(coordinate) == key else None


def find_keys(document: Mapping[str, Any], prefix: str) -> ChunkKeys:
    """Return the chunk keys of an array by its `zarr.json`.

    Raises InvalidInputError for an unknown encoding.
    """
    encoding = document.get("chunk_key_encoding", DEFAULT_ENCODING)
    if isinstance(encoding, str):
        encoding = {"name": encoding}
    name = encoding.get("name")
    if name not in ("default", "v2"):
        raise InvalidInputError(f"{prefix}: the chunk key encoding {name!r} is not known")
    usual = "/" if name == "default" else "."
    separator = encoding.get("configuration", {}).get("separator", usual)
    return ChunkKeys(prefix, str(separator), name == "default")


def folder_of(path: str, root: str) -> str:
    """Return the key prefix of a node in a hierarchy with this root: '' or 'a/b/'."""
    below = path[len(root.rstrip("/")) :].strip("/")
    return f"{below}/" if below else ""


def consolidate(nodes: Mapping[str, bytes]) -> bytes:
    """Return the metadata of the root ('') with the metadata of all nodes consolidated, by folder."""
    root: dict[str, Any] = json.loads(nodes[""])
    below = {
        folder.rstrip("/"): json.loads(data) for folder, data in sorted(nodes.items()) if folder
    }
    kind = {"kind": "inline", "must_understand": False, "metadata": below}
    return encode_document({**root, "consolidated_metadata": kind})


def count_chunk_bytes(document: Mapping[str, Any]) -> int:
    """Return the approximate uncompressed size of a chunk."""
    items = 1
    for size in document.get("chunk_grid", {}).get("configuration", {}).get("chunk_shape", ()):
        items *= size if isinstance(size, int) else 1
    digits = "".join(each for each in str(document.get("data_type")) if each.isdigit())
    return items * max(int(digits[:3] or 64) // 8, 1)


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Encode metadata as JSON."""
    return json.dumps(document).encode()


MARK = ".frazil-export.json"
_AT_ONCE = 8
"""Maximum number of chunks a task holds in memory."""
_MOST_ROWS = 1_000
"""Maximum number of chunks of a part."""
_UNKNOWN_ROWS = 10_000


@verb(job=Job)
def export_zarr(
    repo: AnyRepository,
    target: AnyPlace,
    *,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    group: str = "/",
    zarr_format: int = 3,
    consolidated: bool = False,
    authorize: Authorize = (),
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> ExportReport:
    """Write a version of a repository, or a group of it, as a plain Zarr V3 hierarchy.

    Chunks are copied without decoding them, including inline and virtual chunks. Chunks that don't
    exist stay missing. The ledger and other arrays of `/_frazil` stay out, unless `group` is there.

    Parameters
    ----------
    target
        Repository, storage or location to write to.
    branch, tag, snapshot
        Version to export. Default: the branch `main`.
    group
        Path of the group to export.
    zarr_format
        Only 3 is supported.
    consolidated
        Write consolidated metadata.

    Returns
    -------
    ExportReport

    Raises
    ------
    AlreadyExistsError
        If the target is not empty, unless an export of the same version was interrupted there.
    InvalidInputError
        If `zarr_format` is not 3.
    NodeNotFoundError
        If there is no node at `group`.

    Examples
    --------
    >>> export_zarr("s3://bucket/weather", "s3://public/weather.zarr", tag="v1")
    """
    if zarr_format != 3:
        raise InvalidInputError(f"invalid zarr_format {zarr_format}: only 3 is supported")
    opened = find_repository(repo).authorize(authorize)
    if (branch, tag, snapshot) == (None, None, None):
        branch = "main"
    session = opened.readonly_session(branch, tag=tag, snapshot_id=snapshot)
    export = _Export(session, path_of(group), find_storage(target))
    storage = export.target if isinstance(export.target, MemoryStorage) else opened.storage
    with running("export_zarr", storage, job, spark) as run:
        return _export(export, run, consolidated=consolidated)


@dataclass(frozen=True, slots=True)
class _Export:
    session: Session
    root: str
    target: Storage

    def nodes(self) -> list[Node]:
        """Return the nodes to export; raise NodeNotFoundError if there are none."""
        found = [
            node
            for node in self.session.state.view.descendants(self.root)
            if not f"{node.path}/".startswith(_OWN) or f"{self.root}/".startswith(_OWN)
        ]
        if not found:
            raise NodeNotFoundError(f"there is no node at {self.root!r}")
        return found


def _export(export: _Export, run: Run, *, consolidated: bool) -> ExportReport:
    nodes = export.nodes()
    parts = [part for node in nodes for part in _plan_parts(export, node)]
    has_begun = _mark(export)
    groups = pack(parts, [part.bytes for part in parts], LEAST_TASK_BYTES)
    runner = run.choose_runner(is_small=len(groups) <= 1)
    run.job.expect("exporting", chunks=sum(part.rows for part in parts))
    task = ExportChunks(export.session, export.target, has_begun)
    copied = sum(runner.run("exporting", task, groups), Copied())
    run.job.refuse_if_cancelled()
    _write_metadata(export, nodes, consolidated=consolidated)
    arrays = sum(node.array is not None for node in nodes)
    return ExportReport(
        snapshot_id=str(export.session.snapshot_id), groups=len(nodes) - arrays, arrays=arrays,
        chunks=copied.objects, bytes_written=copied.bytes, present=copied.present,
        **run.describe(),
    )  # fmt: skip


# Chunks


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a manifest: chunks of an array."""

    path: str
    keys: ChunkKeys
    manifest_id: ManifestId
    start: int
    stop: int | None
    """None for all remaining rows."""
    rows: int
    bytes: int
    """Estimated size."""


@dataclass(frozen=True, slots=True)
class ExportChunks:
    """Task that copies chunks out of a repository."""

    session: Session
    target: Storage
    has_begun: bool
    """True if an earlier attempt may have written some chunks."""

    def __call__(self, parts: Sequence[Part]) -> Copied:
        """Copy the chunks of these parts and flush the target."""
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
    """Claim the target; return True if an earlier export of the same version had."""
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
            "an export of another version was started at the target: delete its objects, or export"
            " to another place"
        )
    return True


def _write_metadata(export: _Export, nodes: Sequence[Node], *, consolidated: bool) -> None:
    documents = {"": GROUP} | {folder_of(n.path, export.root): n.user_data for n in nodes}
    if consolidated and nodes[0].array is None:
        documents[""] = consolidate(documents)
    # The root comes first in the dict and is written last: it makes the hierarchy visible.
    for folder, data in reversed(documents.items()):
        export.target.put(folder + METADATA, data)
    export.target.flush()
    export.target.delete_many([MARK])
