"""Many byte strings of different lengths in one buffer, handled a length at a time.

A byte string is a start and a length in a buffer. All strings of one length are one numpy column of
fixed-size items over the buffer, so copying or comparing a million of them costs a few array
operations for every distinct length and no Python object for any string.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]


class Blocks(ABC):
    """A large piece of a file, made block by block when it is written, and never whole."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """The bytes of all blocks."""

    @abstractmethod
    def __iter__(self) -> Iterator["bytes | Bytes"]:
        """The blocks, in their order."""

    def __bytes__(self) -> bytes:
        return b"".join(map(bytes, self))


Part = bytes | Bytes | Blocks
"""A piece of a file that is written piece by piece."""

# Odd multipliers of a multilinear hash; collisions are looked for, so any will do.
_MULTIPLIERS = np.arange(1, 257, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Byte strings in a buffer, where they are."""

    buffer: Bytes
    starts: Integers
    lengths: Integers

    def __len__(self) -> int:
        return self.starts.size

    def take(self, rows: Integers) -> Self:
        """Some of them."""
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def terminated(self) -> bytes:
        """A copy of all behind each other, each with a zero at its end."""
        offsets = offsets_of(self.lengths + 1)
        copy = np.zeros(int(offsets[-1]), np.uint8)
        scatter(copy, offsets[:-1], self.buffer, self.starts, self.lengths)
        return copy.tobytes()


def windows(buffer: Bytes, dtype: DTypeLike) -> NDArray[Any]:
    """The items that start at each byte of the buffer, as one indexable view."""
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
    """Where strings of these lengths lie when packed one behind the other; one more than strings."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def runs(starts: Integers, counts: Integers, step: int = 1) -> Integers:
    """The numbers from each start on, as many as its count, all runs behind each other."""
    offsets = offsets_of(counts)
    first = np.repeat(starts - step * offsets[:-1], counts)
    return first + step * np.arange(int(offsets[-1]), dtype=np.int64)


def pack(buffer: Bytes, starts: Integers, lengths: Integers) -> tuple[Bytes, Integers]:
    """Copy strings behind each other into a new buffer; returns it with the offsets."""
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
    """Which strings are the same: for each distinct one a row that has it, for each row its number."""
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
    """`numpy.unique` with index and inverse, cheap where equal numbers come in runs."""
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
