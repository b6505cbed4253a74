"""References to chunks in files outside of the repository, set one at a time or in bulk.

Each distinct location is looked at once, however many chunks are in it. References are columns all
the way to the manifest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from frazil.engine.keys import ChunkKey, Coordinate, parse_key
from frazil.engine.state import SessionState
from frazil.engine.virtual_columns import ChecksumColumn, TextColumn
from frazil.engine.writing import refuse_place, set_ref
from frazil.errors import (
    InvalidChunksError,
    InvalidInputError,
    InvalidTypeError,
    SessionStateError,
)
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable, constant_column, no_chunk_ids
from frazil.format.coordinates import Coordinates
from frazil.format.dialect import Dialect
from frazil.format.references import ChunkKind, VirtualRef
from frazil.format.snapshot import ArrayData
from frazil.format.strings import Strings
from frazil.virtual.locations import normalize_location
from frazil.virtual.specs import VirtualChunkSpec

Places = NDArray[np.integer[Any]]
"""Coordinates of chunks as callers give them: a row a chunk, not yet looked at."""

_WITHOUT_CHECKSUMS = frozenset({Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B})
_SHOWN = 5
"""So many coordinates are in a message; the error has all of them."""


def set_virtual_ref(
    state: SessionState, key: str, ref: VirtualRef, *, validate_container: bool
) -> None:
    """Set where a chunk is; its location is normalized already."""
    match parse_key(key):
        case ChunkKey(path, coordinate):
            pass
        case _:
            raise SessionStateError(f"{key!r} is no key of a chunk", kind="not-allowed")
    location = ref.location
    _refuse_dialect(state, has_checksums=ref.checksum is not None)
    if validate_container:
        state.surroundings.virtual.index.find_container(location)
    refuse_place(state, path, coordinate, ref.length)
    set_ref(state, path, coordinate, ref)


def set_specs(
    state: SessionState, path: str, specs: Sequence[VirtualChunkSpec], *, validate_containers: bool
) -> list[Coordinate] | None:
    """Set many references; gives those whose location no container holds, which are not set."""
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
        # Also what another one of the same chunk replaces must be good.
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
    """An etag counts before a time, where both are given."""
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
    """The same by columns; a row without a location, or with an empty one, is skipped."""
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
    """The rows whose text has a flag; a row without a text has none."""
    # The last entry is the one that code -1 finds.
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
    """Set the rows to be kept; texts are normalized."""
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
    """A table of rows that are all good; of rows with the same place it has one."""
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
    """The same for columns of which every row must be good; raises InvalidChunksError."""
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
    """A column of offsets or lengths; raises InvalidInputError for what is none."""
    column = _numbers(values, what)
    if column.size and column.min() < 0:
        raise InvalidInputError(f"{what} is negative")
    return column.astype(np.uint64, copy=False)


def _numbers(values: ArrayLike, what: str) -> NDArray[Any]:
    """A column of whole numbers; raises InvalidInputError for anything else."""
    try:
        column = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"{what} is no number: {error}") from error
    if column.size and column.dtype.kind not in "iu":
        raise InvalidInputError(f"{what} is no whole number, but of the type {column.dtype}")
    return column


def _twins(path: str, places: Coordinates) -> InvalidChunksError:
    distinct, counts = np.unique(places, axis=0, return_counts=True)
    twins = distinct[counts > 1].tolist()
    return InvalidChunksError(
        f"chunks of {path!r} are there more than once: {_show(twins)}",
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
    """Refuse chunks whose location no container holds."""
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
    """The coordinates of a whole grid in C order, moved by an offset."""
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
    # Numbers that can be negative, for those who look at them next.
    return places + np.array(starts, np.int64) if any(starts) else places


def _has_container(state: SessionState, normal: str) -> bool:
    return bool(normal) and state.surroundings.virtual.index.has_container(normal)


def _refuse_places(
    path: str, array: ArrayData, coordinates: Places, lengths: NDArray[np.uint64]
) -> Coordinates:
    """Refuse chunks that have no bytes or no place; gives the coordinates as tables have them."""
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
    dialect = state.surroundings.dialect
    if has_checksums and dialect in _WITHOUT_CHECKSUMS:
        raise InvalidInputError(
            f"the generation {dialect.value} has no checksums of virtual chunks",
            kind="invalid-virtual-ref",
        )
