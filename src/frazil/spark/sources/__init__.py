"""Repositories as tables of Spark: the data source `icechunk`, and frames that are faster than it.

Thin classes over `frazil.frames`. Where things are added:

- a table to read: in `frazil.frames.registry`, whose text says how;
- writing: `frazil.frames.writing`, which `writing`, `stream_writing` and `frame_writing` call;
- streams: `stream_reading.make_stream_reader`.
"""

from frazil.spark.sources.frame_writing import commit_batch, find_written, write_frame
from frazil.spark.sources.reading import read
from frazil.spark.sources.registering import register, session
from frazil.spark.sources.views import sql

__all__ = [
    "commit_batch",
    "find_written",
    "read",
    "register",
    "session",
    "sql",
    "write_frame",
]
