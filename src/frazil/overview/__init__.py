"""What there is in a version of a repository, in few words: for the command line and for pages."""

from frazil.overview.arrays import ArrayOverview, ValueSummary, describe_array
from frazil.overview.changes import find_changes
from frazil.overview.chunk_map import ChunkMap, map_chunks
from frazil.overview.nodes import NodeEntry, list_nodes
from frazil.overview.preview import Preview, read_preview
from frazil.overview.stored import StoredArray, measure_arrays

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
