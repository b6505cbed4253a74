"""Set and list virtual references, one at a time or in bulk."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from frazil.errors import InvalidChunksError, InvalidInputError, InvalidTypeError, SessionStateError
from frazil.format import coordinates as coords_
from frazil.format.coordinates import Coordinates
from frazil.format.ids import ALPHABET
from frazil.format.manifest import (
    Checksum,
    ChunkKind,
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    NativeRef,
    VirtualRef,
    constant_column,
    no_chunk_ids,
)
from frazil.format.metadata import from_datetime
from frazil.format.ragged import NO_STRINGS, Strings
from frazil.format.snapshot import ArrayData
from frazil.lazy import dataclass
from frazil.repository.context import SessionState
from frazil.repository.store_io import refuse_place, set_ref
from frazil.repository.zarr_keys import ChunkKey, Coordinate, parse_key
from frazil.storage.store_config import ChunkType
from frazil.virtual.containers import (
    ContainerIndex,
    VirtualChunkSpec,
    index_containers,
    normalize_location,
)

ChecksumArgument = str | datetime | None
"""ETag, or time of the last modification."""

_MOST_SECONDS = 2**32 - 1


def parse_checksum(checksum: ChecksumArgument) -> Checksum | None:
    """Parse a checksum given by the user; raises InvalidTypeError for a time without a time zone."""
    if isinstance(checksum, str):
        return ETag(checksum)
    if checksum is None:
        return None
    if checksum.tzinfo is None:
        raise InvalidTypeError(
            "invalid time of the last modification: it has no time zone, give one such as tzinfo=UTC"
        )
    return LastModified(from_datetime(checksum) // 10**9)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Dictionary-encoded column of strings; code -1 is null."""

    codes: NDArray[np.int32]
    texts: Sequence[str]

    @classmethod
    def of(cls, values: Any) -> Self:
        """Create a column from a list, a NumPy or Arrow array, or a pair of codes and strings."""
        if isinstance(values, cls):
            return values
        if hasattr(values, "combine_chunks"):
            values = values.combine_chunks()
        if hasattr(values, "dictionary_encode"):
            return cls._of_arrow(values)
        if isinstance(values, tuple) and len(values) == 2 and isinstance(values[0], np.ndarray):
            return cls(*values)._checked()
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InvalidTypeError(
                f"invalid texts {values!r}: expected a list, or a column of Arrow"
            )
        return cls._of_texts(values if isinstance(values, Sequence) else list(values))

    @classmethod
    def _of_texts(cls, values: Sequence[str | None]) -> Self:
        column = np.empty(len(values), object)
        column[:] = values
        # Chunks of one file are adjacent, so strings repeat: only the first of each run is encoded.
        is_head = np.ones(len(column), np.bool_)
        is_head[1:] = column[1:] != column[:-1]
        numbers: dict[str | None, int] = {None: -1}
        heads = [numbers.setdefault(each, len(numbers) - 1) for each in column[is_head].tolist()]
        codes = np.array(heads, np.int32)[np.cumsum(is_head) - 1]
        del numbers[None]
        return cls(codes, [str(each) for each in numbers])

    @classmethod
    def _of_arrow(cls, values: Any) -> Self:
        encoded = values if hasattr(values, "dictionary") else values.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return cls(codes.astype(np.int32, copy=False), encoded.dictionary.to_pylist())._checked()

    def _checked(self) -> Self:
        if len(self.codes) and not -1 <= self.codes.min() <= self.codes.max() < len(self.texts):
            raise InvalidInputError(f"a code is none of the {len(self.texts)} texts")
        return type(self)(np.asarray(self.codes, np.int32), self.texts)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any]) -> Self:
        """Return some rows."""
        return type(self)(self.codes[rows], self.texts)


