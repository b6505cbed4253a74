"""Values by Xarray's conventions: decoded from arrays, encoded for them, and as datasets."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xarray
import zarr
from numpy.typing import NDArray
from xarray import Dataset, Variable
from xarray.backends.zarr import ZarrArrayWrapper, ZarrStore
from xarray.conventions import decode_cf_variable, encode_cf_variable
from xarray.core.indexing import LazilyIndexedArray
from zarr.core import codec_pipeline

from frazil.errors import InvalidInputError
from frazil.repository.session import Session
from frazil.tables.columns import (
    DURATION,
    TIMESTAMP,
    UNSIGNED_64,
    Offsets,
    Pieces,
    Values,
    common_dims,
    find_type,
    make_values,
    to_arrow,
    unknown_column,
)

_CF = (
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "units",
    "calendar",
    "_Unsigned",
)
_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Array and the encoding of its values."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    type: pa.DataType
    """Type of the column it is read as."""
    decoded: np.dtype[Any]
    raw: np.dtype[Any]
    encoding: Mapping[str, Any]
    fill_value: Any
    """Value of unwritten cells."""
    fills_nulls: bool = False
    """True if nulls become the fill value where the array can't store them."""
    is_kept: bool = False
    """True if rows can't change values that have been set."""

    @property
    def cf(self) -> dict[str, Any]:
        """Return the CF attributes of the encoding that affect values."""
        return {key: self.encoding[key] for key in _CF if self.encoding.get(key) is not None}


def show(values: pa.Array | pa.ChunkedArray) -> str:
    """Format the first values for a message."""
    shown = ", ".join(str(each) for each in values[:_SHOWN].to_pylist())
    return shown if len(values) <= _SHOWN else f"{shown} and {len(values) - _SHOWN} more"


def cast_column(name: str, column: pa.Array | pa.ChunkedArray, type: pa.DataType) -> pa.Array:
    """Cast a column of rows to the type the array is read as; raises InvalidInputError."""
    given = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(given, pa.ChunkedArray):
        given = pa.concat_arrays(given.chunks)
    try:
        if pa.types.is_date(given.type) and type == TIMESTAMP:
            given = given.cast(pa.timestamp("us"))
        if pa.types.is_timestamp(type) and pa.types.is_string(given.type):
            raise pa.ArrowInvalid("a text is no timestamp, write TIMESTAMP '…'")
        if pa.types.is_decimal(given.type) and pa.types.is_floating(type):
            # Arrow's own cast doesn't give the nearest number: 0.3 becomes 0.30000000000000004.
            given = given.cast(pa.string())
        found: pa.Array = given.cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"can't cast the column {name} from {given.type} to the type {type} of the array: {error}"
        ) from error
    if pa.types.is_floating(type):
        found = _refuse_overflow(name, given, found)
    return found


def _refuse_overflow(name: str, given: pa.Array, found: pa.Array) -> pa.Array:
    lost = pc.and_(pc.is_inf(found), pc.invert(pc.is_inf(given.cast(pa.float64()))))
    if pc.any(lost).as_py():
        raise InvalidInputError(
            f"the value {show(given.filter(lost))} of the column {name} is too large for {found.type}"
        )
    # Negative zero becomes zero, and NaN becomes null.
    positive = pc.add(found, pa.scalar(0.0, found.type))
    return pc.if_else(pc.is_nan(positive), pa.scalar(None, found.type), positive)


def to_values(column: pa.Array) -> Values:
    """Convert an Arrow column to `Values`."""
    type = column.type
    missing = np.asarray(column.is_null()) if column.null_count else None
    if pa.types.is_struct(type):
        parts = [column.field(i).fill_null(0).to_numpy(zero_copy_only=False) for i in range(2)]
        return Values(type, parts[0] + 1j * parts[1], missing)
    if type in (TIMESTAMP, DURATION):
        return Values(type, column.cast(pa.int64()).fill_null(0).to_numpy(), missing)
    if type == UNSIGNED_64:
        column = column.cast(pa.uint64())
    if pa.types.is_primitive(column.type):
        zero = pa.scalar(False if pa.types.is_boolean(column.type) else 0, column.type)
        return Values(type, column.fill_null(zero).to_numpy(zero_copy_only=False), missing)
    objects = np.empty(len(column), object)
    objects[:] = column.to_pylist()
    return Values(type, objects, missing)


