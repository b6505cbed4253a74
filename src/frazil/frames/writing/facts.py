"""What is known of rows before they are written: their coordinates, and where they have nulls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What rows have."""

    rows: int
    distinct: Mapping[str, pa.Array]
    """The coordinates, each once, by dimension."""
    with_nulls: frozenset[str]

    @property
    def is_dense(self) -> bool:
        """Whether there is a row for each combination of coordinates, if there is none twice."""
        return self.rows == prod(len(each) for each in self.distinct.values())


def measure(table: pa.Table, dims: Sequence[str]) -> Facts:
    """What the rows of a table have."""
    distinct = {dim: _flat(pc.unique(table[dim])) for dim in dims}
    nulls = {name for name in table.column_names if _has_nulls(table[name])}
    return Facts(table.num_rows, distinct, frozenset(nulls))


def join_facts(parts: Sequence[Facts], dims: Sequence[str]) -> Facts:
    """What several tables have together."""
    distinct = {
        dim: _flat(pc.unique(pa.chunked_array([part.distinct[dim] for part in parts])))
        for dim in dims
    }
    nulls = frozenset[str]().union(*(part.with_nulls for part in parts))
    return Facts(sum(part.rows for part in parts), distinct, nulls)


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    return values


def _has_nulls(column: pa.ChunkedArray) -> bool:
    is_null = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    return bool(pc.any(is_null).as_py())
