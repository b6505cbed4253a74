"""Statistics of chunks: how they are measured, kept beside the data, and used to prune."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray
from xarray import Dataset

from frazil.errors import InvalidInputError
from frazil.format.chunk_table import ChunkKind, ChunkTable, VirtualRef
from frazil.format.ragged import Strings
from frazil.format.snapshot import Node
from frazil.repository.session import Session
from frazil.repository.view import View
from frazil.tables.columns import (
    DURATION,
    TIMESTAMP,
    UNSIGNED_64,
    Boxes,
    Column,
    Grid,
    Region,
    Values,
    byte_width,
    find_columns,
    find_grid,
    group_path,
    make_values,
    open_dataset,
    split_box,
)
from frazil.tables.predicates import Compare, Flags, IsIn, IsNull, Leaf, Operator, Truth
from frazil.tables.pruning import ChunkTruth

_DECODING = (
    "units", "calendar", "dtype", "scale_factor", "add_offset", "_FillValue", "missing_value",
)  # fmt: skip


def take_digest(node: Node, variable: Any, type: pa.DataType) -> str:
    """Of an array, and of how Xarray decodes it, which other arrays can have a say in.

    The array's shape is not in it: what it leaves of each chunk is part of the chunk's fingerprint.
    """
    document = json.loads(node.user_data)
    document.pop("shape", None)
    decoding = {name: repr(variable.encoding.get(name)) for name in _DECODING}
    parts = [str(node.id), document, str(variable.dtype), str(type), decoding]
    text = json.dumps(parts, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


Fingerprints = NDArray[np.uint64]

NONE = np.uint64(0)
"""The fingerprint of what has none."""
_NOT_WRITTEN = np.uint64(0x6E6F742077726974)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def take_fingerprints(grid: Grid, tables: Iterable[ChunkTable]) -> Fingerprints:
    """Of all chunks of a grid, given the references of those that were written."""
    found = np.full(grid.shape, _NOT_WRITTEN)
    for table in tables:
        found[tuple(table.coordinates.T.astype(np.int64))] = hash_references(table)
    return _mix_with_extents(found, [np.diff(each) for each in grid.offsets])


def take_some_fingerprints(
    grid: Grid, chunks: NDArray[np.int64], tables: Iterable[ChunkTable]
) -> Fingerprints:
    """Of some chunks of a grid, a row of coordinates each, given at least their references."""
    found = np.full(len(chunks), _NOT_WRITTEN)
    for table in tables:
        rows = table.locate(chunks.astype(np.uint32))
        is_there = rows >= 0
        found[is_there] = hash_references(table)[rows[is_there]]
    extents = [np.diff(each)[column] for each, column in zip(grid.offsets, chunks.T, strict=True)]
    return _mix_all(found, extents)


def hash_references(table: ChunkTable) -> Fingerprints:
    """Of each reference, without the shape of its chunk."""
    if not len(table):
        return np.zeros(0, np.uint64)
    texts = {name: _hash_texts(getattr(table, name)) for name in ("locations", "etags")}
    is_inline = table.kind == ChunkKind.INLINE
    words = [
        table.kind.astype(np.uint64),
        # Where inline bytes are in their table says nothing about them.
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
    """Ids as numbers of eight bytes."""
    count, size = ids.shape
    padded = np.zeros((count, -(-size // 8) * 8), np.uint8)
    padded[:, :size] = ids
    return list(padded.view("<u8").astype(np.uint64).T)


def _hash_texts(texts: Strings) -> Fingerprints:
    """Of each text, and a last one for none, which -1 finds."""
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
    """Each with the words at its place; what is none stays none, and nothing else becomes it."""
    mixed = found
    for word in words:
        mixed = _mix(mixed ^ word.astype(np.uint64))
    return np.where(found == NONE, NONE, np.maximum(mixed, np.uint64(1)))


def _mix(words: Fingerprints) -> Fingerprints:
    """The step of SplitMix64, which changes half of the bits whichever one was changed."""
    found = words + _STEP
    found = (found ^ (found >> np.uint64(30))) * _FIRST
    found = (found ^ (found >> np.uint64(27))) * _SECOND
    return found ^ (found >> np.uint64(31))


COUNTS = ("count", "null_count")
NO_SUM = np.iinfo(np.int64).min
"""The sum of integers that is none of 64 bits."""


def measured_types(type: pa.DataType) -> dict[str, "np.dtype[Any]"]:
    """The measures of columns of a type, and how they are kept."""
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
    """Their coordinates, a row each."""
    columns: dict[str, NDArray[Any]]
    """By name. Where nothing was counted, the least, the greatest and the sum mean nothing."""

    def __len__(self) -> int:
        return len(self.chunks)


def measure(values: Values) -> dict[str, Any]:
    """Of the values of a chunk."""
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
    """The measures of so many of a value, given those of one."""
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
    # In halves, whose sums fit: numpy has no wider integers.
    wide = present.astype(np.uint64 if present.dtype.kind == "u" else np.int64)
    high, low = wide >> 32, wide & 0xFFFFFFFF
    return _fit_measures((int(high.sum(dtype=wide.dtype)) << 32) + int(low.sum(dtype=np.uint64)))


def _fit_measures(number: int) -> int:
    return number if NO_SUM < number < 1 << 63 else NO_SUM


def measure_chunks(values: Values, grid: Grid, box: NDArray[np.int64]) -> Measures:
    """Of each chunk of a box, whose values these are."""
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
    """Measures by column, of chunks in their order."""
    types = measured_types(type)
    columns = {
        name: np.array([each[name] for each in found], dtype) for name, dtype in types.items()
    }
    return Measures(np.array(chunks, np.int64), columns)


def join_measures(parts: Sequence[Measures]) -> Measures:
    """All of several, of which there is one at least."""
    return Measures(
        np.concatenate([each.chunks for each in parts]),
        {name: np.concatenate([each.columns[name] for each in parts]) for name in parts[0].columns},
    )


def measure_alike(
    one: dict[str, Any], grid: Grid, chunks: NDArray[np.int64], type: pa.DataType
) -> Measures:
    """Of chunks that have the same value everywhere, given the measures of that value."""
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
    """What is kept of the chunks of an array, by the grid that the array has now."""

    columns: Mapping[str, NDArray[Any]]
    fingerprints: Fingerprints


def group_of(path: str) -> str:
    """The group with the statistics of an array."""
    return STATISTICS + path


def read_statistics(
    session: Session, path: str, grid: Grid, type: pa.DataType, digest: str
) -> Kept | None:
    """The statistics of an array with this digest; None where there are none that can be used."""
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
    """Note measures of chunks, with their fingerprints, beside what is known of other chunks."""
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
    """The group, if it is as it is written here, for this array."""
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


def _create(session: Session, path: str, grid: Grid, type: pa.DataType, digest: str) -> zarr.Group:
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
    """Statistics of an array that is a group by now may be where that of its arrays has to be."""
    parts = place.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        path = "/" + "/".join(parts[:end])
        if _has_array(session.state.view, path):
            parent, _, name = path.strip("/").rpartition("/")
            del zarr.open_group(session.store, path=parent, mode="r+", zarr_format=3)[name]


def choose_chunks(shape: Sequence[int]) -> tuple[int, ...]:
    """Chunks of some thousand elements, whole along the last axes; the first one may grow."""
    chunks = [1] * len(shape)
    for axis in reversed(range(1, len(shape))):
        chunks[axis] = max(min(shape[axis], _CHUNK_ITEMS // prod(chunks)), 1)
    if chunks:
        chunks[0] = max(_CHUNK_ITEMS // prod(chunks[1:]), 1)
    return tuple(chunks)


def _array(group: zarr.Group, name: str) -> Any:
    return group[name]


def _fit_stored(array: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Its values for a grid of another shape, which is of as many axes; zeros beyond its own."""
    found = np.zeros(shape, array.dtype)
    if array.ndim == len(shape):
        common = tuple(slice(0, min(each)) for each in zip(array.shape, shape, strict=True))
        found[common] = array[common]
    return found


