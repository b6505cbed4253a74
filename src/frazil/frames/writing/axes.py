"""Dimensions of arrays, as places that coordinates of rows are looked up in."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.frames.writing.values import cast_column, show


@dataclass(frozen=True, slots=True, eq=False)
class WriteAxis:
    """A dimension and its coordinates."""

    dim: str
    type: pa.DataType
    size: int
    values: pa.Array | None
    """None where the dimension has no coordinate: then places are numbers from zero."""

    def find(self, column: pa.Array) -> NDArray[np.int64]:
        """The places of coordinates; -1 for those that are not there."""
        if self.values is None:
            numbers = column.fill_null(-1).to_numpy()
            return np.where((numbers >= 0) & (numbers < self.size), numbers, np.int64(-1))
        places = pc.index_in(column, value_set=self.values, skip_nulls=True)
        found: NDArray[np.int64] = np.asarray(places.fill_null(-1), np.int64)
        return found

    def locate(self, column: pa.Array) -> NDArray[np.int64]:
        """The places of coordinates; raises InvalidInputError, which names those that are not there."""
        places = self.find(column)
        if (places < 0).any():
            unknown = pc.unique(column.filter(pa.array(places < 0)))
            unknown = unknown.take(pc.sort_indices(unknown))
            raise InvalidInputError(
                f"{self.dim} has no coordinate {show(unknown)}: only coordinates that are there can be "
                f'written to, unless the option append_dim is "{self.dim}"'
            )
        return places

    def is_same(self, other: "WriteAxis") -> bool:
        """Whether all coordinates are at the same places."""
        if self.values is None or other.values is None:
            return self.values is other.values and self.size == other.size
        return bool(self.values.equals(other.values))


def check_coordinates(name: str, column: pa.Array | pa.ChunkedArray, type: pa.DataType) -> pa.Array:
    """Coordinates of rows; raises InvalidInputError where a row has none."""
    cast = cast_column(name, column, type)
    if cast.null_count:
        raise InvalidInputError(
            f"there are rows without {name}, and so without a cell: leave them out, as in "
            f'`.where("{name} IS NOT NULL")`'
        )
    return cast


def refuse_repeated(axis: WriteAxis) -> None:
    """Raise InvalidInputError if a coordinate has several places."""
    if axis.values is None or len(pc.unique(axis.values)) == len(axis.values):
        return
    counts = axis.values.value_counts()
    twice = counts.field(0).filter(pc.greater(counts.field(1), 1))
    raise InvalidInputError(
        f"{axis.dim} has {show(twice)} more than once, so that nobody knows which is meant"
    )


def extend(axis: WriteAxis, given: pa.Array) -> WriteAxis:
    """The axis with the coordinates that it lacks, in its order; raises InvalidInputError.

    They come after those that are there: arrays grow at their end only.
    """
    if axis.values is None:
        least = pc.min(given).as_py()
        if least is not None and least < 0:
            raise InvalidInputError(f"{axis.dim} has no place {least}: they begin at zero")
        return replace(axis, size=max(axis.size, (pc.max(given).as_py() or 0) + 1))
    new = pc.unique(given.filter(pa.array(axis.find(given) < 0)))
    if not len(new):
        return axis
    order = find_order(axis.values)
    new = new.take(pc.sort_indices(new, sort_keys=[("", _SORTS[order])]))
    if order and len(axis.values):
        last = axis.values[-1]
        compare = pc.greater if order > 0 else pc.less
        late = new.filter(pc.invert(compare(new, last)))
        if len(late):
            raise InvalidInputError(
                f"{axis.dim} ends with {last.as_py()}, and {show(late)} would come before it: arrays "
                "grow at their end only"
            )
    whole = pa.concat_arrays([axis.values, new])
    return replace(axis, values=whole, size=len(whole))


_SORTS = {1: "ascending", -1: "descending", 0: "ascending"}


def find_order(values: pa.Array) -> int:
    """1 if values only rise, -1 if they only fall, 0 if they do neither."""
    if len(values) < 2 or pc.all(pc.less(values[:-1], values[1:])).as_py():
        return 1
    return -1 if pc.all(pc.greater(values[:-1], values[1:])).as_py() else 0
