"""Source file as values: headers to be sent to tasks, and references in columns."""

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from math import ceil, prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class FileVersion:
    """ETag, modification time and size of a file, as reported by its store."""

    e_tag: str | None
    modified_at: datetime
    size_bytes: int

    @property
    def checksum(self) -> str | datetime:
        """Return the checksum of references: a strong ETag, or else the time in whole seconds.

        Weak ETags never match in a conditional request, so no reader can use them. References store
        whole seconds, and the official library compares them with the exact time, so the time is
        rounded up: rounded down, every file would look modified.
        """
        if self.e_tag is not None and not self.e_tag.startswith("W/"):
            return self.e_tag
        return datetime.fromtimestamp(ceil(self.modified_at.timestamp()), UTC)


Coordinate = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceColumns:
    """Virtual references, one row each, and the inline chunks that came with the header.

    Chunks that were never written have no row.
    """

    coordinates: NDArray[np.int64]
    """(rows, axes), in the chunk grid of the array."""
    location_codes: NDArray[np.int32]
    locations: tuple[str, ...]
    """Distinct locations, indexed by the codes."""
    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    inline_coordinates: NDArray[np.int64]
    inline_chunks: tuple[bytes, ...] = ()
    versions: tuple[FileVersion | None, ...] = field(default=())
    """Version of each location when the references were created; None if unknown."""

    def __len__(self) -> int:
        return len(self.coordinates)

    @property
    def axes(self) -> int:
        """Return the number of axes of the array."""
        return int(self.coordinates.shape[1])

    def shift(self, offset: Sequence[int]) -> Self:
        """Return the references shifted in the chunk grid of a larger array."""
        moved = np.asarray(offset, np.int64)
        return replace(
            self,
            coordinates=self.coordinates + moved,
            inline_coordinates=self.inline_coordinates + moved,
        )

    def take(self, rows: NDArray[np.bool_]) -> Self:
        """Return some of the rows, without the inline chunks."""
        return replace(
            self,
            coordinates=self.coordinates[rows],
            location_codes=self.location_codes[rows],
            offsets=self.offsets[rows],
            lengths=self.lengths[rows],
            inline_coordinates=np.empty((0, self.axes), np.int64),
            inline_chunks=(),
        )

    def refuse_truncated(self, name: str, sizes: Mapping[str, int]) -> None:
        """Raise InvalidInputError if a chunk ends after its file: not every parser checks this.

        `name` is that of the array, and `sizes` has the bytes of each file that is known.
        """
        known = [sizes.get(each, np.iinfo(np.uint64).max) for each in self.locations]
        size = np.array(known, np.uint64)[self.location_codes]
        # Subtracted, because the sum of a damaged offset and length could overflow.
        past = np.flatnonzero((self.offsets > size) | (self.lengths > size - self.offsets))
        if past.size:
            row = int(past[0])
            end = int(self.offsets[row]) + int(self.lengths[row])
            raise InvalidInputError(
                f"{self.locations[self.location_codes[row]]} is truncated: a chunk of {name!r} ends "
                f"at byte {end}, and the file has {size[row]} bytes",
                kind="invalid-virtual-ref",
            )

    def by_checksum_kind(self) -> Iterator[tuple[Self, object]]:
        """Split the rows by kind of checksum; yield each part with its column of checksums.

        A column holds times, ETags as (codes, texts), or is None.
        """
        checks = [None if each is None else each.checksum for each in self.versions]
        kinds = np.array([_kind(each) for each in checks] or [0] * len(self.locations), np.int8)
        for kind in sorted(set(kinds[self.location_codes].tolist())):
            part = self.take(kinds[self.location_codes] == kind)
            yield part, _checksum_column(kind, checks, part.location_codes)


