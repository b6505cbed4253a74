"""Manifests that workers have written before the commit that they are for.

A worker that has the references of a cell of an array's chunk grid writes the cell's manifest itself:
what the base has there, with its own references laid over it. The session gets to know which file that
is and which chunks changed, and the commit points to it. Where the session has come to stand on another
base meanwhile, the changed references are taken out of the file and go the way of all edits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from frazil.assets import Assets, new_manifest_id
from frazil.engine.keys import Coordinate
from frazil.format import coordinates as coords_
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Coordinates, Extents
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import Manifest
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

    @property
    def ref(self) -> ManifestRef:
        """What a node has of it."""
        return ManifestRef(self.file.id, self.extents)

    def coordinates(self) -> Coordinates:
        """The chunks that its writer set."""
        return coords_.grid_of(self.extents) if self.changed is None else self.changed

    def has_changed(self, coordinate: Coordinate) -> bool:
        """Whether its writer set a chunk."""
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
        kept = coords_.without(self.coordinates(), unwanted)
        if len(kept) == len(self.coordinates()):
            return self
        return replace(self, base=None, changed=kept)


def write_cell(
    assets: Assets,
    node_id: NodeId,
    box: Extents,
    base: Sequence[ManifestRef],
    table: ChunkTable,
) -> WrittenCell:
    """Write the manifest of a cell: these references over those that its manifests have so far."""
    parts = [assets.read_manifest(ref.id).table(node_id, len(box)).select(box) for ref in base]
    merged = concatenate(parts).merge(table) if parts else table
    id = new_manifest_id(assets.dialect)
    file = assets.write_manifest(Manifest(id, {node_id: merged.compact()}), id)
    extents = merged.extents()
    is_all = len(merged) == len(table) == coords_.count_places(extents)
    changed = None if is_all else table.coordinates
    return WrittenCell(file, extents, box, tuple(ref.id for ref in base), changed)
