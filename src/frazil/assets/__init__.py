"""Typed files of one repository: read through caches, written once under fresh names."""

from frazil.assets.files import AssetOptions, Assets
from frazil.assets.ids import new_chunk_id, new_manifest_id, new_node_id, new_snapshot_id
from frazil.assets.layout import Layout

__all__ = [
    "AssetOptions",
    "Assets",
    "Layout",
    "new_chunk_id",
    "new_manifest_id",
    "new_node_id",
    "new_snapshot_id",
]
