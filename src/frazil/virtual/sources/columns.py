"""The chunk references of one array in one source, as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from frazil.virtual.sources.versions import FileVersion

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
