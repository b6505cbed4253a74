"""Repositories as tables of Arrow batches, for engines that query with SQL.

Plain functions plan and read the tables; engines only call `read`. Nothing here depends on Spark.
"""

from frazil.tables.frame_commit import commit_rows
from frazil.tables.frame_values import WriteOptions, make_write_options, read_write_options

__all__ = ["WriteOptions", "commit_rows", "make_write_options", "read_write_options"]
