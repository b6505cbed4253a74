"""Repositories as tables of Arrow batches, for engines that ask with SQL.

Plain functions: what a table is made of is planned here, and engines only call `read`. Nothing here
knows Spark.
"""

from frazil.tables.frame_commit import commit_rows
from frazil.tables.frame_values import WriteOptions, make_write_options, read_write_options

__all__ = ["WriteOptions", "commit_rows", "make_write_options", "read_write_options"]
