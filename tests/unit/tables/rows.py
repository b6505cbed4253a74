"""Tables about repositories as rows, read as an engine reads them: everything is pickled on the way."""

import pickle
from typing import Any

import pyarrow as pa

from frazil import Repository
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source, open_table


def read_table(repo: Repository, table: str, **options: Any) -> pa.Table:
    """All rows; options that are none of all tables go to `more`."""
    known = {name: value for name, value in options.items() if name in Options.__slots__}
    more = {name.rstrip("_"): value for name, value in options.items() if name not in known}
    opened = open_table(open_source(Options(table=table, more=more, **known), repo))
    sent = pickle.loads(pickle.dumps(opened))
    batches = []
    for partition in pickle.loads(pickle.dumps(list(opened.partitions()))):
        for batch in sent.read(partition):
            batch.validate(full=True)
            batches.append(batch)
    return pa.Table.from_batches(batches, opened.schema)


def read_rows(repo: Repository, table: str, **options: Any) -> list[dict[str, Any]]:
    """The same as Python's values."""
    rows: list[dict[str, Any]] = read_table(repo, table, **options).to_pylist()
    return rows
