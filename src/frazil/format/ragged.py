"""Variable-length byte strings and texts in one buffer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from frazil.errors import FormatError
from frazil.lazy import dataclass

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]


class Blocks:
    """Large part of a file, generated block by block while it is written."""

    # Not abstract: many parts are asked whether they are one, which is slow of an abstract class.
    __slots__ = ()

    def __len__(self) -> int:
        """Return the total size of all blocks."""
        raise NotImplementedError

    def __iter__(self) -> Iterator["bytes | Bytes"]:
        """Yield the blocks in order."""
        raise NotImplementedError

    def __bytes__(self) -> bytes:
        return b"".join(map(bytes, self))


Part = bytes | bytearray | Bytes | Blocks
"""Part of a file that is written part by part."""


def join(parts: Sequence[Part]) -> bytes:
    """Return the bytes of all parts."""
    try:
        return b"".join(parts)  # type: ignore[arg-type]
    except TypeError:  # some are made now
        return b"".join([bytes(part) if isinstance(part, Blocks) else part for part in parts])


# Odd multipliers of a multilinear hash; collisions are detected, so any values work.
_MULTIPLIERS = np.arange(1, 257, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Byte strings at given positions of a buffer."""

    buffer: Bytes
    starts: Integers
    lengths: Integers

    def __len__(self) -> int:
        return self.starts.size

    def take(self, rows: Integers) -> Self:
        """Return some of the strings."""
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def terminated(self) -> bytes:
        """Return a copy of all strings, concatenated and each terminated by a zero byte."""
        offsets = offsets_of(self.lengths + 1)
        copy = np.zeros(int(offsets[-1]), np.uint8)
        scatter(copy, offsets[:-1], self.buffer, self.starts, self.lengths)
        return copy.tobytes()


def windows(buffer: Bytes, dtype: DTypeLike) -> NDArray[Any]:
    """Return a view with the item that starts at each byte of the buffer."""
    dtype = np.dtype(dtype)
    count = max(buffer.size - dtype.itemsize + 1, 0)
    return np.ndarray((count,), dtype, buffer, 0, (1,))


def gather(buffer: Bytes, starts: Integers, item_size: int) -> Bytes:
    """Copy items of one size into the rows of a matrix; the caller has checked the bounds."""
    if item_size == 0 or starts.size == 0:
        return np.empty((starts.size, item_size), np.uint8)
    rows: Bytes = windows(buffer, f"V{item_size}")[starts].view(np.uint8)
    return rows.reshape(starts.size, item_size)


