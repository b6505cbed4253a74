"""Shares of all ids by their first bits: ids are random, so that shares are about equal in size.

Names of ids sort as the ids do, so that a share of them is a stretch of a sorted list, too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.format.ids import ALPHABET
from frazil.maintenance.id_columns import Ids

CELLS = 64
"""Of the least share; there are as many of these."""
_LETTERS = len(ALPHABET)
_NAMES = _LETTERS * _LETTERS
"""How many beginnings of two letters there are."""


@dataclass(frozen=True, slots=True)
class Share:
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


def cut(count: int) -> list[Share]:
    """Everything, in at least so many shares, if there are as many."""
    whole = 1
    while whole < min(count, CELLS):
        whole *= 2
    return [Share(number, whole) for number in range(whole)]


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
