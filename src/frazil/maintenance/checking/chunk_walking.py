"""Going through the native chunks of a repository, a stretch of a manifest's rows at a time."""

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
from frazil.maintenance.checking.decoding import check_row, native_rows
from frazil.maintenance.checking.problems import Problem, Problems
from frazil.maintenance.checking.reading import Failed, read_or_fail
from frazil.maintenance.checking.snapshots import EncodedArray
from frazil.maintenance.limits import MEBIBYTE

_STRETCH_BYTES = 64 * MEBIBYTE
"""So much of a manifest's chunks one worker reads."""
_CHUNK_BYTES = 64 * 1024
"""What it takes to decode a chunk, however small."""
_MOST_BYTES = 1 << 40
"""Of one chunk: what is damaged may be said to have more than anybody can count."""


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Some native chunks of an array in a manifest: the rows of them, counted without the others."""

    manifest_id: ManifestId
    node_id: NodeId
    array: EncodedArray
    start: int
    stop: int
    effort_bytes: int
    """What to read and decode them takes."""


def plan_rows(
    table: ChunkTable, manifest_id: ManifestId, node_id: NodeId, array: EncodedArray
) -> Iterator[ChunkRows]:
    """The native chunks that an array has a place for, cut where there are many bytes of them."""
    lengths = table.length[native_rows(table, array.num_chunks)]
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

    def __call__(self, pool: ThreadPoolExecutor, wanted: Sequence[ChunkRows]) -> list[Problem]:
        """What is wrong with their bytes."""
        problems: list[Problem] = []
        for id, parts in groupby(wanted, lambda each: each.manifest_id):
            key = self.assets.layout.manifest_key(id)
            found = read_or_fail(self.assets, key, lambda data: decode_manifest(data).value)
            if isinstance(found, Failed):
                problems.append(found.problem)
            else:
                problems += self._decode_manifest(pool, found, parts)
        return problems

    def _decode_manifest(
        self, pool: ThreadPoolExecutor, manifest: Manifest, parts: Iterable[ChunkRows]
    ) -> Problems:
        folder, read = self.assets.layout.chunks, self.assets.read_chunk
        for node_id, stretches in groupby(parts, lambda each: each.node_id):
            first, *others = stretches
            array, table = first.array, manifest.table(node_id, len(first.array.num_chunks))
            rows = native_rows(table, array.num_chunks)
            check = partial(check_row, array, table, folder, read)
            for part in (first, *others):
                found = pool.map(check, rows[part.start : part.stop])
                yield from (problem for problem in found if problem is not None)
