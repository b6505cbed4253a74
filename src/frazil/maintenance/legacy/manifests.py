"""Manifests of V2 for old references: one for each array, equal ones once.

The generations up to 0.1.0a12 repeat the references of all arrays in the one manifest of each commit.
Here an array that a commit did not touch keeps the manifest that it had.
"""

from collections.abc import Callable

from frazil.assets import Assets
from frazil.format.chunks import ChunkTable
from frazil.format.dialect import Dialect
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ArrayData, ManifestFileInfo, ManifestRef, Node
from frazil.maintenance.legacy.names import name_manifest
from frazil.maintenance.legacy.tables import TableReader, grid_of


class ManifestWriter:
    """Writes the manifests of one repository."""

    def __init__(
        self, reader: TableReader, assets: Assets, adopt: Callable[[ChunkTable], ChunkTable]
    ) -> None:
        self._reader = reader
        self._assets = assets
        self._adopt = adopt
        self._known: dict[object, tuple[ManifestRef, ...]] = {}
        """By what tells references before they are read: manifests, node and grid."""
        self.files: dict[ManifestId, ManifestFileInfo] = {}
        """All that were written."""

    def write(
        self, node: Node, array: ArrayData, dialect: Dialect, node_id: NodeId
    ) -> tuple[ManifestRef, ...]:
        """The manifest of an array, which is `node_id` in V2; none if it has no chunks."""
        key = (array.manifests, node_id, grid_of(array))
        if key not in self._known:
            table = self._reader.read(node, array, dialect)
            self._known[key] = self._write(node_id, self._adopt(table)) if len(table) else ()
        return self._known[key]

    def _write(self, node_id: NodeId, table: ChunkTable) -> tuple[ManifestRef, ...]:
        id = name_manifest(node_id, table)
        if id not in self.files:
            self.files[id] = self._assets.write_manifest(Manifest(id, {node_id: table}), id)
        return (ManifestRef(id, table.extents()),)
