"""Write FlatBuffers, from the end of the file to its start: few tables row by row, many by column."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from operator import sub
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from frazil.errors import InvalidInputError
from frazil.format import ragged
from frazil.format.ragged import Blocks, Bytes, Integers, Part, Pieces
from frazil.format.v2.flatbuffers_reader import FILE_IDENTIFIER
from frazil.lazy import dataclass

ABSENT = -1
"""Position of an absent object."""

_WORD = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """Integer field, one value per table."""

    slot: int
    values: NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Field of fixed-size bytes: a matrix with one row per table."""

    slot: int
    rows: Bytes
    alignment: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """Field that points to objects written before, by position; ABSENT omits the field."""

    slot: int
    places: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Attached:
    """Vector field of equal length in every table, stored directly after its table.

    Items are one or more uint32; a row holds all items of a table.
    """

    slot: int
    rows: NDArray[np.uint32]
    words_per_item: int = 1


Field = Number | Struct | Link | Attached


def one(place: int) -> Integers:
    """Return one position as an array, for `Link`."""
    return np.array([place], np.int64)


def row(data: bytes) -> Bytes:
    """Return the bytes of one struct as a matrix, for `Struct`."""
    return np.frombuffer(data, np.uint8)[None]


def rows(datas: Sequence[bytes], size: int) -> Bytes:
    """Return the bytes of one struct per table as a matrix."""
    return np.frombuffer(b"".join(datas), np.uint8).reshape(len(datas), size)


def numbers(values: Iterable[int], dtype: str) -> NDArray[Any]:
    """Return integers as an array, for `Number`."""
    return np.array(list(values), dtype)


FEW = 256
"""Number of tables up to which rows are packed one by one, without arrays."""

_FEW_LINKS = 24
"""Number of offsets in a vector up to which they are computed one by one."""

LINK, WORDS = "link", "words"
"""Types of a field of a `Kind`: position of an object, and a vector as in `Attached`."""


class Kind:
    """Fields of a kind of tables, in the order of their columns: slot and type.

    A type is a letter of `struct`, a size of bytes such as `12s`, LINK or WORDS.
    """

    __slots__ = ("attached", "fields", "layouts", "single", "words_per_item")

    def __init__(self, *fields: tuple[int, str], words_per_item: int = 1) -> None:
        self.fields = fields
        self.words_per_item = words_per_item
        types = [type_ for _, type_ in fields]
        self.attached = types.index(WORDS) if WORDS in types else ABSENT
        """Column of the vector that is attached, or ABSENT."""
        self.layouts: dict[tuple[tuple[int, ...], int], RowLayout] = {}
        """Layouts by the fields that are present and the number of words attached."""
        self.single: dict[tuple[bool | None, ...], RowLayout] = {}
        """Layouts of single tables without words: None for no value, True for ABSENT."""

    def lay_out(self, present: tuple[int, ...], words: int) -> "RowLayout":
        """Add the layout of tables with these fields and so many words attached."""
        layout = self.layouts[present, words] = _lay_out_rows(self, present, words)
        return layout

    def lay_out_single(self, key: tuple[bool | None, ...], values: Sequence[Any]) -> "RowLayout":
        """Return the layout of a table with these values."""
        present = tuple([
            index
            for index, (state, (_, type_)) in enumerate(zip(key, self.fields, strict=True))
            if state is not None and not (state and type_ == LINK)
        ])  # fmt: skip
        words = len(values[self.attached]) if self.attached in present else 0
        layout = self.layouts.get((present, words)) or self.lay_out(present, words)
        if self.attached == ABSENT:
            self.single[key] = layout
        return layout

    def field(self, index: int, column: Sequence[Any]) -> "Field":
        """Return a field in columns."""
        slot, type_ = self.fields[index]
        if type_ == LINK:
            return Link(slot, np.array(column, np.int64))
        if type_ == WORDS:
            words = np.array(column, np.uint32).reshape(len(column), len(column[0]))
            return Attached(slot, words, self.words_per_item)
        if type_.endswith("s"):
            return Struct(slot, rows(column, int(type_[:-1])))
        return Number(slot, np.array(column, f"<{type_}"))


