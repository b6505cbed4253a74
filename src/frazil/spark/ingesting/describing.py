"""Arrays that no codec of Zarr can decode, described so that their values can be written anew."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
import zarr
from xarray.backends.zarr import FillValueCoder, encode_zarr_attr_value
from zarr.storage import MemoryStore

from frazil.spark.ingesting.files import open_file
from frazil.virtual import ArrayHeader, Source, VirtualChunkContainer
from frazil.virtual.readers.formats import HDF5
from frazil.virtual.readers.stores import Credentials, SourceStores

_PHONY = "phony_dim_"
_FILL = "_FillValue"


def describe_opaque(
    source: Source, containers: Iterable[VirtualChunkContainer], credentials: Credentials
) -> Source:
    """The source with the metadata of arrays that its parser knows only the shape of."""
    opaque = [name for name, each in source.arrays.items() if "data_type" not in each.metadata]
    if not opaque or source.header.format != HDF5.name:
        return source
    arrays = dict(source.arrays)
    stores = SourceStores(containers, credentials)
    file = open_file(stores, source.location, source.version.size_bytes)
    # What the library of NetCDF does not understand either stays as it is, with its obstacle.
    with (
        suppress(ValueError, TypeError, KeyError, NotImplementedError),
        xr.open_dataset(
            file,
            engine="h5netcdf",
            group=source.header.group or None,
            decode_cf=False,
            phony_dims="access",
            cache=False,
        ) as dataset,
    ):
        for name in opaque:
            if name in dataset.variables:
                metadata = _describe(dataset.variables[name], source.arrays)
                arrays[name] = replace(arrays[name], metadata=metadata)
    return replace(source, header=replace(source.header, arrays=arrays))


def _describe(variable: xr.Variable, others: Mapping[str, ArrayHeader]) -> dict[str, Any]:
    dtype = variable.dtype
    attributes = {str(k): v for k, v in variable.attrs.items()}
    fill = attributes.pop(_FILL, None)
    made = zarr.create_array(
        MemoryStore(),
        shape=variable.shape,
        chunks=tuple(variable.encoding.get("chunksizes") or map(_at_least_one, variable.shape)),
        dtype=str if dtype.kind == "O" else dtype.newbyteorder("="),
        fill_value=fill,
        compressors=None,
        dimension_names=_name_dims(variable, others),
    )
    plain = {
        key: encode_zarr_attr_value(value)  # type: ignore[no-untyped-call]
        for key, value in attributes.items()
    }
    if fill is not None:
        plain[_FILL] = FillValueCoder.encode(np.asarray(fill).reshape(-1)[0], dtype)
    found: dict[str, Any] = json.loads(json.dumps(made.metadata.to_dict()))
    return {**found, "attributes": plain}


def _name_dims(variable: xr.Variable, others: Mapping[str, ArrayHeader]) -> list[str]:
    """Axes that the file has no name for are called as those of the other arrays are."""
    known = {
        place: dim
        for each in others.values()
        if each.metadata.get("dimension_names")
        for place, dim in zip(_places(each.shape), each.dims, strict=True)
        if dim.startswith(_PHONY)
    }
    names = []
    for place, dim in zip(_places(variable.shape), map(str, variable.dims), strict=True):
        if dim.startswith(_PHONY):
            dim = known.setdefault(place, f"{_PHONY}{len(set(known.values()))}")
        names.append(dim)
    return names


def _places(shape: Sequence[int]) -> list[tuple[int, int]]:
    """The length of each axis, and which one of this length it is."""
    seen: Counter[int] = Counter()
    places = []
    for length in shape:
        places.append((length, seen[length]))
        seen[length] += 1
    return places


def _at_least_one(length: int) -> int:
    return max(1, length)
