"""What measures of chunks tell of a condition about their values. Pure.

The rules are those of `tell_of_values`, for some cell of a chunk instead of one value.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.frames.conditions import Compare, Flags, IsIn, IsNull, Leaf, Operator, Truth

Columns = Mapping[str, NDArray[Any]]
"""Measures by name, alike in shape."""

_OPPOSITE: dict[Operator, Operator] = {
    "=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip


def tell_of_measures(leaf: Leaf, measured: Columns) -> Truth:
    """What a leaf can be in each chunk."""
    has_values, has_nulls = measured["count"] > 0, measured["null_count"] > 0
    if isinstance(leaf, IsNull):
        return Truth(has_nulls, has_values)
    if "min" not in measured:
        return Truth(has_values, has_values)
    if isinstance(leaf, IsIn):
        any_is = np.logical_or.reduce([_can_hold("=", each, measured) for each in leaf.values])
        only_is = np.logical_or.reduce([~_can_hold("<>", each, measured) for each in leaf.values])
        return Truth(has_values & any_is, has_values & ~only_is)
    assert isinstance(leaf, Compare)
    return Truth(
        has_values & _can_hold(leaf.operator, leaf.value, measured),
        has_values & _can_hold(_OPPOSITE[leaf.operator], leaf.value, measured),
    )


def _can_hold(operator: Operator, value: Any, measured: Columns) -> NDArray[np.bool_]:
    """Whether a value between the least and the greatest, these included, compares so."""
    least, greatest = measured["min"], measured["max"]
    found: Flags
    match operator:
        case "=":
            found = _is_possible(value, least) & (least <= value) & (greatest >= value)
        case "<>":
            found = (least != value) | (greatest != value)
        case "<":
            found = least < value
        case "<=":
            found = least <= value
        case ">":
            found = greatest > value
        case ">=":
            found = greatest >= value
    return np.asarray(found, np.bool_)


def _is_possible(value: Any, least: NDArray[Any]) -> bool:
    """Whether some value of the type can be equal to it: no integer is equal to a fraction."""
    return least.dtype.kind == "f" or not isinstance(value, float) or value.is_integer()
