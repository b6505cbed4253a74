"""Finding one chunk's reference in the manifests of an array.

The first look-ups search the manifest's encoded bytes; a manifest that is asked often is worth
decoding, because then a look-up is a search in an array of numbers.
"""

from collections.abc import Sequence

from frazil.assets import Assets
from frazil.engine.keys import Coordinate
from frazil.format import coordinates as coords_
from frazil.format.ids import ManifestId, NodeId
from frazil.format.references import ChunkRef
from frazil.format.snapshot import ManifestRef, Node


class ManifestLookup:
    """Looks references up for one session."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets

    def find(self, node: Node, coordinate: Coordinate) -> ChunkRef | None:
        """The reference of a chunk in the base snapshot."""
        ref = self._find_manifest(node, coordinate)
        if ref is None:
            return None
        return self._find_in(ref.id, node.id, coordinate)

    def is_cached(self, node: Node, coordinate: Coordinate) -> bool:
        """Whether `find` needs no request."""
        ref = self._find_manifest(node, coordinate)
        return ref is None or self._assets.find_cached_manifest(ref.id) is not None

    def _find_in(self, id: ManifestId, node_id: NodeId, coordinate: Coordinate) -> ChunkRef | None:
        return self._assets.read_manifest(id).find(node_id, coordinate)

    def _find_manifest(self, node: Node, coordinate: Sequence[int]) -> ManifestRef | None:
        assert node.array is not None
        for ref in node.array.manifests:
            if coords_.contains(ref.extents, coordinate):
                return ref
        return None
