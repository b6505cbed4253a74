"""SQL queries on a repository: `frazil.spark.sql`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from frazil.arguments import verb
from frazil.spark.runtime import is_connect
from frazil.spark.tables.data_source import session
from frazil.spark.tables.read import is_ansi, make_frame, reads_plainly, time_zone_of
from frazil.tables.sql_queries import Query, parse_query, plan_query
from frazil.tables.table_options import DEFAULT_TARGET_BYTES, Options
from frazil.tables.table_source import AnyRepository, Source, open_source
from frazil.urls import make_ref, parse_bytes

_UNKNOWN_COLUMN = "UNRESOLVED_COLUMN"


@verb()
def sql(
    repo: AnyRepository,
    query: str,
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
    """Run a SQL query on a repository, at one version.

    Each array of the group is a table with its name and its coordinates. `cells` has all arrays, and
    `repo.…` are the metadata tables. Other names are Spark's tables and views. Only the chunks that the
    `WHERE` clause leaves and the columns the query names are read. A table followed by
    `VERSION AS OF 'name'` or `TIMESTAMP AS OF 'time'` is read at that version.

    Parameters
    ----------
    repo
        Repository, or its URL.
    query
        One `SELECT` or `WITH` query in Spark SQL.
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
        Result of the query.

    Raises
    ------
    InvalidInputError
        If the text is not one query.

    Examples
    --------
    >>> sql("s3://bucket/weather", "SELECT time, avg(t2m) FROM t2m WHERE lat > 60 GROUP BY time").show()
    """
    running = spark or SparkSession.getActiveSession() or session()
    parsed = parse_query(query, pushes_down=reads_plainly(running))
    options = Options(
        ref=make_ref(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of),
        group=group,
        authorize=tuple(authorize),
        target_bytes=parse_bytes(target_size),
        time_zone=time_zone_of(running),
        is_ansi=is_ansi(running),
        engine_filters=True,
    )
    source = open_source(options, repo)
    views: list[str] = []
    # Spark would also log the error that is raised.
    log = PySparkLogger.getLogger("SQLQueryContextLogger")
    was_disabled, log.disabled = log.disabled, True
    try:
        return _ask(running, source, parsed, views)
    except AnalysisException as error:
        if parsed.uses_unnamed or _UNKNOWN_COLUMN not in (error.getCondition() or ""):
            raise
        # Retry with all columns, so that Spark's error suggests from all of them.
        return _ask(running, source, replace(parsed, uses_unnamed=True), views)
    finally:
        log.disabled = was_disabled
        # Spark Connect resolves views on each run; otherwise the DataFrame is already resolved.
        for name in views if not is_connect(running) else ():
            running.catalog.dropTempView(name)


def _ask(running: SparkSession, source: Source, query: Query, views: list[str]) -> DataFrame:
    """Run a query on temporary views created for it; their names are added to `views`."""
    planned = plan_query(source, query)
    names = [f"frazil_{uuid4().hex}" for _ in planned.tables]
    views += names
    for name, (_, table) in zip(names, planned.tables, strict=True):
        make_frame(running, table).createOrReplaceTempView(name)
    frame = running.sql(planned.text(names))
    if is_connect(running):
        _ = frame.schema  # classic Spark has analyzed it already
    return frame
