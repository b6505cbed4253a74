"""Read FlatBuffers: one table at a time, or one field of all tables at once."""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from frazil.errors import FormatError
from frazil.format import ragged
from frazil.format.ragged import Bytes, Integers, Pieces
from frazil.lazy import dataclass

_SIZES = struct.Struct("<HH")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")

_NUMBERS: Final = {letter: struct.Struct("<" + letter) for letter in "BHIQi"}

FILE_IDENTIFIER = b"Ichk"

# Valid files may share some strings, but never refer to all bytes eight times.
_WORK_PER_BYTE = 8
# A slot becomes a Python integer, which is larger than its two bytes and slower to create.
_WORK_PER_VTABLE_BYTE = 8
_ALWAYS_ALLOWED = 4096


class Buffer:
    """Bytes of a file, its name in errors, and the remaining budget of bytes to read."""

    __slots__ = ("_vtables", "_work_left", "data", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self._work_left = len(data) * _WORK_PER_BYTE + _ALWAYS_ALLOWED
        self._vtables: dict[int, tuple[int, ...]] = {}

    def root(self) -> "Table":
        """Return the root table."""
        return Table(self, self.follow(0))

    def damaged(self, why: str) -> FormatError:
        """Return the error for a damaged file."""
        return FormatError(f"{self.what}: {why}")

    def follow(self, position: int) -> int:
        """Return the target of the offset at this position."""
        try:
            return position + int(_U32.unpack_from(self.data, position)[0])
        except struct.error:
            raise self._outside(position, 4) from None

    def bytes_at(self, position: int, size: int) -> bytes:
        """Return a copy of some bytes."""
        if position < 0 or position + size > len(self.data):
            raise self._outside(position, size)
        self._work_left -= size
        if self._work_left < 0:
            raise self._endless()
        return self.data[position : position + size]

    def vector(self, position: int, item_size: int) -> tuple[int, int]:
        """Return the start and the number of items of a vector."""
        try:
            count: int = _U32.unpack_from(self.data, position)[0]
        except struct.error:
            raise self._outside(position, 4) from None
        size = 4 + count * item_size
        if position + size > len(self.data):
            raise self._outside(position + 4, count * item_size)
        self._work_left -= size
        if self._work_left < 0:
            raise self._endless()
        return position + 4, count

    def vtable(self, table: int) -> tuple[int, ...]:
        """Return the field distances of a table by slot, 0 for an absent field."""
        self._work_left -= 4
        if self._work_left < 0:
            raise self._endless()
        try:
            start = table - _I32.unpack_from(self.data, table)[0]
            known = self._vtables.get(start)
            if known is not None and table + known[-1] <= len(self.data):
                return known
            size, table_size = _SIZES.unpack_from(self.data, start)
        except struct.error:
            raise self._outside(table, 4) from None
        if start < 0 or size < 4 or size % 2 or start + size > len(self.data):
            raise self.damaged(f"the vtable of the table at {table} is damaged")
        if table + table_size > len(self.data):
            raise self._outside(table, table_size)
        self.spend(size * _WORK_PER_VTABLE_BYTE)
        slots = struct.unpack_from(f"<{size // 2 - 2}H", self.data, start + 4)
        if slots and max(slots) >= table_size:
            raise self.damaged(f"the table at {table} has a field outside itself")
        # The table's size is last, after the slots, for the check above.
        self._vtables[start] = fields = (*slots, table_size)
        return fields

    def spend(self, size: int) -> None:
        """Count bytes as read; raise FormatError if the budget is exceeded."""
        self._work_left -= size
        if self._work_left < 0:
            raise self._endless()

    def _endless(self) -> FormatError:
        return self.damaged("its parts refer to each other without end")

    def _outside(self, position: int, size: int) -> FormatError:
        end = position + size
        return self.damaged(f"bytes {position}..{end} of {len(self.data)} are referred to")


class Table:
    """Table in a buffer; fields by slot number."""

    __slots__ = ("_fields", "buffer", "position")

    def __init__(self, buffer: Buffer, position: int) -> None:
        self.buffer = buffer
        self.position = position
        self._fields = buffer.vtable(position)

    def find(self, slot: int) -> int | None:
        """Return the position of a field, or None if it is absent."""
        fields = self._fields
        distance = fields[slot] if slot < len(fields) - 1 else 0
        return self.position + distance if distance else None

    def field(self, slot: int, name: str) -> int:
        """Return the position of a required field."""
        position = self.find(slot)
        if position is None:
            raise self.buffer.damaged(f"{name} is missing")
        return position

    def number(self, slot: int, letter: str, default: int = 0) -> int:
        """Return an integer field; `letter` is its type as in `struct`."""
        position = self.find(slot)
        if position is None:
            return default
        try:
            value: int = _NUMBERS[letter].unpack_from(self.buffer.data, position)[0]
        except struct.error:
            raise self.buffer.damaged(f"the number at {position} ends outside the file") from None
        return value

    def struct(self, slot: int, size: int, name: str) -> bytes:
        """Return the bytes of a required struct field."""
        return self.buffer.bytes_at(self.field(slot, name), size)

    def find_struct(self, slot: int, size: int) -> bytes | None:
        """Return the bytes of a struct field, or None."""
        position = self.find(slot)
        return None if position is None else self.buffer.bytes_at(position, size)

    def data(self, slot: int, name: str) -> bytes:
        """Return a required byte vector."""
        start, size = self.buffer.vector(self.buffer.follow(self.field(slot, name)), 1)
        return self.buffer.data[start : start + size]

    def find_data(self, slot: int) -> bytes | None:
        """Return a byte vector, or None."""
        return None if self.find(slot) is None else self.data(slot, "")

    def text(self, slot: int, name: str) -> str:
        """Return a required string."""
        try:
            return self.data(slot, name).decode()
        except UnicodeDecodeError as error:
            raise self.buffer.damaged(f"{name or 'a text'} is not UTF-8: {error}") from error

    def find_text(self, slot: int) -> str | None:
        """Return a string, or None."""
        return None if self.find(slot) is None else self.text(slot, "")

    def table(self, slot: int, name: str) -> "Table":
        """Return a required table."""
        return Table(self.buffer, self.buffer.follow(self.field(slot, name)))

    def tables(self, slot: int) -> "Iterator[Table]":
        """Yield the tables of a vector; none if it is absent."""
        buffer = self.buffer
        start, count = self._vector(slot, 4)
        for position in range(start, start + 4 * count, 4):
            yield Table(buffer, buffer.follow(position))

    def columns(self, slot: int, few: int) -> "Tables | None":
        """Return the tables of a vector, to be read by column; None if there are only a few."""
        start, count = self._vector(slot, 4)
        if count <= few:
            return None
        source = Source.of(self.buffer)
        return Tables(source, source.follow(start + 4 * np.arange(count, dtype=np.int64)))

    def texts(self, slot: int) -> list[str]:
        """Return the strings of a vector; none if it is absent."""
        start, count = self._vector(slot, 4)
        buffer = self.buffer
        texts = []
        for position in range(start, start + 4 * count, 4):
            first, size = buffer.vector(buffer.follow(position), 1)
            try:
                texts.append(buffer.data[first : first + size].decode())
            except UnicodeDecodeError as error:
                raise buffer.damaged(f"a text is not UTF-8: {error}") from error
        return texts

    def structs(self, slot: int, size: int) -> list[bytes]:
        """Return the structs of a vector; none if it is absent."""
        start, count = self._vector(slot, size)
        if not count:
            return []
        data = self.buffer.data
        return [data[start + size * i : start + size * (i + 1)] for i in range(count)]

    def find_filled(self, slots: Iterable[int]) -> list[int]:
        """Return the slots among some vectors whose vector has items."""
        fields, data, filled = self._fields, self.buffer.data, []
        count, unpack = len(fields) - 1, _U32.unpack_from
        try:
            for slot in slots:
                if slot < count and (distance := fields[slot]):
                    at = self.position + distance
                    if unpack(data, at + unpack(data, at)[0])[0]:
                        filled.append(slot)
        except struct.error:
            raise self.buffer._outside(at, 4) from None
        return filled

    def _vector(self, slot: int, item_size: int) -> tuple[int, int]:
        fields = self._fields
        distance = fields[slot] if slot < len(fields) - 1 else 0
        if not distance:
            return 0, 0
        buffer, at = self.buffer, self.position + distance
        try:
            at += _U32.unpack_from(buffer.data, at)[0]
            if not _U32.unpack_from(buffer.data, at)[0]:
                return 0, 0
        except struct.error:
            raise buffer._outside(at, 4) from None
        return buffer.vector(at, item_size)


# Valid tables have far fewer combinations of fields.
_MOST_LAYOUTS = 2**12


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes of a buffer as a NumPy column."""

    buffer: Buffer
    data: Bytes

    @classmethod
    def of(cls, buffer: Buffer) -> Self:
        """Return the source over the bytes of a buffer."""
        return cls(buffer, np.frombuffer(buffer.data, np.uint8))

    @property
    def what(self) -> str:
        """Return the name of the file in errors."""
        return self.buffer.what

    def pieces(self, starts: Integers, lengths: Integers) -> list[bytes]:
        """Return copies of byte ranges."""
        payload = self.buffer.data
        ends = (starts + lengths).tolist()
        return [payload[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]

    def damaged(self, why: str) -> FormatError:
        """Return the error for a damaged file."""
        return self.buffer.damaged(why)

    def check(self, positions: Integers, sizes: Integers | int) -> None:
        """Raise FormatError if bytes at these positions are outside the file."""
        if positions.size == 0:
            return
        ends = positions + sizes
        if positions.min() < 0 or ends.max() > self.data.size:
            raise self.damaged(f"it refers to bytes outside its {self.data.size}")

    def items(self, positions: Integers, dtype: DTypeLike) -> NDArray[Any]:
        """Return one value per position."""
        dtype = np.dtype(dtype)
        self.check(positions, dtype.itemsize)
        return ragged.gather(self.data, positions, dtype.itemsize).view(dtype).ravel()

    def follow(self, positions: Integers) -> Integers:
        """Return the targets of the offsets at these positions."""
        return positions + self.items(positions, "<u4").astype(np.int64)

    def vectors(self, positions: Integers, item_size: int) -> Integers:
        """Return the number of items of each vector; items start 4 bytes after its position."""
        counts = self.items(positions, "<u4").astype(np.int64)
        self.check(positions + 4, counts * item_size)
        return counts

    def links(self, positions: Integers) -> tuple[Integers, Integers]:
        """Return the targets of all offsets of vectors, concatenated, and the count of each vector."""
        counts = self.vectors(positions, 4)
        self.buffer.spend(4 * int(counts.sum()))
        return self.follow(ragged.runs(positions + 4, counts, 4)), counts

    def structs(self, positions: Integers, size: int) -> Pieces:
        """Return the bytes of vectors of structs; empty for a negative position."""
        lengths = np.zeros(positions.size, np.int64)
        present = np.flatnonzero(positions >= 0)
        lengths[present] = self.vectors(positions[present], size) * size
        self.buffer.spend(int(lengths.sum()))
        return Pieces(self.data, positions + 4, lengths)

    def texts(self, positions: Integers, name: str) -> Pieces:
        """Return the bytes of strings, which must be UTF-8; empty for a negative position."""
        pieces = self.structs(positions, 1)
        try:
            # A zero terminates each string, so the whole is UTF-8 only if each string is.
            pieces.terminated().decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{name} is not UTF-8: {error}") from error
        return pieces

    def matrix(self, positions: Integers, dtype: DTypeLike) -> NDArray[Any]:
        """Return vectors of equal length as the rows of a matrix."""
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
    """Tables that share a vtable: their rows, bytes and field distances."""

    rows: Integers | slice
    bytes: Bytes
    slots: Integers


class Tables:
    """Tables at given positions of a file, read by column."""

    __slots__ = ("_groups", "positions", "source")

    def __init__(self, source: Source, positions: Integers) -> None:
        self.source = source
        self.positions = positions
        self._groups = _group(source, positions)

    def __len__(self) -> int:
        return self.positions.size

    def has(self, slot: int) -> NDArray[np.bool_]:
        """Return a mask of the tables that have a field."""
        present = np.zeros(len(self), np.bool_)
        for group in self._groups:
            present[group.rows] = _distance(group, slot) != 0
        return present

    def numbers(self, slot: int, dtype: DTypeLike, default: int = 0) -> NDArray[Any]:
        """Return a numeric field of all tables."""
        dtype = np.dtype(dtype)
        return self.structs(slot, dtype.itemsize, dtype, default).reshape(len(self))

    def structs(
        self, slot: int, size: int, dtype: DTypeLike = np.uint8, default: int = 0
    ) -> NDArray[Any]:
        """Return a field of fixed size, one row per table; a broadcast if no table has it."""
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
        """Return the targets of a field's offsets; -1 for tables without the field."""
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
    """Return the layout number of each table; equal vtables have one number."""
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
