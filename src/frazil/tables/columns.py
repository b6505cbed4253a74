"""Columns of arrays of one group, or of several with one grid: types, values, and the grid of rows."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.display import suggest
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.format.manifest import VirtualRef
from frazil.format.metadata import validate_path
from frazil.lazy import lazy_modules
from frazil.repository.session import Session

if TYPE_CHECKING:
    import zarr
    from xarray import Dataset

    from frazil.tables import xarray_values
else:
    # Metadata tables and many steps of planning need neither, and both are slow to import.
    xarray_values, zarr = lazy_modules("frazil.tables.xarray_values", "zarr")

Offsets = NDArray[np.int64]
"""Start of each chunk along a dimension, followed by the end of the last one."""
Region = tuple[slice, ...]
Pieces = dict[int, NDArray[Any]]
"""Stored values of an array of one dimension, by chunk."""
Boxes = NDArray[np.int64]
"""Boxes of chunks: one row per box, with the start and end along each dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Dimensions split into chunks."""

    dims: tuple[str, ...]
    offsets: tuple[Offsets, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of chunks along each dimension."""
        return tuple(len(each) - 1 for each in self.offsets)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the number of elements along each dimension."""
        return {dim: int(each[-1]) for dim, each in zip(self.dims, self.offsets, strict=True)}

    def cut_like(self, other: "Grid") -> "Grid":
        """Return these dimensions with another grid's chunks, unsplit where it lacks the dimension."""
        cuts = dict(zip(other.dims, other.offsets, strict=True))
        whole = (cuts.get(dim, whole_offsets(size)) for dim, size in self.sizes.items())
        return Grid(self.dims, tuple(whole))

    def refine(self, others: Sequence["Grid"]) -> "Grid":
        """Return these dimensions split at the chunk boundaries of this grid and all others."""
        cuts = [
            [grid.offsets[grid.dims.index(dim)] for grid in others if dim in grid.dims]
            for dim in self.dims
        ]
        joined = [
            reduce(np.union1d, more, own) for own, more in zip(self.offsets, cuts, strict=True)
        ]
        return Grid(self.dims, tuple(joined))

    def region(self, box: NDArray[np.int64]) -> Region:
        """Return the region of elements in a box of chunks."""
        return tuple(
            slice(int(each[first]), int(each[end]))
            for each, (first, end) in zip(self.offsets, box, strict=True)
        )

    def largest_chunk(self) -> int:
        """Return the number of elements in the largest chunk."""
        return prod(int(np.diff(each).max(initial=0)) for each in self.offsets)


def regular_offsets(size: int, length: int) -> Offsets:
    """Return the offsets of chunks of equal length; the last one may be shorter."""
    starts = np.arange(0, size, max(length, 1), dtype=np.int64)
    return np.append(starts, size) if size else np.zeros(1, np.int64)


def whole_offsets(size: int) -> Offsets:
    """Return the offsets of a single chunk."""
    return regular_offsets(size, size)


def common_cuts(grids: Sequence[Grid], dim: str) -> Offsets:
    """Return the chunk boundaries common to all grids that have a dimension."""
    cuts = [grid.offsets[grid.dims.index(dim)] for grid in grids if dim in grid.dims]
    found: Offsets = reduce(np.intersect1d, cuts)
    return found


def join_boxes(chunks: NDArray[np.int64]) -> Boxes:
    """Merge chunks, given by their coordinates, into few boxes that contain exactly these chunks."""
    boxes = np.stack([chunks, chunks + 1], axis=2)
    for axis in reversed(range(chunks.shape[1])):
        boxes = _join_along(boxes, axis)
    return boxes


def _join_along(boxes: Boxes, axis: int) -> Boxes:
    """Merge neighbours along an axis that agree in all other axes."""
    others = np.delete(boxes, axis, axis=1).reshape(len(boxes), -1)
    keys = [boxes[:, axis, 0], *others.T[::-1]]
    order = np.lexsort(keys)
    boxes, others = boxes[order], others[order]
    follows = (others[1:] == others[:-1]).all(axis=1) & (boxes[1:, axis, 0] == boxes[:-1, axis, 1])
    starts = np.flatnonzero(np.append(True, ~follows))
    joined = boxes[starts].copy()
    joined[:, axis, 1] = boxes[np.append(starts[1:], len(boxes)) - 1, axis, 1]
    return joined


