"""Metadata tables of chunk references, manifests and source files."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.coordinates import Coordinates
from frazil.format.ids import ALPHABET, ManifestId
from frazil.format.manifest import ChunkKind, ChunkTable
from frazil.format.ragged import Strings
from frazil.format.snapshot import Node
from frazil.repository.session import Session
from frazil.repository.view import manifests_of
from frazil.tables.columns import (
    TIMESTAMP,
    Grid,
    GroupArrays,
    Offsets,
    Values,
    find_type,
    is_unauthorized,
    make_values,
)
from frazil.tables.table_source import (
    RowTable,
    Source,
    list_of,
    make_rows,
    read_ahead,
    select_fields,
)

_SPAN = pa.struct(
    {
        "lower": pa.float64(), "upper": pa.float64(),
        "lower_time": TIMESTAMP, "upper_time": TIMESTAMP,
    }
)  # fmt: skip
BOUNDS = pa.map_(pa.string(), _SPAN)
"""Coordinate bounds by dimension name; numbers and times have separate fields."""


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """Coordinate bounds of each chunk along one dimension."""

    axis: int
    dim: str
    is_time: bool
    lower: NDArray[Any]
    upper: NDArray[Any]
    missing: NDArray[np.bool_]


class Spans:
    """Coordinate bounds of an array's chunks."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self._spans = spans

    def column(self, chunks: Coordinates) -> pa.Array:
        """Return the bounds of some chunks as a column."""
        count, width = len(chunks), len(self._spans)
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
        names = pa.array([span.dim for span in self._spans], pa.string())
        keys = names.take(pa.array(np.tile(np.arange(width), count)))
        fields = [self._field(chunks, "lower", False), self._field(chunks, "upper", False)]
        fields += [self._field(chunks, "lower", True), self._field(chunks, "upper", True)]
        items = pa.StructArray.from_arrays(fields, fields=list(_SPAN))
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items, type=BOUNDS)

    def _field(self, chunks: Coordinates, end: str, is_time: bool) -> pa.Array:
        """Return one field for all dimensions; null for those of the other type."""
        type = TIMESTAMP if is_time else pa.float64()
        if not any(span.is_time == is_time for span in self._spans):
            return pa.nulls(len(chunks) * len(self._spans), type)
        shape = (len(chunks), len(self._spans))
        values = np.zeros(shape, np.int64 if is_time else np.float64)
        missing = np.ones(shape, np.bool_)
        for number, span in enumerate(self._spans):
            if span.is_time == is_time:
                rows = chunks[:, span.axis]
                values[:, number] = getattr(span, end)[rows]
                missing[:, number] = span.missing[rows]
        return pa.array(values.reshape(-1), mask=missing.reshape(-1)).cast(type)


class BoundsFinder:
    """Finder of chunk bounds in one version; reads each coordinate once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read: dict[tuple[str, str], Values | None] = {}

    def find(self, node: Node) -> Spans:
        """Return the bounds of an array's chunks."""
        grid = find_chunk_grid(self._session, node)
        if grid is None:
            return Spans(())
        group = node.path.rpartition("/")[0] or "/"
        found = []
        for axis, (dim, offsets) in enumerate(zip(grid.dims, grid.offsets, strict=True)):
            values = self._coordinate(group, dim, int(offsets[-1])) if dim else None
            # A name shared by two dimensions gives one entry.
            if values is not None and dim not in grid.dims[:axis]:
                found.append(_span(axis, dim, values, offsets))
        return Spans(found)

    def _coordinate(self, group: str, dim: str, size: int) -> Values | None:
        key = (group, dim)
        if key not in self._read:
            self._read[key] = _read_coordinate(self._session, group, dim)
        values = self._read[key]
        return values if values is not None and values.data.shape == (size,) else None


def find_chunk_grid(session: Session, node: Node) -> Grid | None:
    """Return the chunk grid of an array, with "" for unnamed dimensions; None for the root."""
    assert node.array is not None
    group, _, name = node.path.rpartition("/")
    if not name:
        return None
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    dims = tuple(each or "" for each in names)
    # Zarr must be allowed to open rectilinear chunk grids; no values are read here.
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return GroupArrays(session, group).grid(name, dims)


