"""Repositories as Spark tables: the data source `icechunk`, and DataFrames that read faster.

Thin classes over `frazil.tables`. Extension points:

- tables to read: `frazil.tables.table_source`;
- batch writes: `frazil.tables`, called by `write_frame` and `streams`;
- streams: `streams.make_stream_reader`.
"""
