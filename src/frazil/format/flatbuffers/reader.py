"""Reading FlatBuffers one table at a time.

Rules kept here: no position is read that has not been checked against the buffer; and a buffer can't
make a reader do more work than a few times its own size, however its parts refer to each other.
"""

import struct
from collections.abc import Iterator
from typing import Final

from frazil.errors import FormatError

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")

_NUMBERS: Final = {letter: struct.Struct("<" + letter) for letter in "BHIQi"}

FILE_IDENTIFIER = b"Ichk"

# Honest writers may share a string or two; nobody honest refers to the same bytes eight times over.
_WORK_PER_BYTE = 8
# A slot becomes a Python integer, which is larger than its two bytes and dearer to make.
_WORK_PER_VTABLE_BYTE = 8
_ALWAYS_ALLOWED = 4096


class Buffer:
    """The bytes of a file with what it is called in errors, and how much more may be read of it."""

    __slots__ = ("_vtables", "_work_left", "data", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self._work_left = len(data) * _WORK_PER_BYTE + _ALWAYS_ALLOWED
        self._vtables: dict[int, tuple[int, ...]] = {}

    def root(self) -> "Table":
        """The table at the root."""
        return Table(self, self.follow(0))

    def damaged(self, why: str) -> FormatError:
        """The error to raise."""
        return FormatError(f"{self.what}: {why}")

    def follow(self, position: int) -> int:
        """The position that the offset at this position points to."""
        return position + self.u32(position)

    def u32(self, position: int) -> int:
        """An unsigned integer."""
        try:
            value: int = _U32.unpack_from(self.data, position)[0]
        except struct.error:
            raise self._outside(position, 4) from None
        return value

    def bytes_at(self, position: int, size: int) -> bytes:
        """A copy of some bytes."""
        if position < 0 or position + size > len(self.data):
            raise self._outside(position, size)
        self.spend(size)
        return self.data[position : position + size]

    def vector(self, position: int, item_size: int) -> tuple[int, int]:
        """The start and the number of the items of a vector."""
        count = self.u32(position)
        if position + 4 + count * item_size > len(self.data):
            raise self._outside(position + 4, count * item_size)
        self.spend(4 + count * item_size)
        return position + 4, count

    def vtable(self, table: int) -> tuple[int, ...]:
        """Where a table's fields are: for each slot the distance from the table, 0 if it is absent."""
        self.spend(4)
        try:
            start = table - _I32.unpack_from(self.data, table)[0]
            known = self._vtables.get(start)
            if known is not None and table + known[-1] <= len(self.data):
                return known
            size, table_size = _U16.unpack_from(self.data, start)[0], self._table_size(start)
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
        # The table's size goes last, behind the slots, for the check above.
        self._vtables[start] = fields = (*slots, table_size)
        return fields

    def _table_size(self, vtable: int) -> int:
        size: int = _U16.unpack_from(self.data, vtable + 2)[0]
        return size

    def spend(self, size: int) -> None:
        """Count some bytes as read; refuse the file when they are too many together."""
        self._work_left -= size
        if self._work_left < 0:
            raise self.damaged("its parts refer to each other without end")

    def _outside(self, position: int, size: int) -> FormatError:
        end = position + size
        return self.damaged(f"bytes {position}..{end} of {len(self.data)} are referred to")


class Table:
    """A table in a buffer; fields by slot number."""

    __slots__ = ("_fields", "buffer", "position")

    def __init__(self, buffer: Buffer, position: int) -> None:
        self.buffer = buffer
        self.position = position
        self._fields = buffer.vtable(position)

    def find(self, slot: int) -> int | None:
        """The position of a field, or None where the table does not have it."""
        fields = self._fields
        distance = fields[slot] if slot < len(fields) - 1 else 0
        return self.position + distance if distance else None

    def field(self, slot: int, name: str) -> int:
        """The position of a field that must be there."""
        position = self.find(slot)
        if position is None:
            raise self.buffer.damaged(f"{name} is missing")
        return position

    def number(self, slot: int, letter: str, default: int = 0) -> int:
        """An integer field; `letter` is its type as in `struct`."""
        position = self.find(slot)
        if position is None:
            return default
        try:
            value: int = _NUMBERS[letter].unpack_from(self.buffer.data, position)[0]
        except struct.error:
            raise self.buffer.damaged(f"the number at {position} ends outside the file") from None
        return value

    def struct(self, slot: int, size: int, name: str) -> bytes:
        """The bytes of a struct field that must be there."""
        return self.buffer.bytes_at(self.field(slot, name), size)

    def find_struct(self, slot: int, size: int) -> bytes | None:
        """The bytes of a struct field, or None."""
        position = self.find(slot)
        return None if position is None else self.buffer.bytes_at(position, size)

    def data(self, slot: int, name: str) -> bytes:
        """A vector of bytes that must be there."""
        start, size = self.buffer.vector(self.buffer.follow(self.field(slot, name)), 1)
        return self.buffer.data[start : start + size]

    def find_data(self, slot: int) -> bytes | None:
        """A vector of bytes, or None."""
        return None if self.find(slot) is None else self.data(slot, "")

    def text(self, slot: int, name: str) -> str:
        """A string that must be there."""
        try:
            return self.data(slot, name).decode()
        except UnicodeDecodeError as error:
            raise self.buffer.damaged(f"{name or 'a text'} is not UTF-8: {error}") from error

    def find_text(self, slot: int) -> str | None:
        """A string, or None."""
        return None if self.find(slot) is None else self.text(slot, "")

    def table(self, slot: int, name: str) -> "Table":
        """A table that must be there."""
        return Table(self.buffer, self.buffer.follow(self.field(slot, name)))

    def tables(self, slot: int) -> "Iterator[Table]":
        """The tables of a vector; none where it is absent."""
        buffer = self.buffer
        start, count = self._vector(slot, 4)
        for position in range(start, start + 4 * count, 4):
            yield Table(buffer, buffer.follow(position))

    def texts(self, slot: int) -> list[str]:
        """The strings of a vector; none where it is absent."""
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
        """The structs of a vector; none where it is absent."""
        start, count = self._vector(slot, size)
        data = self.buffer.data
        return [data[start + size * i : start + size * (i + 1)] for i in range(count)]

    def _vector(self, slot: int, item_size: int) -> tuple[int, int]:
        position = self.find(slot)
        if position is None:
            return 0, 0
        return self.buffer.vector(self.buffer.follow(position), item_size)
