"""Writing the manifests of a commit: one a cell of each changed array, unchanged ones kept.

The generations up to 0.1.0a12 and the draft have one manifest a commit that repeats the references of
all arrays; `write_shared_manifest` is for them.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from frazil.assets import Assets, new_manifest_id
from frazil.engine.cells import WrittenCell
from frazil.engine.edits import ChunkEdits
from frazil.engine.lookup import manifests_of
from frazil.engine.splitting import Cell, SplitGrid, SplitRule, plan_split
from frazil.engine.view import View
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.coordinates import Coordinates, Extents, is_inside, unite
from frazil.format.dialect import Dialect
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ArrayData, ManifestFileInfo, ManifestRef, Node

SHARED_MANIFEST_DIALECTS = frozenset(
    {
        Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B, Dialect.ALPHA_C, Dialect.ALPHA_D,
        Dialect.ALPHA_E, Dialect.ALPHA_F,
    }
)  # fmt: skip


@dataclass(slots=True)
class WrittenManifests:
    """What became of the arrays of a commit."""

    refs: dict[NodeId, tuple[ManifestRef, ...]] = field(default_factory=dict)
    """Of the arrays whose references changed."""
    files: dict[ManifestId, ManifestFileInfo] = field(default_factory=dict)
    """Those that were written."""


ManifestWriter = Callable[[View, Sequence[SplitRule]], WrittenManifests]
"""Which manifests a commit writes: those of changed arrays, or all."""


def write_manifests(view: View, rules: Sequence[SplitRule]) -> WrittenManifests:
    """Write the manifests of all arrays that the session changed."""
    if view.assets.dialect in SHARED_MANIFEST_DIALECTS:
        return write_shared_manifest(view)
    written = WrittenManifests()
    current = {node.id: node for node in view.changes.nodes.values() if node is not None}
    by_id = current if view.changes.chunks.keys() <= current.keys() else _nodes_by_id(view)
    for id in view.changes.changed_arrays():
        node = by_id[id]
        written.refs[id] = _write_array(view, node, rules, written.files)
    return written


def write_all_manifests(view: View, rules: Sequence[SplitRule]) -> WrittenManifests:
    """Write the manifests of all arrays anew, one for each cell of today's rules that has chunks."""
    if view.assets.dialect in SHARED_MANIFEST_DIALECTS:
        return write_shared_manifest(view)
    written = WrittenManifests()
    for node in view.nodes():
        if node.array is not None:
            edges = plan_split(node.path, node.array, rules).edges
            cells = sorted(view.table(node).split(edges).items())
            written.refs[node.id] = tuple(
                _write(view.assets, node.id, table, written.files) for _, table in cells
            )
    return written


def _nodes_by_id(view: View) -> dict[NodeId, Node]:
    return {node.id: node for node in view.nodes()}


def _write_array(
    view: View, node: Node, rules: Sequence[SplitRule], files: dict[ManifestId, ManifestFileInfo]
) -> tuple[ManifestRef, ...]:
    assert node.array is not None
    grid = plan_split(node.path, node.array, rules)
    if 0 in grid.shape:
        return ()
    refs = []
    for part in _plan_parts(view, node, grid):
        match part:
            case ManifestRef():
                refs.append(part)
            case WrittenCell():
                files[part.file.id] = part.file
                refs.append(part.ref)
            case ChunkTable() if len(part):
                refs.append(_write(view.assets, node.id, part, files))
    return tuple(refs)


def _write(
    assets: Assets, node_id: NodeId, table: ChunkTable, files: dict[ManifestId, ManifestFileInfo]
) -> ManifestRef:
    id = new_manifest_id(assets.dialect)
    files[id] = assets.write_manifest(Manifest(id, {node_id: table.compact()}), id)
    return ManifestRef(id, table.extents())


