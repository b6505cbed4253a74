"""Checks of values: how many are missing, and how large they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from frazil.spark.arrays.regions import cut, grow, slices_of, whole
from frazil.spark.checks.findings import Finding
from frazil.spark.checks.missing import find_missing
from frazil.spark.checks.subjects import NewRegion

_BLOCK_BYTES = 64 << 20
_NUMBERS = "biufc"
_TIMES = "mM"


@dataclass(frozen=True, slots=True)
class FillShare:
    """No more than a share of the values is missing."""

    at_most: float
    variables: tuple[str, ...] | None = None
    name: str = "fill_share"
    share_read: float = 1.0

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """A finding for each variable of which more is missing."""
        found = []
        for name, array in choose(region.dataset, self.variables, _NUMBERS + _TIMES):
            missing = sum(count_missing(block) for block in read_blocks(array))
            if missing > self.at_most * array.size:
                share = missing / array.size
                text = f"{share:.1%} of its values are missing, more than {self.at_most:.1%}"
                found.append(region.find(self.name, text, name))
        return found


@dataclass(frozen=True, slots=True)
class ValuesBetween:
    """Values are in a range; missing ones don't count."""

    low: float
    high: float
    variables: tuple[str, ...] | None = None
    name: str = "values_between"
    share_read: float = 1.0

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """A finding for each variable that has others."""
        found = []
        for name, array in choose(region.dataset, self.variables, "biuf"):
            outside = [
                each
                for block in read_blocks(array)
                if (each := find_outside(block, self.low, self.high)) is not None
            ]
            if outside:
                counts, lows, highs = zip(*outside, strict=True)
                text = (
                    f"{sum(counts)} values are outside of {self.low:g} to {self.high:g}: "
                    f"{min(lows):g} to {max(highs):g}"
                )
                found.append(region.find(self.name, text, name))
        return found


def fill_share(at_most: float, variables: Sequence[str] | None = None) -> FillShare:
    """No more than a share of the values of a file is missing: NaN, also by a fill value."""
    return FillShare(at_most, None if variables is None else tuple(variables))


def values_between(
    low: float, high: float, variables: Sequence[str] | None = None
) -> ValuesBetween:
    """Values are in a range, as they are read, scale and offset applied; missing ones don't count."""
    return ValuesBetween(low, high, None if variables is None else tuple(variables))


def count_missing(values: NDArray[Any]) -> int:
    """How many are NaN, or no time."""
    return int(np.count_nonzero(find_missing(values)))


def find_outside(values: NDArray[Any], low: float, high: float) -> tuple[int, float, float] | None:
    """How many values are outside of a range, with the least and the largest; None for none."""
    outside = values[(values < low) | (values > high)]
    if not outside.size:
        return None
    return outside.size, float(outside.min()), float(outside.max())


def choose(
    dataset: xr.Dataset, names: Sequence[str] | None, kinds: str
) -> Iterator[tuple[str, xr.DataArray]]:
    """The named variables, or all that are no coordinates and have values of some kinds."""
    if names is not None:
        absent = [name for name in names if name not in dataset.variables]
        if absent:
            raise KeyError(f"there are no variables {', '.join(absent)}")
        yield from ((name, dataset[name]) for name in names if dataset[name].size)
        return
    for name, array in dataset.data_vars.items():
        if array.dtype.kind in kinds and array.size:
            yield str(name), array


def read_blocks(array: xr.DataArray, most_bytes: int = _BLOCK_BYTES) -> Iterator[NDArray[Any]]:
    """The values of an array, a few chunks at a time."""
    size = grow(find_chunks(array), array.shape, most_bytes // max(1, array.dtype.itemsize))
    for box in cut(whole(array.shape), size):
        yield np.asarray(array[slices_of(box)].values)


def find_chunks(array: xr.DataArray) -> tuple[int, ...]:
    """The shape of its chunks, where it is known."""
    chunks = array.encoding.get("chunks") or array.shape
    return tuple(
        max(1, min(size, length)) for size, length in zip(chunks, array.shape, strict=True)
    )