def encode(stored: Stored, column: pa.Array) -> NDArray[Any]:
    """Encode the values of a column as the array stores them; raises InvalidInputError."""
    if stored.fills_nulls and column.null_count and not _has_null(stored):
        found = np.full(len(column), stored.fill_value, stored.raw)
        found[np.asarray(column.is_valid())] = encode(stored, column.drop_null())
        return found
    values = to_values(column)
    decoded = _decoded(stored, values)
    if stored.decoded.kind in "OTUSV":
        raw = decoded.astype(stored.raw)
        if raw.dtype.kind in "SU":
            # NumPy cuts texts that are longer than those of the array.
            _refuse_unless(raw == decoded.astype(raw.dtype.kind), stored, column)
        return raw
    if not stored.cf and stored.decoded == stored.raw:
        return decoded
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variable = Variable(("cell",), decoded, encoding={**stored.cf, "dtype": stored.raw})
        try:
            encoded = encode_cf_variable(variable, name=stored.name)
            raw = np.asarray(encoded.values).astype(stored.raw)
            again = decode_cf_variable(
                stored.name, Variable(("cell",), raw, _attributes(stored)), decode_timedelta=True
            ).values
        except (ValueError, OverflowError, TypeError) as error:
            raise InvalidInputError(
                f"can't encode the column {stored.name} as the array is encoded: {error}"
            ) from error
    _refuse_unless(_is_same(stored, decoded, again), stored, column)
    return raw


def _refuse_unless(is_kept: NDArray[np.bool_], stored: Stored, column: pa.Array) -> None:
    if is_kept.all():
        return
    how = ", ".join(f"{key}={value}" for key, value in stored.cf.items())
    raise InvalidInputError(
        f"can't store {show(column.filter(pa.array(~is_kept)))} of the column {stored.name} as "
        f"{stored.raw}{f' with {how}' if how else ''}: it would be read as another value"
    )


def null_of(stored: Stored) -> Any:
    """Return the stored value of a null cell; the fill value if the array can't store nulls."""
    if not _has_null(stored):
        return stored.fill_value
    return encode(stored, pa.nulls(1, stored.type))[0]


def _has_null(stored: Stored) -> bool:
    return stored.decoded.kind in "fcmM"


def _attributes(stored: Stored) -> dict[str, Any]:
    kept = stored.cf
    if stored.decoded.kind == "m":
        kept["dtype"] = str(stored.encoding.get("dtype", "timedelta64[ns]"))
    return kept


def _decoded(stored: Stored, values: Values) -> NDArray[Any]:
    """Return values as Xarray represents them, with its markers for missing ones."""
    kind = stored.decoded.kind
    if values.missing is not None and not _has_null(stored):
        raise InvalidInputError(
            f"the column {stored.name} has nulls, but the array has no `_FillValue`: fill the nulls"
        )
    if kind in "mM":
        times = values.data.astype(np.int64)
        if values.missing is not None:
            times = np.where(values.missing, np.iinfo(np.int64).min, times)
        return times.view("datetime64[us]" if kind == "M" else "timedelta64[us]")
    if kind in "fc":
        wide = values.data.astype(stored.decoded)
        return wide if values.missing is None else np.where(values.missing, np.nan, wide)
    if kind == "O" and values.data.dtype != object:
        raise InvalidInputError(
            f"can't store the type {values.type} in the array {stored.name}: cast the column"
        )
    if kind in "OTUSV":
        return values.data
    numbers = values.data.astype(stored.decoded)
    _refuse_unless(numbers == values.data, stored, to_arrow(values))
    return numbers


def _is_same(stored: Stored, given: NDArray[Any], again: NDArray[Any]) -> NDArray[np.bool_]:
    if given.dtype.kind != again.dtype.kind:
        return np.zeros(given.shape, np.bool_)
    if given.dtype.kind in "mM":
        found: NDArray[np.bool_] = (given == again) | (np.isnat(given) & np.isnat(again))
        return found
    if given.dtype.kind in "fc":
        step = abs(float(stored.encoding.get("scale_factor", 1.0)))
        is_packed = stored.raw.kind in "iu" and "scale_factor" in stored.encoding
        rough = np.finfo(stored.raw).eps * 2 if stored.raw.kind == "f" else 1e-12
        near = np.isclose(
            again, given, rtol=max(rough, np.finfo(stored.decoded).eps * 4),
            atol=step * 0.5001 if is_packed else 0, equal_nan=True,
        )  # fmt: skip
        return np.asarray(near)
    return np.asarray(given == again)


# Datasets

_SPARSE = 100
_LARGE = 10_000_000
_EXACT = 1 << 53
"""Integers up to this are exact as floats."""


