"""A source file as values: headers that travel, and references in columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from math import ceil
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Etag, time of the last modification and size of a file, as its store told them."""

    e_tag: str | None
    modified_at: datetime
    size_bytes: int

    @property
    def checksum(self) -> str | datetime:
        """What a reference is checked by: a strong etag, or else the time, in whole seconds.

        Weak etags never match in a conditional request, and so serve no reader. References hold whole
        seconds, and the official library compares them with the time to its last digit: rounded
        down, they would make every file look changed.
        """
        if self.e_tag is not None and not self.e_tag.startswith("W/"):
            return self.e_tag
        return datetime.fromtimestamp(ceil(self.modified_at.timestamp()), UTC)


Coordinate = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceColumns:
    """A row for each chunk that is in a file, and apart from them the chunks that came with the header.

    Chunks that nobody wrote have no row.
    """

    coordinates: NDArray[np.int64]
    """(rows, axes), in the array's own chunk grid."""
    location_codes: NDArray[np.int32]
    locations: tuple[str, ...]
    """The distinct locations, which the codes are numbers of."""
    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    inline_coordinates: NDArray[np.int64]
    inline_chunks: tuple[bytes, ...] = ()
    versions: tuple[FileVersion | None, ...] = field(default=())
    """What each location was when the references were made; None where nobody asked."""

    def __len__(self) -> int:
        return len(self.coordinates)

    @property
    def axes(self) -> int:
        """How many axes the array has."""
        return int(self.coordinates.shape[1])

    def shift(self, offset: Sequence[int]) -> Self:
        """The same chunks further on in the grid of a larger array."""
        moved = np.asarray(offset, np.int64)
        return replace(
            self,
            coordinates=self.coordinates + moved,
            inline_coordinates=self.inline_coordinates + moved,
        )

    def take(self, rows: NDArray[np.bool_]) -> Self:
        """Some of the rows, without the inline chunks."""
        return replace(
            self,
            coordinates=self.coordinates[rows],
            location_codes=self.location_codes[rows],
            offsets=self.offsets[rows],
            lengths=self.lengths[rows],
            inline_coordinates=np.empty((0, self.axes), np.int64),
            inline_chunks=(),
        )

    def by_checksum_kind(self) -> Iterator[tuple[Self, object]]:
        """The rows apart by what checks them, each part with its column of checksums.

        A column is one of times, one of etags as (codes, texts), or None.
        """
        checks = [None if each is None else each.checksum for each in self.versions]
        kinds = np.array([_kind(each) for each in checks] or [0] * len(self.locations), np.int8)
        for kind in sorted(set(kinds[self.location_codes].tolist())):
            part = self.take(kinds[self.location_codes] == kind)
            yield part, _checksum_column(kind, checks, part.location_codes)


def concatenate(parts: Sequence[ReferenceColumns]) -> ReferenceColumns:
    """The references of many parts of one array; a location that is in several has one code."""
    numbers: dict[str, int] = {}
    versions: dict[str, FileVersion | None] = {}
    codes = []
    for part in parts:
        known = part.versions or (None,) * len(part.locations)
        versions.update(zip(part.locations, known, strict=True))
        mine = [numbers.setdefault(text, len(numbers)) for text in part.locations]
        codes.append(np.array(mine, np.int32)[part.location_codes])
    return ReferenceColumns(
        coordinates=np.concatenate([part.coordinates for part in parts]),
        location_codes=np.concatenate(codes),
        locations=tuple(numbers),
        offsets=np.concatenate([part.offsets for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        inline_coordinates=np.concatenate([part.inline_coordinates for part in parts]),
        inline_chunks=tuple(chain.from_iterable(part.inline_chunks for part in parts)),
        versions=tuple(versions[text] for text in numbers),
    )


def no_references(axes: int) -> ReferenceColumns:
    """The columns of an array that has no chunk anywhere."""
    return ReferenceColumns(
        coordinates=np.empty((0, axes), np.int64),
        location_codes=np.empty(0, np.int32),
        locations=(),
        offsets=np.empty(0, np.uint64),
        lengths=np.empty(0, np.uint64),
        inline_coordinates=np.empty((0, axes), np.int64),
    )


_NONE, _ETAG, _TIME = range(3)


def _kind(checksum: str | datetime | None) -> int:
    if checksum is None:
        return _NONE
    return _ETAG if isinstance(checksum, str) else _TIME


def _checksum_column(
    kind: int, checks: Sequence[str | datetime | None], codes: NDArray[np.int32]
) -> object:
    match kind:
        case 1:
            texts = [each if isinstance(each, str) else "" for each in checks]
            return codes, texts
        case 2:
            seconds = [int(e.timestamp()) if isinstance(e, datetime) else 0 for e in checks]
            return np.array(seconds, "datetime64[s]")[codes]
    return None


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


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What was found in a source file: its header, and where the chunks of its arrays are."""

    header: SourceHeader
    references: Mapping[str, ReferenceColumns]

    @property
    def location(self) -> str:
        """Where the file is."""
        return self.header.location

    @property
    def version(self) -> FileVersion:
        """What the file was when it was opened."""
        return self.header.version

    @property
    def arrays(self) -> Mapping[str, ArrayHeader]:
        """The arrays by their name."""
        return self.header.arrays

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the group."""
        return self.header.attributes

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the arrays that are coordinates."""
        return self.header.coordinates

    @property
    def dims(self) -> Mapping[str, int]:
        """The dimensions with their lengths."""
        return self.header.dims

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups right below, to be opened with `group=`."""
        return self.header.groups

    def __repr__(self) -> str:
        names = ", ".join(self.arrays)
        return f"Source({self.header.name!r}, format={self.header.format!r}, arrays=[{names}])"


__all__ = [
    "ArrayHeader",
    "FileVersion",
    "ReferenceColumns",
    "Source",
    "SourceHeader",
    "concatenate",
]
