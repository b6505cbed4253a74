"""Coordinates of chunks as lists of numbers, as users get them, made of columns."""

import gc

import numpy as np

from frazil.format.coordinates import Coordinates

_MANY = 10_000


def to_lists(coordinates: Coordinates) -> list[list[int]]:
    """A list for each chunk."""
    if len(coordinates) < _MANY or not coordinates.size:
        small: list[list[int]] = coordinates.tolist()
        return small
    # While many objects are made and none is dropped, a collector that looks at them again and again
    # takes half of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _to_many_lists(coordinates)
    finally:
        if was_enabled:
            gc.enable()


def _to_many_lists(coordinates: Coordinates) -> list[list[int]]:
    limit = int(coordinates.max()) + 1
    found: list[list[int]]
    if limit > len(coordinates):
        found = coordinates.tolist()
        return found
    # Every number is one object, however often it occurs.
    numbers = np.empty(limit, object)
    numbers[:] = range(limit)
    found = numbers[coordinates].tolist()
    return found
