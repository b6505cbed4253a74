"""Pieces of objects: none is lost, none is copied twice, and what was packed stays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.maintenance.compact_chunks import (
    FindShared,
    Shared,
    find_shared,
    leave_marks,
    make_marks,
    unite,
)
from frazil.spark.maintenance.compact_ranges import Pieces, Sizes, cut, find_small
from tests.repositories import create

ID_SIZE = 12
SMALL = 20

# Few ids, of which some begin alike or end with zeros.
IDS = [bytes([first, *[0] * (ID_SIZE - 2), last]) for first in (0, 1, 128, 255) for last in (0, 7)]

rows = st.tuples(st.sampled_from(IDS), st.integers(0, 2), st.integers(1, SMALL + 5))


def make(found: list[tuple[bytes, int, int]]) -> Pieces:
    ids = np.frombuffer(b"".join(id for id, _, _ in found), np.uint8).reshape(-1, ID_SIZE)
    numbers = np.array([each[1:] for each in found], np.uint64).reshape(-1, 2)
    return Pieces.of(ids, numbers[:, 0], numbers[:, 1])


def describe(pieces: Pieces) -> list[tuple[bytes, int, int]]:
    ids = [each.tobytes() for each in pieces.chunk_id]
    return list(zip(ids, pieces.offset.tolist(), pieces.length.tolist(), strict=True))


@given(st.lists(rows, max_size=30))
def test_each_piece_is_there_once_in_the_order_of_references(
    found: list[tuple[bytes, int, int]],
) -> None:
    pieces, numbers = make(found).unique()

    assert describe(pieces) == list(dict.fromkeys(found))
    assert [describe(pieces)[number] for number in numbers] == found


@given(st.lists(st.integers(1, SMALL - 1), min_size=1, max_size=300), st.integers(4, 40))
def test_packed_objects_have_all_pieces_and_are_not_packed_again(
    lengths: list[int], times: int
) -> None:
    sizes = Sizes(SMALL, SMALL * times)
    pieces = make([(number.to_bytes(ID_SIZE), 0, each) for number, each in enumerate(lengths)])

    spans = cut(pieces, sizes)

    if not spans:
        assert len(lengths) == 1
        return
    assert [row for span in spans for row in range(*span)] == list(range(len(lengths)))
    packed = make(
        [
            (number.to_bytes(ID_SIZE), sum(lengths[start:row]), lengths[row])
            for number, (start, stop) in enumerate(spans)
            for row in range(start, stop)
        ]
    )
    made = [sum(lengths[start:stop]) for start, stop in spans]
    assert len(made) == 1 or min(made) >= sizes.target / 2
    assert max(made) <= 2 * sizes.target
    assert cut(packed.take(find_small(packed, sizes)), sizes) == []


def test_a_target_that_is_small_itself_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="4 times"):
        Sizes(1000, 3999)


def find_naively(found: list[list[tuple[bytes, int, int]]]) -> tuple[set[bytes], list[object]]:
    """Objects of more than one array range, and the small pieces of them as ranges have them first."""
    array_ranges = [dict.fromkeys(each) for each in found]
    ids = {row[0] for each in array_ranges for row in each}
    shared = {id for id in ids if sum(id in {row[0] for row in each} for each in array_ranges) > 1}
    pieces = dict.fromkeys(row for each in array_ranges for row in each if row[0] in shared)
    size = {id: sum(row[2] for row in pieces if row[0] == id) for id in shared}
    return shared, [row for row in pieces if size[row[0]] < SMALL]


def describe_shared(shared: Shared) -> tuple[set[bytes], list[tuple[bytes, int, int]]]:
    return {bytes(id).ljust(ID_SIZE, b"\0") for id in shared.ids}, describe(shared.small)


@given(st.lists(st.lists(rows, max_size=8), min_size=1, max_size=5), st.integers(1, 7))
def test_shared_objects_are_found_by_ranges_of_ids_as_in_one_place(
    found: list[list[tuple[bytes, int, int]]], ranges: int
) -> None:
    assets = create().readonly_session("main").state.assets
    sizes = Sizes(SMALL, 4 * SMALL)
    array_ranges = [(number, make(each).unique()[0]) for number, each in enumerate(found)]
    tasks = [make_marks(array_ranges[start : start + 2], ID_SIZE) for start in (0, 2, 4)]

    here = find_shared(np.concatenate(tasks), sizes)
    left = tuple(leave_marks(assets, marks, ranges) for marks in tasks)
    task = FindShared(assets, left, sizes, ID_SIZE, most=100)
    there = unite([task(number) for number in range(ranges)])

    assert describe_shared(here) == describe_shared(there) == find_naively(found)


def test_of_too_many_shared_pieces_only_their_ranges_are_reported() -> None:
    pieces = make([(IDS[0], 0, 1), (IDS[1], 0, 1)])
    marks = make_marks([(3, pieces), (5, pieces), (8, pieces.take(slice(0)))], ID_SIZE)

    found = find_shared(marks, Sizes(SMALL, 4 * SMALL), most=1)

    assert found.left == {3, 5}
    assert describe_shared(found) == (set(), [])
