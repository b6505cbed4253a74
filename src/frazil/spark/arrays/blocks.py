"""Blocks of arrays: the input of a task, its output, and groups of elements."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
import xarray
import zarr
from numpy.typing import NDArray
from xarray import DataArray, Dataset

from frazil.errors import InvalidInputError
from frazil.repository.session import Session
from frazil.spark.regions import (
    Box,
    Margin,
    Shape,
    Window,
    dimensions_of,
    open_array,
    refuse_existing,
    slices_of,
    window,
)
from frazil.xarray import to_icechunk


class Inputs:
    """Arrays of one version of a repository; opened again after unpickling."""

    def __init__(
        self, session: Session, paths: tuple[str, ...], opened: list[DataArray] | None = None
    ) -> None:
        self.session = session
        self.paths = paths
        self._opened = opened

    def __reduce__(self) -> tuple[object, ...]:
        return (Inputs, (self.session, self.paths))

    def open(self) -> list[DataArray]:
        """Open the arrays; only their coordinates are read."""
        if self._opened is None:
            self._opened = [open_variable(self.session, path) for path in self.paths]
        return self._opened

    def read(self, box: Box, elements: Mapping[int, NDArray[np.intp]] | None = None) -> Any:
        """Return the values of a box of the only array; `elements` are those of an axis to read."""
        (array,) = self.open()
        index: list[Any] = [*slices_of(box)]
        for axis, found in (elements or {}).items():
            is_run = found[-1] - found[0] == len(found) - 1
            index[axis] = slice(found[0], found[-1] + 1) if is_run else found
        return array[tuple(index)].load().values


@dataclass(frozen=True, slots=True)
class Space:
    """Union of the dimensions of several arrays."""

    dims: tuple[str, ...]
    shape: Shape
    chunks: Shape
    """Chunk lengths of the first array that has the dimension."""

    def size(self, dim: str) -> int:
        """Return the length of a dimension."""
        return self.shape[self.dims.index(dim)]

    def chunk(self, dim: str) -> int:
        """Return the chunk length along a dimension."""
        return self.chunks[self.dims.index(dim)]

    def only(self, dims: Sequence[str]) -> "Space":
        """Return the space of these dimensions, in this order."""
        return Space(tuple(dims), tuple(map(self.size, dims)), tuple(map(self.chunk, dims)))


def open_variable(session: Session, path: str) -> DataArray:
    """Open one array with its coordinates; raise InvalidInputError for unnamed dimensions."""
    array = open_array(session, path)
    group, _, name = path.rpartition("/")
    wanted = {name, *dimensions_of(array), *str(array.attrs.get("coordinates", "")).split()}
    # Also finds an array that xarray treats as a coordinate because of its name.
    return open_group(session, group, wanted)[name]


def open_group(session: Session, group: str, wanted: Set[str | None] | None = None) -> Dataset:
    """Open all or some arrays of a group; raise InvalidInputError for unnamed dimensions."""
    names = _names_in(session, group)
    found: Dataset = xarray.open_zarr(
        session.store,
        group=group or None,
        consolidated=False,
        chunks=None,
        drop_variables=set() if wanted is None else names - wanted,
    )
    return found


def _names_in(session: Session, group: str) -> set[str]:
    """Return the names of the arrays of a group, all of which xarray opens."""
    arrays = dict(zarr.open_group(session.store, path=group.lstrip("/"), mode="r").arrays())
    nameless = [name for name, array in arrays.items() if None in dimensions_of(array)]
    if nameless:
        raise InvalidInputError(
            f"Xarray needs names of dimensions, and in the group /{group.lstrip('/')} these arrays "
            f"have none: {', '.join(sorted(nameless))}"
        )
    return set(arrays)


def find_space(arrays: Sequence[DataArray]) -> Space:
    """Return the union of the dimensions of arrays; raise InvalidInputError if lengths differ."""
    if not arrays:
        raise InvalidInputError("there are no inputs: give at least one array")
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
    """Return the memory that a block of these sizes takes, summed over all arrays."""
    return sum(
        array.dtype.itemsize * prod(sizes[str(dim)] for dim in array.dims) for array in arrays
    )


BlockKind = Literal["xarray", "numpy"]


@dataclass(frozen=True, slots=True)
class Computation:
    """Computation applied to every block."""

    inputs: Inputs
    space: Space
    function: Callable[..., Any] | None
    """None to return the single input."""
    margins: Mapping[str, Margin] = field(default_factory=dict)
    blocks: BlockKind = "xarray"
    core_dims: tuple[str, ...] = ()
    """Dimensions along which blocks are whole, and which the function may remove."""

    def __call__(self, box: Box) -> DataArray:
        """Compute the block in a box of the space, without its halo."""
        windows = {
            dim: window(start, stop, length, self.margins.get(dim))
            for dim, (start, stop), length in zip(
                self.space.dims, box, self.space.shape, strict=True
            )
        }
        blocks = [_read(array, windows) for array in self.inputs.open()]
        if self.function is None:
            return blocks[0]
        given = [block.values for block in blocks] if self.blocks == "numpy" else blocks
        result = self._named(self.function(*given))
        return _trim(result, windows)

    def _named(self, result: Any) -> DataArray:
        """Return a result as a DataArray with named dimensions."""
        if isinstance(result, DataArray):
            return result
        values = np.asarray(result)
        dims = self.space.dims
        if values.ndim == len(dims) - len(self.core_dims):
            dims = tuple(dim for dim in dims if dim not in self.core_dims)
        if values.ndim != len(dims):
            raise InvalidInputError(
                f"the function gave an array of {values.shape} for a block of {self.space.dims}: let "
                "it give a DataArray, which names its dimensions"
            )
        return DataArray(values, dims=dims)


def _read(array: DataArray, windows: Mapping[str, Window]) -> DataArray:
    index: dict[Any, Any] = {dim: windows[str(dim)].indices for dim in array.dims}
    return array.isel(index).load()


def _trim(result: DataArray, windows: Mapping[str, Window]) -> DataArray:
    inner: dict[Any, Any] = {}
    for dim in result.dims:
        if dim in windows:
            read = windows[str(dim)].indices
            count = read.stop - read.start if isinstance(read, slice) else len(read)
            if result.sizes[dim] != count:
                raise InvalidInputError(
                    f"the function made {result.sizes[dim]} of the {count} elements that its block "
                    f"had along {dim}"
                )
            inner[dim] = windows[str(dim)].inner
    return result.isel(inner)


@dataclass(frozen=True, slots=True)
class Output:
    """Array to be written."""

    path: str
    dims: tuple[str, ...]
    shape: Shape
    chunks: Shape
    dtype: "np.dtype[Any]"
    attrs: Mapping[str, Any]
    shards: Shape | None = None

    @property
    def unit(self) -> dict[str, int]:
        """Lengths, by dimension, of the part stored as one object."""
        return dict(zip(self.dims, self.shards or self.chunks, strict=True))

    def fit(self, result: DataArray, shape: Sequence[int]) -> "np.ndarray[Any, Any]":
        """Return the values of a block for writing; raise InvalidInputError if they don't fit."""
        if set(result.dims) != set(self.dims):
            raise InvalidInputError(
                f"the function gave {result.dims}, where {self.dims} are wanted"
            )
        values = result.transpose(*self.dims).values
        if values.shape != tuple(shape):
            raise InvalidInputError(
                f"the function gave {values.shape} along {self.dims}, where {tuple(shape)} is wanted"
            )
        if not np.can_cast(values.dtype, self.dtype, "same_kind"):
            raise InvalidInputError(
                f"the function gave {values.dtype}, where {self.dtype} is wanted"
            )
        return values.astype(self.dtype, copy=False)


