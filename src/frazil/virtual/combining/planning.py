"""Combining sources: where each goes, and what becomes of each variable."""

from collections.abc import Iterable, Sequence
from itertools import chain

from frazil.errors import InvalidInputError
from frazil.virtual.combining.axes import (
    Axis,
    find_axis_problems,
    find_cell_problems,
    order_blocks,
)
from frazil.virtual.combining.indexes import Indexes, read_indexes
from frazil.virtual.combining.plan import Plan, VariablePlan
from frazil.virtual.combining.problems import Problem, Report
from frazil.virtual.combining.times import count_alike
from frazil.virtual.combining.variables import Placement, plan_variable
from frazil.virtual.sources import Source, SourceHeader


def combine(sources: Iterable[Source | SourceHeader], dims: Sequence[str] | str = ()) -> Plan:
    """A plan that makes one group of many sources, which follow each other along `dims`.

    The values of each dimension's coordinate say where a source goes, not the order in which they are
    given. Without dims there can be but one source. Nothing is read, and nothing raised for what is
    wrong with the sources: `Plan.report` has every problem with its files.
    """
    given = [each.header if isinstance(each, Source) else each for each in sources]
    along = (dims,) if isinstance(dims, str) else tuple(dims)
    rows = _number(given)
    headers, time_problems = count_alike(given)
    indexes, index_problems = read_indexes(headers, along)
    index_problems += time_problems
    if indexes is None:
        attributes = dict(headers[0].attributes)
        return Plan(rows, attributes, {}, Report(tuple(index_problems)))
    names = tuple(rows)
    axes = [order_blocks(dim, indexes.values[dim]) for dim in along]
    problems = [
        *index_problems,
        *chain.from_iterable(find_axis_problems(axis, names) for axis in axes),
        *(find_cell_problems(axes, names) if axes else ()),
    ]
    variables, variable_problems = _plan_variables(headers, names, axes, indexes)
    return Plan(
        rows,
        dict(headers[0].attributes),
        {each.name: each for each in variables},
        Report((*problems, *variable_problems)),
        {axis.dim: axis.regions for axis in axes},
    )


def _number(headers: Sequence[SourceHeader]) -> dict[str, int]:
    rows = {header.name: row for row, header in enumerate(headers)}
    if not headers:
        raise InvalidInputError("there are no sources to combine")
    if len(rows) < len(headers):
        given = [header.name for header in headers]
        twice = sorted({name for name in given if given.count(name) > 1})
        raise InvalidInputError(f"sources are given more than once: {', '.join(twice)}")
    return rows


def _plan_variables(
    headers: Sequence[SourceHeader], names: Sequence[str], axes: Sequence[Axis], indexes: Indexes
) -> tuple[list[VariablePlan], list[Problem]]:
    placement = Placement({axis.dim: axis for axis in axes}, indexes)
    planned: list[VariablePlan] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(chain.from_iterable(header.arrays for header in headers)):
        variable, found = plan_variable(name, headers, names, placement)
        planned += [variable] if variable is not None else []
        problems += found
    return planned, problems
