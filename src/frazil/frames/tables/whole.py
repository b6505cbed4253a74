"""Small tables, whose rows are all known when they are opened, and what tables have in common."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.errors import InvalidInputError
from frazil.frames.options import Options

_ROWS_OF_A_PARTITION = 1 << 20


class Whole:
    """Rows in memory, as `Table` has them."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows.combine_chunks()

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._rows.schema

    def partitions(self) -> Sequence[int]:
        """The first rows of parts, mostly one."""
        return range(0, len(self._rows), _ROWS_OF_A_PARTITION)

    def read(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        yield from self._rows.slice(partition, _ROWS_OF_A_PARTITION).to_batches()


def make_whole(options: Options, schema: pa.Schema, columns: Mapping[str, Any]) -> Whole:
    """A table of columns given as lists or arrays, of which the options may ask for some."""
    chosen = choose_columns(options, schema)
    arrays = [_to_column(columns[field.name], field.type) for field in chosen]
    return Whole(pa.table(arrays, schema=chosen))


def choose_columns(options: Options, schema: pa.Schema) -> pa.Schema:
    """The columns that are asked for; raises InvalidInputError for others and for conditions."""
    if options.where is not None and not options.engine_filters:
        raise InvalidInputError(
            f"the table {options.table} takes no option `where`: leave it to the frame, as in "
            '`.load().where("…")`'
        )
    if options.columns is None:
        return schema
    missing = [name for name in options.columns if name not in schema.names]
    if missing:
        raise InvalidInputError(
            f"there is no column {', '.join(missing)}, but {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in options.columns])


def list_of(type: pa.DataType) -> pa.DataType:
    """A list as Spark has it."""
    return pa.list_(pa.field("element", type))


def _to_column(values: Any, type: pa.DataType) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    return pa.array(values, type)
