"""The chunk references that a session has set or deleted in one array.

Single edits go into a dict, as Zarr makes them one at a time; bulk edits come as tables. A dict that
has grown is laid over the table, so that a session of millions of chunks holds columns, no objects.
Below both lie the cells that workers have written, of which only is known which chunks they set.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import TypeVar, cast

import numpy as np

from frazil.engine.cells import WrittenCell
from frazil.engine.keys import Coordinate
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Coordinates
from frazil.format.references import ChunkRef

T = TypeVar("T")

Columns = tuple[ChunkTable, Coordinates]
"""What was set, and what was deleted."""

_MANY = 1 << 16
"""So many single edits are laid over the table."""


class ChunkEdits:
    """Edits of one array; the last edit of a chunk counts.

    Threads may edit and read at once. An edit is found among the recent ones until it is in the
    columns, and the columns change all together.
    """

    __slots__ = ("_axes", "_cells", "_columns", "_id_size", "_lock", "_recent")

    def __init__(self, axes: int, id_size: int = 12) -> None:
        self._axes = axes
        self._id_size = id_size
        self._lock = threading.Lock()
        self._recent: dict[Coordinate, ChunkRef | None] = {}
        self._cells: tuple[WrittenCell, ...] = ()
        self._columns: Columns = (
            ChunkTable.empty(axes, id_size),
            np.empty((0, axes), np.uint32),
        )

    def __len__(self) -> int:
        return len(self.coordinates())

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (self._axes, self._id_size, self.settled(), self._cells))

    @property
    def axes(self) -> int:
        """How many axes the array has."""
        return self._axes

    @property
    def id_size(self) -> int:
        """Bytes of a chunk id."""
        return self._id_size

    @property
    def cells(self) -> tuple[WrittenCell, ...]:
        """What workers have written; the columns lie over it, and of two cells the later one."""
        return self._cells

    # Editing

    def set(self, coordinate: Coordinate, ref: ChunkRef | None) -> None:
        """Set a reference, or with None delete it."""
        with self._lock:
            self._recent[coordinate] = ref
            if len(self._recent) >= _MANY:
                self._settle()

    def set_table(self, table: ChunkTable) -> None:
        """Set many references at once."""
        with self._lock:
            written, deleted = self._settle()
            self._columns = written.merge(table), coords_.without(deleted, table.coordinates)

    def delete_many(self, coordinates: Coordinates) -> None:
        """Delete many references at once."""
        with self._lock:
            written, deleted = self._settle()
            self._columns = written.remove(coordinates), coords_.unite([deleted, coordinates])

    def forget(self, coordinates: Coordinates) -> None:
        """Take edits back, so that the base counts again at these chunks."""
        with self._lock:
            written, deleted = self._settle()
            self._columns = written.remove(coordinates), coords_.without(deleted, coordinates)
            self._cells = tuple(cell.without(coordinates) for cell in self._cells)

    def adopt(self, *cells: WrittenCell) -> None:
        """Take over manifests that workers have written; no two of them have the same chunk."""
        touching = [cell.coordinates() for cell in cells if self._may_touch(cell)]
        if touching:
            self.forget(coords_.unite(touching))
        with self._lock:
            self._cells = (*self._cells, *cells)

    def _may_touch(self, cell: WrittenCell) -> bool:
        written, deleted = self.settled()
        if len(written) or len(deleted):
            return True
        return any(coords_.meet(each.reach, cell.reach) for each in self._cells)

    def apply(self, newer: "ChunkEdits") -> None:
        """Lay other edits of the same array over these."""
        self.adopt(*newer.cells)
        written, deleted = newer.settled()
        if len(deleted):
            self.delete_many(deleted)
        if len(written):
            self.set_table(written)

    # Reading

    def get(self, coordinate: Coordinate, untouched: T) -> ChunkRef | T | None:
        """What a chunk was set to, or None if it was deleted, or `untouched` if it was neither."""
        recent = self._recent
        if coordinate in recent:
            return recent[coordinate]
        written, deleted = self._columns
        found = written.find(coordinate)
        if found is None and coords_.find_row(deleted, coordinate) is None:
            return untouched
        return found

    def find_cell(self, coordinate: Coordinate) -> WrittenCell | None:
        """The cell whose writer set a chunk that `get` leaves untouched."""
        return next((cell for cell in self._cells if cell.has_changed(coordinate)), None)

    def settled(self) -> Columns:
        """All that was set, and all that was deleted, as columns; without the cells."""
        with self._lock:
            return self._settle()

    def coordinates(self) -> Coordinates:
        """All chunks that were set or deleted, sorted."""
        written, deleted = self.settled()
        cells = [cell.coordinates() for cell in self._cells]
        return coords_.unite([written.coordinates, deleted, *cells])

    def copy(self) -> "ChunkEdits":
        """Edits that change on their own."""
        return _restore(self._axes, self._id_size, self.settled(), self._cells)

    def __iter__(self) -> Iterator[Coordinate]:
        return iter(map(tuple, self.coordinates().tolist()))

    def _settle(self) -> Columns:
        """Move recent edits into the columns; for whoever holds the lock."""
        recent = self._recent
        if not recent:
            return self._columns
        written, deleted = self._columns
        deletions = [key for key, ref in recent.items() if ref is None]
        gone = np.array(deletions, np.uint32).reshape(len(deletions), self._axes)
        refs = {k: ref for k, ref in recent.items() if ref is not None} if deletions else recent
        table = ChunkTable.of(self._axes, cast("dict[Coordinate, ChunkRef]", refs), self._id_size)
        kept = written.remove(gone) if len(gone) else written
        self._columns = (
            kept.merge(table),
            coords_.without(coords_.unite([deleted, gone]), table.coordinates),
        )
        # Last, so that whoever reads meanwhile finds every edit in one place or the other.
        self._recent = {}
        return self._columns


def unite(edits: Sequence[ChunkEdits]) -> ChunkEdits:
    """All edits of one array, of which no two touch the same chunk, as one."""
    if len(edits) == 1:
        return edits[0]
    written, deleted = zip(*(each.settled() for each in edits), strict=True)
    filled = [table for table in written if len(table)] or written[:1]
    cells = tuple(cell for each in edits for cell in each.cells)
    first = edits[0]
    return _restore(first.axes, first.id_size, (concatenate(filled), coords_.unite(deleted)), cells)


def _restore(
    axes: int, id_size: int, columns: Columns, cells: tuple[WrittenCell, ...]
) -> ChunkEdits:
    edits = ChunkEdits(axes, id_size)
    edits._columns, edits._cells = columns, cells
    return edits
