"""SQL on a repository: `frazil.spark.sql`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from frazil.arguments import verb
from frazil.errors import InvalidInputError
from frazil.spark.runtime import is_connect
from frazil.spark.tables.data_source import session
from frazil.spark.tables.read import make_frame, make_options, reads_plainly
from frazil.spark.tables.statements import call, change, describe
from frazil.tables.sql_queries import PlannedQuery, Query, parse_query, plan_query
from frazil.tables.sql_statements import (
    Call,
    Describe,
    DescribeHistory,
    Explain,
    ShowTables,
    name_parameters,
    parse_statement,
)
from frazil.tables.table_options import DEFAULT_TARGET_BYTES, read_catalog
from frazil.tables.table_source import AnyRepository, Source, Table, open_source
from frazil.virtual.access import Authorize

_UNKNOWN_COLUMN = "UNRESOLVED_COLUMN"


@verb()
def sql(
    repo: AnyRepository,
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    group: str = "/",
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    authorize: Authorize = (),
    target_size: int | str = DEFAULT_TARGET_BYTES,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Run a SQL statement on a repository, at one version.

    Each array of the group is a table with its name and its coordinates. `cells` has all arrays, and
    `repo.…` are the metadata tables. Other names are Spark's tables and views. Only the chunks that the
    `WHERE` clause leaves and the columns the query names are read. A table followed by
    `VERSION AS OF 'name'` or `TIMESTAMP AS OF 'time'` is read at that version.

    `SHOW TABLES`, `DESCRIBE table`, `DESCRIBE HISTORY [array]` and `EXPLAIN query` describe the
    repository. `CALL system.procedure(name => value)` maintains it and returns a report as one row.
    `INSERT`, `UPDATE`, `DELETE` and `MERGE` change cells of arrays, in one commit each.

    Parameters
    ----------
    repo
        Repository, or its URL; or the path of a catalog, a TOML file of repositories (see
        `attach_catalog`), whose tables are `name.table`.
    query
        One query or other statement in Spark SQL.
    args
        Values of the query's parameters: a mapping for `:name`, a sequence for `?`, as `spark.sql` has.
    group
        Path of the group whose arrays are tables.
    branch, tag, snapshot, as_of
        Version to read; by default the one in the URL, else the branch main.
    authorize
        Containers whose virtual chunks may be read: `"*"` for all, or URL prefixes.
    target_size
        Approximate size of a partition, in bytes or such as `128MB`.
    spark
        Spark session. Default: the active one, or a new one.

    Returns
    -------
    DataFrame
        Result of the statement.

    Raises
    ------
    InvalidInputError
        If the text is not one statement, or names an unknown table, procedure or argument.

    Examples
    --------
    >>> sql("s3://bucket/weather", "SELECT time, avg(t2m) FROM t2m WHERE lat > 60 GROUP BY time").show()
    """
    running = spark or SparkSession.getActiveSession() or session()
    text, values = name_parameters(query, args)
    statement = parse_statement(text, values)
    inner = statement.query if isinstance(statement, Explain) else text
    is_query = statement is None or isinstance(statement, Explain)
    parsed = (
        parse_query(inner, pushes_down=reads_plainly(running), args=values) if is_query else None
    )
    version = {"branch": branch, "tag": tag, "snapshot": snapshot, "as_of": as_of}
    if isinstance(repo, str | PathLike) and str(repo).endswith(".toml"):
        if group != "/" or authorize or any(each is not None for each in version.values()):
            raise InvalidInputError(
                f"give versions, groups and authorizations in the catalog {repo}"
            )
        catalog = _Catalog(running, read_catalog(Path(repo)))
        tables = _Tables(running, None, catalog)
        source = None
    else:
        options = make_options(running, version, group, authorize, target_size)
        source = open_source(options, repo)
        tables = _Tables(running, source)
    match statement:
        case None:
            assert parsed is not None
            return tables.ask(parsed, values)
        case Explain(mode):
            assert parsed is not None
            return tables.explain(parsed, values, mode)
        case ShowTables() | Describe() | DescribeHistory():
            return describe(running, catalog if source is None else source, statement)
    if source is None:
        raise InvalidInputError(
            "can't change a catalog: name the repository instead of the catalog"
        )
    if isinstance(statement, Call):
        return call(running, source, statement)

    def ask(own: Source, text: str, given: Mapping[str, Any]) -> DataFrame:
        part = parse_query(text, pushes_down=reads_plainly(running), args=given)
        return _Tables(running, own).ask(part, given)

    return change(running, source, statement, values, ask)


