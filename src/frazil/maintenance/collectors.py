"""Who does the work of a collection: a process by itself, unless somebody has more hands."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from frazil.assets import Assets
from frazil.format.ids import SnapshotId
from frazil.maintenance.deleting import Deleted, count_objects, delete_objects
from frazil.maintenance.id_columns import IdSet
from frazil.maintenance.limits import SweepLimits, WalkLimits
from frazil.maintenance.listing import chunk_folder, find_id_size, list_garbage
from frazil.maintenance.marking import Marks, mark_more
from frazil.maintenance.walking import uncached
from frazil.storage.interface import ObjectInfo


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """What is too old to stay without a reason, and how to go about it."""

    cutoff: datetime
    walk: WalkLimits
    sweep: SweepLimits
    is_dry_run: bool = False


class Collector(Protocol):
    """Remembers what stays, and deletes the rest; a dry run only counts it."""

    @property
    def manifests(self) -> IdSet:
        """Those that are marked."""

    def mark(self, snapshots: Iterable[SnapshotId]) -> None:
        """Let stay what these refer to; raises where one of their files can't be read."""

    def delete(self, kind: str, garbage: Iterable[ObjectInfo]) -> Deleted:
        """Delete these."""

    def delete_chunks(self) -> Deleted:
        """Delete the native chunks that are not marked."""


HireCollector = Callable[[Assets, CollectionOptions], Collector]


class LocalCollector:
    """Works in this process and in its memory."""

    def __init__(self, assets: Assets, options: CollectionOptions) -> None:
        self._assets = assets
        self._options = options
        self._marks = Marks(IdSet(), IdSet())

    @property
    def manifests(self) -> IdSet:
        """Those that are marked."""
        return self._marks.manifests

    def mark(self, snapshots: Iterable[SnapshotId]) -> None:
        """Let stay what these refer to; manifests that are marked already are not read again."""
        assets = self._assets
        walk, id_size = self._options.walk, find_id_size(assets)
        mark_more(self._marks, uncached(assets), snapshots, walk, id_size)

    def delete(self, kind: str, garbage: Iterable[ObjectInfo]) -> Deleted:
        """Delete these."""
        if self._options.is_dry_run:
            return count_objects(garbage)
        return delete_objects(self._assets.storage, garbage, self._options.sweep, kind)

    def delete_chunks(self) -> Deleted:
        """Delete the native chunks that are not marked."""
        storage, cutoff = self._assets.storage, self._options.cutoff
        folder = chunk_folder(self._assets)
        return self.delete("chunks", list_garbage(storage, folder, self._marks.chunks, cutoff))
