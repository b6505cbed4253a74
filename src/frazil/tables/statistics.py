"""Chunk statistics: measure them, store them next to the data, and use them to prune."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.manifest import ChunkKind, ChunkTable
from frazil.format.ragged import Strings
from frazil.format.snapshot import Node
from frazil.lazy import lazy_modules
from frazil.repository.session import Session
from frazil.repository.view import View
from frazil.tables.columns import (
    DURATION,
    TIMESTAMP,
    UNSIGNED_64,
    Boxes,
    Column,
    Columns,
    Grid,
    GroupArrays,
    Values,
    byte_width,
    split_to_read,
)
from frazil.tables.predicates import Compare, Flags, IsIn, IsNull, Leaf, Operator, Truth
from frazil.tables.pruning import ChunkTruth

if TYPE_CHECKING:
    import zarr
else:
    # Many plans find no statistics to read.
    (zarr,) = lazy_modules("zarr")

_DECODING = (
    "units", "calendar", "dtype", "scale_factor", "add_offset", "_FillValue", "missing_value",
)  # fmt: skip


def take_digest(node: Node, variable: Any, type: pa.DataType) -> str:
    """Return a digest of an array and its decoding by Xarray, which may depend on other arrays.

    The array's shape is not part of it: the clipped extent of each chunk is part of its fingerprint.
    """
    document = json.loads(node.user_data)
    document.pop("shape", None)
    decoding = {name: repr(variable.encoding.get(name)) for name in _DECODING}
    parts = [str(node.id), document, str(variable.dtype), str(type), decoding]
    text = json.dumps(parts, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


Fingerprints = NDArray[np.uint64]

NONE = np.uint64(0)
"""Fingerprint of chunks whose changes can't be detected."""
_NOT_WRITTEN = np.uint64(0x6E6F742077726974)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def take_fingerprints(grid: Grid, tables: Iterable[ChunkTable]) -> Fingerprints:
    """Return fingerprints of all chunks of a grid, given the references of the written ones."""
    found = np.full(grid.shape, _NOT_WRITTEN)
    for table in tables:
        found[tuple(table.coordinates.T.astype(np.int64))] = hash_references(table)
    return _mix_with_extents(found, [np.diff(each) for each in grid.offsets])


def take_some_fingerprints(
    grid: Grid, chunks: NDArray[np.int64], tables: Iterable[ChunkTable]
) -> Fingerprints:
    """Return fingerprints of some chunks (rows of coordinates), given at least their references."""
    found = np.full(len(chunks), _NOT_WRITTEN)
    for table in tables:
        rows = table.locate(chunks.astype(np.uint32))
        is_there = rows >= 0
        found[is_there] = hash_references(table)[rows[is_there]]
    extents = [np.diff(each)[column] for each, column in zip(grid.offsets, chunks.T, strict=True)]
    return _mix_all(found, extents)


def hash_references(table: ChunkTable) -> Fingerprints:
    """Return the hash of each reference, without the extent of its chunk."""
    if not len(table):
        return np.zeros(0, np.uint64)
    texts = {name: _hash_texts(getattr(table, name)) for name in ("locations", "etags")}
    is_inline = table.kind == ChunkKind.INLINE
    words = [
        table.kind.astype(np.uint64),
        # The position of inline bytes in their table is irrelevant.
        np.where(is_inline, 0, table.offset).astype(np.uint64),
        table.length.astype(np.uint64),
        *_words_of(table.chunk_id),
        texts["locations"][table.location],
        texts["etags"][table.etag],
        table.last_modified.astype(np.uint64),
        _hash_inline(table, is_inline),
    ]
    found = _mix_all(np.full(len(table), _STEP), words)
    is_unsure = (table.kind == ChunkKind.VIRTUAL) & (table.etag < 0) & (table.last_modified == 0)
    found[is_unsure] = NONE
    return found


