"""The chunk references that a session has set or deleted in one array.

Single edits go into a dict, as Zarr makes them one at a time; bulk edits come as tables. A dict that
has grown is laid over the table, so that a session of millions of chunks holds columns, no objects.
"""

from collections.abc import Iterator

import numpy as np

from frazil.engine.keys import Coordinate
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import Coordinates
from frazil.format.references import ChunkRef

_MANY = 1 << 16
"""So many single edits are laid over the table."""


class ChunkEdits:
    """Edits of one array; the last edit of a chunk counts."""

    __slots__ = ("_axes", "_deleted", "_id_size", "_recent", "_written")

    def __init__(self, axes: int, id_size: int = 12) -> None:
        self._axes = axes
        self._id_size = id_size
        self._recent: dict[Coordinate, ChunkRef | None] = {}
        self._written = ChunkTable.empty(axes, id_size)
        self._deleted: Coordinates = np.empty((0, axes), np.uint32)

    def __len__(self) -> int:
        return len(self.coordinates())

    @property
    def axes(self) -> int:
        """How many axes the array has."""
        return self._axes

    def set(self, coordinate: Coordinate, ref: ChunkRef | None) -> None:
        """Set a reference, or with None delete it."""
        self._recent[coordinate] = ref
        if len(self._recent) >= _MANY:
            self._settle()

    def set_table(self, table: ChunkTable) -> None:
        """Set many references at once."""
        self._settle()
        self._deleted = coords_.without(self._deleted, table.coordinates)
        self._written = self._written.merge(table)

    def delete_many(self, coordinates: Coordinates) -> None:
        """Delete many references at once."""
        self._settle()
        self._written = self._written.remove(coordinates)
        self._deleted = coords_.unite([self._deleted, coordinates])

    def forget(self, coordinates: Coordinates) -> None:
        """Take edits back, so that the base counts again at these chunks."""
        self._settle()
        self._written = self._written.remove(coordinates)
        self._deleted = coords_.without(self._deleted, coordinates)

    def apply(self, newer: "ChunkEdits") -> None:
        """Lay other edits of the same array over these."""
        written, deleted = newer.settled()
        if len(deleted):
            self.delete_many(deleted)
        if len(written):
            self.set_table(written)

    def contains(self, coordinate: Coordinate) -> bool:
        """Whether a chunk was set or deleted."""
        if coordinate in self._recent:
            return True
        return self._written.find(coordinate) is not None or (
            len(coordinate) == self._axes
            and coords_.find_row(self._deleted, coordinate) is not None
        )

    def find(self, coordinate: Coordinate) -> ChunkRef | None:
        """What a chunk was set to; None if it was deleted or not touched."""
        if coordinate in self._recent:
            return self._recent[coordinate]
        return self._written.find(coordinate)

    def settled(self) -> tuple[ChunkTable, Coordinates]:
        """All that was set, and all that was deleted, as columns."""
        self._settle()
        return self._written, self._deleted

    def coordinates(self) -> Coordinates:
        """All chunks that were set or deleted, sorted."""
        written, deleted = self.settled()
        return coords_.unite([written.coordinates, deleted])

    def copy(self) -> "ChunkEdits":
        """Edits that change on their own."""
        other = ChunkEdits(self._axes, self._id_size)
        other._recent = dict(self._recent)
        other._written, other._deleted = self._written, self._deleted
        return other

    def __iter__(self) -> Iterator[Coordinate]:
        return iter(map(tuple, self.coordinates().tolist()))

    def _settle(self) -> None:
        if not self._recent:
            return
        refs = {key: ref for key, ref in self._recent.items() if ref is not None}
        gone = np.array([key for key, ref in self._recent.items() if ref is None], np.uint32)
        gone = gone.reshape(len(self._recent) - len(refs), self._axes)
        table = ChunkTable.of(self._axes, refs, self._id_size)
        written = self._written.remove(gone) if len(gone) else self._written
        self._written = written.merge(table)
        self._deleted = coords_.without(coords_.unite([self._deleted, gone]), table.coordinates)
        # Last, so that whoever reads meanwhile finds every edit in one place or the other.
        self._recent = {}
