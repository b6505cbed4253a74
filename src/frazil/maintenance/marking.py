"""Marking what stays: the manifests and native chunks of some snapshots, as sorted columns of ids."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from frazil.assets import Assets
from frazil.format.ids import SnapshotId
from frazil.format.manifest import Manifest
from frazil.maintenance.id_columns import Ids, IdSet, column_of, ids_of, unite_columns
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.walking import find_manifests, map_manifests


@dataclass(frozen=True, slots=True)
class Marks:
    """What must not be deleted."""

    manifests: IdSet
    chunks: IdSet


def mark(
    assets: Assets, snapshots: Iterable[SnapshotId], limits: WalkLimits, id_size: int
) -> Marks:
    """All that these snapshots refer to; raises where one of their files can't be read."""
    found = find_manifests(assets, snapshots, limits)
    chunks = IdSet()
    for ids in unite_columns(map_manifests(assets, found.values(), chunk_ids, limits)):
        chunks.add(ids)
    return Marks(IdSet(column_of(found, id_size)), chunks)


def distinct_chunk_ids(manifest: Manifest) -> Ids:
    """The native chunks of a manifest, each once, sorted."""
    return np.unique(chunk_ids(manifest))


def chunk_ids(manifest: Manifest) -> Ids:
    """The native chunks of a manifest, in any order."""
    columns = [ids_of(refs.natives().ids) for refs in manifest.arrays.values()]
    filled = [column for column in columns if len(column)]
    return np.concatenate(filled) if filled else np.empty(0, "S12")
