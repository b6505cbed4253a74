"""The data source `icechunk`: options in, a table of `frazil.tables` out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
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

from frazil.spark.runtime import telling_kind
from frazil.spark.spark_session import find_session
from frazil.tables.scan_plan import open_source, open_table
from frazil.tables.table_options import (
    STREAM_WRITE_OPTIONS,
    WRITE_OPTIONS,
    Table,
    list_options,
    parse_options,
    refuse_unknown,
)

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
        """See `frazil.spark.tables.write_frame`."""
        from frazil.spark.tables.write_frame import make_writer  # noqa: PLC0415

        options = parse_options(self.options, WRITE_OPTIONS)
        return make_writer(options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """See `frazil.spark.tables.streams`."""
        from frazil.spark.tables.streams import make_stream_reader  # noqa: PLC0415

        return make_stream_reader(parse_options(self.options), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """See `frazil.spark.tables.streams`."""
        from frazil.spark.tables.streams import make_stream_writer  # noqa: PLC0415

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


def register(spark: SparkSession) -> None:
    """Let a session know `format("icechunk")`."""
    spark.dataSource.register(IcechunkDataSource)


def session(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    app_name: str = "frazil",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """A session that knows `format("icechunk")`: a new one, the one that runs, or the given one.

    Nothing has to be configured: Java is found or brought by a package, workers run on this
    interpreter and import what it can, failed tasks are tried again. `master` is Spark's, or the
    `sc://` address of a server of Spark Connect. A session that runs already is left as it is; what
    is missing in it raises SetupError, and what is slow in it is warned of (see `check_session`).
    """
    found = find_session(spark, master, app_name, config or {})
    register(found)
    return found
