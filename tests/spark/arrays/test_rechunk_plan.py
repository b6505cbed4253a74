"""Plans for other chunks: within memory, whole chunks, and no dearer than they must be."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.arrays.rechunk import plan_rechunk
from frazil.urls import parse_bytes

AXES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=4
)


@given(AXES, st.integers(1, 16), st.integers(1, 200_000))
def test_every_box_fits_and_has_whole_chunks(
    axes: list[tuple[int, int, int]], itemsize: int, spare: int
) -> None:
    shape = [n for n, _, _ in axes]
    source = [min(c, n) for n, c, _ in axes]
    target = [min(c, n) for n, _, c in axes]
    max_memory = 2 * itemsize * max(prod(source), prod(target)) + spare

    plan = plan_rechunk(shape, source, target, itemsize, max_memory)

    assert plan.cost >= 2
    assert plan.passes[-1].target_chunks == tuple(target)
    for each in plan.passes:
        assert prod(each.box) * itemsize * 2 <= max_memory
        for size, chunk, length in zip(each.box, each.target_chunks, shape, strict=True):
            assert 1 <= size <= length
            assert size == length or size % chunk == 0


def test_one_pass_where_memory_holds_whole_chunks_of_both() -> None:
    plan = plan_rechunk((100, 100), (10, 100), (100, 10), 8, 2 * 100 * 100 * 8)

    assert plan.is_direct
    assert plan.cost == 2


def test_two_passes_where_one_would_read_everything_many_times() -> None:
    plan = plan_rechunk((1000, 1000), (1, 1000), (1000, 1), 8, 2 * 8 * 10_000)

    assert not plan.is_direct
    first, second = plan.passes
    assert first.box == (10, 1000)
    assert second.box == (1000, 10)
    assert first.target_chunks == (10, 10)
    assert plan.cost == 4


def test_boxes_of_one_pass_are_about_as_large() -> None:
    plan = plan_rechunk((1000, 512, 128), (10, 512, 128), (1000, 32, 32), 4, 512_000_000)

    assert plan.passes[0].box == (1000, 256, 128)


def test_the_same_chunks_are_one_pass() -> None:
    plan = plan_rechunk((7, 9), (2, 3), (2, 3), 4, 48)

    assert plan.is_direct
    assert plan.cost == 2


def test_an_empty_array_has_a_plan() -> None:
    assert plan_rechunk((0, 5), (1, 5), (1, 1), 8, 1000).is_direct


def test_chunks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"target, 100x100, takes 80000 bytes"):
        plan_rechunk((100, 100), (1, 100), (100, 100), 8, 100_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("512MB", 512_000_000), ("1.5 GiB", 3 << 29), ("64k", 64_000), (17, 17), ("8", 8)],
)
def test_memory_as_people_write_it(text: str | int, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "much", "-1MB", 0, "0 GB"])
def test_what_is_no_memory_is_refused(text: str | int) -> None:
    with pytest.raises(InvalidInputError, match="no amount of memory"):
        parse_bytes(text)
