"""The array that a transform writes: what it is like, and its metadata, written once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from xarray import DataArray, Dataset

from frazil.errors import InvalidInputError
from frazil.session import Session
from frazil.spark.arrays.regions import Shape
from frazil.spark.arrays.zarr_arrays import refuse_existing
from frazil.xarray import to_icechunk


@dataclass(frozen=True, slots=True)
class Output:
    """An array to be."""

    path: str
    dims: tuple[str, ...]
    shape: Shape
    chunks: Shape
    dtype: "np.dtype[Any]"
    attrs: Mapping[str, Any]
    shards: Shape | None = None

    @property
    def unit(self) -> dict[str, int]:
        """The lengths, by dimension, of what is written as one object."""
        return dict(zip(self.dims, self.shards or self.chunks, strict=True))

    def fit(self, result: DataArray, shape: Sequence[int]) -> "np.ndarray[Any, Any]":
        """The values of a block as they are written; raises InvalidInputError if they don't fit."""
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
    """Raise InvalidInputError for values that are no numbers."""
    if dtype.kind not in "biufc":
        raise InvalidInputError(f"a transform gives numbers, not {dtype}")


def create_output(
    session: Session,
    output: Output,
    coordinates: Mapping[str, DataArray],
    encoding: Mapping[str, Any],
    *,
    overwrite: bool,
) -> None:
    """Make the array, and the coordinates of its dimensions where its group does not have them."""
    if not overwrite:
        refuse_existing(session, output.path)
    zarr.create_array(
        session.store,
        name=output.path.lstrip("/"),
        shape=output.shape,
        chunks=output.chunks,
        dtype=output.dtype,
        attributes=_plain(output.attrs),
        dimension_names=output.dims,
        overwrite=overwrite,
        fill_value=np.nan if output.dtype.kind in "fc" else 0,
        shards=output.shards,
        **encoding,
    )
    _write_coordinates(session, output, coordinates)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as JSON has them."""
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
        # Xarray replaces the group's attributes by the dataset's.
        dataset = Dataset(coords=missing, attrs=opened.attrs.asdict())
        to_icechunk(dataset, session, group=group or None, mode="a")


def _refuse_other_length(group: str, dim: str, found: Any, output: Output) -> None:
    length = output.shape[output.dims.index(dim)]
    if getattr(found, "shape", None) != (length,):
        raise InvalidInputError(
            f"{group or '/'} has another {dim} than the {length} that {output.path} would have: write "
            "it to another group"
        )
