"""The table of what arrays take, by kind of chunk, and how much of it other versions have as well."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.engine.lookup import manifests_of
from frazil.engine.snapshot_comparison import changed_chunks
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.references import ChunkKind
from frazil.format.snapshot import Node
from frazil.frames.source import Source
from frazil.frames.tables.planning import (
    count_references,
    manifest_ids,
    pack,
    read_ahead,
    read_tables,
    references_of_a_task,
)
from frazil.frames.tables.whole import choose_columns
from frazil.maintenance.id_columns import distinct
from frazil.maintenance.reach import find_reachable
from frazil.maintenance.walking import uncached
from frazil.session import Session

_SCHEMA = pa.schema(
    {
        "array": pa.string(), "kind": pa.string(), "references": pa.int64(), "bytes": pa.int64(),
        "shared_bytes": pa.int64(), "unique_bytes": pa.int64(),
    }
)  # fmt: skip
Others = Mapping[NodeId, frozenset[ManifestId]]
"""The manifests of arrays in other versions."""


@dataclass(frozen=True, slots=True)
class Measured:
    """An array, and where other versions have its chunks."""

    path: str
    others: frozenset[ManifestId]


@dataclass(frozen=True, slots=True, eq=False)
class StorageTable:
    """What the arrays of a version take, as `Table` has it."""

    session: Session
    schema: pa.Schema
    most: int
    """References of a task."""
    others: frozenset[SnapshotId]
    """All other versions that a ref leads to."""

    def partitions(self) -> Sequence[list[Measured]]:
        """Arrays, by how many references they have in all versions; reads all snapshots."""
        session = self.session
        others = _find_others(session.state.assets, self.others)
        counts = count_references(session)
        weighed = []
        for node in session.state.view.nodes():
            if node.array is not None:
                own = [counts[id] for id in manifest_ids(session, node)]
                elsewhere = others.get(node.id, frozenset())
                # Others have about as many as there are here.
                weight = sum(own) * (1 + len(elsewhere) // max(len(own), 1))
                weighed.append((Measured(node.path, elsewhere), weight))
        return list(pack(weighed, self.most))

    def read(self, partition: Sequence[Measured]) -> Iterator[pa.RecordBatch]:
        """A row for each kind of chunk that each of some arrays has."""
        rows = [row for each in partition for row in _measure(self.session, each)]
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


def _measure(session: Session, measured: Measured) -> Iterator[dict[str, Any]]:
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
    """Mark the rows that refer to what another version refers to as well.

    Native chunks are known by their ids, wherever they are; others by where they are.
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
    """The references of an array in manifests of other versions, while it had as many axes."""
    assert node.array is not None
    axes, files = len(node.array.shape), uncached(session.state.assets)
    for refs in read_ahead(sorted(ids), lambda id: files.read_manifest(id).arrays.get(node.id)):
        table = None if refs is None else refs.table()
        if table is not None and len(table) and table.axes == axes:
            yield table


def _as_items(ids: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    # Comparing as bytes is right, also where an id ends with zeros: all are of one size.
    return np.ascontiguousarray(ids).view(f"S{ids.shape[1]}").reshape(-1)


def open_storage(source: Source) -> StorageTable:
    """What the arrays of a version take, beside all other versions that a ref leads to."""
    session = source.session
    protocol = session.state.surroundings.protocol
    others = find_reachable(protocol) - {session.state.view.snapshot_id}
    schema = choose_columns(source.options, _SCHEMA)
    return StorageTable(session, schema, references_of_a_task(source), others)
