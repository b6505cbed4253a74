"""Types of columns, and values as they are kept, compared and handed over.

Spark has no unsigned numbers, no half floats and no nanoseconds. What it has instead:

==========================  =====================================================================
decoded by Xarray           column
==========================  =====================================================================
uint8, uint16, uint32       smallint, int, bigint
uint64                      decimal(20, 0)
float16                     float
complex                     struct<re, im>
datetime64                  timestamp, in microseconds: what is finer is cut off
times of other calendars    string, as ISO 8601
timedelta64                 interval day to second
texts                       string
bytes of any kind           binary
==========================  =====================================================================

NaN, NaT and whatever `_FillValue` masks are null.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError

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
    """The type of the column of a variable; raises InvalidInputError where there is none."""
    if is_bytes:
        return pa.binary()
    found = _BY_CODE.get(f"{dtype.kind}{dtype.itemsize}") or _BY_KIND.get(dtype.kind)
    if found is None or dtype.names is not None:
        raise InvalidInputError(
            f"{name} has the type {dtype}, which no column has: leave it out with `variables`"
        )
    return found


def byte_width(type: pa.DataType) -> int:
    """About how much a value of a column takes."""
    if pa.types.is_struct(type):
        return sum(byte_width(field.type) for field in type)
    return 16 if not pa.types.is_primitive(type) else max(type.bit_width // 8, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values of a column, of any shape.

    They are numbers as numpy has them, microseconds for times, or objects; what is at missing ones
    means nothing.
    """

    type: pa.DataType
    data: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    """None if none is."""

    def __getitem__(self, key: Any) -> "Values":
        """A part of them, as numpy takes it."""
        if isinstance(key, tuple):
            key = (*key, ...)  # what has no dimension stays an array
        missing = None if self.missing is None else self.missing[key]
        return Values(self.type, self.data[key], missing)

    def spread(self, shape: tuple[int, ...]) -> "Values":
        """Repeated to a shape, as numpy broadcasts."""
        missing = None if self.missing is None else np.broadcast_to(self.missing, shape)
        return Values(self.type, np.broadcast_to(self.data, shape), missing)

    def reshape(self, shape: tuple[int, ...]) -> "Values":
        """The same values in another shape."""
        missing = None if self.missing is None else self.missing.reshape(shape)
        return Values(self.type, self.data.reshape(shape), missing)

    @property
    def present(self) -> Any:
        """Where there is a value."""
        return True if self.missing is None else ~self.missing


def make_values(data: Any, type: pa.DataType) -> Values:
    """Values as Xarray decodes them, for a column of a type that `find_type` gave."""
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
    """The column of values, in the order of C."""
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
    """Numbers as they are in memory."""
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
