"""Shares of ids."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.format.ids import ChunkId, encode_base32
from frazil.maintenance.reachability import (
    ID_SLICES,
    IdRange,
    IdSet,
    column_of,
    distinct,
    find_slices,
    ids_of,
    parse_names,
    split_ids,
    unite_columns,
)

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


# Few values in few places, so that ids repeat and end in zeros, which numpy likes to cut off.
ids = st.lists(st.sampled_from(b"\0\1\xff"), min_size=12, max_size=12).map(bytes)
id_sets = st.sets(ids, max_size=30)


def items(column: np.ndarray[tuple[int], np.dtype[np.bytes_]]) -> list[bytes]:
    return [each.tobytes() for each in column.view(np.uint8).reshape(-1, column.itemsize)]


@given(id_sets)
def test_a_column_has_each_id_once_in_order(some: set[bytes]) -> None:
    assert items(column_of([*some, *some], 12)) == sorted(some)


@given(st.lists(ids, max_size=30))
def test_distinct_ids_are_those_that_numpy_finds(some: list[bytes]) -> None:
    column = ids_of(np.frombuffer(b"".join(some), np.uint8).reshape(-1, 12))

    np.testing.assert_array_equal(distinct(column), np.unique(column))


@given(st.lists(id_sets, max_size=6))
def test_united_columns_have_all_ids_in_order(columns: list[set[bytes]]) -> None:
    united = unite_columns(column_of(column, 12) for column in columns)

    found = [each for column in united for each in items(column)]

    assert found == sorted(set[bytes]().union(*columns))


@given(st.lists(id_sets, max_size=6), id_sets)
def test_a_set_that_grows_knows_all_that_it_was_given(
    columns: list[set[bytes]], wanted: set[bytes]
) -> None:
    known, expected = IdSet(), set[bytes]()

    for column in columns:
        is_new = known.add(column_of(column, 12))
        assert is_new.tolist() == [each not in expected for each in sorted(column)]
        expected |= column

    assert len(known) == len(expected)
    found = known.contains(column_of(wanted, 12))
    assert found.tolist() == [each in expected for each in sorted(wanted)]


@given(st.lists(ids, max_size=20))
def test_names_are_read_as_the_ids_that_they_spell(some: list[bytes]) -> None:
    column, is_name = parse_names([encode_base32(each) for each in some], 12)

    assert is_name.all()
    assert items(column) == some


def test_names_of_the_draft_are_longer() -> None:
    id = bytes(range(16))

    column, is_name = parse_names([encode_base32(id), encode_base32(id[:12])], 16)

    assert is_name.tolist() == [True, False]
    assert items(column) == [id]


def test_only_the_spelling_of_a_writer_counts() -> None:
    id = ChunkId(b"\x52" * 12)
    name = str(id)
    others = [name.lower(), f"{name[:-1]}1", f"{name}0", name[:-1], "", "☃" * 20, f"{name[:-1]}U"]

    column, is_name = parse_names([*others, name, "junk"], 12)

    assert is_name.tolist() == [False] * len(others) + [True, False]
    assert items(column) == [bytes(id)]
