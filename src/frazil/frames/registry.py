"""All tables, by the name that `option("table", …)` has.

To add one: write a module with a function that takes a `Source` and gives a `Table`, and name the
function here. Options of its own it finds in `source.options.more`. Nothing else needs to know: the
data source, `frazil.spark.read` and the views of `frazil.spark.sql` ask this registry.
"""

from collections.abc import Callable, Mapping

from frazil.errors import InvalidInputError
from frazil.frames.cells import open_cells
from frazil.frames.chunk_rows import open_chunk_rows
from frazil.frames.source import Source
from frazil.frames.table import Table
from frazil.frames.tables import ABOUT_REPOSITORY

OpenTable = Callable[[Source], Table]


def _open_arrays(source: Source) -> Table:
    return open_chunk_rows(source) if source.options.layout == "chunks" else open_cells(source)


TABLES: Mapping[str, OpenTable] = {
    "cells": _open_arrays,
    **ABOUT_REPOSITORY,
}


def open_table(source: Source) -> Table:
    """The table that the options of a source name; raises InvalidInputError."""
    name = source.options.table
    if name not in TABLES:
        raise InvalidInputError(f"there is no table {name!r}, but {', '.join(sorted(TABLES))}")
    return TABLES[name](source)