class RowLayout(NamedTuple):
    """Layout of tables that are packed one by one."""

    layout: "Layout"
    pack: Callable[..., bytes]
    """Pack one row: distance to the vtable, fields by position, and the vector that is attached."""
    order: tuple[tuple[int, int, str], ...]
    """Column, position and type of each field, by position."""


def _lay_out_rows(kind: Kind, present: tuple[int, ...], words: int) -> RowLayout:
    shapes = []
    for index in present:
        slot, type_ = kind.fields[index]
        size = 4 if type_ in (LINK, WORDS) else struct.calcsize(f"<{type_}")
        alignment = 1 if type_.endswith("s") and type_ != WORDS else size
        shapes.append(_Shape(slot, size, alignment, 4 + 4 * words if type_ == WORDS else 0))
    layout = _lay_out(tuple(shapes))
    placed = zip(present, layout.positions, shapes, strict=True)
    order = sorted((at, index, shape.size) for index, at, shape in placed)
    text, end = "<i", 4
    for at, index, size in order:
        type_ = kind.fields[index][1]
        text += f"{at - end}x" + ("I" if type_ in (LINK, WORDS) else type_)
        end = at + size
    if any(kind.fields[index][1] == WORDS for index in present):
        text += f"{layout.attached_at - end}xI{words}I"
        end = layout.attached_at + 4 + 4 * words
    packer = struct.Struct(f"{text}{layout.stride - end}x")
    order_by_position = tuple((index, at, kind.fields[index][1]) for at, index, _ in order)
    return RowLayout(layout, packer.pack, order_by_position)


# Layout


class _Shape(NamedTuple):
    """Properties of a field that determine its position in a table."""

    slot: int
    size: int
    alignment: int
    attached: int
    """Bytes stored after the table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Field positions in a table, and the stride between tables."""

    positions: tuple[int, ...]
    attached_at: int
    stride: int
    alignment: int
    vtable: bytes


def lay_out(fields: Sequence[Field]) -> Layout:
    """Return the layout of tables that have all these fields."""
    return _lay_out(tuple(map(_shape_of, fields)))


@lru_cache(maxsize=256)
def _lay_out(shapes: tuple[_Shape, ...]) -> Layout:
    # Small files have many kinds of tables with few of each, and always these kinds.
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
    """Return fields widest first, but for a narrow one that fills the gap after the first 4 bytes."""
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
    """Fill a field into the rows of tables at given positions."""
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
    """Return a view of the values at one byte offset of each row."""
    return np.ndarray((len(rows),), dtype, rows, at, (rows.shape[1],))


def pack_row(fields: Sequence[Field], layout: Layout, place: int) -> bytes:
    """Return the row of a single table whose vtable precedes it, as `fill` would, without arrays."""
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
    """Return a field of some of the tables."""
    match field:
        case Link():
            return Link(field.slot, field.places[rows])
        case Number():
            return Number(field.slot, field.values[rows])
        case Attached():
            return Attached(field.slot, field.rows[rows], field.words_per_item)
        case Struct():
            return Struct(field.slot, field.rows[rows], field.alignment)


ROWS_AT_ONCE = 1 << 15
"""Tables filled together in all columns, limited by the size of a processor cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Positions of contiguous tables: numbers that descend by one step."""

    first: int
    step: int
    count: int

    def __getitem__(self, part: slice) -> Integers:
        start, stop, _ = part.indices(self.count)
        return self.first - self.step * np.arange(start, stop, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TableRows(Blocks):
    """Tables of one layout, generated block by block."""

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
    """Vector of offsets to positions; `end` is the distance of its end from the end of the file."""

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
    """Yield slices that cover `count` rows, at most ROWS_AT_ONCE each."""
    for start in range(0, count, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, count))


LARGEST_FILE = 2**31 - 1