def to_dataset(
    table: pa.Table, dims: Sequence[str], fill_value: Mapping[str, Any] | None = None
) -> Dataset:
    """Return rows as a dataset on the grid of their distinct coordinates.

    Parameters
    ----------
    table
        Rows.
    dims
        Columns of the dimensions, in order; the other columns become variables.
    fill_value
        Values of missing cells, by column. By default they are missing: NaN, NaT or None.

    Raises
    ------
    InvalidInputError
        If several rows have the same coordinates, a coordinate is missing, or the grid would be much
        larger than the rows.
    """
    for name in (*dims, *(fill_value or ())):
        if name not in table.column_names:
            raise unknown_column(name, table.column_names)
    if not dims or len(set(dims)) != len(dims):
        raise InvalidInputError(f"invalid dims {list(dims)}: name each dimension once")
    axes, places = {}, []
    for dim in dims:
        values = _to_numpy(dim, table[dim], None)
        if table[dim].null_count or (values.dtype.kind == "f" and np.isnan(values).any()):
            raise InvalidInputError(f"the dimension {dim} has nulls: leave these rows out")
        axes[dim], place = np.unique(values, return_inverse=True)
        places.append(place.reshape(-1))
    shape = tuple(len(each) for each in axes.values())
    if prod(shape) > max(_LARGE, _SPARSE * table.num_rows):
        raise InvalidInputError(
            f"the grid of {' × '.join(map(str, shape))} cells is much larger than the "
            f"{table.num_rows} rows: choose other dims, or select fewer rows"
        )
    numbers = np.ravel_multi_index(places, shape) if table.num_rows else np.empty(0, np.int64)
    _refuse_same_cells(numbers, axes)
    variables = {
        name: (
            tuple(dims),
            _to_grid(name, table[name], numbers, shape, (fill_value or {}).get(name)),
        )
        for name in table.column_names
        if name not in dims
    }
    return Dataset(variables, axes)


def _refuse_same_cells(numbers: NDArray[np.int64], axes: Mapping[str, NDArray[Any]]) -> None:
    distinct, counts = np.unique(numbers, return_counts=True)
    repeated = distinct[counts > 1]
    if len(repeated):
        place = np.unravel_index(repeated[0], tuple(len(each) for each in axes.values()))
        shown = ", ".join(
            f"{dim}={values[int(index)]}"
            for (dim, values), index in zip(axes.items(), place, strict=True)
        )
        more = f" and {len(repeated) - 1} more cells" if len(repeated) > 1 else ""
        raise InvalidInputError(
            f"several rows for {shown}{more}: add a dimension, or aggregate them"
        )


def _to_grid(
    name: str,
    column: pa.ChunkedArray,
    numbers: NDArray[np.int64],
    shape: tuple[int, ...],
    fill: Any,
) -> NDArray[Any]:
    values = _to_numpy(name, column, fill)
    size = prod(shape)
    if len(numbers) == size:
        grid = np.empty(size, values.dtype)
    elif fill is not None:
        grid = np.full(size, fill, values.dtype)
    else:
        values = _with_missing(name, values)
        missing = {"O": None, "m": "NaT", "M": "NaT"}.get(values.dtype.kind, np.nan)
        grid = np.full(size, missing, values.dtype)
    grid[numbers] = values
    return grid.reshape(shape)


def _to_numpy(name: str, column: pa.ChunkedArray, fill: Any) -> NDArray[Any]:
    """Return a column as Xarray has such values; nulls are filled or missing."""
    flat = column.combine_chunks()
    flat = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
    if pa.types.is_decimal(flat.type):
        flat = flat.cast(pa.float64())
    elif pa.types.is_date(flat.type):
        flat = flat.cast(pa.timestamp("us")).cast(TIMESTAMP)
    elif pa.types.is_timestamp(flat.type) and flat.type != TIMESTAMP:
        flat = flat.cast(pa.timestamp("us", flat.type.tz)).cast(TIMESTAMP)
    values = to_values(flat)
    data = values.data
    if values.type in (TIMESTAMP, DURATION):
        kind = "datetime64" if values.type == TIMESTAMP else "timedelta64"
        data = data.view(f"{kind}[us]")
        fine = data.astype(f"{kind}[ns]")
        # Xarray has nanoseconds, but these span fewer years.
        data = fine if (fine.astype(data.dtype) == data).all() else data
    if values.missing is None:
        return data
    if fill is None:
        data = _with_missing(name, data, values.missing)
        fill = {"O": None, "m": "NaT", "M": "NaT"}.get(data.dtype.kind, np.nan)
    data = data.copy()
    data[values.missing] = fill
    return data


def _with_missing(name: str, data: NDArray[Any], missing: Any = False) -> NDArray[Any]:
    """Return values as a type that has missing ones."""
    if data.dtype.kind in "iu":
        there = data[~np.broadcast_to(missing, data.shape)]
        if np.any(there > _EXACT) or np.any(there < -_EXACT):
            raise InvalidInputError(
                f"the column {name} has missing cells, and integers that are not exact as floats: give "
                "its fill_value"
            )
        return data.astype(np.float64)
    return data.astype(object) if data.dtype.kind in "bSU" else data


