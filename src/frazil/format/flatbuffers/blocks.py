"""Tables and vectors of offsets that are too many to be held as bytes: made when they are written.

What is held until then is their columns, which somebody holds anyway.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from frazil.format.flatbuffers.fields import Field, Layout, column_at, fill, take_rows
from frazil.format.ragged import Blocks, Bytes, Integers

ROWS_AT_ONCE = 1 << 15
"""All columns of so many tables are filled before the next: as much as a processor's cache holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places of tables that lie one behind the other: numbers that go down by one step."""

    first: int
    step: int
    count: int

    def __getitem__(self, part: slice) -> Integers:
        start, stop, _ = part.indices(self.count)
        return self.first - self.step * np.arange(start, stop, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TableRows(Blocks):
    """Tables of one layout."""

    fields: tuple[Field, ...]
    layout: Layout
    places: Places
    vtable_place: int

    def __len__(self) -> int:
        return self.places.count * self.layout.stride

    def __iter__(self) -> Iterator[Bytes]:
        for part in slices(self.places.count):
            places = self.places[part]
            rows = np.zeros((len(places), self.layout.stride), np.uint8)
            for field, at in zip(self.fields, self.layout.positions, strict=True):
                fill(rows, take_rows(field, part), at, places, self.layout)
            column_at(rows, "<i4", 0)[:] = self.vtable_place - places
            yield rows.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Links(Blocks):
    """A vector of offsets to places; its last item is so far from the end of the file."""

    count: int
    places_of: Callable[[slice], Integers]
    end: int

    def __len__(self) -> int:
        return 4 + 4 * self.count

    def __iter__(self) -> Iterator[Bytes]:
        yield np.array([self.count], "<u4").view(np.uint8)
        for part in slices(self.count):
            numbers = np.arange(part.start, part.stop, dtype=np.int64)
            links = self.end + 4 * (self.count - numbers) - self.places_of(part)
            yield links.astype("<u4").view(np.uint8)


def slices(count: int) -> Iterator[slice]:
    """So many rows, some at once."""
    for start in range(0, count, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, count))
