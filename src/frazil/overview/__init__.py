"""What there is in a version of a repository, in few words: for the command line and for pages."""

from frazil.overview.arrays import ArrayOverview, ValueSummary, describe_array, summarize_values
from frazil.overview.chunk_map import ChunkMap, map_chunks
from frazil.overview.nodes import NodeEntry, list_nodes

__all__ = [
    "ArrayOverview",
    "ChunkMap",
    "NodeEntry",
    "ValueSummary",
    "describe_array",
    "list_nodes",
    "map_chunks",
    "summarize_values",
]