def is_fresh(kept: Kept, fingerprints: Fingerprints) -> NDArray[np.bool_]:
    """Which chunks are as they were when they were measured."""
    found: NDArray[np.bool_] = (fingerprints != NONE) & (kept.fingerprints == fingerprints)
    return found


_UNAUTHORIZED = "unauthorized-virtual-chunk-container"


class Arrays:
    """The arrays of a group; where they are sent to they are opened again."""

    def __init__(self, session: Session, group: str, names: Sequence[str]) -> None:
        self.session = session
        self.group = group
        self.names = tuple(names)
        self._opened: Dataset | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (Arrays, (self.session, self.group, self.names))

    def open(self) -> Dataset:
        """All of them as Xarray decodes them, nothing of them read."""
        if self._opened is None:
            self._opened = open_dataset(self.session, self.group, self.names)
        return self._opened

    def read(self, name: str, type: pa.DataType, region: Region) -> Values:
        """The values of an array in a region; raises InvalidInputError if it may not be read."""
        variable: Any = self.open().variables[name]
        try:
            return make_values(variable[region].values, type)
        except InvalidInputError as error:
            raise _explain(error) from error

    def check_access(self, name: str, chunk: tuple[int, ...]) -> None:
        """Raise InvalidInputError if a chunk of an array is virtual and may not be read."""
        state = self.session.state
        node, _ = state.view.get_array(f"{group_path(self.group).rstrip('/')}/{name}")
        ref = state.view.find_chunk(node, chunk)
        if isinstance(ref, VirtualRef):
            try:
                state.context.virtual.check_location(ref.location)
            except InvalidInputError as error:
                raise _explain(error) from error

    @property
    def is_restricted(self) -> bool:
        """Whether there may be chunks that can't be read."""
        return self.session.state.context.virtual.is_restricted


