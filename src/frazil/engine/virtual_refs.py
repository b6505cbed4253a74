"""References to chunks in files outside of the repository, set one at a time or in bulk.

Each distinct location is looked at once, however many chunks are in it. References are columns all
the way to the manifest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from frazil.engine.keys import ChunkKey, Coordinate, parse_key
from frazil.engine.state import SessionState
from frazil.engine.writing import refuse_place, set_ref
from frazil.errors import InvalidInputError, SessionStateError
from frazil.format.chunks import ChunkTable, constant_column, no_chunk_ids
from frazil.format.dialect import Dialect
from frazil.format.references import Checksum, ChunkKind, ETag, LastModified, VirtualRef
from frazil.format.snapshot import ArrayData, Node
from frazil.format.strings import Strings
from frazil.format.times import from_datetime
from frazil.virtual.locations import normalize_location
from frazil.virtual.specs import VirtualChunkSpec

ChecksumArgument = str | datetime | None
"""An etag, or the time of the last modification."""

_WITHOUT_CHECKSUMS = frozenset({Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B})


def parse_checksum(checksum: ChecksumArgument) -> Checksum | None:
    """What users give as a checksum; raises TypeError for a time without a zone."""
    if isinstance(checksum, str):
        return ETag(checksum)
    if checksum is None:
        return None
    if checksum.tzinfo is None:
        raise TypeError("the time of the last modification needs a time zone")
    return LastModified(from_datetime(checksum) // 10**9)


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
    _refuse_dialect(state, ref.checksum)
    if validate_container:
        state.surroundings.virtual.index.find_container(location)
    refuse_place(state, path, coordinate, ref.length)
    set_ref(state, path, coordinate, ref)


def set_specs(
    state: SessionState, path: str, specs: Sequence[VirtualChunkSpec], *, validate_containers: bool
) -> list[Coordinate] | None:
    """Set many references; gives those whose location no container holds, which are not set."""
    state.refuse_unless_writable()
    texts = {spec.location: normalize_location(spec.location) for spec in specs}
    _, array = state.view.get_array(path)
    for spec in specs:
        if len(spec.index) != len(array.shape):
            raise _no_place(path, array, tuple(spec.index))
    held = {each for each in texts if not validate_containers or _has_container(state, texts[each])}
    kept = [spec for spec in specs if spec.location in held]
    _refuse_places(path, array, _places(kept, array), _column([each.length for each in kept]))
    groups = _by_checksum(kept)
    for checksum in groups:
        _refuse_dialect(state, checksum)
    for checksum, group in groups.items():
        set_columns(
            state,
            path,
            _places(group, array),
            [each.location for each in group],
            _column([each.offset for each in group]),
            _column([each.length for each in group]),
            checksum=checksum,
            validate_containers=False,
        )
    return [tuple(spec.index) for spec in specs if spec.location not in held] or None


def _by_checksum(
    specs: Sequence[VirtualChunkSpec],
) -> dict[Checksum | None, list[VirtualChunkSpec]]:
    """The references with each checksum; of several for one chunk the last one."""
    groups: dict[Checksum | None, list[VirtualChunkSpec]] = {}
    for spec in {tuple(spec.index): spec for spec in specs}.values():
        checksum = parse_checksum(spec.etag_checksum or spec.last_updated_at_checksum)
        groups.setdefault(checksum, []).append(spec)
    return groups


def _places(specs: Sequence[VirtualChunkSpec], array: ArrayData) -> NDArray[np.int64]:
    coordinates = np.array([each.index for each in specs], np.int64)
    return coordinates.reshape(len(specs), len(array.shape))


def _column(numbers: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def set_columns(
    state: SessionState,
    path: str,
    coordinates: NDArray[np.int64],
    locations: Iterable[str],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    *,
    checksum: Checksum | None,
    validate_containers: bool,
) -> list[Coordinate]:
    """The same by columns; an empty location is skipped."""
    state.refuse_unless_writable()
    _refuse_dialect(state, checksum)
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(each, len(numbers)) for each in locations), np.int32)
    node, array = state.view.get_array(path)
    texts = [each and normalize_location(each) for each in numbers]
    has_container = np.array(
        [not validate_containers or _has_container(state, each) for each in texts], np.bool_
    )
    given = np.array([bool(each) for each in texts], np.bool_)[codes] if texts else codes > 0
    kept = given & has_container[codes] if texts else given
    _refuse_places(path, array, coordinates[kept], lengths[kept])
    table = _table(coordinates[kept], codes[kept], texts, offsets[kept], lengths[kept], checksum)
    _store(state, node, table)
    return [tuple(each) for each in coordinates[given & ~kept].tolist()]


def _store(state: SessionState, node: Node, table: ChunkTable) -> None:
    if len(table):
        with state.lock:
            state.refuse_unless_writable()
            current, _ = state.view.get_array(node.path)
            ids = no_chunk_ids(len(table), state.changes.id_size)
            state.changes.edit_chunks(current).set_table(replace(table, chunk_id=ids))


def _table(
    coordinates: NDArray[np.int64],
    codes: NDArray[np.int32],
    texts: Sequence[str],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    checksum: Checksum | None,
) -> ChunkTable:
    count = len(codes)
    seconds = checksum.seconds if isinstance(checksum, LastModified) else 0
    etags = Strings.of([checksum.value] if isinstance(checksum, ETag) else [])
    return ChunkTable(
        coordinates=np.ascontiguousarray(coordinates, np.uint32),
        kind=constant_column(ChunkKind.VIRTUAL, count, np.uint8),
        offset=np.ascontiguousarray(offsets, np.uint64),
        length=np.ascontiguousarray(lengths, np.uint64),
        chunk_id=no_chunk_ids(count),
        location=codes,
        etag=constant_column(len(etags) - 1, count, np.int32),
        last_modified=constant_column(seconds, count, np.uint32),
        extra=constant_column(-1, count, np.int32),
        locations=Strings.of(texts),
        etags=etags,
    ).sort()


def grid_coordinates(
    grid: Sequence[int], offset: Sequence[int] | None, count: int
) -> NDArray[np.int64]:
    """The coordinates of a whole grid in C order, moved by an offset."""
    cells = int(np.prod(grid, dtype=np.int64))
    if cells != count:
        raise ValueError(f"a chunk grid of {cells} chunks does not go with {count} locations")
    places = np.indices(tuple(grid), np.int64).reshape(len(grid), cells).T
    if offset is None:
        return places
    if len(offset) != len(grid):
        raise ValueError(f"an offset of {len(offset)} axes does not go with a grid of {len(grid)}")
    return places + np.array(offset, np.int64)


def _has_container(state: SessionState, location: str) -> bool:
    try:
        return bool(location) and bool(state.surroundings.virtual.index.find_container(location))
    except InvalidInputError:
        return False


def _refuse_places(
    path: str, array: ArrayData, coordinates: NDArray[np.int64], lengths: NDArray[np.uint64]
) -> None:
    """Refuse the first chunk that has no bytes or no place."""
    grid = np.array([each.num_chunks for each in array.shape], np.int64)
    if coordinates.shape[1:] != grid.shape:
        raise _no_place(path, array, *map(tuple, coordinates[:1].tolist()))
    outside = np.any((coordinates < 0) | (coordinates >= grid), axis=1)
    bad = np.flatnonzero(outside | (lengths == 0))
    if not len(bad):
        return
    first: Coordinate = tuple(coordinates[bad[0]].tolist())
    if lengths[bad[0]] == 0:
        raise InvalidInputError(
            f"chunk {list(first)} of {path!r} has no bytes", kind="zero-length-chunk"
        )
    raise _no_place(path, array, first)


def _no_place(path: str, array: ArrayData, *places: Coordinate) -> InvalidInputError:
    grid = [each.num_chunks for each in array.shape]
    shown = ", ".join(str(list(each)) for each in places)
    return InvalidInputError(
        f"{path!r} has {grid} chunks, and so no chunk {shown}", kind="invalid-chunk-index"
    )


def _refuse_dialect(state: SessionState, checksum: Checksum | None) -> None:
    dialect = state.surroundings.dialect
    if checksum is not None and dialect in _WITHOUT_CHECKSUMS:
        raise InvalidInputError(
            f"the generation {dialect.value} has no checksums of virtual chunks",
            kind="invalid-virtual-ref",
        )
