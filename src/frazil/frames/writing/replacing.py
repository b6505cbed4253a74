"""What `overwrite` takes away before rows are written."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.frames.conditions import (
    EVERYTHING,
    Condition,
    Leaf,
    Truth,
    columns_of,
    evaluate,
    find_unknown,
    tell_of_values,
)
from frazil.frames.grids import Region
from frazil.frames.literals import find_zone
from frazil.frames.types import Values
from frazil.frames.writing.axes import check_coordinates
from frazil.frames.writing.options import WriteOptions
from frazil.frames.writing.targets import AnyArray, Target, open_array
from frazil.frames.writing.values import Stored, null_of, to_values
from frazil.session import Session


def read_condition(options: WriteOptions, target: Target) -> Condition:
    """The cells that are replaced, by dimension coordinates; raises InvalidInputError."""
    if options.replace_where is None:
        return EVERYTHING
    types = {dim: axis.type for dim, axis in target.axes.items()}
    # What reads SQL takes a while to load.
    from frazil.frames.predicates import Scope, parse_predicate  # noqa: PLC0415

    scope = Scope(types, find_zone(options.time_zone))
    condition = parse_predicate(options.replace_where, scope)
    unknown = find_unknown(condition)
    if unknown is not None:
        raise InvalidInputError(
            f"replace_where can't be told from coordinates: {unknown}; it takes comparisons of "
            f"{', '.join(types)} with constants"
        )
    return condition


def refuse_outside(options: WriteOptions, target: Target, table: pa.Table) -> None:
    """Raise InvalidInputError if a row is not among the cells that are replaced."""
    condition = read_condition(options, target)
    names = columns_of(condition)
    rows = {
        dim: to_values(check_coordinates(dim, table[dim], axis.type))
        for dim, axis in target.axes.items()
        if dim in names
    }
    is_inside = _evaluate(condition, rows)
    count = int(table.num_rows - np.broadcast_to(is_inside, (table.num_rows,)).sum())
    if count:
        raise InvalidInputError(
            f"{count} rows are not where {options.replace_where}, which is all that is replaced"
        )


def clear(session: Session, options: WriteOptions, target: Target) -> None:
    """Empty the cells that are replaced, of the arrays that rows have columns for."""
    condition = read_condition(options, target)
    columns = {
        dim: to_values(_coordinates(target, dim))
        for dim in target.dims
        if dim in columns_of(condition)
    }
    for stored in target.variables.values():
        if target.is_whole(stored.name):
            _clear_array(session, target, stored, condition, columns)


def _clear_array(
    session: Session,
    target: Target,
    stored: Stored,
    condition: Condition,
    columns: Mapping[str, Values],
) -> None:
    array = open_array(session, target.group, stored.name)
    grid, null = target.grids[stored.name], null_of(stored)
    chunks = np.argwhere(np.ones(grid.shape, np.bool_))
    if _is_same(null, stored.fill_value):
        # What was never written is empty already.
        node = session.state.view.get_node(f"/{array.path}")
        found = list(session.state.view.coordinates(node))
        chunks = np.concatenate([each.astype(np.int64) for each in found]) if found else chunks[:0]
    for chunk in chunks:
        region = grid.region(np.stack([chunk, chunk + 1], axis=1))
        _clear_chunk(array, region, null, _mask(stored, region, condition, columns))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are one; NaN is like itself."""
    return bool(one == other or (one != one and other != other))


def _clear_chunk(array: AnyArray, region: Region, null: Any, mask: NDArray[np.bool_]) -> None:
    if mask.all():
        array[region] = null
    elif mask.any():
        block = np.array(array[region])
        block[mask] = null
        array[region] = block


def _mask(
    stored: Stored, region: Region, condition: Condition, columns: Mapping[str, Values]
) -> NDArray[np.bool_]:
    shape = tuple(each.stop - each.start for each in region)
    own = {}
    for axis, (dim, part) in enumerate(zip(stored.dims, region, strict=True)):
        if dim in columns:
            spread = [-1 if i == axis else 1 for i in range(len(shape))]
            own[dim] = columns[dim][part].reshape(tuple(spread))
    return np.broadcast_to(_evaluate(condition, own), shape)


def _evaluate(condition: Condition, columns: Mapping[str, Values]) -> NDArray[np.bool_]:
    def tell(leaf: Leaf) -> Truth:
        return tell_of_values(leaf, columns[leaf.column])

    return np.asarray(evaluate(condition, tell).can_be_true, np.bool_)


def _coordinates(target: Target, dim: str) -> pa.Array:
    axis = target.axes[dim]
    return pa.array(np.arange(axis.size)) if axis.values is None else axis.values
