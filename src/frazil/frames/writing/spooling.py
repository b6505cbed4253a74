"""Rows on their way from tasks to the commit.

Few travel in the message itself. Many are put into the storage as a chunk that nothing refers to: what
is left there, also by tasks that failed, is garbage like that of any failed writer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.assets import Assets
from frazil.format.ids import ChunkId

MOST_BYTES_IN_MESSAGE = 1 << 20
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class Spool:
    """The rows of a task."""

    rows: int
    data: bytes | None
    chunk: ChunkId | None = None
    length: int = 0


def spool(assets: Assets, batches: Iterable[pa.RecordBatch]) -> Spool:
    """Put rows aside."""
    kept = list(batches)
    rows = sum(batch.num_rows for batch in kept)
    if not rows:
        return Spool(0, None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, kept[0].schema, options=_OPTIONS) as writer:
        for batch in kept:
            writer.write_batch(batch)
    data = sink.getvalue().to_pybytes()
    if len(data) <= MOST_BYTES_IN_MESSAGE:
        return Spool(rows, data)
    chunk = assets.write_chunk(data)
    assets.storage.flush()
    return Spool(rows, None, chunk, len(data))


def unspool(assets: Assets, spools: Sequence[Spool], schema: pa.Schema) -> pa.Table:
    """All rows, in the order of the tasks; the schema is that of none."""
    tables = [_load(assets, each) for each in spools if each.rows]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _load(assets: Assets, each: Spool) -> pa.Table:
    data = each.data
    if data is None:
        assert each.chunk is not None
        data = bytes(assets.read_chunk(each.chunk, 0, each.length))
    return pa.ipc.open_stream(data).read_all()
