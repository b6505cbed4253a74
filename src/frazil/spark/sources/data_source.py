"""The data source `icechunk`: options in, a table of `frazil.frames` out.

Its methods run in processes of their own on the driver's machine, and `read` in workers. The table is
opened once, when Spark asks for the schema; from then on the data source is pickled with it, so that a
frame stays at the version that it was loaded at. Each of these processes starts anew, and so loads what
it needs when it needs it.

There is no `pushFilters`: in Spark 4.1 to 4.3 it gives wrong rows, silently, when one frame is used in
more than one way. Selections are options instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from frazil.frames.options import (
    STREAM_WRITE_OPTIONS,
    WRITE_OPTIONS,
    list_options,
    parse_options,
    refuse_unknown,
)
from frazil.frames.registry import open_table
from frazil.frames.source import open_source
from frazil.frames.table import Table
from frazil.spark.workers import telling_kind

NAME = "icechunk"


class IcechunkDataSource(DataSource):
    """`spark.read.format("icechunk").option("repo", url)`."""

    _table: Table | None = None

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table that the options name."""
        return from_arrow_schema(self._open().schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """A reader of the table, at the version that `schema` found."""
        name = self.options.get("table", "cells")
        # Only here it is known that the table is not read as a stream.
        refuse_unknown(self.options, list_options(name), f"the table {name}, unless as a stream,")
        return TableReader(self._open())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """See `frazil.spark.sources.writing`."""
        from frazil.spark.sources.writing import make_writer  # noqa: PLC0415

        options = parse_options(self.options, WRITE_OPTIONS)
        return make_writer(options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """See `frazil.spark.sources.stream_reading`."""
        from frazil.spark.sources.stream_reading import make_stream_reader  # noqa: PLC0415

        return make_stream_reader(parse_options(self.options), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """See `frazil.spark.sources.stream_writing`."""
        from frazil.spark.sources.stream_writing import make_stream_writer  # noqa: PLC0415

        options = parse_options(self.options, STREAM_WRITE_OPTIONS)
        return make_stream_writer(options, schema, overwrite=overwrite)

    def _open(self) -> Table:
        if self._table is None:
            self._table = open_table(open_source(parse_options(self.options)))
        return self._table


@dataclass(frozen=True)
class Piece(InputPartition):
    """A partition of a table."""

    value: Any


class TableReader(DataSourceReader):
    """Reads a table; it is sent to workers."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def partitions(self) -> list[InputPartition]:
        """One a task."""
        return [Piece(each) for each in self._table.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        # Where there are no partitions, Spark makes an empty one.
        if isinstance(partition, Piece):
            with telling_kind():
                yield from self._table.read(partition.value)
