"""A part of a hierarchy as snapshots of its own: one for the tip of each branch.

Their ids follow from those of the source's snapshots, so that who copies the same again finds them.
Arrays keep their node ids and their manifests. Groups above the part stay, without what else is there.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from frazil.assets import Assets
from frazil.errors import FormatError, NodeNotFoundError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.paths import ROOT
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.snapshot import Node, Snapshot, nodes_by_path
from frazil.spark.copying.choosing import find_first


@dataclass(frozen=True, slots=True)
class Part:
    """A repository with a part of the hierarchy only."""

    info: RepoInfo
    made: Mapping[SnapshotId, Snapshot]
    """Snapshots that have no file yet."""


def take_part(assets: Assets, info: RepoInfo, group: str, *, is_named: bool) -> Part:
    """What is at and below a path, at the tips of branches; other branches and all tags are left out.

    Raises NodeNotFoundError where no branch has it, or one that was named has not; FormatError for
    the generations before V1.
    """
    if assets.dialect not in (Dialect.V1, Dialect.V2):
        raise FormatError(
            f"a part of a repository of the generation {assets.dialect.value} can't be copied: copy"
            " all of it, or migrate it first",
            kind="unsupported-operation-for-version",
        )
    first = find_first(info)
    made: dict[SnapshotId, Snapshot] = {}
    tips: dict[str, SnapshotId] = {}
    infos = {first.id: first}
    for name, tip in info.branches.items():
        snapshot = assets.read_snapshot(tip)
        if group in snapshot.nodes and tip != first.id:
            id = derive_id(tip, group)
            made[id] = cut_snapshot(snapshot, group, id, _parent_in_file(first, assets.dialect))
            infos[id] = _describe(info.snapshots[tip], id, first)
            tips[name] = id
        elif is_named and tip != first.id:
            raise NodeNotFoundError(f"the branch {name!r} has no node at {group}")
    if not tips:
        raise NodeNotFoundError(f"no branch has a node at {group}")
    branches = {"main": first.id, **tips}
    return Part(replace(info, branches=branches, tags={}, snapshots=infos), made)


def derive_id(id: SnapshotId, group: str) -> SnapshotId:
    """The id of a snapshot's part."""
    return SnapshotId(hashlib.sha256(bytes(id) + group.encode()).digest()[: len(id)])


def cut_snapshot(
    snapshot: Snapshot, group: str, id: SnapshotId, parent_id: SnapshotId | None
) -> Snapshot:
    """A snapshot with what is at and below a path, and the groups above it."""
    nodes = [node for path, node in snapshot.nodes.items() if _belongs(path, group)]
    used = _used_manifests(nodes)
    return replace(
        snapshot,
        id=id,
        parent_id=parent_id,
        nodes=nodes_by_path(nodes),
        manifest_files=tuple(each for each in snapshot.used_manifests() if each.id in used),
    )


def _belongs(path: str, group: str) -> bool:
    is_below = path == group or group == ROOT or path.startswith(f"{group}/")
    return is_below or path == ROOT or group.startswith(f"{path}/")


def _used_manifests(nodes: list[Node]) -> set[object]:
    arrays = [node.array for node in nodes if node.array is not None]
    return {ref.id for array in arrays for ref in array.manifests}


def _parent_in_file(first: SnapshotInfo, dialect: Dialect) -> SnapshotId | None:
    return first.id if dialect is Dialect.V1 else None


def _describe(tip: SnapshotInfo, id: SnapshotId, first: SnapshotInfo) -> SnapshotInfo:
    return replace(tip, id=id, parent_id=first.id, pruned_ancestor_tx_logs=())