@dataclass(frozen=True, slots=True)
class ChecksumColumn:
    """Column of checksums, in the layout of a chunk table."""

    etag: NDArray[np.int32]
    last_modified: NDArray[np.uint32]
    etags: Strings = field(default_factory=lambda: NO_STRINGS)

    @classmethod
    def of(cls, values: Any, count: int) -> Self:
        """Create a column from one checksum for all rows, or from ETags or times by row."""
        if isinstance(values, cls):
            return values
        if values is None or isinstance(values, str | datetime):
            return cls.constant(parse_checksum(values), count)
        if hasattr(values, "combine_chunks"):
            values = values.combine_chunks()
        seconds = _seconds(values)
        if seconds is not None:
            return cls(constant_column(-1, len(seconds), np.int32), seconds)
        texts = TextColumn.of(values)
        return cls(texts.codes, constant_column(0, len(texts), np.uint32), Strings.of(texts.texts))

    @classmethod
    def constant(cls, checksum: Checksum | None, count: int) -> Self:
        """Create a column with the same checksum in all rows."""
        etags = Strings.of([checksum.value]) if isinstance(checksum, ETag) else NO_STRINGS
        seconds = checksum.seconds if isinstance(checksum, LastModified) else 0
        return cls(
            constant_column(len(etags) - 1, count, np.int32),
            constant_column(seconds, count, np.uint32),
            etags,
        )

    def __len__(self) -> int:
        return len(self.etag)

    @property
    def is_empty(self) -> bool:
        """Return True if no row has a checksum."""
        return not np.any(self.etag >= 0) and not np.any(self.last_modified)

    def take(self, rows: NDArray[Any]) -> Self:
        """Return some rows."""
        return type(self)(self.etag[rows], self.last_modified[rows], self.etags)


def _seconds(values: Any) -> NDArray[np.uint32] | None:
    """Convert times to seconds since 1970; None if the column has no times."""
    if hasattr(values, "to_numpy") and "timestamp" in str(getattr(values, "type", "")):
        values = values.to_numpy(zero_copy_only=False)
    elif not isinstance(values, np.ndarray):
        values = list(values)
        if not any(isinstance(each, datetime) for each in values):
            return None
        values = np.array([_seconds_of(each) for each in values], "datetime64[s]")
    if not np.issubdtype(values.dtype, np.datetime64):
        return None
    # A missing time (NaT) means no checksum.
    seconds = np.where(np.isnat(values), 0, values.astype("datetime64[s]").astype(np.int64))
    if np.any((seconds < 0) | (seconds > _MOST_SECONDS)):
        raise InvalidInputError(
            "a time of the last modification is before 1970 or after 2106",
            kind="invalid-virtual-ref",
        )
    return seconds.astype(np.uint32)


def _seconds_of(moment: datetime | None) -> np.datetime64:
    checksum = parse_checksum(moment)
    if isinstance(checksum, LastModified):
        return np.datetime64(checksum.seconds, "s")
    return np.datetime64("NaT", "s")


Places = NDArray[np.integer[Any]]
"""Unvalidated coordinates of chunks, one row per chunk."""

_SHOWN = 5
"""Maximum number of coordinates in a message; the error has all of them."""


def set_virtual_ref(
    state: SessionState, key: str, ref: VirtualRef, *, validate_container: bool
) -> None:
    """Set the virtual reference of a chunk; its location must be normalized."""
    match parse_key(key):
        case ChunkKey(path, coordinate):
            pass
        case _:
            raise SessionStateError(f"{key!r} is not a chunk key", kind="not-allowed")
    location = ref.location
    _refuse_dialect(state, has_checksums=ref.checksum is not None)
    if validate_container:
        state.context.virtual.index.find_container(location)
    refuse_place(state, path, coordinate, ref.length)
    set_ref(state, path, coordinate, ref)


def set_specs(
    state: SessionState, path: str, specs: Sequence[VirtualChunkSpec], *, validate_containers: bool
) -> list[Coordinate] | None:
    """Set many virtual references; skip and return those whose location is in no container."""
    state.refuse_unless_writable()
    for spec in specs:
        if not isinstance(spec, VirtualChunkSpec):
            raise InvalidTypeError(f"invalid chunk {spec!r}: expected a VirtualChunkSpec")
    texts = {spec.location: normalize_location(spec.location) for spec in specs}
    _, array = state.view.get_array(path)
    for spec in specs:
        if len(spec.index) != len(array.shape):
            raise _no_place(path, array, [tuple(spec.index)])
    held = {each for each in texts if not validate_containers or _has_container(state, texts[each])}
    chosen = [spec for spec in specs if spec.location in held]
    last = {tuple(spec.index): spec for spec in chosen}
    kept = list(last.values())
    if len(kept) < len(chosen):
        # Duplicates that are replaced by a later reference must be valid, too.
        lengths = np.array([each.length for each in chosen], np.uint64)
        _refuse_places(path, array, _places_of(chosen, array), lengths)
    set_columns(
        state,
        path,
        _places_of(kept, array),
        TextColumn.of([each.location for each in kept]),
        np.array([each.offset for each in kept], np.uint64),
        np.array([each.length for each in kept], np.uint64),
        _checksums_of(kept),
        validate_containers=False,
    )
    return [tuple(spec.index) for spec in specs if spec.location not in held] or None


def _places_of(specs: Sequence[VirtualChunkSpec], array: ArrayData) -> Places:
    return np.array([each.index for each in specs], np.int64).reshape(len(specs), len(array.shape))


