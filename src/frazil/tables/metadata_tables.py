"""Metadata tables: of nodes, arrays and storage, and of snapshots, refs and operations."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray

from frazil.errors import FormatError
from frazil.format import coordinates as coords_
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import ChunkKind, ChunkTable
from frazil.format.metadata import to_microseconds
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Node
from frazil.maintenance.reachability import distinct, find_reachable, uncached
from frazil.ops import Update
from frazil.overview.nodes import read_metadata
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol
from frazil.repository.diff import changed_chunks
from frazil.repository.session import Session
from frazil.repository.view import manifests_of
from frazil.tables.chunk_tables import (
    count_references,
    manifest_ids,
    pack,
    plan_arrays,
    read_tables,
    references_of_a_task,
)
from frazil.tables.columns import TIMESTAMP
from frazil.tables.statistics import NO_SUM, STATISTICS
from frazil.tables.table_source import (
    RowTable,
    Source,
    list_of,
    make_rows,
    read_ahead,
    select_fields,
)
from frazil.virtual.source_formats import without_codec_warnings

_TEXT, _NUMBER = pa.string(), pa.int64()
_COUNTS = ("references", "native_bytes", "inline_bytes", "virtual_bytes", "bytes")
_ARRAYS_SCHEMA = pa.schema(
    {
        "path": _TEXT, "node_id": _TEXT, "shape": list_of(_NUMBER), "dtype": _TEXT,
        "dims": list_of(_TEXT), "chunk_shape": list_of(_NUMBER), "grid_shape": list_of(_NUMBER),
        "codecs": list_of(_TEXT), "fill_value": _TEXT, "attributes": _TEXT, "manifests": _NUMBER,
        **dict.fromkeys(_COUNTS, _NUMBER),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ArrayTable:
    """Table of the arrays of a version; implements `Table`. Tasks measure the chunk sizes."""

    session: Session
    schema: pa.Schema
    most: int
    """Maximum references per task."""

    def partitions(self) -> Sequence[list[str]]:
        """Return the paths of the arrays, grouped by their number of references."""
        return plan_arrays(self.session, self.most)

    def read(self, partition: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield one row per array."""
        counts = not set(_COUNTS).isdisjoint(self.schema.names)
        nodes = [self.session.state.view.get_node(path) for path in partition]
        rows = [
            {**_describe(node), **(_count(self.session, node) if counts else {})} for node in nodes
        ]
        columns = [pa.array([row[each.name] for row in rows], each.type) for each in self.schema]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _describe(node: Node) -> dict[str, Any]:
    assert node.array is not None
    document = read_metadata(node)
    data_type = document.get("data_type")
    chunk_shape = (document.get("chunk_grid") or {}).get("configuration", {}).get("chunk_shape")
    is_regular = chunk_shape and all(isinstance(each, int) for each in chunk_shape)
    return {
        "path": node.path,
        "node_id": str(node.id),
        "shape": [each.array_length for each in node.array.shape],
        "dtype": data_type if isinstance(data_type, str) else json.dumps(data_type),
        "dims": node.array.dimension_names,
        "chunk_shape": chunk_shape if is_regular or chunk_shape == [] else None,
        "grid_shape": [each.num_chunks for each in node.array.shape],
        "codecs": [
            each if isinstance(each, str) else each.get("name")
            for each in document.get("codecs", ())
        ],
        "fill_value": json.dumps(document.get("fill_value")),
        "attributes": json.dumps(document.get("attributes") or {}),
        "manifests": len(node.array.manifests),
    }


def _count(session: Session, node: Node) -> dict[str, int]:
    references, sizes = 0, dict.fromkeys(ChunkKind, 0)
    for table in read_tables(session, node):
        references += len(table)
        for kind in ChunkKind:
            sizes[kind] += int(np.sum(table.length[table.kind == kind], dtype=np.uint64))
    by_kind = {f"{kind.name.lower()}_bytes": size for kind, size in sizes.items()}
    return {"references": references, **by_kind, "bytes": sum(sizes.values())}


def open_arrays(source: Source) -> ArrayTable:
    """Open the table of all arrays of a version."""
    schema = select_fields(source.options, _ARRAYS_SCHEMA)
    return ArrayTable(source.session, schema, references_of_a_task(source))


_NODES_SCHEMA = pa.schema(
    {
        "path": _TEXT, "name": _TEXT, "parent": _TEXT, "kind": _TEXT, "node_id": _TEXT,
        "attributes": _TEXT, "metadata": _TEXT,
    }
)  # fmt: skip


