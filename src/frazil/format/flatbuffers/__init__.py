"""FlatBuffers, read with every position checked and written a column at a time.

- `reader`: one table after the other, for files of modest size and for searching large ones;
- `columns`: one field of a million tables at once;
- `writer`: all tables of a kind at once.
"""
