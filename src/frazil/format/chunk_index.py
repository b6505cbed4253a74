"""Looking up single references in a table, many times.

A `ChunkIndex` turns a coordinate into one number and searches a column of such numbers, or, where the
table has a reference for every place of its box, computes the row. It finds what `ChunkTable.find`
finds.
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from frazil.format.chunks import ChunkTable
from frazil.format.ids import ChunkId
from frazil.format.references import ChunkKind, ChunkRef, NativeRef


class ChunkIndex:
    """An index over a table, which must not be empty."""

    __slots__ = (
        "_box", "_chunk_ids", "_id_size", "_is_dense", "_keys", "_lengths", "_offsets", "_table",
    )  # fmt: skip

    def __init__(self, table: ChunkTable) -> None:
        self._table = table
        extents = table.extents()
        strides = _strides([stop - start for start, stop in extents])
        self._box = [
            (start, stop, stride) for (start, stop), stride in zip(extents, strides, strict=True)
        ]
        cells = strides[0] * (extents[0][1] - extents[0][0]) if extents else 1
        self._is_dense = cells == len(table)
        self._keys = memoryview(b"" if self._is_dense else _keys(table, self._box))
        only_native = bool(np.all(table.kind == ChunkKind.NATIVE))
        self._chunk_ids = np.ascontiguousarray(table.chunk_id).tobytes() if only_native else b""
        self._id_size = table.chunk_id.shape[1]
        # Columns may lie anywhere in a file's bytes, and a memoryview reads numbers only where they
        # lie as in memory.
        self._offsets = memoryview(np.require(table.offset, np.uint64, ["C", "A"]))
        self._lengths = memoryview(np.require(table.length, np.uint64, ["C", "A"]))

    def __len__(self) -> int:
        return len(self._table)

    @staticmethod
    def can_hold(table: ChunkTable) -> bool:
        """Whether the places in the table's box can be numbered."""
        if not len(table):
            return False
        cells = 1
        for start, stop in table.extents():
            cells *= stop - start
        return cells < 2**63

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """The reference of one chunk; its coordinate must have as many axes as the table."""
        row = 0
        for index, (start, stop, stride) in zip(wanted, self._box, strict=True):
            if not start <= index < stop:
                return None
            row += (index - start) * stride
        if not self._is_dense:
            key, row = row, bisect_left(self._keys, row)
            if row == len(self._keys) or self._keys[row] != key:
                return None
        if not self._chunk_ids:
            return self._table.ref(row)
        at = row * self._id_size
        chunk_id = ChunkId(self._chunk_ids[at : at + self._id_size])
        return NativeRef(chunk_id, self._offsets[row], self._lengths[row])


def _strides(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours along each axis are, the last axis running fastest."""
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return strides


def _keys(
    table: ChunkTable, box: Sequence[tuple[int, int, int]]
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    keys = np.zeros(len(table), np.int64)
    for axis, (start, _, stride) in enumerate(box):
        keys += (table.coordinates[:, axis].astype(np.int64) - start) * stride
    return keys
