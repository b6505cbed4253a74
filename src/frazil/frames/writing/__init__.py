"""Rows that become cells of arrays: what engines hand over as Arrow tables is written in one commit.

Coordinates in the rows are looked up in the arrays' coordinates; values are encoded as the arrays are.
Nothing here knows Spark.
"""

from frazil.frames.writing.committing import commit_rows
from frazil.frames.writing.options import WriteOptions, make_write_options, read_write_options

__all__ = ["WriteOptions", "commit_rows", "make_write_options", "read_write_options"]