def split_box(box: NDArray[np.int64], limit: int) -> Iterator[NDArray[np.int64]]:
    """Split a box into parts of at most `limit` chunks, in C order."""
    shape = tuple(int(end - first) for first, end in box)
    for region in split_shape(shape, limit):
        part = box.copy()
        for axis, each in enumerate(region):
            part[axis] = box[axis, 0] + each.start, box[axis, 0] + each.stop
        yield part


READ_AT_ONCE_BYTES = 16 << 20
"""Approximate size of the values that one region reads."""


def split_to_read(grid: Grid, box: NDArray[np.int64], width: int) -> Iterator[NDArray[np.int64]]:
    """Split a box of chunks into boxes that are read at once, given the bytes per cell."""
    return split_box(box, max(READ_AT_ONCE_BYTES // max(grid.largest_chunk() * width, 1), 1))


def split_shape(shape: tuple[int, ...], limit: int) -> Iterator[Region]:
    """Split a shape into regions of at most `limit` elements, consecutive in C order."""
    if 0 in shape:
        return
    axis, inner = len(shape), 1
    while axis > 0 and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield tuple(slice(0, size) for size in shape)
        return
    step = max(limit // inner, 1)
    rest = tuple(slice(0, size) for size in shape[axis:])
    for outer in np.ndindex(*shape[: axis - 1]):
        for start in range(0, shape[axis - 1], step):
            along = slice(start, min(start + step, shape[axis - 1]))
            yield (*(slice(i, i + 1) for i in outer), along, *rest)


def chunks_in(offsets: Offsets, part: slice) -> Iterator[slice]:
    """Split a part of a dimension at its chunk boundaries."""
    first = int(np.searchsorted(offsets, part.start, "right")) - 1
    for number in range(first, len(offsets) - 1):
        start, end = int(offsets[number]), int(offsets[number + 1])
        if start >= part.stop:
            return
        yield slice(max(start, part.start), min(end, part.stop))


def select(values: Any, dims: Sequence[str], region: Mapping[str, slice]) -> Any:
    """Return the part in a region of values with these dimensions."""
    return values[tuple(region[dim] for dim in dims)]


TIMESTAMP = pa.timestamp("us", "UTC")
DURATION = pa.duration("us")
UNSIGNED_64 = pa.decimal128(20, 0)
_MICROSECONDS = {TIMESTAMP: "datetime64[us]", DURATION: "timedelta64[us]"}
_BY_CODE: dict[str, pa.DataType] = {
    "b1": pa.bool_(),
    "i1": pa.int8(), "i2": pa.int16(), "i4": pa.int32(), "i8": pa.int64(),
    "u1": pa.int16(), "u2": pa.int32(), "u4": pa.int64(), "u8": UNSIGNED_64,
    "f2": pa.float32(), "f4": pa.float32(), "f8": pa.float64(),
    "c8": pa.struct([("re", pa.float32()), ("im", pa.float32())]),
    "c16": pa.struct([("re", pa.float64()), ("im", pa.float64())]),
}  # fmt: skip
_BY_KIND = {
    "M": TIMESTAMP, "m": DURATION, "S": pa.binary(), "V": pa.binary(),
    "U": pa.string(), "T": pa.string(), "O": pa.string(),
}  # fmt: skip


def find_type(name: str, dtype: np.dtype[Any], *, is_bytes: bool = False) -> pa.DataType:
    """Return the column type of a variable; raises InvalidInputError if it has none."""
    if is_bytes:
        return pa.binary()
    found = _BY_CODE.get(f"{dtype.kind}{dtype.itemsize}") or _BY_KIND.get(dtype.kind)
    if found is None or dtype.names is not None:
        raise InvalidInputError(
            f"the array {name} has the unsupported type {dtype}: leave it out with `variables`"
        )
    return found


def byte_width(type: pa.DataType) -> int:
    """Return the approximate number of bytes per value."""
    if pa.types.is_struct(type):
        return sum(byte_width(field.type) for field in type)
    return 16 if not pa.types.is_primitive(type) else max(type.bit_width // 8, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values of a column, of any shape.

    They are numpy numbers, microseconds for times, or objects. Data at missing positions is undefined.
    """

    type: pa.DataType
    data: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    """Mask of missing values; None if none is missing."""

    def __getitem__(self, key: Any) -> "Values":
        """Return a part, with numpy indexing."""
        if isinstance(key, tuple):
            key = (*key, ...)  # keeps a 0-d result an array
        missing = None if self.missing is None else self.missing[key]
        return Values(self.type, self.data[key], missing)

    def spread(self, shape: tuple[int, ...]) -> "Values":
        """Broadcast the values to a shape."""
        missing = None if self.missing is None else np.broadcast_to(self.missing, shape)
        return Values(self.type, np.broadcast_to(self.data, shape), missing)

    def reshape(self, shape: tuple[int, ...]) -> "Values":
        """Return the values in another shape."""
        missing = None if self.missing is None else self.missing.reshape(shape)
        return Values(self.type, self.data.reshape(shape), missing)

    @property
    def present(self) -> Any:
        """Return the mask of present values, or True if all are."""
        return True if self.missing is None else ~self.missing


def make_values(data: Any, type: pa.DataType) -> Values:
    """Convert values decoded by Xarray to a column of a type returned by `find_type`."""
    given = np.asarray(data)
    if type in _MICROSECONDS:
        absent = np.isnat(given)
        numbers = given.astype(_MICROSECONDS[type]).view(np.int64)
        return Values(type, numbers, absent if absent.any() else None)
    if given.dtype.kind in "fc":
        absent = np.isnan(given)
        kept = given.astype(np.float32) if given.dtype.itemsize == 2 else given
        return Values(type, kept, absent if absent.any() else None)
    if given.dtype.kind in "biu":
        return Values(type, given)
    objects = np.empty(given.shape, object)
    objects.ravel()[:] = [_to_object(each, type) for each in given.ravel().tolist()]
    absent = np.asarray(objects == None, np.bool_)  # noqa: E711 (of each element)
    return Values(type, objects, absent if absent.any() else None)


def _to_object(value: Any, type: pa.DataType) -> Any:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if pa.types.is_binary(type):
        return bytes(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def to_arrow(values: Values) -> pa.Array:
    """Return the values as an Arrow array, in C order."""
    data, missing, type = values.data.reshape(-1), values.missing, values.type
    absent = None if missing is None else missing.reshape(-1)
    if pa.types.is_struct(type):
        parts = [
            _wrap(part, absent, type.field(i).type) for i, part in enumerate((data.real, data.imag))
        ]
        return pa.StructArray.from_arrays(parts, fields=list(type))
    if type == UNSIGNED_64:
        return pa.array(data, pa.uint64(), mask=absent).cast(type)
    if pa.types.is_boolean(type) or not pa.types.is_primitive(type):
        return pa.array(data, type, mask=absent)
    return _wrap(data, absent, type)


def _wrap(data: NDArray[Any], absent: NDArray[np.bool_] | None, type: pa.DataType) -> pa.Array:
    """Wrap numbers without conversion."""
    wide = np.ascontiguousarray(data, _physical(type))
    validity = None
    if absent is not None:
        validity = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    return pa.Array.from_buffers(type, len(wide), [validity, pa.py_buffer(wide)])


def _physical(type: pa.DataType) -> np.dtype[Any]:
    if type in _MICROSECONDS:
        return np.dtype(np.int64)
    found: np.dtype[Any] = np.dtype(type.to_pandas_dtype())
    return found


Kind = Literal["index", "coordinate", "variable"]


@dataclass(frozen=True, slots=True)
class Column:
    """Column of values along some of the dimensions of the rows."""

    name: str
    kind: Kind
    """Kind. An index has no array; coordinates with at most one dimension are kept in memory."""
    dims: tuple[str, ...]
    type: pa.DataType


def unknown_column(name: str, known: Sequence[str]) -> InvalidInputError:
    """Return the error for a column that a table does not have."""
    return InvalidInputError(f"unknown column {name!r}: {suggest(name, known)}")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """All columns of a table of cells, and the dimensions of its rows."""

    all: tuple[Column, ...]
    dims: tuple[str, ...]
    sizes: Mapping[str, int]
    variables: tuple[str, ...]
    """The selected arrays, by default all."""
    opened: tuple[str, ...]
    """The selected arrays and those that may be needed to decode them."""

    def get(self, name: str) -> Column:
        """Return a column by name; raises InvalidInputError."""
        for each in self.all:
            if each.name == name:
                return each
        raise unknown_column(name, [each.name for each in self.all])

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return the column types by name."""
        return {each.name: each.type for each in self.all}


_UNAUTHORIZED = "unauthorized-virtual-chunk-container"


class GroupArrays:
    """Arrays of a group at one version.

    Metadata is looked up once, and every chunk of a coordinate is read once. A copy in a task reads
    values anew, but not those that are needed only to decode.
    """

    def __init__(
        self, session: Session, group: str, pieces: Mapping[str, Pieces] | None = None
    ) -> None:
        self.session = session
        self.group = group_path(group)
        self._pieces: dict[str, Pieces] = dict(pieces or {})
        self._metadata: dict[str, dict[str, Any]] | None = None
        self._datasets: dict[tuple[str, ...], Dataset] = {}
        self._columns: dict[tuple[str, ...] | None, Columns] = {}
        self._coordinates: dict[tuple[tuple[str, ...], str], Values] = {}
        self._lock = RLock()

    def __reduce__(self) -> tuple[object, ...]:
        ends = {
            name: {number: pieces[number] for number in {min(pieces), max(pieces)}}
            for name, pieces in self._pieces.items()
            if pieces and next(iter(pieces.values())).dtype.kind in "iuf"
        }
        return (GroupArrays, (self.session, self.group, ends))

    @property
    def metadata(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the Zarr metadata of each array, by name; raises NodeNotFoundError."""
        if self._metadata is None:
            view = self.session.state.view
            if view.get_node(self.group).array is not None:
                raise InvalidInputError(
                    f"{self.group} is an array, not a group: name it with `variables`"
                )
            self._metadata = {
                node.path.rpartition("/")[2]: json.loads(node.user_data)
                for node in view.children(self.group)
                if node.array is not None
            }
        return self._metadata

    def find_owner(self, columns: Columns, name: str) -> "tuple[GroupArrays, Columns, str]":
        """Return the group that an array belongs to, its columns, and the name there."""
        return self, columns, name

    def path(self, name: str) -> str:
        """Return the path of an array."""
        return f"{self.group.rstrip('/')}/{name}"

    def open(self, names: Sequence[str]) -> "Dataset":
        """Open arrays with Xarray's decoding. Only the ends of times are read."""
        key = tuple(names)
        with self._lock:
            if key not in self._datasets:
                self._datasets[key] = self._open(key)
            return self._datasets[key]

    def _open(self, names: tuple[str, ...]) -> "Dataset":
        metadata = {name: self.metadata[name] for name in names}
        _refuse_unnamed(metadata)
        named = _named_coordinates(metadata.values())
        coordinates = {
            name: (self.grid(name).offsets[0], self._pieces.setdefault(name, {}))
            for name, document in metadata.items()
            if len(document["shape"]) == 1
            if name in named or document["dimension_names"] == [name]
        }
        return xarray_values.open_arrays(self.session, self.group, names, coordinates)

    def columns(self, variables: Sequence[str] | None) -> Columns:
        """Return the columns of arrays, by default all; raises InvalidInputError if dims disagree."""
        key = None if variables is None else tuple(variables)
        if key not in self._columns:
            self._columns[key] = self._find_columns(key)
        return self._columns[key]

    def _find_columns(self, variables: tuple[str, ...] | None) -> Columns:
        opened = tuple(self._list_needed(variables))
        dataset = self.open(opened)
        selected = _select_variables(dataset, variables)
        dims = common_dims(dataset, selected)
        coordinates = [
            str(name) for name in dataset.coords if name not in dims and name not in selected
        ]
        found: dict[str, Column] = {}
        for name in (*dims, *coordinates, *selected):
            if name not in dataset.variables:
                found[name] = Column(name, "index", (name,), pa.int64())
            elif set(dataset.variables[name].dims) <= set(dims):
                found[name] = _column(dataset, name, self.metadata[name])
        sizes = {dim: int(dataset.sizes[dim]) for dim in dims}
        return Columns(tuple(found.values()), dims, sizes, tuple(selected), opened)

    def _list_needed(self, variables: Sequence[str] | None) -> list[str]:
        """Return the selected arrays and all possible coordinates of them."""
        arrays = self.metadata
        if variables is None:
            return list(arrays)
        for name in variables:
            if name not in arrays:
                raise NodeNotFoundError(
                    f"{self.group} has no array {name!r}: {suggest(name, sorted(arrays))}"
                )
        dims = {dim for name in variables for dim in arrays[name].get("dimension_names") or ()}
        named = _named_coordinates(arrays.values())
        return [name for name in arrays if name in {*variables, *dims, *named}]

    def grid(self, name: str, dims: tuple[str, ...] | None = None) -> Grid:
        """Return the chunk grid of an array, by default with the names of its dimensions."""
        document = self.metadata[name]
        grid = document["chunk_grid"]
        if grid["name"] == "regular":
            lengths = zip(document["shape"], grid["configuration"]["chunk_shape"], strict=True)
            offsets = [regular_offsets(size, each) for size, each in lengths]
        else:
            path = self.path(name).lstrip("/")
            array: Any = zarr.open_array(self.session.store, path=path, mode="r")
            offsets = [np.append(0, np.cumsum(each)) for each in array.write_chunk_sizes]
        named = dims if dims is not None else tuple(document.get("dimension_names") or ())
        # Xarray joins the characters of texts, which takes their dimension away.
        return Grid(named, tuple(each.astype(np.int64) for each in offsets[: len(named)]))

    def read(self, columns: Columns, name: str, region: Region) -> Values:
        """Read a column in a region; raises InvalidInputError if access is not authorized."""
        variable: Any = self.open(columns.opened).variables[name]
        try:
            return make_values(variable[region].values, columns.get(name).type)
        except InvalidInputError as error:
            raise _explain_access(error) from error

    def read_coordinate(self, columns: Columns, name: str) -> Values:
        """Read a whole coordinate, or return it if it was read before."""
        # What it is decoded to may depend on the other arrays that are opened.
        key = (columns.opened, name)
        if key not in self._coordinates:
            column = columns.get(name)
            whole = tuple(slice(0, columns.sizes[dim]) for dim in column.dims)
            self._coordinates[key] = (
                Values(column.type, np.arange(whole[0].stop, dtype=np.int64))
                if column.kind == "index"
                else self.read(columns, name, whole)
            )
        return self._coordinates[key]

    def check_access(self, name: str, chunk: tuple[int, ...]) -> None:
        """Raise InvalidInputError if a chunk is virtual and access to it is not authorized."""
        state = self.session.state
        node, _ = state.view.get_array(self.path(name))
        ref = state.view.find_chunk(node, chunk)
        if isinstance(ref, VirtualRef):
            try:
                state.context.virtual.check_location(ref.location)
            except InvalidInputError as error:
                raise _explain_access(error) from error

    @property
    def is_restricted(self) -> bool:
        """Return True if access to some virtual chunks may not be authorized."""
        return self.session.state.context.virtual.is_restricted


def is_unauthorized(error: InvalidInputError) -> bool:
    """Return True if access to a virtual chunk was not authorized."""
    return error.kind == _UNAUTHORIZED


def _explain_access(error: InvalidInputError) -> InvalidInputError:
    if not is_unauthorized(error):
        return error
    what, _, _ = error.message.partition(": to read")
    prefix = what.rpartition(" at ")[2].partition(" ")[0]
    return InvalidInputError(
        f'{what}: add authorize="{prefix}", or authorize="*" for all containers, to frazil.spark.sql, '
        f'read or attach; to spark.read, add .option("authorize", "*"); to a table in SQL, '
        "OPTIONS (authorize '*')",
        kind=error.kind,
    )


def group_path(group: str) -> str:
    """Normalize the path of a group, given with or without a leading slash."""
    return validate_path("/" + group.strip("/"))


def _named_coordinates(documents: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the names in the attribute `coordinates` of arrays."""
    attributes = [each.get("attributes") or {} for each in documents]
    return {name for each in attributes for name in str(each.get("coordinates", "")).split()}


def _select_variables(dataset: "Dataset", variables: Sequence[str] | None) -> list[str]:
    if variables is not None:
        return list(dict.fromkeys(variables))
    return [str(name) for name in (dataset.data_vars or dataset.coords)]


def common_dims(dataset: "Dataset", names: Sequence[str]) -> tuple[str, ...]:
    """Return the dimensions of the array that has most; all others must broadcast to them."""
    dims = {name: tuple(map(str, dataset.variables[name].dims)) for name in names}
    if not dims:
        raise InvalidInputError("the group has no arrays that can be columns")
    largest = max(dims, key=lambda name: len(dims[name]))
    odd = next((name for name in dims if not set(dims[name]) <= set(dims[largest])), None)
    if odd is not None:
        shown = [f"{name}({', '.join(dims[name])})" for name in (largest, odd)]
        raise InvalidInputError(
            f"{' and '.join(shown)} can't be columns of one table, because each has a dimension that "
            "the other lacks: select arrays with common dimensions with `variables`"
        )
    return dims[largest]


def _column(dataset: "Dataset", name: str, document: Mapping[str, Any]) -> Column:
    variable = dataset.variables[name]
    is_bytes = document.get("data_type") in ("variable_length_bytes", "bytes")
    dims = tuple(map(str, variable.dims))
    is_coordinate = name in dataset.coords and len(dims) <= 1
    return Column(
        name,
        "coordinate" if is_coordinate else "variable",
        dims,
        find_type(name, variable.dtype, is_bytes=is_bytes),
    )


def _refuse_unnamed(arrays: Mapping[str, Mapping[str, Any]]) -> None:
    for name, document in arrays.items():
        names = document.get("dimension_names") or ()
        if None in names or len(names) != len(document["shape"]):
            raise InvalidInputError(
                f"the array {name} has dimensions without names, which columns need: leave it out with "
                "`variables`"
            )


# Arrays of several groups


@dataclass(frozen=True, slots=True, eq=False)
class JoinedPart:
    """Columns of one group in a joined table."""

    arrays: GroupArrays
    columns: Columns
    names: Mapping[str, str]
    """Names in the group, by names in the joined table."""


class JoinedArrays(GroupArrays):
    """Arrays of several groups, whose coordinates along common dimensions are equal.

    It also has coordinates that are computed for a query.
    """

    def __init__(
        self, parts: Sequence[JoinedPart], computed: Mapping[str, tuple[str, Values]] | None = None
    ) -> None:
        first = max(parts, key=lambda each: len(each.columns.dims))
        super().__init__(first.arrays.session, first.arrays.group)
        self._parts = tuple(parts)
        self._computed = dict(computed or {})
        found = {
            name: replace(part.columns.get(own), name=name)
            for part in parts
            for name, own in part.names.items()
        }
        for name, (dim, values) in self._computed.items():
            found[name] = Column(name, "coordinate", (dim,), values.type)
        variables = [name for name, each in found.items() if each.kind == "variable"]
        self._joined = Columns(
            tuple(found.values()), first.columns.dims, first.columns.sizes, tuple(variables), ()
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (JoinedArrays, (self._parts, self._computed))

    def compute(self, more: Mapping[str, tuple[str, Values]]) -> "JoinedArrays":
        """Return these arrays with more computed coordinates."""
        return JoinedArrays(self._parts, {**self._computed, **more})

    def find_owner(self, columns: Columns, name: str) -> tuple[GroupArrays, Columns, str]:
        """Return the group that an array belongs to, its columns, and the name there."""
        del columns
        for part in self._parts:
            if name in part.names:
                return part.arrays, part.columns, part.names[name]
        raise KeyError(name)

    @property
    def metadata(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the Zarr metadata of each array, by its name here."""
        return {
            name: part.arrays.metadata[own]
            for part in self._parts
            for name, own in part.names.items()
            if own in part.arrays.metadata
        }

    def columns(self, variables: Sequence[str] | None) -> Columns:
        """Return the columns of all arrays."""
        del variables
        return self._joined

    def grid(self, name: str, dims: tuple[str, ...] | None = None) -> Grid:
        """Return the chunk grid of an array."""
        arrays, _, own = self.find_owner(self._joined, name)
        return arrays.grid(own, dims)

    def read(self, columns: Columns, name: str, region: Region) -> Values:
        """Read a column in a region."""
        arrays, own_columns, own = self.find_owner(columns, name)
        return arrays.read(own_columns, own, region)

    def read_coordinate(self, columns: Columns, name: str) -> Values:
        """Read a whole coordinate, or return a computed one."""
        if name in self._computed:
            return self._computed[name][1]
        arrays, own_columns, own = self.find_owner(columns, name)
        return arrays.read_coordinate(own_columns, own)

    def check_access(self, name: str, chunk: tuple[int, ...]) -> None:
        """Raise InvalidInputError if a chunk is virtual and access to it is not authorized."""
        arrays, _, own = self.find_owner(self._joined, name)
        arrays.check_access(own, chunk)

    @property
    def is_restricted(self) -> bool:
        """Return True if access to some virtual chunks may not be authorized."""
        return any(part.arrays.is_restricted for part in self._parts)


def join_arrays(
    tables: Sequence[tuple[str, GroupArrays, Columns]], keys: Sequence[frozenset[str]]
) -> tuple[JoinedArrays, dict[tuple[str, str], str]] | None:
    """Join tables by their dimensions; None if that is not what a join of their rows gives.

    Parameters
    ----------
    tables
        Qualifier, arrays and columns of each table.
    keys
        Columns that each table but the first is joined by.

    Returns
    -------
    tuple or None
        The arrays, and the names of their columns by qualifier and own name.
    """
    first = max((columns for _, _, columns in tables), key=lambda each: len(each.dims))
    shared: dict[str, Values] = {}
    for number, (_, arrays, columns) in enumerate(tables):
        dims = frozenset(columns.dims)
        before = frozenset(dim for _, _, each in tables[:number] for dim in each.dims)
        # Each row has exactly one partner if all dimensions of one side are joined by.
        if not dims <= set(first.dims) or (number and keys[number - 1] != dims & before):
            return None
        if number and not (dims <= before or before <= dims):
            return None
        if any(columns.sizes[dim] != first.sizes[dim] for dim in dims):
            return None
        for dim in columns.dims:
            values = arrays.read_coordinate(columns, dim)
            if not _is_equal(shared.setdefault(dim, values), values):
                return None
    if not all(map(_is_unique, shared.values())):
        return None
    parts: list[JoinedPart] = []
    found: dict[tuple[str, str], str] = {}
    for number, (qualifier, arrays, columns) in enumerate(tables):
        names = {}
        for each in columns.all:
            is_dim = each.name in columns.dims
            name = each.name if is_dim else f"{number}.{each.name}"
            found[qualifier, each.name] = name
            if not (is_dim and any(name in part.names for part in parts)):
                names[name] = each.name
        parts.append(JoinedPart(arrays, columns, names))
    return JoinedArrays(parts), found


def identity(arrays: GroupArrays, columns: Columns) -> JoinedArrays:
    """Return the arrays of one group, to which coordinates can be added."""
    if isinstance(arrays, JoinedArrays):
        return arrays
    return JoinedArrays(
        [JoinedPart(arrays, columns, {each.name: each.name for each in columns.all})]
    )


def _is_equal(one: Values, other: Values) -> bool:
    if one is other:
        return True
    same = one.type == other.type and np.array_equal(one.data, other.data)
    return same and one.missing is None and other.missing is None


def _is_unique(values: Values) -> bool:
    return values.missing is None and len(np.unique(values.data)) == values.data.size
