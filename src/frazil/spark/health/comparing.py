"""Chunks that manifests refer to, held against the chunk files that there are, a share at a time.

Tasks that read manifests give the ids of chunks and how many bytes of each are needed, by share. Tasks
of a share list the files of it. Where some are gone or too short, the manifests that refer to them are
read again, which then tell where.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from frazil.assets import Assets
from frazil.maintenance.checking.chunks import NeededFiles
from frazil.maintenance.checking.inventory import WrongFiles, list_chunks
from frazil.maintenance.checking.manifest_walking import (
    CheckManifests,
    ManifestTotals,
    WantedManifest,
)
from frazil.maintenance.checking.manifests import ManifestFindings
from frazil.maintenance.checking.orphans import ChunkTotals
from frazil.maintenance.id_columns import IdSet
from frazil.maintenance.shares import CELLS, Share, cells_of
from frazil.spark.health.exchange import Columns

_UNITED_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class ReadManifests:
    """Checks manifests but for their chunk files, and says which they need."""

    stage: CheckManifests
    num_shares: int

    def __call__(self, group: Sequence[WantedManifest]) -> tuple[ManifestTotals, Columns]:
        """What was found, and the needed files by share."""
        needed = _Needed()
        with ThreadPoolExecutor(self.stage.assets.storage.concurrency) as pool:
            totals = self.stage.check(pool, group, needed.take)
        return totals, pack_shares(needed.unite(), self.num_shares)


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Checks manifests, knowing which chunk files are wrong."""

    stage: CheckManifests

    def __call__(self, group: Sequence[WantedManifest]) -> ManifestTotals:
        """What was found."""
        with ThreadPoolExecutor(self.stage.assets.storage.concurrency) as pool:
            return self.stage.check(pool, group, lambda _: None)

    @classmethod
    def of(cls, stage: CheckManifests, wrong: WrongFiles) -> "ReadAgain":
        """With these files being wrong, and all others right."""
        return cls(replace(stage, around=replace(stage.around, chunks=wrong)))


class _Needed:
    """The files that manifests need, of which no more are in memory than there are distinct ones."""

    def __init__(self) -> None:
        self._parts: list[NeededFiles] = []
        self._count = 0

    def take(self, findings: ManifestFindings) -> None:
        """Remember what a manifest needs."""
        assert findings.chunk_ends is not None
        self._parts.append(NeededFiles(findings.chunk_ids, findings.chunk_ends))
        self._count += len(findings.chunk_ids)
        if self._count > _UNITED_AT_ONCE:
            self._parts = [self.unite()]
            self._count = 0

    def unite(self) -> NeededFiles:
        """All, each once."""
        return NeededFiles.unite(self._parts)


def pack_shares(needed: NeededFiles, num_shares: int) -> Columns:
    """The needed files of each share that has any, as bytes."""
    if not len(needed.ids):
        return []
    cells = np.arange(num_shares + 1) * (CELLS // num_shares)
    edges = np.searchsorted(cells_of(needed.ids), cells).tolist()
    return [
        (share, _pack(NeededFiles(needed.ids[begin:end], needed.ends[begin:end])))
        for share, (begin, end) in enumerate(pairwise(edges))
        if end > begin
    ]


def _pack(needed: NeededFiles) -> bytes:
    return needed.ends.astype("<u8").tobytes() + needed.ids.tobytes()


def _unpack(data: bytes, id_size: int) -> NeededFiles:
    count = len(data) // (8 + id_size)
    ends = np.frombuffer(data, "<u8", count)
    return NeededFiles(np.frombuffer(data, f"S{id_size}", count, 8 * count), ends)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedShare:
    """What came of a share."""

    totals: ChunkTotals
    wrong: WrongFiles
    groups: frozenset[int]
    """Of manifests that refer to wrong files."""


@dataclass(frozen=True, slots=True)
class CompareShare:
    """Lists the chunk files of a share, and holds those that are needed against them."""

    assets: Assets
    num_shares: int
    id_size: int

    def __call__(self, number: int, columns: Columns) -> ComparedShare:
        """How many files are used and unused, and which are wrong."""
        listed = list_chunks(self.assets, Share(number, self.num_shares))
        used, groups, wrong = IdSet(), set[int](), list[NeededFiles]()
        for group, data in columns:
            needed = _unpack(data, self.id_size)
            used.add(needed.ids)
            found = needed.find_wrong(listed)
            if len(found.ids):
                groups.add(group)
                wrong.append(NeededFiles(found.ids, np.full(len(found.ids), _ANY, np.uint64)))
        distinct = NeededFiles.unite(wrong).find_wrong(listed)
        return ComparedShare(ChunkTotals.of(listed, used), distinct, frozenset(groups))


_ANY = np.iinfo(np.uint64).max
"""More than any file has."""


def sum_up(shares: Iterable[ComparedShare]) -> ComparedShare:
    """What came of all shares."""
    known = list(shares)
    return ComparedShare(
        sum((each.totals for each in known), ChunkTotals()),
        WrongFiles.unite([each.wrong for each in known]),
        frozenset().union(*(each.groups for each in known)),
    )
