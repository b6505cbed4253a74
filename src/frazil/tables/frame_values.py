"""Encoding of columns as the values that arrays store."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xarray import Variable
from xarray.conventions import decode_cf_variable, encode_cf_variable

from frazil.errors import InvalidInputError
from frazil.tables.columns import DURATION, TIMESTAMP, UNSIGNED_64, Values, to_arrow

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
            raise pa.ArrowInvalid("a text is no timestamp")
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
        return decoded.astype(stored.raw)
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
