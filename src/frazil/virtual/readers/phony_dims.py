"""Dimensions that have no variable: names for axes that a file has none for, and scales without values.

VirtualiZarr numbers the unnamed axes of each array from zero, so that arrays of different shapes share
names. As in the library of NetCDF, axes of one length share a name, and no two axes of one array do.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import h5py

_PHONY = "phony_dim_"
_NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def name_phony_dims(metadatas: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The metadata of the arrays of a group, with unnamed axes numbered anew."""
    numbers: dict[tuple[int, int], int] = {}
    return {name: _rename(metadata, numbers) for name, metadata in metadatas.items()}


def _rename(metadata: Mapping[str, Any], numbers: dict[tuple[int, int], int]) -> Mapping[str, Any]:
    names = metadata.get("dimension_names")
    if not names or not any(str(each).startswith(_PHONY) for each in names):
        return metadata
    seen: Counter[int] = Counter()
    renamed: list[str] = []
    for name, length in zip(names, metadata["shape"], strict=True):
        if name.startswith(_PHONY):
            number = numbers.setdefault((length, seen[length]), len(numbers))
            seen[length] += 1
            name = f"{_PHONY}{number}"
        renamed.append(name)
    return {**metadata, "dimension_names": renamed}


def is_dimension_only(dataset: Any) -> bool:
    """Return whether a dataset stands for a dimension of NetCDF4 that has no variable.

    The library of NetCDF says so in the name of the scale; whether anything was written to the dataset
    tells nothing: HDF5 may have made room for it, and real variables may be empty.
    """
    if not h5py.h5a.exists(dataset, b"NAME"):
        return False
    name = h5py.Dataset(dataset).attrs["NAME"]
    text = name.encode() if isinstance(name, str) else name
    return isinstance(text, bytes) and text.startswith(_NOT_A_VARIABLE)
