"""Repositories as tables of Spark: the data source `icechunk`, and frames that are faster than it.

Thin classes over `frazil.frames`. Where things are added:

- a table to read: in `frazil.frames.registry`, whose text says how;
- batch writing: `writing.make_writer`;
- streams: `stream_reading.make_stream_reader` and `stream_writing.make_stream_writer`.
"""

from frazil.spark.sources.reading import read
from frazil.spark.sources.registering import register, session
from frazil.spark.sources.views import sql

__all__ = ["read", "register", "session", "sql"]
