"""All tables, by the name that `option("table", …)` has.

To add one: write a module with a function that takes a `Source` and gives a `Table`, and name both
here. Options of its own it finds in `source.options.more`. Nothing else needs to know: the data source,
`frazil.spark.read` and the views of `frazil.spark.sql` ask this registry.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from frazil.errors import InvalidInputError
from frazil.frames.source import Source
from frazil.frames.table import Table
from frazil.rendering.text import suggest

CELLS = "cells"
ABOUT_REPOSITORY: Mapping[str, str] = {
    "arrays": "tables.arrays",
    "changes": "tables.changes",
    "chunks": "tables.chunks",
    "history": "tables.versions",
    "ledger": "tables.kept",
    "manifests": "tables.manifests",
    "nodes": "tables.nodes",
    "ops_log": "tables.versions",
    "refs": "tables.versions",
    "snapshots": "tables.versions",
    "statistics": "tables.kept",
    "storage": "tables.storage",
    "virtual_sources": "tables.virtual_sources",
}
"""The module of each, where a function `open_…` has its name: it is loaded if the table is asked for,
because Spark starts a process for each step of planning a query."""
TABLES = frozenset((CELLS, *ABOUT_REPOSITORY))


def open_table(source: Source) -> Table:
    """The table that the options of a source name; raises InvalidInputError."""
    name = source.options.table
    if name not in TABLES:
        raise InvalidInputError(f"there is no table {name!r}: {suggest(name, sorted(TABLES))}")
    open_it: Callable[[Source], Table]
    if name in ABOUT_REPOSITORY:
        open_it = getattr(_load(ABOUT_REPOSITORY[name]), f"open_{name}")
    elif source.options.layout == "chunks":
        open_it = _load("chunk_rows").open_chunk_rows
    else:
        open_it = _load("cells").open_cells
    return open_it(source)


def _load(module: str) -> Any:
    return import_module(f"frazil.frames.{module}")
