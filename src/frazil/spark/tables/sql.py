"""SQL queries on a repository: `frazil.spark.sql`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from frazil.repository.locate import read_version
from frazil.spark.runtime import is_connect
from frazil.spark.tables.data_source import session
from frazil.spark.tables.read import is_ansi, make_frame, reads_plainly, time_zone_of
from frazil.tables.aggregates import Query, Summaries, SumQuery, TableUse, find_sums, parse_query
from frazil.tables.columns import find_columns, list_arrays
from frazil.tables.predicates import find_unknown
from frazil.tables.scan_plan import (
    TABLES,
    AnyRepository,
    Source,
    choose,
    find_branch,
    open_source,
    open_table,
)
from frazil.tables.table_options import DEFAULT_TARGET_BYTES, Options, Table, parse_moment
from frazil.urls import BranchRef, NamedRef, Ref, make_ref, parse_bytes

_UNKNOWN_COLUMN = "UNRESOLVED_COLUMN"
GROUP_VIEW = "cells"
"""Name of the table of all arrays of the group."""
TABLE_FOLDER = "repo"
"""Qualifier of the metadata tables."""


def sql(
    repo: AnyRepository,
    query: str,
    *,
    spark: SparkSession | None = None,
    group: str = "/",
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    authorize: Sequence[str] = (),
    target_size: int | str = DEFAULT_TARGET_BYTES,
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
    spark
        Spark session; by default the active one, else a new one.
    group
        Path of the group whose arrays are tables.
    branch, tag, snapshot, as_of
        Version to read; by default the one in the URL, else the branch main.
    authorize
        URL prefixes of containers whose virtual chunks may be read; `*` means all.
    target_size
        Approximate size of a partition, in bytes or such as `128MB`.

    Returns
    -------
    DataFrame
        Result of the query.

    Raises
    ------
    InvalidInputError
        If the text is not one query.
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
        if parsed.words is None or _UNKNOWN_COLUMN not in (error.getCondition() or ""):
            raise
        # Retry with all columns, so that Spark's error suggests from all of them.
        return _ask(running, source, replace(parsed, words=None), views)
    finally:
        log.disabled = was_disabled
        # Spark Connect resolves views on each run; otherwise the DataFrame is already resolved.
        for name in views if not is_connect(running) else ():
            running.catalog.dropTempView(name)


def _ask(running: SparkSession, source: Source, query: Query, views: list[str]) -> DataFrame:
    """Run a query on temporary views created for it; their names are added to `views`."""
    summed = _find_sums(source, query)
    if summed is not None:
        table, query_of_sums = summed
        return _analyzed(running, query_of_sums.text(_add_view(running, table, views)))
    names: list[tuple[TableUse, str]] = []
    for use in query.uses:
        asked = _find_table(source, use, query)
        if asked is not None:
            names.append((use, _add_view(running, open_table(asked), views)))
    return _analyzed(running, query.replaced(names))


def _add_view(running: SparkSession, table: Table, views: list[str]) -> str:
    views.append(f"frazil_{uuid4().hex}")
    make_frame(running, table).createOrReplaceTempView(views[-1])
    return views[-1]


def _analyzed(running: SparkSession, text: str) -> DataFrame:
    frame = running.sql(text)
    if is_connect(running):
        _ = frame.schema  # classic Spark has analyzed it already
    return frame


def _find_sums(source: Source, query: Query) -> tuple[Table, SumQuery] | None:
    """Return partial aggregates and the query that combines them; None if it can't be pushed down."""
    if len(query.uses) != 1 or not query.uses[0].is_alone or query.uses[0].folder:
        return None
    (use,) = query.uses
    asked = _find_table(source, use, query)
    if asked is None:
        return None
    chosen = choose(asked)
    if find_unknown(chosen.condition) is not None:
        return None
    coordinates = {each.name for each in chosen.columns.all if each.kind != "variable"}
    sums = find_sums(query.text, use, chosen.columns.types, coordinates)
    if sums is None:
        return None
    return Summaries(chosen, sums.groups, tuple(sums.partials.values())), sums


def _find_table(source: Source, use: TableUse, query: Query) -> Source | None:
    """Return the source to read for a table in a query; None if it is not of the repository."""
    at_version = _at_version(source, use)
    if use.folder.lower() == TABLE_FOLDER and use.name.lower() in TABLES:
        return replace(at_version, options=replace(source.options, table=use.name.lower()))
    if use.folder:
        return None
    arrays = list_arrays(at_version.session, source.options.group)
    array = _find_name(use.name, arrays)
    if array is None and use.name.lower() != GROUP_VIEW:
        return None
    variables = None if array is None else (array,)
    columns = find_columns(at_version.session, source.options.group, variables)
    needed = [each.name for each in columns.all if query.needs(each.name)]
    options = replace(
        source.options,
        variables=variables,
        # A table needs at least one column, even if only rows are counted.
        columns=tuple(needed or [columns.all[0].name]),
        where=use.where,
        qualifiers=frozenset({use.alias.lower()}),
        needs_qualifier=not use.is_alone,
    )
    return replace(at_version, options=options)


def _find_name(name: str, names: Sequence[str]) -> str | None:
    if name in names:
        return name
    found = [each for each in names if each.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def _at_version(source: Source, use: TableUse) -> Source:
    ref: Ref
    if use.version is not None:
        ref = NamedRef(use.version)
    elif use.as_of is not None:
        moment = parse_moment("TIMESTAMP AS OF", use.as_of, source.options.time_zone)
        at = source.options.ref
        branch = at.name if isinstance(at, BranchRef) else find_branch(source, "TIMESTAMP AS OF")
        ref = BranchRef(branch, moment)
    else:
        return source
    return replace(source, session=read_version(source.repository, ref))
