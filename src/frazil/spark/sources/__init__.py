"""Repositories as tables of Spark: the data source `icechunk`, and frames that are faster than it.

Thin classes over `frazil.frames`. Where things are added:

- a table to read: in `frazil.frames.registry`, whose text says how;
- writing: `frazil.frames.writing`, which `writing`, `stream_writing` and `frame_writing` call;
- streams: `stream_reading.make_stream_reader`.
"""