def _words_of(ids: NDArray[np.uint8]) -> list[Fingerprints]:
    """Split ids into 64-bit words."""
    count, size = ids.shape
    padded = np.zeros((count, -(-size // 8) * 8), np.uint8)
    padded[:, :size] = ids
    return list(padded.view("<u8").astype(np.uint64).T)


def _hash_texts(texts: Strings) -> Fingerprints:
    """Return the hash of each text, and a last entry for none, at index -1."""
    return np.array([*map(_hash, texts.encoded_list()), 0], np.uint64)


def _hash_inline(table: ChunkTable, is_inline: NDArray[np.bool_]) -> Fingerprints:
    found = np.zeros(len(table), np.uint64)
    for row in np.flatnonzero(is_inline).tolist():
        start, length = int(table.offset[row]), int(table.length[row])
        found[row] = _hash(table.inline[start : start + length].tobytes())
    return found


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _mix_with_extents(found: Fingerprints, extents: Sequence[NDArray[np.int64]]) -> Fingerprints:
    axes = len(extents)
    spread = [
        each.reshape([-1 if i == axis else 1 for i in range(axes)])
        for axis, each in enumerate(extents)
    ]
    return _mix_all(found, spread)


def _mix_all(found: Fingerprints, words: Sequence[NDArray[np.generic]]) -> Fingerprints:
    """Mix each fingerprint with the words at its index; NONE stays NONE and never results otherwise."""
    mixed = found
    for word in words:
        mixed = _mix(mixed ^ word.astype(np.uint64))
    return np.where(found == NONE, NONE, np.maximum(mixed, np.uint64(1)))


def _mix(words: Fingerprints) -> Fingerprints:
    """Apply the SplitMix64 step: each input bit changes about half of the output bits."""
    found = words + _STEP
    found = (found ^ (found >> np.uint64(30))) * _FIRST
    found = (found ^ (found >> np.uint64(27))) * _SECOND
    return found ^ (found >> np.uint64(31))


COUNTS = ("count", "null_count")
NO_SUM = np.iinfo(np.int64).min
"""Marks a sum of integers that does not fit in 64 bits."""


def measured_types(type: pa.DataType) -> dict[str, "np.dtype[Any]"]:
    """Return the measures of columns of a type, and their stored types."""
    found = dict.fromkeys(COUNTS, np.dtype(np.int64))
    if type in (TIMESTAMP, DURATION):
        return {**found, **dict.fromkeys(("min", "max"), np.dtype(np.int64))}
    if pa.types.is_floating(type):
        return {**found, **dict.fromkeys(("min", "max", "sum"), np.dtype(np.float64))}
    if pa.types.is_integer(type) or pa.types.is_boolean(type) or type == UNSIGNED_64:
        ends = np.dtype(np.uint64 if type == UNSIGNED_64 else np.int64)
        return {**found, "min": ends, "max": ends, "sum": np.dtype(np.int64)}
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """Measures of some chunks of an array."""

    chunks: NDArray[np.int64]
    """Chunk coordinates, one row each."""
    columns: dict[str, NDArray[Any]]
    """Measures by name. If the count is zero, minimum, maximum and sum are undefined."""

    def __len__(self) -> int:
        return len(self.chunks)


def measure(values: Values) -> dict[str, Any]:
    """Return the measures of a chunk's values."""
    total = values.data.size
    present = values.data
    if values.missing is not None:
        present = values.data[np.broadcast_to(values.present, values.data.shape)]
    counts = {"count": present.size, "null_count": total - present.size}
    types = measured_types(values.type)
    if "min" not in types:
        return counts
    if not present.size:
        return {name: counts.get(name, 0) for name in types}
    found = {**counts, "min": present.min(), "max": present.max()}
    if "sum" in types:
        found["sum"] = _sum(present)
    return found


def repeat(measured: dict[str, Any], times: int) -> dict[str, Any]:
    """Return the measures of a value repeated `times` times, given those of one."""
    found = {**measured, **{name: measured[name] * times for name in COUNTS}}
    if "sum" in measured:
        exact = isinstance(measured["sum"], int)
        found["sum"] = _fit_measures(measured["sum"] * times) if exact else measured["sum"] * times
    return found


def _sum(present: NDArray[Any]) -> int | float:
    if present.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            return float(present.sum(dtype=np.float64))
    largest = max(abs(int(present.min())), abs(int(present.max())))
    if largest * present.size < 1 << 63:
        return int(present.sum(dtype=np.int64))
    # Sum high and low halves separately, because numpy has no wider integers.
    wide = present.astype(np.uint64 if present.dtype.kind == "u" else np.int64)
    high, low = wide >> 32, wide & 0xFFFFFFFF
    return _fit_measures((int(high.sum(dtype=wide.dtype)) << 32) + int(low.sum(dtype=np.uint64)))


def _fit_measures(number: int) -> int:
    return number if NO_SUM < number < 1 << 63 else NO_SUM


def measure_chunks(values: Values, grid: Grid, box: NDArray[np.int64]) -> Measures:
    """Return the measures of each chunk of a box, given its values."""
    found, chunks = [], []
    axes = [
        [(n, slice(*(each[n : n + 2] - each[first]).tolist())) for n in range(first, end)]
        for each, (first, end) in zip(grid.offsets, box.tolist(), strict=True)
    ]
    for place in product(*axes):
        chunks.append([number for number, _ in place])
        found.append(measure(values[tuple(part for _, part in place)]))
    return make_measures(chunks, found, values.type)


def make_measures(chunks: Any, found: Sequence[dict[str, Any]], type: pa.DataType) -> Measures:
    """Make columns of measures, in the order of the chunks."""
    types = measured_types(type)
    columns = {
        name: np.array([each[name] for each in found], dtype) for name, dtype in types.items()
    }
    return Measures(np.array(chunks, np.int64), columns)


def join_measures(parts: Sequence[Measures]) -> Measures:
    """Concatenate one or more measures."""
    return Measures(
        np.concatenate([each.chunks for each in parts]),
        {name: np.concatenate([each.columns[name] for each in parts]) for name in parts[0].columns},
    )


def measure_alike(
    one: dict[str, Any], grid: Grid, chunks: NDArray[np.int64], type: pa.DataType
) -> Measures:
    """Return the measures of chunks with one constant value, given the measures of that value."""
    lengths = [np.diff(each)[at] for each, at in zip(grid.offsets, chunks.T, strict=True)]
    sizes, of = np.unique(np.multiply.reduce(lengths), return_inverse=True)
    found = make_measures(sizes[:, None], [repeat(one, size) for size in sizes.tolist()], type)
    return Measures(chunks, {name: each[of] for name, each in found.columns.items()})


STATISTICS = "/_frazil/statistics"
_FINGERPRINT = "fingerprint"
_DIGEST = "digest"
_CHUNK_ITEMS = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Stored statistics of an array, in the shape of its current grid."""

    columns: Mapping[str, NDArray[Any]]
    fingerprints: Fingerprints


def group_of(path: str) -> str:
    """Return the path of the group with the statistics of an array."""
    return STATISTICS + path


def read_statistics(
    session: Session, path: str, grid: Grid, type: pa.DataType, digest: str
) -> Kept | None:
    """Return the statistics of an array with this digest; None if there are none that can be used."""
    group = _find_group(session, path, type, digest, "r")
    if group is None:
        return None
    columns = {
        name: _fit_stored(_array(group, name), grid.shape)
        for name in (*measured_types(type), _FINGERPRINT)
    }
    return Kept(columns, columns.pop(_FINGERPRINT))


def write_statistics(
    session: Session,
    path: str,
    grid: Grid,
    type: pa.DataType,
    digest: str,
    measures: Measures,
    fingerprints: Fingerprints,
) -> None:
    """Store measures of chunks and their fingerprints, keeping those of other chunks."""
    group = _find_group(session, path, type, digest, "r+")
    if group is None:
        group = _create(session, path, grid, type, digest)
    box = tuple(
        slice(int(first), int(last) + 1)
        for first, last in zip(measures.chunks.min(0), measures.chunks.max(0), strict=True)
    )
    inside = tuple((measures.chunks - measures.chunks.min(0)).T)
    for name, values in {**measures.columns, _FINGERPRINT: fingerprints}.items():
        array = _array(group, name)
        if array.shape != grid.shape:
            array.resize(grid.shape)
        part = np.array(array[box])
        part[inside] = values
        array[box] = part


def _find_group(
    session: Session, path: str, type: pa.DataType, digest: str, mode: Literal["r", "r+"]
) -> "zarr.Group | None":
    """Open the statistics group if it has the expected digest and arrays."""
    place, view = group_of(path), session.state.view
    node = view.find_node(place)
    if node is None or node.array is not None:
        return None
    group = zarr.open_group(session.store, path=place.lstrip("/"), mode=mode, zarr_format=3)
    if group.attrs.get(_DIGEST) != digest:
        return None
    types = {**measured_types(type), _FINGERPRINT: np.dtype(np.uint64)}
    is_whole = all(_has_array(view, f"{place}/{name}") for name in types)
    if not is_whole or any(_array(group, name).dtype != each for name, each in types.items()):
        return None
    return group


def _has_array(view: View, path: str) -> bool:
    node = view.find_node(path)
    return node is not None and node.array is not None


def _create(
    session: Session, path: str, grid: Grid, type: pa.DataType, digest: str
) -> "zarr.Group":
    place, store = group_of(path), session.store
    _remove_arrays_above(session, place)
    group = zarr.open_group(store, path=place.lstrip("/"), mode="w", zarr_format=3)
    for name, dtype in {**measured_types(type), _FINGERPRINT: np.dtype(np.uint64)}.items():
        group.create_array(
            name,
            shape=grid.shape,
            chunks=choose_chunks(grid.shape),
            dtype=dtype,
            fill_value=0,
            dimension_names=[f"{dim}_chunk" for dim in grid.dims],
        )
    group.attrs.put({_DIGEST: digest})
    return group


def _remove_arrays_above(session: Session, place: str) -> None:
    """Delete statistics arrays at parent paths, left by an array that has become a group."""
    parts = place.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        path = "/" + "/".join(parts[:end])
        if _has_array(session.state.view, path):
            parent, _, name = path.strip("/").rpartition("/")
            del zarr.open_group(session.store, path=parent, mode="r+", zarr_format=3)[name]


def choose_chunks(shape: Sequence[int]) -> tuple[int, ...]:
    """Return chunk lengths of about `_CHUNK_ITEMS` elements, filled from the last axis."""
    chunks = [1] * len(shape)
    for axis in reversed(range(1, len(shape))):
        chunks[axis] = max(min(shape[axis], _CHUNK_ITEMS // prod(chunks)), 1)
    if chunks:
        chunks[0] = max(_CHUNK_ITEMS // prod(chunks[1:]), 1)
    return tuple(chunks)


def _array(group: "zarr.Group", name: str) -> Any:
    return group[name]


def _fit_stored(array: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return stored values in the shape of a grid with the same number of axes, zero-padded."""
    found = np.zeros(shape, array.dtype)
    if array.ndim == len(shape):
        common = tuple(slice(0, min(each)) for each in zip(array.shape, shape, strict=True))
        found[common] = array[common]
    return found


def is_fresh(kept: Kept, fingerprints: Fingerprints) -> NDArray[np.bool_]:
    """Return a mask of the chunks unchanged since they were measured."""
    found: NDArray[np.bool_] = (fingerprints != NONE) & (kept.fingerprints == fingerprints)
    return found


_READ_AHEAD = 4


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Array whose chunks are measured, in any process."""

    arrays: GroupArrays
    columns: Columns
    column: Column
    grid: Grid

    @property
    def path(self) -> str:
        """Return the path of the array."""
        return self.arrays.path(self.column.name)

    @property
    def chunk_bytes(self) -> int:
        """Return the approximate size of a chunk in memory."""
        return self.grid.largest_chunk() * byte_width(self.column.type)

    def measure(self, boxes: Boxes) -> Measures:
        """Read boxes of chunks and measure each chunk."""
        width = byte_width(self.column.type)
        parts = (part for box in boxes for part in split_to_read(self.grid, box, width))
        with ThreadPoolExecutor(_READ_AHEAD) as pool:
            return join_measures(list(pool.map(self._measure_box, parts)))

    def _measure_box(self, box: NDArray[np.int64]) -> Measures:
        values = self.arrays.read(self.columns, self.column.name, self.grid.region(box))
        return measure_chunks(values, self.grid, box)

    def measure_unwritten(self, chunks: NDArray[np.int64]) -> Measures:
        """Return the measures of unwritten chunks, reading only metadata."""
        first = tuple(
            slice(int(each[at]), int(each[at]) + 1)
            for each, at in zip(self.grid.offsets, chunks[0], strict=True)
        )
        one = measure(self.arrays.read(self.columns, self.column.name, first))
        return measure_alike(one, self.grid, chunks, self.column.type)


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Plan of the analysis of an array."""

    subject: Subject
    digest: str
    fingerprints: Fingerprints
    written: NDArray[np.bool_]
    """Chunks to read."""
    unwritten: NDArray[np.bool_]
    """Unwritten chunks, all fill value, without statistics."""
    fresh: int
    """Number of chunks with current statistics."""
    without_checksum: int
    """Number of virtual chunks without a checksum, whose changes can't be detected."""

    def write(self, session: Session, measured: Sequence[Measures]) -> None:
        """Write the measured statistics, and those of unwritten chunks, in a session."""
        parts = list(measured)
        if self.unwritten.any():
            parts.append(self.subject.measure_unwritten(_places(self.unwritten)))
        if not parts:
            return
        together = join_measures(parts)
        prints = self.fingerprints[tuple(together.chunks.T)]
        subject = self.subject
        write_statistics(
            session, subject.path, subject.grid, subject.column.type, self.digest, together, prints
        )


def plan_analysis(session: Session, path: str) -> Analysis:
    """Plan the analysis of an array; raises InvalidInputError for an array that is no column."""
    group, _, name = path.rpartition("/")
    view = session.state.view
    node, _ = view.get_array(path)
    arrays = GroupArrays(session, group)
    columns = arrays.columns((name,))
    column = columns.get(name)
    grid = arrays.grid(name, column.dims)
    if not grid.dims:
        raise InvalidInputError(f"{path} is a single value, which has no statistics: leave it out")
    subject = Subject(arrays, columns, column, grid)
    digest = take_digest(node, arrays.open(columns.opened).variables[name], column.type)
    fingerprints = take_fingerprints(grid, view.tables(node))
    kept = read_statistics(session, path, grid, column.type, digest)
    fresh = np.zeros(grid.shape, np.bool_) if kept is None else is_fresh(kept, fingerprints)
    is_unwritten = fingerprints == take_fingerprints(grid, ())
    is_unsure = fingerprints == NONE
    return Analysis(
        subject,
        digest,
        fingerprints,
        ~fresh & ~is_unwritten & ~is_unsure,
        ~fresh & is_unwritten,
        int(fresh.sum()),
        int(is_unsure.sum()),
    )


def find_analysable(session: Session, group: str) -> Iterator[str]:
    """Yield the paths of arrays to analyse in a group and its descendants.

    Frazil's own arrays are skipped, and dimension coordinates, because scans keep them in memory.
    """
    view = session.state.view
    for node in view.descendants(view.get_node(group).path):
        if node.array is None or not node.array.shape or node.path.startswith("/_frazil/"):
            continue
        names = node.array.dimension_names or ()
        if tuple(names) != (node.path.rpartition("/")[2],):
            yield node.path


def _places(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.argwhere(flags).astype(np.int64)


Measured = Mapping[str, NDArray[Any]]
"""Measures by name, of equal shape."""

_OPPOSITE: dict[Operator, Operator] = {
    "=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip


def truth_of_measures(leaf: Leaf, measured: Measured) -> Truth:
    """Return the possible results of a leaf in each chunk."""
    has_values, has_nulls = measured["count"] > 0, measured["null_count"] > 0
    if isinstance(leaf, IsNull):
        return Truth(has_nulls, has_values)
    if "min" not in measured:
        return Truth(has_values, has_values)
    if isinstance(leaf, IsIn):
        any_is = np.logical_or.reduce([_can_hold("=", each, measured) for each in leaf.values])
        only_is = np.logical_or.reduce([~_can_hold("<>", each, measured) for each in leaf.values])
        return Truth(has_values & any_is, has_values & ~only_is)
    assert isinstance(leaf, Compare)
    return Truth(
        has_values & _can_hold(leaf.operator, leaf.value, measured),
        has_values & _can_hold(_OPPOSITE[leaf.operator], leaf.value, measured),
    )


def _can_hold(operator: Operator, value: Any, measured: Measured) -> NDArray[np.bool_]:
    """Return True where a value between minimum and maximum, inclusive, may satisfy the comparison."""
    least, greatest = measured["min"], measured["max"]
    found: Flags
    match operator:
        case "=":
            found = _is_possible(value, least) & (least <= value) & (greatest >= value)
        case "<>":
            found = (least != value) | (greatest != value)
        case "<":
            found = least < value
        case "<=":
            found = least <= value
        case ">":
            found = greatest > value
        case ">=":
            found = greatest >= value
    return np.asarray(found, np.bool_)


def _is_possible(value: Any, least: NDArray[Any]) -> bool:
    """Return True if a value of the type may equal it: no integer equals a fraction."""
    return least.dtype.kind == "f" or not isinstance(value, float) or value.is_integer()


_LOOKED_UP = 64
"""Up to this many chunks, references are looked up one by one; for more, all are read."""


def truth_of_chunks(
    arrays: GroupArrays,
    columns: Columns,
    name: str,
    grid: Grid,
    leaves: Sequence[Leaf],
    wanted: NDArray[np.bool_],
) -> Mapping[Leaf, ChunkTruth]:
    """Return the possible results of leaves on an array, for its wanted chunks.

    Chunks that changed since they were measured may have any result.
    """
    path, type = arrays.path(name), columns.get(name).type
    view = arrays.session.state.view
    if not grid.dims or view.find_node(group_of(path)) is None:
        return {}
    node, _ = view.get_array(path)
    digest = take_digest(node, arrays.open(columns.opened).variables[name], type)
    kept = read_statistics(arrays.session, path, grid, type, digest)
    if kept is None:
        return {}
    found = {leaf: truth_of_measures(leaf, kept.columns) for leaf in leaves}
    says_something = np.logical_or.reduce(
        [~(np.asarray(each.can_be_true) & each.can_be_false) for each in found.values()]
    )
    # Reading references has a cost, so limit it to chunks that statistics may prune.
    asked = np.argwhere(says_something & wanted & (kept.fingerprints != NONE)).astype(np.int64)
    is_fresh = np.zeros(grid.shape, np.bool_)
    if len(asked):
        now = find_fingerprints(view, node, grid, asked)
        index = tuple(asked.T)
        is_fresh[index] = (now != NONE) & (now == kept.fingerprints[index])
    return {
        leaf: ChunkTruth(grid, each.can_be_true | ~is_fresh, each.can_be_false | ~is_fresh)
        for leaf, each in found.items()
    }


def find_fingerprints(
    view: View, node: Node, grid: Grid, chunks: NDArray[np.int64]
) -> Fingerprints:
    """Return the fingerprints of some chunks of an array in a version."""
    if len(chunks) > _LOOKED_UP:
        return take_some_fingerprints(grid, chunks, view.tables(node))
    places = [tuple(each) for each in chunks.tolist()]
    refs = {place: view.find_chunk(node, place) for place in places}
    written = {place: ref for place, ref in refs.items() if ref is not None}
    table = ChunkTable.of(len(grid.dims), written, view.changes.id_size)
    return take_some_fingerprints(grid, chunks, [table])
