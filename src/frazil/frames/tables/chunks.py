"""The table of chunk references: one row for each chunk that was written, and where it is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import Coordinates
from frazil.format.references import ChunkKind
from frazil.frames.source import Source
from frazil.frames.tables.bounds import BOUNDS, BoundsFinder, Spans
from frazil.frames.tables.planning import (
    Piece,
    plan_pieces,
    read_ahead,
    read_table,
    references_of_a_task,
)
from frazil.frames.tables.spelling import spell_ids, take_texts, to_texts
from frazil.frames.tables.whole import choose_columns, list_of
from frazil.frames.types import TIMESTAMP
from frazil.session import Session

BATCH_ROWS = 1 << 16
_SCHEMA = pa.schema(
    {
        "array": pa.string(), "chunk": list_of(pa.int64()), "bounds": BOUNDS, "kind": pa.string(),
        "size": pa.int64(), "offset": pa.int64(), "location": pa.string(), "etag": pa.string(),
        "last_modified": TIMESTAMP, "manifest_id": pa.string(),
    }
)  # fmt: skip
KIND_NAMES = pa.array([None, *(kind.name.lower() for kind in sorted(ChunkKind))], pa.string())


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """The references of a version, as `Table` has them."""

    session: Session
    schema: pa.Schema
    most: int
    """References of a task."""

    def partitions(self) -> Sequence[list[Piece]]:
        """Manifests, by how many references they have."""
        return plan_pieces(self.session, self.most)

    def read(self, partition: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """The references of some manifests."""
        finder = BoundsFinder(self.session) if "bounds" in self.schema.names else None
        places = [(piece, path) for piece in partition for path in piece.paths]
        for piece, path, table in read_ahead(places, lambda place: (*place, self._read(*place))):
            node = self.session.state.view.get_node(path)
            spans = Spans(()) if finder is None else finder.find(node)
            rows = _Rows(self.session, table, path, str(piece.manifest_id), spans)
            for start in range(0, len(table), BATCH_ROWS):
                yield rows.batch(self.schema, slice(start, start + BATCH_ROWS))

    def _read(self, piece: Piece, path: str) -> ChunkTable:
        node = self.session.state.view.get_node(path)
        table = read_table(self.session, piece.manifest_id, node)
        first, end = (len(table) * at // piece.parts for at in (piece.part, piece.part + 1))
        return table if piece.parts == 1 else table.take(slice(first, end))


@dataclass(frozen=True, eq=False)
class _Rows:
    """References of one array in one manifest, as columns of Arrow."""

    session: Session
    table: ChunkTable
    path: str
    manifest_id: str
    spans: Spans

    def batch(self, schema: pa.Schema, rows: slice) -> pa.RecordBatch:
        part = replace(self, table=self.table.take(rows))
        # Texts are made once for all batches.
        part.__dict__.update(locations=self.locations, etags=self.etags)
        columns = [_COLUMNS[name](part) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    @cached_property
    def locations(self) -> pa.Array:
        return to_texts(self.table.locations)

    @cached_property
    def etags(self) -> pa.Array:
        return to_texts(self.table.etags)

    def location(self) -> pa.Array:
        """The URL of a virtual chunk, the key of one in the repository, nothing for inline ones."""
        table = self.table
        is_native = table.kind == ChunkKind.NATIVE
        virtual = take_texts(self.locations, table.location)
        if not is_native.any():
            return virtual
        prefix = f"{self.session.state.assets.layout.chunks}/"
        keys = spell_ids(table.chunk_id, prefix)
        if is_native.all():
            return keys
        return pc.if_else(pa.array(is_native), keys, virtual)

    def offset(self) -> pa.Array:
        is_inline = self.table.kind == ChunkKind.INLINE
        return pa.array(self.table.offset.astype(np.int64), mask=is_inline)

    def last_modified(self) -> pa.Array:
        seconds = self.table.last_modified.astype(np.int64)
        return pa.array(seconds * 1_000_000, mask=seconds == 0).cast(TIMESTAMP)

    def repeat(self, text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text, pa.string()), len(self.table))


_COLUMNS: dict[str, Callable[[_Rows], pa.Array]] = {
    "array": lambda rows: rows.repeat(rows.path),
    "chunk": lambda rows: place_column(rows.table.coordinates),
    "bounds": lambda rows: rows.spans.column(rows.table.coordinates),
    "kind": lambda rows: KIND_NAMES.take(pa.array(rows.table.kind)),
    "size": lambda rows: pa.array(rows.table.length.astype(np.int64)),
    "offset": _Rows.offset,
    "location": _Rows.location,
    "etag": lambda rows: take_texts(rows.etags, rows.table.etag),
    "last_modified": _Rows.last_modified,
    "manifest_id": lambda rows: rows.repeat(rows.manifest_id),
}


def place_column(chunks: Coordinates) -> pa.Array:
    """Coordinates of chunks."""
    count, axes = chunks.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(axes)
    numbers = pa.array(chunks.astype(np.int64).reshape(-1))
    return pa.ListArray.from_arrays(pa.array(offsets), numbers, type=list_of(pa.int64()))


def open_chunks(source: Source) -> Chunks:
    """All references of a version."""
    schema = choose_columns(source.options, _SCHEMA)
    return Chunks(source.session, schema, references_of_a_task(source))