def _plan_parts(
    view: View, node: Node, grid: SplitGrid
) -> Iterator[ManifestRef | WrittenCell | ChunkTable]:
    """Manifests to keep, cells that are written, and tables to write, in the order of the cells.

    Parts of several manifests in an unchanged cell stay apart: their boxes do not touch, which a
    reader relies on when it takes the first box that holds a chunk.
    """
    assert node.array is not None
    axes = len(grid.shape)
    edits = view.changes.chunks.get(node.id) or ChunkEdits(axes, view.changes.id_size)
    former = manifests_by_cell(node.array, grid, view.assets.dialect)
    written, deleted = _split_edits(edits, grid)
    ready = _find_ready(edits, grid, former, {*written, *deleted})
    unready = [each for each in edits.cells if each not in ready.values()]
    for each in unready:
        written = _lay_under(each.read_changes(view.assets, node.id), written, deleted, grid)
    # After all references, of which those that were set later stay.
    for each in unready:
        deleted = _unite_rows(deleted, grid.split(each.deleted))
    for cell in sorted({*former, *written, *deleted, *ready}):
        box = grid.extents(cell)
        if cell in ready:
            yield ready[cell]
        elif cell in written or cell in deleted:
            old = [_read_part(view, node, ref, box) for ref in former[cell]]
            base = concatenate([ChunkTable.empty(axes, view.changes.id_size), *old])
            if cell in deleted:
                base = base.remove(deleted[cell])
            yield base.merge(written[cell]) if cell in written else base
        else:
            for ref in former[cell]:
                yield ref if is_inside(ref.extents, box) else _read_part(view, node, ref, box)


def manifests_by_cell(
    array: ArrayData, grid: SplitGrid, dialect: Dialect
) -> defaultdict[Cell, list[ManifestRef]]:
    """The manifests that may hold chunks of each cell."""
    found: defaultdict[Cell, list[ManifestRef]] = defaultdict(list)
    for ref in manifests_of(array, dialect):
        for cell in grid.cells_touching(ref.extents):
            found[cell].append(ref)
    return found


def _find_ready(
    edits: ChunkEdits,
    grid: SplitGrid,
    former: Mapping[Cell, Sequence[ManifestRef]],
    edited: Collection[Cell],
) -> dict[Cell, WrittenCell]:
    """The written cells that are the whole of a cell of this grid, over this base."""
    ready: dict[Cell, WrittenCell] = {}
    for each in edits.cells:
        cell = tuple(start // size for (start, _), size in zip(each.box, grid.sizes, strict=True))
        base = tuple(ref.id for ref in former.get(cell, ()))
        if each.box == grid.extents(cell) and each.base == base and cell not in edited:
            # Two workers' manifests of one cell know nothing of each other.
            if cell in ready:
                return {}
            ready[cell] = each
    for each in edits.cells:
        if each not in ready.values():
            for cell in grid.cells_touching(each.reach):
                ready.pop(cell, None)
    return ready


def _lay_under(
    table: ChunkTable,
    written: Mapping[Cell, ChunkTable],
    deleted: Mapping[Cell, Coordinates],
    grid: SplitGrid,
) -> dict[Cell, ChunkTable]:
    """References of a worker among the edits by cell, which lie over them."""
    found = dict(written)
    for cell, part in table.select(grid.everything).split(grid.edges).items():
        kept = part.remove(deleted[cell]) if cell in deleted else part
        found[cell] = kept.merge(written[cell]) if cell in written else kept
    return found


def _read_part(view: View, node: Node, ref: ManifestRef, box: Extents) -> ChunkTable:
    table = view.assets.read_manifest(ref.id).table(node.id, len(box))
    return table if is_inside(ref.extents, box) else table.select(box)


def _split_edits(
    edits: ChunkEdits, grid: SplitGrid
) -> tuple[dict[Cell, ChunkTable], dict[Cell, Coordinates]]:
    """Edits by cell; those outside of the grid are dropped."""
    written, deleted = edits.settled()
    return written.select(grid.everything).split(grid.edges), grid.split(deleted)


def _unite_rows(
    one: Mapping[Cell, Coordinates], other: Mapping[Cell, Coordinates]
) -> dict[Cell, Coordinates]:
    both = {cell: unite([one[cell], other[cell]]) for cell in one.keys() & other.keys()}
    return {**one, **other, **both}


def write_shared_manifest(view: View) -> WrittenManifests:
    """Write one manifest with the references of all arrays, to which every array points."""
    arrays = [node for node in view.nodes() if node.array is not None]
    tables = {node.id: view.table(node) for node in arrays}
    filled = {id: table.compact() for id, table in tables.items() if len(table)}
    if not filled:
        return WrittenManifests({node.id: () for node in arrays})
    id = new_manifest_id(view.assets.dialect)
    info = view.assets.write_manifest(Manifest(id, filled), id)
    refs = (ManifestRef(id, ()),)
    return WrittenManifests({node.id: refs for node in arrays}, {id: info})