def open_nodes(source: Source) -> RowTable:
    """Open the table of all nodes of a version, sorted by path; attributes and metadata are JSON."""
    nodes = list(source.session.state.view.nodes())
    paths = [node.path for node in nodes]
    documents = [read_metadata(node) for node in nodes]
    columns = {
        "path": paths,
        "name": [path.rpartition("/")[2] for path in paths],
        "parent": [path.rpartition("/")[0] or "/" if path != "/" else None for path in paths],
        "kind": ["group" if node.array is None else "array" for node in nodes],
        "node_id": [str(node.id) for node in nodes],
        "attributes": [json.dumps(each.get("attributes") or {}) for each in documents],
        "metadata": [json.dumps(each) for each in documents],
    }
    return make_rows(source.options, _NODES_SCHEMA, columns)


_STORAGE_SCHEMA = pa.schema(
    {
        "array": pa.string(), "kind": pa.string(), "references": pa.int64(), "bytes": pa.int64(),
        "shared_bytes": pa.int64(), "unique_bytes": pa.int64(),
    }
)  # fmt: skip
Others = Mapping[NodeId, frozenset[ManifestId]]
"""Manifests of arrays in other versions."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Array and the manifests of its chunks in other versions."""

    path: str
    others: frozenset[ManifestId]


