"""Read tables as DataFrames by the fastest path: each task yields Arrow batches.

This is about twice as fast as Spark's Python data source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arguments import verb
from frazil.lazy import lazy_modules
from frazil.spark.runtime import (
    count_slots,
    is_connect,
    make_rows,
    make_rows_now,
    suits_driver,
)
from frazil.spark.spark_session import find_session
from frazil.tables.aggregates import PartialAggregates
from frazil.tables.scan_plan import ScanPlan
from frazil.tables.table_options import (
    DEFAULT_TARGET_BYTES,
    Layout,
    Options,
    list_options,
    pop_version,
    refuse_unknown,
)
from frazil.tables.table_source import AnyRepository, RowTable, Table, open_source, open_table
from frazil.urls import make_ref, parse_bytes
from frazil.virtual.access import Authorize, list_prefixes

if TYPE_CHECKING:
    from xarray import Dataset

    from frazil.tables import xarray_values
else:
    # Most tables are read without Xarray.
    (xarray_values,) = lazy_modules("frazil.tables.xarray_values")

_NAMED = Parameter.KEYWORD_ONLY
_NOT_OF_READ = ("repo", "path", "time_zone")
"""Options of the data source that are positional here, or taken from the session."""


def make_options(
    spark: SparkSession,
    version: Mapping[str, Any],
    group: str,
    authorize: Authorize,
    target_size: int | str,
) -> Options:
    """Return the options of tables that a session's own queries filter."""
    return Options(
        ref=make_ref(**version),
        group=group,
        authorize=list_prefixes(authorize),
        target_bytes=parse_bytes(target_size),
        time_zone=time_zone_of(spark),
        is_ansi=is_ansi(spark),
        engine_filters=True,
    )


def make_row_frame(spark: SparkSession, table: Table) -> DataFrame:
    """Return a DataFrame of all rows of a table, which come from Python as rows."""
    return make_rows(spark, table.read, table.partitions(), from_arrow_schema(table.schema))


def make_frame(spark: SparkSession, table: Table) -> DataFrame:
    """Return a DataFrame of all rows of a table.

    Cells travel as lists, which Spark expands in generated code: that is faster than rows from Python,
    and columns that a query does not use are not expanded.
    """
    if not isinstance(table, ScanPlan):
        return make_row_frame(spark, table)
    packed = table.packed_schema
    numbers = [f"c{number}" for number in range(len(packed))]
    schema = from_arrow_schema(pa.schema(list(map(pa.Field.with_name, packed, numbers))))
    frame = make_rows(spark, table.read_packed, table.partitions(), schema)
    *others, last = numbers
    rows = frame.select(*others, sql.posexplode(last).alias(_POSITION, last))
    columns = zip(numbers, table.schema, strict=True)
    return rows.select(*(_unpack(each, field, last) for each, field in columns))


DRIVER_BYTES, DRIVER_ROWS = 16 << 20, 1 << 14
"""Size of tables that are read in the driver, because starting tasks would take longer."""
SINGLE_ROWS = 1 << 20
"""Partial aggregates that one task combines."""


def make_result(spark: SparkSession, table: Table) -> DataFrame:
    """Return a DataFrame of a table; few aggregates and metadata are read now, without tasks."""
    if not isinstance(table, PartialAggregates | RowTable) or is_connect(spark):
        return make_frame(spark, table)
    partitions: Sequence[Any] = table.partitions()
    size, rows = table.weigh(partitions)
    schema = from_arrow_schema(table.schema)
    read: Any = table.read
    if rows <= DRIVER_ROWS:
        chunks = sum(getattr(each, "chunk_count", 0) for each in partitions)
        if size <= DRIVER_BYTES or suits_driver(spark, size, chunks, rows):
            if isinstance(table, PartialAggregates):
                partitions = table.join(partitions, count_slots(spark))
            frame = make_rows_now(spark, read, partitions, table.schema, schema)
            return frame.coalesce(1)
    frame = make_rows(spark, read, partitions, schema)
    if isinstance(table, PartialAggregates) and table.count_rows(partitions) <= SINGLE_ROWS:
        # One file a task; a shuffle by groups writes one for each partition of the session.
        return frame.repartition(1)
    return frame


_POSITION = "position"


def _unpack(column: str, field: pa.Field, last: str) -> Column:
    """Return the value of a packed column in a row.

    Spark must not move this below a semi-join or Python function, which would copy the whole lists for
    each row. It moves only deterministic expressions, and a partition's number is not one for it.
    """
    value = sql.col(column)
    if column != last:
        value = sql.get(value, sql.col(_POSITION))
    stays = sql.spark_partition_id() >= 0
    if pa.types.is_floating(field.type):
        stays &= ~sql.isnan(value)
    return sql.when(stays, value).alias(field.name)


