"""Which elements of a dimension belong together, by a coordinate or a component of one."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xarray import DataArray

from frazil.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Grouping:
    """Labels along one dimension."""

    dim: str
    """Along which elements are taken together."""
    name: str
    """Of the dimension that takes its place."""
    labels: NDArray[Any] = field(repr=False)
    """Sorted, each once."""
    codes: NDArray[np.intp] = field(repr=False)
    """Of each element the number of its label, or -1."""

    def coordinate(self) -> DataArray:
        """The labels, as the output has them."""
        return DataArray(self.labels, dims=(self.name,), name=self.name)


def find_groups(array: DataArray, by: str) -> Grouping:
    """The groups by a coordinate of an array, `basin`, or by a component of a time, `time.month`."""
    name, _, component = by.partition(".")
    if name not in array.coords:
        raise InvalidInputError(f"{array.name} has no coordinate {name!r} to group by")
    coordinate = array.coords[name]
    if coordinate.ndim != 1:
        raise InvalidInputError(f"{name} has {coordinate.ndim} dimensions, and groups need one")
    dim = str(coordinate.dims[0])
    values = coordinate.values if not component else _component(coordinate, component)
    is_known = ~_is_missing(values)
    labels, codes = np.unique(values[is_known], return_inverse=True)
    every = np.full(len(values), -1, np.intp)
    every[is_known] = codes
    return Grouping(dim, component or name, labels, every)


def _component(coordinate: DataArray, component: str) -> NDArray[Any]:
    try:
        return np.asarray(getattr(coordinate.dt, component).values)
    except (AttributeError, TypeError) as error:
        raise InvalidInputError(f"{coordinate.name} has no component {component!r}") from error


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind in "fmM":
        return np.isnan(values) if values.dtype.kind == "f" else np.isnat(values)
    return np.zeros(values.shape, np.bool_)
