"""Reading FlatBuffers by column: one field of all tables of a vector at once.

Tables with the same vtable have their fields at the same distances. So the tables of a vector are
grouped by vtable (files have few), each group's bytes are gathered into the rows of one matrix, and
a field is a slice of its columns. It makes no difference how tables lie in the file or how kinds and
layouts are mixed.

What is gathered counts as work of the buffer, as `reader` has it: bytes that are referred to over and
over are read no more than a few times.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from frazil.errors import FormatError
from frazil.format import ragged
from frazil.format.flatbuffers.reader import Buffer
from frazil.format.ragged import Bytes, Integers, Pieces

# All combinations of an honest table's fields are far fewer.
_MOST_LAYOUTS = 2**12


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of a reader's buffer as a column."""

    buffer: Buffer
    data: Bytes

    @classmethod
    def of(cls, buffer: Buffer) -> Self:
        """The same bytes as a reader's."""
        return cls(buffer, np.frombuffer(buffer.data, np.uint8))

    @property
    def what(self) -> str:
        """What the file is called in errors."""
        return self.buffer.what

    def pieces(self, starts: Integers, lengths: Integers) -> list[bytes]:
        """Copies of some bytes, one by one."""
        payload = self.buffer.data
        ends = (starts + lengths).tolist()
        return [payload[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]

    def damaged(self, why: str) -> FormatError:
        """The error to raise."""
        return self.buffer.damaged(why)

    def check(self, positions: Integers, sizes: Integers | int) -> None:
        """Refuse positions whose bytes are not all inside the file."""
        if positions.size == 0:
            return
        ends = positions + sizes
        if positions.min() < 0 or ends.max() > self.data.size:
            raise self.damaged(f"it refers to bytes outside its {self.data.size}")

    def items(self, positions: Integers, dtype: DTypeLike) -> NDArray[Any]:
        """One value at each position."""
        dtype = np.dtype(dtype)
        self.check(positions, dtype.itemsize)
        return ragged.gather(self.data, positions, dtype.itemsize).view(dtype).ravel()

    def follow(self, positions: Integers) -> Integers:
        """Where the offsets at these positions point to."""
        return positions + self.items(positions, "<u4").astype(np.int64)

    def vectors(self, positions: Integers, item_size: int) -> Integers:
        """The number of items of each vector, whose items start 4 bytes behind its position."""
        counts = self.items(positions, "<u4").astype(np.int64)
        self.check(positions + 4, counts * item_size)
        return counts

    def links(self, positions: Integers) -> tuple[Integers, Integers]:
        """What the offsets of vectors point to, all behind each other, and how many each vector has."""
        counts = self.vectors(positions, 4)
        self.buffer.spend(4 * int(counts.sum()))
        return self.follow(ragged.runs(positions + 4, counts, 4)), counts

    def structs(self, positions: Integers, size: int) -> Pieces:
        """The bytes of vectors of structs; none where a position is negative."""
        lengths = np.zeros(positions.size, np.int64)
        present = np.flatnonzero(positions >= 0)
        lengths[present] = self.vectors(positions[present], size) * size
        self.buffer.spend(int(lengths.sum()))
        return Pieces(self.data, positions + 4, lengths)

    def texts(self, positions: Integers, name: str) -> Pieces:
        """The bytes of strings, which must be UTF-8; none where a position is negative."""
        pieces = self.structs(positions, 1)
        try:
            # A zero ends every character, so all together are UTF-8 only if each one is.
            pieces.terminated().decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{name} is not UTF-8: {error}") from error
        return pieces

    def matrix(self, positions: Integers, dtype: DTypeLike) -> NDArray[Any]:
        """Vectors that must all have the same number of items, as the rows of a matrix."""
        dtype = np.dtype(dtype)
        counts = self.vectors(positions, dtype.itemsize)
        if counts.size == 0:
            return np.empty((0, 0), dtype)
        count = int(counts[0])
        if np.any(counts != count):
            raise self.damaged("coordinates of one array have different numbers of axes")
        self.buffer.spend(positions.size * count * dtype.itemsize)
        rows = ragged.gather(self.data, positions + 4, count * dtype.itemsize)
        return rows.view(dtype).reshape(positions.size, count)


@dataclass(frozen=True, slots=True)
class _Group:
    """Tables that share a vtable: which ones, their bytes, and where the fields are in them."""

    rows: Integers | slice
    bytes: Bytes
    slots: Integers


class Tables:
    """The tables at some positions of a file."""

    __slots__ = ("_groups", "positions", "source")

    def __init__(self, source: Source, positions: Integers) -> None:
        self.source = source
        self.positions = positions
        self._groups = _group(source, positions)

    def __len__(self) -> int:
        return self.positions.size

    def has(self, slot: int) -> NDArray[np.bool_]:
        """Which tables have a field."""
        present = np.zeros(len(self), np.bool_)
        for group in self._groups:
            present[group.rows] = _distance(group, slot) != 0
        return present

    def numbers(self, slot: int, dtype: DTypeLike, default: int = 0) -> NDArray[Any]:
        """A field of numbers."""
        dtype = np.dtype(dtype)
        return self.structs(slot, dtype.itemsize, dtype, default).reshape(len(self))

    def structs(
        self, slot: int, size: int, dtype: DTypeLike = np.uint8, default: int = 0
    ) -> NDArray[Any]:
        """A field of fixed size, a row for each table; a broadcast where no table has it."""
        dtype = np.dtype(dtype)
        width = size // dtype.itemsize
        parts = [(group.rows, self._cut(group, slot, size)) for group in self._groups]
        if all(part is None for _, part in parts):
            return np.broadcast_to(np.full(width, default, dtype), (len(self), width))
        if len(parts) == 1 and parts[0][1] is not None:
            return np.ascontiguousarray(parts[0][1]).view(dtype)
        column = np.full((len(self), width), default, dtype)
        for rows, part in parts:
            if part is not None:
                column[rows] = np.ascontiguousarray(part).view(dtype)
        return column

    def targets(self, slot: int) -> Integers:
        """Where a field's offsets point to; -1 for tables without the field."""
        targets = np.full(len(self), -1, np.int64)
        for group in self._groups:
            part = self._cut(group, slot, 4)
            if part is not None:
                offsets = np.ascontiguousarray(part).view("<u4").ravel()
                start = self.positions[group.rows] + _distance(group, slot)
                targets[group.rows] = start + offsets
        return targets

    def _cut(self, group: _Group, slot: int, size: int) -> Bytes | None:
        distance = _distance(group, slot)
        if not distance:
            return None
        if distance + size > group.bytes.shape[1]:
            raise self.source.damaged(f"a table has field {slot} outside itself")
        return group.bytes[:, distance : distance + size]


def _distance(group: _Group, slot: int) -> int:
    return int(group.slots[slot]) if slot < group.slots.size else 0


def _group(source: Source, positions: Integers) -> list[_Group]:
    if positions.size == 0:
        return []
    vtables = positions - source.items(positions, "<i4").astype(np.int64)
    if vtables.min() == vtables.max():
        return [_read_group(source, positions, slice(None), int(vtables[0]))]
    layouts = _number_layouts(source, vtables)
    order = np.argsort(layouts, kind="stable")
    _, starts = np.unique(layouts[order], return_index=True)
    pieces = np.split(order, starts[1:])
    return [_read_group(source, positions, rows, int(vtables[rows[0]])) for rows in pieces]


def _number_layouts(source: Source, vtables: Integers) -> NDArray[np.int16]:
    """For each table the number of its layout: equal vtables at different places are the same."""
    first, by_place = ragged.distinct_numbers(vtables)
    places = vtables[first]
    sizes = source.items(places, "<u2").astype(np.int64)
    source.check(places, sizes)
    source.buffer.spend(int(sizes.sum()))
    rows, by_content = ragged.distinct(source.data, places, sizes)
    if rows.size > _MOST_LAYOUTS:
        raise source.damaged(f"tables of {rows.size} different layouts")
    return by_content[by_place].astype(np.int16)  # sorted in linear time


def _read_group(source: Source, positions: Integers, rows: Integers | slice, vtable: int) -> _Group:
    size, table_size = source.items(np.array([vtable, vtable + 2]), "<u2").tolist()
    if size < 4 or size % 2 or table_size < 4:
        raise source.damaged(f"the vtable at {vtable} is damaged")
    slots = source.items(np.arange(vtable + 4, vtable + size, 2), "<u2").astype(np.int64)
    members = positions[rows]
    source.check(members, table_size)
    source.buffer.spend(members.size * table_size)
    return _Group(rows, ragged.gather(source.data, members, table_size), slots)
