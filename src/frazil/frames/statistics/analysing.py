"""Which chunks of an array are to be measured, and the measuring of some: without an engine."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.frames.arrays import Arrays
from frazil.frames.columns import Column, find_columns, find_grid
from frazil.frames.grids import Boxes, Grid, split_box
from frazil.frames.statistics.digests import take_digest
from frazil.frames.statistics.fingerprints import NONE, Fingerprints, take_fingerprints
from frazil.frames.statistics.measures import (
    Measures,
    join_measures,
    measure,
    measure_alike,
    measure_chunks,
)
from frazil.frames.statistics.storing import is_fresh, read_statistics, write_statistics
from frazil.frames.types import byte_width
from frazil.session import Session

_READ_AT_ONCE_BYTES = 16 << 20
_READ_AHEAD = 4


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """An array whose chunks are measured, wherever that happens."""

    path: str
    arrays: Arrays
    column: Column
    grid: Grid

    @property
    def chunk_bytes(self) -> int:
        """What a chunk takes in memory, about."""
        return self.grid.largest_chunk() * byte_width(self.column.type)

    def measure(self, boxes: Boxes) -> Measures:
        """Read boxes of chunks, and measure each of these."""
        most = max(_READ_AT_ONCE_BYTES // max(self.chunk_bytes, 1), 1)
        parts = (part for box in boxes for part in split_box(box, most))
        with ThreadPoolExecutor(_READ_AHEAD) as pool:
            return join_measures(list(pool.map(self._measure_box, parts)))

    def _measure_box(self, box: NDArray[np.int64]) -> Measures:
        values = self.arrays.read(self.column.name, self.column.type, self.grid.region(box))
        return measure_chunks(values, self.grid, box)

    def measure_unwritten(self, chunks: NDArray[np.int64]) -> Measures:
        """Of chunks that were never written, for which nothing but metadata is read."""
        first = tuple(
            slice(int(each[at]), int(each[at]) + 1)
            for each, at in zip(self.grid.offsets, chunks[0], strict=True)
        )
        one = measure(self.arrays.read(self.column.name, self.column.type, first))
        return measure_alike(one, self.grid, chunks, self.column.type)


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """What there is to do for an array."""

    subject: Subject
    digest: str
    fingerprints: Fingerprints
    written: NDArray[np.bool_]
    """Chunks to read."""
    unwritten: NDArray[np.bool_]
    """Chunks that have the fill value everywhere, and are not noted."""
    fresh: int
    """How many are known already."""
    without_checksum: int
    """How many are in files that nobody could tell to have changed."""

    def write(self, session: Session, measured: Sequence[Measures]) -> None:
        """Note what was measured, and what need not be, in a session."""
        parts = list(measured)
        if self.unwritten.any():
            parts.append(self.subject.measure_unwritten(_places(self.unwritten)))
        if not parts:
            return
        together = join_measures(parts)
        prints = self.fingerprints[tuple(together.chunks.T)]
        subject = self.subject
        write_statistics(
            session, subject.path, subject.grid, subject.column.type, self.digest, together, prints
        )


def plan_analysis(session: Session, path: str) -> Analysis:
    """What to measure of an array; raises InvalidInputError for one that is no column."""
    group, _, name = path.rpartition("/")
    view = session.state.view
    node, _ = view.get_array(path)
    columns = find_columns(session, group or "/", (name,))
    column = columns.get(name)
    grid = find_grid(session, group or "/", column)
    if not grid.dims:
        raise InvalidInputError(f"{path} is one value, of which there are no statistics")
    subject = Subject(path, Arrays(session, group or "/", columns.opened), column, grid)
    digest = take_digest(node, subject.arrays.open().variables[name], column.type)
    fingerprints = take_fingerprints(grid, view.tables(node))
    kept = read_statistics(session, path, grid, column.type, digest)
    fresh = np.zeros(grid.shape, np.bool_) if kept is None else is_fresh(kept, fingerprints)
    is_unwritten = fingerprints == take_fingerprints(grid, ())
    is_unsure = fingerprints == NONE
    return Analysis(
        subject,
        digest,
        fingerprints,
        ~fresh & ~is_unwritten & ~is_unsure,
        ~fresh & is_unwritten,
        int(fresh.sum()),
        int(is_unsure.sum()),
    )


def find_analysable(session: Session, group: str) -> Iterator[str]:
    """The arrays of a group, and of all groups below it, that are more than coordinates.

    What Frazil keeps for itself is left out, and so are coordinates that are held in memory anyway.
    """
    view = session.state.view
    for node in view.descendants(view.get_node(group).path):
        if node.array is None or not node.array.shape or node.path.startswith("/_frazil/"):
            continue
        names = node.array.dimension_names or ()
        if tuple(names) != (node.path.rpartition("/")[2],):
            yield node.path


def _places(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.argwhere(flags).astype(np.int64)
