"""Data source `icechunk`: translates options to a table of `frazil.tables`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from frazil.spark.runtime import keep_error_kind
from frazil.spark.spark_session import find_session
from frazil.tables.table_options import (
    STREAM_WRITE_OPTIONS,
    WRITE_OPTIONS,
    list_options,
    parse_options,
    refuse_unknown,
)
from frazil.tables.table_source import Table, open_source, open_table

NAME = "icechunk"


class IcechunkDataSource(DataSource):
    """Data source `icechunk`: `spark.read.format("icechunk").option("repo", url)`."""

    _table: Table | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the table that the options name."""
        return from_arrow_schema(self._open().schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return a reader of the table, at the version that `schema` opened."""
        name = self.options.get("table", "cells")
        # Only here it is known that the table is not read as a stream.
        refuse_unknown(self.options, list_options(name), f"the table {name}, unless as a stream,")
        return TableReader(self._open())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a batch writer: see `frazil.spark.tables.write_frame`."""
        from frazil.spark.tables.write_frame import make_writer  # noqa: PLC0415

        options = parse_options(self.options, WRITE_OPTIONS)
        return make_writer(options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a stream reader: see `frazil.spark.tables.streams`."""
        from frazil.spark.tables.streams import make_stream_reader  # noqa: PLC0415

        return make_stream_reader(parse_options(self.options), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return a stream writer: see `frazil.spark.tables.streams`."""
        from frazil.spark.tables.streams import make_stream_writer  # noqa: PLC0415

        options = parse_options(self.options, STREAM_WRITE_OPTIONS)
        return make_stream_writer(options, schema, overwrite=overwrite)

    def _open(self) -> Table:
        if self._table is None:
            self._table = open_table(open_source(parse_options(self.options)))
        return self._table


@dataclass(frozen=True)
class Piece(InputPartition):
    """Partition of a table."""

    value: Any


class TableReader(DataSourceReader):
    """Reader of a table; sent to workers."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def partitions(self) -> list[InputPartition]:
        """Return the partitions, one per task."""
        return [Piece(each) for each in self._table.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        # Spark makes an empty partition if there are none.
        if isinstance(partition, Piece):
            with keep_error_kind():
                yield from self._table.read(partition.value)


def register(spark: SparkSession) -> None:
    """Register the data source `icechunk` in a Spark session.

    Parameters
    ----------
    spark
        Session in which `format("icechunk")` becomes available.
    """
    spark.dataSource.register(IcechunkDataSource)


def session(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    app_name: str = "frazil",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """Return a Spark session with `format("icechunk")`: the given, the active or a new one.

    A new session needs no configuration: Java is found or installed with a package, workers use this
    interpreter and its import path, failed tasks are retried. An existing session is not changed;
    settings that are slow give a warning (see `check_session`).

    Parameters
    ----------
    spark
        Session to use; by default the active one, else a new one.
    master
        Spark master of a new session, or the `sc://` address of a Spark Connect server.
    app_name
        Application name of a new session.
    config
        Spark settings of a new session.

    Returns
    -------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    SetupError
        If an existing session lacks a required setting, or a package is missing.
    """
    found = find_session(spark, master, app_name, config or {})
    register(found)
    return found
