"""What tasks of a collection do: find manifests, mark their chunks, delete a share of the rest."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from frazil.assets import Assets
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.deleting import Deleted, delete_objects
from frazil.maintenance.id_columns import IdSet, column_of, distinct, unite_columns
from frazil.maintenance.limits import SweepLimits, WalkLimits
from frazil.maintenance.listing import chunk_folder, find_id_size, list_garbage
from frazil.maintenance.marking import CHUNK_IDS
from frazil.maintenance.shares import Share
from frazil.maintenance.walking import find_manifests, map_manifests, uncached
from frazil.spark.garbage.mark_table import Part, Place, read_share, write_part
from frazil.spark.garbage.reviewing import Found, read_review, review, summarize
from frazil.storage.interface import ObjectInfo

_UNKNOWN_REFS = 10_000
"""What a manifest counts as that nothing is told of."""


@dataclass(frozen=True, slots=True)
class FindManifests:
    """The manifests of some snapshots."""

    assets: Assets
    limits: WalkLimits

    def __call__(self, snapshots: Sequence[SnapshotId]) -> list[ManifestFileInfo]:
        """Each once, in the order of the snapshots."""
        return list(find_manifests(uncached(self.assets), snapshots, self.limits).values())


@dataclass(frozen=True, slots=True)
class MarkManifests:
    """Writes a part of the mark table."""

    assets: Assets
    place: Place
    limits: WalkLimits

    def __call__(self, manifests: Sequence[ManifestFileInfo]) -> Part:
        """The part of these; raises where one can't be read."""
        assets, size = uncached(self.assets), find_id_size(self.assets)
        read = map_manifests(assets, manifests, CHUNK_IDS, self.limits)
        ids = np.concatenate([np.empty(0, f"S{size}"), *unite_columns(read)])
        named = column_of((info.id for info in manifests), size)
        return write_part(self.place, distinct(ids), named)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a task found, and what became of it."""

    found: Found
    deleted: Deleted


@dataclass(frozen=True, slots=True)
class Sweep:
    """Deletes the chunks of a share that are not marked, or only lists them."""

    assets: Assets
    cutoff: datetime
    marks: Place
    parts: tuple[Part, ...]
    reviews: Place
    why: str
    limits: SweepLimits | None
    """None for a dry run."""

    def __call__(self, share: Share) -> Swept:
        """List, compare, write the list, delete."""
        name = f"chunks-{share.number:02}-of-{share.count:02}.parquet"
        data = review(self.reviews, name, "chunks", self._list(share), self.why)
        return sweep_reviewed(self.assets, data, self.limits, "chunks")

    def _list(self, share: Share) -> Iterator[ObjectInfo]:
        kept = IdSet()
        for part in self.parts:
            kept.add(read_share(self.marks, part, share))
        folder = chunk_folder(self.assets)
        yield from list_garbage(self.assets.storage, folder, kept, self.cutoff, share)


def sweep_reviewed(assets: Assets, data: bytes, limits: SweepLimits | None, kind: str) -> Swept:
    """Delete what is on a list; without limits nothing is."""
    found = summarize(data)
    if limits is None:
        return Swept(found, Deleted(found.count, found.size_bytes))
    return Swept(found, delete_objects(assets.storage, read_review(data), limits, kind))


def group_manifests(
    manifests: Iterable[ManifestFileInfo], most_refs: int, most_files: int
) -> list[list[ManifestFileInfo]]:
    """Neighbours together, with no more references or files than that, as far as is known."""
    groups: list[list[ManifestFileInfo]] = []
    refs = 0
    for info in manifests:
        more = count_refs(info)
        if not groups or refs + more > most_refs or len(groups[-1]) == most_files:
            groups.append([])
            refs = 0
        groups[-1].append(info)
        refs += more
    return groups


def count_refs(info: ManifestFileInfo) -> int:
    """How many references a manifest has, or may have."""
    return _UNKNOWN_REFS if info.num_chunk_refs is None else info.num_chunk_refs