class _Catalog(Mapping[str, Source]):
    """Repositories by name, each opened when it is needed."""

    def __init__(self, spark: SparkSession, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._spark = spark
        self._entries = entries
        self.opened: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        if name not in self.opened:
            entry = self._entries[name]
            version = {each: entry.get(each) for each in ("branch", "tag", "snapshot", "as_of")}
            size = entry.get("target_size", DEFAULT_TARGET_BYTES)
            options = make_options(
                self._spark, version, entry.get("group", "/"), entry.get("authorize", ()), size
            )
            self.opened[name] = open_source(options, entry["repo"])
        return self.opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables that a query may use: of one repository, or of those in a catalog."""

    spark: SparkSession
    source: Source | None
    catalog: _Catalog | None = None

    def ask(self, query: Query, values: Mapping[str, Any]) -> DataFrame:
        """Return the DataFrame of a query."""
        with _temporary_views(self.spark) as views:
            return self._ask(query, values, views)[1]

    def explain(self, query: Query, values: Mapping[str, Any], mode: str) -> DataFrame:
        """Return what Frazil reads for a query, and Spark's plan, as one row."""
        with _temporary_views(self.spark) as views:
            planned, _ = self._ask(query, values, views)
            names = views[-len(planned.tables) :] if planned.tables else []
            text = f"EXPLAIN {mode} {planned.text(names)}"
            found = self.spark.sql(text, args=dict(values) or None).first()
        lines = ["== Frazil Scan Plan =="]
        opened = {} if self.catalog is None else self.catalog.opened
        for name, source in ({"": self.source} if self.source is not None else opened).items():
            version = "" if source.options.ref is None else f" ({source.options.ref})"
            lines += [
                f"Repository{f' {name}' if name else ''}: {source.repository.storage.place}",
                f"Snapshot: {source.session.snapshot_id}{version}",
            ]
        lines += [line for table in planned.tables for line in table.explain()]
        lines += ["", "" if found is None else found[0]]
        return self.spark.createDataFrame([("\n".join(lines),)], "plan string")

    def _ask(
        self, query: Query, values: Mapping[str, Any], views: list[str]
    ) -> tuple[PlannedQuery, DataFrame]:
        """Run a query on temporary views created for it; their names are added to `views`."""
        rows = plan_query(self.source, query, self.catalog)
        planned = rows.push_down(partial(_evaluate, self.spark, values))
        try:
            if planned.has_aggregates:
                # Tables without rows are enough for the names and types of the results.
                expected = self._run(rows, values, views, _make_empty).schema
                found = self._try(planned, values, views, expected)
                if found is not None:
                    return planned, found
                planned = rows
            return planned, self._run(planned, values, views, make_frame)
        except AnalysisException as error:
            if query.uses_unnamed or _UNKNOWN_COLUMN not in (error.getCondition() or ""):
                raise
            # Retry with all columns, so that Spark's error suggests from all of them.
            return self._ask(replace(query, uses_unnamed=True), values, views)

    def _try(
        self,
        planned: PlannedQuery,
        values: Mapping[str, Any],
        views: list[str],
        expected: StructType,
    ) -> DataFrame | None:
        """Return the DataFrame of a query with aggregates pushed down, if it has the expected types."""
        try:
            frame = self._run(planned, values, views, make_frame)
        except AnalysisException:
            return None
        types = [each.dataType for each in frame.schema], [each.dataType for each in expected]
        if types[0] != types[1]:
            return None
        return frame if frame.columns == expected.names else frame.toDF(*expected.names)

    def _run(
        self,
        planned: PlannedQuery,
        values: Mapping[str, Any],
        views: list[str],
        make: Callable[[SparkSession, Table], DataFrame],
    ) -> DataFrame:
        names = [f"frazil_{uuid4().hex}" for _ in planned.tables]
        views += names
        for name, each in zip(names, planned.tables, strict=True):
            make(self.spark, each.table).createOrReplaceTempView(name)
        frame = self.spark.sql(planned.text(names), args=dict(values) or None)
        if is_connect(self.spark):
            _ = frame.schema  # classic Spark has analyzed it already
        return frame


def _make_empty(spark: SparkSession, table: Table) -> DataFrame:
    return spark.createDataFrame([], from_arrow_schema(table.schema))


def _evaluate(
    spark: SparkSession, values: Mapping[str, Any], rows: pa.Table, texts: Sequence[str]
) -> pa.Table | None:
    """Evaluate expressions for each row; None if Spark can't."""
    name = f"frazil_{uuid4().hex}"
    spark.createDataFrame(rows, from_arrow_schema(rows.schema)).createOrReplaceTempView(name)
    listed = ", ".join(f"({text}) AS c{number}" for number, text in enumerate(texts))
    try:
        return spark.sql(f"SELECT {listed} FROM {name}", args=dict(values) or None).toArrow()
    except PySparkException:
        return None
    finally:
        spark.catalog.dropTempView(name)


@contextmanager
def _temporary_views(running: SparkSession) -> Iterator[list[str]]:
    """Yield a list of temporary views, which are dropped at the end."""
    views: list[str] = []
    # Spark would also log the error that is raised.
    log = PySparkLogger.getLogger("SQLQueryContextLogger")
    was_disabled, log.disabled = log.disabled, True
    try:
        yield views
    finally:
        log.disabled = was_disabled
        # Spark Connect resolves views on each run; otherwise the DataFrame is already resolved.
        for name in views if not is_connect(running) else ():
            running.catalog.dropTempView(name)
