"""Summaries of a version of a repository, for the command line and web pages."""

from frazil.overview.contents import (
    ArrayOverview,
    ChunkMap,
    StoredArray,
    ValueSummary,
    describe_array,
    find_changes,
    map_chunks,
    measure_arrays,
)
from frazil.overview.preview import NodeEntry, Preview, list_nodes, read_preview

__all__ = [
    "ArrayOverview",
    "ChunkMap",
    "NodeEntry",
    "Preview",
    "StoredArray",
    "ValueSummary",
    "describe_array",
    "find_changes",
    "list_nodes",
    "map_chunks",
    "measure_arrays",
    "read_preview",
]