def _read_coordinate(session: Session, group: str, dim: str) -> Values | None:
    """Return a coordinate decoded by Xarray; None unless it has numbers or times."""
    node = session.state.view.find_node(f"{group.rstrip('/')}/{dim}")
    if node is None or node.array is None or node.array.dimension_names != (dim,):
        return None
    try:
        variable = GroupArrays(session, group).open([dim]).variables[dim]
        type = find_type(dim, variable.dtype)
        is_known = type == TIMESTAMP or variable.dtype.kind in "iuf"
        return make_values(variable.values, type) if is_known else None
    except InvalidInputError as error:
        if not is_unauthorized(error):
            raise
        return None


def _span(axis: int, dim: str, values: Values, offsets: Offsets) -> _Span:
    is_time = values.type == TIMESTAMP
    data = values.data.astype(np.int64 if is_time else np.float64)
    starts, count = offsets[:-1], len(offsets) - 1
    if not count:
        nothing = np.empty(0, data.dtype)
        return _Span(axis, dim, is_time, nothing, nothing, np.empty(0, np.bool_))
    least, greatest = data, data
    missing = np.zeros(count, np.bool_)
    if values.missing is not None:
        limits = np.iinfo(np.int64) if is_time else np.finfo(np.float64)
        least = np.where(values.missing, limits.max, data)
        greatest = np.where(values.missing, limits.min, data)
        missing = np.logical_and.reduceat(values.missing, starts)
    lower = np.minimum.reduceat(least, starts)
    upper = np.maximum.reduceat(greatest, starts)
    return _Span(axis, dim, is_time, lower, upper, missing)


DEFAULT_REFERENCES = 1_000_000
"""Default maximum references per task."""
_ASSUMED = 10_000
"""Assumed references of a manifest whose generation does not record the number."""
_COST = 1_000
"""Cost of reading a file in addition to its references, in references."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a manifest's references, for some arrays of a version."""

    manifest_id: ManifestId
    paths: tuple[str, ...]
    """Paths of the arrays."""
    part: int = 0
    parts: int = 1


