"""Blocks with neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.regions import Boundary, plan_margins, window

MODES: dict[Boundary, str] = {"wrap": "wrap", "nearest": "edge"}


@given(
    st.integers(1, 20), st.data(), st.integers(0, 6), st.integers(0, 6),
    st.sampled_from(["clip", "wrap", "nearest"]),
)  # fmt: skip
def test_a_window_has_the_block_and_its_neighbours(
    length: int, data: st.DataObject, before: int, after: int, boundary: Boundary
) -> None:
    start = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(start + 1, length))
    values = np.arange(length)

    found = window(start, stop, length, plan_margins({"x": (before, after)}, boundary)["x"])

    read = values[found.indices]
    np.testing.assert_array_equal(read[found.inner], values[start:stop])
    if boundary == "clip":
        expected = values[max(start - before, 0) : stop + after]
    else:
        padded = np.pad(values, (before, after), mode=MODES[boundary])  # type: ignore[call-overload]
        expected = padded[start : stop + before + after]
    np.testing.assert_array_equal(read, expected)


def test_without_a_margin_a_window_is_the_block() -> None:
    found = window(3, 5, 10, None)

    assert (found.indices, found.inner) == (slice(3, 5), slice(0, 2))


@pytest.mark.parametrize("halo", [-1, (0, -2)])
def test_a_halo_is_not_negative(halo: int | tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError, match="halo"):
        plan_margins({"x": halo}, "clip")
