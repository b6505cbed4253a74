"""FlatBuffers, read with every position checked and written column by column.

- `flatbuffers_reader`: one table at a time, or one field of many tables at once;
- `flatbuffers_writer`: all tables of a kind at once.
"""