def refuse_type(dtype: "np.dtype[Any]") -> None:
    """Raise InvalidInputError for a data type that is not numeric."""
    if dtype.kind not in "biufc":
        raise InvalidInputError(f"the result has the type {dtype}: a transform must return numbers")


def create_output(
    session: Session,
    output: Output,
    coordinates: Mapping[str, DataArray],
    encoding: Mapping[str, Any],
    *,
    overwrite: bool,
) -> None:
    """Create the array, and the coordinates of its dimensions that its group lacks."""
    if not overwrite:
        refuse_existing(session, output.path)
    create_array(session, output, encoding, overwrite=overwrite)
    _write_coordinates(session, output, coordinates)


def create_array(
    session: Session, output: Output, encoding: Mapping[str, Any], *, overwrite: bool
) -> None:
    """Create the array alone."""
    zarr.create_array(
        session.store,
        name=output.path.lstrip("/"),
        shape=output.shape,
        chunks=output.chunks,
        dtype=output.dtype,
        attributes=plain_attributes(output.attrs),
        dimension_names=output.dims,
        overwrite=overwrite,
        fill_value=np.nan if output.dtype.kind in "fc" else 0,
        shards=output.shards,
        **encoding,
    )


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with numpy values converted for JSON."""
    return {
        name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in attributes.items()
    }


def _write_coordinates(
    session: Session, output: Output, coordinates: Mapping[str, DataArray]
) -> None:
    group = output.path.rpartition("/")[0]
    opened = zarr.open_group(session.store, path=group.lstrip("/"), mode="r+")
    missing = {}
    for dim in output.dims:
        if dim in opened:
            _refuse_other_length(group, dim, opened[dim], output)
        elif dim in coordinates:
            missing[dim] = coordinates[dim].reset_coords(drop=True)
    if missing:
        # xarray replaces the attributes of the group with those of the dataset.
        dataset = Dataset(coords=missing, attrs=opened.attrs.asdict())
        to_icechunk(dataset, session, group=group or None, mode="a")


def _refuse_other_length(group: str, dim: str, found: Any, output: Output) -> None:
    length = output.shape[output.dims.index(dim)]
    if getattr(found, "shape", None) != (length,):
        raise InvalidInputError(
            f"{group or '/'} has another {dim} than the {length} that {output.path} would have: write "
            "it to another group"
        )


@dataclass(frozen=True, slots=True)
class Grouping:
    """Group labels along one dimension."""

    dim: str
    """Dimension along which elements are grouped."""
    name: str
    """Name of the dimension that replaces it."""
    labels: NDArray[Any] = field(repr=False)
    """Sorted and distinct."""
    codes: NDArray[np.intp] = field(repr=False)
    """Index of the label of each element, or -1."""

    def coordinate(self) -> DataArray:
        """Return the labels as a coordinate of the output."""
        return DataArray(self.labels, dims=(self.name,), name=self.name)


def find_groups(array: DataArray, by: str) -> Grouping:
    """Group by a coordinate of an array (`basin`), or by a component of a time (`time.month`)."""
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
