"""Measures of the values of chunks: count, null count, least, greatest, sum. Pure.

Integers and times are kept as integers, times in microseconds, so that nothing is rounded; floats as
doubles. Texts, bytes and complex numbers are only counted. Of times there is no sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.frames.grids import Grid
from frazil.frames.types import DURATION, TIMESTAMP, UNSIGNED_64, Values

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
        found["sum"] = _fit(measured["sum"] * times) if exact else measured["sum"] * times
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
    return _fit((int(high.sum(dtype=wide.dtype)) << 32) + int(low.sum(dtype=np.uint64)))


def _fit(number: int) -> int:
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