def _explain(error: InvalidInputError) -> InvalidInputError:
    if error.kind != _UNAUTHORIZED:
        return error
    what, _, _ = error.message.partition(": to read")
    prefix = what.rpartition(" at ")[2].partition(" ")[0]
    return InvalidInputError(
        f'{what}: add option("authorize", "{prefix}"), or authorize=["{prefix}"] in Python; "*" is '
        "every container that the repository declares",
        kind=error.kind,
    )


_READ_AT_ONCE_BYTES = 16 << 20
_READ_AHEAD = 4


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """An array whose chunks are measured, wherever that happens."""

    path: str
    arrays: Arrays
    column: Column
    grid: Grid

    @property
    def chunk_bytes(self) -> int:
        """What a chunk takes in memory, about."""
        return self.grid.largest_chunk() * byte_width(self.column.type)

    def measure(self, boxes: Boxes) -> Measures:
        """Read boxes of chunks, and measure each of these."""
        most = max(_READ_AT_ONCE_BYTES // max(self.chunk_bytes, 1), 1)
        parts = (part for box in boxes for part in split_box(box, most))
        with ThreadPoolExecutor(_READ_AHEAD) as pool:
            return join_measures(list(pool.map(self._measure_box, parts)))

    def _measure_box(self, box: NDArray[np.int64]) -> Measures:
        values = self.arrays.read(self.column.name, self.column.type, self.grid.region(box))
        return measure_chunks(values, self.grid, box)

    def measure_unwritten(self, chunks: NDArray[np.int64]) -> Measures:
        """Of chunks that were never written, for which nothing but metadata is read."""
        first = tuple(
            slice(int(each[at]), int(each[at]) + 1)
            for each, at in zip(self.grid.offsets, chunks[0], strict=True)
        )
        one = measure(self.arrays.read(self.column.name, self.column.type, first))
        return measure_alike(one, self.grid, chunks, self.column.type)


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """What there is to do for an array."""

    subject: Subject
    digest: str
    fingerprints: Fingerprints
    written: NDArray[np.bool_]
    """Chunks to read."""
    unwritten: NDArray[np.bool_]
    """Chunks that have the fill value everywhere, and are not noted."""
    fresh: int
    """How many are known already."""
    without_checksum: int
    """How many are in files that nobody could tell to have changed."""

    def write(self, session: Session, measured: Sequence[Measures]) -> None:
        """Note what was measured, and what need not be, in a session."""
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
    """What to measure of an array; raises InvalidInputError for one that is no column."""
    group, _, name = path.rpartition("/")
    view = session.state.view
    node, _ = view.get_array(path)
    columns = find_columns(session, group or "/", (name,))
    column = columns.get(name)
    grid = find_grid(session, group or "/", column)
    if not grid.dims:
        raise InvalidInputError(f"{path} is one value, of which there are no statistics")
    subject = Subject(path, Arrays(session, group or "/", columns.opened), column, grid)
    digest = take_digest(node, subject.arrays.open().variables[name], column.type)
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
    """The arrays of a group, and of all groups below it, that are more than coordinates.

    What Frazil keeps for itself is left out, and so are coordinates that are held in memory anyway.
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


Columns = Mapping[str, NDArray[Any]]
"""Measures by name, alike in shape."""

_OPPOSITE: dict[Operator, Operator] = {
    "=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip


def tell_of_measures(leaf: Leaf, measured: Columns) -> Truth:
    """What a leaf can be in each chunk."""
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


def _can_hold(operator: Operator, value: Any, measured: Columns) -> NDArray[np.bool_]:
    """Whether a value between the least and the greatest, these included, compares so."""
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
    """Whether some value of the type can be equal to it: no integer is equal to a fraction."""
    return least.dtype.kind == "f" or not isinstance(value, float) or value.is_integer()


_LOOKED_UP = 64
"""References of so many chunks are looked up one by one; for more of them all are read."""


def tell_of_chunks(
    arrays: Arrays,
    column: Column,
    grid: Grid,
    leaves: Sequence[Leaf],
    wanted: NDArray[np.bool_],
) -> Mapping[Leaf, ChunkTruth]:
    """What is known of leaves about an array, for those of its chunks that are wanted.

    Of a chunk that has changed since it was measured, nothing is.
    """
    path = array_path(arrays.group, column.name)
    view = arrays.session.state.view
    if not grid.dims or view.find_node(group_of(path)) is None:
        return {}
    node, _ = view.get_array(path)
    digest = take_digest(node, arrays.open().variables[column.name], column.type)
    kept = read_statistics(arrays.session, path, grid, column.type, digest)
    if kept is None:
        return {}
    found = {leaf: tell_of_measures(leaf, kept.columns) for leaf in leaves}
    says_something = np.logical_or.reduce(
        [~(np.asarray(each.can_be_true) & each.can_be_false) for each in found.values()]
    )
    # References may be read for nothing but this, so of no more chunks than can be left out by it.
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
    """Of some chunks of an array, as they are in a version."""
    if len(chunks) > _LOOKED_UP:
        return take_some_fingerprints(grid, chunks, view.tables(node))
    places = [tuple(each) for each in chunks.tolist()]
    refs = {place: view.find_chunk(node, place) for place in places}
    written = {place: ref for place, ref in refs.items() if ref is not None}
    table = ChunkTable.of(len(grid.dims), written, view.changes.id_size)
    return take_some_fingerprints(grid, chunks, [table])


def array_path(group: str, name: str) -> str:
    """The path of an array of a group."""
    return f"{group_path(group).rstrip('/')}/{name}"
