"""Repositories as tables of Spark: the data source `icechunk`, and frames that are faster than it.

Thin classes over `frazil.tables`. Where things are added:

- a table to read: in `frazil.tables.scan_plan`, whose text says how;
- writing: `frazil.tables`, which `writing`, `stream_writing` and `frame_writing` call;
- streams: `stream_reading.make_stream_reader`.
"""
