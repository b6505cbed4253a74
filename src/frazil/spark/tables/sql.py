"""SQL on a repository: `frazil.spark.sql`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from frazil.arguments import verb
from frazil.spark.runtime import is_connect
from frazil.spark.tables.data_source import session
from frazil.spark.tables.read import is_ansi, make_frame, reads_plainly, time_zone_of
from frazil.spark.tables.statements import call, describe
from frazil.tables.sql_queries import PlannedQuery, Query, parse_query, plan_query
from frazil.tables.sql_statements import Call, Explain, name_parameters, parse_statement
from frazil.tables.table_options import DEFAULT_TARGET_BYTES, Options
from frazil.tables.table_source import AnyRepository, Source, open_source
from frazil.urls import make_ref, parse_bytes

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
    authorize: Sequence[str] = (),
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

    Parameters
    ----------
    repo
        Repository, or its URL.
    query
        One query or other statement in Spark SQL.
    args
        Values of the query's parameters: a mapping for `:name`, a sequence for `?`, as `spark.sql` has.
    group
        Path of the group whose arrays are tables.
    branch, tag, snapshot, as_of
        Version to read; by default the one in the URL, else the branch main.
    authorize
        URL prefixes of containers whose virtual chunks may be read; `*` means all.
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
    options = Options(
        ref=make_ref(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of),
        group=group,
        authorize=tuple(authorize),
        target_bytes=parse_bytes(target_size),
        time_zone=time_zone_of(running),
        is_ansi=is_ansi(running),
        engine_filters=True,
    )
    statement = parse_statement(text, values)
    inner = statement.query if isinstance(statement, Explain) else text
    is_query = statement is None or isinstance(statement, Explain)
    parsed = _parse(running, inner, values) if is_query else None
    source = open_source(options, repo)
    match statement:
        case None:
            assert parsed is not None
            return ask(running, source, parsed, values)
        case Explain(mode):
            assert parsed is not None
            return _explain(running, source, parsed, values, mode)
        case Call():
            return call(running, source, statement)
    return describe(running, source, statement)


def _parse(running: SparkSession, text: str, values: Mapping[str, Any]) -> Query:
    return parse_query(text, pushes_down=reads_plainly(running), args=values)


def ask(
    running: SparkSession, source: Source, query: Query, values: Mapping[str, Any]
) -> DataFrame:
    """Return the DataFrame of a query."""
    with _temporary_views(running) as views:
        return _ask(running, source, query, values, views)[1]


def _explain(
    running: SparkSession, source: Source, query: Query, values: Mapping[str, Any], mode: str
) -> DataFrame:
    """Return what Frazil reads for a query, and Spark's plan, as one row."""
    with _temporary_views(running) as views:
        planned, _ = _ask(running, source, query, values, views)
        names = views[-len(planned.tables) :] if planned.tables else []
        text = f"EXPLAIN {mode} {planned.text(names)}"
        found = running.sql(text, args=_args_of(planned, values)).first()
    version = "" if source.options.ref is None else f" ({source.options.ref})"
    lines = [
        "== Frazil Scan Plan ==",
        f"Repository: {source.repository.storage.place}",
        f"Snapshot: {source.session.snapshot_id}{version}",
        *planned.explain(),
        "",
        "" if found is None else found[0],
    ]
    return running.createDataFrame([("\n".join(lines),)], "plan string")


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


def _ask(
    running: SparkSession,
    source: Source,
    query: Query,
    values: Mapping[str, Any],
    views: list[str],
) -> tuple[PlannedQuery, DataFrame]:
    """Run a query on temporary views created for it; their names are added to `views`."""
    planned = plan_query(source, query)
    names = [f"frazil_{uuid4().hex}" for _ in planned.tables]
    views += names
    for name, (_, table) in zip(names, planned.tables, strict=True):
        make_frame(running, table).createOrReplaceTempView(name)
    try:
        frame = running.sql(planned.text(names), args=_args_of(planned, values))
        if is_connect(running):
            _ = frame.schema  # classic Spark has analyzed it already
    except AnalysisException as error:
        if query.uses_unnamed or _UNKNOWN_COLUMN not in (error.getCondition() or ""):
            raise
        # Retry with all columns, so that Spark's error suggests from all of them.
        return _ask(running, source, replace(query, uses_unnamed=True), values, views)
    return planned, frame


def _args_of(planned: PlannedQuery, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of parameters that remain: those of a pushed-down predicate are inserted."""
    return dict(values) if values and planned.aggregates is None else None
