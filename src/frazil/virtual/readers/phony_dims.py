"""Names for axes that a file has none for.

VirtualiZarr numbers the unnamed axes of each array from zero, so that arrays of different shapes share
names. As in the library of NetCDF, axes of one length share a name, and no two axes of one array do.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

_PHONY = "phony_dim_"


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
