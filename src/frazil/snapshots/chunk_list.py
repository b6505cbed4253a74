"""The coordinates of many chunks, which become lists of numbers when they are asked for."""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from frazil.format.coordinates import Coordinates

_LISTED_AT_ONCE = 10_000


class ChunkList(Sequence[list[int]]):
    """Like a list of the coordinates, each a list; it is equal to one, and shows itself as one."""

    __slots__ = ("_coordinates",)

    def __init__(self, coordinates: Coordinates) -> None:
        self._coordinates = coordinates

    def __len__(self) -> int:
        return len(self._coordinates)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...

    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        found: list[int] | list[list[int]] = self._coordinates[index].tolist()
        return found

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self), _LISTED_AT_ONCE):
            yield from self[start : start + _LISTED_AT_ONCE]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ChunkList):
            mine, theirs = self._coordinates, other._coordinates
            return len(mine) == len(theirs) == 0 or np.array_equal(mine, theirs)
        if isinstance(other, list):
            return len(self) == len(other) and self[:] == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self[:])