def concatenate(parts: Sequence[ReferenceColumns]) -> ReferenceColumns:
    """Concatenate references of one array; a location in several parts gets one code."""
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
    """Return the columns of an array without chunks."""
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
"""`zarr.json` as plain values."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayHeader:
    """Header of one array of a source."""

    name: str
    metadata: Metadata
    values: NDArray[Any] | None = field(default=None, repr=False)
    """Whole array as stored, before scale and offset, if it was loaded."""
    obstacle: str | None = None
    """Reason why its bytes can't be referenced, or None."""
    is_whole: bool = False
    """True if all its chunks are stored, so that none of its elements reads as the fill value."""
    digest: str | None = None
    """Digest of what its file stores, if files may differ in values that are not read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the length of each axis."""
        return tuple(self.metadata["shape"])

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the name of each axis."""
        names = self.metadata.get("dimension_names")
        return tuple(names) if names else tuple(f"dim_{axis}" for axis in range(len(self.shape)))

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Return the chunk length along each axis."""
        return tuple(self.metadata["chunk_grid"]["configuration"]["chunk_shape"])

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return its attributes, CF encoding included."""
        found: Mapping[str, Any] = self.metadata.get("attributes") or {}
        return found

    @property
    def is_index(self) -> bool:
        """Return whether it is the coordinate of the dimension it is named after."""
        return self.dims == (self.name,)


@lru_cache(maxsize=1024)
def _number(names: tuple[str, ...]) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Return the names themselves, equal ones always as one object, and the row of each."""
    return names, {name: row for row, name in enumerate(names)}


class ArrayHeaders(Mapping[str, ArrayHeader]):
    """Arrays of a group by name. Groups with the same names share these.

    A plan has one of these for each file: a dictionary would take several times the memory.
    """

    __slots__ = ("_arrays", "_numbered")

    def __init__(self, names: Iterable[str], arrays: Iterable[ArrayHeader]) -> None:
        self._numbered = _number(tuple(names))
        self._arrays = tuple(arrays)

    def __getitem__(self, name: str) -> ArrayHeader:
        return self._arrays[self._numbered[1][name]]

    def __contains__(self, name: object) -> bool:
        return name in self._numbered[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbered[0])

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayHeaders, (self._numbered[0], self._arrays)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._numbered[1].keys()


@dataclass(frozen=True, slots=True, eq=False)
class SourceHeader:
    """Header of one group of a source file."""

    location: str
    format: str
    group: str
    """Path of the group in the file, without leading and trailing slashes; empty for the root."""
    version: FileVersion
    attributes: Mapping[str, Any]
    arrays: Mapping[str, ArrayHeader]
    groups: tuple[str, ...] = ()
    """Names of the direct subgroups."""

    def __post_init__(self) -> None:
        if not isinstance(self.arrays, ArrayHeaders):
            arrays = ArrayHeaders(self.arrays, self.arrays.values())
            object.__setattr__(self, "arrays", arrays)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Return the names of coordinates: of a dimension, or named by an attribute."""
        named = set(_words(self.attributes.get("coordinates")))
        for array in self.arrays.values():
            named.update(_words(array.attributes.get("coordinates")))
        return tuple(name for name, array in self.arrays.items() if array.is_index or name in named)

    @property
    def dims(self) -> Mapping[str, int]:
        """Return the length of each named dimension."""
        return {
            dim: length
            for array in self.arrays.values()
            if array.metadata.get("dimension_names")
            for dim, length in zip(array.dims, array.shape, strict=True)
        }

    @property
    def name(self) -> str:
        """Return the location, with the group if there is one, for messages."""
        return f"{self.location}#{self.group}" if self.group else self.location


def is_time(attributes: Mapping[str, Any]) -> bool:
    """Return whether attributes are those of CF times."""
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
    """Header of a source file, and the references to the chunks of its arrays."""

    header: SourceHeader
    references: Mapping[str, ReferenceColumns]

    def with_whole(self) -> Self:
        """Return the source with a note on each array of which every chunk is stored."""
        arrays = {}
        for name, array in self.arrays.items():
            is_decoded = array.values is not None or array.obstacle is not None
            chunks = self.references.get(name)
            is_stored = False
            if chunks is not None and "chunk_grid" in array.metadata:
                sizes = zip(array.shape, array.chunk_shape, strict=True)
                count = prod(-(-extent // step) for extent, step in sizes)
                is_stored = len(chunks) + len(chunks.inline_chunks) >= count > 0
            arrays[name] = replace(array, is_whole=is_decoded or is_stored)
        return replace(self, header=replace(self.header, arrays=arrays))

    @property
    def location(self) -> str:
        """Return the location of the file."""
        return self.header.location

    @property
    def version(self) -> FileVersion:
        """Return the version of the file when it was opened."""
        return self.header.version

    @property
    def arrays(self) -> Mapping[str, ArrayHeader]:
        """Return the arrays by name."""
        return self.header.arrays

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the group."""
        return self.header.attributes

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Return the names of the coordinates."""
        return self.header.coordinates

    @property
    def dims(self) -> Mapping[str, int]:
        """Return the length of each dimension."""
        return self.header.dims

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the names of the direct subgroups, to be opened with `group=`."""
        return self.header.groups

    def __repr__(self) -> str:
        names = ", ".join(self.arrays)
        return f"Source({self.header.name!r}, format={self.header.format!r}, arrays=[{names}])"


