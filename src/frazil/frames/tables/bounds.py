"""What the coordinates of chunks span: the least and the greatest value along each dimension.

Of dimensions that have a coordinate array of their name in the group, and one that can be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.coordinates import Coordinates
from frazil.format.snapshot import Node
from frazil.frames.columns import Column, find_grid, open_dataset
from frazil.frames.grids import Grid, Offsets
from frazil.frames.types import TIMESTAMP, Values, find_type, make_values
from frazil.session import Session

_SPAN = pa.struct(
    {
        "lower": pa.float64(), "upper": pa.float64(),
        "lower_time": TIMESTAMP, "upper_time": TIMESTAMP,
    }
)  # fmt: skip
BOUNDS = pa.map_(pa.string(), _SPAN)
"""By the name of the dimension; numbers and times in fields of their own."""
_UNAUTHORIZED = "unauthorized-virtual-chunk-container"


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """Of each chunk along one dimension."""

    axis: int
    dim: str
    is_time: bool
    lower: NDArray[Any]
    upper: NDArray[Any]
    missing: NDArray[np.bool_]


class Spans:
    """What the coordinates of an array's chunks span."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self._spans = spans

    def column(self, chunks: Coordinates) -> pa.Array:
        """Of each of some chunks."""
        count, width = len(chunks), len(self._spans)
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
        names = pa.array([span.dim for span in self._spans], pa.string())
        keys = names.take(pa.array(np.tile(np.arange(width), count)))
        fields = [self._field(chunks, "lower", False), self._field(chunks, "upper", False)]
        fields += [self._field(chunks, "lower", True), self._field(chunks, "upper", True)]
        items = pa.StructArray.from_arrays(fields, fields=list(_SPAN))
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items, type=BOUNDS)

    def _field(self, chunks: Coordinates, end: str, is_time: bool) -> pa.Array:
        """Of all dimensions, null for those that are of the other type."""
        type = TIMESTAMP if is_time else pa.float64()
        if not any(span.is_time == is_time for span in self._spans):
            return pa.nulls(len(chunks) * len(self._spans), type)
        shape = (len(chunks), len(self._spans))
        values = np.zeros(shape, np.int64 if is_time else np.float64)
        missing = np.ones(shape, np.bool_)
        for number, span in enumerate(self._spans):
            if span.is_time == is_time:
                rows = chunks[:, span.axis]
                values[:, number] = getattr(span, end)[rows]
                missing[:, number] = span.missing[rows]
        return pa.array(values.reshape(-1), mask=missing.reshape(-1)).cast(type)


class BoundsFinder:
    """Finds what chunks span in one version; each coordinate is read once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read: dict[tuple[str, str], Values | None] = {}

    def find(self, node: Node) -> Spans:
        """For the chunks of an array."""
        grid = find_chunk_grid(self._session, node)
        if grid is None:
            return Spans(())
        group = node.path.rpartition("/")[0] or "/"
        found = []
        for axis, (dim, offsets) in enumerate(zip(grid.dims, grid.offsets, strict=True)):
            values = self._coordinate(group, dim, int(offsets[-1])) if dim else None
            # A name that two dimensions have stands for one entry.
            if values is not None and dim not in grid.dims[:axis]:
                found.append(_span(axis, dim, values, offsets))
        return Spans(found)

    def _coordinate(self, group: str, dim: str, size: int) -> Values | None:
        key = (group, dim)
        if key not in self._read:
            self._read[key] = _read_coordinate(self._session, group, dim)
        values = self._read[key]
        return values if values is not None and values.data.shape == (size,) else None


def find_chunk_grid(session: Session, node: Node) -> Grid | None:
    """The chunks of an array, whose dimensions are "" where they have no name; None for the root."""
    assert node.array is not None
    group, _, name = node.path.rpartition("/")
    if not name:
        return None
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    dims = tuple(each or "" for each in names)
    # Zarr reads chunks of different lengths only where that is allowed; here no values are read.
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return find_grid(session, group or "/", Column(name, "variable", dims, pa.null()))


def _read_coordinate(session: Session, group: str, dim: str) -> Values | None:
    """The values of a coordinate as Xarray decodes them; None for all but numbers and times."""
    node = session.state.view.find_node(f"{group.rstrip('/')}/{dim}")
    if node is None or node.array is None or node.array.dimension_names != (dim,):
        return None
    try:
        variable = open_dataset(session, group, [dim]).variables[dim]
        type = find_type(dim, variable.dtype)
        is_known = type == TIMESTAMP or variable.dtype.kind in "iuf"
        return make_values(variable.values, type) if is_known else None
    except InvalidInputError as error:
        if error.kind != _UNAUTHORIZED:
            raise
        return None


def _span(axis: int, dim: str, values: Values, offsets: Offsets) -> _Span:
    is_time = values.type == TIMESTAMP
    data = values.data.astype(np.int64 if is_time else np.float64)
    starts, count = offsets[:-1], len(offsets) - 1
    if not count:
        nothing = np.empty(0, data.dtype)
        return _Span(axis, dim, is_time, nothing, nothing, np.empty(0, np.bool_))
    least, greatest = data, data
    missing = np.zeros(count, np.bool_)
    if values.missing is not None:
        limits = np.iinfo(np.int64) if is_time else np.finfo(np.float64)
        least = np.where(values.missing, limits.max, data)
        greatest = np.where(values.missing, limits.min, data)
        missing = np.logical_and.reduceat(values.missing, starts)
    lower = np.minimum.reduceat(least, starts)
    upper = np.maximum.reduceat(greatest, starts)
    return _Span(axis, dim, is_time, lower, upper, missing)
