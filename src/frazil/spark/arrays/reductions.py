"""Reductions that can be done in parts: what a part comes to, parts together, the result. Pure.

A state is a few columns, arrays of the shape of the result. Elements that are NaN don't count, as
Xarray has it. Sums are in 64 bits, whatever the elements have.
"""

from abc import ABC, abstractmethod
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError

Values = NDArray[Any]
State = dict[str, Values]
Axes = tuple[int, ...]
DType = np.dtype[Any]


class Reduction(ABC):
    """One way to make one number of many."""

    @abstractmethod
    def columns(self, dtype: DType) -> dict[str, DType]:
        """What a state consists of for elements of a type."""

    @abstractmethod
    def collect(self, values: Values, axes: Axes) -> State:
        """The state of some elements, over some axes."""

    @abstractmethod
    def combine(self, one: State, other: State) -> State:
        """The state of the elements of both."""

    @abstractmethod
    def finish(self, state: State) -> Values:
        """The result."""

    def result_type(self, dtype: DType) -> DType:
        """Of elements of a type."""
        return dtype if dtype.kind == "f" else np.dtype("f8")

    def start(self, shape: tuple[int, ...], dtype: DType) -> State:
        """The state of no elements."""
        return {name: np.zeros(shape, type_) for name, type_ in self.columns(dtype).items()}


class Count(Reduction):
    """How many elements are not NaN."""

    def columns(self, dtype: DType) -> dict[str, DType]:  # noqa: ARG002
        return {"count": np.dtype("i8")}

    def collect(self, values: Values, axes: Axes) -> State:
        return {"count": _count(values, axes)}

    def combine(self, one: State, other: State) -> State:
        return {"count": one["count"] + other["count"]}

    def finish(self, state: State) -> Values:
        return state["count"]

    def result_type(self, dtype: DType) -> DType:  # noqa: ARG002
        return np.dtype("i8")


class Sum(Reduction):
    """The sum; 0 of no elements."""

    def columns(self, dtype: DType) -> dict[str, DType]:
        return {"total": _sum_type(dtype)}

    def collect(self, values: Values, axes: Axes) -> State:
        return {"total": np.nansum(values, axis=axes, dtype=_sum_type(values.dtype))}

    def combine(self, one: State, other: State) -> State:
        return {"total": one["total"] + other["total"]}

    def finish(self, state: State) -> Values:
        return state["total"]

    def result_type(self, dtype: DType) -> DType:
        return dtype if dtype.kind == "f" else _sum_type(dtype)


class Mean(Reduction):
    """The mean; NaN of no elements."""

    def columns(self, dtype: DType) -> dict[str, DType]:
        return {"count": np.dtype("i8"), "total": _sum_type(dtype)}

    def collect(self, values: Values, axes: Axes) -> State:
        total = np.nansum(values, axis=axes, dtype=_sum_type(values.dtype))
        return {"count": _count(values, axes), "total": total}

    def combine(self, one: State, other: State) -> State:
        return {name: one[name] + other[name] for name in ("count", "total")}

    def finish(self, state: State) -> Values:
        return _divide(state["total"], state["count"])


class Std(Reduction):
    """The standard deviation of a whole population; NaN of no elements.

    By means and squares of distances from them, which don't cancel each other out.
    """

    def columns(self, dtype: DType) -> dict[str, DType]:  # noqa: ARG002
        return {"count": np.dtype("i8"), "mean": np.dtype("f8"), "squares": np.dtype("f8")}

    def collect(self, values: Values, axes: Axes) -> State:
        count = _count(values, axes)
        wide = values.astype("f8")
        mean = np.nan_to_num(_divide(np.nansum(wide, axis=axes), count))
        wide -= np.expand_dims(mean, axes)
        wide *= wide
        return {"count": count, "mean": mean, "squares": np.nansum(wide, axis=axes)}

    def combine(self, one: State, other: State) -> State:
        count = one["count"] + other["count"]
        share = other["count"] / np.maximum(count, 1)
        distance = other["mean"] - one["mean"]
        return {
            "count": count,
            "mean": one["mean"] + distance * share,
            "squares": one["squares"] + other["squares"] + distance**2 * one["count"] * share,
        }

    def finish(self, state: State) -> Values:
        found: Values = np.sqrt(_divide(state["squares"], state["count"]))
        return found


class _Extreme(Reduction):
    choose: ClassVar[np.ufunc]

    @abstractmethod
    def neutral(self, dtype: DType) -> Any:
        """What every element wins against."""

    def columns(self, dtype: DType) -> dict[str, DType]:
        return {"extreme": dtype}

    def start(self, shape: tuple[int, ...], dtype: DType) -> State:
        return {"extreme": np.full(shape, self.neutral(dtype), dtype)}

    def collect(self, values: Values, axes: Axes) -> State:
        start = self.neutral(values.dtype)
        return {"extreme": np.asarray(self.choose.reduce(values, axis=axes, initial=start))}

    def combine(self, one: State, other: State) -> State:
        return {"extreme": self.choose(one["extreme"], other["extreme"])}

    def finish(self, state: State) -> Values:
        return state["extreme"]

    def result_type(self, dtype: DType) -> DType:
        return dtype


class Min(_Extreme):
    """The least element; NaN of none."""

    choose = np.fmin

    def neutral(self, dtype: DType) -> Any:
        return _limit(dtype, "max")


class Max(_Extreme):
    """The greatest element; NaN of none."""

    choose = np.fmax

    def neutral(self, dtype: DType) -> Any:
        return _limit(dtype, "min")


REDUCTIONS: dict[str, Reduction] = {
    "count": Count(), "max": Max(), "mean": Mean(), "min": Min(), "std": Std(), "sum": Sum(),
}  # fmt: skip


def find_reduction(name: str, dtype: DType) -> Reduction:
    """The reduction of a name; raises InvalidInputError if there is none for such elements."""
    if name not in REDUCTIONS:
        raise InvalidInputError(f"{name!r} is no reduction: there are {', '.join(REDUCTIONS)}")
    if dtype.kind not in "biuf":
        raise InvalidInputError(f"there is no {name} of {dtype}")
    return REDUCTIONS[name]


def _count(values: Values, axes: Axes) -> Values:
    if values.dtype.kind == "f":
        return np.asarray(np.sum(~np.isnan(values), axis=axes, dtype="i8"))
    rest = [size for axis, size in enumerate(values.shape) if axis not in axes]
    return np.full(rest, prod(values.shape[axis] for axis in axes), "i8")


def _sum_type(dtype: DType) -> DType:
    return np.dtype({"f": "f8", "u": "u8"}.get(dtype.kind, "i8"))


def _divide(total: Values, count: Values) -> Values:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _limit(dtype: DType, end: str) -> Any:
    if dtype.kind == "f":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return end == "max"
    return getattr(np.iinfo(dtype), end)
