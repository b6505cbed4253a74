"""A check of samples: chunks decode, and have the values of the source file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from frazil.spark.arrays.regions import Box, cut, slices_of, whole
from frazil.spark.checks.findings import Finding
from frazil.spark.checks.subjects import NewRegion
from frazil.spark.checks.values import choose, find_chunks
from frazil.virtual.sources.headers import is_time

_COMPARED = "biufcmM"
_WHOLE_ITEMS = 1 << 20
"""Arrays of times up to this size are compared as a whole."""


@dataclass(frozen=True, slots=True)
class SamplesEqualSource:
    """Some chunks of each file decode, and are equal to what the file itself holds."""

    share: float = 0.01
    at_least: int = 1
    variables: tuple[str, ...] | None = None
    name: str = "samples_equal_source"

    @property
    def share_read(self) -> float:
        """Twice what is compared."""
        return min(1.0, 2 * self.share)

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """A finding for each variable that is another one in the file."""
        dataset = decode_climatologies(region.dataset)
        arrays = dict(choose(dataset, self.variables, _COMPARED))
        times = {} if self.variables is not None else find_times(dataset, region.region.dim)
        boxes = [
            (name, box)
            for name, array in arrays.items()
            if name not in times
            for box in cut(whole(array.shape), find_chunks(array))
        ]
        chosen = [(name, whole(array.shape)) for name, array in times.items()]
        chosen += self._choose(boxes, region.region.file)
        arrays |= times
        found: dict[str, Finding] = {}
        with decode_climatologies(region.open_source()) as source:
            for name, box in chosen:
                if name in found or name not in source.variables:
                    continue
                mine = np.asarray(arrays[name][slices_of(box)].values)
                text = _compare(mine, source[name], box)
                if text is not None:
                    found[name] = region.find(self.name, text, name)
        return list(found.values())

    def _choose(self, boxes: Sequence[tuple[str, Box]], file: str) -> Iterator[tuple[str, Box]]:
        count = count_samples(len(boxes), self.share, self.at_least)
        for each in choose_samples(len(boxes), count, crc32(file.encode())):
            yield boxes[each]


def samples_equal_source(
    share: float = 0.01, at_least: int = 1, variables: Sequence[str] | None = None
) -> SamplesEqualSource:
    """Some chunks of each file decode, and are equal to what the file itself holds.

    `share` of the chunks of a file are compared, and `at_least` so many; a file has always the same.
    Values are compared decoded, and all times are, bounds and climatologies among them.
    """
    return SamplesEqualSource(share, at_least, None if variables is None else tuple(variables))


def count_samples(chunks: int, share: float, at_least: int) -> int:
    """How many of so many chunks are compared."""
    return min(chunks, max(at_least, ceil(share * chunks)))


def choose_samples(chunks: int, count: int, seed: int) -> list[int]:
    """So many of them, in their order."""
    if not count:
        return []
    chosen = np.random.default_rng(seed).choice(chunks, count, replace=False)
    return sorted(int(each) for each in chosen)


def decode_climatologies(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with climatologies as times, as Xarray decodes bounds.

    They have the units of the coordinate that names them.
    """
    decoded = {}
    for variable in dataset.variables.values():
        name = variable.attrs.get("climatology", variable.encoding.get("climatology"))
        clock = {key: variable.encoding.get(key) for key in ("units", "calendar")}
        if name not in dataset.variables or not is_time(clock):
            continue
        raw = dataset.variables[name]
        if raw.dtype.kind in "iuf" and "units" not in raw.attrs:
            given = {key: value for key, value in clock.items() if value is not None}
            timed = raw.copy(deep=False)
            timed.attrs = {**raw.attrs, **given}
            decoded[name] = xr.decode_cf(xr.Dataset({name: timed})).variables[name]
    return dataset.assign(decoded)


def find_times(dataset: xr.Dataset, dim: str | None) -> dict[str, xr.DataArray]:
    """Return the small arrays of times along a dimension, or all of them without one."""
    return {
        str(name): dataset[name]
        for name, variable in dataset.variables.items()
        if (dim is None or dim in variable.dims)
        and 0 < variable.size <= _WHOLE_ITEMS
        and (variable.dtype.kind == "M" or is_time(variable.encoding))
    }


def _compare(mine: NDArray[Any], source: Any, box: Box) -> str | None:
    where = ", ".join(f"{start}:{stop}" for start, stop in box)
    if source.ndim != mine.ndim:
        return f"it has {source.ndim} dimensions in the file, and {mine.ndim} here"
    theirs = np.asarray(source[slices_of(box)].values)
    if theirs.shape != mine.shape:
        return f"[{where}] of the file has the shape {theirs.shape}, and {mine.shape} here"
    count = count_different(mine, theirs)
    return f"{count} values in [{where}] of the file are others here" if count else None


def count_different(one: NDArray[Any], other: NDArray[Any]) -> int:
    """How many values are not the same; NaN is equal to itself."""
    if {one.dtype.kind, other.dtype.kind} == {"M", "O"}:
        # Times of a longer axis may be beyond the range of datetime64.
        one, other = _spell_times(one), _spell_times(other)
    differs = one != other
    if one.dtype.kind in "fcmM" and other.dtype.kind in "fcmM":
        differs &= ~(np.isnan(one) & np.isnan(other))
    return int(np.count_nonzero(differs))


def _spell_times(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "M":
        return values.astype("M8[us]").astype(str)
    return np.array([_spell(each) for each in values.flat]).reshape(values.shape)


def _spell(moment: Any) -> str:
    return "NaT" if moment != moment else moment.isoformat(timespec="microseconds")
