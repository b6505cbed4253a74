"""Arrays of several groups or versions with one grid, as one table without a join of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from frazil.tables.columns import Column, Columns, Grid, GroupArrays, Region, Values


@dataclass(frozen=True, slots=True, eq=False)
class JoinedPart:
    """Columns of one group in a joined table."""

    arrays: GroupArrays
    columns: Columns
    names: Mapping[str, str]
    """Names in the group, by names in the joined table."""


class JoinedArrays(GroupArrays):
    """Arrays of several groups, whose coordinates along common dimensions are equal.

    It also has coordinates that are computed for a query.
    """

    def __init__(
        self, parts: Sequence[JoinedPart], computed: Mapping[str, tuple[str, Values]] | None = None
    ) -> None:
        first = max(parts, key=lambda each: len(each.columns.dims))
        super().__init__(first.arrays.session, first.arrays.group)
        self._parts = tuple(parts)
        self._computed = dict(computed or {})
        found = {
            name: replace(part.columns.get(own), name=name)
            for part in parts
            for name, own in part.names.items()
        }
        for name, (dim, values) in self._computed.items():
            found[name] = Column(name, "coordinate", (dim,), values.type)
        variables = [name for name, each in found.items() if each.kind == "variable"]
        self._joined = Columns(
            tuple(found.values()), first.columns.dims, first.columns.sizes, tuple(variables), ()
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (JoinedArrays, (self._parts, self._computed))

    def compute(self, more: Mapping[str, tuple[str, Values]]) -> "JoinedArrays":
        """Return these arrays with more computed coordinates."""
        return JoinedArrays(self._parts, {**self._computed, **more})

    def find_owner(self, columns: Columns, name: str) -> tuple[GroupArrays, Columns, str]:
        """Return the group that an array belongs to, its columns, and the name there."""
        del columns
        for part in self._parts:
            if name in part.names:
                return part.arrays, part.columns, part.names[name]
        raise KeyError(name)

    @property
    def metadata(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the Zarr metadata of each array, by its name here."""
        return {
            name: part.arrays.metadata[own]
            for part in self._parts
            for name, own in part.names.items()
            if own in part.arrays.metadata
        }

    def columns(self, variables: Sequence[str] | None) -> Columns:
        """Return the columns of all arrays."""
        del variables
        return self._joined

    def grid(self, name: str, dims: tuple[str, ...] | None = None) -> Grid:
        """Return the chunk grid of an array."""
        arrays, _, own = self.find_owner(self._joined, name)
        return arrays.grid(own, dims)

    def read(self, columns: Columns, name: str, region: Region) -> Values:
        """Read a column in a region."""
        arrays, own_columns, own = self.find_owner(columns, name)
        return arrays.read(own_columns, own, region)

    def read_coordinate(self, columns: Columns, name: str) -> Values:
        """Read a whole coordinate, or return a computed one."""
        if name in self._computed:
            return self._computed[name][1]
        arrays, own_columns, own = self.find_owner(columns, name)
        return arrays.read_coordinate(own_columns, own)

    def check_access(self, name: str, chunk: tuple[int, ...]) -> None:
        """Raise InvalidInputError if a chunk is virtual and access to it is not authorized."""
        arrays, _, own = self.find_owner(self._joined, name)
        arrays.check_access(own, chunk)

    @property
    def is_restricted(self) -> bool:
        """Return True if access to some virtual chunks may not be authorized."""
        return any(part.arrays.is_restricted for part in self._parts)


def join_arrays(
    tables: Sequence[tuple[str, GroupArrays, Columns]], keys: Sequence[frozenset[str]]
) -> tuple[JoinedArrays, dict[tuple[str, str], str]] | None:
    """Join tables by their dimensions; None if that is not what a join of their rows gives.

    Parameters
    ----------
    tables
        Qualifier, arrays and columns of each table.
    keys
        Columns that each table but the first is joined by.

    Returns
    -------
    tuple or None
        The arrays, and the names of their columns by qualifier and own name.
    """
    first = max((columns for _, _, columns in tables), key=lambda each: len(each.dims))
    shared: dict[str, Values] = {}
    for number, (_, arrays, columns) in enumerate(tables):
        dims = frozenset(columns.dims)
        before = frozenset(dim for _, _, each in tables[:number] for dim in each.dims)
        # Each row has exactly one partner if all dimensions of one side are joined by.
        if not dims <= set(first.dims) or (number and keys[number - 1] != dims & before):
            return None
        if number and not (dims <= before or before <= dims):
            return None
        if any(columns.sizes[dim] != first.sizes[dim] for dim in dims):
            return None
        for dim in columns.dims:
            values = arrays.read_coordinate(columns, dim)
            if not _is_equal(shared.setdefault(dim, values), values):
                return None
    if not all(map(_is_unique, shared.values())):
        return None
    parts: list[JoinedPart] = []
    found: dict[tuple[str, str], str] = {}
    for number, (qualifier, arrays, columns) in enumerate(tables):
        names = {}
        for each in columns.all:
            is_dim = each.name in columns.dims
            name = each.name if is_dim else f"{number}.{each.name}"
            found[qualifier, each.name] = name
            if not (is_dim and any(name in part.names for part in parts)):
                names[name] = each.name
        parts.append(JoinedPart(arrays, columns, names))
    return JoinedArrays(parts), found


def identity(arrays: GroupArrays, columns: Columns) -> JoinedArrays:
    """Return the arrays of one group, to which coordinates can be added."""
    if isinstance(arrays, JoinedArrays):
        return arrays
    return JoinedArrays(
        [JoinedPart(arrays, columns, {each.name: each.name for each in columns.all})]
    )


def _is_equal(one: Values, other: Values) -> bool:
    if one is other:
        return True
    same = one.type == other.type and np.array_equal(one.data, other.data)
    return same and one.missing is None and other.missing is None


def _is_unique(values: Values) -> bool:
    return values.missing is None and len(np.unique(values.data)) == values.data.size
