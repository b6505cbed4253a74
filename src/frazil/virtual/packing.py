"""Decode values that files store packed, with CF scale, offset and missing values. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from frazil.virtual.source import ArrayHeader, SourceHeader

_SCALE = ("scale_factor", "add_offset")
_MISSING = ("_FillValue", "missing_value")
_PACKED = frozenset((*_SCALE, *_MISSING, "_Unsigned"))
_TEXT = "scale and offset differ between files"


@dataclass(frozen=True, slots=True)
class Packing:
    """CF encoding of the values of one array."""

    dtype: str
    scale: float
    offset: float
    missing: tuple[float, ...]
    is_unsigned: bool

    @classmethod
    def of(cls, array: ArrayHeader) -> Self | None:
        """Return the packing of an array, or None if its values are not packed."""
        attributes = array.attributes
        try:
            dtype = np.dtype(array.metadata.get("data_type"))
            scale, offset = (
                float(attributes.get(n, d)) for n, d in zip(_SCALE, (1, 0), strict=True)
            )
        except (TypeError, ValueError):
            return None
        if dtype.kind not in "iuf" or not any(name in attributes for name in _SCALE):
            return None
        missing = [each for name in _MISSING for each in _numbers(attributes.get(name))]
        is_unsigned = str(attributes.get("_Unsigned", "")).lower() == "true"
        return cls(dtype.str, scale, offset, tuple(missing), is_unsigned and dtype.kind == "i")

    def decode(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values in their units, NaN where they are missing."""
        wide = values.dtype
        if self.is_unsigned:
            wide = np.dtype(f"u{values.dtype.itemsize}")
            values = values.astype(wide)
        decoded = values.astype(np.float64)
        is_missing = np.zeros(values.shape, bool)
        for each in self.missing:
            raw = np.array(each).astype(np.dtype(self.dtype)).astype(wide)
            is_missing |= np.isnan(decoded) if np.isnan(each) else values == raw
        decoded *= self.scale
        decoded += self.offset
        decoded[is_missing] = np.nan
        return decoded


def _numbers(value: object) -> list[float]:
    given = value if isinstance(value, list | tuple) else [value]
    return [float(each) for each in given if isinstance(each, int | float)]


def find_packed_differently(
    headers: Sequence[SourceHeader], there: Mapping[str, ArrayHeader]
) -> set[str]:
    """Return the arrays whose scale and offset are not the same in all sources.

    Arrays that are in the repository must hold decoded values, which don't depend on them.
    """
    seen: dict[str, set[tuple[object, ...]]] = {}
    packed: set[str] = set()
    for header in headers:
        for name, array in header.arrays.items():
            seen.setdefault(name, set()).add(_key(array))
            if Packing.of(array) is not None:
                packed.add(name)
    found = set()
    for name in packed:
        before = there.get(name)
        if before is None:
            found |= {name} if len(seen[name]) > 1 else set()
        elif before.metadata["data_type"] == "float64" and _key(before) == _key(None):
            found.add(name)
    return found


def _key(array: ArrayHeader | None) -> tuple[object, ...]:
    attributes = array.attributes if array is not None else {}
    return tuple(attributes.get(name) for name in _SCALE)


def unpack_arrays(header: SourceHeader, names: Iterable[str]) -> SourceHeader:
    """Return the header of a source as if some of its arrays were stored decoded."""
    arrays = dict(header.arrays)
    for name in names:
        if name in arrays:
            arrays[name] = _unpack(arrays[name])
    return replace(header, arrays=arrays)


def _unpack(array: ArrayHeader) -> ArrayHeader:
    packing = Packing.of(array)
    attributes = {name: each for name, each in array.attributes.items() if name not in _PACKED}
    metadata = {
        **array.metadata,
        "data_type": "float64",
        "fill_value": "NaN",
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": attributes,
    }
    values = array.values
    if values is not None:
        values = values.astype(np.float64) if packing is None else packing.decode(values)
    obstacle = None if values is not None else _TEXT
    return replace(array, metadata=metadata, values=values, obstacle=obstacle)
