"""Writing FlatBuffers a column at a time, from the end of the file to its start.

An offset in a FlatBuffer points forward, so what is pointed to is written first and lies behind. The
writer therefore prepends: a *place* is a distance from the end of the file, known as soon as a part
is written. All tables of a call that have the same fields share one vtable and one stride; a million
of them are a handful of array assignments.
"""

import struct
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from frazil.errors import InvalidInputError
from frazil.format import ragged
from frazil.format.flatbuffers.blocks import ROWS_AT_ONCE, Links, Places, TableRows
from frazil.format.flatbuffers.fields import (
    ABSENT,
    Field,
    Layout,
    Link,
    column_at,
    fill,
    lay_out,
    one,
    pack_row,
    take_rows,
)
from frazil.format.flatbuffers.reader import FILE_IDENTIFIER
from frazil.format.ragged import Bytes, Integers, Part, Pieces

LARGEST_FILE = 2**31 - 1

_LENGTH = struct.Struct("<I")
_ENDINGS = [bytes(4), bytes(3), bytes(2), bytes(1)]
"""The final zero of a byte vector with what rounds it up, by the last two bits of its length."""


class Writer:
    """Collects parts of a file, last part first."""

    __slots__ = ("_parts", "size", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.size = 0
        self._parts: list[Part] = []

    def prepend(self, data: Part, alignment: int = 4) -> int:
        """Write a part before all others so that its start is aligned; returns its place."""
        padding = -(self.size + len(data)) % alignment
        if padding:
            # Behind the part, so that the part starts where it is aligned.
            self._parts.append(bytes(padding))
        self._parts.append(data)
        self.size += padding + len(data)
        if self.size > LARGEST_FILE:
            raise InvalidInputError(
                f"{self.what}: larger than the 2 GiB that FlatBuffers allow: split it"
            )
        return self.size

    def finish(self, root: int) -> list[Part]:
        """The parts of the whole file in their order; its root table is at this place."""
        size = -(-(self.size + 8) // 8) * 8
        head = np.zeros(size - self.size, np.uint8)
        head[:4] = np.array([size - root], "<u4").view(np.uint8)
        head[4:8] = np.frombuffer(FILE_IDENTIFIER, np.uint8)
        return [head, *reversed(self._parts)]

    # Vectors

    def byte_vectors(self, items: Sequence[bytes]) -> Integers:
        """A vector of bytes for each item; texts are written this way too, with their final zero."""
        pieces = ((_LENGTH.pack(len(i)), i, _ENDINGS[len(i) & 3]) for i in items)
        lengths = np.fromiter(map(len, items), np.int64, len(items))
        starts = ragged.offsets_of(_stride(lengths))
        return self.prepend(b"".join(chain.from_iterable(pieces))) - starts[:-1]

    def packed_vectors(self, blob: Bytes, offsets: Integers) -> Integers:
        """The same for items that lie behind each other in a blob."""
        return self.copies(Pieces(blob, offsets[:-1], np.diff(offsets)))

    def copies(self, pieces: Pieces, item_size: int = 1) -> Integers:
        """The same for items that lie anywhere in a buffer, each so many bytes of structs."""
        starts = ragged.offsets_of(_stride(pieces.lengths))
        block = np.zeros(int(starts[-1]), np.uint8)
        if len(pieces):
            ragged.windows(block, "<u4")[starts[:-1]] = pieces.lengths // item_size
            ragged.scatter(block, starts[:-1] + 4, pieces.buffer, pieces.starts, pieces.lengths)
        return self.prepend(block) - starts[:-1]

    def struct_vector(self, rows: Bytes, alignment: int = 4) -> int:
        """One vector of structs, the rows of a matrix."""
        count = np.array([len(rows)], "<u4").view(np.uint8)
        # The items must be aligned, not the count before them.
        self._align_behind(rows.size, alignment)
        return self.prepend(np.concatenate([count, rows.ravel()]))

    def link_vector(self, places: Integers) -> int:
        """One vector of offsets to these places."""
        if places.size > ROWS_AT_ONCE:
            return self._link_many(places.size, places.__getitem__)
        block = np.empty(places.size + 1, "<u4")
        block[0] = places.size
        end = self.size + -self.size % 4
        block[1:] = np.arange(end + 4 * places.size, end, -4) - places
        return self.prepend(block.view(np.uint8))

    def _link_many(self, count: int, places_of: Callable[[slice], Integers]) -> int:
        return self.prepend(Links(count, places_of, self.size + -self.size % 4))

    def link_vectors(self, places: Integers, counts: Sequence[int] | Integers) -> Integers:
        """Vectors of offsets, the places being those of all vectors behind each other."""
        lengths = np.asarray(counts, np.int64)
        starts = ragged.offsets_of(lengths + 1)
        words = int(starts[-1])
        is_link = np.ones(words, np.bool_)
        is_link[starts[:-1]] = False
        links = np.flatnonzero(is_link)
        end = self.size + -self.size % 4
        block = np.empty(words, "<u4")
        block[starts[:-1]] = lengths
        block[links] = end + 4 * (words - links) - places
        return self.prepend(block.view(np.uint8)) - 4 * starts[:-1]

    def texts(self, texts: Sequence[str | None]) -> Integers:
        """A string for each text, ABSENT for None."""
        return self.optional_bytes([None if text is None else text.encode() for text in texts])

    def text(self, text: str | None) -> Integers:
        """One string, as `Link` takes it."""
        return self.texts([text])

    def optional_bytes(self, datas: Sequence[bytes | None]) -> Integers:
        """A vector of bytes for each item, ABSENT for None."""
        places = np.full(len(datas), ABSENT, np.int64)
        present = [number for number, data in enumerate(datas) if data is not None]
        if present:
            places[present] = self.byte_vectors([data for data in datas if data is not None])
        return places

    # Tables

    def table(self, *fields: Field) -> int:
        """One table."""
        return int(self.tables(1, *fields)[0])

    def tables(self, count: int, *fields: Field) -> Integers:
        """Tables of one kind; where a place is ABSENT the table does not have the field."""
        if not count:
            return np.empty(0, np.int64)
        sparse = [field for field in fields if isinstance(field, Link) and field.places.min() < 0]
        if not sparse:
            return self._uniform_tables(count, fields)
        if all(field.places.max() < 0 for field in sparse):
            return self._uniform_tables(count, _without(fields, sparse))
        return self._sparse_tables(count, fields, sparse)

    def linked_tables(self, count: int, *fields: Field) -> int:
        """One vector of offsets to tables of one kind, which have all of these fields."""
        if count <= ROWS_AT_ONCE:
            return self.link_vector(self.tables(count, *fields))
        return self._link_many(count, self._many_tables(count, fields, lay_out(fields)).__getitem__)

    def _sparse_tables(
        self, count: int, fields: tuple[Field, ...], sparse: Sequence[Link]
    ) -> Integers:
        missing = np.zeros(count, np.int64)
        for bit, link in enumerate(sparse):
            missing |= (link.places == ABSENT).astype(np.int64) << bit
        places = np.empty(count, np.int64)
        for pattern in np.unique(missing).tolist():
            rows = np.flatnonzero(missing == pattern)
            gone = [link for bit, link in enumerate(sparse) if pattern >> bit & 1]
            there = tuple(take_rows(field, rows) for field in _without(fields, gone))
            places[rows] = self._uniform_tables(rows.size, there)
        return places

    def _uniform_tables(self, count: int, fields: tuple[Field, ...]) -> Integers:
        layout = lay_out(fields)
        if count > ROWS_AT_ONCE:
            return self._many_tables(count, fields, layout)[:]
        stride = layout.stride
        self._align_behind(count * stride, layout.alignment)
        if count == 1:
            place = self.size + stride
            self.prepend(layout.vtable + pack_row(fields, layout, place), 1)
            return one(place)
        places = self.size + stride * np.arange(count, 0, -1, dtype=np.int64)
        rows = np.zeros((count, stride), np.uint8)
        for field, at in zip(fields, layout.positions, strict=True):
            fill(rows, field, at, places, layout)
        column_at(rows, "<i4", 0)[:] = int(places[0]) + len(layout.vtable) - places
        self.prepend(rows.reshape(-1), layout.alignment)
        self.prepend(layout.vtable, 2)
        return places

    def _many_tables(self, count: int, fields: tuple[Field, ...], layout: Layout) -> Places:
        """The same for so many that they are made only when they are written."""
        self._align_behind(count * layout.stride, layout.alignment)
        first = self.size + layout.stride * count
        places = Places(first, layout.stride, count)
        self.prepend(
            TableRows(fields, layout, places, first + len(layout.vtable)), layout.alignment
        )
        self.prepend(layout.vtable, 2)
        return places

    def _align_behind(self, size: int, alignment: int) -> None:
        padding = -(self.size + size) % alignment
        if padding:
            self.prepend(bytes(padding), 1)


def _without(fields: tuple[Field, ...], gone: Sequence[Field]) -> tuple[Field, ...]:
    return tuple(field for field in fields if field not in gone)


def _stride(lengths: Integers) -> Integers:
    """How much byte vectors take: the count, the bytes, a zero, rounded up."""
    return (lengths + 8) & ~3
