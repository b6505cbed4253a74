"""Fields of the tables that a writer writes, and where they lie in them."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from frazil.format.ragged import Bytes, Integers

ABSENT = -1
"""The place of something that is not there."""

_WORD = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A field of integers, one for each table."""

    slot: int
    values: NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A field of fixed-size bytes: a matrix with a row for each table."""

    slot: int
    rows: Bytes
    alignment: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A field that points to something written before: its places, ABSENT where the field is not."""

    slot: int
    places: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Attached:
    """A vector field that has as many items in every table: it lies right behind its table.

    Items are one or more uint32; a row has those of all items of a table.
    """

    slot: int
    rows: NDArray[np.uint32]
    words_per_item: int = 1


Field = Number | Struct | Link | Attached


def one(place: int) -> Integers:
    """The place of one thing, as `Link` takes it."""
    return np.array([place], np.int64)


def row(data: bytes) -> Bytes:
    """The bytes of one struct, as `Struct` takes them."""
    return np.frombuffer(data, np.uint8)[None]


def rows(datas: Sequence[bytes], size: int) -> Bytes:
    """The bytes of one struct a table."""
    return np.frombuffer(b"".join(datas), np.uint8).reshape(len(datas), size)


def numbers(values: Iterable[int], dtype: str) -> NDArray[Any]:
    """Integers, as `Number` takes them."""
    return np.array(list(values), dtype)


# Layout


class _Shape(NamedTuple):
    """All of a field that its place in a table depends on."""

    slot: int
    size: int
    alignment: int
    attached: int
    """Bytes that lie behind the table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where fields lie in a table, and how far apart tables are."""

    positions: tuple[int, ...]
    attached_at: int
    stride: int
    alignment: int
    vtable: bytes


def lay_out(fields: Sequence[Field]) -> Layout:
    """The layout of tables with these fields, which are all there."""
    return _lay_out(tuple(map(_shape_of, fields)))


@lru_cache(maxsize=256)
def _lay_out(shapes: tuple[_Shape, ...]) -> Layout:
    # Small files consist of many kinds of tables with few of each, and always of the same kinds.
    alignment = max([4, *(shape.alignment for shape in shapes)])
    positions = [0] * len(shapes)
    end = 4
    for index in _packing_order(shapes, alignment):
        end += -end % shapes[index].alignment
        positions[index] = end
        end += shapes[index].size
    slots = [0] * (max((shape.slot for shape in shapes), default=-1) + 1)
    for shape, position in zip(shapes, positions, strict=True):
        slots[shape.slot] = position
    vtable = np.array([4 + 2 * len(slots), end, *slots], "<u2").tobytes()
    attached_at = end + -end % 4
    stride = attached_at + sum(shape.attached for shape in shapes)
    return Layout(tuple(positions), attached_at, stride + -stride % alignment, alignment, vtable)


def _packing_order(shapes: tuple[_Shape, ...], alignment: int) -> list[int]:
    """Widest first, but for one narrow field that fills the gap behind a table's first 4 bytes."""
    order = sorted(range(len(shapes)), key=lambda index: -shapes[index].alignment)
    filler = next((i for i in order if shapes[i].size == shapes[i].alignment == 4), None)
    if alignment == 8 and filler is not None:
        order.remove(filler)
        order.insert(0, filler)
    return order


def _shape_of(field: Field) -> _Shape:
    match field:
        case Link():
            return _Shape(field.slot, 4, 4, 0)
        case Attached():
            return _Shape(field.slot, 4, 4, 4 + 4 * field.rows.shape[1])
        case Number():
            return _Shape(field.slot, field.values.dtype.itemsize, field.values.dtype.itemsize, 0)
        case Struct():
            return _Shape(field.slot, field.rows.shape[1], field.alignment, 0)


def fill(rows: Bytes, field: Field, at: int, places: Integers, layout: Layout) -> None:
    """Put a field into the rows of tables that come to be at some places."""
    match field:
        case Struct():
            rows[:, at : at + field.rows.shape[1]] = field.rows
        case Link():
            column_at(rows, "<u4", at)[:] = places - at - field.places
        case Number():
            column_at(rows, field.values.dtype.newbyteorder("<"), at)[:] = field.values
        case Attached():
            start, words = layout.attached_at, field.rows.shape[1]
            column_at(rows, "<u4", at)[:] = start - at
            column_at(rows, "<u4", start)[:] = words // field.words_per_item
            for word in range(words):
                column_at(rows, "<u4", start + 4 + 4 * word)[:] = field.rows[:, word]


def column_at(rows: Bytes, dtype: DTypeLike, at: int) -> NDArray[Any]:
    """The values at one distance from the start of each row."""
    return np.ndarray((len(rows),), dtype, rows, at, (rows.shape[1],))


def pack_row(fields: Sequence[Field], layout: Layout, place: int) -> bytes:
    """The only row of a table whose vtable lies right before it: what `fill` does, without arrays."""
    row = bytearray(layout.stride)
    _WORD.pack_into(row, 0, len(layout.vtable))
    for field, at in zip(fields, layout.positions, strict=True):
        match field:
            case Struct():
                row[at : at + field.rows.size] = field.rows.tobytes()
            case Link():
                _WORD.pack_into(row, at, place - at - int(field.places[0]))
            case Number():
                row[at : at + field.values.itemsize] = _little_endian(field.values)
            case Attached():
                words, start = field.rows.shape[1], layout.attached_at
                _WORD.pack_into(row, at, start - at)
                _WORD.pack_into(row, start, words // field.words_per_item)
                row[start + 4 : start + 4 + 4 * words] = _little_endian(field.rows)
    return bytes(row)


def _little_endian(values: NDArray[Any]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def take_rows(field: Field, rows: Integers | slice) -> Field:
    """A field of some of the tables."""
    match field:
        case Link():
            return Link(field.slot, field.places[rows])
        case Number():
            return Number(field.slot, field.values[rows])
        case Attached():
            return Attached(field.slot, field.rows[rows], field.words_per_item)
        case Struct():
            return Struct(field.slot, field.rows[rows], field.alignment)
