"""Repositories put together from values of Frazil's model, file by file."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from frazil.format.files import (
    DEFAULT_ENCODING,
    FileEncoding,
    encode_manifest,
    encode_repo_info,
    encode_snapshot,
    encode_transaction_log,
)
from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID, ChunkId, ManifestId, NodeId, ObjectId, SnapshotId
from frazil.format.manifest import ChunkRef, ChunkTable, Manifest
from frazil.format.metadata import JsonValue, Metadata, Value
from frazil.format.repo_info import (
    NewCommit,
    RepoInfo,
    RepoInitialized,
    RepoStatus,
    SnapshotInfo,
    Update,
)
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    TransactionLog,
    nodes_by_path,
)
from frazil.format.text_files import Ref, encode_config_yaml, encode_ref

DIALECTS = (Dialect.V1, Dialect.V2)

Id = TypeVar("Id", bound=ObjectId)

START = 1_700_000_000 * 10**9
"""When the first snapshot is said to have been written."""


def make_id(cls: type[Id], name: str) -> Id:
    """An id that looks random and is always the same for the same name."""
    return cls(hashlib.sha256(name.encode()).digest()[: cls.SIZES[0]])


# Nodes


def make_group(path: str, attributes: Mapping[str, Any] | None = None) -> Node:
    """A group."""
    document = {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes or {})}
    return Node(make_id(NodeId, path), path, json.dumps(document).encode())


def make_array(
    path: str,
    shape: Sequence[int],
    chunks: Sequence[int],
    *,
    names: Sequence[str | None] | None = None,
    manifests: Sequence[ManifestRef] = (),
    dtype: str = "uint8",
) -> Node:
    """An array with a regular grid, its chunks stored as they are."""
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    dimensions = [
        Dimension(length, -(-length // chunk)) for length, chunk in zip(shape, chunks, strict=True)
    ]
    return _make_array(path, dimensions, grid, names, manifests, dtype)


def make_rectilinear_array(
    path: str,
    chunk_shapes: Sequence[Sequence[int]],
    *,
    manifests: Sequence[ManifestRef] = (),
    dtype: str = "uint8",
) -> Node:
    """An array whose chunks along an axis have these lengths."""
    shapes = [list(lengths) for lengths in chunk_shapes]
    configuration = {"kind": "inline", "chunk_shapes": shapes}
    dimensions = [Dimension(sum(lengths), len(lengths)) for lengths in shapes]
    grid = {"name": "rectilinear", "configuration": configuration}
    return _make_array(path, dimensions, grid, None, manifests, dtype)


def _make_array(
    path: str, dimensions: Sequence[Dimension], grid: Mapping[str, Any],
    names: Sequence[str | None] | None, manifests: Sequence[ManifestRef], dtype: str,
) -> Node:  # fmt: skip
    codec = {"name": "bytes"} if dtype == "uint8" else {
        "name": "bytes", "configuration": {"endian": "little"}
    }  # fmt: skip
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [dimension.array_length for dimension in dimensions],
        "data_type": dtype,
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [codec],
        "attributes": {},
        **({} if names is None else {"dimension_names": list(names)}),
    }
    array = ArrayData(tuple(dimensions), None if names is None else tuple(names), tuple(manifests))
    return Node(make_id(NodeId, path), path, json.dumps(document).encode(), array)


# Commits


def make_snapshot(
    name: str,
    parent: Snapshot | None,
    nodes: Sequence[Node],
    manifest_files: Sequence[ManifestFileInfo] = (),
    metadata: Mapping[str, JsonValue] | None = None,
) -> Snapshot:
    """A snapshot one second after its parent, its name also its message."""
    return Snapshot(
        id=FIRST_SNAPSHOT_ID if parent is None else make_id(SnapshotId, name),
        parent_id=None if parent is None else parent.id,
        flushed_at=START if parent is None else parent.flushed_at + 1_000_123_000,
        message=name,
        metadata=Metadata(metadata or {}),
        nodes=nodes_by_path(nodes),
        manifest_files=tuple(manifest_files),
    )


FIRST_SNAPSHOT = make_snapshot(
    "Repository initialized", None, [], metadata={"__icechunk": {"is_root": True}}
)


def make_manifest(name: str, refs: Mapping[str, Mapping[tuple[int, ...], ChunkRef]]) -> Manifest:
    """A manifest of references by the paths of arrays."""
    tables = {make_id(NodeId, path): _table_of(of_array) for path, of_array in refs.items()}
    return Manifest(make_id(ManifestId, name), tables)


def _table_of(refs: Mapping[tuple[int, ...], ChunkRef]) -> ChunkTable:
    return ChunkTable.of(len(next(iter(refs))), refs)


def manifest_ref(manifest: Manifest, path: str) -> ManifestRef:
    """How an array names a manifest that has all or some of its references."""
    assert manifest.id is not None
    table = manifest.arrays[make_id(NodeId, path)].table()
    return ManifestRef(manifest.id, table.extents())


# Whole repositories


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a repository of either generation holds besides manifests and chunks."""

    snapshots: Sequence[Snapshot]
    """Parents before children; each knows its parent."""
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId] = field(default_factory=dict)
    deleted_tags: frozenset[str] = frozenset()
    logs: Sequence[TransactionLog] = ()
    config: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class RepositoryFiles:
    """A directory that becomes a repository; every file goes through Frazil's encoders."""

    root: Path
    dialect: Dialect
    options: FileEncoding = DEFAULT_ENCODING

    def put(self, key: str, data: bytes) -> None:
        """One file."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def write_chunk(self, data: bytes) -> ChunkId:
        """A chunk file."""
        chunk_id = ChunkId(hashlib.sha256(data).digest()[:12])
        self.put(f"chunks/{chunk_id}", data)
        return chunk_id

    def write_manifest(self, manifest: Manifest) -> ManifestFileInfo:
        """A manifest file, and how snapshots list it."""
        assert manifest.id is not None
        data = encode_manifest(manifest, self.dialect, self.options)
        self.put(f"manifests/{manifest.id}", data)
        return ManifestFileInfo(manifest.id, len(data), len(manifest))

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """A snapshot file; V2 keeps the parent elsewhere."""
        if self.dialect is Dialect.V2:
            snapshot = replace(snapshot, parent_id=None)
        data = encode_snapshot(snapshot, self.dialect, self.options)
        self.put(f"snapshots/{snapshot.id}", data)

    def write_transaction_log(self, log: TransactionLog) -> None:
        """A transaction log file."""
        data = encode_transaction_log(log, self.dialect, self.options)
        self.put(f"transactions/{log.id}", data)

    def write_repo_info(self, info: RepoInfo, key: str = "repo") -> None:
        """The repo info, or a former one below `overwritten/`."""
        self.put(key, encode_repo_info(info, self.options))

    def write(self, contents: Contents) -> None:
        """Everything."""
        for snapshot in contents.snapshots:
            self.write_snapshot(snapshot)
        logged = {log.id for log in contents.logs}
        unlogged = [s.id for s in contents.snapshots if s.id not in logged]
        for log in (*contents.logs, *map(TransactionLog, unlogged)):
            self.write_transaction_log(log)
        if self.dialect is Dialect.V2:
            self.write_repo_info(make_repo_info(contents))
        else:
            self._write_refs(contents)

    def _write_refs(self, contents: Contents) -> None:
        for name, snapshot_id in contents.branches.items():
            self.put(f"refs/branch.{_file_name(name)}/ref.json", encode_ref(Ref(snapshot_id)))
        for name, snapshot_id in contents.tags.items():
            self.put(f"refs/tag.{_file_name(name)}/ref.json", encode_ref(Ref(snapshot_id)))
        for name in contents.deleted_tags:
            directory = f"refs/tag.{_file_name(name)}"
            self.put(f"{directory}/ref.json", encode_ref(Ref(contents.snapshots[0].id)))
            self.put(f"{directory}/ref.json.deleted", b"")
        if contents.config is not None:
            self.put("config.yaml", encode_config_yaml(contents.config))


def _file_name(ref_name: str) -> str:
    """How the official library spells the name of a ref in the name of a file on a local disk."""
    return "".join(letter if letter.isascii() else quote(letter) for letter in ref_name)


def make_repo_info(contents: Contents) -> RepoInfo:
    """The repo info of a repository whose snapshots were all committed to main."""
    newest_first = reversed(contents.snapshots)
    return RepoInfo(
        branches=contents.branches,
        tags=contents.tags,
        deleted_tags=contents.deleted_tags,
        snapshots={snapshot.id: make_snapshot_info(snapshot) for snapshot in contents.snapshots},
        status=RepoStatus(set_at=START),
        latest_updates=tuple(map(_make_update, newest_first)),
        config=None if contents.config is None else Value(contents.config),
    )


def make_snapshot_info(snapshot: Snapshot) -> SnapshotInfo:
    """A snapshot as the repo info lists it."""
    return SnapshotInfo(
        snapshot.id, snapshot.parent_id, snapshot.flushed_at, snapshot.message, snapshot.metadata
    )


def _make_update(snapshot: Snapshot) -> Update:
    if snapshot.parent_id is None:
        return Update(RepoInitialized(), snapshot.flushed_at)
    return Update(NewCommit("main", snapshot.id), snapshot.flushed_at)