def _checksums_of(specs: Sequence[VirtualChunkSpec]) -> ChecksumColumn:
    """Return the checksums of some chunks; an ETag takes precedence over a time."""
    etags = ChecksumColumn.of([each.etag_checksum for each in specs], len(specs))
    times = [None if e.etag_checksum else e.last_updated_at_checksum for e in specs]
    if not any(times):
        return etags
    return replace(etags, last_modified=ChecksumColumn.of(times, len(specs)).last_modified)


def set_columns(
    state: SessionState,
    path: str,
    coordinates: Places,
    locations: TextColumn,
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    checksums: ChecksumColumn,
    *,
    validate_containers: bool,
) -> list[Coordinate]:
    """Set virtual references from columns; skip and return those whose location is in no container.

    A row without a location, or with an empty one, is ignored.
    """
    state.refuse_unless_writable()
    normal = _normalize(locations)
    is_given = _rows_where(map(bool, normal.texts), normal)
    is_held = is_given
    if validate_containers:
        is_held = _rows_where((_has_container(state, each) for each in normal.texts), normal)
    _set_rows(state, path, coordinates, normal, offsets, lengths, checksums, is_held)
    return list(map(tuple, coordinates[is_given & ~is_held].tolist()))


def _normalize(locations: TextColumn) -> TextColumn:
    return replace(locations, texts=[each and normalize_location(each) for each in locations.texts])


def _rows_where(flags: Iterable[bool], column: TextColumn) -> NDArray[np.bool_]:
    """Return the flag of each row's string; False for null."""
    # Code -1 indexes the last entry.
    return np.array([*flags, False], np.bool_)[column.codes]


def _set_rows(
    state: SessionState,
    path: str,
    coordinates: Places,
    locations: TextColumn,
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    checksums: ChecksumColumn,
    is_kept: NDArray[np.bool_],
) -> None:
    """Set the references of the kept rows; locations must be normalized."""
    _refuse_dialect(state, has_checksums=not checksums.is_empty)
    node, array = state.view.get_array(path)
    kept: Any = slice(None) if np.all(is_kept) else is_kept
    places = _refuse_places(path, array, coordinates[kept], lengths[kept])
    table = make_table(
        places,
        replace(locations, codes=locations.codes[kept]),
        offsets[kept],
        lengths[kept],
        checksums.take(kept),
        state.changes.id_size,
    )
    if len(table) < len(places):
        raise _twins(path, places)
    if len(table):
        with state.lock:
            state.refuse_unless_writable()
            current, _ = state.view.get_array(node.path)
            state.changes.edit_chunks(current).set_table(table)


def make_table(
    places: Coordinates,
    locations: TextColumn,
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    checksums: ChecksumColumn,
    id_size: int,
) -> ChunkTable:
    """Build a table from valid rows; duplicate coordinates are merged into one row."""
    return ChunkTable(
        coordinates=places,
        kind=constant_column(ChunkKind.VIRTUAL, len(places), np.uint8),
        offset=np.ascontiguousarray(offsets, np.uint64),
        length=np.ascontiguousarray(lengths, np.uint64),
        chunk_id=no_chunk_ids(len(places), id_size),
        location=locations.codes,
        etag=checksums.etag,
        last_modified=checksums.last_modified,
        extra=constant_column(-1, len(places), np.int32),
        locations=Strings.of(locations.texts),
        etags=checksums.etags,
    ).sort()


def set_all_columns(
    state: SessionState,
    path: str,
    coordinates: ArrayLike,
    locations: TextColumn,
    offsets: ArrayLike,
    lengths: ArrayLike,
    checksums: object,
    *,
    validate_containers: bool,
) -> None:
    """Set virtual references from columns, all or none; raises InvalidChunksError for invalid rows."""
    state.refuse_unless_writable()
    count = len(locations)
    _, array = state.view.get_array(path)
    places = _numbers(coordinates, "a coordinate")
    if not array.shape:
        places = np.empty((count, 0), np.uint32)
    elif places.ndim != 2:
        axes = len(array.shape)
        if places.size % axes:
            raise InvalidInputError(f"{places.size} numbers are no coordinates of {axes} axes")
        places = places.reshape(-1, axes)
    starts, sizes = unsigned_column(offsets, "an offset"), unsigned_column(lengths, "a length")
    checks = ChecksumColumn.of(checksums, count)
    if {count} != {len(places), len(starts), len(sizes), len(checks)}:
        raise InvalidInputError(
            f"{count} locations do not go with {len(places)} coordinates, {len(starts)} offsets, "
            f"{len(sizes)} lengths and {len(checks)} checksums"
        )
    normal = _normalize(locations)
    is_given = _rows_where(map(bool, normal.texts), normal)
    if validate_containers:
        _refuse_homeless(state, path, places, normal, is_given)
    _set_rows(state, path, places, normal, starts, sizes, checks, is_given)


