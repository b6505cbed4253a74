"""The table of files outside of the repository that virtual chunks are in.

It is found by one task: which files two manifests have in common shows only when both are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.format.chunks import ChunkTable
from frazil.format.references import ChunkKind
from frazil.frames.source import Source
from frazil.frames.tables.planning import read_tables
from frazil.frames.tables.spelling import take_texts, to_texts
from frazil.frames.tables.whole import choose_columns, list_of
from frazil.session import Session

_SCHEMA = pa.schema(
    {
        "location": pa.string(), "references": pa.int64(), "bytes": pa.int64(),
        "first_byte": pa.int64(), "end_byte": pa.int64(), "arrays": list_of(pa.string()),
    }
)  # fmt: skip
_ROWS = 1 << 18


_PARTS = (("references", "sum"), ("bytes", "sum"), ("first_byte", "min"), ("end_byte", "max"))


@dataclass(frozen=True, slots=True, eq=False)
class VirtualSources:
    """The files that a version refers to, as `Table` has them."""

    session: Session
    schema: pa.Schema

    def partitions(self) -> Sequence[str]:
        """One, or none."""
        return ["all"] if self.session.state.view.snapshot.used_manifests() else []

    def read(self, partition: str) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """A row for each file, in the order of their locations."""
        parts = list(_read_parts(self.session))
        if parts:
            rows = _unite(parts).select(self.schema.names).cast(self.schema)
            yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS)


def _read_parts(session: Session) -> Iterator[pa.Table]:
    """The files of each array in each manifest."""
    for node in session.state.view.nodes():
        for table in () if node.array is None else read_tables(session, node):
            virtual = table.take(table.kind == ChunkKind.VIRTUAL)
            if len(virtual):
                yield _summarize(node.path, virtual)


def _summarize(path: str, table: ChunkTable) -> pa.Table:
    codes, count = table.location, len(table.locations)
    references = np.bincount(codes, minlength=count)
    used = np.flatnonzero(references)
    sizes = np.bincount(codes, weights=table.length, minlength=count).astype(np.int64)
    start, length = table.offset.astype(np.int64), table.length.astype(np.int64)
    first, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first, codes, start)
    np.maximum.at(end, codes, start + length)
    return pa.table(
        {
            "location": take_texts(to_texts(table.locations), used.astype(np.int32)),
            **{
                name: pa.array(values[used])
                for name, values in zip(
                    _SCHEMA.names[1:5], (references, sizes, first, end), strict=True
                )
            },
            "arrays": pa.repeat(pa.scalar(path), len(used)),
        }
    )


def _unite(parts: Sequence[pa.Table]) -> pa.Table:
    """Each file once."""
    grouped = pa.concat_tables(parts).group_by("location")
    rows = grouped.aggregate([*_PARTS, ("arrays", "distinct")])
    named = [rows.column("location"), *(rows.column(f"{name}_{how}") for name, how in _PARTS)]
    columns = [*named, rows.column("arrays_distinct").cast(list_of(pa.string()))]
    return pa.table(columns, names=_SCHEMA.names).sort_by("location")


def open_virtual_sources(source: Source) -> VirtualSources:
    """The files that virtual chunks of a version are in."""
    return VirtualSources(source.session, choose_columns(source.options, _SCHEMA))
