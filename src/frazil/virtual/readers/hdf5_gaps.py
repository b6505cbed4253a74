"""What VirtualiZarr's parser of HDF5 does not tell: datasets that are no plain bytes of the file.

- *compact* datasets are inside the header, and are loaded from there;
- *virtual* and *external* datasets are in other files;
- a chunk that a filter could not shrink is stored without that filter, which Zarr has no word for.

The parser gives the first two no chunks at all, which reads as fill values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from obspec_utils.readers import BlockStoreReader

from frazil.errors import InvalidInputError
from frazil.virtual.readers.phony_dims import is_dimension_only
from frazil.virtual.readers.stores import SourceStores


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """What has to be known of a dataset besides what the parser tells."""

    shape: tuple[int, ...]
    obstacle: str | None = None
    compact_values: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """What is in a group."""

    datasets: Mapping[str, Dataset]
    groups: tuple[str, ...]
    dims: tuple[str, ...]
    """Datasets that only stand for a dimension."""


def inspect_group(stores: SourceStores, url: str, group: str) -> Members:
    """The members of a group; raises InvalidInputError where there is no such group."""
    store, key = stores.resolve(url)
    with h5py.File(BlockStoreReader(store, key), "r") as file:
        found = file.get(group or "/")
        if not isinstance(found, h5py.Group):
            raise InvalidInputError(f"{url} has no group {group!r}")
        members = {name: found.get(name) for name in found}
        datasets = {name: each for name, each in members.items() if isinstance(each, h5py.Dataset)}
        dims = tuple(name for name, each in datasets.items() if is_dimension_only(each.id))
        return Members(
            {name: _inspect(each) for name, each in datasets.items() if name not in dims},
            tuple(name for name, each in members.items() if isinstance(each, h5py.Group)),
            dims,
        )


def _inspect(dataset: Any) -> Dataset:
    shape = tuple(dataset.shape or ())
    properties = dataset.id.get_create_plist()
    if properties.get_layout() == h5py.h5d.COMPACT and dataset.dtype.kind != "O":
        return Dataset(shape, compact_values=np.asarray(dataset[()]))
    return Dataset(shape, _find_obstacle(dataset, properties))


def _find_obstacle(dataset: Any, properties: Any) -> str | None:
    if dataset.shape is None:
        return "it is an HDF5 dataset without a shape"
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        return "it is a virtual dataset of HDF5, whose values are in other files"
    if properties.get_external_count():
        return "its values are in external files of HDF5"
    if dataset.chunks is not None and properties.get_nfilters() and _skips_filters(dataset):
        return "some of its chunks were stored without the filters of the others"
    return None


def _skips_filters(dataset: Any) -> bool:
    return dataset.id.chunk_iter(lambda chunk: True if chunk.filter_mask else None) is not None