def unsigned_column(values: ArrayLike, what: str) -> NDArray[np.uint64]:
    """Convert offsets or lengths to a column; raises InvalidInputError for invalid values."""
    column = _numbers(values, what)
    if column.size and column.min() < 0:
        raise InvalidInputError(f"{what} is negative")
    return column.astype(np.uint64, copy=False)


def _numbers(values: ArrayLike, what: str) -> NDArray[Any]:
    """Convert integers to a column; raises InvalidInputError for other types."""
    try:
        column = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"invalid {what}: expected integers ({error})") from error
    if column.size and column.dtype.kind not in "iu":
        raise InvalidInputError(f"invalid {what} of type {column.dtype}: expected integers")
    return column


def _twins(path: str, places: Coordinates) -> InvalidChunksError:
    distinct, counts = np.unique(places, axis=0, return_counts=True)
    twins = distinct[counts > 1].tolist()
    return InvalidChunksError(
        f"chunks of {path!r} are given more than once: {_show(twins)}",
        coordinates=twins,
        kind="invalid-virtual-ref",
    )


def _refuse_homeless(
    state: SessionState,
    path: str,
    places: Places,
    locations: TextColumn,
    is_given: NDArray[np.bool_],
) -> None:
    """Refuse chunks whose location is in no container."""
    texts = locations.texts
    held = [_has_container(state, each) for each in texts]
    homeless = places[is_given & ~_rows_where(held, locations)].tolist()
    if homeless:
        shown = next(text for text, has in zip(texts, held, strict=True) if text and not has)
        raise InvalidChunksError(
            f"invalid chunk location, no matching virtual chunk container: {shown!r}, where chunks"
            f" of {path!r} are to be: {_show(homeless)}; add one with "
            "RepositoryConfig.set_virtual_chunk_container",
            coordinates=homeless,
            kind="no-container-for-virtual-chunk",
        )


def grid_coordinates(grid: Sequence[int], offset: Sequence[int] | None, count: int) -> Places:
    """Return the coordinates of a whole grid in C order, shifted by an offset."""
    cells = int(np.prod(_numbers(grid, "an extent of the chunk grid"), dtype=np.int64))
    if cells != count:
        raise InvalidInputError(
            f"a chunk grid of {cells} chunks does not go with {count} locations"
        )
    if offset is not None and len(offset) != len(grid):
        raise InvalidInputError(
            f"an offset of {len(offset)} axes does not go with a grid of {len(grid)}"
        )
    starts = [0] * len(grid) if offset is None else offset
    places = coords_.grid_of(tuple((0, count) for count in grid))
    # Signed, so that later validation sees negative coordinates.
    return places + np.array(starts, np.int64) if any(starts) else places


def _has_container(state: SessionState, normal: str) -> bool:
    return bool(normal) and state.context.virtual.index.has_container(normal)


def _refuse_places(
    path: str, array: ArrayData, coordinates: Places, lengths: NDArray[np.uint64]
) -> Coordinates:
    """Refuse chunks that are empty or outside the grid; return coordinates as in a chunk table."""
    grid = np.array([each.num_chunks for each in array.shape], np.int64)
    if coordinates.shape[1:] != grid.shape:
        raise _no_place(path, array, coordinates.tolist())
    whole = tuple((0, count) for count in grid.tolist())
    if len(coordinates) and not coords_.is_inside(coords_.bounding_box(coordinates), whole):
        is_outside = np.any((coordinates < 0) | (coordinates >= grid), axis=1)
        raise _no_place(path, array, coordinates[is_outside].tolist())
    is_empty = lengths == 0
    if np.any(is_empty):
        found = coordinates[is_empty].tolist()
        raise InvalidChunksError(
            f"chunks of {path!r} have no bytes: {_show(found)}",
            coordinates=found,
            kind="zero-length-chunk",
        )
    return np.ascontiguousarray(coordinates, np.uint32)


def _no_place(path: str, array: ArrayData, places: Sequence[Sequence[int]]) -> InvalidChunksError:
    grid = [each.num_chunks for each in array.shape]
    return InvalidChunksError(
        f"{path!r} has {grid} chunks, and so no chunk {_show(places)}",
        coordinates=places,
        kind="invalid-chunk-index",
    )


