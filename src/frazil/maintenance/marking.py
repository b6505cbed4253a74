"""Marking what stays: the manifests and native chunks of some snapshots, as sorted columns of ids."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress

import numpy as np

from frazil.assets import Assets
from frazil.format.ids import SnapshotId
from frazil.format.manifest import Manifest
from frazil.maintenance.id_columns import Ids, IdSet, column_of, distinct, ids_of, unite_columns
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.walking import Reduction, find_manifests, map_manifests


@dataclass(frozen=True, slots=True)
class Marks:
    """What must not be deleted."""

    manifests: IdSet
    chunks: IdSet


def mark(
    assets: Assets, snapshots: Iterable[SnapshotId], limits: WalkLimits, id_size: int
) -> Marks:
    """All that these snapshots refer to; raises where one of their files can't be read."""
    marks = Marks(IdSet(), IdSet())
    mark_more(marks, assets, snapshots, limits, id_size)
    return marks


def mark_more(
    marks: Marks,
    assets: Assets,
    snapshots: Iterable[SnapshotId],
    limits: WalkLimits,
    id_size: int,
) -> None:
    """Mark what further snapshots refer to; manifests that are marked already are not read again."""
    found = find_manifests(assets, snapshots, limits)
    is_new = marks.manifests.add(column_of(found, id_size))
    new = [found[id] for id in compress(sorted(found), is_new)]
    for ids in unite_columns(map_manifests(assets, new, CHUNK_IDS, limits)):
        marks.chunks.add(ids)


def distinct_chunk_ids(manifest: Manifest) -> Ids:
    """The native chunks of a manifest, each once, sorted."""
    return distinct(chunk_ids(manifest))


def chunk_ids(manifest: Manifest) -> Ids:
    """The native chunks of a manifest, in any order."""
    columns = [ids_of(refs.natives().ids) for refs in manifest.arrays.values()]
    filled = [column for column in columns if len(column)]
    return np.concatenate(filled) if filled else np.empty(0, "S12")


CHUNK_IDS: Reduction[Ids] = Reduction(lambda natives: ids_of(natives.ids), chunk_ids)
"""Of manifests, in any order."""
