"""A list of chunks is one in all but when its items are made."""

import pickle

import numpy as np
import pytest

from frazil.snapshots.chunk_list import ChunkList

ROWS = [[0, 1], [2, 3], [4, 5]]
CHUNKS = ChunkList(np.array(ROWS, np.uint32))


def test_it_is_equal_to_a_list_of_the_same_coordinates() -> None:
    assert CHUNKS == ROWS
    assert ROWS == CHUNKS
    assert {"/a": CHUNKS} == {"/a": ROWS}
    assert ChunkList(np.array(ROWS, np.uint32)) == CHUNKS
    assert ROWS[:2] != CHUNKS
    assert ChunkList(np.array(ROWS[:2], np.uint32)) != CHUNKS
    assert ChunkList(np.empty((0, 2), np.uint32)) == ChunkList(np.empty((0, 3), np.uint32)) == []


@pytest.mark.parametrize("index", [0, -1, slice(None), slice(1, 3), slice(None, None, -2)])
def test_items_are_lists_of_plain_numbers(index: int | slice) -> None:
    assert CHUNKS[index] == ROWS[index]
    assert repr(CHUNKS[index]) == repr(ROWS[index])


def test_an_index_outside_is_refused() -> None:
    with pytest.raises(IndexError):
        CHUNKS[3]


def test_it_does_what_a_sequence_does() -> None:
    assert (len(CHUNKS), list(CHUNKS), sorted(CHUNKS)) == (3, ROWS, ROWS)
    assert [2, 3] in CHUNKS
    assert [2, 4] not in CHUNKS
    assert (CHUNKS.index([4, 5]), CHUNKS.count([0, 1])) == (2, 1)
    assert list(reversed(CHUNKS)) == ROWS[::-1]
    assert np.array_equal(np.array(CHUNKS), ROWS)


def test_it_shows_itself_as_a_list() -> None:
    assert repr(CHUNKS) == str(CHUNKS) == repr(ROWS)


def test_it_travels() -> None:
    assert pickle.loads(pickle.dumps(CHUNKS)) == CHUNKS
