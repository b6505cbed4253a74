"""The arrays that rows are written to, as they are in a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from xarray import Dataset

from frazil.errors import InvalidInputError
from frazil.frames.columns import Column, find_grid, group_path, list_arrays, open_dataset
from frazil.frames.grids import Grid
from frazil.frames.types import find_type, make_values, to_arrow
from frazil.frames.writing.axes import WriteAxis, refuse_repeated
from frazil.frames.writing.options import WriteOptions
from frazil.frames.writing.values import Stored
from frazil.session import Session

AnyArray = zarr.Array[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Where each column of rows goes."""

    group: str
    axes: Mapping[str, WriteAxis]
    """By dimension, in the order of the array that has most."""
    variables: Mapping[str, Stored]
    """By column, of all columns that are no dimension."""
    grids: Mapping[str, Grid]
    coordinates: Mapping[str, Stored]
    """The arrays of dimensions that have one."""

    @property
    def dims(self) -> tuple[str, ...]:
        """All dimensions."""
        return tuple(self.axes)

    def is_whole(self, name: str) -> bool:
        """Whether an array has all dimensions, so that a row is a cell of it."""
        return len(self.variables[name].dims) == len(self.axes)


def array_path(group: str, name: str) -> str:
    """The path of an array of a group, as Zarr writes it."""
    return f"{group_path(group)}/{name}".strip("/")


def open_array(session: Session, group: str, name: str) -> AnyArray:
    """An array of a writable session."""
    return zarr.open_array(session.store, path=array_path(group, name), mode="r+")


def find_arrays(session: Session, group: str) -> list[str]:
    """The arrays of a group; none where there is no group."""
    node = session.state.view.find_node(group_path(group))
    return [] if node is None else list_arrays(session, group)


def find_dims(session: Session, options: WriteOptions, names: Sequence[str]) -> tuple[str, ...]:
    """The dimensions of rows with these columns; raises InvalidInputError."""
    known = find_arrays(session, options.group)
    own = [name for name in names if name in known]
    shown = open_dataset(session, options.group, own).variables.values() if own else ()
    dims = _order_dims([tuple(map(str, each.dims)) for each in shown])
    made = [name for name in names if name not in known and name not in dims]
    if options.dims is not None:
        dims = (*options.dims, *(dim for dim in dims if dim not in options.dims))
    elif made:
        raise InvalidInputError(
            f"{options.group} has no array {', '.join(made)}: name the dimensions that it should have "
            "with the option dims, or leave the column out"
        )
    absent = [dim for dim in dims if dim not in names]
    if absent:
        raise InvalidInputError(
            f"the rows have no column {', '.join(absent)}, which is a dimension of the arrays"
        )
    if options.append_dim is not None and options.append_dim not in dims:
        raise InvalidInputError(f"append_dim={options.append_dim!r} is none of {', '.join(dims)}")
    return dims


def _order_dims(all_dims: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    largest = sorted(all_dims, key=len, reverse=True)
    return tuple(dict.fromkeys(dim for dims in largest for dim in dims))


def find_target(session: Session, options: WriteOptions, names: Sequence[str]) -> Target:
    """The arrays that rows with these columns go to, all of which are there."""
    dims = find_dims(session, options, names)
    known = find_arrays(session, options.group)
    stored = find_stored(session, options.group, [name for name in known if name in names])
    sizes = {dim: size for each in stored.values() for dim, size in zip(each.dims, each.shape)}  # noqa: B905
    dataset = open_dataset(session, options.group, [dim for dim in dims if dim in stored])
    axes = {dim: _open_axis(dataset, stored.get(dim), dim, sizes[dim]) for dim in dims}
    variables = {name: each for name, each in stored.items() if name not in dims}
    if not variables:
        raise InvalidInputError("the rows have no column besides coordinates")
    grids = {
        name: find_grid(session, options.group, Column(name, "variable", each.dims, each.type))
        for name, each in variables.items()
    }
    coordinates = {name: each for name, each in stored.items() if name in dims}
    return Target(options.group, axes, variables, grids, coordinates)


def find_stored(session: Session, group: str, names: Sequence[str]) -> dict[str, Stored]:
    """Arrays of a group, and how their values are kept."""
    dataset = open_dataset(session, group, names)
    return {name: _describe(session, group, dataset, name) for name in names}


def _open_axis(dataset: Dataset, stored: Stored | None, dim: str, size: int) -> WriteAxis:
    if stored is None:
        return WriteAxis(dim, pa.int64(), size, None)
    if stored.dims != (dim,):
        raise InvalidInputError(f"{dim} is a dimension and an array of {', '.join(stored.dims)}")
    values = to_arrow(make_values(dataset.variables[dim].values, stored.type))
    axis = WriteAxis(dim, stored.type, size, values)
    refuse_repeated(axis)
    return axis


def _describe(session: Session, group: str, dataset: Dataset, name: str) -> Stored:
    variable = dataset.variables[name]
    array = zarr.open_array(session.store, path=array_path(group, name), mode="r")
    is_bytes = variable.dtype.kind in "SV" or array.dtype.kind == "O"
    return Stored(
        name,
        tuple(map(str, variable.dims)),
        tuple(array.shape),
        find_type(name, variable.dtype, is_bytes=is_bytes and not _is_text(array)),
        np.dtype(variable.dtype),
        np.dtype(array.dtype),
        dict(variable.encoding),
        array.fill_value,
    )


def _is_text(array: AnyArray) -> bool:
    data_type = array.metadata.to_dict()["data_type"]
    return data_type == "string" or np.dtype(array.dtype).kind in "TU"
