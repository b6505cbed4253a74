"""The bytes of chunks, measured in tasks: manifests are read anywhere, chunks counted by share."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.id_columns import Ids
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.shares import CELLS, cells_of
from frazil.maintenance.statistics import PLACE_SIZE, SIZES, Sizes, Tally
from frazil.maintenance.walking import find_manifests, map_manifests
from frazil.spark.health.exchange import Columns

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose products have random first bits."""
_CELL_BITS = np.uint64(64 - CELLS.bit_length() + 1)


@dataclass(frozen=True, slots=True)
class FindManifests:
    """The manifests of some snapshots."""

    assets: Assets
    limits: WalkLimits

    def __call__(self, snapshots: Sequence[SnapshotId]) -> list[ManifestFileInfo]:
        """Each once; raises where a snapshot is lost."""
        return list(find_manifests(self.assets, snapshots, self.limits).values())


@dataclass(frozen=True, slots=True)
class MeasureManifests:
    """Finds the sizes of the chunks that manifests refer to."""

    assets: Assets
    limits: WalkLimits
    num_shares: int

    def __call__(self, manifests: Sequence[ManifestFileInfo]) -> tuple[int, Columns]:
        """The bytes of inline chunks, and all others by share, each once."""
        natives, virtuals, inlined_bytes = list[Sizes](), list[Sizes](), 0
        for arrays in map_manifests(self.assets, manifests, SIZES, self.limits):
            for sizes in arrays:
                natives.append(sizes.native)
                virtuals.append(sizes.virtual)
                inlined_bytes += sizes.inlined_bytes
        columns = [*self._cut(Sizes.unite(natives)), *self._cut(Sizes.unite(virtuals))]
        return inlined_bytes, columns

    def _cut(self, sizes: Sizes) -> Columns:
        if not len(sizes.ids):
            return []
        shares = spread(sizes.ids) // (CELLS // self.num_shares)
        order = np.argsort(shares, kind="stable")
        ids, lengths = sizes.ids[order], sizes.lengths[order]
        edges = np.searchsorted(shares[order], np.arange(self.num_shares + 1)).tolist()
        return [
            (share, pack(Sizes(ids[begin:end], lengths[begin:end])))
            for share, (begin, end) in enumerate(pairwise(edges))
            if end > begin
        ]


def spread(ids: Ids) -> NDArray[np.uint8]:
    """A cell for each chunk, about as many in each of them.

    Native ones are random already. Of virtual ones there may be many in one file, whose places begin
    alike.
    """
    if ids.dtype.itemsize != PLACE_SIZE:
        return cells_of(ids)
    words = np.ascontiguousarray(ids).view("<u8").reshape(len(ids), -1)
    cells: NDArray[np.uint8] = ((words[:, 0] + words[:, 2] * _MIX) >> _CELL_BITS).astype(np.uint8)
    return cells


def pack(sizes: Sizes) -> bytes:
    """Sizes as bytes, of which the first says how wide the ids are."""
    width = sizes.ids.dtype.itemsize
    return bytes([width]) + sizes.lengths.astype("<u8").tobytes() + sizes.ids.tobytes()


def unpack(data: bytes) -> Sizes:
    """What was packed."""
    width, count = data[0], (len(data) - 1) // (8 + data[0])
    lengths = np.frombuffer(data, "<u8", count, 1)
    return Sizes(np.frombuffer(data, f"S{width}", count, 1 + 8 * count), lengths)


@dataclass(frozen=True, slots=True)
class SumShare:
    """Adds up the bytes of a share's chunks, each counted once."""

    def __call__(self, _: int, columns: Columns) -> tuple[int, int]:
        """Of native ones, and of virtual ones."""
        natives, virtuals = Tally(), Tally()
        for _group, data in columns:
            sizes = unpack(data)
            (virtuals if sizes.ids.dtype.itemsize == PLACE_SIZE else natives).add(sizes)
        return natives.total_bytes(), virtuals.total_bytes()
