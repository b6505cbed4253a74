"""Stretches of arrays, whose small chunks are packed together.

They are cut by the shape of the chunk grid alone, so that a second run finds the same ones, whatever
manifests or tasks there are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.config import ManifestSplitCondition
from frazil.engine.manifests import manifests_by_cell
from frazil.engine.splitting import plan_split
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Extents
from frazil.format.dialect import Dialect
from frazil.format.ids import NodeId
from frazil.format.references import ChunkKind
from frazil.format.snapshot import ManifestRef, Node
from frazil.spark.arrays.splitting import MOST_REFERENCES, plan_sizes


@dataclass(frozen=True, slots=True)
class Stretch:
    """A box of the chunks of an array, and the manifests that may have them."""

    path: str
    node_id: NodeId
    box: Extents
    manifests: tuple[ManifestRef, ...]


def plan_stretches(
    nodes: Iterable[Node], dialect: Dialect, most: int = MOST_REFERENCES
) -> list[Stretch]:
    """The stretches of arrays, each of so many chunks at most, in the order of the grid."""
    return [stretch for node in nodes for stretch in _plan_array(node, dialect, most)]


def _plan_array(node: Node, dialect: Dialect, most: int) -> Iterator[Stretch]:
    assert node.array is not None
    counts = [each.num_chunks for each in node.array.shape]
    rule = (ManifestSplitCondition.AnyArray(), plan_sizes(counts, None, most))
    grid = plan_split(node.path, node.array, [rule])
    cells = manifests_by_cell(node.array, grid, dialect)
    for cell in sorted(cells):
        yield Stretch(node.path, node.id, grid.extents(cell), tuple(cells[cell]))


def read_natives(assets: Assets, stretch: Stretch) -> ChunkTable:
    """The native references of a stretch, but for those to no bytes."""
    axes = len(stretch.box)
    tables = [
        assets.read_manifest(ref.id).table(stretch.node_id, axes).select(stretch.box)
        for ref in stretch.manifests
    ]
    table = concatenate(tables)
    return table.take((table.kind == ChunkKind.NATIVE) & (table.length > 0))