class HeaderPool:
    """Keeps one object for all that is equal in headers: most files of an archive are alike.

    Files then cost what tells them apart, in pickles as in memory.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._shared: dict[int, tuple[Any, Any]] = {}
        """Objects that were shared already, by identity."""

    def share_header(self, header: SourceHeader) -> SourceHeader:
        """Return an equal header, with objects that equal parts of others have as well."""
        arrays = ArrayHeaders(
            map(self.share, header.arrays), map(self.share, header.arrays.values())
        )
        attributes, groups = self.share(header.attributes), self.share(header.groups)
        return replace(header, arrays=arrays, attributes=attributes, groups=groups)

    def share(self, value: Any) -> Any:
        """Return the one object for all that equals an array, or a value of JSON."""
        if isinstance(value, str):
            return self._known.setdefault(value, value)
        if id(value) not in self._shared:
            is_array = isinstance(value, ArrayHeader)
            found = self._share_array(value) if is_array else self._share(value)[0]
            self._shared[id(value)] = value, found
        return self._shared[id(value)][1]

    def _share_array(self, array: ArrayHeader) -> ArrayHeader:
        metadata = self.share(array.metadata)
        notes = array.obstacle, array.is_whole, array.digest
        key = array.name, id(metadata), _key_of(array.values), *notes
        if key not in self._known:
            is_same = array.metadata is metadata
            self._known[key] = array if is_same else replace(array, metadata=metadata)
        found: ArrayHeader = self._known[key]
        return found

    def _share(self, value: Any) -> tuple[Any, object]:
        """Return the object, and what is equal for equal values alone."""
        kind: type[Any] = type(value)
        if kind is str:
            found = self._known.setdefault(value, value)
        elif kind in (list, tuple):
            pairs = [self._share(each) for each in value]
            key = kind, *(mark for _, mark in pairs)
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = kind(each for each, _ in pairs)
        elif kind is dict:
            pairs = [self._share(each) for pair in value.items() for each in pair]
            key = kind, *(mark for _, mark in pairs)
            found = self._known.get(key)
            if found is None:
                parts = [each for each, _ in pairs]
                found = self._known[key] = dict(zip(parts[::2], parts[1::2], strict=True))
        elif kind in (int, float, bool, type(None)):
            return value, (kind, repr(value))  # of equal numbers, 0.0 and -0.0 are not the same
        else:
            found = value
        # The pool keeps the object, so no other one gets its identity.
        return found, id(found)


def _key_of(values: NDArray[Any] | None) -> object:
    """Return what is equal for equal values of an array alone."""
    if values is None:
        return None
    data = pickle.dumps(values) if values.dtype.kind in "OT" else values.tobytes()
    return values.dtype.str, values.shape, blake2b(data, digest_size=16).digest()


PHONY = "phony_dim_"
"""Start of the names of dimensions that have none in their file."""


def name_phony_dims(metadatas: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the metadata of a group's arrays, with unnamed axes renumbered."""
    numbers: dict[tuple[int, int], int] = {}
    return {name: _rename(metadata, numbers) for name, metadata in metadatas.items()}


def _rename(metadata: Mapping[str, Any], numbers: dict[tuple[int, int], int]) -> Mapping[str, Any]:
    names = metadata.get("dimension_names")
    if not names or not any(str(each).startswith(PHONY) for each in names):
        return metadata
    seen: Counter[int] = Counter()
    renamed: list[str] = []
    for name, length in zip(names, metadata["shape"], strict=True):
        if name.startswith(PHONY):
            number = numbers.setdefault((length, seen[length]), len(numbers))
            seen[length] += 1
            name = f"{PHONY}{number}"
        renamed.append(name)
    return {**metadata, "dimension_names": renamed}


__all__ = [
    "PHONY",
    "ArrayHeader",
    "FileVersion",
    "HeaderPool",
    "ReferenceColumns",
    "Source",
    "SourceHeader",
    "concatenate",
    "name_phony_dims",
]