_LENGTH = struct.Struct("<I")
_ENDINGS = [bytes(4), bytes(3), bytes(2), bytes(1)]
"""Final zero of a byte vector with its padding, by the last two bits of its length."""


class Writer:
    """Collects the parts of a file, last part first."""

    __slots__ = ("_empty", "_parts", "size", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.size = 0
        self._empty = 0
        """Position of an empty vector, which all of them share; 0 before there is one."""
        self._parts: list[Part] = []

    def prepend(self, data: Part, alignment: int = 4) -> int:
        """Prepend a part so that its start is aligned; return its position."""
        padding = -(self.size + len(data)) % alignment
        if padding:
            # Padding follows the part, so that the start of the part is aligned.
            self._parts.append(bytes(padding))
        self._parts.append(data)
        self.size += padding + len(data)
        if self.size > LARGEST_FILE:
            raise self._too_large()
        return self.size

    def _too_large(self) -> InvalidInputError:
        return InvalidInputError(
            f"{self.what}: larger than the 2 GiB that FlatBuffers allow: split it"
        )

    def close_end(self) -> bytearray:
        """Return all that is written, as the end of this file and of later ones, a multiple of 8."""
        end = bytearray(ragged.join([bytes(-self.size % 8), *reversed(self._parts)]))
        self._parts, self.size = [end], len(end)
        return end

    def finish(self, root: int) -> list[Part]:
        """Return the parts of the whole file in order; `root` is the position of the root table."""
        if self.size > LARGEST_FILE:
            raise self._too_large()
        size = -(-(self.size + 8) // 8) * 8
        head = (_WORD.pack(size - root) + FILE_IDENTIFIER).ljust(size - self.size, b"\0")
        return [head, *reversed(self._parts)]

    # Rows: columns are lists, positions too

    def rows(self, kind: Kind, count: int, *columns: Sequence[Any] | None) -> list[int]:
        """Write tables of one kind; a field is omitted where its column is None or ABSENT."""
        if not count:
            return []
        if count == 1 <= FEW:  # as most kinds of tables in a commit are
            return [self.row(kind, *[None if column is None else column[0] for column in columns])]
        present, sparse, words = [], [], 0
        for index, column in enumerate(columns):
            if column is None:
                continue
            type_ = kind.fields[index][1]
            if type_ == LINK and ABSENT in column:
                if column.count(ABSENT) == count:
                    continue
                sparse.append(index)
            elif type_ == WORDS:
                words = len(column[0])
            present.append(index)
        if count > FEW:
            fields = [kind.field(index, columns[index] or ()) for index in present]
            many: list[int] = self.tables(count, *fields).tolist()
            return many
        if sparse:
            return self._sparse_rows(kind, count, columns, sparse)
        key = (tuple(present), words)
        layout, pack, order = kind.layouts.get(key) or kind.lay_out(*key)
        stride, vtable = layout.stride, layout.vtable
        padding = -(self.size + count * stride) % layout.alignment
        end = self.size + padding
        first = end + stride * count
        values: list[Iterable[Any]] = [range(len(vtable), len(vtable) + stride * count, stride)]
        for index, at, type_ in order:
            if type_ == LINK:
                starts = range(first - at, end - at, -stride)
                values.append(map(sub, starts, columns[index] or ()))
            elif type_ == WORDS:
                values.append(repeat(layout.attached_at - at))
            else:
                values.append(columns[index] or ())
        if kind.attached in present:
            attached = zip(*(columns[kind.attached] or ()), strict=True)
            values += [repeat(words // kind.words_per_item), *attached]
        self._parts.append(b"".join([vtable, *map(pack, *values), bytes(padding)]))
        self.size = first + len(vtable)
        return [*range(first, end, -stride)]

    def _sparse_rows(
        self, kind: Kind, count: int, columns: Sequence[Sequence[Any] | None], sparse: list[int]
    ) -> list[int]:
        """Write tables that have different fields: those with equal ones together."""
        members: dict[int, list[int]] = {}
        for row in range(count):
            missing = 0
            for bit, index in enumerate(sparse):
                missing |= (columns[index][row] == ABSENT) << bit  # type: ignore[index]
            members.setdefault(missing, []).append(row)
        places = [0] * count
        for missing in sorted(members):
            rows = members[missing]
            gone = {index for bit, index in enumerate(sparse) if missing >> bit & 1}
            part = [
                None if column is None or index in gone else [column[row] for row in rows]
                for index, column in enumerate(columns)
            ]
            for row, place in zip(rows, self.rows(kind, len(rows), *part), strict=True):
                places[row] = place
        return places

    def row(self, kind: Kind, *values: Any) -> int:
        """Write one table; a field is omitted if its value is None or ABSENT."""
        key = tuple([None if value is None else value == ABSENT for value in values])
        found = kind.single.get(key) if kind.attached == ABSENT else None
        layout, pack, order = found or kind.lay_out_single(key, values)
        vtable, stride = layout.vtable, layout.stride
        padding = -(self.size + stride) % layout.alignment
        place = self.size + padding + stride
        packed = [len(vtable)]
        for index, at, type_ in order:
            if type_ is LINK:
                packed.append(place - at - values[index])
            elif type_ is WORDS:
                packed.append(layout.attached_at - at)
            else:
                packed.append(values[index])
        if kind.attached != ABSENT and values[kind.attached] is not None:
            vector = values[kind.attached]
            packed += (len(vector) // kind.words_per_item, *vector)
        self._parts.append(vtable + pack(*packed) + bytes(padding))
        self.size = place + len(vtable)
        return place

    def vector(self, item: bytes | str | None) -> int:
        """Write a byte vector or a string, ABSENT for None."""
        if item is None:
            return ABSENT
        if isinstance(item, str):
            item = item.encode()
        size = len(item)
        data = _LENGTH.pack(size) + item + _ENDINGS[size & 3] + bytes(-self.size % 4)
        self._parts.append(data)
        self.size += len(data)
        return self.size

    def vectors(self, items: Sequence[bytes | str | None]) -> list[int]:
        """Write a byte vector or a string per item, ABSENT for None."""
        if None in items:
            present = [item for item in items if item is not None]
            places = iter(self.vectors(present) if present else ())
            return [ABSENT if item is None else next(places) for item in items]
        if not items:
            return []
        datas = [item.encode() if isinstance(item, str) else item for item in items]
        sizes = [*map(len, datas)]  # type: ignore[arg-type]
        pack = _LENGTH.pack
        pieces = [
            pack(size) + data + _ENDINGS[size & 3]  # type: ignore[operator]
            for size, data in zip(sizes, datas, strict=True)
        ]
        if padding := -self.size % 4:
            self._parts.append(bytes(padding))
        data = b"".join(pieces)
        self._parts.append(data)
        self.size += padding + len(data)
        return [*accumulate(map(len, pieces[:-1]), sub, initial=self.size)]

    def empty(self) -> int:
        """Write a vector without items, unless there is one."""
        if not self._empty:
            padding = -self.size % 4
            self._parts.append(bytes(4 + padding))
            self._empty = self.size = self.size + padding + 4
        return self._empty

    def structs(self, items: Sequence[bytes], alignment: int = 4) -> int:
        """Write one vector of structs."""
        if not items and alignment == 4:
            return self.empty()
        data = b"".join(items)
        # The items must be aligned, not the count before them.
        padding = -(self.size + len(data)) % alignment
        self._parts.append(b"".join([_LENGTH.pack(len(items)), data, bytes(padding)]))
        self.size += 4 + len(data) + padding
        return self.size

    def links(self, places: Sequence[int]) -> int:
        """Write one vector of offsets to these positions."""
        count = len(places)
        if not count:
            return self.empty()
        padding = -self.size % 4
        end = self.size + padding
        if count > _FEW_LINKS:
            links = np.arange(end + 4 * count, end, -4)
            links -= np.array(places, np.int64)
            data = _WORD.pack(count) + links.astype("<u4").tobytes() + bytes(padding)
        else:
            words = map(sub, range(end + 4 * count, end, -4), places)
            data = struct.pack(f"<I{count}I{padding}x", count, *words)
        self._parts.append(data)
        self.size = end + 4 + 4 * count
        return self.size

    def link_lists(self, places: Sequence[int], counts: Sequence[int]) -> list[int]:
        """Write vectors of offsets; `places` holds the positions of all vectors, concatenated."""
        if not places:
            return [self.empty()] * len(counts)
        if len(places) + len(counts) > FEW:
            found: list[int] = self.link_vectors(np.array(places, np.int64), counts).tolist()
            return found
        at = self.size + -self.size % 4 + 4 * (len(places) + len(counts))
        words, starts, first = [], [], 0
        for count in counts:
            starts.append(at)
            words.append(count)
            at -= 4
            for place in places[first : first + count]:
                words.append(at - place)
                at -= 4
            first += count
        padding = -self.size % 4
        self._parts.append(struct.pack(f"<{len(words)}I{padding}x", *words))
        self.size += 4 * len(words) + padding
        return starts

    # Vectors

    def byte_vectors(self, items: Sequence[bytes]) -> Integers:
        """Write a byte vector per item; strings are written this way too, with their final zero."""
        pieces = ((_LENGTH.pack(len(i)), i, _ENDINGS[len(i) & 3]) for i in items)
        lengths = np.fromiter(map(len, items), np.int64, len(items))
        starts = ragged.offsets_of(_stride(lengths))
        return self.prepend(b"".join(chain.from_iterable(pieces))) - starts[:-1]

    def packed_vectors(self, blob: Bytes, offsets: Integers) -> Integers:
        """Write a byte vector per item of a packed blob."""
        return self.copies(Pieces(blob, offsets[:-1], np.diff(offsets)))

    def copies(self, pieces: Pieces, item_size: int = 1) -> Integers:
        """Write a vector per piece of a buffer, with items of the given size."""
        starts = ragged.offsets_of(_stride(pieces.lengths))
        block = np.zeros(int(starts[-1]), np.uint8)
        if len(pieces):
            ragged.windows(block, "<u4")[starts[:-1]] = pieces.lengths // item_size
            ragged.scatter(block, starts[:-1] + 4, pieces.buffer, pieces.starts, pieces.lengths)
        return self.prepend(block) - starts[:-1]

    def link_vector(self, places: Integers) -> int:
        """Write one vector of offsets to these positions."""
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
        """Write vectors of offsets; `places` holds the positions of all vectors, concatenated."""
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
        """Write a string per text, ABSENT for None."""
        return self.optional_bytes([None if text is None else text.encode() for text in texts])

    def text(self, text: str | None) -> Integers:
        """Write one string, for `Link`."""
        return self.texts([text])

    def optional_bytes(self, datas: Sequence[bytes | None]) -> Integers:
        """Write a byte vector per item, ABSENT for None."""
        places = np.full(len(datas), ABSENT, np.int64)
        present = [number for number, data in enumerate(datas) if data is not None]
        if present:
            places[present] = self.byte_vectors([data for data in datas if data is not None])
        return places

    # Tables

    def table(self, *fields: Field) -> int:
        """Write one table."""
        return int(self.tables(1, *fields)[0])

    def tables(self, count: int, *fields: Field) -> Integers:
        """Write tables of one kind; a field with an ABSENT position is omitted."""
        if not count:
            return np.empty(0, np.int64)
        sparse = [field for field in fields if isinstance(field, Link) and field.places.min() < 0]
        if not sparse:
            return self._uniform_tables(count, fields)
        if all(field.places.max() < 0 for field in sparse):
            return self._uniform_tables(count, _without(fields, sparse))
        return self._sparse_tables(count, fields, sparse)

    def linked_tables(self, count: int, *fields: Field) -> int:
        """Write one vector of offsets to tables of one kind, which have all these fields."""
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
        """Write many tables, generated only when the file is written."""
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
    """Return the size of byte vectors: count, bytes and final zero, padded."""
    return (lengths + 8) & ~3
