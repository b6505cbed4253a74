"""Boxes of whole chunks."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.spark import regions

AXES = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 9), st.integers(0, 29), st.integers(1, 30)),
    min_size=0, max_size=3,
)  # fmt: skip


@given(AXES)
def test_boxes_cover_an_area_once_and_share_no_chunk(axes: list[tuple[int, int, int, int]]) -> None:
    shape = [size for size, _, _, _ in axes]
    unit = [chunk for _, chunk, _, _ in axes]
    area = tuple((min(a, n - 1), max(min(b, n), min(a, n - 1) + 1)) for n, _, a, b in axes)

    boxes = regions.cut(area, unit)

    covered = np.zeros(shape, int)
    owners: dict[tuple[int, ...], int] = {}
    for number, box in enumerate(boxes):
        covered[regions.slices_of(box)] += 1
        chunks = [range(a // u, -(-b // u)) for (a, b), u in zip(box, unit, strict=True)]
        for chunk in np.ndindex(*[len(each) for each in chunks]):
            place = tuple(each[i] for each, i in zip(chunks, chunk, strict=True))
            assert owners.setdefault(place, number) == number
    expected = np.zeros(shape, int)
    expected[regions.slices_of(area)] = 1
    np.testing.assert_array_equal(covered, expected)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 40)), max_size=3),
    st.integers(1, 5000),
)
def test_grown_boxes_are_whole_units_within_the_limit(
    axes: list[tuple[int, int, int]], most: int
) -> None:
    shape = [size for size, _, _ in axes]
    unit = [chunk for _, chunk, _ in axes]

    size = regions.grow(unit, shape, most, [goal for _, _, goal in axes])

    least = prod(min(u, n) for u, n in zip(unit, shape, strict=True))
    assert prod(size) <= max(most, least)
    for got, step, length in zip(size, unit, shape, strict=True):
        assert got <= length
        assert got == length or got % step == 0


def test_boxes_are_grown_along_the_last_axis_first() -> None:
    assert regions.grow((1, 2, 2), (10, 10, 10), 60) == (1, 6, 10)
    assert regions.grow((1, 2, 2), (10, 10, 10), 60, goals=(10, 2, 2)) == (10, 2, 2)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 20))
def test_balanced_boxes_are_as_many_and_as_large_at_most(length: int, unit: int, many: int) -> None:
    size = min(unit * many, length)

    (balanced,) = regions.balance([size], [unit], [length])

    assert balanced <= size
    assert balanced == length or balanced % unit == 0
    assert -(-length // balanced) == -(-length // size)


def test_tasks_are_neither_tiny_nor_huge() -> None:
    gib = 1 << 30

    assert regions.choose_task_bytes(100, 2) == 64 * regions.MIB
    assert regions.choose_task_bytes(gib, 2) == -(-gib // 6)
    assert regions.choose_task_bytes(1000 * gib, 2) == 256 * regions.MIB
