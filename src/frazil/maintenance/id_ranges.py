"""Sets of ids as sorted columns, and ranges of ids by their first bits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from frazil.format.ids import ALPHABET

Ids = NDArray[np.bytes_]
"""Column of ids of equal width."""

_MANY = 1 << 16
"""Number of ids to sort at once: many small columns are slow."""
_NO_DIGIT = 255
_BITS = 5
_DIGIT_OF = np.full(256, _NO_DIGIT, np.uint8)
_DIGIT_OF[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET))


def ids_of(rows: NDArray[np.uint8]) -> Ids:
    """Return rows of bytes as a column of ids."""
    count, size = rows.shape
    return np.ascontiguousarray(rows).view(f"S{size}").reshape(count)


def column_of(ids: Iterable[bytes], size: int) -> Ids:
    """Return distinct ids as a sorted column."""
    rows = np.frombuffer(b"".join(sorted(set(ids))), np.uint8)
    return ids_of(rows.reshape(-1, size))


def distinct(ids: Ids) -> Ids:
    """Return the distinct ids, sorted; several times faster than `np.unique`, which hashes strings."""
    ordered = np.sort(ids)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def unite_columns(columns: Iterable[Ids]) -> Iterator[Ids]:
    """Merge many columns into fewer; each is sorted and has no duplicates."""
    waiting: list[Ids] = []
    count = 0
    for column in columns:
        waiting.append(column)
        count += len(column)
        if count >= _MANY:
            yield distinct(np.concatenate(waiting))
            waiting, count = [], 0
    if count:
        yield distinct(np.concatenate(waiting))


def parse_names(names: Sequence[str], size: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the ids that names spell, and which names spell one canonically."""
    length = (size * 8 + _BITS - 1) // _BITS
    is_name = np.fromiter((len(n) == length and n.isascii() for n in names), np.bool_, len(names))
    letters = np.frombuffer("".join(compress(names, is_name)).encode(), np.uint8)
    digits = _DIGIT_OF[letters].reshape(-1, length)
    bits = np.unpackbits(digits[:, :, np.newaxis], axis=2)[:, :, 8 - _BITS :]
    bits = bits.reshape(len(digits), length * _BITS)
    is_canonical = (digits != _NO_DIGIT).all(axis=1) & ~bits[:, size * 8 :].any(axis=1)
    is_name[is_name] = is_canonical
    return ids_of(np.packbits(bits[is_canonical, : size * 8], axis=1)), is_name


class IdSet:
    """Set of ids, stored as a few sorted columns."""

    def __init__(self, column: Ids | None = None) -> None:
        self._runs: list[Ids] = []
        if column is not None:
            self.add(column)

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, column: Ids) -> NDArray[np.bool_]:
        """Add a sorted column without duplicates; returns which of its ids are new."""
        is_new = ~self.contains(column)
        run = column[is_new]
        # Each column is more than twice as long as the next, so there are few to search.
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)
        return is_new

    def contains(self, column: Ids) -> NDArray[np.bool_]:
        """Return which ids of a column, in any order, are in the set."""
        found = np.zeros(len(column), np.bool_)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, column), len(run) - 1)
            found |= run[at] == column
        return found


ID_SLICES = 64
"""Number of slices, the smallest id ranges."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """One of several equal id ranges; their count divides the number of slices."""

    number: int = 0
    count: int = 1

    @property
    def slices(self) -> range:
        """Cells of the range."""
        size = ID_SLICES // self.count
        return range(self.number * size, (self.number + 1) * size)

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """Return which ids belong to the range."""
        slices = find_slices(ids)
        return (slices >= self.slices.start) & (slices < self.slices.stop)

    def find_names(self) -> tuple[str, str]:
        """Return exclusive lower and upper bounds of the names of its ids."""
        return name_slice(self.number, self.count), name_slice(self.number + 1, self.count)


def split_ids(count: int) -> list[IdRange]:
    """Split all ids into at least `count` ranges, at most one per slice."""
    whole = 1
    while whole < min(count, ID_SLICES):
        whole *= 2
    return [IdRange(number, whole) for number in range(whole)]


def split_ids_at_most(count: int) -> list[IdRange]:
    """Split all ids into at most `count` ranges."""
    ranges = split_ids(count)
    return ranges if len(ranges) <= count else split_ids(len(ranges) // 2)


def find_slices(ids: Ids) -> NDArray[np.uint8]:
    """Return the slice number of each id; sorted ids have sorted slices."""
    rows = np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), ids.dtype.itemsize)
    return rows[:, 0] >> np.uint8(2)


def name_slice(number: int, count: int) -> str:
    """Return a two-letter lower bound of the names in one of `count` equal slices of all ids.

    For `count` itself, return a letter above all names.
    """
    if number == count:
        return chr(ord(ALPHABET[-1]) + 1)
    high, low = divmod(number * len(ALPHABET) ** 2 // count, len(ALPHABET))
    return ALPHABET[high] + ALPHABET[low]