def from_dataset(dataset: Dataset) -> pa.Table:
    """Return the cells of a dataset as rows: coordinates, then variables.

    Raises
    ------
    InvalidInputError
        If two variables each have a dimension that the other lacks.
    """
    variables = [str(name) for name in dataset.data_vars]
    if not variables:
        raise InvalidInputError("the dataset has no variable: add one")
    dims = common_dims(dataset, variables)
    sizes = {dim: dataset.sizes[dim] for dim in dims}
    coordinates = {
        str(name): each.variable
        for name, each in dataset.coords.items()
        if set(each.dims) <= set(dims)
    }
    indexes = {
        dim: coordinates.pop(dim, Variable((dim,), np.arange(size, dtype=np.int64)))
        for dim, size in sizes.items()
    }
    columns = {**indexes, **coordinates, **{name: dataset[name].variable for name in variables}}
    arrays = {}
    for name, variable in columns.items():
        spread = np.asarray(variable.set_dims(sizes).transpose(*dims).values)
        is_bytes = spread.dtype.kind == "S" or (
            spread.dtype.kind == "O" and any(isinstance(each, bytes) for each in spread.flat[:1])
        )
        arrays[name] = to_arrow(
            make_values(spread, find_type(name, spread.dtype, is_bytes=is_bytes))
        )
    return pa.table(arrays)


# Decoded arrays


class _CoordinateArray(ZarrArrayWrapper):
    """Coordinate of one dimension that keeps every chunk it has read.

    Xarray reads the first and the last value of times to find their type, and a scan all of them.
    """

    __slots__ = ("_offsets", "_pieces")

    def __init__(self, array: Any, offsets: Offsets, pieces: Pieces) -> None:
        init: Any = super().__init__  # Xarray has no types here.
        init(array)
        self._offsets = offsets
        self._pieces = pieces

    def _getitem(self, key: tuple[Any, ...]) -> Any:
        (part,) = key
        start, stop, step = part.indices(self.shape[0]) if isinstance(part, slice) else (0, 0, 0)
        if step != 1 or stop <= start:
            return self._array[key]
        first = int(np.searchsorted(self._offsets, start, "right")) - 1
        end = int(np.searchsorted(self._offsets, stop, "left"))
        self._read([number for number in range(first, end) if number not in self._pieces])
        whole = np.concatenate([self._pieces[number] for number in range(first, end)])
        origin = int(self._offsets[first])
        return whole[start - origin : stop - origin]

    def _read(self, missing: list[int]) -> None:
        """Read chunks; neighbours together."""
        for run in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
            if not len(run):
                continue
            cuts = self._offsets[int(run[0]) : int(run[-1]) + 2]
            values = np.asarray(self._array[int(cuts[0]) : int(cuts[-1])])
            pieces = np.split(values, cuts[1:-1] - cuts[0])
            self._pieces.update(zip(map(int, run), pieces, strict=True))


class _SomeArrays(ZarrStore):
    """Zarr group from which Xarray opens only some arrays, because it may not support others."""

    names: Sequence[str] = ()
    coordinates: Mapping[str, tuple[Offsets, Pieces]] = {}

    def array_keys(self) -> tuple[str, ...]:
        """Return the names of the arrays to open."""
        return tuple(self.names)

    def open_store_variable(self, name: str) -> Variable:
        """Open an array; coordinates keep what they have read."""
        open_array: Any = super().open_store_variable
        variable: Variable = open_array(name)
        if name in self.coordinates:
            array = _CoordinateArray(self.members[name], *self.coordinates[name])
            variable.data = LazilyIndexedArray(array)
        return variable


def open_arrays(
    session: Session,
    group: str,
    names: Sequence[str],
    coordinates: Mapping[str, tuple[Offsets, Pieces]],
) -> Dataset:
    """Open arrays of a group; `coordinates` are those that keep what they have read."""
    # An array keeps the pipeline that it is opened with.
    with zarr.config.set(_FUSED):
        store = _SomeArrays.open_group(
            session.store,
            group=group.lstrip("/") or None,
            mode="r",
            consolidated=False,
            zarr_format=3,
            cache_members=False,
        )
        store.names = names
        store.coordinates = coordinates
        dataset: Dataset = xarray.open_dataset(
            store, chunks=None, cache=False, create_default_indexes=False
        )
    return dataset


_FUSED = (
    {"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}
    if hasattr(codec_pipeline, "FusedCodecPipeline")
    else {}
)
"""Zarr's pipeline that decodes without an event loop, in two thirds of the time, where there is one."""
