"""Measures of values, and what they tell, beside the values themselves."""

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.tables.columns import TIMESTAMP, UNSIGNED_64, Values, make_values
from frazil.tables.predicates import Compare, IsIn, IsNull, Leaf, truth_of_values
from frazil.tables.statistics import NO_SUM, make_measures, measure, repeat, truth_of_measures

CONSTANTS = (-1, 0, 1, 2, 3)
LEAVES: list[Leaf] = [
    *(Compare("x", op, value) for op in ("=", "<>", "<", "<=", ">", ">=") for value in CONSTANTS),
    *(IsIn("x", values) for values in [(0,), (1, 5), (-1, 3), (0, 1, 2)]),
    *(Compare("x", op, 0.5) for op in ("=", "<>")),
    IsNull("x"),
]


@pytest.mark.parametrize("dtype", ["int16", "uint64", "float32"])
def test_measures_tell_what_some_value_of_a_chunk_can_be(dtype: str) -> None:
    type = {"int16": pa.int16(), "uint64": UNSIGNED_64, "float32": pa.float32()}[dtype]
    chunks = [each for n in (1, 2, 3) for each in combinations_with_replacement((None, 0, 1, 2), n)]
    values = [
        Values(
            type,
            np.array([each or 0 for each in chunk], dtype),
            np.array([each is None for each in chunk]),
        )
        for chunk in chunks
    ]
    measured = make_measures([[n] for n in range(len(chunks))], list(map(measure, values)), type)

    for leaf in LEAVES:
        told = truth_of_measures(leaf, measured.columns)
        for number, each in enumerate(values):
            truth = truth_of_values(leaf, each)
            can, cannot = bool(np.any(truth.can_be_true)), bool(np.any(truth.can_be_false))
            said = (
                bool(np.asarray(told.can_be_true)[number]),
                bool(np.asarray(told.can_be_false)[number]),
            )
            assert said[0] or not can
            assert said[1] or not cannot
            # Between two values there is nothing to tell one that is missing from one that is there.
            if len(set(chunks[number]) - {None}) < 2 or isinstance(leaf, IsNull):
                assert said == (can, cannot)


def test_integers_and_times_are_exact() -> None:
    large = np.array([2**63 - 1, -(2**63), 5])
    small = np.array([2**53 + 1, 2**53 + 3])
    times = np.array(["2020-01-01T00:00:00.000001", "NaT"], "M8[us]")

    assert measure(make_values(large, pa.int64())) == {
        "count": 3, "null_count": 0, "min": -(2**63), "max": 2**63 - 1, "sum": 4,
    }  # fmt: skip
    assert measure(make_values(small, pa.int64()))["sum"] == 2**54 + 4
    assert measure(make_values(times, TIMESTAMP)) == {
        "count": 1, "null_count": 1, "min": 1577836800000001, "max": 1577836800000001,
    }  # fmt: skip


def test_a_sum_beyond_64_bits_is_none() -> None:
    values = make_values(np.array([2**64 - 1, 2**64 - 1], np.uint64), UNSIGNED_64)

    assert measure(values)["sum"] == NO_SUM
    assert repeat(measure(make_values(np.array([2**62]), pa.int64())), 4)["sum"] == NO_SUM


@pytest.mark.parametrize(
    ("data", "type", "expected"),
    [
        (
            [np.nan, np.nan],
            pa.float64(),
            {"count": 0, "null_count": 2, "min": 0, "max": 0, "sum": 0},
        ),
        ([np.inf, -np.inf], pa.float32(), {"count": 2, "min": -np.inf, "max": np.inf}),
        ([True, False], pa.bool_(), {"count": 2, "null_count": 0, "min": 0, "max": 1, "sum": 1}),
        (["a", None], pa.string(), {"count": 1, "null_count": 1}),
    ],
)
def test_nulls_and_infinities_are_counted(
    data: list[Any], type: pa.DataType, expected: dict[str, Any]
) -> None:
    array = np.array(data, object if type == pa.string() else None)

    found = measure(make_values(array, type))

    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3)])
def test_sums_of_large_integers_are_exact_in_any_shape(dtype: str, shape: tuple[int, ...]) -> None:
    info = np.iinfo(dtype)
    signed = (
        [info.max, -5, info.min, 7, -(2**40), 1] if info.min else [2**62, 2**62 - 1, 0, 0, 0, 0]
    )
    type = pa.int64() if info.min else UNSIGNED_64

    found = measure(make_values(np.array(signed, dtype).reshape(shape), type))
    beyond = measure(make_values(np.full(shape, info.max, dtype), type))

    assert (found["sum"], found["count"]) == (sum(signed), 6)
    assert (beyond["sum"], beyond["max"]) == (NO_SUM, info.max)