def read(
    repo: AnyRepository,
    *,
    table: str = "cells",
    group: str = "/",
    variables: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    layout: Layout = "cells",
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    authorize: Authorize = (),
    target_size: int | str = DEFAULT_TARGET_BYTES,
    spark: SparkSession | None = None,
    **more: Any,
) -> DataFrame:
    """Read a table of a repository as a DataFrame, at one version.

    Parameters
    ----------
    repo
        Repository, or its URL.
    table
        Name of the table: `cells`, or a metadata table such as `snapshots`.
    group
        Path of the group whose arrays are read.
    variables
        Arrays to read; by default all of the group.
    columns
        Columns to return, in this order; by default all.
    where
        Predicate in SQL, any that Spark can evaluate. Chunks are pruned by it where possible.
    layout
        `cells` for one row per cell, `chunks` for one row per chunk.
    branch, tag, snapshot, as_of
        Version to read; by default the one in the URL, else the branch main.
    authorize
        Containers whose virtual chunks may be read: `"*"` for all, or URL prefixes.
    target_size
        Approximate size of a partition, in bytes or such as `128MB`.
    spark
        Spark session. Default: the active one, or a new one.
    **more
        Other options of `spark.read.format("icechunk")` for this table.

    Returns
    -------
    pyspark.sql.DataFrame
        The rows, computed lazily.

    Raises
    ------
    InvalidInputError
        If the table does not have an option.

    Examples
    --------
    >>> temperatures = read("s3://bucket/weather", variables=["t2m"], where="lat > 60")
    """
    running = spark or SparkSession.getActiveSession() or find_session()
    given = {"group": group != "/", "variables": variables is not None, "layout": layout != "cells"}
    refuse_unknown(
        (each for each in given if given[each]), list_options(table), f"the table {table}"
    )
    named = [name for name, each in signature(read).parameters.items() if each.kind == _NAMED]
    others = [name for name in list_options(table) if name not in (*named, *_NOT_OF_READ)]
    refuse_unknown(more, others, f"the table {table}", suggested=named)
    texts = {name.lower(): str(value) for name, value in more.items()}
    version = {"branch": branch, "tag": tag, "snapshot": snapshot, "as_of": as_of}
    options = replace(
        make_options(running, {}, group, authorize, target_size),
        ref=pop_version(texts, time_zone_of(running), **version),
        table=table,
        variables=None if variables is None else tuple(variables),
        columns=None if columns is None else tuple(columns),
        where=where,
        layout=layout,
        more=texts,
    )
    if where is None or layout == "chunks":
        return make_frame(running, open_table(open_source(options, repo)))
    if "\\" in where or not reads_plainly(running):
        options = replace(options, where=None)
    # Spark evaluates the predicate again and needs its columns.
    source = open_source(replace(options, engine_text=where), repo)
    filtered = make_frame(running, open_table(source)).where(where)
    return filtered if columns is None else filtered.select(*(f"`{name}`" for name in columns))


@verb()
def to_xarray(
    frame: DataFrame, dims: Sequence[str], *, fill_value: Mapping[str, Any] | None = None
) -> "Dataset":
    """Return the rows of a DataFrame, such as the result of a query, as a dataset of Xarray.

    Parameters
    ----------
    frame
        DataFrame with at most one row per cell.
    dims
        Columns of the dimensions, in order. Their sorted distinct values are the coordinates, and the
        other columns are variables on the whole grid.
    fill_value
        Values of missing cells, by column. By default they are NaN, NaT or None; integers become
        floats.

    Returns
    -------
    xarray.Dataset
        The dataset, in memory.

    Raises
    ------
    InvalidInputError
        If several rows have the same coordinates, or a coordinate is null.

    Examples
    --------
    >>> means = sql(repo, "SELECT time, lat, avg(t2m) AS t2m FROM t2m GROUP BY time, lat")
    >>> to_xarray(means, dims=["time", "lat"]).t2m.plot()
    """
    return xarray_values.to_dataset(frame.toArrow(), dims, fill_value)


@verb()
def from_xarray(dataset: "Dataset", *, spark: SparkSession | None = None) -> DataFrame:
    """Return the cells of a dataset of Xarray as a DataFrame.

    Parameters
    ----------
    dataset
        Dataset, which is read in this process.
    spark
        Spark session. Default: the active one, or a new one.

    Returns
    -------
    DataFrame
        One row per cell: coordinates, then variables. Missing values are null.

    Raises
    ------
    InvalidInputError
        If two variables each have a dimension that the other lacks.
    """
    running = spark or SparkSession.getActiveSession() or find_session()
    rows = xarray_values.from_dataset(dataset)
    return running.createDataFrame(rows, from_arrow_schema(rows.schema))


_PLAIN_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
}
"""Settings with which Spark reads literals and comparisons as push-down does."""


def reads_plainly(spark: SparkSession) -> bool:
    """Return True if a session interprets predicates as push-down does."""
    return all(
        spark.conf.get(name, value) in (value, None) for name, value in _PLAIN_SETTINGS.items()
    )


def is_ansi(spark: SparkSession) -> bool:
    """Return True if a session follows the ANSI rules for types and errors."""
    return (spark.conf.get("spark.sql.ansi.enabled", "true") or "true").lower() != "false"


def time_zone_of(spark: SparkSession) -> str:
    """Return the time zone of times without one."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"
