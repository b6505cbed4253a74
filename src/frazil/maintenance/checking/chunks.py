"""Chunk references against what a storage lists: whole columns at once. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.engine.array_chunks import spell_ids
from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import Rows
from frazil.format.references import ChunkKind
from frazil.maintenance.checking.inventory import Listed
from frazil.maintenance.checking.problems import MOST_ALIKE, Problems, error, few
from frazil.maintenance.id_columns import ids_of


@dataclass(frozen=True, slots=True)
class Place:
    """Where references are: a manifest file, and the array in it."""

    key: str
    path: str
    folder: str
    """Of the chunk files."""


def check_native(table: ChunkTable, chunks: Listed, place: Place) -> Problems:
    """Every native chunk has a file, and that has all its bytes."""
    rows = np.flatnonzero(table.kind == ChunkKind.NATIVE)
    if not rows.size:
        return
    found = chunks.locate(ids_of(table.chunk_id[rows]))
    absent = rows[found < 0]
    there, sizes = rows[found >= 0], chunks.sizes[found[found >= 0]]
    # A sum that is smaller than its parts has gone beyond what 64 bits can hold.
    needed = table.offset[there] + table.length[there]
    is_short = (needed > sizes) | (needed < table.offset[there])
    whole = error(place.key, "chunks have no file", path=place.path)
    yield from few(_missing(table, absent, place), len(absent), whole)
    short, short_sizes = there[is_short], sizes[is_short]
    whole = error(place.key, "chunks have files that are too short", path=place.path)
    yield from few(_too_short(table, short, short_sizes, place), len(short), whole)


def _missing(table: ChunkTable, rows: Rows, place: Place) -> Problems:
    told = rows[:MOST_ALIKE]
    for row, name in zip(told.tolist(), spell_ids(table.chunk_id[told]), strict=True):
        yield error(
            f"{place.folder}/{name}",
            f"there is no such file, and {place.key} refers to it",
            path=place.path,
            coordinate=_coordinate(table, row),
        )


def _too_short(table: ChunkTable, rows: Rows, sizes: NDArray[np.uint64], place: Place) -> Problems:
    told = rows[:MOST_ALIKE]
    names = spell_ids(table.chunk_id[told])
    for row, name, size in zip(told.tolist(), names, sizes.tolist(), strict=False):
        start, length = int(table.offset[row]), int(table.length[row])
        yield error(
            f"{place.folder}/{name}",
            f"it has {size} bytes, and {place.key} refers to {start}..{start + length}",
            path=place.path,
            coordinate=_coordinate(table, row),
        )


def check_inline(table: ChunkTable, place: Place) -> Problems:
    """No chunk is empty: writers refuse such."""
    empty = np.flatnonzero((table.kind != ChunkKind.VIRTUAL) & (table.length == 0))
    problems = (
        error(place.key, "the chunk has no bytes", None, place.path, _coordinate(table, row))
        for row in empty.tolist()
    )
    whole = error(place.key, "chunks have no bytes", path=place.path)
    yield from few(problems, len(empty), whole)


def _coordinate(table: ChunkTable, row: int) -> tuple[int, ...]:
    return tuple(table.coordinates[row].tolist())
