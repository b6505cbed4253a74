"""The chunk references of an old snapshot's arrays, as the old library read them."""

from collections.abc import Iterator

from frazil.assets import Assets
from frazil.engine.lookup import manifests_of
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.dialect import Decoded, Dialect
from frazil.format.ids import ManifestId
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ArrayData, Node, Snapshot


class TableReader:
    """Reads references, with one manifest in memory at a time."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets
        self._held: tuple[ManifestId, Manifest] | None = None

    def read(self, node: Node, array: ArrayData, dialect: Dialect) -> ChunkTable:
        """The references of an array that have a place in it.

        Left out are those of other arrays that the first alphas copied into its entries, as far as
        their number of axes tells them apart. Raises ObjectNotFoundError for a lost manifest.
        """
        axes = len(array.shape)
        refs = manifests_of(array, dialect)
        tables = [self._manifest(ref.id).table(node.id, axes) for ref in refs]
        filled = [table for table in tables if len(table)]
        if not filled:
            return ChunkTable.empty(axes)
        return concatenate(filled).select(grid_of(array)).compact()

    def _manifest(self, id: ManifestId) -> Manifest:
        if self._held is None or self._held[0] != id:
            self._held = None
            self._held = (id, self._assets.read_manifest(id))
        return self._held[1]


def grid_of(array: ArrayData) -> tuple[tuple[int, int], ...]:
    """The box of all chunks of an array."""
    return tuple((0, each.num_chunks) for each in array.shape)


def arrays_of(snapshot: Snapshot) -> list[tuple[Node, ArrayData]]:
    """The arrays of a snapshot, those that share a manifest one after the other."""
    arrays = [(node, node.array) for node in snapshot.nodes.values() if node.array is not None]
    return sorted(arrays, key=lambda each: [ref.id for ref in each[1].manifests])


def read_all(reader: TableReader, file: Decoded[Snapshot]) -> Iterator[ChunkTable]:
    """The references of all arrays of a snapshot."""
    for node, array in arrays_of(file.value):
        yield reader.read(node, array, file.dialect)
