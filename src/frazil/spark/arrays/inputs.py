"""Arrays side by side as Xarray reads them: decoded, with coordinates, lazy until they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import xarray
import zarr
from xarray import DataArray

from frazil.errors import InvalidInputError
from frazil.session import Session
from frazil.spark.arrays.regions import Shape
from frazil.spark.arrays.zarr_arrays import dimensions_of, open_array


class Inputs:
    """Arrays of one version of a repository; where they are sent to they are opened again."""

    def __init__(self, session: Session, paths: tuple[str, ...]) -> None:
        self.session = session
        self.paths = paths
        self._opened: list[DataArray] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (Inputs, (self.session, self.paths))

    def open(self) -> list[DataArray]:
        """The arrays, of which nothing is read but their coordinates."""
        if self._opened is None:
            self._opened = [open_variable(self.session, path) for path in self.paths]
        return self._opened


@dataclass(frozen=True, slots=True)
class Space:
    """The dimensions that some arrays have between them."""

    dims: tuple[str, ...]
    shape: Shape
    chunks: Shape
    """Of the first array that has the dimension."""

    def size(self, dim: str) -> int:
        """The length of a dimension."""
        return self.shape[self.dims.index(dim)]

    def chunk(self, dim: str) -> int:
        """The length of chunks along a dimension."""
        return self.chunks[self.dims.index(dim)]

    def only(self, dims: Sequence[str]) -> "Space":
        """The same with these dimensions, in this order."""
        return Space(tuple(dims), tuple(map(self.size, dims)), tuple(map(self.chunk, dims)))


def open_variable(session: Session, path: str) -> DataArray:
    """One array with its coordinates; raises InvalidInputError where dimensions have no names."""
    array = open_array(session, path)
    group, _, name = path.rpartition("/")
    wanted = {name, *dimensions_of(array), *str(array.attrs.get("coordinates", "")).split()}
    dataset: Any = xarray.open_zarr(
        session.store,
        group=group or None,
        consolidated=False,
        chunks=None,
        drop_variables=_names_in(session, group) - wanted,
    )
    # Also one that Xarray takes for a coordinate, because it is named like its dimension.
    found: DataArray = dataset[name]
    return found


def _names_in(session: Session, group: str) -> set[str]:
    """The arrays of a group, which Xarray opens all together."""
    arrays = dict(zarr.open_group(session.store, path=group.lstrip("/"), mode="r").arrays())
    nameless = [name for name, array in arrays.items() if None in dimensions_of(array)]
    if nameless:
        raise InvalidInputError(
            f"Xarray needs names of dimensions, and in the group /{group.lstrip('/')} these arrays "
            f"have none: {', '.join(sorted(nameless))}"
        )
    return set(arrays)


def find_space(arrays: Sequence[DataArray]) -> Space:
    """The dimensions of arrays together; raises InvalidInputError where they disagree."""
    if not arrays:
        raise InvalidInputError("there are no inputs")
    found: dict[str, tuple[int, int]] = {}
    for array in arrays:
        chunks = array.encoding.get("shards") or array.encoding.get("chunks") or array.shape
        for dim, size, chunk in zip(array.dims, array.shape, chunks, strict=True):
            known, _ = found.setdefault(str(dim), (size, max(int(chunk), 1)))
            if known != size:
                raise InvalidInputError(
                    f"the inputs are not aligned: {dim} has {known} elements and {size} in {array.name}"
                )
    sizes = tuple(size for size, _ in found.values())
    return Space(tuple(found), sizes, tuple(chunk for _, chunk in found.values()))


def count_bytes(arrays: Sequence[DataArray], sizes: Mapping[str, int]) -> int:
    """What a block of so many elements along each dimension takes in memory, of all arrays."""
    return sum(
        array.dtype.itemsize * prod(sizes[str(dim)] for dim in array.dims) for array in arrays
    )