@dataclass(frozen=True, slots=True, eq=False)
class StorageTable:
    """Table of the storage used by the arrays of a version; implements `Table`."""

    session: Session
    schema: pa.Schema
    most: int
    """Maximum references per task."""
    others: frozenset[SnapshotId]
    """All other snapshots reachable from a ref."""

    def partitions(self) -> Sequence[list[Measured]]:
        """Return arrays grouped by their number of references in all versions. Reads all snapshots."""
        session = self.session
        others = _find_others(session.state.assets, self.others)
        counts = count_references(session)
        weighed = []
        for node in session.state.view.nodes():
            if node.array is not None:
                own = [counts[id] for id in manifest_ids(session, node)]
                elsewhere = others.get(node.id, frozenset())
                # Assume that other versions have about as many references as this one.
                weight = sum(own) * (1 + len(elsewhere) // max(len(own), 1))
                weighed.append((Measured(node.path, elsewhere), weight))
        return list(pack(weighed, self.most))

    def read(self, partition: Sequence[Measured]) -> Iterator[pa.RecordBatch]:
        """Yield one row per array and kind of chunk."""
        rows = [row for each in partition for row in _measure_storage(self.session, each)]
        if rows:
            columns = [pa.array([row[f.name] for row in rows], f.type) for f in self.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _find_others(assets: Assets, snapshots: Iterable[SnapshotId]) -> Others:
    found: dict[NodeId, set[ManifestId]] = {}
    for snapshot in read_ahead(snapshots, uncached(assets).read_snapshot):
        for node in snapshot.nodes.values():
            if node.array is not None:
                refs = manifests_of(node.array, assets.dialect)
                found.setdefault(node.id, set()).update(ref.id for ref in refs)
    return {id: frozenset(each) for id, each in found.items()}


def _measure_storage(session: Session, measured: Measured) -> Iterator[dict[str, Any]]:
    node = session.state.view.get_node(measured.path)
    ids = manifest_ids(session, node)
    tables = list(read_tables(session, node))
    shares = [
        np.full(len(table), id in measured.others) for id, table in zip(ids, tables, strict=True)
    ]
    own = [
        (table, shared)
        for id, table, shared in zip(ids, tables, shares, strict=True)
        if id not in measured.others
    ]
    if own:
        _mark_shared(own, _read_others(session, node, measured.others.difference(ids)))
    for kind in ChunkKind:
        counts = np.zeros(3, np.int64)
        for table, shared in zip(tables, shares, strict=True):
            is_kind = table.kind == kind
            length = table.length.astype(np.int64)
            counts += [is_kind.sum(), length[is_kind].sum(), length[is_kind & shared].sum()]
        if counts[0]:
            references, size, shared_size = map(int, counts)
            yield {
                "array": node.path, "kind": kind.name.lower(), "references": references,
                "bytes": size, "shared_bytes": shared_size, "unique_bytes": size - shared_size,
            }  # fmt: skip


def _mark_shared(
    own: Sequence[tuple[ChunkTable, NDArray[np.bool_]]], others: Iterable[ChunkTable]
) -> None:
    """Mark the references that another version has, too.

    Native chunks are matched by chunk id, at any coordinates; other kinds by an equal reference at the
    same coordinates.
    """
    chunk_ids: list[NDArray[np.bytes_]] = []
    for other in others:
        chunk_ids.append(_as_items(other.distinct_chunk_ids()))
        for table, shared in own:
            if not (table.kind == ChunkKind.NATIVE).all():
                same = coords_.without(table.coordinates, changed_chunks(other, table))
                shared[table.locate(same)] = True
    known = distinct(np.concatenate(chunk_ids)) if chunk_ids else np.empty(0, "S1")
    for table, shared in own:
        is_native = table.kind == ChunkKind.NATIVE
        shared[is_native] = np.isin(_as_items(table.chunk_id[is_native]), known)


def _read_others(session: Session, node: Node, ids: Iterable[ManifestId]) -> Iterator[ChunkTable]:
    """Yield an array's references in other versions' manifests, if the number of axes is equal."""
    assert node.array is not None
    axes, files = len(node.array.shape), uncached(session.state.assets)
    for refs in read_ahead(sorted(ids), lambda id: files.read_manifest(id).arrays.get(node.id)):
        table = None if refs is None else refs.table()
        if table is not None and len(table) and table.axes == axes:
            yield table


def _as_items(ids: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    # Comparing as bytes is safe even if an id ends with zeros: all ids have the same size.
    return np.ascontiguousarray(ids).view(f"S{ids.shape[1]}").reshape(-1)


def open_storage(source: Source) -> StorageTable:
    """Open the table of storage used by a version and shared with other reachable versions."""
    session = source.session
    protocol = session.state.context.protocol
    others = find_reachable(protocol) - {session.state.view.snapshot_id}
    schema = select_fields(source.options, _STORAGE_SCHEMA)
    return StorageTable(session, schema, references_of_a_task(source), others)


LEDGER = "/_frazil/ledger"

_LEDGER = pa.schema(
    {
        "source": _TEXT, "group": _TEXT, "etag": _TEXT, "size": pa.int64(), "modified_at": TIMESTAMP,
        "start": pa.int64(), "stop": pa.int64(), "job": _TEXT,
    }
)  # fmt: skip
_STATISTICS = pa.schema(
    {
        "array": _TEXT, "chunk": list_of(pa.int64()), "min": pa.float64(), "max": pa.float64(),
        "count": pa.int64(), "null_count": pa.int64(), "sum": pa.float64(),
    }
)  # fmt: skip
_MEASURES = _STATISTICS.names[2:]


def open_ledger(source: Source) -> RowTable:
    """Open the table of ingested files; empty if there are none."""
    arrays = _read_arrays(source.session, LEDGER)
    columns: dict[str, Any] = {name: [] for name in _LEDGER.names}
    if arrays:
        start = arrays["start"]
        columns = {
            **{name: arrays[name].tolist() for name in ("source", "group", "size", "job")},
            "etag": [each or None for each in arrays["etag"].tolist()],
            "modified_at": pa.array(arrays["mtime"]).cast(TIMESTAMP),
            "start": pa.array(start, mask=start < 0),
            "stop": pa.array(arrays["stop"], mask=start < 0),
        }
    return make_rows(source.options, _LEDGER, columns)


def open_statistics(source: Source) -> RowTable:
    """Open the table of chunk statistics; empty if there are none.

    The statistics of an array `/a/b` are in the group `/_frazil/statistics/a/b`: one array per measure,
    with one element per chunk. Times are in microseconds since 1970. Chunks may have changed since.
    """
    parts = [
        _spread(path, measures)
        for path, measures in _find_measures(source.session)
        if "count" in measures
    ]
    empty = pa.table({f.name: pa.array([], f.type) for f in _STATISTICS})
    rows = pa.concat_tables([empty, *parts])
    return make_rows(source.options, _STATISTICS, {n: rows.column(n) for n in rows.column_names})


def _find_measures(session: Session) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
    """Yield the path and the measures of each array with statistics."""
    for node in session.state.view.descendants(STATISTICS):
        if node.array is None and node.path != STATISTICS:
            arrays = _read_arrays(session, node.path, _MEASURES)
            if arrays:
                yield node.path.removeprefix(STATISTICS), arrays


def _spread(path: str, measures: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Return one row per chunk with statistics."""
    counts = measures["count"]
    nulls = measures.get("null_count", np.zeros_like(counts))
    known = (counts.reshape(-1) >= 0) & ((counts + nulls).reshape(-1) > 0)
    places = np.argwhere(np.ones(counts.shape, np.bool_)).astype(np.int64)[known]
    offsets = np.arange(len(places) + 1, dtype=np.int32) * np.int32(counts.ndim)
    chunk = pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(places.reshape(-1)), type=list_of(pa.int64())
    )
    columns = [pa.repeat(pa.scalar(path), len(places)), chunk]
    empty = counts.reshape(-1)[known] == 0
    for name in _MEASURES:
        type = _STATISTICS.field(name).type
        if name in measures:
            values = measures[name].reshape(-1)[known]
            missing = empty | (values == NO_SUM) if name == "sum" else empty
            columns.append(_read_measures(values, type, missing))
        else:
            columns.append(pa.nulls(len(places), type))
    return pa.table(columns, schema=_STATISTICS)


def _read_measures(values: NDArray[Any], type: pa.DataType, missing: NDArray[np.bool_]) -> pa.Array:
    """Return the column of a measure; null where it is unknown or the chunk has no values."""
    if type == pa.int64():
        return pa.array(values.astype(np.int64))
    return pa.array(values.astype(np.float64), mask=missing | np.isnan(values))


def _read_arrays(
    session: Session, path: str, names: list[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read the arrays of a group, optionally only some names; empty if there is no group."""
    view = session.state.view
    if view.find_node(path) is None:
        return {}
    with without_codec_warnings():
        return {
            node.path.rpartition("/")[2]: _read_array(session, node)
            for node in view.children(path)
            if node.array is not None and (names is None or node.path.rpartition("/")[2] in names)
        }


def _read_array(session: Session, node: Node) -> NDArray[Any]:
    array: Any = zarr.open_array(session.store, path=node.path.lstrip("/"), mode="r")
    return np.asarray(array[...])


_SNAPSHOTS = pa.schema(
    {
        "snapshot_id": _TEXT, "parent_id": _TEXT, "written_at": TIMESTAMP, "message": _TEXT,
        "metadata": _TEXT, "branches": list_of(_TEXT), "tags": list_of(_TEXT),
    }
)  # fmt: skip
_REFS = pa.schema(
    {"name": _TEXT, "kind": _TEXT, "snapshot_id": _TEXT, "written_at": TIMESTAMP, "message": _TEXT}
)
_HISTORY = pa.schema(
    {
        "ref": _TEXT, "kind": _TEXT, "position": pa.int64(), "snapshot_id": _TEXT,
        "parent_id": _TEXT, "written_at": TIMESTAMP, "message": _TEXT,
    }
)  # fmt: skip
_OPS_LOG = pa.schema(
    {
        "updated_at": TIMESTAMP, "operation": _TEXT, "branch": _TEXT, "tag": _TEXT,
        "snapshot_id": _TEXT, "previous_snapshot_id": _TEXT, "details": _TEXT, "backup_path": _TEXT,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _NamedTip:
    name: str
    kind: Literal["branch", "tag"]
    tip: SnapshotId


@dataclass(frozen=True, slots=True)
class _Lines:
    """Distinct snapshots, and the ancestry of each ref as indices into them, newest first."""

    snapshots: Sequence[SnapshotInfo]
    lines: Sequence[NDArray[np.int64]]


def open_snapshots(source: Source) -> RowTable:
    """Open the table of all snapshots reachable from a branch or tag, newest first."""
    refs = _list_refs(source)
    known = _read_lines(_protocol(source), refs).snapshots
    infos = sorted(known, key=lambda info: info.flushed_at, reverse=True)
    return make_rows(
        source.options,
        _SNAPSHOTS,
        {
            **_describe_snapshots(infos),
            "metadata": [json.dumps(dict(info.metadata)) for info in infos],
            "branches": _names_at(infos, refs, "branch"),
            "tags": _names_at(infos, refs, "tag"),
        },
    )


def open_refs(source: Source) -> RowTable:
    """Open the table of all branches and tags."""
    refs, protocol = _list_refs(source), _protocol(source)
    infos = [protocol.lookup_snapshot(ref.tip) for ref in refs]
    columns = {
        **_describe_snapshots(infos),
        "name": [r.name for r in refs],
        "kind": [r.kind for r in refs],
    }
    return make_rows(source.options, _REFS, columns)


def open_history(source: Source) -> RowTable:
    """Open the table of the ancestry of each branch and tag; the tip has position 0."""
    refs = _list_refs(source)
    found = _read_lines(_protocol(source), refs)
    counts = [len(line) for line in found.lines]
    numbers = np.concatenate([*found.lines, np.empty(0, np.int64)])
    owner = np.repeat(np.arange(len(refs)), counts)
    positions = np.concatenate([*map(np.arange, counts), np.empty(0, np.int64)])
    described = {
        name: pa.array(values, _HISTORY.field(name).type).take(pa.array(numbers))
        for name, values in _describe_snapshots(found.snapshots).items()
    }
    columns = {
        **described,
        "ref": pa.array([ref.name for ref in refs], _TEXT).take(pa.array(owner)),
        "kind": pa.array([ref.kind for ref in refs], _TEXT).take(pa.array(owner)),
        "position": positions,
    }
    return make_rows(source.options, _HISTORY, columns)


def open_ops_log(source: Source) -> RowTable:
    """Open the table of operations, newest first; empty for generations without an ops log."""
    try:
        updates = list(source.repository.ops_log())
    except FormatError as error:
        if error.kind != "unsupported-spec-version":
            raise
        updates = []
    details = [_details(update) for update in updates]
    operations = [type(update.kind).__name__ for update in updates]
    columns = {
        "updated_at": [update.updated_at for update in updates],
        "operation": operations,
        "branch": [_name(d, o, "Branch") or d.get("branch") for d, o in _pair(details, operations)],
        "tag": [_name(d, o, "Tag") for d, o in _pair(details, operations)],
        "snapshot_id": [each.get("new_snap_id") for each in details],
        "previous_snapshot_id": [each.get("previous_snap_id") for each in details],
        "details": [json.dumps(each, default=str) for each in details],
        "backup_path": [update.backup_path for update in updates],
    }
    return make_rows(source.options, _OPS_LOG, columns)


def _pair(
    details: Sequence[dict[str, object]], operations: Sequence[str]
) -> Iterable[tuple[dict[str, object], str]]:
    return zip(details, operations, strict=True)


def _name(details: dict[str, object], operation: str, what: str) -> object:
    return details.get("name") if operation.startswith(what) else None


def _details(update: Update) -> dict[str, object]:
    kind = update.kind
    return {each.name: getattr(kind, each.name) for each in fields(kind)}  # type: ignore[arg-type]


def _protocol(source: Source) -> CommitProtocol:
    return source.session.state.context.protocol


def _list_refs(source: Source) -> list[_NamedTip]:
    protocol = _protocol(source)
    branches = [_NamedTip(n, "branch", protocol.lookup_branch(n)) for n in protocol.list_branches()]
    tags = [_NamedTip(n, "tag", protocol.lookup_tag(n)) for n in protocol.list_tags()]
    return sorted([*branches, *tags], key=lambda ref: (ref.kind, ref.name))


def _read_lines(protocol: CommitProtocol, refs: Sequence[_NamedTip]) -> _Lines:
    """Read the ancestry of refs, reusing the parts that refs share."""
    snapshots: list[SnapshotInfo] = []
    lines: list[NDArray[np.int64]] = []
    seen: dict[SnapshotId, tuple[int, int]] = {}
    for line in protocol.ancestries(ref.tip for ref in refs):
        own: list[int] = []
        rest = np.empty(0, np.int64)
        for info in line:
            if info.id in seen:
                other, place = seen[info.id]
                rest = lines[other][place:]
                break
            seen[info.id] = (len(lines), len(own))
            own.append(len(snapshots))
            snapshots.append(info)
        lines.append(np.concatenate([np.array(own, np.int64), rest]))
    return _Lines(snapshots, lines)


def _describe_snapshots(infos: Sequence[SnapshotInfo]) -> dict[str, list[object]]:
    return {
        "snapshot_id": [str(info.id) for info in infos],
        "parent_id": [None if info.parent_id is None else str(info.parent_id) for info in infos],
        "written_at": [to_microseconds(info.flushed_at) for info in infos],
        "message": [info.message for info in infos],
    }


def _names_at(
    infos: Sequence[SnapshotInfo], refs: Sequence[_NamedTip], kind: str
) -> list[list[str]]:
    names: dict[SnapshotId, list[str]] = defaultdict(list)
    for ref in refs:
        if ref.kind == kind:
            names[ref.tip].append(ref.name)
    return [names[info.id] for info in infos]
