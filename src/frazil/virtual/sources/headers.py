"""Headers of sources: all that planning needs, without references. Small, frozen, picklable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from frazil.virtual.sources.versions import FileVersion

Metadata = Mapping[str, Any]
"""A `zarr.json` as plain values."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayHeader:
    """One array of a source."""

    name: str
    metadata: Metadata
    values: NDArray[Any] | None = field(default=None, repr=False)
    """The whole array as stored, before scale and offset, where it was loaded."""
    obstacle: str | None = None
    """Why its bytes can't be referred to, where they can't."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extent along each axis."""
        return tuple(self.metadata["shape"])

    @property
    def dims(self) -> tuple[str, ...]:
        """The name of each axis."""
        names = self.metadata.get("dimension_names")
        return tuple(names) if names else tuple(f"dim_{axis}" for axis in range(len(self.shape)))

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The extent of a chunk along each axis."""
        return tuple(self.metadata["chunk_grid"]["configuration"]["chunk_shape"])

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Its attributes, CF encoding among them."""
        found: Mapping[str, Any] = self.metadata.get("attributes") or {}
        return found

    @property
    def is_index(self) -> bool:
        """Whether it gives the values of the dimension it is named after."""
        return self.dims == (self.name,)


@dataclass(frozen=True, slots=True, eq=False)
class SourceHeader:
    """One group of a source file."""

    location: str
    format: str
    group: str
    """Path of the group inside the file, without slashes around it; empty for the root."""
    version: FileVersion
    attributes: Mapping[str, Any]
    arrays: Mapping[str, ArrayHeader]
    groups: tuple[str, ...] = ()
    """Names of the groups right below."""

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the arrays that are coordinates: of a dimension, or named by an attribute."""
        named = set(_words(self.attributes.get("coordinates")))
        for array in self.arrays.values():
            named.update(_words(array.attributes.get("coordinates")))
        return tuple(name for name, array in self.arrays.items() if array.is_index or name in named)

    @property
    def dims(self) -> Mapping[str, int]:
        """The dimensions that have a name, with their lengths."""
        return {
            dim: length
            for array in self.arrays.values()
            if array.metadata.get("dimension_names")
            for dim, length in zip(array.dims, array.shape, strict=True)
        }

    @property
    def name(self) -> str:
        """The file, with the group where there is one, for people."""
        return f"{self.location}#{self.group}" if self.group else self.location


def is_time(attributes: Mapping[str, Any]) -> bool:
    """Return whether values are times after CF."""
    units = attributes.get("units")
    return isinstance(units, str) and " since " in units


def find_bounds(arrays: Mapping[str, ArrayHeader]) -> dict[str, str]:
    """Return the arrays that hold bounds or climatologies of times, with the coordinate of each."""
    return {
        bounds: name
        for name, array in arrays.items()
        if is_time(array.attributes)
        for attribute in ("bounds", "climatology")
        for bounds in _words(array.attributes.get(attribute))
        if bounds in arrays and bounds != name
    }


def _words(value: object) -> list[str]:
    return value.split() if isinstance(value, str) else []
