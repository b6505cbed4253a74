"""Tables about a repository: its versions, its nodes, its chunks, what changed and what it takes.

Small ones are made when they are opened. Those with a row for each chunk, or that have to look at each,
are read by tasks, from manifests that are planned by how many references they have.
"""

from collections.abc import Callable, Mapping

from frazil.frames.source import Source
from frazil.frames.table import Table
from frazil.frames.tables.arrays import open_arrays
from frazil.frames.tables.changes import open_changes
from frazil.frames.tables.chunks import open_chunks
from frazil.frames.tables.kept import open_ledger, open_statistics
from frazil.frames.tables.manifests import open_manifests
from frazil.frames.tables.nodes import open_nodes
from frazil.frames.tables.storage import open_storage
from frazil.frames.tables.versions import open_history, open_ops_log, open_refs, open_snapshots
from frazil.frames.tables.virtual_sources import open_virtual_sources

ABOUT_REPOSITORY: Mapping[str, Callable[[Source], Table]] = {
    "arrays": open_arrays,
    "changes": open_changes,
    "chunks": open_chunks,
    "history": open_history,
    "ledger": open_ledger,
    "manifests": open_manifests,
    "nodes": open_nodes,
    "ops_log": open_ops_log,
    "refs": open_refs,
    "snapshots": open_snapshots,
    "statistics": open_statistics,
    "storage": open_storage,
    "virtual_sources": open_virtual_sources,
}
"""By the name that `option("table", …)` has."""

__all__ = ["ABOUT_REPOSITORY"]
