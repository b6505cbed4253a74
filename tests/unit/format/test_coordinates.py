"""Coordinates as lists: the same numbers, few or many, small or large."""

import gc
import json

import numpy as np
import pytest

from frazil import Diff
from frazil.snapshots import to_lists


@pytest.mark.parametrize("largest", [1, 300, 2**32 - 1])
@pytest.mark.parametrize("count", [0, 3, 20_000])
@pytest.mark.parametrize("axes", [0, 1, 3])
def test_lists_hold_the_numbers_of_the_columns(axes: int, count: int, largest: int) -> None:
    chance = np.random.default_rng(0)
    coordinates = chance.integers(0, largest, (count, axes), np.uint32, endpoint=True)

    found = to_lists(coordinates)

    assert found == coordinates.tolist()
    assert all(type(number) is int for row in found[:3] for number in row)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_left_as_it_was(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        to_lists(np.zeros((20_000, 2), np.uint32))
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_a_diff_has_real_lists() -> None:
    one, none = np.array([[1]], np.uint32), np.empty((0, 2), np.uint32)
    diff = Diff(chunk_coordinates={"/b": one, "/a": none})

    assert json.dumps(diff.updated_chunks) == '{"/a": [], "/b": [[1]]}'
    assert diff.updated_chunks is diff.updated_chunks
    assert diff == Diff(chunk_coordinates={"/a": none, "/b": one})
    assert diff != Diff(chunk_coordinates={"/a": none, "/b": one + 1})
    assert diff != Diff()
