"""Snapshots, what changed between them, and their ancestry, as users see them."""

from frazil.snapshots.diff import Diff
from frazil.snapshots.graph import AncestryGraph
from frazil.snapshots.infos import ManifestFileInfo, SnapshotInfo

__all__ = ["AncestryGraph", "Diff", "ManifestFileInfo", "SnapshotInfo"]
