"""Sets of ids as sorted columns, and ranges of ids by their first bits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from frazil.format.ids import ALPHABET

Ids = NDArray[np.bytes_]
"""Ids of one width, a row each."""

_MANY = 1 << 16
"""So many ids are sorted at once: small columns cost more than what is in them."""
_NO_DIGIT = 255
_BITS = 5
_DIGIT_OF = np.full(256, _NO_DIGIT, np.uint8)
_DIGIT_OF[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET))


def ids_of(rows: NDArray[np.uint8]) -> Ids:
    """Rows of bytes as a column."""
    count, size = rows.shape
    return np.ascontiguousarray(rows).view(f"S{size}").reshape(count)


def column_of(ids: Iterable[bytes], size: int) -> Ids:
    """Ids given one by one as a column, each once, sorted."""
    rows = np.frombuffer(b"".join(sorted(set(ids))), np.uint8)
    return ids_of(rows.reshape(-1, size))


def distinct(ids: Ids) -> Ids:
    """Each once, sorted: `np.unique` hashes texts, which takes several times as long."""
    ordered = np.sort(ids)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def unite_columns(columns: Iterable[Ids]) -> Iterator[Ids]:
    """The ids of many columns in fewer ones, each sorted, no id twice in one."""
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
    """The ids that are spelled by names, and which names spell one as a writer would."""
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
    """A set that grows by sorted columns; it holds each id once, and as few columns as it can."""

    def __init__(self, column: Ids | None = None) -> None:
        self._runs: list[Ids] = []
        if column is not None:
            self.add(column)

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, column: Ids) -> NDArray[np.bool_]:
        """Take up a column, sorted, no id twice; gives which of its ids are new."""
        is_new = ~self.contains(column)
        run = column[is_new]
        # Each column is at least twice as long as the next, so there are never many to search.
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)
        return is_new

    def contains(self, column: Ids) -> NDArray[np.bool_]:
        """Which ids of a column, in any order, are in the set."""
        found = np.zeros(len(column), np.bool_)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, column), len(run) - 1)
            found |= run[at] == column
        return found


CELLS = 64
"""Of the least share; there are as many of these."""
_LETTERS = len(ALPHABET)
_NAMES = _LETTERS * _LETTERS
"""How many beginnings of two letters there are."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """One of several equal parts; their count divides that of cells."""

    number: int = 0
    count: int = 1

    @property
    def cells(self) -> range:
        """The cells that it consists of."""
        size = CELLS // self.count
        return range(self.number * size, (self.number + 1) * size)

    def choose(self, ids: Ids) -> NDArray[np.bool_]:
        """Which ids belong to it."""
        cells = cells_of(ids)
        return (cells >= self.cells.start) & (cells < self.cells.stop)

    def find_names(self) -> tuple[str, str]:
        """What the names of its ids come after and before."""
        after, before = (_name(cell) for cell in (self.cells.start, self.cells.stop))
        return after, before


def cut(count: int) -> list[IdRange]:
    """Everything, in at least so many shares, if there are as many."""
    whole = 1
    while whole < min(count, CELLS):
        whole *= 2
    return [IdRange(number, whole) for number in range(whole)]


def cells_of(ids: Ids) -> NDArray[np.uint8]:
    """The number of each id's cell; sorted ids have sorted cells."""
    rows = np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), ids.dtype.itemsize)
    return rows[:, 0] >> np.uint8(2)


def _name(cell: int) -> str:
    """Two letters that names of this cell start with or come after; beyond the last, any letter."""
    if cell == CELLS:
        return chr(ord(ALPHABET[-1]) + 1)
    high, low = divmod(cell * _NAMES // CELLS, _LETTERS)
    return ALPHABET[high] + ALPHABET[low]
