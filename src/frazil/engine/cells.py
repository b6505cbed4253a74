"""Manifests that workers have written before the commit that they are for.

A worker that has the references of a cell of an array's chunk grid writes the cell's manifest itself:
what the base has there, with its own references laid over it. The session gets to know which file that
is and which chunks changed, and the commit points to it. Where the session has come to stand on another
base meanwhile, the changed references are taken out of the file and go the way of all edits.

A worker that has only some of the references of a cell, or of several, writes a part: a manifest of
what it has set, which is laid over the base by somebody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from frazil.assets import Assets, new_manifest_id
from frazil.engine.keys import Coordinate
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Coordinates, Extents
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import Manifest
from frazil.format.references import ChunkKind
from frazil.format.snapshot import ManifestFileInfo, ManifestRef


@dataclass(frozen=True, slots=True, eq=False)
class WrittenCell:
    """A manifest of one array, written and not yet committed."""

    file: ManifestFileInfo
    extents: Extents
    """The smallest box that holds its references."""
    box: Extents
    """The cell that it is for."""
    base: tuple[ManifestId, ...] | None
    """The manifests of the base that it was laid over; None if it can't stand for the cell any more."""
    changed: Coordinates | None
    """The chunks that its writer set; None for every place of `extents`."""
    deleted: Coordinates
    """The chunks that its writer deleted, none of which it set."""
    bytes: int
    """What the chunks that its writer set have in the repository's own storage."""

    @property
    def count(self) -> int:
        """How many chunks its writer set."""
        return coords_.count_places(self.extents) if self.changed is None else len(self.changed)

    @property
    def ref(self) -> ManifestRef:
        """What a node has of it."""
        return ManifestRef(self.file.id, self.extents)

    @property
    def reach(self) -> Extents:
        """A box that holds all chunks that its writer set or deleted."""
        if not len(self.deleted):
            return self.extents
        return coords_.bounding_box(np.concatenate([self.deleted, *_corners(self.extents)]))

    def written(self) -> Coordinates:
        """The chunks that its writer set."""
        return coords_.grid_of(self.extents) if self.changed is None else self.changed

    def coordinates(self) -> Coordinates:
        """The chunks that its writer set or deleted, sorted."""
        return coords_.unite([self.written(), self.deleted])

    def has_changed(self, coordinate: Coordinate) -> bool:
        """Whether its writer set or deleted a chunk."""
        if coords_.find_row(self.deleted, coordinate) is not None:
            return True
        if not coords_.contains(self.extents, coordinate):
            return False
        return self.changed is None or coords_.find_row(self.changed, coordinate) is not None

    def read_changes(self, assets: Assets, node_id: NodeId) -> ChunkTable:
        """The references that its writer set."""
        table = assets.read_manifest(self.file.id).table(node_id, len(self.box))
        if self.changed is None:
            return table
        rows = table.locate(self.changed)
        return table.take(rows[rows >= 0])

    def without(self, unwanted: Coordinates) -> Self:
        """The same less some chunks, which are no longer its writer's."""
        kept, gone = (coords_.without(e, unwanted) for e in (self.written(), self.deleted))
        if len(kept) == self.count and len(gone) == len(self.deleted):
            return self
        return replace(self, base=None, changed=kept, deleted=gone)


def write_cell(
    assets: Assets,
    node_id: NodeId,
    box: Extents,
    base: Sequence[ManifestRef],
    table: ChunkTable,
    deleted: Coordinates | None = None,
) -> WrittenCell:
    """Write the manifest of a cell: these references over those that its manifests have so far.

    There must be one, and none of them at a place that is deleted.
    """
    gone = np.empty((0, len(box)), np.uint32) if deleted is None else deleted
    parts = [assets.read_manifest(ref.id).table(node_id, len(box)).select(box) for ref in base]
    merged = concatenate(parts).remove(gone).merge(table) if parts else table
    id = new_manifest_id(assets.dialect)
    file = assets.write_manifest(Manifest(id, {node_id: merged.compact()}), id)
    extents = merged.extents()
    is_all = len(merged) == len(table) == coords_.count_places(extents)
    changed = None if is_all else table.coordinates
    own = int(table.length[table.kind != ChunkKind.VIRTUAL].sum())
    return WrittenCell(file, extents, box, tuple(ref.id for ref in base), changed, gone, own)


def write_part(
    assets: Assets, node_id: NodeId, table: ChunkTable, deleted: Coordinates
) -> WrittenCell:
    """Write a manifest of references, of which there must be one, wherever they are in an array."""
    return replace(write_cell(assets, node_id, table.extents(), (), table, deleted), base=None)


def _corners(box: Extents) -> list[Coordinates]:
    first, last = [start for start, _ in box], [stop - 1 for _, stop in box]
    return [np.array([first, last], np.uint32).reshape(2, len(box))]