def _show(places: Sequence[Sequence[int]]) -> str:
    shown = ", ".join(str(list(each)) for each in places[:_SHOWN])
    more = len(places) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _refuse_dialect(state: SessionState, *, has_checksums: bool) -> None:
    dialect = state.context.dialect
    if has_checksums and not dialect.has_checksums:
        raise InvalidInputError(
            f"the generation {dialect.value} has no checksums of virtual chunks: leave them out",
            kind="invalid-virtual-ref",
        )


ChunkBatch = tuple[
    Coordinates,
    NDArray[np.uint8],
    list[str],
    NDArray[np.uint64],
    NDArray[np.uint64],
    dict[int, bytes],
]
"""Coordinates, kinds, locations (a URL, a chunk id, or empty), offsets, lengths, and the data of
inline chunks by row.
"""

_RELATIVE = "vcc://"
_LETTERS = np.frombuffer(ALPHABET.encode(), np.uint8)


def chunk_batches(state: SessionState, path: str, batch_size: int) -> Iterator[ChunkBatch]:
    """Yield the chunks of an array, by manifest, in batches; none if there is no array."""
    node = state.view.find_node(path)
    if node is None or node.array is None:
        return
    for table in state.view.tables(node):
        locations = _absolute_locations(state, table)
        for start in range(0, len(table), batch_size):
            yield _batch(table.take(slice(start, start + batch_size)), locations)


def all_virtual_chunk_locations(state: SessionState) -> list[str]:
    """Return the absolute URLs of all virtual chunks, one per chunk."""
    found: list[str] = []
    for node in state.view.nodes():
        if node.array is not None:
            for table in state.view.tables(node):
                codes = table.location[table.kind == ChunkKind.VIRTUAL]
                found += _absolute_locations(state, table)[codes].tolist()
    return found


def chunk_type(state: SessionState, path: str, coordinate: Coordinate) -> ChunkType:
    """Return how a chunk is stored; raises NodeNotFoundError, or InvalidInputError for a group."""
    node, _ = state.view.get_array(path)
    match state.view.find_chunk(node, coordinate):
        case None:
            return ChunkType.uninitialized
        case NativeRef():
            return ChunkType.native
        case InlineRef():
            return ChunkType.inline
    return ChunkType.virtual


def _batch(table: ChunkTable, locations: NDArray[np.object_]) -> ChunkBatch:
    places = np.full(len(table), "", object)
    virtual, native = table.kind == ChunkKind.VIRTUAL, table.kind == ChunkKind.NATIVE
    places[virtual] = locations[table.location[virtual]]
    places[native] = spell_ids(table.chunk_id[native])
    inline = np.flatnonzero(table.kind == ChunkKind.INLINE).tolist()
    offsets = np.where(table.kind == ChunkKind.INLINE, np.uint64(0), table.offset)
    return (
        np.ascontiguousarray(table.coordinates),
        np.ascontiguousarray(table.kind),
        places.tolist(),
        offsets,
        np.ascontiguousarray(table.length),
        {row: _inline_bytes(table, row) for row in inline},
    )


def _inline_bytes(table: ChunkTable, row: int) -> bytes:
    start = int(table.offset[row])
    return table.inline[start : start + int(table.length[row])].tobytes()


def _absolute_locations(state: SessionState, table: ChunkTable) -> NDArray[np.object_]:
    """Return the absolute URLs of a table's distinct locations, by code."""
    index = index_containers(state.context.virtual.containers)
    texts = [_absolute_location(index, text) for text in table.locations]
    return np.array([*texts, ""], object)[:-1]


def _absolute_location(index: ContainerIndex, location: str) -> str:
    """Return a location for display: the container's URL replaces its name, nothing is normalized."""
    if not location.startswith(_RELATIVE):
        return location
    name, _, path = location.removeprefix(_RELATIVE).partition("/")
    container = index.named.get(name)
    return index.absolute_location(location) if container is None else container.url_prefix + path


def spell_ids(ids: NDArray[np.uint8]) -> list[str]:
    """Return the base32 form of ids given as rows of bytes, equal to `str` of each id."""
    count, size = ids.shape
    length = (size * 8 + 4) // 5
    bits = np.zeros((count, length * 5), np.uint8)
    bits[:, : size * 8] = np.unpackbits(np.ascontiguousarray(ids), axis=1)
    digits = np.packbits(bits.reshape(count, length, 5), axis=2)[:, :, 0] >> 3
    spelled: list[bytes] = _LETTERS[digits].view(f"S{length}").ravel().tolist()
    return [each.decode() for each in spelled]