def offsets_of(lengths: Integers) -> Integers:
    """Return the offsets of strings packed without gaps, the end included."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def runs(starts: Integers, counts: Integers, step: int = 1) -> Integers:
    """Return concatenated ranges: for each start, `count` numbers with the given step."""
    offsets = offsets_of(counts)
    first = np.repeat(starts - step * offsets[:-1], counts)
    return first + step * np.arange(int(offsets[-1]), dtype=np.int64)


def pack(buffer: Bytes, starts: Integers, lengths: Integers) -> tuple[Bytes, Integers]:
    """Pack strings into a new buffer; return it with the offsets."""
    offsets = offsets_of(lengths)
    if starts.size and np.array_equal(starts - starts[0], offsets[:-1]):
        first = int(starts[0])
        return buffer[first : first + int(offsets[-1])].copy(), offsets
    packed = np.empty(int(offsets[-1]), np.uint8)
    scatter(packed, offsets[:-1], buffer, starts, lengths)
    return packed, offsets


def scatter(
    target: Bytes, target_starts: Integers, source: Bytes, starts: Integers, lengths: Integers
) -> None:
    """Copy each string from its start in the source to its start in the target."""
    for length, rows in _by_length(lengths):
        if length:
            items = windows(source, f"V{length}")[starts[rows]]
            windows(target, f"V{length}")[target_starts[rows]] = items


def distinct(buffer: Bytes, starts: Integers, lengths: Integers) -> tuple[Integers, Integers]:
    """Find distinct strings: return a representative row of each, and the code of every row."""
    representatives: list[Integers] = []
    codes = np.empty(starts.size, np.int64)
    found = 0
    for length, rows in _by_length(lengths):
        row_starts = starts[rows]
        first, code = _distinct_items(gather(buffer, row_starts, length))
        numbers = np.arange(starts.size)[rows] if isinstance(rows, slice) else rows
        representatives.append(numbers[first])
        codes[rows] = code + found
        found += first.size
    if not representatives:
        return np.empty(0, np.int64), codes
    return np.concatenate(representatives), codes


def distinct_numbers(numbers: Integers) -> tuple[Integers, Integers]:
    """Return index and inverse of `numpy.unique`; fast if equal numbers come in runs."""
    if numbers.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts_run = np.empty(numbers.size, np.bool_)
    starts_run[0] = True
    np.not_equal(numbers[1:], numbers[:-1], out=starts_run[1:])
    heads = np.flatnonzero(starts_run)
    _, first, inverse = np.unique(numbers[heads], return_index=True, return_inverse=True)
    codes = inverse if heads.size == numbers.size else inverse[np.cumsum(starts_run) - 1]
    return heads[first], codes.astype(np.int64, copy=False)


def _by_length(lengths: Integers) -> list[tuple[int, Integers | slice]]:
    if lengths.size == 0:
        return []
    if lengths.min() == lengths.max():
        return [(int(lengths[0]), slice(None))]
    order = np.argsort(lengths, kind="stable")
    values, starts = np.unique(lengths[order], return_index=True)
    ends = [*starts[1:].tolist(), lengths.size]
    pieces = zip(values.tolist(), starts.tolist(), ends, strict=True)
    return [(length, order[start:end]) for length, start, end in pieces]


def _distinct_items(items: Bytes) -> tuple[Integers, Integers]:
    count, size = items.shape
    words = -(-size // 8)
    if words == 0 or words > _MULTIPLIERS.size:
        return _distinct_by_dict(items)
    padded = items
    if size % 8:
        padded = np.zeros((count, words * 8), np.uint8)
        padded[:, :size] = items
    columns = padded.view(np.uint64)
    hashes = np.zeros(count, np.uint64)
    for word in range(words):
        hashes += columns[:, word] * _MULTIPLIERS[word]
        hashes ^= hashes >> np.uint64(29)
    first, codes = distinct_numbers(hashes.view(np.int64))
    if not np.array_equal(columns, columns[first[codes]]):
        return _distinct_by_dict(items)
    return first, codes


def _distinct_by_dict(items: Bytes) -> tuple[Integers, Integers]:
    number_of: dict[bytes, int] = {}
    codes = np.fromiter(
        (number_of.setdefault(item.tobytes(), len(number_of)) for item in items),
        np.int64,
        len(items),
    )
    first = np.zeros(len(number_of), np.int64)
    first[codes[::-1]] = np.arange(len(items))[::-1]
    return first, codes


class Strings:
    """Texts by index. Codes in a table column refer to one of these; -1 means no text."""

    __slots__ = ("blob", "offsets")

    def __init__(self, blob: Bytes, offsets: Integers) -> None:
        self.blob = blob
        self.offsets = offsets

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Build a column from texts."""
        encoded = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets_of(lengths))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, number: int) -> str:
        return self.encoded(number).decode()

    def __iter__(self) -> Iterator[str]:
        return map(bytes.decode, self.encoded_list())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.blob, other.blob)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Strings({len(self)} texts, {self.blob.size} bytes)"

    @property
    def lengths(self) -> Integers:
        """Return the number of bytes of each text."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Return the memory used, in bytes."""
        return self.blob.nbytes + self.offsets.nbytes

    def encoded_list(self) -> list[bytes]:
        """Return all texts as UTF-8."""
        data, ends = self.blob.tobytes(), self.offsets.tolist()
        return [data[start:end] for start, end in pairwise(ends)]

    def encoded(self, number: int) -> bytes:
        """Return one text as UTF-8."""
        return self.blob[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def take(self, numbers: Integers) -> "Strings":
        """Return the texts with these indexes, in this order."""
        lengths = self.lengths[numbers]
        return Strings(*pack(self.blob, self.offsets[:-1][numbers], lengths))

    def validate(self, what: str) -> Self:
        """Return the column; raise FormatError if a text is not UTF-8."""
        try:
            self.blob.tobytes().decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{what}: not UTF-8: {error}") from error
        starts = self.offsets[:-1][self.lengths > 0]
        # The whole blob is UTF-8, so a text is invalid only if it starts inside a character.
        if np.any((self.blob[starts] & 0xC0) == 0x80):
            raise FormatError(f"{what}: a text starts in the middle of a UTF-8 character")
        return self


NO_STRINGS = Strings.of(())

_FEW_TEXTS = 4096


def unite(columns: Iterable[Strings]) -> tuple[Strings, list[Integers]]:
    """Merge columns into one with distinct texts; also return the new codes of each column.

    Few texts keep their order, so that they are written as references one by one are.
    """
    columns = list(columns)
    if columns and all(column is columns[0] for column in columns):
        same = np.arange(len(columns[0]), dtype=np.int64)
        return columns[0], [same] * len(columns)
    lengths = [column.lengths for column in columns]
    blob = np.concatenate([column.blob for column in columns]) if columns else NO_STRINGS.blob
    all_lengths = np.concatenate([*lengths, np.empty(0, np.int64)])
    offsets = offsets_of(all_lengths)
    first, codes = distinct(blob, offsets[:-1], all_lengths)
    if first.size <= _FEW_TEXTS:
        order = np.argsort(first)
        first, codes = first[order], np.argsort(order)[codes]
    united = Strings(blob, offsets).take(first)
    ends = np.cumsum([length.size for length in lengths])
    return united, np.split(codes, ends[:-1]) if columns else []
