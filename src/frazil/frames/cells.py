"""The table of cells: one row for each cell of a group's arrays, with its coordinates."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.frames.chosen import Chosen, ChunkCount, choose
from frazil.frames.conditions import find_unknown
from frazil.frames.grids import Region, split_box
from frazil.frames.partitions import Partition, plan_partitions
from frazil.frames.scanning import Scan, schema_of
from frazil.frames.source import Source
from frazil.frames.types import Values, byte_width

_READ_AT_ONCE_BYTES = 16 << 20
_READ_AHEAD = 4


CellValues = tuple[tuple[int, ...], NDArray[np.bool_] | None, dict[str, Values]]
"""A shape, a mask, and columns with an axis for each dimension, of one element where they repeat."""


class Cells:
    """The cells of a group, as `Table` has it."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen

    @property
    def schema(self) -> pa.Schema:
        """Coordinates first, then variables, or the columns that were asked for."""
        return schema_of(self._chosen.given)

    def partitions(self) -> Sequence[Partition]:
        """Chunks that can have rows that are wanted, by the target size."""
        chosen = self._chosen
        width = sum(byte_width(each.type) for each in chosen.given)
        chunk_bytes = chosen.grid.largest_chunk() * max(width, 1)
        kept = chosen.find_chunks()
        chosen.check_access(kept, chosen.grid, chosen.lazy)
        return plan_partitions(kept, chunk_bytes, chosen.target_bytes)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, region by region."""
        scan = self._chosen.scan()
        for read in self._read(partition, scan):
            yield from scan.batches(*read)

    def read_values(self, partition: Partition) -> Iterator[CellValues]:
        """The same as arrays, of which a mask says which cells are wanted, if not all are."""
        scan = self._chosen.scan()
        for region, mask, read in self._read(partition, scan):
            shape = tuple(each.stop - each.start for each in region)
            if not prod(shape):
                continue
            values = scan.known(region, read)
            yield shape, scan.filter(values, shape, mask) if scan.filters else mask, values

    def _read(self, partition: Partition, scan: Scan) -> "Iterator[_Read]":
        """What the regions of a partition have; the next ones are read meanwhile."""
        chosen = self._chosen
        regions = self._regions(partition)
        with ThreadPoolExecutor(_READ_AHEAD) as pool:
            waiting: deque[Future[_Read]] = deque()
            for region in regions:
                waiting.append(pool.submit(_read, chosen, scan, region))
                if len(waiting) >= _READ_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def count_chunks(self) -> dict[str, ChunkCount]:
        """By array, how many of its chunks are read."""
        return self._chosen.count_chunks()

    def _regions(self, partition: Partition) -> Iterator[Region]:
        chosen = self._chosen
        width = sum(byte_width(each.type) for each in chosen.lazy.values()) or 8
        most = max(_READ_AT_ONCE_BYTES // max(chosen.grid.largest_chunk() * width, 1), 1)
        for box in partition.boxes:
            for part in split_box(box, most):
                yield chosen.grid.region(part)


_Read = tuple[Region, NDArray[np.bool_] | None, dict[str, Values]]


def _read(chosen: Chosen, scan: Scan, region: Region) -> _Read:
    smaller, mask = scan.narrow(region)
    if not prod(each.stop - each.start for each in smaller):
        return smaller, mask, {}
    return smaller, mask, scan.read_columns(smaller, mask, chosen.read_array)


def open_cells(source: Source) -> Cells:
    """The cells that the options of a source describe."""
    chosen = choose(source)
    unknown = find_unknown(chosen.condition)
    if unknown is not None and not source.options.engine_filters:
        raise InvalidInputError(
            f"where: only Spark can evaluate {unknown}: leave it to the frame, as in "
            '`.load().where("…")`, or use frazil.spark.read, which takes any condition'
        )
    return Cells(chosen)