def plan_pieces(session: Session, most: int = DEFAULT_REFERENCES) -> list[list[Piece]]:
    """Group all references of a version by task, splitting manifests larger than a task."""
    snapshot = session.state.view.snapshot
    arrays = [node for node in snapshot.nodes.values() if node.array is not None]
    paths: dict[ManifestId, dict[str, None]] = {}
    for node in sorted(arrays, key=lambda node: node.path):
        for id in manifest_ids(session, node):
            paths.setdefault(id, {})[node.path] = None
    counts = count_references(session)
    pieces: list[tuple[Piece, int]] = []
    for id, own in paths.items():
        parts = max(-(-counts[id] // most), 1)
        weight = counts[id] // parts + _COST
        pieces += [(Piece(id, tuple(own), part, parts), weight) for part in range(parts)]
    return list(pack(pieces, most))


def plan_arrays(session: Session, most: int = DEFAULT_REFERENCES) -> list[list[str]]:
    """Group the paths of all arrays of a version by task, keeping each array's references together."""
    counts = count_references(session)
    nodes = [node for node in session.state.view.nodes() if node.array is not None]
    weights = [sum(counts[id] + _COST for id in manifest_ids(session, node)) for node in nodes]
    return list(pack([(n.path, w) for n, w in zip(nodes, weights, strict=True)], most))


def pack(weighed: Sequence[tuple[T, int]], most: int) -> Iterator[list[T]]:
    """Group items in order up to a maximum total weight; each weighs at least one."""
    group: list[T] = []
    weight = 0
    for thing, own in weighed:
        if group and weight + own > most:
            yield group
            group, weight = [], 0
        group.append(thing)
        weight += max(own, 1)
    if group:
        yield group


def count_references(session: Session) -> Mapping[ManifestId, int]:
    """Return the number of references of each manifest of a version, estimated if not recorded."""
    files = session.state.view.snapshot.used_manifests()
    return {
        file.id: _ASSUMED if file.num_chunk_refs is None else file.num_chunk_refs for file in files
    }


def manifest_ids(session: Session, node: Node) -> list[ManifestId]:
    """Return the ids of the manifests that may have chunks of an array."""
    assert node.array is not None
    return [ref.id for ref in manifests_of(node.array, session.state.assets.dialect)]


def read_table(session: Session, id: ManifestId, node: Node) -> ChunkTable:
    """Return the references of an array in a manifest that lie inside its grid."""
    assert node.array is not None
    grid = tuple((0, each.num_chunks) for each in node.array.shape)
    table = session.state.assets.read_manifest(id).table(node.id, len(grid))
    return table.select(grid) if len(table) else table


def read_tables(session: Session, node: Node) -> Iterator[ChunkTable]:
    """Yield the references of an array, one manifest at a time, reading the next ones ahead."""
    return read_ahead(manifest_ids(session, node), lambda id: read_table(session, id, node))


def references_of_a_task(source: Source) -> int:
    """Return the maximum references per task, set by the option `references`."""
    given = source.options.more.get("references", str(DEFAULT_REFERENCES))
    if not given.isdecimal() or int(given) < 1:
        raise InvalidInputError(f"invalid references {given!r}: give a number of one or more")
    return int(given)


_DIGITS = np.frombuffer(ALPHABET.encode(), np.uint8)
_WEIGHTS = np.array([16, 8, 4, 2, 1], np.uint8)
_MOST_SHORT_BYTES = 2**31 - 1


def spell_ids(ids: NDArray[np.uint8], prefix: str = "") -> pa.Array:
    """Encode rows of bytes as base32 with a prefix."""
    count, size = ids.shape
    length = (size * 8 + 4) // 5
    bits = np.zeros((count, length * 5), np.uint8)
    bits[:, : size * 8] = np.unpackbits(np.ascontiguousarray(ids), axis=1)
    head = np.frombuffer(prefix.encode(), np.uint8)
    letters = np.empty((count, head.size + length), np.uint8)
    letters[:, : head.size] = head
    letters[:, head.size :] = _DIGITS[bits.reshape(count, length, 5) @ _WEIGHTS]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(letters.shape[1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def to_texts(strings: Strings) -> pa.Array:
    """Return strings as an Arrow array."""
    is_long = strings.blob.size > _MOST_SHORT_BYTES
    offsets = strings.offsets.astype(np.int64 if is_long else np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(strings.blob))]
    type = pa.large_string() if is_long else pa.string()
    return pa.Array.from_buffers(type, len(strings), buffers)


def take_texts(texts: pa.Array, codes: NDArray[np.int32]) -> pa.Array:
    """Return the strings at these indices; null for -1."""
    found: Any = texts.take(pa.array(codes, mask=codes < 0))
    return found.cast(pa.string())


BATCH_ROWS = 1 << 16
_CHUNKS_SCHEMA = pa.schema(
    {
        "array": pa.string(), "chunk": list_of(pa.int64()), "bounds": BOUNDS, "kind": pa.string(),
        "size": pa.int64(), "offset": pa.int64(), "location": pa.string(), "etag": pa.string(),
        "last_modified": TIMESTAMP, "manifest_id": pa.string(),
    }
)  # fmt: skip
KIND_NAMES = pa.array([None, *(kind.name.lower() for kind in sorted(ChunkKind))], pa.string())


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Table of the chunk references of a version; implements `Table`."""

    session: Session
    schema: pa.Schema
    most: int
    """Maximum references per task."""

    def partitions(self) -> Sequence[list[Piece]]:
        """Return parts of manifests, grouped by their number of references."""
        return plan_pieces(self.session, self.most)

    def read(self, partition: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Yield the references of some manifests."""
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
    """References of one array in one manifest, as Arrow columns."""

    session: Session
    table: ChunkTable
    path: str
    manifest_id: str
    spans: Spans

    def batch(self, schema: pa.Schema, rows: slice) -> pa.RecordBatch:
        part = replace(self, table=self.table.take(rows))
        # Strings are converted once for all batches.
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
        """Return the URL of virtual chunks, the key of native ones and null for inline ones."""
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
    """Return the coordinates of chunks as a column."""
    count, axes = chunks.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(axes)
    numbers = pa.array(chunks.astype(np.int64).reshape(-1))
    return pa.ListArray.from_arrays(pa.array(offsets), numbers, type=list_of(pa.int64()))


def open_chunks(source: Source) -> Chunks:
    """Open the table of all chunk references of a version."""
    schema = select_fields(source.options, _CHUNKS_SCHEMA)
    return Chunks(source.session, schema, references_of_a_task(source))


_TEXT, _BOX_SIDE = pa.string(), list_of(pa.int64())
_BOX = pa.struct({"array": _TEXT, "first": _BOX_SIDE, "end": _BOX_SIDE})
_MANIFESTS_SCHEMA = pa.schema(
    {
        "manifest_id": _TEXT, "size_bytes": pa.int64(), "references": pa.int64(),
        "arrays": list_of(_TEXT), "extents": list_of(_BOX),
    }
)  # fmt: skip


def open_manifests(source: Source) -> RowTable:
    """Open the table of manifests of a version, with the extents of each array in them."""
    snapshot = source.session.state.view.snapshot
    boxes = _find_boxes(list(snapshot.nodes.values()))
    files = snapshot.used_manifests()
    columns = {
        "manifest_id": [str(file.id) for file in files],
        "size_bytes": [file.size_bytes for file in files],
        "references": [file.num_chunk_refs for file in files],
        "arrays": [sorted({str(box["array"]) for box in boxes[file.id]}) for file in files],
        "extents": [boxes[file.id] for file in files],
    }
    return make_rows(source.options, _MANIFESTS_SCHEMA, columns)


def _find_boxes(nodes: list[Node]) -> dict[ManifestId, list[dict[str, object]]]:
    boxes: dict[ManifestId, list[dict[str, object]]] = defaultdict(list)
    for node in nodes:
        for ref in () if node.array is None else node.array.manifests:
            first, end = ([side[at] for side in ref.extents] for at in (0, 1))
            boxes[ref.id].append({"array": node.path, "first": first, "end": end})
    return boxes


_VIRTUAL_SOURCES_SCHEMA = pa.schema(
    {
        "location": pa.string(), "references": pa.int64(), "bytes": pa.int64(),
        "first_byte": pa.int64(), "end_byte": pa.int64(), "arrays": list_of(pa.string()),
    }
)  # fmt: skip
_ROWS = 1 << 18


_PARTS = (("references", "sum"), ("bytes", "sum"), ("first_byte", "min"), ("end_byte", "max"))


@dataclass(frozen=True, slots=True, eq=False)
class VirtualSources:
    """Table of the source files that a version refers to; implements `Table`."""

    session: Session
    schema: pa.Schema

    def partitions(self) -> Sequence[str]:
        """Return one partition, or none if the version has no manifests."""
        return ["all"] if self.session.state.view.snapshot.used_manifests() else []

    def read(self, partition: str) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield one row per source file, sorted by location."""
        parts = list(_read_parts(self.session))
        if parts:
            rows = _unite(parts).select(self.schema.names).cast(self.schema)
            yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS)


def _read_parts(session: Session) -> Iterator[pa.Table]:
    """Yield the source files of each array and manifest."""
    for node in session.state.view.nodes():
        for table in () if node.array is None else read_tables(session, node):
            virtual = table.take(table.kind == ChunkKind.VIRTUAL)
            if len(virtual):
                yield _summarize(node.path, virtual)


def _summarize(path: str, table: ChunkTable) -> pa.Table:
    codes, count = table.location, len(table.locations)
    references = np.bincount(codes, minlength=count)
    used = np.flatnonzero(references)
    sizes = np.bincount(codes, weights=table.length, minlength=count).astype(np.int64)
    start, length = table.offset.astype(np.int64), table.length.astype(np.int64)
    first, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first, codes, start)
    np.maximum.at(end, codes, start + length)
    return pa.table(
        {
            "location": take_texts(to_texts(table.locations), used.astype(np.int32)),
            **{
                name: pa.array(values[used])
                for name, values in zip(
                    _VIRTUAL_SOURCES_SCHEMA.names[1:5], (references, sizes, first, end), strict=True
                )
            },
            "arrays": pa.repeat(pa.scalar(path), len(used)),
        }
    )


def _unite(parts: Sequence[pa.Table]) -> pa.Table:
    """Merge the rows of each source file."""
    grouped = pa.concat_tables(parts).group_by("location")
    rows = grouped.aggregate([*_PARTS, ("arrays", "distinct")])
    named = [rows.column("location"), *(rows.column(f"{name}_{how}") for name, how in _PARTS)]
    columns = [*named, rows.column("arrays_distinct").cast(list_of(pa.string()))]
    return pa.table(columns, names=_VIRTUAL_SOURCES_SCHEMA.names).sort_by("location")


def open_virtual_sources(source: Source) -> VirtualSources:
    """Open the table of source files with virtual chunks of a version."""
    return VirtualSources(source.session, select_fields(source.options, _VIRTUAL_SOURCES_SCHEMA))
