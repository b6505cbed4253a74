"""Blocks with some of their neighbours: pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError

Boundary = Literal["clip", "wrap", "nearest"]
"""At the ends of a dimension: fewer neighbours, those of the other end, or the last element again."""

Halo = Mapping[str, int | tuple[int, int]]
"""How many neighbours a block has along a dimension, on both sides or before and after."""


@dataclass(frozen=True, slots=True)
class Margin:
    """How far the blocks along one dimension reach beyond their edges."""

    before: int
    after: int
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Window:
    """What is read along one dimension, and where the block itself is in it."""

    indices: slice | NDArray[Any]
    inner: slice


def plan_margins(
    halo: Halo | None, boundary: Boundary | Mapping[str, Boundary]
) -> dict[str, Margin]:
    """The margins by dimension; raises InvalidInputError for what can't be one."""
    margins = {}
    for dim, width in (halo or {}).items():
        before, after = (width, width) if isinstance(width, int) else width
        kind = boundary if isinstance(boundary, str) else boundary.get(dim, "clip")
        if before < 0 or after < 0 or kind not in ("clip", "wrap", "nearest"):
            raise InvalidInputError(f"{dim} can't have a halo of {width!r} with boundary {kind!r}")
        margins[dim] = Margin(before, after, kind)
    return margins


def window(start: int, stop: int, length: int, margin: Margin | None) -> Window:
    """What to read for the elements from `start` to `stop` of a dimension."""
    if margin is None:
        return Window(slice(start, stop), slice(0, stop - start))
    low, high = start - margin.before, stop + margin.after
    if margin.boundary == "clip" or (low >= 0 and high <= length):
        low, high = max(low, 0), min(high, length)
        return Window(slice(low, high), slice(start - low, stop - low))
    places = np.arange(low, high)
    indices = places % length if margin.boundary == "wrap" else places.clip(0, length - 1)
    return Window(indices, slice(margin.before, margin.before + stop - start))
