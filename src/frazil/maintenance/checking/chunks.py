"""Chunk references against what a storage lists: whole columns at once. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.engine.array_chunks import spell_ids
from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import Rows
from frazil.format.references import ChunkKind
from frazil.maintenance.checking.inventory import ChunkFiles, WrongFiles
from frazil.maintenance.checking.problems import MOST_ALIKE, Problems, error, few
from frazil.maintenance.id_columns import Ids, ids_of


@dataclass(frozen=True, slots=True)
class Place:
    """Where references are: a manifest file, and the array in it."""

    key: str
    path: str
    folder: str
    """Of the chunk files."""


def check_native(table: ChunkTable, chunks: ChunkFiles, place: Place) -> Problems:
    """Every native chunk has a file, and that has all its bytes."""
    rows = np.flatnonzero(table.kind == ChunkKind.NATIVE)
    if not rows.size:
        return
    is_there, all_sizes = chunks.measure(ids_of(table.chunk_id[rows]))
    absent = rows[~is_there]
    there, sizes = rows[is_there], all_sizes[is_there]
    is_short = _ends(table, there) > sizes
    whole = error(place.key, "chunks have no file", path=place.path)
    yield from few(_missing(table, absent, place), len(absent), whole)
    short, short_sizes = there[is_short], sizes[is_short]
    whole = error(place.key, "chunks have files that are too short", path=place.path)
    yield from few(_too_short(table, short, short_sizes, place), len(short), whole)


def _ends(table: ChunkTable, rows: Rows) -> NDArray[np.uint64]:
    """How many bytes of their files references need; the most that there can be where it is more."""
    ends: NDArray[np.uint64] = table.offset[rows] + table.length[rows]
    # A sum that is smaller than its parts has gone beyond what 64 bits can hold.
    ends[ends < table.offset[rows]] = np.iinfo(np.uint64).max
    return ends


@dataclass(frozen=True, slots=True, eq=False)
class NeededFiles:
    """Chunk files that references need, each once, sorted, and how many bytes of each."""

    ids: Ids
    ends: NDArray[np.uint64]

    @classmethod
    def of(cls, tables: Iterable[ChunkTable]) -> "NeededFiles":
        """Of all native references of some tables."""
        parts = [
            cls(ids_of(table.chunk_id[rows]), _ends(table, rows))
            for table in tables
            for rows in [np.flatnonzero(table.kind == ChunkKind.NATIVE)]
            if rows.size
        ]
        return cls.unite(parts)

    @classmethod
    def unite(cls, parts: "Sequence[NeededFiles]") -> "NeededFiles":
        """Those of several parts, which may repeat each other."""
        filled = [each for each in parts if len(each.ids)]
        if not filled:
            return cls(np.empty(0, "S12"), np.empty(0, np.uint64))
        ids = np.concatenate([each.ids for each in filled])
        ends = np.concatenate([each.ends for each in filled])
        order = np.argsort(ids, kind="stable")
        ids, ends = ids[order], ends[order]
        first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        return cls(ids[first], np.maximum.reduceat(ends, first))

    def find_wrong(self, files: ChunkFiles) -> WrongFiles:
        """Those that are gone or too short."""
        is_there, sizes = files.measure(self.ids)
        is_wrong = ~is_there | (self.ends > sizes)
        return WrongFiles(self.ids[is_wrong], is_there[is_wrong], sizes[is_wrong])


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
