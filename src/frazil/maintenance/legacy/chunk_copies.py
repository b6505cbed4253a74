"""Chunk files of the draft under names that V2 has: each is copied once, where the storage is."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.errors import ObjectNotFoundError
from frazil.format.chunks import ChunkTable
from frazil.format.ids import ChunkId
from frazil.format.references import ChunkKind
from frazil.maintenance.batches import in_batches
from frazil.maintenance.id_columns import IdSet, distinct, ids_of, parse_names
from frazil.maintenance.legacy.names import name_chunk

_ID_SIZE = 12
_LISTED_AT_ONCE = 10_000
_COPIED_AT_ONCE = 1_000

IdRows = NDArray[np.uint8]


class ChunkCopies:
    """The chunk files of one repository, those that were copied before among them."""

    def __init__(self, old: Assets, new: Assets) -> None:
        self._old = old
        self._new = new
        self._taken = IdSet()
        """Old ids that were dealt with."""
        self._there = IdSet()
        """New ids that a migration before this one has copied."""

    def find_copies(self) -> None:
        """Look for what need not be copied again."""
        if self._new.storage.is_local:
            return  # after a loss of power or a failed sync, a file can be there without its bytes
        folder = f"{self._new.layout.chunks}/"
        names = (info.key.removeprefix(folder) for info in self._new.storage.list(folder))
        for batch in in_batches(names, _LISTED_AT_ONCE):
            ids, _ = parse_names(batch, _ID_SIZE)
            self._there.add(distinct(ids))

    def adopt(self, table: ChunkTable) -> ChunkTable:
        """References to copies, which are there when this returns; no other column changes.

        A chunk whose file is lost stays lost.
        """
        if table.chunk_id.shape[1] == _ID_SIZE:
            return table
        old = table.distinct_chunk_ids()
        new = _name_all(old)
        wanted = self._taken.add(ids_of(old)) & ~self._there.contains(ids_of(new))
        self._copy_all(old[wanted], new[wanted])
        return replace(table, chunk_id=_translate(table, old, new))

    def _copy_all(self, old: IdRows, new: IdRows) -> None:
        pairs = zip(map(_chunk_id, old), map(_chunk_id, new), strict=True)
        with ThreadPoolExecutor(self._new.storage.concurrency) as pool:
            for batch in in_batches(pairs, _COPIED_AT_ONCE):
                list(pool.map(self._copy, batch))

    def _copy(self, pair: Sequence[ChunkId]) -> None:
        old, new = pair
        with suppress(ObjectNotFoundError):
            self._new.storage.copy(self._old.layout.chunk_key(old), self._new.layout.chunk_key(new))


def _name_all(old: IdRows) -> IdRows:
    data = b"".join(name_chunk(_chunk_id(row)) for row in old)
    return np.frombuffer(data, np.uint8).reshape(-1, _ID_SIZE)


def _chunk_id(row: IdRows) -> ChunkId:
    return ChunkId(row.tobytes())


def _translate(table: ChunkTable, old: IdRows, new: IdRows) -> IdRows:
    """The column of new ids, zeros where a row is not native."""
    is_native = table.kind == ChunkKind.NATIVE
    translated = np.zeros((len(table), _ID_SIZE), np.uint8)
    translated[is_native] = new[np.searchsorted(ids_of(old), ids_of(table.chunk_id[is_native]))]
    return translated
