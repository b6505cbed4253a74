"""Manifest: the chunk references of one or more arrays, in columns (`ChunkTable`) or few as rows."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from enum import IntEnum
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from frazil.errors import FormatError
from frazil.format import coordinates as coords_
from frazil.format import ragged
from frazil.format.coordinates import Coordinates, Extents, Rows
from frazil.format.ids import ChunkId, ManifestId, NodeId
from frazil.format.ragged import NO_STRINGS, Strings, unite
from frazil.lazy import dataclass


class ChunkKind(IntEnum):
    """Storage of a chunk; the numbers are those of Icechunk's `ChunkType`."""

    NATIVE = 1
    VIRTUAL = 2
    INLINE = 3


@dataclass(frozen=True, slots=True)
class ETag:
    """Entity tag that the source file of a virtual chunk must have."""

    value: str


@dataclass(frozen=True, slots=True)
class LastModified:
    """Latest modification time of a virtual chunk's source file, in seconds since 1970."""

    seconds: int


Checksum = ETag | LastModified


@dataclass(frozen=True, slots=True)
class NativeRef:
    """Reference to a chunk in a chunk file of the repository."""

    chunk_id: ChunkId
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class VirtualRef:
    """Reference to a chunk in a source file outside the repository."""

    location: str
    offset: int
    length: int
    checksum: Checksum | None = None


@dataclass(frozen=True, slots=True)
class InlineRef:
    """Chunk whose bytes are in the manifest."""

    data: bytes


ChunkRef = NativeRef | VirtualRef | InlineRef


@dataclass(frozen=True, slots=True)
class NativeChunks:
    """Ids of native chunks, as rows of bytes, and their lengths; ids may repeat."""

    ids: NDArray[np.uint8]
    lengths: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.lengths)


