"""Shares of ids."""

import os

import numpy as np
import pytest

from frazil.format.ids import ChunkId
from frazil.maintenance.id_ranges import ID_SLICES, IdRange, find_slices, ids_of, split_ids

IDS = ids_of(np.frombuffer(os.urandom(12 * 3000), np.uint8).reshape(-1, 12))
EDGES = ids_of(
    np.array([[first, *[rest] * 11] for first in range(256) for rest in (0, 255)], np.uint8)
)


@pytest.mark.parametrize(("wanted", "count"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (99, 64)])
def test_there_are_at_least_so_many_shards_if_there_are_as_many(wanted: int, count: int) -> None:
    assert split_ids(wanted) == [IdRange(number, count) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 8, 64])
@pytest.mark.parametrize("ids", [IDS, EDGES], ids=["random", "edges"])
def test_every_id_is_in_one_shard(count: int, ids: np.ndarray) -> None:
    chosen = np.array([id_range.contains(ids) for id_range in split_ids(count)])

    np.testing.assert_array_equal(chosen.sum(axis=0), 1)


@pytest.mark.parametrize("count", [1, 2, 8, 64])
@pytest.mark.parametrize("ids", [IDS, EDGES], ids=["random", "edges"])
def test_the_names_of_a_shard_are_a_range(count: int, ids: np.ndarray) -> None:
    names = [str(ChunkId(row.tobytes())) for row in ids.view(np.uint8).reshape(-1, 12)]

    for id_range in split_ids(count):
        after, before = id_range.find_names()
        assert [after < name < before for name in names] == id_range.contains(ids).tolist()


def test_sorted_ids_have_sorted_slices() -> None:
    slices = find_slices(np.sort(IDS))

    assert (np.diff(slices.astype(int)) >= 0).all()
    assert set(slices.tolist()) <= set(range(ID_SLICES))
