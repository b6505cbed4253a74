"""The manifests of a whole snapshot, by the rules that hold today: which they are, and writing one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.assets import Assets, new_manifest_id
from frazil.engine.manifests import WrittenManifests, manifests_by_cell
from frazil.engine.splitting import plan_split
from frazil.engine.state import SessionState
from frazil.format.chunks import concatenate
from frazil.format.coordinates import Extents
from frazil.format.ids import NodeId
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ManifestFileInfo, ManifestRef


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """A manifest to write: the references of a box of an array's chunks, and where they are so far."""

    node_id: NodeId
    box: Extents
    base: tuple[ManifestRef, ...]


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest that was written."""

    file: ManifestFileInfo
    extents: Extents

    @property
    def ref(self) -> ManifestRef:
        """What a node has of it."""
        return ManifestRef(self.file.id, self.extents)


Written = Mapping[ManifestPlan, NewManifest | None]
"""What became of plans; None for one that no chunk was for."""


def plan_manifests(state: SessionState) -> list[ManifestPlan]:
    """A plan for each cell of each array that may have chunks, in the order of their paths."""
    plans = []
    for node in state.view.nodes():
        if node.array is not None:
            grid = plan_split(node.path, node.array, state.surroundings.settings.split_sizes)
            cells = manifests_by_cell(node.array, grid, state.surroundings.dialect)
            plans += [
                ManifestPlan(node.id, grid.extents(cell), tuple(cells[cell]))
                for cell in sorted(cells)
            ]
    return plans


def write_manifest(assets: Assets, plan: ManifestPlan) -> NewManifest | None:
    """Write the manifest of a cell, unless no chunk is there."""
    axes = len(plan.box)
    table = concatenate(
        [assets.read_manifest(ref.id).table(plan.node_id, axes).select(plan.box)
         for ref in plan.base]
    )  # fmt: skip
    if not len(table):
        return None
    id = new_manifest_id(assets.dialect)
    file = assets.write_manifest(Manifest(id, {plan.node_id: table.compact()}), id)
    return NewManifest(file, table.extents())


@dataclass(frozen=True, slots=True)
class WriteManifests:
    """A task: writes some manifests."""

    assets: Assets

    def __call__(self, plans: Sequence[ManifestPlan]) -> list[NewManifest | None]:
        """What became of each."""
        written = [write_manifest(self.assets, plan) for plan in plans]
        self.assets.storage.flush()
        return written


def collect(
    state: SessionState, plans: Sequence[ManifestPlan], written: Written
) -> WrittenManifests:
    """What a commit needs to know of the manifests of all arrays."""
    arrays = [node.id for node in state.view.nodes() if node.array is not None]
    refs: dict[NodeId, list[ManifestRef]] = {id: [] for id in arrays}
    found = WrittenManifests()
    for plan in plans:
        new = written[plan]
        if new is not None:
            refs[plan.node_id].append(new.ref)
            found.files[new.file.id] = new.file
    found.refs = {id: tuple(each) for id, each in refs.items()}
    return found
