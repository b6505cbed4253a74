"""Reductions in parts, and their plans."""

import warnings
from math import prod
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.arrays.blocks import Space, find_groups
from frazil.spark.arrays.reduction import (
    FAN_IN,
    MOST_STATE_BYTES,
    REDUCTIONS,
    Layout,
    find_reduction,
    plan_chunks,
    plan_layout,
    plan_levels,
    plan_reduction,
)
from frazil.spark.regions import slices_of

TYPES = ["f4", "f8", "i2", "u1", "i8", "?"]


@given(
    st.sampled_from(sorted(REDUCTIONS)), st.sampled_from(TYPES), st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 11), max_size=4),
)  # fmt: skip
def test_parts_come_to_what_the_whole_does(
    name: str, dtype: str, seed: int, cuts: list[int]
) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(0, 100, (12, 3, 2)).astype(dtype)
    if dtype.startswith("f"):
        values[random.random(values.shape) < 0.5] = np.nan
        values[:, 0, 0] = np.nan
    reduction = find_reduction(name, values.dtype)

    state = reduction.start((3,), values.dtype)
    for part in np.split(values, sorted(cuts)):
        state = reduction.combine(state, reduction.collect(part, (0, 2)))
    found = reduction.finish(state)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = getattr(xr.DataArray(values, dims=("a", "b", "c")), name)(("a", "c"))
    assert {column: each.dtype for column, each in state.items()} == reduction.columns(values.dtype)
    assert reduction.result_type(values.dtype) == whole.dtype
    np.testing.assert_allclose(found.astype(whole.dtype), whole, rtol=1e-4, atol=1e-4)


def test_a_deviation_far_from_zero_is_exact() -> None:
    values = 1e9 + np.array([1.0, 2.0, 3.0, 4.0])
    reduction = REDUCTIONS["std"]

    parts = [reduction.collect(part, (0,)) for part in np.split(values, 2)]
    found = reduction.finish(reduction.combine(*parts))

    np.testing.assert_allclose(found, np.std(values), rtol=1e-12)


def test_there_is_no_mean_of_times() -> None:
    with pytest.raises(InvalidInputError, match="no mean"):
        find_reduction("mean", np.dtype("M8[s]"))


AXES = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 15), st.booleans()), min_size=1, max_size=4
)


def make_layout(axes: list[tuple[int, int, bool]], *, is_grouped: bool) -> Layout:
    dims = tuple("abcd"[: len(axes)])
    space = Space(dims, tuple(n for n, _, _ in axes), tuple(min(c, n) for n, c, _ in axes))
    over = [dim for dim, (_, _, goes) in zip(dims, axes, strict=True) if goes] or [dims[0]]
    codes = np.arange(space.size(over[0])) % 3
    array = xr.DataArray(codes, dims=(over[0],), coords={"g": (over[0], codes)})
    return plan_layout(space, over, find_groups(array, "g") if is_grouped else None)


@given(AXES, st.booleans(), st.integers(8, 5000), st.integers(8, 5000))
def test_every_element_is_reduced_once(
    axes: list[tuple[int, int, bool]], is_grouped: bool, task_bytes: int, block_bytes: int
) -> None:
    layout = make_layout(axes, is_grouped=is_grouped)
    unit = plan_chunks(layout, {}, 16)

    plan = plan_reduction(layout, unit, 4, 16, task_bytes, block_bytes)

    seen = np.zeros(layout.space.shape, int)
    for box in plan.boxes:
        for piece in plan.pieces:
            seen[slices_of(layout.space_box(box, piece))] += 1
    assert (seen == 1).all()
    kept = layout.space.only(layout.kept)
    for size, step, length in zip(plan.box, unit, kept.shape, strict=True):
        assert size == length or size % step == 0
    assert len(layout.output_box(plan.boxes[0])) == len(kept.dims) + is_grouped


@given(st.integers(1, 400))
def test_groups_never_make_a_state_too_large(groups: int) -> None:
    space = Space(("time", "lat", "lon"), (10_000, 721, 1440), (1, 721, 1440))
    codes = np.arange(10_000) % groups
    array = xr.DataArray(codes, dims=("time",), coords={"g": ("time", codes)})
    layout = plan_layout(space, None, find_groups(array, "g"))

    assert prod(plan_chunks(layout, {}, 16)) * groups * 16 <= MOST_STATE_BYTES


@given(st.integers(1, 5000))
def test_a_tree_combines_every_state_once(pieces: int) -> None:
    levels = plan_levels(pieces)

    count = pieces
    for ranges in levels:
        assert [each for first, last in ranges for each in range(first, last)] == list(range(count))
        assert all(last - first <= FAN_IN for first, last in ranges)
        count = len(ranges)
    assert count == 1


def test_elements_without_a_label_belong_to_no_group() -> None:
    labels: Any = np.array([2.0, np.nan, 1.0, 2.0])
    array = xr.DataArray(np.zeros(4), dims="x", coords={"label": ("x", labels)})

    groups = find_groups(array, "label")

    assert groups.labels.tolist() == [1, 2]
    assert groups.codes.tolist() == [1, -1, 0, 1]
