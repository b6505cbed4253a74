"""Going through the chunks of a repository, a stretch of a manifest's rows at a time."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from frazil.assets import Assets
from frazil.format.chunks import ChunkTable
from frazil.format.files import decode_manifest
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import Manifest
from frazil.maintenance.checking.chunk_reading import ChunkReader
from frazil.maintenance.checking.chunks import Place
from frazil.maintenance.checking.decoding import Kinds, check_row, find_rows
from frazil.maintenance.checking.pacing import Pace
from frazil.maintenance.checking.problems import Problem, Problems
from frazil.maintenance.checking.reading import Failed, read_or_fail
from frazil.maintenance.checking.snapshots import EncodedArray
from frazil.maintenance.limits import MEBIBYTE
from frazil.virtual.access import VirtualChunkAccess

_STRETCH_BYTES = 64 * MEBIBYTE
"""So much of a manifest's chunks one worker reads."""
_CHUNK_BYTES = 64 * 1024
"""What it takes to decode a chunk, however small."""
_MOST_BYTES = 1 << 40
"""Of one chunk: what is damaged may be said to have more than anybody can count."""


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Some chunks of an array in a manifest: their rows, counted without those of other kinds."""

    manifest_id: ManifestId
    node_id: NodeId
    array: EncodedArray
    start: int
    stop: int
    effort_bytes: int
    """What to read and decode them takes."""


def plan_rows(
    table: ChunkTable, kinds: Kinds, manifest_id: ManifestId, node_id: NodeId, array: EncodedArray
) -> Iterator[ChunkRows]:
    """The chunks that an array has a place for, cut where there are many bytes of them."""
    lengths = table.length[find_rows(table, array.num_chunks, kinds)]
    ends = np.cumsum(np.minimum(lengths, _MOST_BYTES) + _CHUNK_BYTES)
    start, done = 0, 0
    while start < len(ends):
        stop = int(np.searchsorted(ends, done + _STRETCH_BYTES, "right"))
        stop = max(stop, start + 1)
        end = int(ends[stop - 1])
        yield ChunkRows(manifest_id, node_id, array, start, stop, end - done)
        start, done = stop, end


@dataclass(frozen=True, slots=True)
class DecodeChunks:
    """Reads chunks and decodes them."""

    assets: Assets
    kinds: Kinds
    virtual: VirtualChunkAccess
    per_second: float | None
    """So often sources of virtual chunks are asked for."""

    def __call__(self, pool: ThreadPoolExecutor, wanted: Sequence[ChunkRows]) -> list[Problem]:
        """What is wrong with their bytes."""
        problems: list[Problem] = []
        reader = ChunkReader(self.assets, self.virtual, Pace(self.per_second))
        for id, parts in groupby(wanted, lambda each: each.manifest_id):
            key = self.assets.layout.manifest_key(id)
            found = read_or_fail(self.assets, key, lambda data: decode_manifest(data).value)
            if isinstance(found, Failed):
                problems.append(found.problem)
            else:
                problems += self._decode(pool, found, key, parts, reader)
        return problems

    def _decode(
        self,
        pool: ThreadPoolExecutor,
        manifest: Manifest,
        key: str,
        parts: Iterable[ChunkRows],
        reader: ChunkReader,
    ) -> Problems:
        for node_id, stretches in groupby(parts, lambda each: each.node_id):
            first, *others = stretches
            array, table = first.array, manifest.table(node_id, len(first.array.num_chunks))
            rows = find_rows(table, array.num_chunks, self.kinds)
            place = Place(key, array.path, self.assets.layout.chunks)
            check = partial(check_row, array, table, place, reader.read)
            for part in (first, *others):
                found = pool.map(check, rows[part.start : part.stop])
                yield from (problem for problem in found if problem is not None)
