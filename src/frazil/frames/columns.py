"""The columns of a group of arrays, and the grid of cells that is their rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import xarray
import zarr
from xarray import Dataset
from xarray.backends.zarr import ZarrStore

from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.format.paths import validate_path
from frazil.frames.grids import Grid, regular_offsets
from frazil.frames.types import find_type
from frazil.session import Session

Kind = Literal["index", "coordinate", "variable"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: values along some of the dimensions of the rows."""

    name: str
    kind: Kind
    """Indexes have no array; coordinates of one dimension at most are kept in memory."""
    dims: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """All columns of a table of cells, and what their rows are."""

    all: tuple[Column, ...]
    dims: tuple[str, ...]
    sizes: Mapping[str, int]
    variables: tuple[str, ...]
    """The arrays that were asked for, or that are there."""
    opened: tuple[str, ...]
    """These, and what may be needed to decode them."""

    def get(self, name: str) -> Column:
        """A column by name; raises InvalidInputError."""
        for each in self.all:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.all)
        raise InvalidInputError(f"there is no column {name!r}, but {known}")

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of columns by name."""
        return {each.name: each.type for each in self.all}


class _SomeArrays(ZarrStore):
    """A group of which Xarray opens some arrays only: others may be such as it can't open."""

    names: Sequence[str] = ()

    def array_keys(self) -> tuple[str, ...]:
        """The arrays to open."""
        return tuple(self.names)


def open_dataset(session: Session, group: str, names: Sequence[str]) -> Dataset:
    """Arrays of a group as Xarray decodes them, nothing of them read."""
    arrays = _arrays_in(session, group)
    _refuse_unnamed({name: arrays[name] for name in names})
    store = _SomeArrays.open_group(
        session.store,
        group=group_path(group).lstrip("/") or None,
        mode="r",
        consolidated=False,
        zarr_format=3,
        cache_members=False,
    )
    store.names = names
    dataset: Dataset = xarray.open_dataset(
        store, chunks=None, cache=False, create_default_indexes=False
    )
    return dataset


def find_columns(session: Session, group: str, variables: Sequence[str] | None) -> Columns:
    """The columns of a group; raises InvalidInputError where arrays have no rows in common."""
    opened = _wanted(session, group, variables)
    dataset = open_dataset(session, group, opened)
    chosen = _choose(dataset, variables)
    dims = _common_dims(dataset, chosen)
    arrays = _arrays_in(session, group)
    coordinates = [str(name) for name in dataset.coords if name not in dims and name not in chosen]
    indexes = [_index(dim) if dim not in dataset.variables else dim for dim in dims]
    found: dict[str, Column] = {}
    for name in (*indexes, *coordinates, *chosen):
        if isinstance(name, Column):
            found[name.name] = name
        elif set(dataset.variables[name].dims) <= set(dims):
            found[name] = _column(dataset, name, arrays[name])
    sizes = {dim: int(dataset.sizes[dim]) for dim in dims}
    return Columns(tuple(found.values()), dims, sizes, tuple(chosen), tuple(opened))


def find_grid(session: Session, group: str, column: Column) -> Grid:
    """The chunks of an array."""
    document = _arrays_in(session, group)[column.name]
    shape = document["shape"]
    grid = document["chunk_grid"]
    if grid["name"] == "regular":
        lengths = grid["configuration"]["chunk_shape"]
        offsets = [regular_offsets(size, each) for size, each in zip(shape, lengths, strict=True)]
    else:
        path = f"{group_path(group).rstrip('/')}/{column.name}".lstrip("/")
        array: Any = zarr.open_array(session.store, path=path, mode="r")
        offsets = [np.append(0, np.cumsum(each)) for each in array.write_chunk_sizes]
    return Grid(column.dims, tuple(each.astype(np.int64) for each in offsets))


def group_path(group: str) -> str:
    """The path of a group, with or without a slash in front."""
    return validate_path("/" + group.strip("/"))


def list_arrays(session: Session, group: str) -> list[str]:
    """The names of the arrays in a group; raises NodeNotFoundError."""
    return list(_arrays_in(session, group))


def _arrays_in(session: Session, group: str) -> dict[str, dict[str, Any]]:
    """The Zarr metadata of the arrays of a group, by name."""
    path, view = group_path(group), session.state.view
    if view.get_node(path).array is not None:
        raise InvalidInputError(f"{path} is an array, no group: name it with `variables`")
    return {
        node.path.rpartition("/")[2]: json.loads(node.user_data)
        for node in view.children(path)
        if node.array is not None
    }


def _wanted(session: Session, group: str, variables: Sequence[str] | None) -> list[str]:
    """The chosen arrays and whatever may be a coordinate of them."""
    arrays = _arrays_in(session, group)
    if variables is None:
        return list(arrays)
    missing = [name for name in variables if name not in arrays]
    if missing:
        known = ", ".join(sorted(arrays)) or "none"
        raise NodeNotFoundError(
            f"{group_path(group)} has no array {', '.join(map(repr, missing))}; there are {known}"
        )
    documents = [arrays[name] for name in variables]
    dims = {dim for each in documents for dim in each.get("dimension_names") or ()}
    attributes = [each.get("attributes") or {} for each in arrays.values()]
    named = {name for each in attributes for name in str(each.get("coordinates", "")).split()}
    return [name for name in arrays if name in {*variables, *dims, *named}]


def _choose(dataset: Dataset, variables: Sequence[str] | None) -> list[str]:
    if variables is not None:
        return list(dict.fromkeys(variables))
    return [str(name) for name in (dataset.data_vars or dataset.coords)]


def _common_dims(dataset: Dataset, names: Sequence[str]) -> tuple[str, ...]:
    """The dimensions of the array that has most, which all others have to be broadcast to."""
    dims = {name: tuple(map(str, dataset.variables[name].dims)) for name in names}
    if not dims:
        raise InvalidInputError("there are no arrays in this group to be columns")
    largest = max(dims, key=lambda name: len(dims[name]))
    odd = next((name for name in dims if not set(dims[name]) <= set(dims[largest])), None)
    if odd is not None:
        shown = [f"{name}({', '.join(dims[name])})" for name in (largest, odd)]
        raise InvalidInputError(
            f"{' and '.join(shown)} have dimensions that the other has not, so that they are no "
            "columns of one table: select arrays that go together with `variables`"
        )
    return dims[largest]


def _column(dataset: Dataset, name: str, document: Mapping[str, Any]) -> Column:
    variable = dataset.variables[name]
    is_bytes = document.get("data_type") in ("variable_length_bytes", "bytes")
    dims = tuple(map(str, variable.dims))
    is_coordinate = name in dataset.coords and len(dims) <= 1
    return Column(
        name,
        "coordinate" if is_coordinate else "variable",
        dims,
        find_type(name, variable.dtype, is_bytes=is_bytes),
    )


def _index(dim: str) -> Column:
    return Column(dim, "index", (dim,), pa.int64())


def _refuse_unnamed(arrays: Mapping[str, Mapping[str, Any]]) -> None:
    for name, document in arrays.items():
        names = document.get("dimension_names") or ()
        if None in names or len(names) != len(document["shape"]):
            raise InvalidInputError(
                f"the dimensions of {name} have no names, which columns need: leave it out with "
                "`variables`"
            )