def constant_column(value: int, count: int, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a read-only column with one value in every row, without memory per row."""
    return np.broadcast_to(np.array(value, dtype), (count,))


def no_chunk_ids(count: int, size: int = 12) -> ragged.Bytes:
    """Return the chunk id column of rows without ids."""
    return np.broadcast_to(np.zeros(size, np.uint8), (count, size))


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """References of one array, by column. Build with `of` or `sort` unless the rows are already sorted.

    In an inline row `offset` and `length` locate its bytes in `inline`.
    """

    coordinates: Coordinates
    kind: NDArray[np.uint8]
    offset: NDArray[np.uint64]
    length: NDArray[np.uint64]
    chunk_id: NDArray[np.uint8]
    """Rows of 12 bytes (16 in the draft); zeros if the row is not native."""
    location: NDArray[np.int32]
    """Index into `locations`; -1 if the row is not virtual."""
    etag: NDArray[np.int32]
    """Index into `etags`, or -1."""
    last_modified: NDArray[np.uint32]
    """Seconds since 1970; 0 without such a checksum."""
    extra: NDArray[np.int32]
    """Index into `extras`, or -1."""
    locations: Strings = field(default_factory=lambda: NO_STRINGS)
    etags: Strings = field(default_factory=lambda: NO_STRINGS)
    inline: ragged.Bytes = field(default_factory=lambda: NO_STRINGS.blob)
    extras: tuple[bytes, ...] = ()

    @classmethod
    def of(
        cls, axes: int, refs: Mapping[tuple[int, ...], ChunkRef], id_size: int = 12
    ) -> "ChunkTable":
        """Build a table from single references."""
        tables = []
        kinds = set(map(type, refs.values()))
        for kind in kinds:
            same = refs
            if len(kinds) > 1:
                same = {place: ref for place, ref in refs.items() if type(ref) is kind}
            columns = _COLUMNS_OF[kind](list(same.values()), id_size)
            tables.append(cls(coordinates=_coordinates_of(axes, list(same)), **columns).sort())
        return concatenate(tables) if tables else cls.empty(axes, id_size)

    @classmethod
    def empty(cls, axes: int, id_size: int = 12) -> Self:
        """Return a table without references."""
        columns = _columns(0, ChunkKind.NATIVE, id_size)
        return cls(coordinates=np.empty((0, axes), np.uint32), **columns)

    def __len__(self) -> int:
        return len(self.kind)

    def __eq__(self, other: object) -> bool:
        """Compare references, regardless of text numbering and byte packing."""
        if not isinstance(other, ChunkTable):
            return NotImplemented
        return self.coordinates.shape == other.coordinates.shape and all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(_plain(self), _plain(other), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = {kind.name.lower(): int(np.sum(self.kind == kind)) for kind in ChunkKind}
        parts = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        return f"ChunkTable({self.axes} axes, {len(self)} references: {parts or 'none'})"

    @property
    def axes(self) -> int:
        """Return the number of axes of the array."""
        return int(self.coordinates.shape[1])

    @property
    def nbytes(self) -> int:
        """Return the memory used, in bytes; broadcast columns count as zero."""
        columns = (getattr(self, name) for name in _ROW_COLUMNS)
        held = sum(column.nbytes if 0 not in column.strides else 0 for column in columns)
        return held + self.locations.nbytes + self.etags.nbytes + self.inline.nbytes

    # Lookups

    def table(self) -> Self:
        """Return itself; encoded references of a manifest decode in the method of this name."""
        return self

    def with_axes(self, axes: int) -> Self:
        """Return itself for this number of axes; raise FormatError for references of another."""
        if self.axes == axes:
            return self
        if len(self):
            raise FormatError(f"manifest: references of {self.axes} axes in an array of {axes}")
        return self.empty(axes)

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """Return the reference of one chunk, or None, by binary search."""
        if len(wanted) != self.axes:
            return None
        row = coords_.find_row(self.coordinates, wanted)
        return None if row is None else self.ref(row)

    def locate(self, wanted: Coordinates) -> Rows:
        """Return the row of each wanted coordinate, or -1, vectorized."""
        return coords_.locate(self.coordinates, wanted)

    def ref(self, row: int) -> ChunkRef:
        """Return one row as a reference."""
        offset, length = int(self.offset[row]), int(self.length[row])
        if self.kind[row] == ChunkKind.NATIVE:
            return NativeRef(ChunkId(self.chunk_id[row].tobytes()), offset, length)
        if self.kind[row] == ChunkKind.INLINE:
            return InlineRef(self.inline[offset : offset + length].tobytes())
        checksum: Checksum | None = None
        if self.etag[row] >= 0:
            checksum = ETag(self.etags[self.etag[row]])
        elif self.last_modified[row]:
            checksum = LastModified(int(self.last_modified[row]))
        return VirtualRef(self.locations[self.location[row]], offset, length, checksum)

    def refs(self) -> dict[tuple[int, ...], ChunkRef]:
        """Return all rows as references, for display and small tables."""
        keys = map(tuple, self.coordinates.tolist())
        return {key: self.ref(row) for row, key in enumerate(keys)}

    def rows(self, axes: int) -> dict[tuple[int, ...], ChunkRef] | None:
        """Return the references by coordinate; None if one by one they can't be kept."""
        return None if self.extras or self.axes != axes else self.refs()

    def extents(self) -> Extents:
        """Return the smallest box that contains all coordinates; the table must not be empty."""
        return coords_.bounding_box(self.coordinates)

    def natives(self) -> NativeChunks:
        """Return the native chunks in row order."""
        is_native = self.kind == ChunkKind.NATIVE
        return NativeChunks(self.chunk_id[is_native], self.length[is_native])

    def distinct_chunk_ids(self) -> NDArray[np.uint8]:
        """Return the distinct ids of native chunks, sorted, as rows of bytes."""
        ids = self.chunk_id[self.kind == ChunkKind.NATIVE]
        size = ids.shape[1]
        items = np.unique(np.ascontiguousarray(ids).view(f"S{size}"))
        return items.view(np.uint8).reshape(-1, size)

    # Derived tables

    def take(self, rows: Rows | NDArray[np.bool_] | slice) -> Self:
        """Return the table of these rows, which must be ascending."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _ROW_COLUMNS})

    def select(self, extents: Extents) -> Self:
        """Return the references inside a box."""
        if len(self) and coords_.is_inside(self.extents(), extents):
            return self
        return self.take(coords_.rows_inside(self.coordinates, extents))

    def remove(self, unwanted: Coordinates) -> Self:
        """Return the table without the references at these coordinates."""
        keep = np.ones(len(self), np.bool_)
        rows = self.locate(unwanted)
        keep[rows[rows >= 0]] = False
        return self.take(keep)

    def merge(self, newer: "ChunkTable") -> "ChunkTable":
        """Return the references, overridden by newer ones."""
        if not len(newer):
            return self
        if not len(self):
            return newer
        return concatenate([self.remove(newer.coordinates), newer])

    def split(self, edges: Sequence[Sequence[int]]) -> dict[tuple[int, ...], Self]:
        """Split along edges (for each axis `0, s, 2s, …`) into non-empty split regions."""
        rows_of = coords_.split_rows(self.coordinates, edges)
        return {region: self.take(rows) for region, rows in rows_of.items()}

    def sort(self) -> "ChunkTable":
        """Sort by coordinates; of rows with equal coordinates the last one is kept."""
        if coords_.is_strictly_sorted(self.coordinates):
            return self
        order = coords_.sort_order(self.coordinates)
        ordered = self.coordinates[order]
        last = np.ones(len(order), np.bool_)
        last[:-1] = np.any(ordered[1:] != ordered[:-1], axis=1)
        return self.take(order[last])

    def compact(self) -> Self:
        """Drop texts and inline bytes that no row uses."""
        locations, location = _used(self.locations, self.location)
        etags, etag = _used(self.etags, self.etag)
        inline_rows = self.kind == ChunkKind.INLINE
        offset = self.offset
        inline = self.inline
        if inline.size:
            starts, lengths = offset[inline_rows].astype(np.int64), self.length[inline_rows]
            inline, where = ragged.pack(inline, starts, lengths.astype(np.int64))
            offset = offset.copy()
            offset[inline_rows] = where[:-1]
        return replace(
            self, locations=locations, location=location, etags=etags, etag=etag, inline=inline,
            offset=offset,
        )  # fmt: skip


_ROW_COLUMNS = (
    "coordinates", "kind", "offset", "length", "chunk_id", "location", "etag", "last_modified",
    "extra",
)  # fmt: skip
assert set(_ROW_COLUMNS) < {column.name for column in fields(ChunkTable)}


def concatenate(tables: Iterable[ChunkTable]) -> ChunkTable:
    """Concatenate tables and sort; of equal coordinates the one in the later table is kept."""
    tables = list(tables)
    if len(tables) == 1:
        return tables[0]
    locations, location_numbers = unite(table.locations for table in tables)
    etags, etag_numbers = unite(table.etags for table in tables)
    inline_starts = ragged.offsets_of(np.array([table.inline.size for table in tables], np.int64))
    extras: list[bytes] = []
    parts: list[dict[str, NDArray[Any]]] = []
    for number, table in enumerate(tables):
        columns = {name: getattr(table, name) for name in _ROW_COLUMNS}
        columns["location"] = _renumber(table.location, location_numbers[number])
        columns["etag"] = _renumber(table.etag, etag_numbers[number])
        if inline_starts[number]:
            shift = np.where(table.kind == ChunkKind.INLINE, inline_starts[number], 0)
            columns["offset"] = table.offset + shift.astype(np.uint64)
        if extras and table.extras:
            columns["extra"] = np.where(table.extra >= 0, table.extra + len(extras), -1)
        extras += table.extras
        parts.append(columns)
    joined: dict[str, Any] = {name: _join([part[name] for part in parts]) for name in _ROW_COLUMNS}
    return ChunkTable(
        **joined,
        locations=locations,
        etags=etags,
        inline=np.concatenate([table.inline for table in tables]),
        extras=tuple(extras),
    ).sort()


def _join(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate columns; equal broadcast columns stay a broadcast."""
    first = columns[0]
    if all(column.strides[0] == 0 and len(column) for column in columns):
        value = first[0]
        if all(np.array_equal(column[0], value) for column in columns):
            count = sum(len(column) for column in columns)
            return np.broadcast_to(value, (count, *first.shape[1:]))
    return np.concatenate(columns)


def _renumber(codes: NDArray[np.int32], numbers: ragged.Integers) -> NDArray[np.int32]:
    if codes.strides[0] == 0 and len(codes) and codes[0] < 0:
        return codes
    # A last number represents -1, "no text", which indexes from the end.
    return np.append(numbers, -1).astype(np.int32)[codes]


def _used(texts: Strings, codes: NDArray[np.int32]) -> tuple[Strings, NDArray[np.int32]]:
    used = np.zeros(len(texts), np.bool_)
    used[codes[codes >= 0]] = True
    if used.all():
        return texts, codes
    numbers = np.full(len(texts), -1, np.int64)
    numbers[used] = np.arange(np.sum(used))
    return texts.take(np.flatnonzero(used)), _renumber(codes, numbers)


def _plain(table: ChunkTable) -> list[NDArray[Any]]:
    """Return columns that are equal if and only if the references are equal."""
    texts = [np.array([*strings, None], object)[codes] for strings, codes in
             ((table.locations, table.location), (table.etags, table.etag))]  # fmt: skip
    extra = np.array([*table.extras, None], object)[table.extra]
    inline_rows = table.kind == ChunkKind.INLINE
    lengths = table.length[inline_rows].astype(np.int64)
    inline, _ = ragged.pack(table.inline, table.offset[inline_rows].astype(np.int64), lengths)
    offset = np.where(inline_rows, 0, table.offset)
    return [
        table.coordinates, table.kind, offset, table.length, table.chunk_id, table.last_modified,
        *texts, extra, inline,
    ]  # fmt: skip


def _number(texts: list[str | None]) -> tuple[Strings, NDArray[np.int32]]:
    number_of: dict[str, int] = {}
    codes = [-1 if t is None else number_of.setdefault(t, len(number_of)) for t in texts]
    return Strings.of(number_of), np.array(codes, np.int32)


def _coordinates_of(axes: int, places: list[tuple[int, ...]]) -> Coordinates:
    count = len(places)
    if set(map(len, places)) - {axes}:
        raise ValueError(f"a coordinate has not {axes} axes")
    return np.fromiter(chain.from_iterable(places), np.uint32, count * axes).reshape(count, axes)


def _columns(count: int, kind: ChunkKind, id_size: int) -> dict[str, Any]:
    """Return the columns of references of one kind, with default values."""
    return {
        "kind": constant_column(kind, count, np.uint8),
        "offset": constant_column(0, count, np.uint64),
        "length": constant_column(0, count, np.uint64),
        "chunk_id": no_chunk_ids(count, id_size),
        "location": constant_column(-1, count, np.int32),
        "etag": constant_column(-1, count, np.int32),
        "last_modified": constant_column(0, count, np.uint32),
        "extra": constant_column(-1, count, np.int32),
    }


def _numbers(refs: list[Any], name: str) -> NDArray[np.uint64]:
    return np.fromiter(map(attrgetter(name), refs), np.uint64, len(refs))


def _inline_columns(refs: list[InlineRef], id_size: int) -> dict[str, Any]:
    datas = [ref.data for ref in refs]
    where = ragged.offsets_of(np.fromiter(map(len, datas), np.int64, len(datas)))
    return _columns(len(refs), ChunkKind.INLINE, id_size) | {
        "offset": where[:-1].astype(np.uint64),
        "length": np.diff(where).astype(np.uint64),
        "inline": np.frombuffer(b"".join(datas), np.uint8),
    }


def _native_columns(refs: list[NativeRef], id_size: int) -> dict[str, Any]:
    ids = np.frombuffer(b"".join([ref.chunk_id for ref in refs]), np.uint8)
    return _columns(len(refs), ChunkKind.NATIVE, id_size) | {
        "offset": _numbers(refs, "offset"),
        "length": _numbers(refs, "length"),
        "chunk_id": ids.reshape(len(refs), id_size),
    }


def _virtual_columns(refs: list[VirtualRef], id_size: int) -> dict[str, Any]:
    locations, location = _number([ref.location for ref in refs])
    etags, etag = _number([_etag(ref) for ref in refs])
    return _columns(len(refs), ChunkKind.VIRTUAL, id_size) | {
        "offset": _numbers(refs, "offset"),
        "length": _numbers(refs, "length"),
        "location": location,
        "locations": locations,
        "etag": etag,
        "etags": etags,
        "last_modified": np.fromiter(map(_last_modified, refs), np.uint32, len(refs)),
    }


def _etag(ref: VirtualRef) -> str | None:
    return ref.checksum.value if isinstance(ref.checksum, ETag) else None


def _last_modified(ref: VirtualRef) -> int:
    return ref.checksum.seconds if isinstance(ref.checksum, LastModified) else 0


_COLUMNS_OF: dict[type[ChunkRef], Callable[[list[Any], int], dict[str, Any]]] = {
    InlineRef: _inline_columns,
    NativeRef: _native_columns,
    VirtualRef: _virtual_columns,
}


FEW = 256
"""Number of references up to which they are kept one by one."""


class ChunkRows:
    """References of one array, few of them: one by one, sorted by coordinate."""

    __slots__ = ("axes", "refs")

    def __init__(self, axes: int, refs: Mapping[tuple[int, ...], ChunkRef]) -> None:
        self.axes = axes
        self.refs = dict(sorted(refs.items()))

    def __len__(self) -> int:
        return len(self.refs)

    def __eq__(self, other: object) -> bool:
        table = getattr(other, "table", None)
        return bool(table is not None and self.table() == table())

    __hash__ = None  # type: ignore[assignment]

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """Return the reference of one chunk, or None."""
        return self.refs.get(tuple(wanted))

    def rows(self, axes: int) -> dict[tuple[int, ...], ChunkRef] | None:
        """Return the references by coordinate; None if they are not of this number of axes."""
        return self.refs if self.axes == axes else None

    def table(self) -> ChunkTable:
        """Return the references as columns."""
        return ChunkTable.of(self.axes, self.refs)

    def with_axes(self, axes: int) -> ChunkTable:
        """Return the references as columns, for an array with this number of axes."""
        return self.table().with_axes(axes)

    def natives(self) -> NativeChunks:
        """Return the native chunks in row order."""
        return self.table().natives()

    def extents(self) -> Extents:
        """Return the smallest box that contains all coordinates; there must be at least one."""
        return tuple([(min(column), max(column) + 1) for column in zip(*self.refs, strict=True)])


class ChunkIndex:
    """Index over a non-empty table."""

    __slots__ = (
        "_box", "_chunk_ids", "_id_size", "_is_dense", "_keys", "_lengths", "_offsets", "_table",
    )  # fmt: skip

    def __init__(self, table: ChunkTable) -> None:
        self._table = table
        extents = table.extents()
        strides = _strides([stop - start for start, stop in extents])
        self._box = [
            (start, stop, stride) for (start, stop), stride in zip(extents, strides, strict=True)
        ]
        cells = strides[0] * (extents[0][1] - extents[0][0]) if extents else 1
        self._is_dense = cells == len(table)
        self._keys = memoryview(b"" if self._is_dense else _keys(table, self._box))
        only_native = bool(np.all(table.kind == ChunkKind.NATIVE))
        self._chunk_ids = np.ascontiguousarray(table.chunk_id).tobytes() if only_native else b""
        self._id_size = table.chunk_id.shape[1]
        # Columns may be unaligned in a file's bytes, and a memoryview reads only aligned, contiguous
        # numbers.
        self._offsets = memoryview(np.require(table.offset, np.uint64, ["C", "A"]))
        self._lengths = memoryview(np.require(table.length, np.uint64, ["C", "A"]))

    def __len__(self) -> int:
        return len(self._table)

    @staticmethod
    def can_hold(table: ChunkTable) -> bool:
        """Return whether the coordinates in the table's box can be numbered in 63 bits."""
        if not len(table):
            return False
        cells = 1
        for start, stop in table.extents():
            cells *= stop - start
        return cells < 2**63

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """Return the reference of one chunk, or None."""
        if len(wanted) != len(self._box):
            return None
        row = 0
        for index, (start, stop, stride) in zip(wanted, self._box, strict=True):
            if not start <= index < stop:
                return None
            row += (index - start) * stride
        if not self._is_dense:
            key, row = row, bisect_left(self._keys, row)
            if row == len(self._keys) or self._keys[row] != key:
                return None
        if not self._chunk_ids:
            return self._table.ref(row)
        at = row * self._id_size
        chunk_id = ChunkId(self._chunk_ids[at : at + self._id_size])
        return NativeRef(chunk_id, self._offsets[row], self._lengths[row])


def _strides(sizes: Sequence[int]) -> list[int]:
    """Return the stride of each axis in row-major order."""
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return strides


def _keys(
    table: ChunkTable, box: Sequence[tuple[int, int, int]]
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    keys = np.zeros(len(table), np.int64)
    for axis, (start, _, stride) in enumerate(box):
        keys += (table.coordinates[:, axis].astype(np.int64) - start) * stride
    return keys


_WORTH = 256
"""Factor by which searching for one reference is slower than decoding it with all others."""


LARGEST_LOCATION = 1024
"""Maximum bytes of a location that is compressed."""


@dataclass(frozen=True, slots=True)
class LocationCompression:
    """Options of location compression; the defaults are Icechunk's."""

    min_num_chunks: int = 1000
    """Minimum number of virtual chunks, and of distinct locations, for compression in a manifest."""
    dictionary_max_training_samples: int = 100
    dictionary_max_size_bytes: int = 2048
    compression_level: int = 3


class ChunkRefs(Protocol):
    """References of one array: in columns, one by one, or encoded and decoded on demand."""

    def __len__(self) -> int: ...

    def find(self, wanted: Sequence[int], /) -> ChunkRef | None:
        """Return the reference of one chunk, in O(log n)."""

    def rows(self, axes: int) -> Mapping[tuple[int, ...], ChunkRef] | None:
        """Return the references by coordinate; None if one by one they can't be kept."""

    def table(self) -> ChunkTable:
        """Return all references as columns."""

    def with_axes(self, axes: int) -> ChunkTable:
        """Return all references as columns, for an array with this number of axes."""

    def natives(self) -> NativeChunks:
        """Return the native chunks in any order, even if other references are damaged."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Chunk references by node id."""

    id: ManifestId | None
    """Manifest id; None if the generation stores it only in the file name (draft, first alphas)."""
    arrays: Mapping[NodeId, ChunkRefs] = field(default_factory=dict)
    extra: bytes | None = None
    array_extras: Mapping[NodeId, bytes] = field(default_factory=dict)
    _asked: dict[NodeId, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _indexes: dict[NodeId, ChunkIndex | ChunkRows] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def find(self, node_id: NodeId, wanted: Sequence[int]) -> ChunkRef | None:
        """Return the reference of one chunk of an array, or None; after many lookups by an index."""
        index = self._indexes.get(node_id)
        if type(index) is ChunkRows:  # one call less, because small manifests are read most
            return index.refs.get(tuple(wanted))
        if index is not None:
            return index.find(wanted)
        refs = self.arrays.get(node_id)
        if refs is None:
            return None
        asked = self._asked[node_id] = self._asked.get(node_id, 0) + 1
        if asked * _WORTH < len(refs):
            return refs.find(wanted)
        # References of several numbers of axes, as old files may have, need an index each.
        rows = self.rows(node_id, len(wanted))
        if rows is not None:
            few = ChunkRows(len(wanted), rows)
            if len(rows) == len(refs):
                self._indexes[node_id] = few
            return few.find(wanted)
        table = refs.with_axes(len(wanted))
        if len(table) == len(refs) and ChunkIndex.can_hold(table):
            self._indexes[node_id] = ChunkIndex(table)
        return table.find(wanted)

    def rows(self, node_id: NodeId, axes: int) -> Mapping[tuple[int, ...], ChunkRef] | None:
        """Return the references of an array by coordinate; None if there are many."""
        refs = self.arrays.get(node_id)
        if type(refs) is ChunkRows and refs.axes == axes:
            return refs.refs
        if refs is None:
            return {}
        return None if len(refs) > FEW else refs.rows(axes)

    def table(self, node_id: NodeId, axes: int) -> ChunkTable:
        """Return the references of an array with this number of axes; empty if there are none."""
        refs = self.arrays.get(node_id)
        return ChunkTable.empty(axes) if refs is None else refs.with_axes(axes)

    def tables(self) -> dict[NodeId, ChunkTable]:
        """Return all references, decoded."""
        return {node_id: refs.table() for node_id, refs in self.arrays.items()}

    def __len__(self) -> int:
        return sum(map(len, self.arrays.values()))
