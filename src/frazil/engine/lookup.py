"""Finding one chunk's reference in the manifests of an array.

The first look-ups search the manifest's encoded bytes. A manifest that is asked often is worth
decoding: from then on a look-up is a search in a column of numbers.
"""

from collections import Counter
from collections.abc import Sequence

from frazil.assets import Assets
from frazil.assets.cache import WeightedCache
from frazil.engine.keys import Coordinate
from frazil.format import coordinates as coords_
from frazil.format.chunk_index import ChunkIndex
from frazil.format.dialect import Dialect
from frazil.format.ids import ManifestId, NodeId
from frazil.format.references import ChunkRef
from frazil.format.snapshot import ArrayData, ManifestRef, Node

_WORTH = 256
"""Decoding a reference with all others takes so much less time than searching for it."""


def manifests_of(array: ArrayData, dialect: Dialect) -> Sequence[ManifestRef]:
    """The manifests that can hold chunks of an array.

    The official library keeps those of an array whose number of axes was changed; none of their
    chunks has a place any more. Before V1 boxes were not recorded.
    """
    if dialect not in (Dialect.V1, Dialect.V2):
        return array.manifests
    axes = len(array.shape)
    return [ref for ref in array.manifests if len(ref.extents) == axes]


class ManifestLookup:
    """Looks references up for one session."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets
        self._asked: Counter[tuple[ManifestId, NodeId]] = Counter()
        self._indexes: WeightedCache[tuple[ManifestId, NodeId], ChunkIndex] = WeightedCache(
            assets.options.num_chunk_refs, len
        )

    def find(self, node: Node, coordinate: Coordinate) -> ChunkRef | None:
        """The reference of a chunk in the base snapshot."""
        ref = self._find_manifest(node, coordinate)
        if ref is None:
            return None
        key = (ref.id, node.id)
        index = self._indexes.find(key)
        if index is not None:
            return index.find(coordinate)
        refs = self._assets.read_manifest(ref.id).arrays.get(node.id)
        if refs is None:
            return None
        self._asked[key] += 1
        if self._asked[key] * _WORTH < len(refs):
            return refs.find(coordinate)
        table = refs.with_axes(len(coordinate))
        if ChunkIndex.can_hold(table):
            self._indexes.put(key, ChunkIndex(table))
        return table.find(coordinate)

    def is_cached(self, node: Node, coordinate: Coordinate) -> bool:
        """Whether `find` needs no request."""
        ref = self._find_manifest(node, coordinate)
        return ref is None or self._assets.find_cached_manifest(ref.id) is not None

    def _find_manifest(self, node: Node, coordinate: Sequence[int]) -> ManifestRef | None:
        assert node.array is not None
        for ref in manifests_of(node.array, self._assets.dialect):
            if coords_.contains(ref.extents, coordinate):
                return ref
        return None
