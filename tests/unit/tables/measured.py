"""Statistics of worlds, and what they should come to, found in another way."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil import Repository
from frazil.repository.session import Session
from frazil.tables.columns import Grid, Values
from frazil.tables.predicates import Compare, IsIn, Leaf, Truth, evaluate, truth_of_values
from frazil.tables.scan_plan import ScanPlan, plan_partitions
from frazil.tables.statistics import Analysis, find_analysable, plan_analysis


def analyse(repo: Repository, names: list[str] | None = None) -> dict[str, Analysis]:
    """Measure arrays in this process, and commit; gives what was planned."""
    session = repo.writable_session("main")
    paths = list(find_analysable(session, "/")) if names is None else [f"/{n}" for n in names]
    found = {}
    for path in paths:
        analysis = plan_analysis(session, path)
        partitions = plan_partitions(analysis.written, 1, 3)
        analysis.write(session, [analysis.subject.measure(part.boxes) for part in partitions])
        found[path.lstrip("/")] = analysis
    if session.has_uncommitted_changes:
        session.commit("measured")
    return found


def find_needed(plan: ScanPlan, fresh: dict[str, NDArray[np.bool_]]) -> dict[str, set[Any]]:
    """By array, the chunks with a cell that can satisfy the condition by all that can be known.

    Of values that is what the bounds and counts of their chunk say, if it is fresh.
    """
    dims = plan.columns.dims
    shape = tuple(plan.columns.sizes[dim] for dim in dims)

    def describe(leaf: Leaf) -> Truth:
        column = plan.columns.get(leaf.column)
        if column.name in plan.axes:
            axis = plan.axes[column.name]
            truth = truth_of_values(leaf, axis.values)
            return Truth(*(_spread(each, axis.values.data.shape, column.dims, dims) for each in
                           (truth.can_be_true, truth.can_be_false)))  # fmt: skip
        grid = plan.grids[column.name]
        own = tuple(plan.columns.sizes[dim] for dim in column.dims)
        can, cannot = np.ones(own, np.bool_), np.ones(own, np.bool_)
        whole = plan.read_array(column.name, tuple(slice(0, size) for size in own))
        for place in np.ndindex(*grid.shape):
            if grid.dims and column.name in fresh and fresh[column.name][place]:
                part = _region(grid, place)
                can[part], cannot[part] = _tell_of_chunk(leaf, whole[part])
        return Truth(*(_spread(each, own, column.dims, dims) for each in (can, cannot)))

    possible = np.broadcast_to(evaluate(plan.condition, describe).can_be_true, shape)
    return {
        name: {
            place
            for place in product(*map(range, grid.shape))
            if possible[_in_all(grid, place, dims)].any()
        }
        for name, grid in plan.grids.items()
    }


def _tell_of_chunk(leaf: Leaf, values: Values) -> tuple[bool, bool]:
    """By trying values between the least and the greatest."""
    present = values.data[np.broadcast_to(values.present, values.data.shape)]
    tried: list[Any] = []
    if present.size:
        least, greatest = present.min(), present.max()
        near = [leaf.value] if isinstance(leaf, Compare) else []
        near = list(leaf.values) if isinstance(leaf, IsIn) else near
        is_integer = present.dtype.kind in "iu"
        more = [
            each + d for each in near for d in (0, 1, -1) if isinstance(each, int) or not is_integer
        ]
        middle = [(float(least) + float(greatest)) / 2] if not is_integer else []
        tried = [least, greatest, *(e for e in [*more, *middle] if least <= e <= greatest)]
        tried = [np.asarray(each).astype(present.dtype) for each in tried]
    has_null = present.size < values.data.size
    data = np.array([*tried, 0] if has_null else tried, present.dtype)
    missing = np.arange(len(data)) == len(tried)
    truth = truth_of_values(leaf, Values(values.type, data, missing))
    return bool(np.any(truth.can_be_true)), bool(np.any(truth.can_be_false))


def _spread(flags: Any, shape: Any, own: tuple[str, ...], dims: tuple[str, ...]) -> Any:
    whole = np.broadcast_to(flags, shape)
    order = [own.index(dim) for dim in dims if dim in own]
    return whole.transpose(order).reshape([shape[own.index(d)] if d in own else 1 for d in dims])


def _region(grid: Grid, place: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(
        slice(int(each[at]), int(each[at + 1]))
        for each, at in zip(grid.offsets, place, strict=True)
    )


def _in_all(grid: Grid, place: tuple[int, ...], dims: tuple[str, ...]) -> tuple[slice, ...]:
    own = dict(zip(grid.dims, _region(grid, place), strict=True))
    return tuple(own.get(dim, slice(None)) for dim in dims)


def find_fresh(session: Session, name: str) -> NDArray[np.bool_]:
    """Which chunks of an array need not be measured again."""
    analysis = plan_analysis(session, f"/{name}")
    return ~(analysis.written | analysis.unwritten)
